package segment

import (
	"cmp"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// builder collects the columns of a segment at full width.
type builder struct {
	s          *Segment
	columns    [fieldCount][]uint32
	before     []uint32 // see Segment.Before
	newVisitor bool     // of the visit that is added next
	user       Text     // of the visit that is added next
}

func newBuilder(first model.Day) *builder {
	return &builder{s: &Segment{First: first, Days: make([]Day, 1)}}
}

// grow makes room for the rows of each table.
func (b *builder) grow(visitCount, viewCount, eventCount, propCount int) {
	rows := [tableCount]int{visits: visitCount, views: viewCount, events: eventCount, props: propCount}
	for f := range fieldCount {
		b.columns[f] = make([]uint32, 0, rows[f.table()])
	}
	for _, column := range []*[]uint32{&b.s.Start, &b.s.Engaged, &b.s.ViewsEnd, &b.s.EventsEnd} {
		*column = make([]uint32, 0, visitCount)
	}
	b.before = make([]uint32, 0, eventCount)
	for _, column := range []*[]uint32{&b.s.ViewAt, &b.s.ViewEngaged} {
		*column = make([]uint32, 0, viewCount)
	}
}

// put appends the text of a field's next row.
func (b *builder) put(f Field, text Text) { b.columns[f] = append(b.columns[f], uint32(text)) }

// second returns the whole seconds since the segment's first midnight.
func (b *builder) second(at model.Instant) uint32 {
	return uint32(max(0, at.Sub(b.s.First.Start())/time.Second))
}

// segment packs the columns and returns the segment. The builder must not be used again.
func (b *builder) segment(texts *[fieldCount][]string) *Segment {
	b.s.Texts = *texts
	if len(b.s.Numbers) == 0 {
		b.s.NumbersEnd = nil
	}
	for f := range fieldCount {
		b.s.Columns[f] = newColumn(b.columns[f], len(b.s.Texts[f.Domain()]))
		b.columns[f] = nil
	}

	most := uint32(0)
	if len(b.before) > 0 {
		most = slices.Max(b.before)
	}
	b.s.Before, b.before = newColumn(b.before, int(most)+1), nil
	return b.s
}

// grouped are places of rows in the order of their visits.
type grouped struct {
	rows []int32
	ends []int32 // by visit
}

// of returns the rows of a visit.
func (g *grouped) of(visit int) []int32 {
	from := int32(0)
	if visit > 0 {
		from = g.ends[visit-1]
	}
	return g.rows[from:g.ends[visit]]
}

// sorted returns the rows of a visit in order. Rows in the order of time, as the database returns
// them, cost no sorting.
func (g *grouped) sorted(visit int, compare func(a, b int32) int) []int32 {
	own := g.of(visit)
	if len(own) > 1 && !slices.IsSortedFunc(own, compare) {
		slices.SortFunc(own, compare)
	}
	return own
}

// byTime compares the times of two rows, and then their ids.
func byTime(at, otherAt model.Instant, id, otherID int64) int {
	return cmp.Or(cmp.Compare(at, otherAt), cmp.Compare(id, otherID))
}

// groupRows groups n rows by their visits. visitOf returns the place of a row's visit, and order
// lists the places of the visits in their order.
func groupRows(order []int32, n int, visitOf func(row int32) int32) *grouped {
	g := &grouped{make([]int32, n), make([]int32, len(order))}
	rank := make([]int32, len(order))
	for i, visit := range order {
		rank[visit] = int32(i)
	}
	for row := range int32(n) {
		g.ends[rank[visitOf(row)]]++
	}

	// First ends holds where each visit begins, and at last where it ends.
	begin := int32(0)
	for i, count := range g.ends {
		g.ends[i] = begin
		begin += count
	}
	for row := range int32(n) {
		at := &g.ends[rank[visitOf(row)]]
		g.rows[*at] = row
		*at++
	}
	return g
}
