package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttack plays each attack of the three commands for a short time. It checks that the attacker
// gets answers of the kind that each one is about, however few a busy machine gives, and that the
// hits of other sites and the reports of another account are measured. A refused hit would be a
// fault. A commit that takes too long on a busy machine is no fault. The attack by the worker, which
// is in two commands, is played in one.
func TestAttack(t *testing.T) {
	testkit.SkipLong(t, "a load")
	requirePrograms(t)

	const answered = `\b[1-9]\d* (answered|RATE_LIMITED|TIMEOUT|UNAVAILABLE)`
	engines := []string{"sqlite", "postgres"}
	exhausted := `: 100 204, [1-9]\d* 429 quota_exceeded`
	for _, test := range []struct {
		group   string
		engines []string
		got     map[string]string // by attack
	}{
		{"visitor", engines[:1], map[string]string{"manual": `\b[1-9]\d* 204`, "campaigns": `\b[1-9]\d* 204`, "exhausted": exhausted}},
		{"visitor", engines[1:], map[string]string{"exhausted": exhausted}},
		{"neighbours", engines, map[string]string{
			"reports": `[1-9]\d* answered`, "worker": `^1000 events built in \d+ s`, "tools": `[1-9]\d* answered`, "tools-link": `[1-9]\d* answered`,
			"import":    `^1 MB uploaded in \d+ s, read in \d+ s, stored in \d+ s`,
			"directory": `^1 MB uploaded in \d+ s, [A-Z_]+ after \d+ s`,
			"sign-in":   `[1-9]\d* 200 (RATE_LIMITED|WRONG_CREDENTIALS)`,
			"settings":  `[1-9]\d* (200 TIMEOUT|503 UNAVAILABLE|answered)`,
		}},
		{"report", engines, map[string]string{
			"events": `^50 stored: 50 recorded`,
			"totals": answered, "breakdowns": answered, "names": answered,
			"totals-link": answered, "breakdowns-link": answered, "names-link": answered,
			"patterns": `asked with \d+ bytes`, "patterns-link": `asked with \d+ bytes`, "turns": `alone \d+\.\d s: .*` + answered,
		}},
	} {
		for _, engine := range test.engines {
			t.Run(test.group+"/"+engine, func(t *testing.T) {
				t.Parallel()
				testAttack(t, test.group, engine, test.got)
			})
		}
	}
}

func testAttack(t *testing.T, group, engine string, got map[string]string) {
	args := []string{"attack", group, "--observe", "--json", "--program", tallygate(t), "--engine", engine, "--tries", "1",
		"--rate", "60", "--calm", "1s", "--duration", "1s", "--patience", "5m", "--settle", "1s", "--events", "50",
		"--day-events", "1000", "--import", "2", "--directory", "2"}
	for attack := range got {
		args = append(args, "--only", attack)
	}
	out := command(t, args...)

	var o report.Outcome
	if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Cases) != len(got) {
		t.Fatalf("%d attacks, want %d; %v in\n%s", len(o.Cases), len(got), err, out)
	}
	for _, one := range o.Cases {
		name := one.Label("attack")
		if want := got[name]; want == "" || !regexp.MustCompile(want).MatchString(one.Label("got")) {
			t.Errorf("%s: the attacker got %q, want %q", name, one.Label("got"), want)
		}

		for _, unit := range []string{
			"before-p99-ms", "during-p99-ms", "after-p99-ms", "sent-calls", "reports", "reports-p95-ms",
			"server-memory-B",
		} {
			if one.Get(unit) <= 0 {
				t.Errorf("%s: no %s:\n%s", name, unit, out)
			}
		}
	}
}
