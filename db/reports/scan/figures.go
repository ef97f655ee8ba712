package scan

import (
	"maps"
	"math/bits"
	"slices"

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

func (f *Figures) add(other *Figures) {
	f.Visitors += other.Visitors
	f.Visits += other.Visits
	f.Pageviews += other.Pageviews
	f.Bounces += other.Bounces
	f.Exits += other.Exits
	f.VisitMS += other.VisitMS
	f.ViewMS += other.ViewMS
	f.ScrollSum += other.ScrollSum
	f.Scrolled += other.Scrolled
	f.Events += other.Events
	f.Conversions += other.Conversions
	f.Converted += other.Converted

	for currency, r := range other.Revenue {
		f.addRevenue(currency, r)
	}
}

func (f *Figures) addRevenue(currency string, r Revenue) {
	if f.Revenue == nil {
		f.Revenue = make(map[string]Revenue)
	}
	sum := f.Revenue[currency]
	sum.add(r)
	f.Revenue[currency] = sum
}

// clone returns a copy that shares nothing.
func (f *Figures) clone() Figures {
	c := *f
	c.Revenue = maps.Clone(f.Revenue)
	return c
}

// cell collects the figures of one value within one segment. The stamps make distinct visitors
// countable without a set: the visits of a visitor are neighbours.
type cell struct {
	Figures
	seen      stamp  // visitors counted in Visitors
	converted stamp  // visitors counted in Converted
	visit     uint32 // number of the last visit counted in Visits
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

// rows collects the cells of one breakdown within one segment, by the value's index.
type rows struct {
	cells []cell
	users map[userKey]struct{} // user ids met, which count once in the period
}

// userKey says that a user was met in a cell, or converted there.
type userKey struct {
	cell, user uint32
	converted  bool
}

func newRows(n int) *rows { return &rows{cells: make([]cell, n), users: make(map[userKey]struct{})} }

// meet counts the person behind a visit in a cell, on the given local days.
func (r *rows) meet(id uint32, f *fact, days uint8) {
	switch {
	case days == 0:
	case f.user != 0:
		r.users[userKey{id, f.user, false}] = struct{}{}
	default:
		c := &r.cells[id]
		c.Visitors += c.seen.meet(f.visitor, days)
	}
}

// convert counts the person behind a visit as converted in a cell, on the given local days.
func (r *rows) convert(id uint32, f *fact, days uint8) {
	switch {
	case days == 0:
	case f.user != 0:
		r.users[userKey{id, f.user, true}] = struct{}{}
	default:
		c := &r.cells[id]
		c.Converted += c.converted.meet(f.visitor, days)
	}
}

// Row is the figures of one value.
type Row struct {
	Figures
	users, convertedUsers map[string]struct{}
}

// table holds the rows of one breakdown over all segments.
type table struct {
	rows     map[string]*Row
	numbered []*Row // the same, by the number of the value's text, see dictionary
}

func newTable() *table { return &table{rows: make(map[string]*Row)} }

// dictionary numbers the texts of one domain over all segments, so that a text is looked up once for
// each segment and not for each of its breakdowns.
type dictionary struct {
	numbers map[string]uint32 // from 1
	current []uint32          // numbers of the current segment's texts by their index; 0: not looked up
	texts   []string          // of the current segment
}

func newDictionary() *dictionary { return &dictionary{numbers: make(map[string]uint32)} }

// begin starts a segment with its texts.
func (d *dictionary) begin(texts []string) {
	d.texts = texts
	d.current = slices.Grow(d.current[:0], len(texts))[:len(texts)]
	clear(d.current)
}

// number returns the number of the text with an index in the current segment.
func (d *dictionary) number(id int) uint32 {
	n := d.current[id]
	if n == 0 {
		text := d.texts[id]
		if n = d.numbers[text]; n == 0 {
			n = uint32(len(d.numbers)) + 1
			d.numbers[text] = n
		}
		d.current[id] = n
	}
	return n
}

// fold adds the cells of a segment. text returns the value of an index, users the dictionary of
// user ids.
func (t *table) fold(r *rows, text func(id int) string, users []string) {
	t.add(r, func(id int) *Row { return t.row(text(id)) }, users)
}

// foldTexts is fold for the values of a dictionary.
func (t *table) foldTexts(r *rows, d *dictionary, users []string) {
	t.add(r, func(id int) *Row { return t.rowOf(d, id) }, users)
}

func (t *table) add(r *rows, rowOf func(id int) *Row, users []string) {
	for id := range r.cells {
		if c := &r.cells[id]; c.any() {
			rowOf(id).Figures.add(&c.Figures)
		}
	}

	for key := range r.users {
		row := rowOf(int(key.cell))
		set := &row.users
		if key.converted {
			set = &row.convertedUsers
		}
		if *set == nil {
			*set = make(map[string]struct{})
		}
		(*set)[users[key.user]] = struct{}{}
	}
}

// rowOf returns the row of a text of the current segment.
func (t *table) rowOf(d *dictionary, id int) *Row {
	n := int(d.number(id))
	if n >= len(t.numbered) {
		t.numbered = append(t.numbered, make([]*Row, n+1-len(t.numbered))...)
	}
	if t.numbered[n] == nil {
		t.numbered[n] = t.row(d.texts[id])
	}
	return t.numbered[n]
}

// any reports whether anything was counted.
func (c *cell) any() bool {
	return c.Visits|c.Pageviews|c.Events|c.Exits|c.Visitors != 0 || c.Revenue != nil
}

func (t *table) row(value string) *Row {
	row := t.rows[value]
	if row == nil {
		row = new(Row)
		t.rows[value] = row
	}
	return row
}

// figures returns the sums with the user ids counted in.
func (r *Row) figures() Figures {
	f := r.Figures.clone()
	f.Visitors += int64(len(r.users))
	f.Converted += int64(len(r.convertedUsers))
	return f
}
