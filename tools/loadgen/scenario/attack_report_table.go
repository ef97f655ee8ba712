package scenario

import (
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// The goals of the attack on reports.
const (
	memoryGoal    = 200 << 20 // bytes above the calm memory
	dayMemoryGoal = 256 << 20 // bytes of the process that builds a day
	slowdownGoal  = 2         // of the other account, as a multiple of the calm time

	processorGoal = 250 * time.Millisecond // in the window after the client has left: the accuracy of the measurement
)

// reportStep is the measurement of one step.
type reportStep struct {
	name, outcome string
	calm, during  *period
	slot          time.Duration // the attacker's longest report, which the other account may wait for
	peakGoal      int64         // of the process's memory; 0: memoryGoal above the calm memory
	unfinished    bool          // the worker's day is not built
	left          bool          // after was measured
	after         time.Duration // processor time after the client has left, less an idle process's
}

// above returns the memory above the calm memory.
func (s *reportStep) above() int64 { return max(s.during.peak-s.calm.peak, 0) }

// missed returns the names of the missed goals.
func (s *reportStep) missed(c *AttackReport) (names []string) {
	miss := func(name string, is bool) {
		if is {
			names = append(names, name)
		}
	}

	miss("process terminated", s.during.died)
	if s.peakGoal > 0 {
		miss("memory", s.during.peak > s.peakGoal)
	} else {
		miss("memory", s.above() > memoryGoal)
	}
	miss("not built", s.unfinished)

	hits := slowdownGoal * s.calm.hits.Latency.Quantile(0.99)
	miss("hits", s.during.hits.FailedShare() > 0 || s.during.hits.Latency.Quantile(0.99) > max(hits, c.HitsFloor))
	reports := slowdownGoal*s.calm.reports.Quantile(0.95) + s.slot
	miss("reports", s.during.failures() > 0 || s.during.reports.Quantile(0.95) > max(reports, c.ReportsFloor))
	miss("processor time", s.left && s.after > processorGoal)
	return names
}

// The units of the figures of a step, of the calm process and during the attack.
const (
	abovePeak     = "memory-above-calm-B"
	hitsCalm      = "calm-hits-p99-ms"
	hitsDuring    = "hits-p99-ms"
	readsCalm     = "calm-reports-p95-ms"
	readsDuring   = "reports-p95-ms"
	readsFailed   = "failed-reports"
	readsAll      = "reports"
	attackersSlot = "attacker-longest-ms"
	afterLeaving  = "cpu-after-leaving-ms"
)

var stepColumns = []report.Column{
	{Title: "step", Format: "%s", Names: []string{"step"}},
	{Title: "outcome", Format: "%s", Names: []string{"outcome"}},
	{Title: "memory at most", Of: megabytes, Names: []string{report.Memory}},
	{Title: "above calm", Of: megabytes, Names: []string{abovePeak}},
	{Title: "hits refused", Of: report.Percent, Names: []string{report.Failed}},
	{Title: "hits p99", Format: "%.1f → %.1f", Names: []string{hitsCalm, hitsDuring}},
	{Title: "reports failed", Format: "%.0f of %.0f", Names: []string{readsFailed, readsAll}},
	{Title: "reports p95", Format: "%.0f → %.0f", Names: []string{readsCalm, readsDuring}},
	{Title: "attacker's longest report", Format: "%.0f", Names: []string{attackersSlot}},
	{Title: "processor time after leaving", Format: "%.0f", Names: []string{afterLeaving}},
	{Title: "missed goals", Format: "%s", Names: []string{"missed"}},
}

// conclude adds the steps to the outcome.
func (c *AttackReport) conclude(o *report.Outcome, steps []reportStep) {
	for i := range steps {
		s := &steps[i]
		one := o.Case("engine", c.Engine, "step", s.name)
		one.Remark("outcome", s.outcome)
		one.Add(report.Memory, float64(s.during.peak))
		one.Add(abovePeak, float64(s.above()))
		one.Add(report.Failed, s.during.hits.FailedShare())
		one.Add(hitsCalm, report.Milliseconds(s.calm.hits.Latency.Quantile(0.99)))
		one.Add(hitsDuring, report.Milliseconds(s.during.hits.Latency.Quantile(0.99)))
		one.Add(readsFailed, float64(s.during.failures()))
		one.Add(readsAll, float64(s.during.reports.Count()))
		one.Add(readsCalm, report.Milliseconds(s.calm.reports.Quantile(0.95)))
		one.Add(readsDuring, report.Milliseconds(s.during.reports.Quantile(0.95)))
		if s.slot > 0 {
			one.Add(attackersSlot, report.Milliseconds(s.slot))
		}
		if s.left {
			one.Add(afterLeaving, report.Milliseconds(s.after))
		}

		missed := "none"
		if names := s.missed(c); len(names) > 0 {
			missed = "**" + strings.Join(names, ", ") + "**"
			if !c.Observe {
				o.Fault("%s: the attack harmed the process or the other account: %s", s.name, strings.Join(names, ", "))
			}
		}
		one.Remark("missed", missed)
	}
	o.Write("%s; %s. Memory is in MB, times are in ms. Hits at %d/s and reports are those of another account, calm → attack.\n\n%s",
		report.Machine(), c.Engine, bystanderRate, report.Table(stepColumns, o.Cases))
}
