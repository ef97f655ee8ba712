package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// attackMeasure is the measurement of an attack.
type attackMeasure struct {
	*attack
	try                   int
	before, during, after *period // after is nil if the process terminated

	got        string        // by the attacker
	slot       time.Duration // the attacker's longest report, which the other account may wait for
	unfinished bool          // the worker's day is not built
	left       bool          // cpuAfter was measured
	cpuAfter   time.Duration // processor time after the client has left, less an idle process's
}

// steady reports whether the calms before and after the attack are alike: their p99 differ by a
// factor of 2 at most, or both are within the floor.
func (m *attackMeasure) steady(floor time.Duration) bool {
	if m.after == nil {
		return true
	}
	one, other := m.before.hits.Latency.Quantile(0.99), m.after.hits.Latency.Quantile(0.99)
	return max(one, other) <= max(2*min(one, other), floor)
}

// calm returns the latencies of both calms together.
func (m *attackMeasure) calm() (hits, reports load.Histogram) {
	for _, calm := range []*period{m.before, m.after} {
		if calm != nil {
			hits.Merge(&calm.hits.Latency)
			reports.Merge(&calm.reports)
		}
	}
	return hits, reports
}

// above returns the memory above the calm memory.
func (m *attackMeasure) above() int64 { return max(m.during.peak-m.before.peak, 0) }

// missed returns the names of the exceeded bounds.
func (m *attackMeasure) missed(c *Attack) (names []string) {
	miss := func(name string, is bool) {
		if is {
			names = append(names, name)
		}
	}
	miss("process terminated", m.during.died)
	miss("hits refused", m.during.unserved() > 0)
	miss("memory", m.bound.memory > 0 && m.above() > m.bound.memory || m.bound.peak > 0 && m.during.peak > m.bound.peak)
	miss("not built", m.unfinished)

	hits, reports := m.calm()
	miss("hits", m.bound.hits && m.during.hits.Latency.Quantile(0.99) > max(slowdown*hits.Quantile(0.99), c.HitsFloor))
	longest := max(slowdown*reports.Quantile(0.95)+m.slot, c.ReportsFloor)
	miss("reports", m.bound.reports && (m.during.failures() > 0 || m.during.reports.Quantile(0.95) > longest))
	miss("processor time", m.left && m.cpuAfter > m.bound.after)
	return names
}

// faults returns the exceeded bounds that are faults. To observe is for busy machines, on which a
// commit can take longer than a hit waits.
func (m *attackMeasure) faults(c *Attack) []string {
	if !c.Observe {
		return m.missed(c)
	}
	if m.during.unserved() > m.during.hits.Answers["503 unavailable"] {
		return []string{"hits refused"}
	}
	return nil
}

// The units of the figures of an attack.
const (
	duringRatio   = "p99-of-calm"
	unservedHits  = "unserved-hits"
	ownMemory     = "server-memory-B"
	childMemory   = "children-memory-B"
	abovePeak     = "memory-above-calm-B"
	readsCalm     = "calm-reports-p95-ms"
	readsDuring   = "reports-p95-ms"
	readsFailed   = "failed-reports"
	readsAll      = "reports"
	attackersSlot = "attacker-longest-ms"
	afterLeaving  = "cpu-after-leaving-ms"
)

// attackPhases are the prefixes of the units of latencies.
var attackPhases = [...]string{"before-", "during-", "after-"}

// attackColumns are the columns of the table of attacks.
var attackColumns = func() []report.Column {
	columns := []report.Column{}
	for _, name := range []string{"engine", "attack", "attacker", "price", "victim"} {
		columns = append(columns, report.Column{Title: name, Format: "%s", Names: []string{name}})
	}
	for i, title := range []string{"calm before", "during", "calm after"} {
		prefix := attackPhases[i]
		columns = append(columns, report.Column{Title: title, Format: "%.1f / %.1f / %.0f",
			Names: []string{prefix + report.P50, prefix + report.P99, prefix + report.Longest}})
	}
	return append(columns,
		report.Column{Title: "p99 during of calm", Format: "%.1f", Names: []string{duringRatio}},
		report.Column{Title: "refused", Format: "%.0f of %.0f", Names: []string{unservedHits, report.Sent}},
		report.Column{Title: "reports failed", Format: "%.0f of %.0f", Names: []string{readsFailed, readsAll}},
		report.Column{Title: "reports p95", Format: "%.0f → %.0f", Names: []string{readsCalm, readsDuring}},
		report.Column{Title: "the attacker got", Format: "%s", Names: []string{"got"}},
		report.Column{Title: "its longest report", Format: "%.0f", Names: []string{attackersSlot}},
		report.Column{Title: "processor time after leaving", Format: "%.0f", Names: []string{afterLeaving}},
		report.Column{Title: "memory", Of: megabytes, Names: []string{ownMemory}},
		report.Column{Title: "of children", Of: megabytes, Names: []string{childMemory}},
		report.Column{Title: "above calm", Of: megabytes, Names: []string{abovePeak}},
		report.Column{Title: "exceeded bounds", Format: "%s", Names: []string{"missed"}})
}()

// add adds the measurement of an attack to the outcome.
func (c *Attack) add(o *report.Outcome, engine string, m *attackMeasure) {
	one := o.Case("engine", engine, "attack", m.name)
	for _, remark := range [][2]string{{"attacker", m.attacker}, {"price", m.price}, {"victim", m.victim}} {
		one.Remark(remark[0], remark[1])
	}
	for i, phase := range []*period{m.before, m.during, m.after} {
		if phase == nil {
			continue
		}
		one.Add(attackPhases[i]+report.P50, report.Milliseconds(phase.hits.Latency.Quantile(0.5)))
		one.Add(attackPhases[i]+report.P99, report.Milliseconds(phase.hits.Latency.Quantile(0.99)))
		one.Add(attackPhases[i]+report.Longest, report.Milliseconds(phase.hits.Latency.Max))
	}

	hits, reports := m.calm()
	during := m.during
	one.Add(duringRatio, float64(during.hits.Latency.Quantile(0.99))/float64(max(hits.Quantile(0.99), 1)))
	one.Add(unservedHits, float64(during.unserved()))
	one.Add(report.Sent, float64(during.hits.Sent()))
	one.Add(readsFailed, float64(during.failures()))
	one.Add(readsAll, float64(during.reports.Count()))
	one.Add(readsCalm, report.Milliseconds(reports.Quantile(0.95)))
	one.Add(readsDuring, report.Milliseconds(during.reports.Quantile(0.95)))
	one.Add(ownMemory, float64(during.hits.Cost.OwnMemory))
	one.Add(abovePeak, float64(m.above()))
	if during.hits.Cost.ChildMemory > 0 {
		one.Add(childMemory, float64(during.hits.Cost.ChildMemory))
	}
	if m.slot > 0 {
		one.Add(attackersSlot, report.Milliseconds(m.slot))
	}
	if m.left {
		one.Add(afterLeaving, report.Milliseconds(m.cpuAfter))
	}
	c.judge(o, one, m)
}

// judge adds the exceeded bounds.
func (c *Attack) judge(o *report.Outcome, one *report.Case, m *attackMeasure) {
	got := m.got
	if !m.steady(c.HitsFloor) {
		got += fmt.Sprintf("; the calms differ in each of %d tries", m.try)
	}
	one.Remark("got", got)

	missed := "none"
	if names := m.missed(c); len(names) > 0 {
		missed = "**" + strings.Join(names, ", ") + "**"
	}
	one.Remark("missed", missed)
	if faults := m.faults(c); len(faults) > 0 {
		o.Fault("%s: the attack harmed the process or other accounts: %s; hits %s", m.name, strings.Join(faults, ", "),
			countsText(m.during.hits.Answers))
	}
}
