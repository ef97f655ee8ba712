// Package importer reads the exports of other analytics services. It reads a whole export and checks
// it before anything is stored, so that a damaged file changes nothing. docs/imports.md has the forms
// of the exports and what becomes of their fields.
package importer

import (
	"cmp"
	"fmt"
	"maps"
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
}

// Result holds the figures of an export.
type Result struct {
	reports.Import
	Days  int // with anything
	Files []File
	Late  int64 // rows of days with own figures
	Other int64 // rows of days before Since or after Until
	Notes []string
}

// File is a file of an export.
type File struct {
	Name   string
	Rows   int64
	Unused string // why it is not imported; empty: it is
}

// FileError is a mistake in a file of an export.
type FileError struct {
	File string
	Line int // 0: the whole file
	Text string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Text)
}

// format reads the tables of one service.
type format interface {
	// read reads a table. It returns why the table is not used, or "".
	read(t *table) (unused string, err error)
	// finish completes the result after the last table.
	finish(r *Result) error
}

// Sources are the services with exports that Read supports.
var Sources = []model.ImportSource{
	model.ImportPlausible, model.ImportUmami, model.ImportGoatCounter, model.ImportGA4,
}

// Read reads the export of a service: files, archives of files, or both.
func Read(source model.ImportSource, names []string, o Options) (*Result, error) {
	r := &Result{Import: reports.Import{Source: source}}
	days := &dayFilter{Options: o, result: r}

	var f format
	switch source {
	case model.ImportPlausible:
		f = &plausible{sums: newSums(days)}
	case model.ImportGA4:
		f = &ga4{sums: newSums(days)}
	case model.ImportUmami:
		f = &umami{hits: newHits(days)}
	case model.ImportGoatCounter:
		f = &goatCounter{hits: newHits(days)}
	default:
		return nil, fmt.Errorf("there is no source %q", source)
	}

	err := eachTable(names, source == model.ImportGA4, func(t *table) error {
		unused, err := f.read(t)
		if err != nil {
			return t.failed(err)
		}
		r.Files = append(r.Files, File{t.name, t.rows, unused})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := f.finish(r); err != nil {
		return nil, err
	}

	if r.Days == 0 {
		return nil, fmt.Errorf("nothing to import: %s", days.nothing())
	}
	return r, nil
}

// dayFilter decides which days are imported.
type dayFilter struct {
	Options
	result *Result
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
	from    map[tableDay]string // the file of each day of a table
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
	return &sums{days, make(map[figureKey]*reports.ImportFigure), make(map[tableDay]string)}
}

// once fails if another file has the day of a table as well.
func (s *sums) once(t *table, name string, day model.Day) error {
	key := tableDay{name, day}
	if other, ok := s.from[key]; ok && other != t.name {
		return fmt.Errorf("%s has %s on %v as well", other, name, day)
	}
	s.from[key] = t.name
	return nil
}

// at returns the sums of a value, to be changed.
func (s *sums) at(by model.ReportDimension, day model.Day, value string) (*reports.ImportFigure, error) {
	key := figureKey{by, day, value}
	if f, ok := s.figures[key]; ok {
		return f, nil
	}
	if len(s.figures) >= model.MaxImportFigures {
		return nil, fmt.Errorf("the export has more than %d daily sums. Import parts of it with --since and --until",
			model.MaxImportFigures)
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
