package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/attack"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackOwner checks that a server refuses most of an owner's flood of changes, but no hit of
// another account's site.
func TestAttackOwner(t *testing.T) {
	testkit.SkipLong(t, "a load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		c := attack.OwnerCommand{Engine: "test", Connections: 64, Rate: 50, Quiet: 3 * time.Second,
			Duration: 5 * time.Second}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}

		mustStart(t, b)
		o, err := c.Attack(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}

		var out strings.Builder
		o.Print(&out, &c)
		t.Log(out.String())

		if o.Attacked.FailedShare() > 0 || o.Attacked.Sent() < 200 {
			t.Errorf("%d hits, %s of them refused; want some 250 and no refusal",
				o.Attacked.Sent(), report.Percent(o.Attacked.FailedShare()))
		}
		if o.Changes == 0 || o.Refused == 0 || o.Unanswered > 0 {
			t.Errorf("the attacker made %d changes, had %d requests refused and %d unanswered",
				o.Changes, o.Refused, o.Unanswered)
		}
	})
}
