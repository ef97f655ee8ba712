package main

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestChaos breaks the real program a few times and loses nothing.
func TestChaos(t *testing.T) {
	eachBench(t, func(t *testing.T, b *bench) {
		c := chaosCommand{Engine: "test", Break: []string{"server"}, Rounds: 2, Seed: 3, Connections: 16, Sites: 3}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}

		o, err := c.play(t.Context(), b, io.Discard)
		if err != nil {
			t.Fatal(err)
		}

		broken := 0
		for _, n := range o.Broken {
			broken += n
		}

		if !o.ok() || broken != c.Rounds || o.Verdict.Acknowledged < 100 {
			t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
		}

		var out strings.Builder
		o.print(&out)

		if !strings.Contains(out.String(), " 0 lost, 0 duplicated, 0 wrong") {
			t.Errorf("printed:\n%s", out.String())
		}
	})
}

// TestChaosEverything breaks a private PostgreSQL and a private Redis as well. Which of them is
// decided by the seed; this one breaks both.
func TestChaosEverything(t *testing.T) {
	t.Parallel()

	c := chaosCommand{Engine: "postgres", Break: []string{"postgres", "redis"}, Rounds: 4, Seed: 2, Connections: 16, Sites: 3}
	requirePrograms(t)

	b, err := newBench(tallygate(t), c.Engine)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()

	o, err := c.play(t.Context(), b, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for name := range o.Broken {
		names = append(names, name[strings.Index(name, " ")+1:])
	}

	if !o.ok() || !slices.Contains(names, "postgres") || !slices.Contains(names, "redis") {
		t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
	}
}

func TestChaosCommandLine(t *testing.T) {
	for _, wrong := range [][]string{
		{"chaos", "--rounds", "0"},
		{"chaos", "--connections", "5000"},
		{"chaos", "--sites", "0"},
		{"chaos", "--sites", "1001"},
		{"chaos", "--engine", "mysql"},
		{"chaos", "--break", "disk"},
		{"chaos", "--break", "postgres"}, // SQLite is the default
		{"run", "--connections", "0"},
		{"run", "--duration", "0s"},
		{"run", "--sites", "0"},
		{"run", "--visitors", "0"},
		{"run", "--warmup", "-1s"},
		{"run", "--mix", "none"},
		{"unheard-of"},
	} {
		if status := run(t.Context(), wrong, quiet()); status != 2 {
			t.Errorf("%q: exit status %d, want 2", wrong, status)
		}
	}

	if status := run(t.Context(), []string{"verify", t.TempDir() + "/none"}, quiet()); status != 1 {
		t.Errorf("a journal that is not there: exit status %d, want 1", status)
	}
}

// TestInterrupted: a check that is interrupted has not passed.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := createJournal(path, journalHead{Target: target{Control: "http://127.0.0.1:1", Email: "a@loadgen.example"}})
	if err != nil || j.close() != nil {
		t.Fatal(err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()

	for _, args := range [][]string{{"verify", path}, {"captcha"}, {"run", "--journal", path + "2"}} {
		if status := run(ctx, args, quiet()); status != 1 {
			t.Errorf("%q: exit status %d, want 1", args, status)
		}
	}
}
