package bench

import (
	"io"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// TestFaultsFailABench checks that a fault is printed and makes the command fail.
func TestFaultsFailABench(t *testing.T) {
	fine, accepted := &verify.Verdict{Acknowledged: 1}, &captcha.Verdict{Accepted: 1}
	lost := &verify.Verdict{Acknowledged: 1, Lost: 1, Details: []string{"hit x"}}
	unchecked := &verify.Verdict{Acknowledged: 1, Unchecked: []string{"an unknown setting"}}

	odd := map[string]int64{"500 instead of 204": 1}
	for name, test := range map[string]struct {
		report interface{ check(io.Writer) error }
		fault  string // expected output; empty: no fault
	}{
		"bench":             {&EngineReport{Verdict: fine, Captcha: accepted}, ""},
		"bench, lost":       {&EngineReport{Verdict: lost, Captcha: accepted}, "hit x"},
		"bench, unchecked":  {&EngineReport{Verdict: unchecked, Captcha: accepted}, "an unknown setting"},
		"bench, unexpected": {&EngineReport{Verdict: fine, Captcha: accepted, Unexpected: odd}, "500 instead"},
		"bench, token lost": {&EngineReport{Verdict: fine,
			Captcha: &captcha.Verdict{Accepted: 1, Lost: 1, Details: []string{"token x"}}}, "token x"},
		"bench, captcha, unexpected": {&EngineReport{Verdict: fine, Captcha: accepted, UnexpectedCaptcha: odd},
			"500 instead"},
		"growth":             {&GrowthReport{Verdict: fine}, ""},
		"growth, lost":       {&GrowthReport{Verdict: lost}, "hit x"},
		"growth, unchecked":  {&GrowthReport{Verdict: unchecked}, "an unknown setting"},
		"growth, unexpected": {&GrowthReport{Verdict: fine, Unexpected: odd}, "500 instead"},
	} {
		var out strings.Builder
		if err := test.report.check(&out); (err != nil) != (test.fault != "") ||
			!strings.Contains(out.String(), test.fault) {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
	}
}

// TestGoals checks that each goal is compared with the right figure.
func TestGoals(t *testing.T) {
	good := measurement{Engine: "postgres", Mix: "pageviews", Connections: 128, OfNoop: 0.4, OpenP99OfNoop: 3,
		BytesPerHit: 175, LogPerHit: 440, PeakMemory: 256 << 20}

	met := func(m measurement, idle int64) (n, all int) {
		for _, g := range goals([]*EngineReport{{Engine: "postgres", Measurements: []*measurement{&m},
			IdleMemory: idle}}) {
			if all++; g.met {
				n++
			}
		}
		return n, all
	}
	if n, all := met(good, 80<<20); n != all || all != 7 {
		t.Errorf("%d of %d goals are met at their limits", n, all)
	}

	for name, worsen := range map[string]func(*measurement){
		"throughput": func(m *measurement) { m.OfNoop = 0.39 }, "p99": func(m *measurement) { m.OpenP99OfNoop = 3.1 },
		"bytes": func(m *measurement) { m.BytesPerHit = 176 },
		"log":   func(m *measurement) { m.LogPerHit = 441 }, "failures": func(m *measurement) { m.FailedShare = 0.001 },
		"memory": func(m *measurement) { m.PeakMemory = 257 << 20 },
	} {
		worse := good
		worsen(&worse)

		if n, all := met(worse, 80<<20); n != all-1 {
			t.Errorf("%s: %d of %d goals are met", name, n, all)
		}
	}

	few := measurement{Engine: "postgres", Mix: "pageviews", Connections: 4, P50: 1.69}
	if n, all := met(few, 0); n != 4 || all != 4 {
		t.Errorf("four connections: %d of %d goals are met exactly", n, all)
	}

	few.P50 = 1.7
	if n, _ := met(few, 0); n != 3 {
		t.Errorf("four connections: %d goals are met", n)
	}

	redeemed := measurement{Engine: "postgres", Mix: "siteverify", Connections: 128, OfNoop: 0.52}
	if n, all := met(redeemed, 0); n != 4 || all != 4 {
		t.Errorf("captcha: %d of %d goals are met exactly", n, all)
	}

	redeemed.OfNoop = 0.51
	if n, _ := met(redeemed, 0); n != 3 {
		t.Errorf("captcha: %d goals are met", n)
	}
	if n, all := met(good, 81<<20); n != all-1 {
		t.Errorf("idle memory: %d of %d goals are met", n, all)
	}
	if got := report.Median([]float64{3, 1, 2, 9}); got != 2 {
		t.Errorf("median %v", got)
	}

	m := measurement{rounds: []measurement{{Throughput: 1, PeakMemory: 5}, {Throughput: 3, PeakMemory: 1},
		{Throughput: 2}}}
	if m.settle(); m.Throughput != 2 || m.PeakMemory != 5 {
		t.Errorf("settled as %+v", m)
	}

	m = measurement{rounds: []measurement{{}, {FailedShare: 0.25}, {}}}
	if m.settle(); m.FailedShare != 0.25 {
		t.Errorf("the share of failures is settled as %f", m.FailedShare)
	}
}
