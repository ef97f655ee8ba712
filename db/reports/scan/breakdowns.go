package scan

import (
	"github.com/tallygate/tallygate/db/reports/segment"
)

// countBreakdown counts the rows of a dimension.
func (p *pass) countBreakdown(b *Breakdown, to *table) {
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
func (p *pass) countVisits(field segment.Field, to *table) {
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
	to.foldTexts(r, p.dictionary(field), p.users())
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
func (p *pass) countPages(to *table) {
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

	to.foldTexts(r, p.dictionary(segment.Path), p.users())
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
func (p *pass) countEvents(to *table) {
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
	to.foldTexts(r, p.dictionary(segment.EventName), p.users())
}
