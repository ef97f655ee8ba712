package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEmptyVariables checks that an empty environment variable counts as unset.
func TestEmptyVariables(t *testing.T) {
	var want, got commands
	read := func(cli *commands) {
		t.Helper()
		parser, err := newParser(t.Context(), cli, quiet(), func(int) {})
		if err == nil {
			_, err = parser.Parse([]string{"run"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	variables := []string{"LOADGEN_CONTROL", "LOADGEN_DATA", "LOADGEN_EMAIL", "LOADGEN_PASSWORD", "LOADGEN_TOKEN",
		"LOADGEN_CAPTCHA_SECRET"}
	for _, name := range variables {
		// Setenv restores the variable after the test.
		t.Setenv(name, "")

		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}

	read(&want)

	for _, name := range variables {
		t.Setenv(name, "")
	}

	read(&got)

	if !reflect.DeepEqual(got, want) || got.Run.Target.Control == "" {
		t.Errorf("with empty variables: %+v, want %+v", got.Run, want.Run)
	}
}

func TestCaptchaCommandLine(t *testing.T) {
	for _, args := range [][]string{{"--tokens", "0"}, {"--connections", "0"}, {"--connections", "4097"},
		{"--sitekey", "x"}, {"--secret", "x"}} {
		if status := execute(t.Context(), append([]string{"captcha"}, args...), quiet()); status != 2 {
			t.Errorf("%q: exit status %d", args, status)
		}
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
		if status := execute(t.Context(), wrong, quiet()); status != 2 {
			t.Errorf("%q: exit status %d, want 2", wrong, status)
		}
	}

	if status := execute(t.Context(), []string{"verify", t.TempDir() + "/none"}, quiet()); status != 1 {
		t.Errorf("a missing journal: exit status %d, want 1", status)
	}
}

// TestInterrupted checks that an interrupted command fails.
func TestInterrupted(t *testing.T) {
	testkit.SkipLong(t, "a load")
	path := filepath.Join(t.TempDir(), "journal")
	j, err := traffic.CreateJournal(path,
		traffic.JournalHead{Target: target.Target{Control: "http://127.0.0.1:1", Email: "a@loadgen.example"}})
	if err != nil || j.Close() != nil {
		t.Fatal(err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()

	for _, args := range [][]string{{"verify", path}, {"captcha"}, {"run", "--journal", path + "2"}} {
		if status := execute(ctx, args, quiet()); status != 1 {
			t.Errorf("%q: exit status %d, want 1", args, status)
		}
	}
}
