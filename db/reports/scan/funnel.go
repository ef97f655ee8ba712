package scan

import (
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

// countFunnel follows each visitor through its kept visits of a UTC day, in order of time.
func (p *pass) countFunnel(steps []step, to *funnelCount, w *window) {
	if len(steps) == 0 {
		return
	}

	made, user, last := 0, uint32(0), uint32(0)
	end := func() {
		if last == 0 {
			return
		}
		if user != 0 {
			to.reach(user, made)
			return
		}
		to.reached[made]++
	}

	for i := range p.facts {
		if p.mustEnd(i) {
			return
		}
		f := &p.facts[i]
		if f.visitor != last {
			end()
			made, user, last = 0, f.user, f.visitor
		}
		made = p.follow(steps, made, f, w)
	}
	end()
}

// step is a compiled step: which paths or event names make it.
type step struct {
	field segment.Field
	match []bool
}

func (p *pass) compile(funnel *Funnel) []step {
	steps := make([]step, len(funnel.Steps))
	for i, s := range funnel.Steps {
		field, match := segment.Path, s.Page
		if match == nil {
			field, match = segment.EventName, func(name string) bool { return name == s.Event }
		}

		steps[i] = step{field, p.matchesOf(p.g.Texts[field.Domain()], match)}
	}
	return steps
}

// follow returns how many steps are made after a visit. Page views come before events of the same
// second.
func (p *pass) follow(steps []step, made int, f *fact, w *window) int {
	g := p.g
	v, views := g.Views(int(f.visit))
	e, events := g.Events(int(f.visit))

	for made < len(steps) && (v < views || e < events) {
		s := &steps[made]
		if e == events || v < views && g.ViewAt[v] <= g.EventAt[e] {
			if s.field == segment.Path && w.day(g.ViewAt[v]) != 0 && s.match[g.Columns[segment.Path].At(int(v))] {
				made++
			}
			v++
			continue
		}
		if s.field == segment.EventName && w.day(g.EventAt[e]) != 0 && s.match[g.Columns[segment.EventName].At(int(e))] {
			made++
		}
		e++
	}
	return made
}
