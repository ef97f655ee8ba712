package scan

import (
	"fmt"
	"strconv"

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
	query   *Query
	days    []int64 // starts of the local days and the end of the last one, Unix seconds
	until   int64   // Unix seconds
	points  []int64 // starts of the points and the end of the last one, Unix seconds
	totals  *table
	series  *table
	tables  []*table
	texts   map[segment.Field]*dictionary // by domain
	funnels []funnelCount
	props   map[string]*propertyCount
}

// New returns a Scanner. The query must not change while it is in use.
func New(q *Query) *Scanner {
	s := &Scanner{query: q, totals: newTable(), series: newTable(), tables: make([]*table, len(q.Breakdowns)),
		texts:   make(map[segment.Field]*dictionary),
		funnels: make([]funnelCount, len(q.Funnels)), props: make(map[string]*propertyCount)}

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
		s.tables[i] = newTable()
	}
	for i := range s.funnels {
		s.funnels[i] = newFunnelCount(len(q.Funnels[i].Steps))
	}
	return s
}

// Add counts a segment. Each visit must be added once. A segment with more than 2^28 visitors is
// refused.
func (s *Scanner) Add(g *segment.Segment) error {
	if len(g.New) >= 1<<28 {
		return fmt.Errorf("scan: segment of %d visits", len(g.New))
	}

	p := s.newPass(g)
	p.collect()
	if len(p.facts) == 0 {
		return nil
	}

	p.countTotals()
	if len(s.points) > 1 {
		p.countSeries()
	}
	for i := range s.query.Breakdowns {
		p.countBreakdown(&s.query.Breakdowns[i], s.tables[i])
	}
	for i := range s.query.Funnels {
		p.countFunnel(&s.query.Funnels[i], &s.funnels[i])
	}
	if s.query.Properties != nil {
		p.countProperties()
	}
	return nil
}

// Result returns the figures of all segments added so far.
func (s *Scanner) Result() *Result {
	r := &Result{Breakdowns: make([]map[string]Figures, len(s.tables)), Properties: make(map[string]PropertyCount)}

	r.Totals = s.totals.row("").figures()
	if len(s.points) > 1 {
		r.Points = make([]Figures, len(s.points)-1)
		for i := range r.Points {
			r.Points[i] = s.series.row(strconv.Itoa(i)).figures()
		}
	}

	for i, t := range s.tables {
		r.Breakdowns[i] = make(map[string]Figures, len(t.rows))
		for value, row := range t.rows {
			r.Breakdowns[i][value] = row.figures()
		}
	}

	for i := range s.funnels {
		r.Funnels = append(r.Funnels, s.funnels[i].visitors())
	}
	for name, count := range s.props {
		r.Properties[name] = PropertyCount{count.events, len(count.values)}
	}
	return r
}
