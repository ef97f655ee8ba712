package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/bench"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// performancePage writes a page with the two generated sections.
func performancePage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "performance.md")
	text := "# Before\n<!-- bench-report: begin -->\nold\n<!-- bench-report: end -->\nBetween\n<!-- bench-growth: begin -->\n<!-- bench-growth: end -->\nAfter\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

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
	page := performancePage(t)
	out := command(t, "bench", "--program", tallygate(t), "--engines", engine, "--connections", "4,32", "--rounds", "1",
		"--duration", "100ms",
		"--rows", "3000", "--json", "--out", page)

	var reports []bench.EngineReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 || reports[0].Engine != engine {
		t.Fatalf("%v in\n%s", err, out)
	}

	for _, r := range reports {
		if r.BulkRate <= 0 || r.IdleMemory < 1<<20 || len(r.Measurements) != 6 || !r.Verdict.OK() ||
			r.Verdict.Acknowledged == 0 ||
			!r.Captcha.OK() || r.Captcha.Accepted < 2*load.MinAnswers || r.Captcha.Unknown != 0 {
			t.Errorf("%s: %+v, %+v", r.Engine, r, r.Verdict)
		}

		for _, m := range r.Measurements {
			if m.Throughput <= 0 || m.OfNoop <= 0 || m.OfBulk > 0 != (m.Mix != "siteverify") || m.P50 <= 0 ||
				m.P99 < m.P50 || m.PeakMemory < 1<<20 || m.FailedShare != 0 || m.BytesPerHit < 0 {
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

	for _, want := range []string{"# Before\n<!-- bench-report: begin -->\n", "| " + engine + " | pageviews | 4 |",
		"| " + engine + " | realistic | 32 |", "| " + engine + " | siteverify | 32 |", "p50 at most ",
		"<!-- bench-report: end -->\nBetween\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	if strings.Contains(string(text), "old") {
		t.Error("the section's old text remains")
	}
}

// TestGrowth fills two databases and verifies the page views that follow.
func TestGrowth(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()

	requirePrograms(t)
	page := performancePage(t)
	out := command(t, "growth", "--program", tallygate(t), "--connections", "8", "--rounds", "1", "--duration", "200ms",
		"--rows", "15000", "--json", "--out", page)

	var reports []bench.GrowthReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 2 {
		t.Fatalf("%v in\n%s", err, out)
	}

	for _, r := range reports {
		// The second half has new visitors, so that nearly each hit starts a visit.
		if r.Empty <= 0 || r.Full <= 0 || r.FirstMs <= 0 || r.PageMs <= 0 || r.Page < 2 || !r.Verdict.OK() ||
			r.Verdict.Acknowledged < r.Measured || r.Verdict.Visits < r.Verdict.Acknowledged*8/10 {
			t.Errorf("%s: %+v, %+v", r.Engine, r, r.Verdict)
		}
	}

	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| sqlite | 15000 |") {
		t.Errorf("%v in\n%s", err, text)
	}
}

func TestLimits(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()
	out := command(t, "limits", "--connections", "2", "--duration", "100ms", "--rows", "1000")
	for _, want := range []string{"calls/s over 2 connections", "sqlite copies "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
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

		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Answers["204"] == 0 || r.Connections != 4 ||
			len(r.Unexpected) != 0 || r.Throughput <= 0 {
			t.Errorf("%v, %s", err, out)
		}
		if out := command(t, "verify", journal); !strings.Contains(out, " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("verify printed %s", out)
		}
	})
}
