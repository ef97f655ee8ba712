package scan

import (
	"maps"

	"github.com/tallygate/tallygate/db/model"
)

// Unknown counts the parts of Figures of which an import does not say everything. Rates leave them
// out.
type Unknown struct {
	VisitTime  int64 // visits without time in view
	ViewTime   int64 // page views without time in view
	Bounce     int64 // visits that may or may not have bounced
	Exit       int64 // of a page: page views without exits
	Conversion int64 // visitors who may or may not have made a key event
	Visit      int64 // page views without visits and visitors
}

func (u *Unknown) add(other *Unknown) {
	u.VisitTime += other.VisitTime
	u.ViewTime += other.ViewTime
	u.Bounce += other.Bounce
	u.Exit += other.Exit
	u.Conversion += other.Conversion
	u.Visit += other.Visit
}

// UnknownOf returns what is unknown of the figures, all 0 for those without imports.
func (f *Figures) UnknownOf() Unknown {
	if f.Unknown == nil {
		return Unknown{}
	}
	return *f.Unknown
}

// Add adds figures that have no visitor in common with f. Neither shares memory with the other.
func (f *Figures) Add(other *Figures) {
	f.Visitors += other.Visitors
	f.Visits += other.Visits
	f.Pageviews += other.Pageviews
	f.Bounces += other.Bounces
	f.Exits += other.Exits
	f.VisitMS += other.VisitMS
	f.ViewMS += other.ViewMS
	f.ScrollSum += other.ScrollSum
	f.Scrolled += other.Scrolled
	f.Events += other.Events
	f.Conversions += other.Conversions
	f.Converted += other.Converted

	if len(other.Revenue) > 0 {
		f.Revenue = maps.Clone(f.Revenue)
		for currency, r := range other.Revenue {
			f.addRevenue(currency, r)
		}
	}
	if other.Unknown != nil {
		sum := f.UnknownOf()
		sum.add(other.Unknown)
		f.Unknown = &sum
	}
}

// ImportState says whether figures contain those of imports. Of two states of one answer, the
// greater one describes it.
type ImportState uint8

// The states.
const (
	ImportNone      ImportState = iota // there are none in the period
	ImportIncluded                     // all of the period
	ImportNoValues                     // without daily sums of a source that has no such values
	ImportWholeDays                    // without daily sums of days that the report divides
	ImportFiltered                     // without daily sums, because they cannot be filtered
)

// Imported has the figures of imports for a query, and what they lack. Imports have no properties.
type Imported struct {
	Totals     Figures
	Points     []Figures
	Hours      []Figures
	Breakdowns []map[string]Figures
	Funnels    [][]int64

	State  ImportState   // of the totals
	Series ImportState   // of the points
	Rows   []ImportState // of the breakdowns

	WithoutHours bool // days of the period have daily sums

	Services []ImportedDays // with days of the period
}

// ImportedDays are the days of an import, the first and the last one included.
type ImportedDays struct {
	Source      model.ImportSource
	First, Last model.Day
}

// NewImported returns empty figures for a query.
func NewImported(q *Query) *Imported {
	m := &Imported{
		Points: make([]Figures, max(len(q.Points)-1, 0)), Hours: make([]Figures, max(len(q.Hours)-1, 0)), Breakdowns: make([]map[string]Figures, len(q.Breakdowns)),
		Funnels: make([][]int64, len(q.Funnels)), Rows: make([]ImportState, len(q.Breakdowns)),
	}
	for i := range m.Breakdowns {
		m.Breakdowns[i] = make(map[string]Figures)
	}
	for i := range m.Funnels {
		m.Funnels[i] = make([]int64, len(q.Funnels[i].Steps))
	}
	return m
}

// Raise raises the states of all parts.
func (m *Imported) Raise(to ImportState) {
	m.State, m.Series = max(m.State, to), max(m.Series, to)
	for i := range m.Rows {
		m.Rows[i] = max(m.Rows[i], to)
	}
}

// AddRow adds the figures of a value of a breakdown.
func (m *Imported) AddRow(breakdown int, value string, f *Figures) {
	sum := m.Breakdowns[breakdown][value]
	sum.Add(f)
	m.Breakdowns[breakdown][value] = sum
}

// AddVisits adds what a Scanner has counted of imported visits, which have no time in view.
func (m *Imported) AddVisits(r *Result) {
	untimed := func(f Figures) *Figures {
		f.Unknown = &Unknown{VisitTime: f.Visits, ViewTime: f.Pageviews}
		return &f
	}

	m.Totals.Add(untimed(r.Totals))
	for i := range r.Points {
		m.Points[i].Add(untimed(r.Points[i]))
	}
	for i := range r.Hours {
		m.Hours[i].Add(untimed(r.Hours[i]))
	}
	for i, rows := range r.Breakdowns {
		for value, f := range rows.All() {
			m.AddRow(i, value, untimed(f))
		}
	}

	for i, steps := range r.Funnels {
		for n, visitors := range steps {
			m.Funnels[i][n] += visitors
		}
	}
	m.Raise(ImportIncluded)
}

// Include adds the figures of imports to a result, which must have been counted from other days.
func (r *Result) Include(m *Imported) {
	r.Imported = m
	r.Totals.Add(&m.Totals)
	for i := range r.Points {
		r.Points[i].Add(&m.Points[i])
	}
	for i := range r.Hours {
		r.Hours[i].Add(&m.Hours[i])
	}
	for i, rows := range r.Breakdowns {
		rows.include(m.Breakdowns[i])
	}

	for i := range r.Funnels {
		for n := range r.Funnels[i] {
			r.Funnels[i][n] += m.Funnels[i][n]
		}
	}
}

// include adds the figures of imports.
func (r *Rows) include(imported map[string]Figures) {
	r.imported = imported
	for value := range imported {
		if _, known := r.counted(value); !known {
			r.length++
		}
	}
}
