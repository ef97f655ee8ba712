package scan

import (
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// addsUp reports whether rollups have all that a query asks for.
func (q *Query) addsUp() bool {
	for i := range q.Breakdowns {
		if b := &q.Breakdowns[i]; b.By != Event && (b.By > Page || !b.VisitorsOnly) {
			return false
		}
	}
	isFollowed := len(q.Funnels) > 0 || len(q.Journeys) > 0 || q.Cohorts != nil
	return len(q.Filters) == 0 && !isFollowed && len(q.Numbers) == 0 && len(q.Hours) == 0 && (q.Properties == nil || q.Properties.Event != "")
}

// AddsUp reports whether rollups have all that the query asks for.
func (s *Scanner) AddsUp() bool { return s.addsUp }

// NeedsNames reports whether only rollups with the names of this program have what the query asks
// for.
func (s *Scanner) NeedsNames() bool { return s.names != nil }

// NeedsColumns reports whether AddRollup leaves days of the segment out, which AddRest then counts.
// It needs the days, the texts and the rollup's spans, and is safe for concurrent use, also with
// the methods that add.
func (s *Scanner) NeedsColumns(g *segment.Segment, spans []segment.Span) bool {
	return slices.Contains(s.rest(g, spans), true)
}

// rest returns which UTC days of a segment its rollup has no figures of: days that the period cuts,
// and all days if the query asks for more than rollups have.
func (s *Scanner) rest(g *segment.Segment, spans []segment.Span) []bool {
	rest := make([]bool, len(g.Days))
	all := func() []bool {
		for n := range rest {
			rest[n] = true
		}
		return rest
	}

	// Rollups have no properties. Without an event of the name, there are none.
	if p := s.query.Properties; !s.addsUp || p != nil && slices.Contains(g.Texts[segment.EventName], p.Event) {
		return all()
	}

	first := g.First.Start().Time().Unix()
	perDay := make([]int, len(rest)) // spans in the period of UTC days that are not all in the period
	for _, span := range spans {
		if int(span.Day) >= len(rest) {
			return all()
		}

		from, to := first+int64(span.From), first+int64(span.To)
		if to <= s.days[0] || from >= s.until {
			continue
		}
		if from < s.days[0] || to > s.until || !s.isDay(from, to) {
			rest[span.Day] = true
		}
		if !s.hasDay(first, span) {
			perDay[span.Day]++
		}
		if perDay[span.Day] > 1 {
			// Across counts only if the period has all spans.
			rest[span.Day] = true
		}
	}
	return rest
}

const utcDay = 86_400 // seconds

// hasDay reports whether the whole UTC day of a span is in the period.
func (s *Scanner) hasDay(first int64, span segment.Span) bool {
	begin := first + int64(span.Day)*utcDay
	return begin >= s.days[0] && begin+utcDay <= s.until
}

// isDay reports whether a time is all of a local day within a UTC day, and in one point.
func (s *Scanner) isDay(from, to int64) bool {
	return s.isMidnight(from) && s.isMidnight(to) && !hasWithin(s.days, from, to) && !hasWithin(s.points, from, to)
}

// isMidnight reports whether a local or a UTC day begins at a time.
func (s *Scanner) isMidnight(at int64) bool {
	_, local := slices.BinarySearch(s.days, at)
	return local || at%utcDay == 0
}

// hasWithin reports whether one of the times, which ascend, is after from and before to.
func hasWithin(times []int64, from, to int64) bool {
	i, _ := slices.BinarySearch(times, from+1)
	return i < len(times) && times[i] < to
}

// AddRollup counts the days of a segment that its rollup has, of which only the days and the texts
// are needed.
func (s *Scanner) AddRollup(g *segment.Segment, r *segment.Rollup) error {
	rest := s.rest(g, r.Spans())
	if !slices.Contains(rest, false) {
		return nil
	}

	p, err := s.newPass(g)
	if err == nil {
		err = p.number()
	}
	if err != nil {
		return err
	}

	a := &adder{p}
	for i, span := range r.Spans() {
		from, to := p.first+int64(span.From), p.first+int64(span.To)
		if rest[span.Day] || to <= s.days[0] || from >= s.until {
			continue
		}

		t, err := r.Totals(i, g)
		if err != nil {
			return err
		}
		if !s.hasDay(p.first, span) {
			t.Across = nil
		}
		if err := a.addTotals(t, from); err != nil {
			return err
		}
	}
	return nil
}

// AddRest counts the days of a segment that AddRollup leaves out, by the spans of its rollup. It is
// like Add for them.
func (s *Scanner) AddRest(g *segment.Segment, spans []segment.Span) error {
	rest := s.rest(g, spans)
	if !slices.Contains(rest, true) {
		return nil
	}
	return s.addDays(g, rest)
}

// adder adds the figures of a segment's rollup, in place of its visits.
type adder struct{ *pass }

// addTotals adds the figures of a span that begins at a time.
func (a *adder) addTotals(t *segment.Totals, from int64) error {
	if err := a.addSums(a.totals, 0, t); err != nil {
		return err
	}
	if point := pointOf(a.points, from); point != noInterval && point < len(a.points)-1 {
		if err := a.addSums(a.series, uint32(point), t); err != nil {
			return err
		}
	}

	for i, to := range a.tables {
		var err error
		switch by := a.query.Breakdowns[i].By; by {
		case Event:
			err = a.addNames(to, t)
		case SourceName:
			err = a.addSourceNames(to, t)
		default:
			field, _ := fieldOf(by)
			err = a.addRows(to, field, a.numbers(field), t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSums adds a span to a bucket of the totals or of the series.
func (a *adder) addSums(to *table, id uint32, t *segment.Totals) error {
	c := &to.buckets[id]
	c.Visitors += t.Visitors
	c.Visits += t.Visits
	c.Pageviews += t.Pageviews
	c.Bounces += t.Bounces
	c.Scrolled += t.Scrolled
	c.VisitMS += t.VisitMS
	c.ViewMS += t.ViewMS
	c.ScrollSum += t.ScrollSum

	met, err := a.addUsers(to, id, &t.Users, false)
	if err != nil {
		return err
	}
	c.Visitors += met

	for i := range t.Names {
		n := &t.Names[i]
		if !a.auto[n.Name] {
			c.Events += n.Events
		}
		if !a.keys[n.Name] {
			continue
		}
		converted, err := a.addUsers(to, id, &n.Users, true)
		if err != nil {
			return err
		}
		c.Conversions += n.Events
		c.Converted += converted
	}

	for i := range t.Sets {
		if slices.ContainsFunc(t.Sets[i].Names, func(name uint32) bool { return a.keys[name] }) {
			c.Converted += t.Sets[i].Visitors
		}
	}
	for i := range t.Sales {
		a.addSale(to, id, &t.Sales[i])
	}
	return nil
}

// addUsers enters user ids into a bucket and returns how many were not there.
func (a *adder) addUsers(to *table, id uint32, users *segment.List, converted bool) (added int64, err error) {
	if a.pairs, err = users.Append(a.pairs[:0]); err != nil {
		return 0, err
	}
	for _, pair := range a.pairs {
		added += int64(to.users.add(id, a.users[pair.Value], converted))
	}
	return added, nil
}

func (a *adder) addSale(to *table, id uint32, s *segment.Sale) {
	if a.query.WithoutRevenue {
		return
	}
	revenue := revenueOf(a.kind[s.Name], s.Amount)
	revenue.Purchases *= s.Count
	revenue.Refunds *= s.Count
	to.addRevenue(id, a.currencies[s.Currency], revenue)
}

// addRows adds the rows of a field, with the numbers of its texts.
func (a *adder) addRows(to *table, field segment.Field, numbers []uint32, t *segment.Totals) (err error) {
	rows := &t.Values[field]
	if a.pairs, err = rows.Visitors.Append(a.pairs[:0]); err != nil {
		return err
	}
	for _, pair := range a.pairs {
		h := &to.visitorBuckets[numbers[pair.Value]]
		h.visitors += pair.N
		h.shown = true
	}

	if a.pairs, err = rows.Users.Append(a.pairs[:0]); err != nil {
		return err
	}
	for _, pair := range a.pairs {
		id := numbers[pair.Value]
		to.visitorBuckets[id].visitors += to.users.add(id, a.users[pair.N], false)
	}

	for _, h := range t.Hidden {
		if h.Field == field && a.keys[h.Name] {
			to.visitorBuckets[numbers[h.Value]].shown = true
		}
	}
	return nil
}

// errJoined is the error of a rollup that takes more visitors from a name than the name has.
var errJoined = fmt.Errorf("%w: names of a rollup's sources", segment.ErrDamaged)

// addSourceNames adds the rows of sources to those of their names. A visitor of several sources of
// one name counts once.
func (a *adder) addSourceNames(to *table, t *segment.Totals) (err error) {
	numbers := a.numbersBy(SourceName)
	if err := a.addRows(to, segment.Source, numbers, t); err != nil {
		return err
	}

	if a.pairs, err = t.Joined.Append(a.pairs[:0]); err != nil {
		return err
	}
	for _, pair := range a.pairs {
		h := &to.visitorBuckets[numbers[pair.Value]]
		if pair.N > h.visitors {
			return errJoined
		}
		h.visitors -= pair.N
	}
	return nil
}

// addNames adds the rows of events.
func (a *adder) addNames(to *table, t *segment.Totals) error {
	numbers := a.numbers(segment.EventName)
	for i := range t.Names {
		n := &t.Names[i]
		id := numbers[n.Name]
		met, err := a.addUsers(to, id, &n.Users, false)
		if err != nil {
			return err
		}

		c := &to.buckets[id]
		c.Visitors += n.Visitors + met
		c.Events += n.Events
		c.Visits += n.Visits
		c.Bounces += n.Bounces
		c.VisitMS += n.VisitMS

		if a.keys[n.Name] {
			converted, err := a.addUsers(to, id, &n.Users, true)
			if err != nil {
				return err
			}
			c.Conversions += n.Events
			c.Converted += n.Visitors + converted
		}
	}

	for i := range t.Across {
		n := &t.Across[i]
		c := &to.buckets[numbers[n.Name]]
		c.Visits += n.Visits
		c.Bounces += n.Bounces
		c.VisitMS += n.VisitMS
	}
	for i := range t.Sales {
		a.addSale(to, numbers[t.Sales[i].Name], &t.Sales[i])
	}
	return nil
}
