package main

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackReport runs the attack with few events. It checks that each step is measured: the
// events are stored, the reports are answered or refused with a code, and the worker builds the
// day.
func TestAttackReport(t *testing.T) {
	testkit.SkipLong(t, "a load")
	requirePrograms(t)

	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			out := command(t, "attack", "report", "--observe", "--program", tallygate(t), "--engine", engine, "--events", "50",
				"--day-events", "100", "--calm", "500ms", "--duration", "500ms", "--window", "200ms", "--patience", "3m", "--settle", "1s")

			for _, want := range []string{
				"| 50 events | 50 stored: 50 recorded |",
				"| totals, owner | ", "| 28 property breakdowns, owner | ", "| property names, owner | ",
				"| totals, shared link | ", "| 28 property breakdowns, shared link | ", "| property names, shared link | ",
				"| worker, day of 100 events | built ", "| patterns, owner | ", "| patterns, shared link | ",
				"| 8 connections, ",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, "process terminated") || strings.Contains(out, "INVALID_ARGUMENT |") {
				t.Errorf("the process terminated, or a report is not valid:\n%s", out)
			}
		})
	}
}
