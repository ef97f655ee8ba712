// Package importer reads the exports of other analytics services. It reads a whole export and checks
// it before anything is stored, so that a damaged file changes nothing. docs/imports.md has the forms
// of the exports and what becomes of their fields.
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

	// Memory bounds about how many bytes the figures of the export take; 0: the limits of rows alone.
	Memory int64
	// Count is called with the number of bytes that were read, uncompressed. Its error ends the reading.
	// nil: not called.
	Count func(bytes int) error
	// Client calls an API for a caller who must not see what it answers. nil: the command's own client.
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

// FileError is a mistake in a file of an export.
type FileError struct {
	File string
	Line int // 0: the whole file
	Text string

	cause error
}

// Unwrap returns the error that Text describes, if there is one.
func (e *FileError) Unwrap() error { return e.cause }

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Text)
}

// Errors of a whole export are model.Errors of these codes.
const (
	CodeNothing  = "nothing_to_import"
	CodeTooLarge = "import_too_large"
)

// tooLarge returns the error of an export beyond a limit.
func tooLarge(format string, args ...any) error {
	return &textError{model.Error{Kind: model.Invalid, Code: CodeTooLarge, Message: fmt.Sprintf(format, args...)}}
}

// textError is a model.Error that reads as its message alone.
type textError struct{ shown model.Error }

func (e *textError) Error() string { return e.shown.Message }

// Unwrap returns the model.Error.
func (e *textError) Unwrap() error { return &e.shown }

// format reads the tables of one service.
type format interface {
	// read reads a table. It returns why the table is not used, or "".
	read(t *table) (unused model.ImportUnused, err error)
	// finish completes the result after the last table.
	finish(r *Result) error
}

// Sources are the services with exports that Read supports.
var Sources = []model.ImportSource{
	model.ImportPlausible, model.ImportUmami, model.ImportGoatCounter, model.ImportGA4, model.ImportMatomo,
}

// Read reads the export of a service: files, archives of files, or both.
func Read(source model.ImportSource, names []string, o Options) (*Result, error) {
	return read(context.Background(), source, o, func(r *reading) error {
		for _, name := range names {
			if err := r.openFile(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadInputs is Read for files that are open. It ends with an error when ctx does.
func ReadInputs(ctx context.Context, source model.ImportSource, files []Input, o Options) (*Result, error) {
	return read(ctx, source, o, func(r *reading) error {
		for _, file := range files {
			if err := r.open(file); err != nil {
				return err
			}
		}
		return nil
	})
}

func read(ctx context.Context, source model.ImportSource, o Options, files func(*reading) error) (*Result, error) {
	r := &Result{Import: reports.Import{Source: source}}
	days := &dayFilter{Options: o, ctx: ctx, result: r}

	var f format
	switch source {
	case model.ImportPlausible:
		f = &plausible{sums: newSums(days)}
	case model.ImportGA4:
		f = &ga4{sums: newSums(days)}
	case model.ImportMatomo:
		f = &matomo{sums: newSums(days)}
	case model.ImportUmami:
		f = &umami{hits: newHits(days)}
	case model.ImportGoatCounter:
		f = &goatCounter{hits: newHits(days)}
	default:
		return nil, fmt.Errorf("there is no source %q", source)
	}

	take := func(t *table) error {
		unused, err := f.read(t)
		if err != nil {
			return t.failed(err)
		}
		r.Files = append(r.Files, File{t.name, t.rows, unused})
		return nil
	}
	err := files(&reading{ctx: ctx, lazy: source == model.ImportGA4, take: take, days: days, files: maxFiles, bytes: maxBytes})
	if err != nil {
		return nil, err
	}
	if err := f.finish(r); err != nil {
		return nil, err
	}

	return checked(r, days)
}

// checked returns a result that has days.
func checked(r *Result, days *dayFilter) (*Result, error) {
	if r.Days == 0 {
		text := "nothing to import: " + days.nothing()
		return nil, &textError{model.Error{Kind: model.Invalid, Code: CodeNothing, Message: text}}
	}
	return r, nil
}

// dayFilter decides which days are imported.
type dayFilter struct {
	Options
	ctx    context.Context
	result *Result
	spent  int64 // of Memory
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

// nothing says why there are no days.
func (d *dayFilter) nothing() string {
	switch {
	case d.result.Late > 0:
		return fmt.Sprintf("%d rows are of days from %v on, which the site counts itself", d.result.Late, d.BeforeLocal)
	case d.result.Other > 0:
		return "no row is of the days from --since to --until"
	}
	return "the files have no rows"
}

// sums collects the daily sums of a service.
type sums struct {
	days    *dayFilter
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

func newSums(days *dayFilter) *sums {
	return &sums{days, make(map[figureKey]*reports.ImportFigure), make(map[tableDay]*table)}
}

// once fails if another file has the day of a table as well.
func (s *sums) once(t *table, name string, day model.Day) error {
	key := tableDay{name, day}
	if other, ok := s.from[key]; ok && other != t {
		return fmt.Errorf("%s has %s on %v as well", other.name, name, day)
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
		return nil, tooLarge("the export has more than %d daily sums. Import parts of it, by days (--since and --until)",
			model.MaxImportFigures)
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
			return fmt.Errorf("the sum of %v is larger than %d", sum.Day, int64(model.MaxImportFigure))
		}
	}
	return nil
}

// addOrigin adds sum to a source, to the referrer and channel of an origin, and to the dimensions of its campaign that
// the service has.
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
			return fmt.Errorf("the export has rows of %v and no totals of this day", key.day)
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

// eventName returns the name under which reports show an event of another service: in the form of
// event names, so that it merges with the site's own events of that name. For example, "Sign Up!"
// becomes sign_up.
func eventName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}

	slug := b.String()
	slug = strings.TrimRight(slug[:min(48, len(slug))], "_")
	return cmp.Or(slug, "event")
}
