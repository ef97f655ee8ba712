package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// command runs the program and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, log strings.Builder
	if status := execute(t.Context(), args, report.Terminal{Out: &out, Log: &log}); status != 0 {
		t.Fatalf("%q: exit status %d:\n%s%s", args, status, out.String(), log.String())
	}
	return out.String()
}

// TestBench measures very briefly. It checks that every figure is reported and every hit is found.
func TestBench(t *testing.T) {
	testkit.SkipLong(t, "a load")
	requirePrograms(t)
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			testBench(t, engine)
		})
	}
}

func testBench(t *testing.T, engine string) {
	figures := filepath.Join(t.TempDir(), "figures.csv")
	out := command(t, "bench", "--program", tallygate(t), "--engines", engine, "--connections", "4", "--connections", "32", "--rounds", "1",
		"--duration", "100ms",
		"--rows", "3000", "--json", "--out", figures)

	var o report.Outcome
	if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Cases) != 1+6 || o.Cases[0].Label("engine") != engine {
		t.Fatalf("%v in\n%s", err, out)
	}

	if all := o.Cases[0]; all.Get("rows/s") <= 0 || all.Get("idle-memory-B") < 1<<20 || !o.Hits.OK() || o.Hits.Acknowledged == 0 ||
		!o.Tokens.OK() || o.Tokens.Accepted < 2*load.MinAnswers || o.Tokens.Unknown != 0 {
		t.Errorf("%s: %+v, %+v, %+v", engine, all, o.Hits, o.Tokens)
	}
	for _, m := range o.Cases[1:] {
		isHits := m.Label("calls") != "siteverify"
		if m.Get(report.Rate) <= 0 || m.Get("of-empty-handler") <= 0 || m.Get("of-bulk-copy") > 0 != isHits ||
			m.Get(report.P50) <= 0 || m.Get(report.P99) < m.Get(report.P50) || m.Get(report.Memory) < 1<<20 ||
			m.Get(report.Failed) != 0 {
			t.Errorf("%s: %s", m.Labels, out)
		}
		if engine == "postgres" && m.Get("log-B/hit") <= 0 {
			t.Errorf("%s: no log was written: %s", m.Labels, out)
		}
	}

	text, err := os.ReadFile(figures)
	testkit.NoError(t, err)

	for _, want := range []string{engine + ",pageviews,4,", engine + ",realistic,32,", engine + ",siteverify,32,", "p50 at most "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestGrowth fills two databases and verifies the page views that follow.
func TestGrowth(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()

	requirePrograms(t)
	figures := filepath.Join(t.TempDir(), "figures.csv")
	out := command(t, "growth", "--program", tallygate(t), "--connections", "8", "--rounds", "1", "--duration", "200ms",
		"--rows", "15000", "--json", "--out", figures)

	var o report.Outcome
	if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Cases) != 2 {
		t.Fatalf("%v in\n%s", err, out)
	}

	measured := 0.0
	for _, r := range o.Cases {
		measured += r.Sum(report.Sent)
		if r.Get("empty-of-empty-handler") <= 0 || r.Get("full-of-empty-handler") <= 0 || r.Get("first-page-ms") <= 0 ||
			r.Get("late-page-ms") <= 0 || r.Get("late-page") < 2 {
			t.Errorf("%s: %s", r.Labels, out)
		}
	}

	// The second half has new visitors, so that nearly each hit starts a visit.
	if !o.Hits.OK() || float64(o.Hits.Acknowledged) < measured || o.Hits.Visits < o.Hits.Acknowledged*8/10 {
		t.Errorf("%.0f calls, %+v", measured, o.Hits)
	}

	if text, err := os.ReadFile(figures); err != nil || !strings.Contains(string(text), "sqlite,15000,") {
		t.Errorf("%v in\n%s", err, text)
	}
}

// TestRunCommand drives a running instance from the command line and verifies the journal.
func TestRunCommand(t *testing.T) {
	testkit.SkipLong(t, "a load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		mustStart(t, b)
		journal := filepath.Join(b.Dir, "journal")
		out := command(t, "run", "--control", "http://"+b.Server.Control, "--data", b.Server.Data, "--duration",
			"300ms", "--warmup", "50ms",
			"--connections", "4", "--sites", "2", "--journal", journal, "--json")

		var o report.Outcome
		if err := json.Unmarshal([]byte(out), &o); err != nil || o.Answers["204"] == 0 || len(o.Unexpected) != 0 ||
			o.Cases[0].Label("connections") != "4" || o.Cases[0].Get(report.Rate) <= 0 {
			t.Errorf("%v, %s", err, out)
		}
		if out := command(t, "verify", journal); !strings.Contains(out, " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("verify printed %s", out)
		}
	})
}
