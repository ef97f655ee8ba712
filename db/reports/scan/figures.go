package scan

import (
	"math/bits"

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

func (f *Figures) addRevenue(currency string, r Revenue) {
	if f.Revenue == nil {
		f.Revenue = make(map[string]Revenue)
	}
	sum := f.Revenue[currency]
	sum.add(r)
	f.Revenue[currency] = sum
}

// cell collects the figures of one value. The stamps make distinct visitors countable without a set:
// the visits of a visitor are neighbours, and no two segments share a number.
type cell struct {
	seen      stamp  // visitors counted in Visitors
	converted stamp  // visitors counted in Converted
	visit     uint32 // number of the last visit counted in Visits
	user      uint32 // the user id counted last in Visitors
	Figures
}

// stamp holds the last visitor that was counted and, as a bit each, the local days on which. A UTC
// day meets at most three local days, which happens when daylight saving shortens one.
type stamp uint32

const stampDays = 3

// meet returns how many of the days are new for the visitor.
func (s *stamp) meet(visitor uint32, days uint8) int64 {
	last := uint32(*s)
	if last>>stampDays != visitor {
		last = visitor << stampDays
	}

	fresh := uint32(days) &^ last
	*s = stamp(last | fresh)
	return int64(bits.OnesCount32(fresh & (1<<stampDays - 1)))
}

// table collects the rows of one breakdown over all segments, by the number of the value.
type table struct {
	cells []cell
	users map[userKey]struct{} // user ids met, which count once in the period
}

// userKey says that a user id was met in a cell, or converted there.
type userKey struct {
	cell, user uint32
	converted  bool
}

func newTable(n int) *table { return &table{cells: make([]cell, n), users: make(map[userKey]struct{})} }

// grow makes room for numbers below n.
func (t *table) grow(n int) {
	if more := n - len(t.cells); more > 0 {
		t.cells = append(t.cells, make([]cell, more)...)
	}
}

// meet counts the person behind a visit in a cell, on the given local days.
func (t *table) meet(id uint32, f *fact, days uint8) {
	c := &t.cells[id]
	switch {
	case days == 0:
	case f.user == 0:
		c.Visitors += c.seen.meet(f.visitor, days)
	case f.user != c.user:
		c.user = f.user
		c.Visitors += t.once(userKey{id, f.user, false})
	}
}

// convert counts the person behind a visit as converted in a cell, on the given local days.
func (t *table) convert(id uint32, f *fact, days uint8) {
	switch {
	case days == 0:
	case f.user != 0:
		t.cells[id].Converted += t.once(userKey{id, f.user, true})
	default:
		c := &t.cells[id]
		c.Converted += c.converted.meet(f.visitor, days)
	}
}

// once returns 1 for a key that is new, else 0.
func (t *table) once(key userKey) int64 {
	if _, met := t.users[key]; met {
		return 0
	}
	t.users[key] = struct{}{}
	return 1
}

// byText returns the rows in which anything was counted. text returns the value of a number.
func (t *table) byText(text func(number int) string) map[string]Figures {
	n := 0
	for number := range t.cells {
		if t.cells[number].any() {
			n++
		}
	}

	rows := make(map[string]Figures, n)
	for number := range t.cells {
		if c := &t.cells[number]; c.any() {
			rows[text(number)] = c.Figures
		}
	}
	return rows
}

// any reports whether anything was counted.
func (c *cell) any() bool {
	return c.Visits|c.Pageviews|c.Events|c.Exits|c.Visitors|c.Converted != 0 || c.Revenue != nil
}
