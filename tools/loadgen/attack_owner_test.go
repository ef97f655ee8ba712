package main

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackOwner checks that a server refuses most of an owner's flood of changes, but no hit of
// another account's site.
func TestAttackOwner(t *testing.T) {
	testkit.SkipLong(t, "a load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		c := scenario.AttackOwner{Engine: "test", Connections: 64, Rate: 50, Quiet: 3 * time.Second,
			Duration: 5 * time.Second}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}

		mustStart(t, b)
		o, err := c.PlayOn(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}

		t.Log(o.Text)

		if hits := o.Case("engine", "test", "phase", "attack"); hits.Get(report.Failed) > 0 || hits.Get(report.Sent) < 200 {
			t.Errorf("%.0f hits, %s of them refused; want some 250 and no refusal",
				hits.Get(report.Sent), report.Percent(hits.Get(report.Failed)))
		}
		attacker := o.Case("engine", "test", "phase", "attacker")
		if attacker.Get("changes") == 0 || attacker.Get("refused-requests") == 0 || attacker.Get("unanswered-requests") > 0 {
			t.Errorf("the attacker's requests: %s", o.Text)
		}
	})
}
