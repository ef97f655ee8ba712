package test

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// tallygate runs a command line that terminates by itself, and returns its exit status and output.
func tallygate(t *testing.T, settings map[string]string, args ...string) (status int, out, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := newCommand(settings, args...)

	// A default data folder would be created here.
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	// The exit status contains the same information.
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// TestHelpListsEverySetting checks that --help-settings lists each setting with its variable and
// default.
func TestHelpListsEverySetting(t *testing.T) {
	t.Parallel()

	status, help, _ := tallygate(t, nil, "--help-settings")
	testkit.Equal(t, status, 0, "exit status")

	help = strings.Join(strings.Fields(help), " ")
	fields := reflect.TypeFor[config.Config]()
	for i := range fields.NumField() {
		name, tag := fields.Field(i).Name, fields.Field(i).Tag
		variable := tag.Get("env")
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "TALLYGATE_"), "_", "-"))

		text := config.Texts[flag].Help
		if variable == "" || text == "" {
			t.Errorf("%s has no variable or no help", name)
		}
		for _, want := range []string{flag, variable, tag.Get("default"), text} {
			if !strings.Contains(help, want) {
				t.Errorf("%s: %q is not in the help", name, want)
			}
		}
	}
}

// TestStartWithEmptyVariables starts the program on free ports with every variable empty.
func TestStartWithEmptyVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	settings := make(map[string]string)
	fields := reflect.TypeFor[config.Config]()
	for i := range fields.NumField() {
		settings[fields.Field(i).Tag.Get("env")] = ""
	}

	start(t, settings, []string{"control", "data"},
		"serve", "--control-addr", "127.0.0.1:0", "--data-addr", "127.0.0.1:0", "--log-format", "json")

	if _, err := os.Stat("tallygate-data/tallygate.sqlite"); err != nil {
		t.Errorf("the default data folder was not used: %v", err)
	}
}

func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	if status, _, log := tallygate(t, nil, "dance"); status != 2 || strings.Count(log, "\n") != 1 {
		t.Errorf("exit status %d, log %q; want 2 and one line", status, log)
	}
}

// TestAddressInUse checks that the error names the setting to change.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"}, "serve")
	status, _, log := tallygate(t, map[string]string{"TALLYGATE_DATA_ADDR": p.addr["data"]}, "serve")
	if status != 1 || !strings.Contains(log, "TALLYGATE_DATA_ADDR") {
		t.Errorf("exit status %d, log %q", status, log)
	}
}

// TestAnotherSecretIsRefused checks that a process with another application key does not start.
func TestAnotherSecretIsRefused(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_SECRET"] = strings.Repeat("alpha ", 8)
		p := start(t, settings, []string{"control", "data"})
		settings["TALLYGATE_SECRET"] = strings.Repeat("omega ", 8)
		status, _, log := tallygate(t, settings, "serve")
		if status != 4 || !strings.Contains(log, "TALLYGATE_SECRET") || strings.Contains(log, "alpha") ||
			strings.Contains(log, "omega") {
			t.Errorf("exit status %d, log %q", status, log)
		}

		p.kill()
	})
}

func TestMigrateCommand(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		for range 2 {
			if status, out, log := tallygate(t, settings, "migrate"); status != 0 ||
				out != "The schema is up to date.\n" {
				t.Errorf("exit status %d, output %q, log %q", status, out, log)
			}
		}
	})
}
