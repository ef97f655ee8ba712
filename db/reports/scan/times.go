package scan

import (
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// isTime reports whether the rows of a dimension are times.
func isTime(by Dimension) bool { return by == DayOfWeek || by == HourOfDay }

// timeTexts are the values of the dimensions of time, by interval: the days of the week from
// 1 for Monday to 7, and the hours of the day.
var timeTexts = map[Dimension][]string{
	DayOfWeek: {"1", "2", "3", "4", "5", "6", "7"},
	HourOfDay: {
		"00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11",
		"12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23",
	},
}

// intervals maps the seconds of a segment to intervals of time, such as the points of a series. The
// interval of a quarter of an hour is computed once.
type intervals struct {
	first    int64                // Unix seconds of the segment's first midnight
	of       func(unix int64) int // the interval of a time, or noInterval
	quarters []int16              // intervals by quarter of an hour since first
	rising   bool                 // a later time never has a lower interval
}

const (
	noInterval = -1
	several    = -2 // in quarters: the interval changes within the quarter

	quarter = 15 * 60
)

// newIntervals computes the intervals of the segment's quarters of an hour. of must be constant
// within a quarter that begins and ends in the same interval, as hours and days of all zones are
// since 1973.
func newIntervals(g *segment.Segment, of func(unix int64) int) intervals {
	first := g.First.Start().Time().Unix()
	s := intervals{first: first, of: of, quarters: make([]int16, len(g.Days)*(86_400/quarter))}
	for i := range s.quarters {
		begin := first + int64(i)*quarter
		interval := of(begin)
		if of(begin+quarter-1) != interval {
			interval = several
		}
		s.quarters[i] = int16(interval)
	}
	return s
}

// at returns the interval of a second, or noInterval.
func (s *intervals) at(second uint32) int {
	if n := int(second / quarter); n < len(s.quarters) && s.quarters[n] != several {
		return int(s.quarters[n])
	}
	return s.of(s.first + int64(second))
}

// only returns the interval of all seconds of a window. ok is false if there may be several.
func (s *intervals) only(w *window) (interval int, ok bool) {
	first, last := int(w.from/quarter), int(w.to-1)/quarter
	if w.to == 0 || last >= len(s.quarters) {
		return noInterval, false
	}
	for _, other := range s.quarters[first : last+1] {
		if other == several || other != s.quarters[first] {
			return noInterval, false
		}
	}
	return int(s.quarters[first]), true
}

// timeIntervals returns the intervals of a dimension of time.
func (p *pass) timeIntervals(by Dimension) intervals {
	zone := p.query.Zone
	return newIntervals(p.g, func(unix int64) int {
		t := time.Unix(unix, 0).In(zone)
		if by == HourOfDay {
			return t.Hour()
		}
		return (int(t.Weekday()) + 6) % 7
	})
}

// pointIntervals returns the intervals of a series' points.
func (p *pass) pointIntervals(points []int64) intervals {
	s := newIntervals(p.g, func(unix int64) int {
		if i := pointOf(points, unix); i < len(points)-1 {
			return i
		}
		return noInterval
	})
	s.rising = true
	return s
}

// pointOf returns the last point that begins at a time or before, or noInterval. Points that begin
// at the same time are empty but for the last one.
func pointOf(points []int64, unix int64) int {
	after, _ := slices.BinarySearch(points, unix+1)
	return after - 1
}

// countAt counts by intervals of time: page views and events by their own time, visits by their
// start.
func (p *pass) countAt(to *table, s *intervals, w *window) {
	all, isOne := s.only(w)
	for i := range p.facts {
		interval, one := all, isOne
		if !isOne {
			interval, one = p.onlyInterval(&p.facts[i], s)
		}
		switch {
		case !one:
			p.countParts(to, s, &p.facts[i], w)
		case interval != noInterval:
			p.addVisit(to, uint32(interval), i)
		}
	}
	for _, sale := range p.sales {
		if interval := s.at(p.g.EventAt[sale.event]); interval != noInterval {
			to.addRevenue(uint32(interval), sale.currency, sale.revenue)
		}
	}
}

// onlyInterval returns the interval of everything in a visit. ok is false if there may be several.
func (p *pass) onlyInterval(f *fact, s *intervals) (interval int, ok bool) {
	if !s.rising {
		return noInterval, false
	}

	interval = s.at(p.g.Start[f.visit])
	for _, times := range [...][]uint32{p.viewTimes(f), p.eventTimes(f)} {
		// They are in order of time.
		if n := len(times); n > 0 && (s.at(times[0]) != interval || s.at(times[n-1]) != interval) {
			return noInterval, false
		}
	}
	return interval, true
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
func (p *pass) countParts(to *table, s *intervals, f *fact, w *window) {
	if interval := s.at(p.g.Start[f.visit]); f.begun && interval != noInterval {
		p.addBegun(&to.buckets[interval], f)
	}

	for v, day := range p.viewsOf(f, w) {
		if interval := s.at(p.g.ViewAt[v]); interval != noInterval {
			p.addView(&to.buckets[interval], v)
			to.addVisitor(uint32(interval), f, day)
		}
	}
	for e, day := range p.eventsOf(f, w) {
		if interval := s.at(p.g.EventAt[e]); interval != noInterval {
			p.addEventTo(to, uint32(interval), f, e, day, false)
		}
	}
}
