package scan

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// Bounds of journeys.
const (
	MaxJourneySteps = 3
	MaxJourneyPages = 10 // the most frequent pages after each page
)

// Journey asks which pages visits viewed just after a page or event, or just before it. A visit
// counts once, from its first such page view or event. Repeated views of a page in a row are one.
type Journey struct {
	From   Step
	Before bool
	Steps  int // 1 to MaxJourneySteps
}

// JourneyNode is a page on the way, with the visits that came to it over the nodes above.
type JourneyNode struct {
	Page     string // empty for the first node, and for End
	End      bool   // the visits ended here, or began here if the journey goes backwards
	Visits   int64
	Visitors int64

	// Next are the most frequent pages, at most MaxJourneyPages, and then the node End if there is
	// one. The other visits of the node went on to other pages.
	Next []JourneyNode
}

// Bytes estimates the memory of the tree.
func (n *JourneyNode) Bytes() int64 {
	sum := int64(unsafe.Sizeof(*n)) + int64(len(n.Page))
	for i := range n.Next {
		sum += n.Next[i].Bytes()
	}
	return sum
}

// journeyCount collects the visits of a journey in a tree of all ways.
type journeyCount struct {
	*Journey
	pages    *dictionary
	nodes    []wayNode // the first one is the start
	slots    []uint32  // hash table of nodes: their number plus 1, or 0 for a free slot
	visitors *table    // by node
	budget   *Budget
}

// wayNode is a node of the tree. It has no list of the nodes below: see child.
type wayNode struct {
	above  uint32
	page   uint32 // number of the path, or endPage
	visits uint32
}

const (
	startNode = 0
	endPage   = math.MaxUint32

	// listBytes is the memory that showBelow needs for a node: a list that grows, in a map. It is
	// counted with the node, because a count that has ended cannot fail.
	listBytes = 64
)

func newJourneyCount(j *Journey, budget *Budget) *journeyCount {
	const slots = 64
	c := &journeyCount{
		Journey: j, pages: newDictionary(budget), slots: make([]uint32, slots), budget: budget,
		visitors: &table{visitorsOnly: true, budget: budget, users: userSet{budget: budget}},
	}
	c.nodes = append(c.nodes, wayNode{})
	c.visitors.grow(1)
	return c
}

// child returns the node for a page below a node.
func (c *journeyCount) child(above, page uint32) uint32 {
	slot := c.slot(above, page)
	if *slot != 0 {
		return *slot - 1
	}

	node := uint32(len(c.nodes))
	c.nodes = grown(c.nodes, int(node)+1, c.budget)
	c.nodes[node] = wayNode{above: above, page: page}
	c.budget.Take(listBytes)
	c.visitors.grow(int(node) + 1)
	*slot = node + 1
	if 2*len(c.nodes) > len(c.slots) {
		c.growSlots()
	}
	return node
}

// slot returns the slot of a node, or the free one that it would have.
func (c *journeyCount) slot(above, page uint32) *uint32 {
	mask := uint64(len(c.slots) - 1)
	for i := hashOf(uint64(above)<<32 | uint64(page)); ; i++ {
		s := &c.slots[i&mask]
		if *s == 0 || c.nodes[*s-1].above == above && c.nodes[*s-1].page == page {
			return s
		}
	}
}

// growSlots doubles the slots.
func (c *journeyCount) growSlots() {
	const slotBytes = 4
	c.budget.Take(slotBytes * len(c.slots))
	c.slots = make([]uint32, 2*len(c.slots))
	for i := 1; i < len(c.nodes); i++ {
		*c.slot(c.nodes[i].above, c.nodes[i].page) = uint32(i + 1)
	}
}

// countJourney follows each kept visit that began in the window.
func (p *pass) countJourney(start *step, c *journeyCount, w *window) {
	j := journeyWalk{p, start, c}
	for i := range p.facts {
		if p.mustEnd(i) {
			return
		}
		if f := &p.facts[i]; f.begun {
			if way, ok := j.wayOf(f); ok {
				j.follow(f, way, w.day(p.g.Start[f.visit]))
			}
		}
	}
}

// journeyWalk follows visits from the start of a journey.
type journeyWalk struct {
	*pass
	start *step
	to    *journeyCount
}

// way walks over the page views of a visit in one direction.
type way struct {
	view     int // the next one
	from, to int // the visit's page views
	by       int // 1, or -1 backwards
	last     uint32
}

// wayOf returns the page views of a visit after or before its first view of the start's page, or
// its first such event. ok is false if the visit has none.
func (j *journeyWalk) wayOf(f *fact) (found way, ok bool) {
	from, to := j.g.Views(int(f.visit))
	found = way{from: int(from), to: int(to), by: 1, last: noText}
	if j.to.Before {
		found.by = -1
	}

	if j.start.field == segment.EventName {
		names := &j.g.Columns[segment.EventName]
		for e, end := j.g.Events(int(f.visit)); e < end && !j.mustEnd(int(e)); e++ {
			if j.start.match[names.At(int(e))] {
				found.view = found.from + int(j.g.Before.At(int(e)))
				if j.to.Before {
					found.view--
				}
				return found, true
			}
		}
		return found, false
	}

	paths := &j.g.Columns[segment.Path]
	for v := found.from; v < found.to && !j.mustEnd(v); v++ {
		if path := paths.At(v); j.start.match[path] {
			found.view, found.last = v+found.by, path
			return found, true
		}
	}
	return found, false
}

// next returns the index of the next path that differs from the last one. ok is false at the end of
// the visit.
func (j *journeyWalk) next(w *way) (path uint32, ok bool) {
	paths := &j.g.Columns[segment.Path]
	for ; w.from <= w.view && w.view < w.to; w.view += w.by {
		if path := paths.At(w.view); path != w.last {
			w.last = path
			return path, true
		}
		if j.mustEnd(w.view) {
			break
		}
	}
	return 0, false
}

// follow counts a visit in the nodes of its way. day is the local day of its start.
func (j *journeyWalk) follow(f *fact, w way, day uint8) {
	c := j.to
	node := uint32(startNode)
	c.add(node, f, day)
	for range c.Steps {
		path, ok := j.next(&w)
		if !ok {
			c.add(c.child(node, endPage), f, day)
			return
		}
		c.pages.use(j.g.Texts[segment.Path], path)
		node = c.child(node, c.pages.current[path])
		c.add(node, f, day)
	}
}

func (c *journeyCount) add(node uint32, f *fact, day uint8) {
	c.nodes[node].visits++
	c.visitors.addVisitorOnly(node, f, day)
}

// result returns the start with the most frequent nodes below it.
func (c *journeyCount) result() *JourneyNode {
	start := c.node(startNode)
	shown := map[uint32]*JourneyNode{startNode: &start}
	for range c.Steps {
		shown = c.showBelow(shown)
	}
	return &start
}

// showBelow adds the most frequent nodes below each of the given ones, and returns those with a
// page.
func (c *journeyCount) showBelow(above map[uint32]*JourneyNode) map[uint32]*JourneyNode {
	below := make(map[uint32][]uint32, len(above))
	for i := 1; i < len(c.nodes); i++ {
		if n := &c.nodes[i]; above[n.above] != nil && !c.isOther(n.page) {
			below[n.above] = append(below[n.above], uint32(i))
		}
	}

	shown := make(map[uint32]*JourneyNode)
	for number, list := range below {
		slices.SortFunc(list, c.compare)
		pages := len(list)
		var end []uint32
		if last := list[pages-1]; c.nodes[last].page == endPage {
			pages--
			end = list[pages:]
		}
		list = append(list[:min(pages, MaxJourneyPages)], end...)

		to := above[number]
		to.Next = make([]JourneyNode, len(list))
		for i, n := range list {
			if to.Next[i] = c.node(n); !to.Next[i].End {
				shown[n] = &to.Next[i]
			}
		}
	}
	return shown
}

// compare orders the nodes below one node: the most frequent pages first, and the end last.
func (c *journeyCount) compare(a, b uint32) int {
	x, y := &c.nodes[a], &c.nodes[b]
	if isEnd := x.page == endPage; isEnd || y.page == endPage {
		if isEnd {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(y.visits, x.visits), strings.Compare(c.pages.texts[x.page], c.pages.texts[y.page]))
}

// isOther reports whether a page stands for the paths that a segment counts together.
func (c *journeyCount) isOther(page uint32) bool {
	return page != endPage && c.pages.texts[page] == OtherValue
}

// node returns a node without the nodes below it.
func (c *journeyCount) node(number uint32) JourneyNode {
	n := &c.nodes[number]
	shown := JourneyNode{
		End: n.page == endPage, Visits: int64(n.visits), Visitors: int64(c.visitors.visitorBuckets[number].visitors),
	}
	if number != startNode && !shown.End {
		// The dictionary's copies share their memory.
		shown.Page = strings.Clone(c.pages.texts[n.page])
	}
	return shown
}
