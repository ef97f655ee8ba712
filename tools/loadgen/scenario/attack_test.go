package scenario

import (
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// TestAttackBounds checks each bound at its limit and beyond, and which calms are alike.
func TestAttackBounds(t *testing.T) {
	const ms = time.Millisecond
	measured := func(peak int64, hit, read time.Duration) *period {
		p := &period{peak: peak, hits: &load.Result{Answers: map[string]int64{"204": 100}}}
		for range 100 {
			p.hits.Latency.Add(hit)
			p.reports.Add(read)
		}
		return p
	}
	answers := func(m *attackMeasure, refused string) {
		m.during.hits.Answers = map[string]int64{"204": 99, refused: 1}
	}

	for _, test := range []struct {
		name   string
		change func(*attackMeasure)
		missed []string
		others bool // the calms differ
		faults int  // of a run that observes
	}{
		{name: "as calm", change: func(*attackMeasure) {}},
		{name: "below the floors", change: func(m *attackMeasure) { m.during = measured(100<<20, 19*ms, 49*ms) }},
		{name: "twice the calm", change: func(m *attackMeasure) {
			m.before, m.after, m.during = measured(0, 30*ms, 5*ms), measured(0, 30*ms, 5*ms), measured(0, 59*ms, 5*ms)
		}},
		{name: "slow hits", change: func(m *attackMeasure) { m.during = measured(100<<20, 25*ms, 30*ms) }, missed: []string{"hits"}},
		{name: "slow hits without a bound", change: func(m *attackMeasure) {
			m.attack = &attack{}
			m.during = measured(100<<20, 25*ms, 30*ms)
		}},
		{name: "slow reports", change: func(m *attackMeasure) { m.during = measured(100<<20, 5*ms, 70*ms) }, missed: []string{"reports"}},
		{name: "within a slot", change: func(m *attackMeasure) { m.during, m.slot = measured(100<<20, 5*ms, 70*ms), 40*ms }},
		{name: "memory", change: func(m *attackMeasure) { m.during = measured(301<<20, 5*ms, 30*ms) }, missed: []string{"memory"}},
		{name: "memory of a build", change: func(m *attackMeasure) {
			m.attack, m.during = &attack{bound: bound{peak: dayMemory}}, measured(257<<20, 5*ms, 30*ms)
		}, missed: []string{"memory"}},
		{name: "processor time", change: func(m *attackMeasure) { m.left, m.cpuAfter = true, time.Second }, missed: []string{"processor time"}},
		{name: "little processor time", change: func(m *attackMeasure) { m.left, m.cpuAfter = true, 250*ms }},
		{name: "not built", change: func(m *attackMeasure) { m.unfinished = true }, missed: []string{"not built"}},
		{name: "terminated", change: func(m *attackMeasure) { m.during.died, m.after = true, nil }, missed: []string{"process terminated"}},
		{name: "refused reports", change: func(m *attackMeasure) { m.during.failed.Counts = map[string]int64{"TIMEOUT": 1} }, missed: []string{"reports"}},
		{name: "refused hits", change: func(m *attackMeasure) { answers(m, "400 x") }, missed: []string{"hits refused"}, faults: 1},
		{name: "hits that wait too long", change: func(m *attackMeasure) { answers(m, "503 unavailable") }, missed: []string{"hits refused"}},
		{name: "refused at the ends", change: func(m *attackMeasure) { m.during.hits.Outside = 1 }, missed: []string{"hits refused"}, faults: 1},
		{name: "other calm", change: func(m *attackMeasure) { m.after = measured(100<<20, 30*ms, 20*ms) }, others: true},
		{name: "other calm within the floor", change: func(m *attackMeasure) { m.after = measured(100<<20, 19*ms, 20*ms) }},
	} {
		m := &attackMeasure{attack: &attack{bound: leftBound}, before: measured(100<<20, 5*ms, 20*ms),
			during: measured(100<<20, 5*ms, 20*ms), after: measured(100<<20, 5*ms, 20*ms)}
		test.change(m)
		c := &Attack{HitsFloor: 20 * ms, ReportsFloor: 50 * ms}
		var strict, observed report.Outcome
		c.add(&strict, "sqlite", m)
		if got := m.missed(c); !slices.Equal(got, test.missed) || len(strict.Faults) != min(len(test.missed), 1) || m.steady(c.HitsFloor) == test.others {
			t.Errorf("%s: missed %v, want %v; faults %q, the calms are alike: %v", test.name, got, test.missed, strict.Faults, test.others)
		}
		c.Observe = true
		if c.add(&observed, "sqlite", m); len(observed.Faults) != test.faults {
			t.Errorf("%s, observed: faults %q, want %d", test.name, observed.Faults, test.faults)
		}
	}
}
