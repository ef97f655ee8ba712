package scan

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// RollUp counts the figures of a segment that a Scanner can add up: those of each local day within
// each UTC day, without a filter and for any key events.
func RollUp(g *segment.Segment, zone *time.Location) *segment.Rollup {
	first := g.First.Start().Time()
	last := first.Add(time.Duration(len(g.Days))*24*time.Hour - time.Second)
	q := &Query{Zone: zone, From: DateOf(first.In(zone)), To: DateOf(last.In(zone))}
	for by := EntryPage; by <= Page; by++ {
		q.Breakdowns = append(q.Breakdowns, Breakdown{By: by, VisitorsOnly: true})
	}
	q.Breakdowns = append(q.Breakdowns, Breakdown{By: Event})

	// Rollups name texts by their index.
	s := New(q)
	for _, domain := range append(fields[:], segment.Path, segment.EventName, segment.User) {
		s.texts[domain.Domain()] = &dictionary{only: true}
	}
	p, err := s.newPass(g)
	if err == nil {
		err = p.prepare()
	}
	if err != nil {
		// Without a bound and a context, nothing ends the count.
		panic(err)
	}
	r := &roller{pass: p, rollup: &segment.Rollup{Names: model.SourceNamesVersion()}}

	begin, visitor := 0, uint32(0)
	for n, d := range g.Days {
		end := begin + int(d.Visits)
		visitor = r.rollUpDay(n, begin, end, visitor)
		begin = end
	}
	return r.rollup
}

// roller counts the rollup of a segment.
type roller struct {
	*pass
	rollup *segment.Rollup
}

// rollUpDay adds the spans of the UTC day n, whose visits are those from begin before end. visitor
// is the number of the last visitor before them; rollUpDay returns that of their last one.
func (r *roller) rollUpDay(n, begin, end int, visitor uint32) uint32 {
	day := r.window(n)
	bounds := slices.Compact(append(append([]uint32{day.from}, day.cuts...), day.to))

	var spans []segment.Span
	var all []*segment.Totals
	lastVisitor := visitor
	for i := range bounds[1:] {
		w := window{from: bounds[i], to: bounds[i+1]}
		lastVisitor = r.collect(&w, begin, end, visitor)
		if len(r.facts) > 0 {
			r.count(&w)
			spans = append(spans, segment.Span{Day: uint32(n), From: w.from, To: w.to})
			all = append(all, r.take(&w))
		}
	}

	if len(all) > 1 {
		all[0].Across = r.across(&window{from: day.from, to: day.to}, begin, end, visitor, all)
	}
	for i := range spans {
		r.rollup.Add(spans[i], all[i])
	}
	return lastVisitor
}

// events returns the table of events.
func (r *roller) events() *table { return r.tables[len(r.tables)-1] }

// take returns the figures of a span and empties the tables.
func (r *roller) take(w *window) *segment.Totals {
	c, users := &r.totals.buckets[0].Figures, r.totals.users.entries()
	t := &segment.Totals{
		Visitors: c.Visitors - int64(len(users)), Visits: c.Visits, Pageviews: c.Pageviews, Bounces: c.Bounces,
		Scrolled: c.Scrolled, VisitMS: c.VisitMS, ViewMS: c.ViewMS, ScrollSum: c.ScrollSum,
		Users: usersOf(users, 0), Sets: r.sets(w), Sales: r.sumSales(), Hidden: r.hidden(w), Joined: r.joined(),
	}

	for i, to := range r.tables[:len(r.tables)-1] {
		if by := r.query.Breakdowns[i].By; by != SourceName {
			field, _ := fieldOf(by)
			t.Values[field] = rowsOf(to)
		}
	}
	t.Names = namesOf(r.events())

	r.empty()
	return t
}

// empty removes all that was counted.
func (r *roller) empty() {
	r.totals.empty()
	for _, t := range r.tables {
		t.empty()
	}
}

// rowsOf returns the rows of a table with visitorBuckets.
func rowsOf(t *table) segment.FieldRows {
	users := t.users.entries()
	var visitors []segment.Pair
	for id, next := 0, 0; id < len(t.visitorBuckets); id++ {
		begin := next
		for next < len(users) && users[next].Value == uint32(id) {
			next++
		}

		h := &t.visitorBuckets[id]
		if known := uint32(next - begin); h.visitors > known || h.visitors == 0 && h.shown {
			visitors = append(visitors, segment.Pair{Value: uint32(id), N: h.visitors - known})
		}
	}
	return segment.FieldRows{Visitors: segment.NewList(visitors), Users: segment.NewList(users)}
}

// joined returns how often visitors without a user id count too much in the row of a name if the
// rows of its sources are added up, because a visitor came from several of them.
func (r *roller) joined() segment.List {
	ofNames := anonymous(r.tables[SourceName])
	firsts := make([]int, len(ofNames)) // by the number of a name: 1 more than its first source
	sums := make([]uint32, len(ofNames))
	for source, visitors := range anonymous(r.tables[Source]) {
		name := r.names.current[source]
		sums[name] += visitors
		if firsts[name] == 0 {
			firsts[name] = source + 1
		}
	}

	var pairs []segment.Pair
	for name, first := range firsts {
		if sums[name] > ofNames[name] {
			pairs = append(pairs, segment.Pair{Value: uint32(first - 1), N: sums[name] - ofNames[name]})
		}
	}
	// Names are numbered in the order of their first sources.
	return segment.NewList(pairs)
}

// anonymous returns the visitors without a user id of each value of a table with visitorBuckets.
func anonymous(t *table) []uint32 {
	visitors := make([]uint32, len(t.visitorBuckets))
	for id := range visitors {
		visitors[id] = t.visitorBuckets[id].visitors
	}
	for _, user := range t.users.entries() {
		visitors[user.Value]--
	}
	return visitors
}

// usersOf returns the user ids of a bucket from the entries of a table.
func usersOf(entries []segment.Pair, bucket uint32) segment.List {
	var users []segment.Pair
	for _, e := range entries {
		if e.Value == bucket {
			users = append(users, segment.Pair{Value: e.N})
		}
	}
	return segment.NewList(users)
}

// namesOf returns the rows of the table of events.
func namesOf(t *table) (names []segment.NameTotals) {
	users := t.users.entries()
	for id := range t.buckets {
		c := &t.buckets[id]
		if !c.Any() {
			continue
		}

		known := int64(0)
		for _, u := range users {
			if u.Value == uint32(id) {
				known++
			}
		}
		names = append(names, segment.NameTotals{
			Name: uint32(id), Visitors: c.Visitors - known, Events: c.Events, Visits: c.Visits, Bounces: c.Bounces,
			VisitMS: c.VisitMS, Users: usersOf(users, uint32(id)),
		})
	}
	return names
}

// across returns the visits with an event that the spans of a UTC day, whose totals are given, have
// not counted, because the visits began in another span.
func (r *roller) across(
	w *window, begin, end int, visitor uint32, all []*segment.Totals,
) (names []segment.NameTotals) {
	r.collect(w, begin, end, visitor)
	r.countEvents(r.events(), w)
	whole := namesOf(r.events())
	r.empty()

	for _, n := range whole {
		for _, t := range all {
			for _, counted := range t.Names {
				if counted.Name == n.Name {
					n.Visits, n.Bounces, n.VisitMS = n.Visits-counted.Visits, n.Bounces-counted.Bounces, n.VisitMS-counted.VisitMS
				}
			}
		}
		if n.Visits > 0 {
			names = append(names, segment.NameTotals{Name: n.Name, Visits: n.Visits, Bounces: n.Bounces, VisitMS: n.VisitMS})
		}
	}
	return names
}

// sets counts the visitors without a user id by the names of their events.
func (r *roller) sets(w *window) []segment.NameSet {
	counts := make(map[string]int64) // by the names, four bytes each

	var names []uint32
	var key []byte
	end := func() {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		key = key[:0]
		for _, name := range slices.Compact(names) {
			key = binary.BigEndian.AppendUint32(key, name)
		}
		counts[string(key)]++
		names = names[:0]
	}

	last := uint32(0)
	r.eachEvent(w, func(f *fact, e int, _ uint8) {
		if f.user != 0 {
			return
		}
		if f.visitor != last {
			end()
			last = f.visitor
		}
		names = append(names, r.g.Columns[segment.EventName].At(e))
	})
	end()

	sets := make([]segment.NameSet, 0, len(counts))
	for key, visitors := range counts {
		set := segment.NameSet{Visitors: visitors}
		for at := 0; at < len(key); at += 4 {
			set.Names = append(set.Names, binary.BigEndian.Uint32([]byte(key[at:at+4])))
		}
		sets = append(sets, set)
	}
	slices.SortFunc(sets, func(a, b segment.NameSet) int { return slices.Compare(a.Names, b.Names) })
	return sets
}

// sumSales adds up the sales by name and currency.
func (r *roller) sumSales() (sums []segment.Sale) {
	for _, s := range r.sales {
		name, currency := r.g.Columns[segment.EventName].At(s.event), r.g.Columns[segment.Currency].At(s.event)
		i := slices.IndexFunc(sums, func(s segment.Sale) bool { return s.Name == name && s.Currency == currency })
		if i < 0 {
			i = len(sums)
			sums = append(sums, segment.Sale{Name: name, Currency: currency})
		}
		sums[i].Count++
		sums[i].Amount += r.g.Value[s.event]
	}
	return sums
}

// hidden returns the rows that have nothing but automatic events, before the tables are emptied.
// They are rows if such an event is a key event.
func (r *roller) hidden(w *window) (rows []segment.HiddenRow) {
	pages := r.tables[Page]
	for i := range r.facts {
		f := &r.facts[i]
		for e := range r.eventsOf(f, w) {
			name := r.g.Columns[segment.EventName].At(e)
			if !r.auto[name] {
				continue
			}

			path := r.g.Columns[segment.EventPath].At(e)
			if !pages.visitorBuckets[path].any() {
				rows = append(rows, segment.HiddenRow{Field: segment.Path, Value: path, Name: name})
			}
			if f.begun || f.days != 0 || r.sums[i].events > 0 {
				continue
			}
			for by, field := range fields {
				if Dimension(by) == SourceName {
					continue // its rows are added up from the sources
				}
				value := r.g.Columns[field].At(int(f.visit))
				if !r.tables[by].visitorBuckets[value].any() {
					rows = append(rows, segment.HiddenRow{Field: field, Value: value, Name: name})
				}
			}
		}
	}

	slices.SortFunc(rows, func(a, b segment.HiddenRow) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(rows)
}
