package scan

import (
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// isTime reports whether the rows of a dimension are times.
func isTime(by Dimension) bool { return by == DayOfWeek || by == HourOfDay }

// timeTexts are the values of the dimensions whose rows are times, by slot: the days of the week from
// 1 for Monday to 7, and the hours of the day.
var timeTexts = map[Dimension][]string{
	DayOfWeek: {"1", "2", "3", "4", "5", "6", "7"},
	HourOfDay: {
		"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11",
		"12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23",
	},
}

// slots maps the seconds of a segment to slots of time, such as the points of a series. The slot of
// a quarter of an hour is computed once.
type slots struct {
	first    int64                // Unix seconds of the segment's first midnight
	of       func(unix int64) int // the slot of a time, or noSlot
	quarters []int16              // slots by quarter of an hour since first
	rising   bool                 // a later time never has a lower slot
}

const (
	noSlot  = -1
	several = -2 // in quarters: the slot changes within the quarter

	quarter = 15 * 60
)

// newSlots computes the slots of the segment's quarters of an hour. of must be constant within a
// quarter that begins and ends in the same slot, as hours and days of all zones are since 1973.
func newSlots(g *segment.Segment, of func(unix int64) int) slots {
	first := g.First.Start().Time().Unix()
	s := slots{first: first, of: of, quarters: make([]int16, len(g.Days)*(86_400/quarter))}
	for i := range s.quarters {
		begin := first + int64(i)*quarter
		slot := of(begin)
		if of(begin+quarter-1) != slot {
			slot = several
		}
		s.quarters[i] = int16(slot)
	}
	return s
}

// at returns the slot of a second, or noSlot.
func (s *slots) at(second uint32) int {
	if n := int(second / quarter); n < len(s.quarters) && s.quarters[n] != several {
		return int(s.quarters[n])
	}
	return s.of(s.first + int64(second))
}

// only returns the slot of all seconds of a window. ok is false if there may be several.
func (s *slots) only(w *window) (slot int, ok bool) {
	first, last := int(w.from/quarter), int(w.to-1)/quarter
	if w.to == 0 || last >= len(s.quarters) {
		return noSlot, false
	}
	for _, other := range s.quarters[first : last+1] {
		if other == several || other != s.quarters[first] {
			return noSlot, false
		}
	}
	return int(s.quarters[first]), true
}

// timeSlots returns the slots of a dimension whose rows are times.
func (p *pass) timeSlots(by Dimension) slots {
	zone := p.query.Zone
	return newSlots(p.g, func(unix int64) int {
		t := time.Unix(unix, 0).In(zone)
		if by == HourOfDay {
			return t.Hour()
		}
		return (int(t.Weekday()) + 6) % 7
	})
}

// pointSlots returns the slots of the series' points.
func (p *pass) pointSlots() slots {
	s := newSlots(p.g, func(unix int64) int {
		if i := p.pointOf(unix); i < len(p.points)-1 {
			return i
		}
		return noSlot
	})
	s.rising = true
	return s
}

// pointOf returns the last point that begins at a time or before, or noSlot. Points that begin at the
// same time are empty but for the last one.
func (s *Scanner) pointOf(unix int64) int {
	after, _ := slices.BinarySearch(s.points, unix+1)
	return after - 1
}

// countAt counts by slots of time: page views and events by their own time, visits by their start.
func (p *pass) countAt(to *table, s *slots, w *window) {
	all, isOne := s.only(w)
	for i := range p.facts {
		slot, one := all, isOne
		if !isOne {
			slot, one = p.onlySlot(&p.facts[i], s)
		}
		switch {
		case !one:
			p.countParts(to, s, &p.facts[i], w)
		case slot != noSlot:
			p.addVisit(to, uint32(slot), i)
		}
	}
	for _, sale := range p.sales {
		if slot := s.at(p.g.EventAt[sale.event]); slot != noSlot {
			to.addRevenue(uint32(slot), sale.currency, sale.revenue)
		}
	}
}

// onlySlot returns the slot of everything in a visit. ok is false if there may be several.
func (p *pass) onlySlot(f *fact, s *slots) (slot int, ok bool) {
	if !s.rising {
		return noSlot, false
	}

	slot = s.at(p.g.Start[f.visit])
	for _, times := range [...][]uint32{p.viewTimes(f), p.eventTimes(f)} {
		// They are in order of time.
		if n := len(times); n > 0 && (s.at(times[0]) != slot || s.at(times[n-1]) != slot) {
			return noSlot, false
		}
	}
	return slot, true
}

// viewTimes returns the times of a visit's page views, in order.
func (p *pass) viewTimes(f *fact) []uint32 {
	from, to := p.g.Views(int(f.visit))
	return p.g.ViewAt[from:to]
}

// eventTimes returns the times of a visit's events, in order.
func (p *pass) eventTimes(f *fact) []uint32 {
	from, to := p.g.Events(int(f.visit))
	return p.g.EventAt[from:to]
}

// countParts counts each page view and event of a visit by itself.
func (p *pass) countParts(to *table, s *slots, f *fact, w *window) {
	if slot := s.at(p.g.Start[f.visit]); f.begun && slot != noSlot {
		p.addBegun(&to.cells[slot], f)
	}

	p.eachViewOf(f, w, func(v int, day uint8) {
		if slot := s.at(p.g.ViewAt[v]); slot != noSlot {
			p.addView(&to.cells[slot], v)
			to.addVisitor(uint32(slot), f, day)
		}
	})
	p.eachEventOf(f, w, func(e int, day uint8) {
		if slot := s.at(p.g.EventAt[e]); slot != noSlot {
			p.addEventTo(to, uint32(slot), f, e, day, false)
		}
	})
}
