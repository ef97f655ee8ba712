package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestChaos breaks the program a few times, and checks that nothing is lost.
func TestChaos(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		c := scenario.Chaos{Engine: "test", Break: []string{"server"}, Rounds: 2, Seed: 3, Connections: 16, Sites: 3}
		testkit.NoError(t, c.Validate())

		o, err := c.PlayOn(t.Context(), b, io.Discard)
		testkit.NoError(t, err)

		if err := o.Err(); err != nil || len(brokenParts(o)) != c.Rounds || o.Hits.Acknowledged < 100 {
			t.Errorf("%v, %s, verdict %+v", err, o.Text, o.Hits)
		}

		var out strings.Builder
		if err := o.Print(report.Terminal{Out: &out}, new(report.Output)); err != nil || !strings.Contains(out.String(), " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("printed:\n%s", out.String())
		}
	})
}

// TestChaosChild kills the child process, and the parent alone, a few times. It checks that no hit
// is refused in the first case, that none is lost, and that conversions are delivered.
func TestChaosChild(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	for _, part := range []string{"child", "parent"} {
		t.Run(part, func(t *testing.T) {
			eachInstance(t, func(t *testing.T, b *instance.Instance) {
				// The machine may be busy.
				c := scenario.Chaos{Engine: "test", Break: []string{part}, Rounds: 2, Seed: 3, Connections: 16, Sites: 3, Rate: 100,
					Late: time.Minute, Back: time.Minute}
				testkit.NoError(t, c.Validate())
				o, err := c.PlayOn(t.Context(), b, io.Discard)
				testkit.NoError(t, err)
				if err := o.Err(); err != nil || len(brokenParts(o)) != c.Rounds || o.Hits.Acknowledged < 100 ||
					!strings.Contains(o.Text, " after at most ") || !strings.Contains(o.Text, " conversions ") {
					t.Errorf("%v, %s, verdict %+v", err, o.Text, o.Hits)
				}
			})
		})
	}
}

// TestChaosEverything breaks a private PostgreSQL and a private Redis too. The seed was chosen so
// that both are hit.
func TestChaosEverything(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	c := scenario.Chaos{Engine: "postgres", Break: []string{"postgres", "redis"}, Rounds: 4, Seed: 2, Connections: 16,
		Sites: 3}
	requirePrograms(t)

	b, err := instance.New(tallygate(t), c.Engine)
	testkit.NoError(t, err)
	defer b.Close()

	o, err := c.PlayOn(t.Context(), b, io.Discard)
	testkit.NoError(t, err)

	parts := brokenParts(o)
	if err := o.Err(); err != nil || !slices.Contains(parts, "postgres") || !slices.Contains(parts, "redis") {
		t.Errorf("%v, broken %v, verdict %+v", err, parts, o.Hits)
	}
}

// brokenParts returns the part that was broken in each round, in any order.
func brokenParts(o *report.Outcome) (parts []string) {
	for _, f := range o.Cases[0].Figures {
		if fault, ok := strings.CutPrefix(f.Unit, "faults:"); ok {
			_, part, _ := strings.Cut(fault, " ")
			parts = append(parts, slices.Repeat([]string{part}, len(f.Rounds))...)
		}
	}
	return parts
}
