package scenario

import (
	"fmt"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// The goals of docs/operator/figures/bench.csv, by engine.
var (
	// The share of the empty handler's rate, by connections.
	leastOfNoop = map[string]map[string]float64{"sqlite": {"128": 0.35, "256": 0.35}, "postgres": {"128": 0.40, "256": 0.40}}

	mostStored = map[string]float64{"sqlite": 120, "postgres": 175} // bytes a page view on disk
	mostLogged = map[string]float64{"postgres": 440}                // bytes of log a page view

	// Four connections must not be slower than before their batches were made cheaper.
	mostP50 = map[string]float64{"sqlite": 0.97, "postgres": 1.69}
)

// benchGoals compares the cases with the goals.
func benchGoals(cases []*report.Case, engines []string) []report.Goal {
	o := &report.Outcome{}
	for _, engine := range engines {
		memory, failed, idle := 0.0, 0.0, 0.0
		for _, c := range cases {
			if c.Label("engine") == engine {
				memory, failed = max(memory, c.Get(report.Memory)), max(failed, c.Get(report.Failed))
				idle = max(idle, c.Get(idleMemory))
				caseGoals(o, engine, c)
			}
		}

		o.Goal(failed == 0, engine+": no call is refused or left without an answer", "%s", report.Percent(failed))
		o.Goal(memory <= 256<<20, engine+": at most 256 MB under load", "%.0f MB", report.Megabytes(memory))
		o.Goal(idle <= 110<<20, engine+": at most 110 MB idle, all roles", "%.0f MB", report.Megabytes(idle))
	}
	return o.Goals
}

// caseGoals adds the goals of one case.
func caseGoals(o *report.Outcome, engine string, c *report.Case) {
	calls, connections := c.Label("calls"), c.Label("connections")
	if calls == captcha.StepNames[captcha.Redeeming] && engine == "postgres" && connections == "128" {
		o.Goal(c.Get(ofNoop) >= 0.52, "postgres, 128 connections: siteverify at least 0.52 of the empty handler", "%.2f", c.Get(ofNoop))
	}
	if calls != openMix {
		return
	}

	name := fmt.Sprintf("%s, %s connections: ", engine, connections)
	if want := leastOfNoop[engine][connections]; want > 0 {
		o.Goal(c.Get(ofNoop) >= want, fmt.Sprintf("%sat least %.2f of the empty handler", name, want), "%.2f", c.Get(ofNoop))
	}
	switch connections {
	case "4":
		want := mostP50[engine]
		o.Goal(c.Get(report.P50) <= want, fmt.Sprintf("%sp50 at most %.2f ms", name, want), "%.2f ms", c.Get(report.P50))
	case "128":
		o.Goal(c.Get(openP99OfNoop) <= 3, name+"open loop at half of that rate, p99 at most 3 times the empty handler's",
			"%.2f, %.2f ms at %.0f/s", c.Get(openP99OfNoop), c.Get(openP99), c.Get(openRate))

		stored := mostStored[engine]
		o.Goal(c.Get(bytesPerHit) <= stored, fmt.Sprintf("%sat most %.0f bytes a page view on disk, visits included", name, stored),
			"%.0f", c.Get(bytesPerHit))
		if logged := mostLogged[engine]; logged > 0 {
			o.Goal(c.Get(logPerHit) <= logged, fmt.Sprintf("%sat most %.0f bytes of log a page view", name, logged), "%.0f", c.Get(logPerHit))
		}
	}
}
