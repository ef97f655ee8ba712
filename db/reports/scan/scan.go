package scan

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// Result is what a query asked for.
type Result struct {
	Totals     Figures
	Points     []Figures            // one per point of the series
	Breakdowns []map[string]Figures // one per breakdown, by value; the empty value is none
	Funnels    [][]int64            // one per funnel: visitors who reached each step
	Properties map[string]PropertyCount
}

// PropertyCount says how often a property was carried.
type PropertyCount struct {
	Events int64 // events that carried it
	Values int   // distinct values
}

// Scanner counts a query over segments.
type Scanner struct {
	query    *Query
	days     []int64                       // starts of the local days and the end of the last one, Unix seconds
	until    int64                         // Unix seconds
	points   []int64                       // starts of the points and the end of the last one, Unix seconds
	visitors uint32                        // in the segments added, all
	visits   uint32                        // ditto
	texts    map[segment.Field]*dictionary // by domain

	totals  *table   // has one cell
	series  *table   // has a cell for each point
	tables  []*table // of the breakdowns
	funnels []funnelCount
	props   map[string]*propertyCount
}

// New returns a Scanner. The query must not change while it is in use.
func New(q *Query) *Scanner {
	s := &Scanner{
		query: q, texts: make(map[segment.Field]*dictionary),
		totals: newTable(1), series: newTable(max(len(q.Points)-1, 0)), tables: make([]*table, len(q.Breakdowns)),
		funnels: make([]funnelCount, len(q.Funnels)), props: make(map[string]*propertyCount),
	}

	for d := q.From; d.Compare(q.To.AddDays(1)) <= 0; d = d.AddDays(1) {
		s.days = append(s.days, d.Start(q.Zone).Unix())
	}

	s.until = s.days[len(s.days)-1]
	if !q.Until.IsZero() {
		s.until = min(s.until, q.Until.Unix())
	}

	for _, p := range q.Points {
		s.points = append(s.points, p.Unix())
	}
	for i := range s.tables {
		s.tables[i] = newTable(0)
		if _, ok := fieldOf(q.Breakdowns[i].By); !ok {
			s.tables[i] = newTable(slots(q.Breakdowns[i].By))
		}
	}
	for i := range s.funnels {
		s.funnels[i] = newFunnelCount(len(q.Funnels[i].Steps))
	}
	return s
}

// maxVisits bounds the visits of the segments that a Scanner takes, so that a stamp has room for
// each visitor's number.
const maxVisits = 1<<(32-stampDays) - 1

// Add counts a segment. Each visit must be added once. An error means that the segments of the
// Scanner would have 2^29 visits or more.
func (s *Scanner) Add(g *segment.Segment) error {
	if len(g.New) > maxVisits-int(s.visits) {
		return fmt.Errorf("scan: more than %d visits", maxVisits)
	}

	p := s.newPass(g)
	p.collect()
	if len(p.facts) > 0 {
		p.count()
	}

	for _, first := range g.New {
		s.visitors += uint32(first)
	}
	s.visits += uint32(len(g.New))
	return nil
}

// count adds the facts to everything that the query asks for, side by side. Each part writes its
// own table only.
func (p *pass) count() {
	p.number()

	parts := []func(){p.countTotals}
	if len(p.series.cells) > 0 {
		parts = append(parts, p.countSeries)
	}
	for i := range p.tables {
		parts = append(parts, func() { p.countBreakdown(&p.query.Breakdowns[i], p.tables[i]) })
	}
	for i := range p.funnels {
		parts = append(parts, func() { p.countFunnel(&p.query.Funnels[i], &p.funnels[i]) })
	}
	if p.query.Properties != nil {
		parts = append(parts, p.countProperties)
	}

	if len(p.facts) < parallelFrom {
		for _, part := range parts {
			part()
		}
		return
	}
	sideBySide(parts)
}

// parallelFrom is the number of visits from which starting goroutines costs less than it saves.
var parallelFrom = 2_000

// sideBySide runs parts on as many goroutines as there are processors.
func sideBySide(parts []func()) {
	var next atomic.Int32
	var running sync.WaitGroup

	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		running.Go(func() {
			for n := int(next.Add(1)); n <= len(parts); n = int(next.Add(1)) {
				parts[n-1]()
			}
		})
	}
	running.Wait()
}

// number numbers the texts of the breakdowns and makes room for their cells.
func (p *pass) number() {
	begun := make(map[segment.Field]bool)
	for i, t := range p.tables {
		field, ok := fieldOf(p.query.Breakdowns[i].By)
		if !ok {
			continue
		}

		domain := field.Domain()
		if !begun[domain] {
			begun[domain] = true
			p.begin(domain)
		}
		t.grow(len(p.texts[domain].texts))
	}
}

// Result returns the figures of all segments added so far.
func (s *Scanner) Result() *Result {
	r := &Result{Totals: s.totals.cells[0].Figures, Breakdowns: make([]map[string]Figures, len(s.tables)),
		Properties: make(map[string]PropertyCount)}

	if len(s.points) > 1 {
		r.Points = make([]Figures, len(s.series.cells))
		for i := range r.Points {
			r.Points[i] = s.series.cells[i].Figures
		}
	}
	for i, t := range s.tables {
		r.Breakdowns[i] = t.byText(s.text(s.query.Breakdowns[i].By))
	}

	for i := range s.funnels {
		r.Funnels = append(r.Funnels, s.funnels[i].visitors())
	}
	for name, count := range s.props {
		r.Properties[name] = PropertyCount{count.events, len(count.values)}
	}
	return r
}

// text returns the function that gives the value of a row of a dimension.
func (s *Scanner) text(by Dimension) func(number int) string {
	field, ok := fieldOf(by)
	if !ok {
		return func(slot int) string { return slotText(by, slot) }
	}
	if d := s.texts[field.Domain()]; d != nil {
		return func(number int) string { return d.texts[number] }
	}
	return nil // no segment was added, so the table is empty
}
