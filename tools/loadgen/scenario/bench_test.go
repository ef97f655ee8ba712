package scenario

import (
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// TestGoals checks that each goal is compared with the right figure.
func TestGoals(t *testing.T) {
	const mb = 1 << 20
	good := func(calls string, connections int) *report.Case {
		return report.NewCase("engine", "postgres", "calls", calls, "connections", connections)
	}

	for name, test := range map[string]struct {
		calls       string
		connections int
		figures     map[string]float64
		met, all    int
	}{
		"at the limits": {"pageviews", 128, nil, 7, 7},
		"throughput":    {"pageviews", 128, map[string]float64{ofNoop: 0.39}, 6, 7},
		"p99":           {"pageviews", 128, map[string]float64{openP99OfNoop: 3.1}, 6, 7},
		"bytes":         {"pageviews", 128, map[string]float64{bytesPerHit: 176}, 6, 7},
		"log":           {"pageviews", 128, map[string]float64{logPerHit: 441}, 6, 7},
		"failures":      {"pageviews", 128, map[string]float64{report.Failed: 0.001}, 6, 7},
		"memory":        {"pageviews", 128, map[string]float64{report.Memory: 257 * mb}, 6, 7},
		"idle memory":   {"pageviews", 128, map[string]float64{idleMemory: 111 * mb}, 6, 7},

		"four connections":       {"pageviews", 4, map[string]float64{report.P50: 1.69}, 4, 4},
		"four slow connections":  {"pageviews", 4, map[string]float64{report.P50: 1.7}, 3, 4},
		"captcha":                {"siteverify", 128, map[string]float64{ofNoop: 0.52}, 4, 4},
		"captcha, too few calls": {"siteverify", 128, map[string]float64{ofNoop: 0.51}, 3, 4},
	} {
		c := good(test.calls, test.connections)
		for unit, value := range map[string]float64{ofNoop: 0.4, openP99OfNoop: 3, bytesPerHit: 175, logPerHit: 440,
			report.Memory: 256 * mb, report.Failed: 0, idleMemory: 110 * mb} {
			if worse, ok := test.figures[unit]; ok {
				value = worse
			}
			c.Add(unit, value)
		}
		c.Add(report.P50, test.figures[report.P50])

		met, all := 0, 0
		for _, g := range benchGoals([]*report.Case{c}, []string{"postgres"}) {
			if all++; g.Met {
				met++
			}
		}
		if met != test.met || all != test.all {
			t.Errorf("%s: %d of %d goals are met, want %d of %d", name, met, all, test.met, test.all)
		}
	}
}
