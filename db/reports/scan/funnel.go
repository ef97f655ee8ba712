package scan

import (
	"cmp"
	"container/heap"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// funnelCount collects how far visitors came.
type funnelCount struct {
	reached []int64        // visitors without a user id, by the number of steps they made
	users   map[uint32]int // most steps that a user id made within a day, by its number
	steps   int
	budget  *Budget
}

func newFunnelCount(steps int, budget *Budget) funnelCount {
	return funnelCount{reached: make([]int64, steps+1), users: make(map[uint32]int), steps: steps, budget: budget}
}

// reach notes that a user id made so many steps on a day.
func (c *funnelCount) reach(user uint32, steps int) {
	most, known := c.users[user]
	if !known {
		c.budget.Take(userBytes)
	}
	c.users[user] = max(most, steps)
}

// visitors returns how many made at least 1, 2, … steps.
func (c *funnelCount) visitors() []int64 {
	at := append([]int64(nil), c.reached...)
	for _, steps := range c.users {
		at[steps]++
	}

	for i := c.steps - 1; i >= 1; i-- {
		at[i] += at[i+1]
	}
	return at[1:]
}

// countFunnel follows each visitor through the page views and events of its kept visits of a UTC
// day. A visitor counts by the user id of the visit in which it made the first step.
func (p *pass) countFunnel(steps []step, to *funnelCount, w *window) {
	if len(steps) == 0 {
		return
	}

	begin := 0
	for i := range p.facts {
		if p.mustEnd(i) {
			return
		}
		if i+1 < len(p.facts) && p.facts[i+1].visitor == p.facts[i].visitor {
			continue
		}

		made, user := p.followVisitor(steps, p.facts[begin:i+1], w)
		begin = i + 1
		switch {
		case made == 0:
		case user != 0:
			to.reach(user, made)
		default:
			to.reached[made]++
		}
	}
}

// followVisitor returns how many steps a visitor made, and the user id of the visit with the first
// one.
func (p *pass) followVisitor(steps []step, visits []fact, w *window) (made int, user uint32) {
	if len(visits) > 1 && p.overlap(visits) {
		return p.followTogether(steps, visits, w)
	}

	for i := 0; i < len(visits) && made < len(steps); i++ {
		begun := made > 0
		for c := p.cursorOf(&visits[i]); made < len(steps) && !c.done(); {
			if p.takes(&c, &steps[made], w) {
				made++
			}
		}
		if !begun && made > 0 {
			user = visits[i].user
		}
	}
	return made, user
}

// compiledStep is a step of a funnel: a page view or event with a text that matches makes it.
type compiledStep struct {
	field segment.Field
	match func(text string) bool
}

func (s *Step) compile() compiledStep {
	if s.Page != "" {
		return compiledStep{segment.Path, model.PatternMatcher(s.Page)}
	}
	name := s.Event
	return compiledStep{segment.EventName, func(text string) bool { return text == name }}
}

func (f *Funnel) compile() []compiledStep {
	steps := make([]compiledStep, len(f.Steps))
	for i := range f.Steps {
		steps[i] = f.Steps[i].compile()
	}
	return steps
}

// step is a step in a segment: which indexes of paths or event names make it.
type step struct {
	field segment.Field
	match []bool
}

// stepsOf evaluates the steps of a funnel on the dictionaries of the segment.
func (p *pass) stepsOf(compiled []compiledStep) []step {
	steps := make([]step, len(compiled))
	for i, s := range compiled {
		steps[i] = step{s.field, p.matchesOf(p.g.Texts[s.field.Domain()], s.match)}
	}
	return steps
}

// cursor walks through the page views and events of a visit in order of time.
type cursor struct {
	fact     *fact
	views    uint32 // its first page view
	view     uint32 // the next one
	viewsEnd uint32

	event     uint32 // the next one
	eventsEnd uint32
	before    uint32 // page views of the visit before the next event
}

func (p *pass) cursorOf(f *fact) cursor {
	c := cursor{fact: f}
	c.views, c.viewsEnd = p.g.Views(int(f.visit))
	c.event, c.eventsEnd = p.g.Events(int(f.visit))
	c.view = c.views
	p.place(&c)
	return c
}

// place finds the place of the next event among the page views.
func (p *pass) place(c *cursor) {
	if c.event < c.eventsEnd {
		c.before = p.g.Before.At(int(c.event))
	}
}

func (c *cursor) done() bool { return c.view == c.viewsEnd && c.event == c.eventsEnd }

// isView reports whether the next row is a page view. There must be one.
func (c *cursor) isView() bool {
	return c.view < c.viewsEnd && (c.event == c.eventsEnd || c.view-c.views < c.before)
}

// second returns the time of the next row.
func (p *pass) second(c *cursor) uint32 {
	if c.isView() {
		return p.g.ViewAt[c.view]
	}
	return p.g.EventAt[c.event]
}

// takes moves to the row after the next one, and reports whether the next one makes a step.
func (p *pass) takes(c *cursor, s *step, w *window) bool {
	if c.isView() {
		v := c.view
		c.view++
		return s.field == segment.Path && c.fact.day(w, p.g.ViewAt[v]) != 0 && s.match[p.g.Columns[segment.Path].At(int(v))]
	}

	e := c.event
	c.event++
	p.place(c)
	return s.field == segment.EventName && c.fact.day(w, p.g.EventAt[e]) != 0 && s.match[p.g.Columns[segment.EventName].At(int(e))]
}

// overlap reports whether a visit begins before the last row of an earlier one, as with two tabs
// that show different campaigns.
func (p *pass) overlap(visits []fact) bool {
	last := uint32(0)
	for i := range visits {
		views, events := p.viewTimes(&visits[i]), p.eventTimes(&visits[i])
		if len(views) > 0 && views[0] < last || len(events) > 0 && events[0] < last {
			return true
		}
		if len(views) > 0 {
			last = views[len(views)-1]
		}
		if len(events) > 0 {
			last = max(last, events[len(events)-1])
		}
	}
	return false
}

// followTogether is followVisitor for visits that overlap. Rows of the same second are in the order
// of their visits.
func (p *pass) followTogether(steps []step, visits []fact, w *window) (made int, user uint32) {
	together := &cursors{pass: p}
	for i := range visits {
		if c := p.cursorOf(&visits[i]); !c.done() {
			together.list = append(together.list, c)
		}
	}
	heap.Init(together)

	for n := 0; len(together.list) > 0 && made < len(steps) && !p.mustEnd(n); n++ {
		c := &together.list[0]
		if p.takes(c, &steps[made], w) {
			if made++; made == 1 {
				user = c.fact.user
			}
		}
		if c.done() {
			heap.Pop(together)
			continue
		}
		heap.Fix(together, 0)
	}
	return made, user
}

// cursors is a heap of visits by the time of their next row and then their order.
type cursors struct {
	pass *pass
	list []cursor
}

func (c *cursors) Len() int      { return len(c.list) }
func (c *cursors) Swap(i, j int) { c.list[i], c.list[j] = c.list[j], c.list[i] }

// Push is never called.
func (c *cursors) Push(any) {}

// Less implements heap.Interface.
func (c *cursors) Less(i, j int) bool {
	a, b := &c.list[i], &c.list[j]
	return cmp.Or(cmp.Compare(c.pass.second(a), c.pass.second(b)), cmp.Compare(a.fact.visit, b.fact.visit)) < 0
}

// Pop removes the last one.
func (c *cursors) Pop() any {
	c.list = c.list[:len(c.list)-1]
	return nil
}
