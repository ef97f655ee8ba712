package scan

import (
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// fact is what a kept visit contributes to the period, computed once for all breakdowns.
type fact struct {
	visit     uint32 // index in the segment
	visitor   uint32 // number of the visitor, from 1
	user      uint32 // number of the user id; 0 for none
	days      uint8  // local days with a page view, a bit each
	converted uint8  // local days with a key event, a bit each
	whole     uint8  // the bit of the local day on which all its page views and events are; 0 if not all
	begun     bool   // began in the period, with a page view
	alone     bool   // the only visit of its visitor, who has no user id
}

// sums are the figures of a fact that add up without a set.
type sums struct {
	viewMS, scroll                       int64
	views, events, conversions, scrolled uint32
}

// sale is a purchase or refund in the period.
type sale struct {
	fact     int // index in facts
	event    int // index in the segment
	currency string
	revenue  Revenue
}

// pass is the count of one segment: its facts, and the tables of the breakdowns. Types of their own
// choose the visits (sieve), follow them (funnelWalk and journeyWalk), and add or make rollups
// (adder and roller).
type pass struct {
	*Scanner
	g     *segment.Segment
	first int64  // Unix seconds of the segment's first midnight
	facts []fact // of the visits that the filters keep
	sums  []sums // of the facts
	sales []sale
	keys  []bool // by event name: whether it is a key event
	auto  []bool // by event name: whether it is an automatic event
	kind  []saleKind
	users []uint32 // numbers of the user ids by their index; nil if the segment has none
	shown []bool   // by event name: whether an event gives its page a row
	keep  []bool   // which visits the filters keep; nil if all

	isSparse bool // few visits are kept: see sparseBelow

	currencies []string // copies, by index: figures keep them, and the segment's memory is used again

	values []map[uint32]uint32 // by breakdown: the numbers of a property's values by their index

	// What is computed once for the segment, when the first of its facts is counted.
	ready     bool
	intervals []intervals // of the breakdowns by time, and then of both series
	steps     [][]step    // of the funnels
	starts    []step      // of the journeys
	weeks     intervals   // of the cohorts
	parsed    *numbersOf  // nil if the query asks for no numbers
	asked     []askedNumbers
}

// saleKind says what an event's name means for revenue.
type saleKind uint8

const (
	noSale saleKind = iota
	purchase
	refund
)

func (s *Scanner) newPass(g *segment.Segment) (*pass, error) {
	names := g.Texts[segment.EventName]
	p := &pass{
		Scanner: s, g: g, first: g.First.Start().Time().Unix(), facts: s.facts[:0], sums: s.sums[:0],
		keys: make([]bool, len(names)), auto: make([]bool, len(names)), kind: make([]saleKind, len(names)),
		shown: make([]bool, len(names)),
	}

	for id, name := range names {
		p.keys[id] = s.query.KeyEvents[name]
		p.auto[id] = model.IsAutomaticEvent(name)
		p.shown[id] = p.keys[id] || !p.auto[id]
		if s.query.WithoutRevenue {
			continue
		}
		switch name {
		case model.EventPurchase:
			p.kind[id] = purchase
		case model.EventRefund:
			p.kind[id] = refund
		}
	}

	p.keep = (&sieve{p}).filter()
	p.isSparse = isSparse(p.keep)
	p.currencies = s.copiesOf(g.Texts[segment.Currency])
	if len(g.Texts[segment.User]) > 1 {
		p.dictionary(segment.User).begin(g.Texts[segment.User])
		p.users = p.numbers(segment.User)
	}
	p.values = make([]map[uint32]uint32, len(p.tables))
	return p, p.err()
}

// copiesOf returns texts of a segment that stay valid after it. There are few different ones.
func (s *Scanner) copiesOf(texts []string) []string {
	copies := make([]string, len(texts))
	for i, text := range texts {
		known, ok := s.copies[text]
		if !ok {
			known = strings.Clone(shown(text))
			s.copies[strings.Clone(text)] = known
		}
		copies[i] = known
	}
	return copies
}

// window is the period's share of a UTC day, in seconds of the segment.
type window struct {
	from, to uint32   // nothing outside counts
	cuts     []uint32 // local midnights within, ascending
	isDay    bool     // the whole UTC day counts, and is one local day
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
	w.isDay = from == begin && to == end && len(w.cuts) == 0
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

// whole returns the bit of the local day that two seconds and all between them lie on, or 0 if they
// do not lie on one day of the period.
func (w *window) whole(first, last uint32) uint8 {
	if day := w.day(first); day == w.day(last) {
		return day
	}
	return 0
}

// collect replaces the facts by those of a window of a UTC day, whose visits are those from begin
// before end. visitor is the number of the last visitor before them; collect returns that of their
// last one.
func (p *pass) collect(w *window, begin, end int, visitor uint32) uint32 {
	p.facts, p.sums, p.sales = p.facts[:0], p.sums[:0], p.sales[:0]

	for i := begin; i < end; i++ {
		visitor += uint32(p.g.New[i])
		if w.to > 0 && (p.keep == nil || p.keep[i]) {
			p.addFact(i, visitor, w)
		}
	}
	return visitor
}

// addFact adds the contribution of visit i, if it has one.
func (p *pass) addFact(i int, visitor uint32, w *window) {
	f, s := fact{visit: uint32(i), visitor: visitor}, sums{}
	if p.users != nil {
		f.user = p.users[p.g.Columns[segment.User].At(i)]
	}

	v, viewsEnd := p.g.Views(i)
	e, eventsEnd := p.g.Events(i)
	f.alone = f.user == 0 && p.g.New[i] == 1 && (i+1 == len(p.g.New) || p.g.New[i+1] == 1)
	f.begun = viewsEnd > v && w.day(p.g.Start[i]) != 0
	f.whole = 1 // a visit never crosses midnight UTC
	if !w.isDay {
		f.whole = p.wholeDay(v, viewsEnd, e, eventsEnd, w)
	}

	p.addViews(&f, &s, v, viewsEnd, w)
	for n := e; n < eventsEnd; n++ {
		if day := f.day(w, p.g.EventAt[n]); day != 0 {
			p.addEvent(&f, &s, int(n), day)
		}
	}

	if f.begun || s.views > 0 || eventsEnd > e {
		p.facts, p.sums = append(p.facts, f), append(p.sums, s)
	}
}

// wholeDay returns the bit of the local day on which all page views and events of a visit are, or
// 0. Both are in order of time.
func (p *pass) wholeDay(v, viewsEnd, e, eventsEnd uint32, w *window) uint8 {
	switch views, events := p.g.ViewAt[v:viewsEnd], p.g.EventAt[e:eventsEnd]; {
	case len(views)+len(events) == 0:
		return 0
	case len(events) == 0:
		return w.whole(views[0], views[len(views)-1])
	case len(views) == 0:
		return w.whole(events[0], events[len(events)-1])
	default:
		return w.whole(min(views[0], events[0]), max(views[len(views)-1], events[len(events)-1]))
	}
}

// addViews adds the page views of the period from v before end to their visit's fact.
func (p *pass) addViews(f *fact, s *sums, v, end uint32, w *window) {
	at, engaged, scroll := p.g.ViewAt[v:end], p.g.ViewEngaged[v:end], p.g.Scroll[v:end]
	engaged, scroll = engaged[:len(at)], scroll[:len(at)]
	for i := range at {
		day := f.day(w, at[i])
		if day == 0 {
			continue
		}

		f.days |= day
		s.views++
		s.viewMS += int64(engaged[i])
		s.scroll += int64(scroll[i])
		s.scrolled += uint32(min(scroll[i], 1))
	}
}

// addEvent adds an event of the period to its visit's fact.
func (p *pass) addEvent(f *fact, s *sums, e int, day uint8) {
	name := p.g.Columns[segment.EventName].At(e)
	if !p.auto[name] {
		s.events++
	}
	if p.keys[name] {
		s.conversions++
		f.converted |= day
	}

	if kind := p.kind[name]; kind != noSale {
		if currency := p.currencies[p.g.Columns[segment.Currency].At(e)]; currency != "" {
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

// addVisit adds all that fact i contributes to the bucket of its value.
func (p *pass) addVisit(t *table, id uint32, i int) {
	c, f, s := &t.buckets[id], &p.facts[i], &p.sums[i]
	if f.begun {
		p.addBegun(c, f)
	}

	c.Pageviews += int64(s.views)
	c.ViewMS += s.viewMS
	c.ScrollSum += s.scroll
	c.Scrolled += int64(s.scrolled)
	c.Events += int64(s.events)
	c.Conversions += int64(s.conversions)
	t.addVisitor(id, f, f.days)
	t.convert(id, f, f.converted)
}

func (p *pass) countTotals() {
	for i := range p.facts {
		p.addVisit(p.totals, 0, i)
	}
	for _, sale := range p.sales {
		p.totals.addRevenue(0, sale.currency, sale.revenue)
	}
}

// dictionary returns the dictionary of a domain.
func (p *pass) dictionary(domain segment.Field) *dictionary {
	d := p.texts[domain]
	if d == nil {
		d = newDictionary(p.budget)
		p.texts[domain] = d
	}
	return d
}

// numbers returns the numbers of the segment's texts of a field, by their index.
func (p *pass) numbers(field segment.Field) []uint32 { return p.texts[field.Domain()].current }

// numbersBy returns the numbers of the values of a dimension of the visit, by the index of the
// segment's text.
func (p *pass) numbersBy(by Dimension) []uint32 { return p.valuesOf(by).current }
