package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/chaos"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestChaos breaks the program a few times, and checks that nothing is lost.
func TestChaos(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		c := chaos.Command{Engine: "test", Break: []string{"server"}, Rounds: 2, Seed: 3, Connections: 16, Sites: 3}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}

		o, err := c.Play(t.Context(), b, io.Discard)
		if err != nil {
			t.Fatal(err)
		}

		broken := 0
		for _, n := range o.Broken {
			broken += n
		}

		if !o.OK() || broken != c.Rounds || o.Verdict.Acknowledged < 100 {
			t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
		}

		var out strings.Builder
		o.Print(&out)

		if !strings.Contains(out.String(), " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("printed:\n%s", out.String())
		}
	})
}

// TestChaosEverything breaks a private PostgreSQL and a private Redis too. The seed was chosen so
// that both are hit.
func TestChaosEverything(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	c := chaos.Command{Engine: "postgres", Break: []string{"postgres", "redis"}, Rounds: 4, Seed: 2, Connections: 16,
		Sites: 3}
	requirePrograms(t)

	b, err := instance.New(tallygate(t), c.Engine)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	o, err := c.Play(t.Context(), b, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for name := range o.Broken {
		names = append(names, name[strings.Index(name, " ")+1:])
	}

	if !o.OK() || !slices.Contains(names, "postgres") || !slices.Contains(names, "redis") {
		t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
	}
}
