// Package importer reads the exports of other analytics services. It reads a whole export and
// checks it before anything is stored, so that a damaged file changes nothing. docs/owner/imports.md has
// the forms of the exports and what becomes of their fields.
package importer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// Options says which part of an export is imported.
type Options struct {
	Domains []string // of the site; their pages are not referrers

	// Since and Until are the first and the last day to import.
	Since, Until model.Day
	// BeforeLocal and BeforeUTC are the first days with the site's own figures. They are not
	// imported.
	BeforeLocal, BeforeUTC model.Day

	// Memory bounds about how many bytes the figures of the export take; 0: the limits of rows
	// alone.
	Memory int64
	// Count is called with the number of bytes that were read, uncompressed. Its error ends the
	// reading. nil: not called.
	Count func(bytes int) error
	// Client calls an API for a caller who must not see what it answers. nil: the command's own
	// client.
	Client *http.Client
	// Progress is called while an API is read, with the part that is done; nil: not called.
	Progress func(done float64)
}

// Result holds the figures of an export.
type Result struct {
	reports.Import
	Days  int // with anything
	Files []File
	Late  int64 // rows of days with own figures
	Other int64 // rows of days before Since or after Until
	Notes []model.ImportNote
}

// File is a file of an export.
type File struct {
	Name   string
	Rows   int64
	Unused model.ImportUnused // why it is not imported; empty: it is
}

// format reads the tables of one service.
type format interface {
	// read reads a table. It returns why the table is not used, or "".
	read(t *table) (unused model.ImportUnused, err error)
	// finish completes the result after the last table.
	finish(r *Result) error
}

// Sources are the services with exports that Read supports.
var Sources = []model.ImportSource{
	model.ImportPlausible, model.ImportUmami, model.ImportGA4, model.ImportMatomo,
}

// Read reads the export of a service: files, archives of files, or both.
func Read(source model.ImportSource, names []string, o Options) (*Result, error) {
	r, err := newReading(context.Background(), source, o)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := r.openFile(name); err != nil {
			return nil, err
		}
	}
	return r.finish()
}

// ReadInputs is Read for files that are open. It ends with an error when ctx does.
func ReadInputs(ctx context.Context, source model.ImportSource, files []Input, o Options) (*Result, error) {
	r, err := newReading(ctx, source, o)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := r.open(file); err != nil {
			return nil, err
		}
	}
	return r.finish()
}

func newReading(ctx context.Context, source model.ImportSource, o Options) (*reading, error) {
	result := &Result{Import: reports.Import{Source: source}}
	days := newDayFilter(ctx, o, result)
	r := &reading{
		ctx: ctx, lazy: source == model.ImportGA4, result: result, days: days, files: maxFiles, bytes: maxBytes,
	}

	switch source {
	case model.ImportPlausible:
		r.format = &plausible{sums: newSums(days, "imported_visitors")}
	case model.ImportGA4:
		r.format = &ga4{sums: newSums(days, "Date, Total users, Sessions, Views")}
	case model.ImportMatomo:
		r.format = &matomo{sums: newSums(days, "VisitsSummary.get.csv, Actions.get.csv")}
	case model.ImportUmami:
		r.format = &umami{hits: newHits(days)}
	default:
		return nil, fmt.Errorf("there is no source %q", source)
	}
	return r, nil
}

// take reads a table.
func (r *reading) take(t *table) error {
	unused, err := r.format.read(t)
	if err != nil {
		return t.failed(err)
	}
	r.result.Files = append(r.result.Files, File{t.name, t.rows, unused})
	return nil
}

// finish returns the result after the last table.
func (r *reading) finish() (*Result, error) {
	if err := r.format.finish(r.result); err != nil {
		return nil, err
	}
	return checked(r.result, r.days)
}

// checked returns a result that has days, with the notes about its rows.
func checked(r *Result, days *dayFilter) (*Result, error) {
	if r.Days == 0 {
		return nil, days.nothing()
	}

	for _, column := range slices.Sorted(maps.Keys(days.empty)) {
		r.Notes = append(r.Notes, model.ImportNote{Code: model.NoteEmptyRows, Count: days.empty[column], Column: column})
	}
	if len(days.renamed) > 0 {
		note := model.ImportNote{Code: model.NoteEventNames, Count: int64(len(days.renamed))}
		names := slices.Sorted(maps.Keys(days.renamed))
		for _, name := range names[:min(len(names), model.MaxNoteEvents)] {
			note.Events = append(note.Events, model.ImportedEvent{Name: model.Storable(name, maxNoteName), As: days.renamed[name]})
		}
		r.Notes = append(r.Notes, note)
	}
	return r, nil
}

// maxNoteName is the length of an event's name in a note, in characters.
const maxNoteName = 100

// dayFilter decides which days are imported, and keeps what the notes say about rows.
type dayFilter struct {
	Options
	ctx    context.Context
	result *Result
	spent  int64 // of Memory

	empty   map[string]int64  // rows that are skipped, by the column without a value
	renamed map[string]string // events by their names in the export, if these cannot be spelled
}

func newDayFilter(ctx context.Context, o Options, r *Result) *dayFilter {
	return &dayFilter{Options: o, ctx: ctx, result: r, empty: make(map[string]int64), renamed: make(map[string]string)}
}

// About how many bytes the parts of an export take in memory, maps included, apart from texts.
const (
	hitBytes    = 130
	textBytes   = 72
	originBytes = 400
	clientBytes = 300
	figureBytes = 420
	eventBytes  = 40
)

// spend counts bytes that stay in memory.
func (d *dayFilter) spend(bytes int) { d.spent += int64(bytes) }

// count counts bytes that were read.
func (d *dayFilter) count(bytes int) error {
	if d.Count == nil {
		return nil
	}
	return d.Count(bytes)
}

// fits fails after more bytes than Memory.
func (d *dayFilter) fits() error {
	if d.Memory > 0 && d.spent > d.Memory {
		return tooLarge("the export takes more than %d MB of memory. Import parts of it, by days", d.Memory>>20)
	}
	return nil
}

// keeps reports whether a row of a day of the site's time zone, or of UTC, is imported. It counts
// rows that are not.
func (d *dayFilter) keeps(day model.Day, utc bool) bool {
	before := d.BeforeLocal
	if utc {
		before = d.BeforeUTC
	}
	switch {
	case day >= before:
		d.result.Late++
	case day < d.Since || day > d.Until:
		d.result.Other++
	default:
		return true
	}
	return false
}

// nothing returns the failure of an export without days.
func (d *dayFilter) nothing() error {
	failure := &model.ImportFailure{Code: model.ImportNothing, Text: "nothing to import: the files have no rows"}
	switch {
	case d.result.Late > 0:
		failure.Text = fmt.Sprintf("nothing to import: %d rows are of days from %v on, which the site counts itself",
			d.result.Late, d.BeforeLocal)
		failure.Count, failure.First = d.result.Late, d.BeforeLocal
	case d.result.Other > 0:
		failure.Text = "nothing to import: no row is of the chosen days"
		failure.Count = d.result.Other
	}
	return failure
}

// skip counts a row that is not imported because a column has no value.
func (d *dayFilter) skip(column string) error {
	d.empty[column]++
	return nil
}

// tooLarge returns the failure of an export beyond a limit.
func tooLarge(format string, args ...any) *model.ImportFailure {
	return &model.ImportFailure{Code: model.ImportTooLarge, Text: fmt.Sprintf(format, args...)}
}

// sums collects the daily sums of a service.
type sums struct {
	days    *dayFilter
	totals  string // the table of the totals, for people
	figures map[figureKey]*reports.ImportFigure
	from    map[tableDay]*table // the file of each day of a table
}

type figureKey struct {
	by    model.ReportDimension
	day   model.Day
	value string
}

// tableDay is a day of a table, or of one column of a table.
type tableDay struct {
	table string
	day   model.Day
}

func newSums(days *dayFilter, totals string) *sums {
	return &sums{days, totals, make(map[figureKey]*reports.ImportFigure), make(map[tableDay]*table)}
}

// once fails if another file has the day of a table as well.
func (s *sums) once(t *table, name string, day model.Day) error {
	key := tableDay{name, day}
	if other, ok := s.from[key]; ok && other != t {
		return model.Damaged(model.FaultRepeatedDays, model.ImportValues{
			Name: other.name, Value: fmt.Sprintf("%s on %v", name, day), First: day, Last: day,
		})
	}
	s.from[key] = t
	return nil
}

// at returns the sums of a value, to be changed.
func (s *sums) at(by model.ReportDimension, day model.Day, value string) (*reports.ImportFigure, error) {
	key := figureKey{by, day, value}
	if f, ok := s.figures[key]; ok {
		return f, nil
	}
	if len(s.figures) >= model.MaxImportFigures {
		return nil, tooLarge("the export has more than %d daily sums. Import parts of it, by days", model.MaxImportFigures)
	}
	s.days.spend(figureBytes + len(value))
	if err := s.days.fits(); err != nil {
		return nil, err
	}
	f := &reports.ImportFigure{Dimension: by, Day: day, Value: strings.Clone(value)}
	s.figures[figureKey{by, day, f.Value}] = f
	return f, nil
}

// add adds sum to the sums of a value on its day.
func (s *sums) add(by model.ReportDimension, value string, sum *reports.ImportFigure) error {
	f, err := s.at(by, sum.Day, value)
	if err != nil {
		return err
	}
	for _, to := range []struct {
		sum  *int64
		more int64
	}{
		{&f.Visitors, sum.Visitors}, {&f.Visits, sum.Visits}, {&f.Pageviews, sum.Pageviews}, {&f.Bounces, sum.Bounces},
		{&f.Unbounced, sum.Unbounced}, {&f.Exits, sum.Exits}, {&f.Events, sum.Events},
	} {
		if *to.sum += to.more; *to.sum > model.MaxImportFigure {
			return model.Damaged(model.FaultLargeSum, model.ImportValues{First: sum.Day, Limit: model.MaxImportFigure})
		}
	}
	return nil
}

// addOrigin adds sum to a source, to the referrer and channel of an origin, and to the dimensions
// of its campaign that the service has.
func (s *sums) addOrigin(
	source string, from *origin, sum *reports.ImportFigure, campaign ...model.ReportDimension,
) error {
	values := map[model.ReportDimension]string{
		model.DimensionSource: source, model.DimensionReferrer: from.referrer,
		model.DimensionChannel: from.channel, model.DimensionUTMSource: from.campaign.Source,
		model.DimensionUTMMedium: from.campaign.Medium, model.DimensionUTMCampaign: from.campaign.Name,
		model.DimensionUTMContent: from.campaign.Content, model.DimensionUTMTerm: from.campaign.Term,
	}
	for _, by := range append([]model.ReportDimension{model.DimensionSource, model.DimensionReferrer, model.DimensionChannel}, campaign...) {
		if err := s.add(by, values[by], sum); err != nil {
			return err
		}
	}
	return nil
}

// finish sets the figures of the result, with the events of each day in its totals.
func (s *sums) finish(r *Result) error {
	dimensions := make(map[model.ReportDimension]bool)
	for _, key := range slices.Collect(maps.Keys(s.figures)) {
		if key.by == "" {
			continue
		}
		total, ok := s.figures[figureKey{day: key.day}]
		if !ok {
			return model.Damaged(model.FaultDayTotals, model.ImportValues{Value: s.totals, First: key.day})
		}
		dimensions[key.by] = true

		// Totals of reports leave out automatic events.
		if key.by == model.DimensionEvent && !model.IsAutomaticEvent(key.value) {
			total.Events += s.figures[key].Events
		}
	}
	for _, by := range model.ReportDimensions {
		if dimensions[by] {
			r.Dimensions = append(r.Dimensions, by)
		}
	}

	for _, f := range s.figures {
		r.Figures = append(r.Figures, *f)
	}
	slices.SortFunc(r.Figures, func(a, b reports.ImportFigure) int {
		return cmp.Or(cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Value, b.Value))
	})
	for i := range r.Figures {
		f := &r.Figures[i]
		if f.Dimension != "" {
			break // the totals have the least dimension
		}
		if r.Days++; r.Days == 1 {
			r.First = f.Day
		}
		r.Last = f.Day
		r.Totals.Visitors += f.Visitors
		r.Totals.Visits += f.Visits
		r.Totals.Pageviews += f.Pageviews
		r.Totals.Events += f.Events
	}
	return nil
}
