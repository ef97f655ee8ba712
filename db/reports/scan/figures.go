package scan

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/tallygate/tallygate/db/model"
)

// Figures are the sums that every figure of a report is made of.
type Figures struct {
	Visitors    int64
	Visits      int64
	Pageviews   int64
	Bounces     int64 // visits with one page view, only automatic events, less than 10 s in view
	Exits       int64 // of a page: visits whose last page view it was
	VisitMS     int64 // time in view of the visits, ms
	ViewMS      int64 // time in view of the page views, ms
	ScrollSum   int64 // percent, over the page views that reported a depth
	Scrolled    int64 // page views that reported a depth
	Events      int64 // events; automatic ones only in rows of Event and Property
	Conversions int64 // key events
	Converted   int64 // visitors with a key event
	Revenue     map[string]Revenue
	Unknown     *Unknown // of the figures of imports; nil without any
}

// Any reports whether anything was counted.
func (f *Figures) Any() bool {
	return f.Visits|f.Pageviews|f.Events|f.Exits|f.Visitors|f.Converted != 0 || f.Revenue != nil
}

// Revenue is what purchases and refunds of one currency sum up to, exactly.
type Revenue struct {
	Gross, Refunded    model.Money // Refunded is not negative
	Purchases, Refunds int64
}

// Net returns purchases less refunds.
func (r Revenue) Net() model.Money { return r.Gross - r.Refunded }

func (r *Revenue) add(other Revenue) {
	r.Gross += other.Gross
	r.Refunded += other.Refunded
	r.Purchases += other.Purchases
	r.Refunds += other.Refunds
}

// addRevenue adds to the revenue of a currency in a bucket.
func (t *table) addRevenue(id uint32, currency string, r Revenue) {
	f := &t.buckets[id].Figures
	before := len(f.Revenue)
	f.addRevenue(currency, r)
	t.budget.Take((len(f.Revenue) - before) * currencyBytes)
}

// addRevenue adds to the revenue of a currency, a text that stays valid.
func (f *Figures) addRevenue(currency string, r Revenue) {
	if f.Revenue == nil {
		f.Revenue = make(map[string]Revenue)
	}
	sum := f.Revenue[currency]
	sum.add(r)
	f.Revenue[currency] = sum
}

// bucket collects the figures of one value. The stamps make distinct visitors countable without a
// set: the visits of a visitor are neighbours, and no two segments share a number.
type bucket struct {
	seen      stamp  // visitors counted in Visitors
	converted stamp  // visitors counted in Converted
	visit     uint32 // number of the last visit counted in Visits
	user      uint32 // the user id counted last in Visitors
	Figures
}

// visitorBucket collects the visitors of one value, for a breakdown that needs no other figure. It
// has an eighth of a bucket's size, so that the buckets of some thousand values stay in the
// processor's cache.
type visitorBucket struct {
	seen     stamp  // visitors counted in visitors
	user     uint32 // the user id counted last in visitors
	visitors uint32 // fewer than 2^32, since a Scanner takes fewer than 2^29 visits
	shown    bool   // something else was counted, so that the value has a row
}

// any reports whether anything was counted.
func (h *visitorBucket) any() bool { return h.visitors != 0 || h.shown }

// stamp holds the last visitor that was counted and, as a bit each, the local days on which. A UTC
// day meets at most three local days, which happens when daylight saving shortens one.
type stamp uint32

const stampDays = 3

// add returns how many of the days are new for the visitor.
func (s *stamp) add(visitor uint32, days uint8) uint32 {
	last := uint32(*s)
	if last>>stampDays != visitor {
		last = visitor << stampDays
	}

	fresh := uint32(days) &^ last
	*s = stamp(last | fresh)
	return uint32(bits.OnesCount32(fresh & (1<<stampDays - 1)))
}

// table collects the rows of one breakdown over all segments, by the number of the value. It has
// either buckets or visitorBuckets.
type table struct {
	visitorsOnly   bool
	buckets        []bucket
	visitorBuckets []visitorBucket
	users          userSet // user ids met, which count once in the period

	budget *Budget
	values *dictionary // of a property
}

func newTable(n int, budget *Budget) *table {
	return &table{buckets: make([]bucket, n), budget: budget, users: userSet{budget: budget}}
}

// figures returns the figures of all buckets, nil without any.
func (t *table) figures() (list []Figures) {
	for i := range t.buckets {
		list = append(list, t.buckets[i].Figures)
	}
	return list
}

// grow makes room for numbers below n.
func (t *table) grow(n int) {
	if t.visitorsOnly {
		t.visitorBuckets = grown(t.visitorBuckets, n, t.budget)
		return
	}
	t.buckets = grown(t.buckets, n, t.budget)
}

// empty removes all figures and keeps the room.
func (t *table) empty() {
	clear(t.visitorBuckets)
	clear(t.buckets)
	t.users.empty()
}

// grown returns the list with at least n entries.
func grown[T any](list []T, n int, budget *Budget) []T {
	if n <= len(list) {
		return list
	}
	before := cap(list)
	list = slices.Grow(list, n-len(list))[:n]
	budget.Take((cap(list) - before) * int(unsafe.Sizeof(*new(T))))
	return list
}

// addVisitor counts the person behind a visit in a bucket, on the given local days.
func (t *table) addVisitor(id uint32, f *fact, days uint8) {
	c := &t.buckets[id]
	switch {
	case days == 0:
	case f.user == 0:
		c.Visitors += int64(c.seen.add(f.visitor, days))
	case f.user != c.user:
		c.user = f.user
		c.Visitors += int64(t.users.add(id, f.user, false))
	}
}

// addVisitorOnly counts the person behind a visit in a visitorBucket, on the given local days, at
// least one.
func (t *table) addVisitorOnly(id uint32, f *fact, days uint8) {
	h := &t.visitorBuckets[id]
	switch {
	case f.user == 0:
		h.visitors += h.seen.add(f.visitor, days)
	case f.user != h.user:
		h.user = f.user
		h.visitors += t.users.add(id, f.user, false)
	}
}

// convert counts the person behind a visit as converted in a bucket, on the given local days.
func (t *table) convert(id uint32, f *fact, days uint8) {
	switch {
	case days == 0:
	case f.user != 0:
		t.buckets[id].Converted += int64(t.users.add(id, f.user, true))
	default:
		c := &t.buckets[id]
		c.Converted += int64(c.converted.add(f.visitor, days))
	}
}
