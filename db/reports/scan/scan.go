package scan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db/model"
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
	totals  table
	series  table
	tables  []table
	funnels []funnelCount
	props   map[string]*propertyCount
}

// New returns a Scanner. The query must not change while it is in use.
func New(q *Query) *Scanner {
	s := &Scanner{query: q, totals: table{}, series: table{}, tables: make([]table, len(q.Breakdowns)),
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
		s.tables[i] = table{}
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
		r.Breakdowns[i] = make(map[string]Figures, len(t))
		for value, row := range t {
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

// fact is what a kept visit contributes to the period, computed once for all breakdowns.
type fact struct {
	visit     int    // index in the segment
	visitor   uint32 // number of the visitor within the segment, from 1
	user      uint32 // index of the user id; 0 for none
	days      uint8  // local days with a page view, a bit each
	converted uint8  // local days with a key event, a bit each
	begun     bool   // began in the period, with a page view
	sums      sums
}

// sums are the figures that add up without a set.
type sums struct {
	views, events, conversions int64
	viewMS, scroll, scrolled   int64
}

// sale is a purchase or refund in the period.
type sale struct {
	fact     int // index in facts
	event    int // index in the segment
	currency string
	revenue  Revenue
}

// pass is the count of one segment.
type pass struct {
	*Scanner
	g     *segment.Segment
	first int64 // Unix seconds of the segment's first midnight
	facts []fact
	sales []sale
	keys  []bool // by event name: whether it is a key event
	auto  []bool // by event name: whether it is an automatic event
	kind  []saleKind
}

// saleKind says what an event's name means for revenue.
type saleKind uint8

const (
	noSale saleKind = iota
	purchase
	refund
)

func (s *Scanner) newPass(g *segment.Segment) *pass {
	names := g.Texts[segment.EventName]
	p := &pass{Scanner: s, g: g, first: g.First.Start().Time().Unix(), keys: make([]bool, len(names)),
		auto: make([]bool, len(names)), kind: make([]saleKind, len(names))}

	for id, name := range names {
		p.keys[id] = s.query.KeyEvents[name]
		p.auto[id] = model.IsAutomaticEvent(name)
		switch name {
		case model.EventPurchase:
			p.kind[id] = purchase
		case model.EventRefund:
			p.kind[id] = refund
		}
	}
	return p
}

// window is the period's share of a UTC day, in seconds of the segment.
type window struct {
	from, to uint32   // nothing outside counts
	cuts     []uint32 // local midnights within, ascending
}

// window returns the share of the UTC day n of the segment.
func (p *pass) window(n int) window {
	begin := p.first + int64(n)*86_400
	end := begin + 86_400
	from, to := max(begin, p.days[0]), min(end, p.until)
	if from >= to {
		return window{}
	}

	w := window{from: uint32(from - p.first), to: uint32(to - p.first)}
	i, _ := slices.BinarySearch(p.days, from+1)
	for ; i < len(p.days) && p.days[i] < to; i++ {
		w.cuts = append(w.cuts, uint32(p.days[i]-p.first))
	}
	return w
}

// day returns the bit of the local day that a second lies on, or 0 outside the period.
func (w *window) day(second uint32) uint8 {
	if second < w.from || second >= w.to {
		return 0
	}

	bit := uint8(1)
	for _, cut := range w.cuts {
		if second >= cut {
			bit <<= 1
		}
	}
	return bit
}

// collect makes the facts of the visits that the filters keep.
func (p *pass) collect() {
	keep := p.filter()
	visitor, i := uint32(0), 0

	for n, d := range p.g.Days {
		w := p.window(n)
		for range d.Visits {
			visitor += uint32(p.g.New[i])
			if w.to > 0 && (keep == nil || keep[i]) {
				p.addFact(i, visitor, &w)
			}
			i++
		}
	}
}

// addFact adds the contribution of visit i, if it has one.
func (p *pass) addFact(i int, visitor uint32, w *window) {
	g := p.g
	f := fact{visit: i, visitor: visitor, user: g.Columns[segment.User].At(i)}

	from, to := g.Views(i)
	for v := from; v < to; v++ {
		day := w.day(g.ViewAt[v])
		if day == 0 {
			continue
		}
		f.days |= day
		f.sums.views++
		f.sums.viewMS += int64(g.ViewEngaged[v])
		f.sums.scroll += int64(g.Scroll[v])
		f.sums.scrolled += int64(min(g.Scroll[v], 1))
	}
	f.begun = to > from && w.day(g.Start[i]) != 0

	from, to = g.Events(i)
	for e := from; e < to; e++ {
		if day := w.day(g.EventAt[e]); day != 0 {
			p.addEvent(&f, int(e), day)
		}
	}

	if f.begun || f.sums.views > 0 || f.sums.events > 0 || to > from {
		p.facts = append(p.facts, f)
	}
}

// addEvent adds an event of the period to its visit's fact.
func (p *pass) addEvent(f *fact, e int, day uint8) {
	name := p.g.Columns[segment.EventName].At(e)
	if !p.auto[name] {
		f.sums.events++
	}
	if p.keys[name] {
		f.sums.conversions++
		f.converted |= day
	}

	if kind := p.kind[name]; kind != noSale {
		if currency := p.g.Text(segment.Currency, e); currency != "" {
			p.sales = append(p.sales, sale{len(p.facts), e, currency, revenueOf(kind, p.g.Value[e])})
		}
	}
}

// revenueOf returns the revenue of one purchase or refund. A refund's value is stored negative.
func revenueOf(kind saleKind, value int64) Revenue {
	if kind == refund {
		return Revenue{Refunded: -model.Money(value), Refunds: 1}
	}
	return Revenue{Gross: model.Money(value), Purchases: 1}
}

// addVisit adds all that a visit contributes to the cell of its value.
func (p *pass) addVisit(r *rows, id uint32, f *fact) {
	c := &r.cells[id]
	if f.begun {
		c.Visits++
		c.VisitMS += int64(p.g.Engaged[f.visit])
		c.Bounces += int64(p.g.Bounced[f.visit])
	}

	c.Pageviews += f.sums.views
	c.ViewMS += f.sums.viewMS
	c.ScrollSum += f.sums.scroll
	c.Scrolled += f.sums.scrolled
	c.Events += f.sums.events
	c.Conversions += f.sums.conversions
	r.meet(id, f, f.days)
	r.convert(id, f, f.converted)
}

func (p *pass) countTotals() {
	r := newRows(1)
	for i := range p.facts {
		p.addVisit(r, 0, &p.facts[i])
	}
	for _, sale := range p.sales {
		r.cells[0].addRevenue(sale.currency, sale.revenue)
	}
	p.totals.fold(r, func(int) string { return "" }, p.users())
}

// users returns the dictionary of user ids.
func (p *pass) users() []string { return p.g.Texts[segment.User] }

// countBreakdown counts the rows of a dimension.
func (p *pass) countBreakdown(b *Breakdown, to table) {
	switch b.By {
	case Page:
		p.countPages(to)
	case Event:
		p.countEvents(to)
	case Property:
		p.countProperty(b, to)
	case DayOfWeek, HourOfDay:
		p.countTimes(b.By, to)
	default:
		p.countVisits(fields[b.By], to)
	}
}

// countVisits counts by an attribute of the visit.
func (p *pass) countVisits(field segment.Field, to table) {
	texts := p.g.Texts[field.Domain()]
	column := &p.g.Columns[field]
	r := newRows(len(texts))

	for i := range p.facts {
		f := &p.facts[i]
		p.addVisit(r, column.At(f.visit), f)
	}
	for _, sale := range p.sales {
		id := column.At(p.facts[sale.fact].visit)
		r.cells[id].addRevenue(sale.currency, sale.revenue)
	}

	if field == segment.Exit {
		for id := range r.cells {
			r.cells[id].Exits = r.cells[id].Visits
		}
	}
	to.fold(r, func(id int) string { return texts[id] }, p.users())
}

// eachView calls take for the page views of the period, with the bit of their local day.
func (p *pass) eachView(take func(f *fact, view int, day uint8)) {
	p.eachDay(func(f *fact, w *window) {
		from, to := p.g.Views(f.visit)
		for v := from; v < to; v++ {
			if day := w.day(p.g.ViewAt[v]); day != 0 {
				take(f, int(v), day)
			}
		}
	})
}

// eachEvent calls take for the events of the period, with the bit of their local day.
func (p *pass) eachEvent(take func(f *fact, event int, day uint8)) {
	p.eachDay(func(f *fact, w *window) {
		from, to := p.g.Events(f.visit)
		for e := from; e < to; e++ {
			if day := w.day(p.g.EventAt[e]); day != 0 {
				take(f, int(e), day)
			}
		}
	})
}

// eachDay calls take for the facts with the window of their UTC day.
func (p *pass) eachDay(take func(*fact, *window)) {
	i, end := 0, 0
	for n, d := range p.g.Days {
		end += int(d.Visits)
		w := p.window(n)
		for ; i < len(p.facts) && p.facts[i].visit < end; i++ {
			take(&p.facts[i], &w)
		}
	}
}

// countPages counts by the page viewed. Events count where they happened.
func (p *pass) countPages(to table) {
	g := p.g
	texts := g.Texts[segment.Path]
	path, eventPath, exit := &g.Columns[segment.Path], &g.Columns[segment.EventPath], &g.Columns[segment.Exit]
	r := newRows(len(texts))

	p.eachView(func(f *fact, v int, day uint8) {
		id := path.At(v)
		c := &r.cells[id]
		c.Pageviews++
		c.ViewMS += int64(g.ViewEngaged[v])
		c.ScrollSum += int64(g.Scroll[v])
		c.Scrolled += int64(min(g.Scroll[v], 1))
		r.meet(id, f, day)
		p.enter(c, f)
	})
	for i := range p.facts {
		if f := &p.facts[i]; f.begun {
			r.cells[exit.At(f.visit)].Exits++
		}
	}
	p.eachEvent(func(f *fact, e int, day uint8) { p.addEventTo(r, eventPath.At(e), f, e, day, false) })
	for _, sale := range p.sales {
		r.cells[eventPath.At(sale.event)].addRevenue(sale.currency, sale.revenue)
	}

	to.fold(r, func(id int) string { return texts[id] }, p.users())
}

// enter counts a visit once in a cell.
func (p *pass) enter(c *cell, f *fact) {
	number := uint32(f.visit) + 1
	if !f.begun || c.visit == number {
		return
	}
	c.visit = number
	c.Visits++
	c.VisitMS += int64(p.g.Engaged[f.visit])
	c.Bounces += int64(p.g.Bounced[f.visit])
}

// addEventTo adds an event to a cell. Automatic ones count where they are asked for by name.
func (p *pass) addEventTo(r *rows, id uint32, f *fact, e int, day uint8, automatic bool) {
	name := p.g.Columns[segment.EventName].At(e)
	if automatic || !p.auto[name] {
		r.cells[id].Events++
	}
	if p.keys[name] {
		r.cells[id].Conversions++
		r.convert(id, f, day)
	}
}

// countEvents counts by the event's name. Visitors and visits are those with such an event.
func (p *pass) countEvents(to table) {
	texts := p.g.Texts[segment.EventName]
	column := &p.g.Columns[segment.EventName]
	r := newRows(len(texts))

	p.eachEvent(func(f *fact, e int, day uint8) {
		id := column.At(e)
		p.addEventTo(r, id, f, e, day, true)
		r.meet(id, f, day)
		p.enter(&r.cells[id], f)
	})
	for _, sale := range p.sales {
		r.cells[column.At(sale.event)].addRevenue(sale.currency, sale.revenue)
	}
	to.fold(r, func(id int) string { return texts[id] }, p.users())
}

// countProperty counts by the value of a property of events.
func (p *pass) countProperty(b *Breakdown, to table) {
	texts := p.g.Texts[segment.PropValue]
	r := newRows(len(texts))
	name, known := p.id(segment.PropName, b.Property)
	if !known {
		return
	}

	of := make(map[int]uint32) // the value that an event with a sale carries
	p.eachEvent(func(f *fact, e int, day uint8) {
		id, carried := p.valueOf(e, name, b.Event)
		if !carried {
			return
		}
		p.addEventTo(r, id, f, e, day, true)
		r.meet(id, f, day)
		p.enter(&r.cells[id], f)
		if p.kind[p.g.Columns[segment.EventName].At(e)] != noSale {
			of[e] = id
		}
	})
	for _, sale := range p.sales {
		if id, carried := of[sale.event]; carried {
			r.cells[id].addRevenue(sale.currency, sale.revenue)
		}
	}
	to.fold(r, func(id int) string { return texts[id] }, p.users())
}

// id looks a text up in a dictionary.
func (p *pass) id(f segment.Field, text string) (uint32, bool) {
	i := slices.Index(p.g.Texts[f.Domain()], text)
	return uint32(max(i, 0)), i >= 0
}

// valueOf returns the value of the property that an event carries. event, when given, is the only
// name of events looked at.
func (p *pass) valueOf(e int, property uint32, event string) (value uint32, carried bool) {
	if event != "" && p.g.Text(segment.EventName, e) != event {
		return 0, false
	}

	from, to := p.g.Props(e)
	for i := from; i < to; i++ {
		if p.g.Columns[segment.PropName].At(int(i)) == property {
			return p.g.Columns[segment.PropValue].At(int(i)), true
		}
	}
	return 0, false
}

// countTimes counts by the local day of the week, 1 for Monday to 7, or hour of the day, 00 to 23.
func (p *pass) countTimes(by Dimension, to table) {
	clock := newClock(p.query.Zone, p.first, by)
	p.countAt(to, clock.size(), clock.slot, clock.text)
}

func (p *pass) countSeries() {
	p.countAt(p.series, len(p.points)-1, func(second uint32) int {
		at := p.first + int64(second)
		i, found := slices.BinarySearch(p.points, at)
		if !found {
			i--
		}
		return i
	}, strconv.Itoa)
}

// countAt counts by slots of time: page views and events by their own time, visits by their start.
// A slot outside 0 to n-1 counts nowhere.
func (p *pass) countAt(to table, n int, slot func(second uint32) int, text func(int) string) {
	g := p.g
	r := newRows(n)
	in := func(second uint32) (uint32, bool) {
		i := slot(second)
		return uint32(i), i >= 0 && i < n
	}

	for i := range p.facts {
		f := &p.facts[i]
		if id, ok := in(g.Start[f.visit]); ok && f.begun {
			c := &r.cells[id]
			c.Visits++
			c.VisitMS += int64(g.Engaged[f.visit])
			c.Bounces += int64(g.Bounced[f.visit])
		}
	}

	p.eachView(func(f *fact, v int, day uint8) {
		id, ok := in(g.ViewAt[v])
		if !ok {
			return
		}
		c := &r.cells[id]
		c.Pageviews++
		c.ViewMS += int64(g.ViewEngaged[v])
		c.ScrollSum += int64(g.Scroll[v])
		c.Scrolled += int64(min(g.Scroll[v], 1))
		r.meet(id, f, day)
	})
	p.eachEvent(func(f *fact, e int, day uint8) {
		if id, ok := in(g.EventAt[e]); ok {
			p.addEventTo(r, id, f, e, day, false)
		}
	})
	for _, sale := range p.sales {
		if id, ok := in(g.EventAt[sale.event]); ok {
			r.cells[id].addRevenue(sale.currency, sale.revenue)
		}
	}
	to.fold(r, text, p.users())
}

// clock maps seconds of a segment to local hours or days of the week. The offset of the zone is
// looked up once per quarter of an hour, since no zone changes it at another time.
type clock struct {
	zone  *time.Location
	first int64
	by    Dimension
	slots []int8 // by quarter of an hour since first; 0: not looked up, else slot + 1
}

const quarter = 15 * 60

func newClock(zone *time.Location, first int64, by Dimension) *clock {
	return &clock{zone: zone, first: first, by: by}
}

func (c *clock) size() int {
	if c.by == HourOfDay {
		return 24
	}
	return 7
}

func (c *clock) slot(second uint32) int {
	n := int(second / quarter)
	if n >= len(c.slots) {
		c.slots = append(c.slots, make([]int8, n+1-len(c.slots))...)
	}
	if c.slots[n] == 0 {
		t := time.Unix(c.first+int64(n)*quarter, 0).In(c.zone)
		c.slots[n] = int8(c.of(t)) + 1
	}
	return int(c.slots[n]) - 1
}

func (c *clock) of(t time.Time) int {
	if c.by == HourOfDay {
		return t.Hour()
	}
	return (int(t.Weekday()) + 6) % 7
}

func (c *clock) text(slot int) string {
	if c.by == HourOfDay {
		return fmt.Sprintf("%02d", slot)
	}
	return strconv.Itoa(slot + 1)
}

// propertyCount collects the events and values of a property.
type propertyCount struct {
	events int64
	values map[string]struct{}
}

// countProperties counts the properties that events of the period carried.
func (p *pass) countProperties() {
	names, values := p.g.Texts[segment.PropName], p.g.Texts[segment.PropValue]
	seen := make(map[uint64]struct{})
	counts := make([]int64, len(names))

	p.eachEvent(func(_ *fact, e int, _ uint8) {
		if only := p.query.Properties.Event; only != "" && p.g.Text(segment.EventName, e) != only {
			return
		}
		from, to := p.g.Props(e)
		for i := from; i < to; i++ {
			name, value := p.g.Columns[segment.PropName].At(int(i)), p.g.Columns[segment.PropValue].At(int(i))
			counts[name]++
			seen[uint64(name)<<32|uint64(value)] = struct{}{}
		}
	})

	for name, n := range counts {
		if n > 0 {
			p.property(names[name]).events += n
		}
	}
	for key := range maps.Keys(seen) {
		p.property(names[key>>32]).values[values[uint32(key)]] = struct{}{}
	}
}

func (p *pass) property(name string) *propertyCount {
	count := p.props[name]
	if count == nil {
		count = &propertyCount{values: make(map[string]struct{})}
		p.props[name] = count
	}
	return count
}
