package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEmptyVariables checks that an empty environment variable counts as unset.
func TestEmptyVariables(t *testing.T) {
	read := func() *scenario.Hits {
		t.Helper()
		selected, err := parse([]string{"run"}, io.Discard)
		testkit.NoError(t, err)
		return selected.(*scenario.Hits)
	}

	variables := []string{"LOADGEN_CONTROL", "LOADGEN_DATA", "LOADGEN_EMAIL", "LOADGEN_PASSWORD", "LOADGEN_TOKEN",
		"LOADGEN_CAPTCHA_SECRET"}
	for _, name := range variables {
		// Setenv restores the variable after the test.
		t.Setenv(name, "")

		testkit.NoError(t, os.Unsetenv(name))
	}

	want := read()

	for _, name := range variables {
		t.Setenv(name, "")
	}

	got := read()

	if !reflect.DeepEqual(got, want) || got.Target.Control == "" {
		t.Errorf("with empty variables: %+v, want %+v", got, want)
	}
}

// TestWrongCommandLines checks the limits of the flags. The message names the flag.
func TestWrongCommandLines(t *testing.T) {
	for _, wrong := range []string{
		"captcha --tokens 0", "captcha --connections 0", "captcha --connections 4097", "captcha --sitekey x", "captcha --secret x",
		"chaos --rounds 0", "chaos --connections 5000", "chaos --sites 0", "chaos --sites 1001", "chaos --engine mysql",
		"chaos --break disk", "chaos --break postgres", // SQLite is the default
		"run --connections 0", "run --duration 0s", "run --sites 0", "run --visitors 0", "run --warmup -1s", "run --mix none",
		"attack report --engine mysql", "attack report --events 0", "attack report --day-events 0", "attack visitor --attack-rate 0",
		"attack report --calm 0s", "attack report --duration 2h", "attack report --settle -1s", "attack report --patience 0s",
		"attack report --address-space 100", "attack report --hits-floor -1ms", "attack report --reports-floor -1ms",
		"attack neighbours --only nothing", "attack neighbours --only totals", "attack neighbours --rate 0",
		"attack neighbours --import 257", "attack neighbours --directory 0", "attack neighbours --tries 0", "attack neighbours --events 10001",
		"attack neighbours --processes 3", "chaos --rate -1", "chaos --late -1s", "chaos --back 2h",
		"attack captcha --people 0", "attack captcha --networks 1", "attack captcha --networks 70000", "attack captcha --cores 0",
		"attack captcha --rounds 0", "attack captcha --seed -1",
		"cluster --rounds 0 --citus x", "cluster --connections 4000 --citus x", "cluster --rate 1 --citus x", "cluster --outage 1ms --citus x",
		"bench --connections 1000 --connections 1000 --rounds 3", "bench --rows 0", "fleet --nodes 1", "reports --days 1",
		"upgrade --connections 0 --previous x",
		"unheard-of",
	} {
		var log strings.Builder
		status := execute(t.Context(), strings.Fields(wrong), report.Terminal{Out: io.Discard, Log: &log})
		_, flag, _ := strings.Cut(wrong, "--")
		flag, _, _ = strings.Cut(flag, " ")
		if status != 2 || !strings.Contains(log.String(), flag) {
			t.Errorf("%s: exit status %d, want 2; %s", wrong, status, log.String())
		}
	}

	testkit.Equal(t, execute(t.Context(), []string{"verify", t.TempDir() + "/none"}, quiet()), 1, "a missing journal: exit status")
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
		testkit.Equal(t, execute(ctx, args, quiet()), 1, "%q: exit status", args)
	}
}
