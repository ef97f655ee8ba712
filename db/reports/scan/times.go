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
	p.countAt(to, clock.slot)
}

func (p *pass) countSeries() {
	p.countAt(p.series, func(second uint32) int {
		at := p.first + int64(second)
		i, found := slices.BinarySearch(p.points, at)
		if !found {
			i--
		}
		return i
	})
}

// countAt counts by slots of time: page views and events by their own time, visits by their start.
// A slot that the table does not have counts nowhere.
func (p *pass) countAt(to *table, slot func(second uint32) int) {
	g := p.g
	in := func(second uint32) (uint32, bool) {
		i := slot(second)
		return uint32(i), i >= 0 && i < len(to.cells)
	}

	for i := range p.facts {
		f := &p.facts[i]
		if id, ok := in(g.Start[f.visit]); ok && f.begun {
			c := &to.cells[id]
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
		c := &to.cells[id]
		c.Pageviews++
		c.ViewMS += int64(g.ViewEngaged[v])
		c.ScrollSum += int64(g.Scroll[v])
		c.Scrolled += int64(min(g.Scroll[v], 1))
		to.meet(id, f, day)
	})
	p.eachEvent(func(f *fact, e int, day uint8) {
		if id, ok := in(g.EventAt[e]); ok {
			p.addEventTo(to, id, f, e, day, false)
		}
	})
	for _, sale := range p.sales {
		if id, ok := in(g.EventAt[sale.event]); ok {
			to.cells[id].addRevenue(sale.currency, sale.revenue)
		}
	}
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

// slots returns how many rows a breakdown by time has.
func slots(by Dimension) int {
	if by == HourOfDay {
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

// slotText returns the value of a row: the hour, or the day of the week.
func slotText(by Dimension, slot int) string {
	if by == HourOfDay {
		return fmt.Sprintf("%02d", slot)
	}
	return strconv.Itoa(slot + 1)
}
