package attack

import (
	"fmt"
	"io"
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
func (s *reportStep) missed(c *ReportCommand) (names []string) {
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

// printReportSteps writes the steps as a Markdown table.
func printReportSteps(w io.Writer, c *ReportCommand, steps []reportStep) {
	fmt.Fprintf(w, "%s; %s. Memory is in MB, times are in ms. Hits at %d/s and reports are those of another account, calm → attack.\n\n",
		report.Machine(), c.Engine, bystanderRate)
	fmt.Fprintln(w, "| step | outcome | memory at most | above calm | hits refused | hits p99 | reports failed | reports p95 | attacker's longest report | processor time after leaving | missed goals |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")

	for i := range steps {
		s := &steps[i]
		longest, after := "–", "–"
		if s.slot > 0 {
			longest = fmt.Sprintf("%.0f", report.Milliseconds(s.slot))
		}
		if s.left {
			after = fmt.Sprintf("%.0f", report.Milliseconds(s.after))
		}

		missed := "none"
		if names := s.missed(c); len(names) > 0 {
			missed = "**" + strings.Join(names, ", ") + "**"
		}
		fmt.Fprintf(w, "| %s | %s | %.0f | %.0f | %s | %.1f → %.1f | %d of %d | %.0f → %.0f | %s | %s | %s |\n",
			s.name, s.outcome, report.Megabytes(s.during.peak), report.Megabytes(s.above()),
			report.Percent(s.during.hits.FailedShare()),
			report.Milliseconds(s.calm.hits.Latency.Quantile(0.99)), report.Milliseconds(s.during.hits.Latency.Quantile(0.99)),
			s.during.failures(), s.during.reports.Count(),
			report.Milliseconds(s.calm.reports.Quantile(0.95)), report.Milliseconds(s.during.reports.Quantile(0.95)),
			longest, after, missed)
	}
}
