package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/dbtest"
)

// tallygate runs a command line that terminates by itself, and returns its exit status and output.
func tallygate(t *testing.T, settings map[string]string, args ...string) (status int, out, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(settings, args...)

	// A default data folder would be created here.
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	// The exit status contains the same information.
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// TestWrongSettings checks that an invalid value stops the start with one line that names the
// setting but contains no secret.
func TestWrongSettings(t *testing.T) {
	for _, test := range []struct {
		setting, value string
		flag           string
		secret         bool
	}{
		{setting: "TALLYGATE_DATABASE_URL", value: "mysql://user:hunter2@127.0.0.1/x", flag: "--database-url",
			secret: true},
		{setting: "TALLYGATE_REDIS_URL", value: "memcached://:hunter2@127.0.0.1", flag: "--redis-url", secret: true},
		{setting: "TALLYGATE_ROLES", value: "control,cook", flag: "--roles"},
		{setting: "TALLYGATE_CONTROL_ADDR", value: "8080", flag: "--control-addr"},
		{setting: "TALLYGATE_DATA_ADDR", value: "127.0.0.1:99999", flag: "--data-addr"},
		{setting: "TALLYGATE_BASE_URL", value: "app.example.com", flag: "--base-url"},
		{setting: "TALLYGATE_ANALYTICS_URL", value: "https://stats.example.com/path", flag: "--analytics-url"},
		{setting: "TALLYGATE_CAPTCHA_URL", value: "ftp://captcha.example.com", flag: "--captcha-url"},
		{setting: "TALLYGATE_SECRET", value: "hunter2", flag: "--secret", secret: true},
		{setting: "TALLYGATE_SECRET_PREVIOUS", value: "hunter2", flag: "--secret-previous", secret: true},
		{setting: "TALLYGATE_ACCEPT_LOST_LOG", value: "perhaps", flag: "--accept-lost-log"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "10.0.0.0/8,10.0.0.0/33", flag: "--trusted-proxies"},
		{setting: "TALLYGATE_SIGNUPS", value: "sometimes", flag: "--signups"},
		{setting: "TALLYGATE_DEFAULT_SITE_PLAN", value: "GOLD", flag: "--default-site-plan"},
		{setting: "TALLYGATE_DEFAULT_CAPTCHA_PLAN", value: "PRO_2M", flag: "--default-captcha-plan"},
		{setting: "TALLYGATE_CAPTCHA_DIFFICULTY", value: "1000", flag: "--captcha-difficulty"},
		{setting: "TALLYGATE_CAPTCHA_TEST_SITEKEY", value: "perhaps", flag: "--captcha-test-sitekey"},
		{setting: "TALLYGATE_FLOOD_BURST", value: "-1", flag: "--flood-burst"},
		{setting: "TALLYGATE_FLOOD_RATE", value: "0", flag: "--flood-rate"},
		{setting: "TALLYGATE_RETENTION_MONTHS", value: "121", flag: "--retention-months"},
		{setting: "TALLYGATE_ALLOW_LOCAL_DOMAINS", value: "perhaps", flag: "--allow-local-domains"},
		{setting: "TALLYGATE_WEBHOOK_ALLOW_NETS", value: "10.0.0.0/33", flag: "--webhook-allow-nets"},
		{setting: "TALLYGATE_WEBHOOK_CA_FILE", value: "/nowhere.pem", flag: "--webhook-ca-file"},
		{setting: "TALLYGATE_SMTP_URL", value: "pop3://user:hunter2@mail.example.com", flag: "--smtp-url",
			secret: true},
		{setting: "TALLYGATE_MAIL_FROM", value: "no-address", flag: "--mail-from"},
		{setting: "TALLYGATE_DRAIN_DELAY", value: "61s", flag: "--drain-delay"},
		{setting: "TALLYGATE_DRAIN_DELAY", value: "soon", flag: "--drain-delay"},
		{setting: "TALLYGATE_METRICS_ADDR", value: "9090", flag: "--metrics-addr"},
		{setting: "TALLYGATE_LOG_LEVEL", value: "loud", flag: "--log-level"},
		{setting: "TALLYGATE_LOG_FORMAT", value: "xml", flag: "--log-format"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			for name, value := range map[string]string{"DATA_DIR": t.TempDir(), "CONTROL_ADDR": "127.0.0.1:0",
				"DATA_ADDR": "127.0.0.1:0"} {
				t.Setenv("TALLYGATE_"+name, value)
			}

			t.Setenv(test.setting, test.value)

			// A valid value would serve until then.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			var out, log bytes.Buffer
			status := run(ctx, []string{"serve"}, terminal{out: &out, log: &log})
			if status == 0 || out.Len() > 0 {
				t.Errorf("exit status %d, output %q; want a failure and nothing", status, &out)
			}
			if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), test.flag) {
				t.Errorf("want one line that names %s, got %q", test.flag, &log)
			}
			if test.secret && strings.Contains(log.String(), "hunter2") {
				t.Errorf("the secret is repeated: %q", &log)
			}
		})
	}
}

// TestNetworks checks that IPv4-mapped networks are parsed as IPv4.
func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.2.3/8": "10.0.0.0/8", "10.1.2.3": "10.1.2.3/32", "fd00::/8": "fd00::/8",
		"::1": "::1/128", " ::/0": "::/0",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:10.1.2.3/104": "10.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32",
		"::ffff:10.1.2.3/128": "10.1.2.3/32",
		"::ffff:a00:0/104":    "10.0.0.0/8", "::ffff:0:0/96": "0.0.0.0/0", "::ffff:0.0.0.0/95": "96 bits",
		"::ffff:10.0.0.0/8": "96 bits",
		"10.0.0.0/33":       "not an address", "proxy.example.com": "not an address", "": "not an address",
	} {
		var n Network
		err := n.UnmarshalText([]byte(text))
		if got := n.String(); err == nil && got != want {
			t.Errorf("%q is read as %s, want %s", text, got, want)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "10.0.0.0/8")) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err == nil && !n.Contains(n.Addr()) {
			t.Errorf("%q does not contain its own address", text)
		}
	}
}

// TestHelpListsEverySetting checks that --help lists each setting with its variable and default.
func TestHelpListsEverySetting(t *testing.T) {
	t.Parallel()

	status, help, _ := tallygate(t, nil, "serve", "--help")
	if status != 0 {
		t.Errorf("exit status %d", status)
	}

	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		for _, text := range []string{tag.Get("env"), tag.Get("default")} {
			if !strings.Contains(help, text) {
				t.Errorf("%s: %q is not in the help", fields.Field(i).Name, text)
			}
		}

		if tag.Get("env") == "" || tag.Get("help") == "" {
			t.Errorf("%s has no variable or no help", fields.Field(i).Name)
		}
	}
}

// TestEmptyVariables starts the program with every variable empty, as compose and systemd files may
// set them, and checks that each setting has its default.
func TestEmptyVariables(t *testing.T) {
	variables := environmentOf(reflect.TypeFor[commands]())
	if len(variables) < reflect.TypeFor[Config]().NumField() {
		t.Fatalf("%d variables found, fewer than there are settings", len(variables))
	}

	for _, commandLine := range [][]string{{"serve"}, {"demo"}, {"migrate"},
		{"admin", "reset-password", "owner@example.com"}} {
		for _, name := range variables {
			// Setenv restores the variable after the test.
			t.Setenv(name, "")

			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}

		want := parsed(t, commandLine)

		for _, name := range variables {
			t.Setenv(name, "")
		}

		if got := parsed(t, commandLine); !reflect.DeepEqual(got, want) {
			t.Errorf("%v with empty variables:\n%+v, want\n%+v", commandLine, got, want)
		}
	}

	// Start the whole program on free ports, with log lines that this test reads.
	t.Chdir(t.TempDir())
	settings := make(map[string]string)
	for _, name := range variables {
		settings[name] = ""
	}

	start(t, settings, []string{"control", "data"},
		"serve", "--control-addr", "127.0.0.1:0", "--data-addr", "127.0.0.1:0", "--log-format", "json")

	if _, err := os.Stat("tallygate-data/tallygate.sqlite"); err != nil {
		t.Errorf("the default data folder was not used: %v", err)
	}
}

// environmentOf returns the environment variables of a command line's type.
func environmentOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if name := field.Tag.Get("env"); name != "" {
			names = append(names, name)
		} else if field.Type.Kind() == reflect.Struct {
			names = append(names, environmentOf(field.Type)...)
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// parsed parses a command line as run does.
func parsed(t *testing.T, args []string) *commands {
	t.Helper()
	var cli commands
	parser, err := newParser(t.Context(), &cli, terminal{out: t.Output(), log: t.Output()}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("%v: %v", args, err)
	}

	return &cli
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
	if status != 1 || !strings.Contains(log, "--data-addr") {
		t.Errorf("exit status %d, log %q", status, log)
	}
}

func TestSecretIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := readOrMakeSecret(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readOrMakeSecret(dir); err != nil || !bytes.Equal(again, first) || len(first) < 32 {
		t.Errorf("second start: %q, %v; first start: %q", again, err, first)
	}

	info, err := os.Stat(filepath.Join(dir, secretFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files in the data folder, want the secret alone", len(files))
	}
}

// TestAnotherSecretIsRefused checks that a process with another application key does not start.
func TestAnotherSecretIsRefused(t *testing.T) {
	t.Parallel()

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_SECRET"] = strings.Repeat("alpha ", 8)
		p := start(t, settings, []string{"control", "data"})
		settings["TALLYGATE_SECRET"] = strings.Repeat("omega ", 8)
		status, _, log := tallygate(t, settings, "serve")
		if status != 1 || !strings.Contains(log, "--secret") || strings.Contains(log, "alpha") ||
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

// TestCancelledRun checks that a signal during the start is not reported as a failure.
func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	status := run(ctx, []string{"serve", "--data-dir", t.TempDir(), "--control-addr", "127.0.0.1:0", "--data-addr",
		"127.0.0.1:0"}, terminal{out: &out, log: &log})
	if status != 0 {
		t.Errorf("exit status %d:\n%s", status, log.String())
	}
}
