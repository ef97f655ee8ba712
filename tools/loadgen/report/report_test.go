package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
)

func TestReport(t *testing.T) {
	r := &load.Result{Elapsed: 2 * time.Second, Answers: map[string]int64{"204": 90, "400 bad_json": 10,
		load.NoAnswer: 100}, Cost: process.Cost{CPU: time.Second, PeakMemory: 64 << 20}}
	for i := range 100 {
		r.Latency.Add(time.Duration(i+1) * time.Millisecond)
	}

	r.CountFailed()
	report := New(r, 7)
	if report.Check() != nil {
		t.Error("a run without a fault fails")
	}

	report.Unexpected = map[string]int64{"500": 1}
	if report.Check() == nil {
		t.Error("an unexpected answer does not make the run fail")
	}
	if report.Throughput != 50 || report.Seconds != 2 || report.CPU != 10000 || report.FailedShare != 0.5 ||
		report.Latency.P99 < 99 || report.Latency.P50 > 52 {
		t.Errorf("%+v", report)
	}

	var out strings.Builder
	report.Print(&out)

	for _, want := range []string{"50 calls/s over 7 connections", "unanswered: 50.000 %", "p99.9 ", "90  204\n",
		"100  no answer\n", "UNEXPECTED", "64 MB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}

	if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"p999":`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestReportOfUnsent checks that delayed calls are reported.
func TestReportOfUnsent(t *testing.T) {
	var out strings.Builder
	(&Report{Unsent: 47}).Print(&out)

	if !strings.Contains(out.String(), "47 more calls were due") {
		t.Errorf("printed %s", out.String())
	}
}
