package scan

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// countTimes counts by the local day of the week, 1 for Monday to 7, or hour of the day, 00 to 23.
func (p *pass) countTimes(by Dimension, to *table) {
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
func (p *pass) countAt(to *table, n int, slot func(second uint32) int, text func(int) string) {
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
