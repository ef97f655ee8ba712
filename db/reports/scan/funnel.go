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

// countFunnel adds the facts of a window to a funnel.
func (p *pass) countFunnel(steps []step, to *funnelCount, w *window) {
	if len(steps) > 0 {
		f := funnelWalk{p, steps, w}
		f.count(to)
	}
}

// funnelWalk follows visitors through the steps of a funnel within a window of a UTC day.
type funnelWalk struct {
	*pass
	steps  []step
	window *window
}

// count follows each visitor through the page views and events of its kept visits. A visitor counts
// by the user id of the visit in which it made the first step.
func (f *funnelWalk) count(to *funnelCount) {
	begin := 0
	for i := range f.facts {
		if f.mustEnd(i) {
			return
		}
		if i+1 < len(f.facts) && f.facts[i+1].visitor == f.facts[i].visitor {
			continue
		}

		made, user := f.follow(f.facts[begin : i+1])
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

// follow returns how many steps a visitor made, and the user id of the visit with the first one.
func (f *funnelWalk) follow(visits []fact) (made int, user uint32) {
	if len(visits) > 1 && f.overlap(visits) {
		return f.followTogether(visits)
	}

	for i := 0; i < len(visits) && made < len(f.steps); i++ {
		begun := made > 0
		for c := newCursor(f.g, &visits[i]); made < len(f.steps) && !c.done(); {
			if c.takes(&f.steps[made], f.window) {
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
	match matcher
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
	g        *segment.Segment
	fact     *fact
	views    uint32 // its first page view
	view     uint32 // the next one
	viewsEnd uint32

	event     uint32 // the next one
	eventsEnd uint32
	before    uint32 // page views of the visit before the next event
}

func newCursor(g *segment.Segment, f *fact) cursor {
	c := cursor{g: g, fact: f}
	c.views, c.viewsEnd = g.Views(int(f.visit))
	c.event, c.eventsEnd = g.Events(int(f.visit))
	c.view = c.views
	c.place()
	return c
}

// place finds the place of the next event among the page views.
func (c *cursor) place() {
	if c.event < c.eventsEnd {
		c.before = c.g.Before.At(int(c.event))
	}
}

func (c *cursor) done() bool { return c.view == c.viewsEnd && c.event == c.eventsEnd }

// isView reports whether the next row is a page view. There must be one.
func (c *cursor) isView() bool {
	return c.view < c.viewsEnd && (c.event == c.eventsEnd || c.view-c.views < c.before)
}

// second returns the time of the next row.
func (c *cursor) second() uint32 {
	if c.isView() {
		return c.g.ViewAt[c.view]
	}
	return c.g.EventAt[c.event]
}

// takes moves to the row after the next one, and reports whether the next one makes a step.
func (c *cursor) takes(s *step, w *window) bool {
	if c.isView() {
		v := c.view
		c.view++
		return s.field == segment.Path && c.fact.day(w, c.g.ViewAt[v]) != 0 && s.match[c.g.Columns[segment.Path].At(int(v))]
	}

	e := c.event
	c.event++
	c.place()
	return s.field == segment.EventName && c.fact.day(w, c.g.EventAt[e]) != 0 && s.match[c.g.Columns[segment.EventName].At(int(e))]
}

// overlap reports whether a visit begins before the last row of an earlier one, as with two tabs
// that show different campaigns.
func (f *funnelWalk) overlap(visits []fact) bool {
	last := uint32(0)
	for i := range visits {
		views, events := f.viewTimes(&visits[i]), f.eventTimes(&visits[i])
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

// followTogether is follow for visits that overlap. Rows of the same second are in the order of
// their visits.
func (f *funnelWalk) followTogether(visits []fact) (made int, user uint32) {
	var together cursors
	for i := range visits {
		if c := newCursor(f.g, &visits[i]); !c.done() {
			together = append(together, c)
		}
	}
	heap.Init(&together)

	for n := 0; len(together) > 0 && made < len(f.steps) && !f.mustEnd(n); n++ {
		c := &together[0]
		if c.takes(&f.steps[made], f.window) {
			if made++; made == 1 {
				user = c.fact.user
			}
		}
		if c.done() {
			heap.Pop(&together)
			continue
		}
		heap.Fix(&together, 0)
	}
	return made, user
}

// cursors is a heap of visits by the time of their next row and then their order.
type cursors []cursor

func (c cursors) Len() int      { return len(c) }
func (c cursors) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push is never called.
func (c *cursors) Push(any) {}

// Less implements heap.Interface.
func (c cursors) Less(i, j int) bool {
	a, b := &c[i], &c[j]
	return cmp.Or(cmp.Compare(a.second(), b.second()), cmp.Compare(a.fact.visit, b.fact.visit)) < 0
}

// Pop removes the last one.
func (c *cursors) Pop() any {
	*c = (*c)[:len(*c)-1]
	return nil
}
