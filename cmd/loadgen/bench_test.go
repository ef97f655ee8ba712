package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// performancePage is a page with the two sections that the program makes.
func performancePage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "performance.md")
	text := "# Before\n<!-- bench-report: begin -->\nold\n<!-- bench-report: end -->\nBetween\n<!-- bench-growth: begin -->\n<!-- bench-growth: end -->\nAfter\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs the program as its user does, and returns what it printed.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, log strings.Builder
	if status := run(t.Context(), args, terminal{out: &out, log: &log}); status != 0 {
		t.Fatalf("%q: exit status %d:\n%s%s", args, status, out.String(), log.String())
	}
	return out.String()
}

// TestBench measures for moments: the figures mean nothing, but all of them are there, and every
// hit is found again.
func TestBench(t *testing.T) {
	requirePrograms(t)
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			testBench(t, engine)
		})
	}
}

func testBench(t *testing.T, engine string) {
	page := performancePage(t)
	out := command(t, "bench", "--program", tallygate(t), "--engines", engine, "--connections", "4,32", "--rounds", "1", "--duration", "200ms",
		"--rows", "3000", "--json", "--out", page)

	var reports []engineReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 || reports[0].Engine != engine {
		t.Fatalf("%v in\n%s", err, out)
	}

	for _, r := range reports {
		if r.BulkRate <= 0 || r.IdleMemory < 1<<20 || len(r.Measurements) != 6 || !r.Verdict.ok() || r.Verdict.Acknowledged == 0 ||
			!r.Captcha.ok() || r.Captcha.Accepted < 2*leastAnswers || r.Captcha.Unknown != 0 {
			t.Errorf("%s: %+v, %+v", r.Engine, r, r.Verdict)
		}

		for _, m := range r.Measurements {
			if m.Throughput <= 0 || m.OfNoop <= 0 || m.OfBulk > 0 != (m.Mix != "siteverify") || m.P50 <= 0 || m.P99 < m.P50 || m.PeakMemory < 1<<20 || m.FailedShare != 0 || m.BytesPerHit < 0 {
				t.Errorf("%+v", m)
			}
			if r.Engine == "postgres" && m.LogPerHit <= 0 {
				t.Errorf("no log was written: %+v", m)
			}
		}
	}

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"# Before\n<!-- bench-report: begin -->\n", "| " + engine + " | pageviews | 4 |", "| " + engine + " | realistic | 32 |", "| " + engine + " | siteverify | 32 |", "p50 at most 1 ms", "<!-- bench-report: end -->\nBetween\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	if strings.Contains(string(text), "old") {
		t.Error("the section's old text is still there")
	}
}

// TestGrowth fills two databases and finds the page views that come after that.
func TestGrowth(t *testing.T) {
	t.Parallel()

	requirePrograms(t)
	page := performancePage(t)
	out := command(t, "growth", "--program", tallygate(t), "--connections", "8", "--rounds", "1", "--duration", "200ms", "--rows", "15000", "--json", "--out", page)

	var reports []growthReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 2 {
		t.Fatalf("%v in\n%s", err, out)
	}

	for _, r := range reports {
		// The second half comes from other visitors, so that nearly each hit begins a visit.
		if r.Empty <= 0 || r.Full <= 0 || r.FirstMs <= 0 || r.PageMs <= 0 || r.Page < 2 || !r.Verdict.ok() || r.Verdict.Acknowledged < r.Measured || r.Verdict.Visits < r.Verdict.Acknowledged*8/10 {
			t.Errorf("%s: %+v, %+v", r.Engine, r, r.Verdict)
		}
	}

	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| sqlite | 15000 |") {
		t.Errorf("%v in\n%s", err, text)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	out := command(t, "limits", "--connections", "2", "--duration", "100ms", "--rows", "1000")
	for _, want := range []string{"calls/s over 2 connections", "sqlite copies "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestRunCommand drives a running instance by the command line, and verifies what it noted.
func TestRunCommand(t *testing.T) {
	eachBench(t, func(t *testing.T, b *bench) {
		b.mustStart(t)
		journal := filepath.Join(b.dir, "journal")
		out := command(t, "run", "--control", "http://"+b.server.control, "--data", b.server.data, "--duration", "300ms", "--warmup", "50ms",
			"--connections", "4", "--sites", "2", "--journal", journal, "--json")

		var r report
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Answers["204"] == 0 || r.Connections != 4 || len(r.Unexpected) != 0 || r.Throughput <= 0 {
			t.Errorf("%v, %s", err, out)
		}
		if out := command(t, "verify", journal); !strings.Contains(out, " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("verify says %s", out)
		}
	})
}

// TestFaultsFailABench: what must not be is printed and makes the command fail, whatever was
// measured.
func TestFaultsFailABench(t *testing.T) {
	fine, captcha := &verdict{Acknowledged: 1}, &captchaVerdict{Accepted: 1}
	lost := &verdict{Acknowledged: 1, Lost: 1, Details: []string{"hit x"}}
	unchecked := &verdict{Acknowledged: 1, Unchecked: []string{"what nobody tells"}}

	odd := map[string]int64{"500 instead of 204": 1}
	for name, test := range map[string]struct {
		report interface{ check(io.Writer) error }
		fault  string // what is printed; empty: fine
	}{
		"bench":                      {&engineReport{Verdict: fine, Captcha: captcha}, ""},
		"bench, lost":                {&engineReport{Verdict: lost, Captcha: captcha}, "hit x"},
		"bench, unchecked":           {&engineReport{Verdict: unchecked, Captcha: captcha}, "what nobody tells"},
		"bench, unexpected":          {&engineReport{Verdict: fine, Captcha: captcha, Unexpected: odd}, "500 instead"},
		"bench, token lost":          {&engineReport{Verdict: fine, Captcha: &captchaVerdict{Accepted: 1, Lost: 1, Details: []string{"token x"}}}, "token x"},
		"bench, captcha, unexpected": {&engineReport{Verdict: fine, Captcha: captcha, UnexpectedCaptcha: odd}, "500 instead"},
		"growth":                     {&growthReport{Verdict: fine}, ""},
		"growth, lost":               {&growthReport{Verdict: lost}, "hit x"},
		"growth, unchecked":          {&growthReport{Verdict: unchecked}, "what nobody tells"},
		"growth, unexpected":         {&growthReport{Verdict: fine, Unexpected: odd}, "500 instead"},
	} {
		var out strings.Builder
		if err := test.report.check(&out); (err != nil) != (test.fault != "") || !strings.Contains(out.String(), test.fault) {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
	}
}

func TestReplaceSection(t *testing.T) {
	page := performancePage(t)
	if err := replaceSection(page, "no-such-section", "text"); err == nil {
		t.Error("a section that is not there is replaced")
	}

	for range 2 {
		if err := replaceSection(page, "bench-growth", "new\n"); err != nil {
			t.Fatal(err)
		}
	}

	text, err := os.ReadFile(page)
	if want := "Between\n<!-- bench-growth: begin -->\n\nnew\n\n<!-- bench-growth: end -->\nAfter\n"; err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("%v, %s", err, text)
	}
}

// TestGoals: each goal is compared with the right figure.
func TestGoals(t *testing.T) {
	good := measurement{Engine: "postgres", Mix: "pageviews", Connections: 128, OfNoop: 0.4, P99OfNoop: 1.5, ServerCPU: 28, BytesPerHit: 175, LogPerHit: 460, PeakMemory: 256 << 20}

	met := func(m measurement, idle int64) (n, all int) {
		for _, g := range goals([]*engineReport{{Engine: "postgres", Measurements: []*measurement{&m}, IdleMemory: idle}}) {
			if all++; g.met {
				n++
			}
		}
		return n, all
	}
	if n, all := met(good, 80<<20); n != all || all != 8 {
		t.Errorf("%d of %d goals are met exactly", n, all)
	}

	for name, worsen := range map[string]func(*measurement){
		"throughput": func(m *measurement) { m.OfNoop = 0.39 }, "p99": func(m *measurement) { m.P99OfNoop = 1.51 },
		"CPU": func(m *measurement) { m.ServerCPU = 28.1 }, "bytes": func(m *measurement) { m.BytesPerHit = 176 },
		"log": func(m *measurement) { m.LogPerHit = 461 }, "failures": func(m *measurement) { m.FailedShare = 0.001 }, "memory": func(m *measurement) { m.PeakMemory = 257 << 20 },
	} {
		worse := good
		worsen(&worse)

		if n, all := met(worse, 80<<20); n != all-1 {
			t.Errorf("%s: %d of %d goals are met", name, n, all)
		}
	}

	captcha := measurement{Engine: "postgres", Mix: "siteverify", Connections: 128, OfNoop: 0.5}
	if n, all := met(captcha, 0); n != 4 || all != 4 {
		t.Errorf("captcha: %d of %d goals are met exactly", n, all)
	}

	captcha.OfNoop = 0.49
	if n, _ := met(captcha, 0); n != 3 {
		t.Errorf("captcha: %d goals are met", n)
	}
	if n, all := met(good, 81<<20); n != all-1 {
		t.Errorf("idle memory: %d of %d goals are met", n, all)
	}
	if got := median([]float64{3, 1, 2, 9}); got != 2 {
		t.Errorf("median %v", got)
	}

	m := measurement{rounds: []measurement{{Throughput: 1, PeakMemory: 5}, {Throughput: 3, PeakMemory: 1}, {Throughput: 2}}}
	if m.settle(); m.Throughput != 2 || m.PeakMemory != 5 {
		t.Errorf("settled as %+v", m)
	}
}
