package scan

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// fieldOf returns the field whose texts are the rows of a dimension. ok is false for times.
func fieldOf(by Dimension) (field segment.Field, ok bool) {
	switch {
	case by == Page:
		return segment.Path, true
	case by == Event:
		return segment.EventName, true
	case by == Property:
		return segment.PropValue, true
	case isTime(by):
		return 0, false
	default:
		return fields[by], true
	}
}

// newTableOf returns the table of a breakdown. Tables of pages and of visits count visitors alone
// if they may.
func newTableOf(b *Breakdown, budget *Budget) *table {
	t := newTable(len(timeTexts[b.By]), budget)
	if b.By == Property {
		t.values = newDictionary(budget)
		t.grow(1)
	}
	t.visitorsOnly = b.VisitorsOnly && b.By <= Page
	return t
}

// countBreakdown counts the rows of breakdown i on a UTC day.
func (p *pass) countBreakdown(i int, w *window) {
	b, to := &p.query.Breakdowns[i], p.tables[i]
	switch {
	case b.By == Page && to.visitorsOnly:
		p.countVisitorsByPage(to, w)
	case b.By == Page:
		p.countPages(to, w)
	case b.By == Event:
		p.countEvents(to, w)
	case b.By == Property:
		p.countProperty(i, w)
	case isTime(b.By):
		p.countAt(to, &p.intervals[i], w)
	case to.visitorsOnly:
		p.countVisitorsByVisit(b.By, to)
	default:
		p.countVisits(b.By, to)
	}
}

// countVisits counts by an attribute of the visit.
func (p *pass) countVisits(by Dimension, to *table) {
	column, numbers := &p.g.Columns[fields[by]], p.numbersBy(by)

	for i := range p.facts {
		f := &p.facts[i]
		id := numbers[column.At(int(f.visit))]
		p.addVisit(to, id, i)
		if by == ExitPage && f.begun {
			to.buckets[id].Exits++
		}
	}
	for _, sale := range p.sales {
		id := numbers[column.At(int(p.facts[sale.fact].visit))]
		to.addRevenue(id, sale.currency, sale.revenue)
	}
}

// index is the type of a column's values.
type index interface{ uint8 | uint16 | uint32 }

// countVisitorsByVisit counts visitors by an attribute of the visit.
func (p *pass) countVisitorsByVisit(by Dimension, to *table) {
	switch column, numbers := &p.g.Columns[fields[by]], p.numbersBy(by); {
	case column.U8 != nil:
		countVisitorsByVisit(p, column.U8, numbers, to)
	case column.U16 != nil:
		countVisitorsByVisit(p, column.U16, numbers, to)
	default:
		countVisitorsByVisit(p, column.U32, numbers, to)
	}
}

func countVisitorsByVisit[I index](p *pass, column []I, numbers []uint32, to *table) {
	for i := range p.facts {
		f := &p.facts[i]
		id := numbers[column[f.visit]]
		switch {
		case f.days == 0:
		case f.alone:
			to.visitorBuckets[id].visitors += uint32(bits.OnesCount8(f.days))
			continue
		default:
			to.addVisitorOnly(id, f, f.days)
			continue
		}

		// A visit without a page view in the period has no visitor, but may have a row.
		if f.begun || f.converted != 0 || p.sums[i].events > 0 {
			to.visitorBuckets[id].shown = true
		}
	}
}

// viewsOf returns the page views of a visit in the period, with the bit of their local day.
func (p *pass) viewsOf(f *fact, w *window) iter.Seq2[int, uint8] {
	from, to := p.g.Views(int(f.visit))
	return f.rowsIn(w, p.g.ViewAt, from, to)
}

// eventsOf returns the events of a visit in the period, with the bit of their local day.
func (p *pass) eventsOf(f *fact, w *window) iter.Seq2[int, uint8] {
	from, to := p.g.Events(int(f.visit))
	return f.rowsIn(w, p.g.EventAt, from, to)
}

// rowsIn returns the rows of the visit from one until before another that are in the period. It is
// small enough for the compiler to inline it: a closure for each visit would be allocated.
func (f *fact) rowsIn(w *window, at []uint32, from, to uint32) iter.Seq2[int, uint8] {
	return func(yield func(row int, day uint8) bool) {
		for row := from; row < to; row++ {
			if day := f.day(w, at[row]); day != 0 && !yield(int(row), day) {
				return
			}
		}
	}
}

// eachEvent calls take for the events of the period, with the bit of their local day. A visit can
// have any number of events, so it ends with the count.
func (p *pass) eachEvent(w *window, take func(f *fact, event int, day uint8)) {
	for i := range p.facts {
		if p.mustEnd(i) {
			return
		}

		f := &p.facts[i]
		from, to := p.g.Events(int(f.visit))
		if from == to {
			continue
		}

		// A closure for each visit would be allocated.
		for e := from; e < to && !p.mustEnd(int(e-from)); e++ {
			if day := f.day(w, p.g.EventAt[e]); day != 0 {
				take(f, int(e), day)
			}
		}
	}
}

// day returns the bit of the local day of a second of the visit, or 0 outside the period.
func (f *fact) day(w *window, second uint32) uint8 {
	if f.whole != 0 {
		return f.whole
	}
	return w.day(second)
}

// countPages counts by the page viewed. Events count where they happened.
func (p *pass) countPages(to *table, w *window) {
	numbers := p.numbers(segment.Path)
	path, eventPath, exit := &p.g.Columns[segment.Path], &p.g.Columns[segment.EventPath], &p.g.Columns[segment.Exit]

	for i := range p.facts {
		f := &p.facts[i]
		for v, day := range p.viewsOf(f, w) {
			id := numbers[path.At(v)]
			to.addVisitor(id, f, day)
			p.addView(&to.buckets[id], v)
			p.enter(&to.buckets[id], f)
		}
		if f.begun {
			to.buckets[numbers[exit.At(int(f.visit))]].Exits++
		}
	}

	p.eachEvent(w, func(f *fact, e int, day uint8) { p.addEventTo(to, numbers[eventPath.At(e)], f, e, day, false) })
	for _, sale := range p.sales {
		to.addRevenue(numbers[eventPath.At(sale.event)], sale.currency, sale.revenue)
	}
}

// countVisitorsByPage counts visitors by the page viewed.
func (p *pass) countVisitorsByPage(to *table, w *window) {
	switch path, numbers := &p.g.Columns[segment.Path], p.numbers(segment.Path); {
	case path.U8 != nil:
		countVisitorsByPage(p, path.U8, numbers, to, w)
	case path.U16 != nil:
		countVisitorsByPage(p, path.U16, numbers, to, w)
	default:
		countVisitorsByPage(p, path.U32, numbers, to, w)
	}

	// Pages where only an event happened have a row.
	eventPath, name := &p.g.Columns[segment.EventPath], &p.g.Columns[segment.EventName]
	if !slices.Contains(p.shown, true) {
		return
	}
	numbers := p.numbers(segment.Path)
	p.eachEvent(w, func(_ *fact, e int, _ uint8) {
		if p.shown[name.At(e)] {
			to.visitorBuckets[numbers[eventPath.At(e)]].shown = true
		}
	})
}

func countVisitorsByPage[I index](p *pass, path []I, numbers []uint32, to *table, w *window) {
	exit := &p.g.Columns[segment.Exit]
	for i := range p.facts {
		f := &p.facts[i]
		from, end := p.g.Views(int(f.visit))
		if f.whole != 0 {
			for _, id := range path[from:end] {
				to.addVisitorOnly(numbers[id], f, f.whole)
			}
			continue
		}

		for v := from; v < end; v++ {
			if day := w.day(p.g.ViewAt[v]); day != 0 {
				to.addVisitorOnly(numbers[path[v]], f, day)
			}
		}
		if f.begun {
			// The exit page may have been viewed after the end of the period.
			to.visitorBuckets[numbers[exit.At(int(f.visit))]].shown = true
		}
	}
}

// addView adds a page view to a bucket.
func (p *pass) addView(c *bucket, v int) {
	c.Pageviews++
	c.ViewMS += int64(p.g.ViewEngaged[v])
	c.ScrollSum += int64(p.g.Scroll[v])
	c.Scrolled += int64(min(p.g.Scroll[v], 1))
}

// addBegun adds a visit that began in the period to a bucket.
func (p *pass) addBegun(c *bucket, f *fact) {
	c.Visits++
	c.VisitMS += int64(p.g.Engaged[f.visit])
	c.Bounces += int64(p.g.Bounced[f.visit])
}

// enter counts a visit once in a bucket.
func (p *pass) enter(c *bucket, f *fact) {
	number := p.visits + f.visit + 1
	if !f.begun || c.visit == number {
		return
	}
	c.visit = number
	p.addBegun(c, f)
}

// addEventTo adds an event to a bucket. Automatic ones count where they are asked for by name.
func (p *pass) addEventTo(t *table, id uint32, f *fact, e int, day uint8, automatic bool) {
	name := p.g.Columns[segment.EventName].At(e)
	if automatic || !p.auto[name] {
		t.buckets[id].Events++
	}
	if p.keys[name] {
		t.buckets[id].Conversions++
		t.convert(id, f, day)
	}
}

// countEvents counts by the event's name. Visitors and visits are those with such an event.
func (p *pass) countEvents(to *table, w *window) {
	column, numbers := &p.g.Columns[segment.EventName], p.numbers(segment.EventName)

	p.eachEvent(w, func(f *fact, e int, day uint8) {
		id := numbers[column.At(e)]
		p.addEventTo(to, id, f, e, day, true)
		to.addVisitor(id, f, day)
		p.enter(&to.buckets[id], f)
	})
	for _, sale := range p.sales {
		to.addRevenue(numbers[column.At(sale.event)], sale.currency, sale.revenue)
	}
}
