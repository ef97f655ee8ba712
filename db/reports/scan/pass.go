package scan

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// fact is what a kept visit contributes to the period, computed once for all breakdowns.
type fact struct {
	visit     int    // index in the segment
	visitor   uint32 // number of the visitor, from 1
	user      uint32 // number of the user id; 0 for none
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
	users []uint32 // numbers of the user ids by their index; nil if the segment has none
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
	if users := p.userTexts(); len(users) > 1 {
		p.begin(segment.User)
		p.users = p.numbers(segment.User)
	}

	visitor, i := p.visitors, 0

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
	f := fact{visit: i, visitor: visitor}
	if p.users != nil {
		f.user = p.users[g.Columns[segment.User].At(i)]
	}

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
func (p *pass) addVisit(t *table, id uint32, f *fact) {
	c := &t.cells[id]
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
	t.meet(id, f, f.days)
	t.convert(id, f, f.converted)
}

func (p *pass) countTotals() {
	for i := range p.facts {
		p.addVisit(p.totals, 0, &p.facts[i])
	}
	for _, sale := range p.sales {
		p.totals.cells[0].addRevenue(sale.currency, sale.revenue)
	}
}

// userTexts returns the dictionary of user ids.
func (p *pass) userTexts() []string { return p.g.Texts[segment.User] }

// begin numbers the segment's texts of a field, for numbers.
func (p *pass) begin(field segment.Field) {
	domain := field.Domain()
	if p.texts[domain] == nil {
		p.texts[domain] = newDictionary()
	}
	p.texts[domain].begin(p.g.Texts[domain])
}

// numbers returns the numbers of the segment's texts of a field, by their index.
func (p *pass) numbers(field segment.Field) []uint32 { return p.texts[field.Domain()].current }
