package main

import (
	"strings"
	"testing"
	"time"
)

// TestAttackOwner: a real server refuses most of an owner's flood of changes, and not one hit of
// another account's site.
func TestAttackOwner(t *testing.T) {
	eachBench(t, func(t *testing.T, b *bench) {
		c := attackOwnerCommand{Engine: "test", Connections: 64, Rate: 50, Quiet: 3 * time.Second, Duration: 5 * time.Second}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}

		b.mustStart(t)
		o, err := c.attack(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}

		var out strings.Builder
		o.print(&out, &c)
		t.Log(out.String())

		if o.attacked.failedShare() > 0 || o.attacked.sent() < 200 {
			t.Errorf("%d hits, %s of them refused; want some 250, none refused", o.attacked.sent(), percent(o.attacked.failedShare()))
		}
		if o.changes == 0 || o.refused == 0 || o.unanswered > 0 {
			t.Errorf("the attacker made %d changes, had %d requests refused and %d unanswered", o.changes, o.refused, o.unanswered)
		}
	})
}
