package scan

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// Result is what a query asked for.
type Result struct {
	Totals     Figures
	Points     []Figures      // one per point of the series
	Hours      []Figures      // ditto, of Query.Hours
	Breakdowns []*Rows        // one per breakdown
	Funnels    [][]int64      // one per funnel: visitors who reached each step
	Journeys   []*JourneyNode // one per journey, without imports
	Cohorts    []Cohort       // one per week that Query.Cohorts asks for, without imports
	Numbers    []*NumberCount // one per question of Query.Numbers, without imports
	Properties map[string]PropertyCount
	Imported   *Imported // what of it imports contribute; nil without imports in the period
}

// PropertyCount says how often a property was carried.
type PropertyCount struct {
	Events int64 // events that carried it
	Values int   // distinct values
}

// Scanner counts a query over segments.
type Scanner struct {
	ctx      context.Context // of the count
	budget   *Budget
	query    *Query
	days     []int64                       // starts of the local days, or of their counted part, and the end of the last one, Unix seconds
	until    int64                         // Unix seconds
	points   []int64                       // starts of the points and the end of the last one, Unix seconds
	hours    []int64                       // ditto, of the hours
	visitors uint32                        // in the segments added, all
	visits   uint32                        // ditto
	texts    map[segment.Field]*dictionary // by domain
	names    *sourceNames                  // nil if the query does not ask for them
	copies   map[string]string             // see copiesOf
	addsUp   bool                          // rollups have all that the query asks for

	totals   *table   // has one bucket
	series   *table   // has a bucket for each point
	hourly   *table   // has a bucket for each hour
	tables   []*table // of the breakdowns
	funnels  []funnelCount
	journeys []*journeyCount
	cohorts  *cohortCount // nil if the query asks for none
	counted  []*numberCount
	props    map[string]*propertyCount

	conditions []condition      // of the filters
	compiled   [][]compiledStep // of the funnels
	origins    []compiledStep   // of the journeys

	// The memory of the current facts, which those of the next day use again, and that of lists.
	facts  []fact
	sums   []sums
	pairs  []segment.Pair
	kept   []bool // visits that the filters keep
	having []bool // visits that one filter matches
}

// New is NewWithin without a bound.
func New(q *Query) *Scanner { return NewWithin(context.Background(), q, nil) }

// NewWithin returns a Scanner. Its methods fail when ctx ends, and with ErrBudget when the budget
// is used up. The query must not change while it is in use.
func NewWithin(ctx context.Context, q *Query, budget *Budget) *Scanner {
	s := &Scanner{
		ctx: ctx, budget: budget,
		query: q, texts: make(map[segment.Field]*dictionary), copies: make(map[string]string), addsUp: q.addsUp(),
		totals: newTable(1, budget), series: newTable(max(len(q.Points)-1, 0), budget), hourly: newTable(max(len(q.Hours)-1, 0), budget),
		tables: make([]*table, len(q.Breakdowns)), funnels: make([]funnelCount, len(q.Funnels)),
		props: make(map[string]*propertyCount),
	}

	for d := q.From; d.Compare(q.To.AddDays(1)) <= 0; d = d.AddDays(1) {
		s.days = append(s.days, d.Start(q.Zone).Unix())
	}

	s.until = s.days[len(s.days)-1]
	if !q.Since.IsZero() {
		s.days[0] = max(s.days[0], q.Since.Unix())
	}
	if !q.Until.IsZero() {
		s.until = min(s.until, q.Until.Unix())
	}

	for _, p := range q.Points {
		s.points = append(s.points, p.Unix())
	}
	for _, h := range q.Hours {
		s.hours = append(s.hours, h.Unix())
	}
	for i := range s.tables {
		s.tables[i] = newTableOf(&q.Breakdowns[i], budget)
		if q.Breakdowns[i].By == SourceName && s.names == nil {
			s.names = newSourceNames(budget)
		}
	}
	for i := range s.funnels {
		s.funnels[i] = newFunnelCount(len(q.Funnels[i].Steps), budget)
		s.compiled = append(s.compiled, q.Funnels[i].compile())
	}
	for i := range q.Journeys {
		s.journeys = append(s.journeys, newJourneyCount(&q.Journeys[i], budget))
		s.origins = append(s.origins, q.Journeys[i].From.compile())
	}
	if q.Cohorts != nil {
		s.cohorts = &cohortCount{begin: q.From.Monday().Number()}
	}
	for i := range q.Numbers {
		s.counted = append(s.counted, newNumberCount(&q.Numbers[i], len(s.series.buckets), budget))
	}
	for i := range q.Filters {
		s.conditions = append(s.conditions, q.Filters[i].compile())
	}
	return s
}

// maxVisits bounds the visits of the segments that a Scanner takes, so that a stamp has room for
// each visitor's number.
const maxVisits = 1<<(32-stampDays) - 1

// Add counts a segment. Each visit must be added once. It fails if the segments of the Scanner
// would have 2^29 visits or more; after an error, the Scanner must not be used again.
func (s *Scanner) Add(g *segment.Segment) error { return s.addDays(g, nil) }

// addDays is Add for those UTC days of the segment that are set in only; nil means all.
func (s *Scanner) addDays(g *segment.Segment, only []bool) error {
	if len(g.New) > maxVisits-int(s.visits) {
		return fmt.Errorf("scan: more than %d visits", maxVisits)
	}

	// One day after the other, so that its facts stay in the processor's cache.
	p, err := s.newPass(g)
	if err != nil {
		return err
	}
	begin := 0
	for n, d := range g.Days {
		end := begin + int(d.Visits)
		if only == nil || only[n] {
			if err := p.addDay(n, begin, end); err != nil {
				return err
			}
		}
		begin = end
	}

	s.visits += uint32(len(g.New))
	s.facts, s.sums = p.facts, p.sums
	return nil
}

// maxBlock is how many visits of a day are counted at once, with the last one's visitor's other
// visits. It bounds the memory of facts.
var maxBlock = 1 << 15

// addDay counts the UTC day n of the segment, whose visits are those from begin before end.
func (p *pass) addDay(n, begin, end int) error {
	w := p.window(n)
	for begin < end {
		next := min(begin+maxBlock, end)
		for next < end && p.g.New[next] == 0 {
			next++
		}

		if err := p.err(); err != nil {
			return err
		}
		p.visitors = p.collect(&w, begin, next, p.visitors)
		if len(p.facts) > 0 {
			if err := p.prepare(); err != nil {
				return err
			}
			p.numberFacts()
			p.count(&w)
		}
		begin = next
	}
	return p.err()
}

// prepare computes what counting needs of the segment, once.
func (p *pass) prepare() error {
	if p.ready {
		return nil
	}
	p.ready = true
	if err := p.number(); err != nil {
		return err
	}

	for i := range p.query.Breakdowns {
		if by := p.query.Breakdowns[i].By; isTime(by) {
			p.intervals = append(p.intervals, p.timeIntervals(by))
		} else {
			p.intervals = append(p.intervals, intervals{})
		}
	}
	p.intervals = append(p.intervals, p.pointIntervals(p.points), p.pointIntervals(p.hours))

	for _, steps := range p.compiled {
		p.steps = append(p.steps, p.stepsOf(steps))
	}
	p.starts = p.stepsOf(p.origins)
	for _, journey := range p.journeys {
		journey.pages.beginSparse(p.g.Texts[segment.Path])
	}
	if p.cohorts != nil {
		p.weeks = p.weekIntervals()
	}
	if len(p.counted) > 0 {
		p.parsed = newNumbersOf(p.g)
	}
	for _, c := range p.counted {
		p.asked = append(p.asked, p.askedOf(c))
	}
	return p.err()
}

// count adds the facts of a window to everything that the query asks for, side by side. Each part
// writes its own table only.
func (p *pass) count(w *window) {
	parts := []func(){p.countTotals}
	if len(p.series.buckets) > 0 {
		parts = append(parts, func() { p.countAt(p.series, &p.intervals[len(p.tables)], w) })
	}
	if len(p.hourly.buckets) > 0 {
		parts = append(parts, func() { p.countAt(p.hourly, &p.intervals[len(p.tables)+1], w) })
	}
	for i := range p.tables {
		parts = append(parts, func() { p.countBreakdown(i, w) })
	}
	for i := range p.funnels {
		parts = append(parts, func() { p.countFunnel(p.steps[i], &p.funnels[i], w) })
	}
	for i, journey := range p.journeys {
		parts = append(parts, func() { p.countJourney(&p.starts[i], journey, w) })
	}
	if p.cohorts != nil {
		parts = append(parts, p.countCohorts)
	}
	for i := range p.asked {
		parts = append(parts, func() { p.countNumbers(&p.asked[i], w) })
	}
	if p.query.Properties != nil {
		parts = append(parts, func() { p.countProperties(w) })
	}

	p.sideBySide(parts, len(p.facts))
}

// parallelFrom is the number of visits or texts from which starting goroutines costs less than it
// saves.
var parallelFrom = 2_000

// sideBySide runs parts that work on so many visits or texts, on as many goroutines as there are
// processors. It leaves out the parts that follow the end of the count.
func (s *Scanner) sideBySide(parts []func(), n int) {
	if n < parallelFrom {
		for _, part := range parts {
			part()
		}
		return
	}

	var next atomic.Int32
	work := func() {
		for n := int(next.Add(1)); n <= len(parts) && s.err() == nil; n = int(next.Add(1)) {
			parts[n-1]()
		}
	}

	var running sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) - 1 {
		running.Go(func() {
			defer s.budget.Begin().End()
			work()
		})
	}
	work()
	running.Wait()
}

// number numbers the texts of the breakdowns, side by side, and makes room for their rows. Values
// of properties are numbered when an event of the property comes.
func (p *pass) number() error {
	var parts []func()
	texts, begun := 0, make(map[segment.Field]bool)
	for i := range p.tables {
		field, ok := fieldOf(p.query.Breakdowns[i].By)
		if domain := field.Domain(); ok && domain != segment.PropValue && !begun[domain] {
			begun[domain] = true
			d := p.dictionary(domain)
			if p.isSparse && domain != segment.EventName {
				d.beginSparse(p.g.Texts[domain])
				continue
			}
			parts = append(parts, func() { d.begin(p.g.Texts[domain]) })
			texts += len(p.g.Texts[domain])
		}
	}
	p.sideBySide(parts, texts)
	if err := p.err(); err != nil {
		return err
	}
	if p.names != nil {
		p.names.begin(p.texts[segment.Source])
	}

	for i, t := range p.tables {
		by := p.query.Breakdowns[i].By
		if field, ok := fieldOf(by); ok && field != segment.PropValue {
			if err := p.err(); err != nil {
				return err
			}
			t.grow(len(p.valuesOf(by).texts))
		}
	}
	return p.err()
}

// numberFacts numbers the texts of the facts, if only theirs are numbered, and makes room for their
// rows.
func (p *pass) numberFacts() {
	if !p.isSparse {
		return
	}

	for i, t := range p.tables {
		by := p.query.Breakdowns[i].By
		field, ok := fieldOf(by)
		if !ok || by == Event || by == Property {
			continue
		}

		d, texts := p.texts[field.Domain()], p.g.Texts[field.Domain()]
		column, eventPath := &p.g.Columns[field], &p.g.Columns[segment.EventPath]
		for n := range p.facts {
			visit := int(p.facts[n].visit)
			if by != Page {
				d.use(texts, column.At(visit))
				continue
			}
			for v, end := p.g.Views(visit); v < end; v++ {
				d.use(texts, column.At(int(v)))
			}
			for e, end := p.g.Events(visit); e < end; e++ {
				d.use(texts, eventPath.At(int(e)))
			}
		}
		if by == SourceName {
			p.names.begin(d)
		}
		t.grow(len(p.valuesOf(by).texts))
	}
}

// Result is End for a Scanner without a bound, which cannot fail.
func (s *Scanner) Result() *Result {
	r, _ := s.End()
	return r
}

// End returns the figures of all segments added so far. It fails as Add does, and then figures are
// missing.
func (s *Scanner) End() (*Result, error) {
	r := &Result{
		Totals: s.totals.buckets[0].Figures, Breakdowns: make([]*Rows, len(s.tables)), Properties: make(map[string]PropertyCount),
	}

	r.Points, r.Hours = s.series.figures(), s.hourly.figures()
	for i, t := range s.tables {
		r.Breakdowns[i] = s.rows(s.query.Breakdowns[i].By, t)
	}

	for i := range s.funnels {
		r.Funnels = append(r.Funnels, s.funnels[i].visitors())
	}
	for _, journey := range s.journeys {
		r.Journeys = append(r.Journeys, journey.result())
	}
	if s.cohorts != nil {
		r.Cohorts = s.cohorts.result(s.query.Cohorts)
	}
	for _, c := range s.counted {
		r.Numbers = append(r.Numbers, c.result(s))
	}
	for name, count := range s.props {
		r.Properties[name] = PropertyCount{count.events, len(count.values)}
	}
	return r, s.err()
}

// rows returns the rows of a dimension.
func (s *Scanner) rows(by Dimension, t *table) *Rows {
	if isTime(by) {
		texts := timeTexts[by]
		return newRows(by, t, texts, func(value string) (uint32, bool) {
			interval := slices.Index(texts, value)
			return uint32(max(interval, 0)), interval >= 0
		})
	}
	d := s.valuesOf(by)
	if by == Property {
		d = t.values
	}
	if d == nil {
		return &Rows{} // no segment was counted
	}
	rows := newRows(by, t, d.texts, d.number)
	rows.Other = d.hasOther && rows.has(OtherValue)
	return rows
}
