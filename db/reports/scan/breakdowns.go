package scan

import (
	"github.com/tallygate/tallygate/db/reports/segment"
)

// fieldOf returns the field whose texts are the rows of a dimension. ok is false for times.
func fieldOf(by Dimension) (field segment.Field, ok bool) {
	switch by {
	case Page:
		return segment.Path, true
	case Event:
		return segment.EventName, true
	case Property:
		return segment.PropValue, true
	case DayOfWeek, HourOfDay:
		return 0, false
	default:
		return fields[by], true
	}
}

// countBreakdown counts the rows of a dimension.
func (p *pass) countBreakdown(b *Breakdown, to *table) {
	switch b.By {
	case Page:
		p.countPages(to, b.VisitorsOnly)
	case Event:
		p.countEvents(to)
	case Property:
		p.countProperty(b, to)
	case DayOfWeek, HourOfDay:
		p.countTimes(b.By, to)
	default:
		p.countVisits(fields[b.By], to, b.VisitorsOnly)
	}
}

// countVisits counts by an attribute of the visit. A visit with a page view has a visitor, and so a
// row, whatever else is left out.
func (p *pass) countVisits(field segment.Field, to *table, visitorsOnly bool) {
	column, numbers := &p.g.Columns[field], p.numbers(field)

	for i := range p.facts {
		f := &p.facts[i]
		id := numbers[column.At(f.visit)]
		if visitorsOnly && f.days != 0 {
			to.meet(id, f, f.days)
			continue
		}

		p.addVisit(to, id, f)
		if field == segment.Exit && f.begun {
			to.cells[id].Exits++
		}
	}
	for _, sale := range p.sales {
		id := numbers[column.At(p.facts[sale.fact].visit)]
		to.cells[id].addRevenue(sale.currency, sale.revenue)
	}
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
func (p *pass) countPages(to *table, visitorsOnly bool) {
	g, numbers := p.g, p.numbers(segment.Path)
	path, eventPath, exit := &g.Columns[segment.Path], &g.Columns[segment.EventPath], &g.Columns[segment.Exit]

	p.eachView(func(f *fact, v int, day uint8) {
		id := numbers[path.At(v)]
		to.meet(id, f, day)
		if visitorsOnly {
			return
		}

		c := &to.cells[id]
		c.Pageviews++
		c.ViewMS += int64(g.ViewEngaged[v])
		c.ScrollSum += int64(g.Scroll[v])
		c.Scrolled += int64(min(g.Scroll[v], 1))
		p.enter(c, f)
	})
	for i := range p.facts {
		if f := &p.facts[i]; f.begun {
			to.cells[numbers[exit.At(f.visit)]].Exits++
		}
	}

	p.eachEvent(func(f *fact, e int, day uint8) { p.addEventTo(to, numbers[eventPath.At(e)], f, e, day, false) })
	for _, sale := range p.sales {
		to.cells[numbers[eventPath.At(sale.event)]].addRevenue(sale.currency, sale.revenue)
	}
}

// enter counts a visit once in a cell.
func (p *pass) enter(c *cell, f *fact) {
	number := p.visits + uint32(f.visit) + 1
	if !f.begun || c.visit == number {
		return
	}
	c.visit = number
	c.Visits++
	c.VisitMS += int64(p.g.Engaged[f.visit])
	c.Bounces += int64(p.g.Bounced[f.visit])
}

// addEventTo adds an event to a cell. Automatic ones count where they are asked for by name.
func (p *pass) addEventTo(t *table, id uint32, f *fact, e int, day uint8, automatic bool) {
	name := p.g.Columns[segment.EventName].At(e)
	if automatic || !p.auto[name] {
		t.cells[id].Events++
	}
	if p.keys[name] {
		t.cells[id].Conversions++
		t.convert(id, f, day)
	}
}

// countEvents counts by the event's name. Visitors and visits are those with such an event.
func (p *pass) countEvents(to *table) {
	column, numbers := &p.g.Columns[segment.EventName], p.numbers(segment.EventName)

	p.eachEvent(func(f *fact, e int, day uint8) {
		id := numbers[column.At(e)]
		p.addEventTo(to, id, f, e, day, true)
		to.meet(id, f, day)
		p.enter(&to.cells[id], f)
	})
	for _, sale := range p.sales {
		to.cells[numbers[column.At(sale.event)]].addRevenue(sale.currency, sale.revenue)
	}
}
