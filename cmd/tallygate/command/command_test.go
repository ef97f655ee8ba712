package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestWrongSettings checks that an invalid value stops the start with one line that names the
// setting but contains no secret.
func TestWrongSettings(t *testing.T) {
	for _, test := range []struct {
		setting, value string
		want           string // in addition to the setting
		secret         bool
	}{
		{setting: "TALLYGATE_DATABASE_URL", value: "mysql://user:hunter2@127.0.0.1/x", secret: true},
		{setting: "TALLYGATE_REDIS_URL", value: "memcached://:hunter2@127.0.0.1", secret: true},
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "2=postgres://u:hunter2@127.0.0.1/x,3=mysql://u:hunter2@127.0.0.1/x",
			secret: true},
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "postgres://u:hunter2@127.0.0.1/x", secret: true},
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "2=postgres://u:hunter2@127.0.0.1/x", secret: true}, // on SQLite
		{setting: "TALLYGATE_ROLES", value: "control,cook"},
		{setting: "TALLYGATE_CONTROL_ADDR", value: "8080"},
		{setting: "TALLYGATE_DATA_ADDR", value: "127.0.0.1:99999"},
		{setting: "TALLYGATE_BASE_URL", value: "app.example.com"},
		{setting: "TALLYGATE_ANALYTICS_URL", value: "https://stats.example.com/path"},
		{setting: "TALLYGATE_CAPTCHA_URL", value: "ftp://captcha.example.com"},
		{setting: "TALLYGATE_SECRET", value: "hunter2", secret: true},
		{setting: "TALLYGATE_SECRET_PREVIOUS", value: "hunter2", secret: true},
		{setting: "TALLYGATE_ACCEPT_LOST_LOG", value: "perhaps"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "10.0.0.0/8,10.0.0.0/33"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "127.0.0.1,0.0.0.0/0", want: "0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "192.0.2.1/0", want: "0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "::/0,127.0.0.1", want: "::/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "::ffff:0:0/96", want: "0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_SIGNUPS", value: "sometimes"},
		{setting: "TALLYGATE_DEFAULT_SITE_PLAN", value: "GOLD"},
		{setting: "TALLYGATE_DEFAULT_CAPTCHA_PLAN", value: "PRO_2M"},
		{setting: "TALLYGATE_CAPTCHA_DIFFICULTY", value: "1000"},
		{setting: "TALLYGATE_CAPTCHA_TEST_SITEKEY", value: "perhaps"},
		{setting: "TALLYGATE_FLOOD_BURST", value: "-1"},
		{setting: "TALLYGATE_FLOOD_RATE", value: "0"},
		{setting: "TALLYGATE_SERVER_FLOOD_BURST", value: "1000000001"},
		{setting: "TALLYGATE_SERVER_FLOOD_RATE", value: "0"},
		{setting: "TALLYGATE_RETENTION_MONTHS", value: "121"},
		{setting: "TALLYGATE_ALLOW_LOCAL_DOMAINS", value: "perhaps"},
		{setting: "TALLYGATE_WEBHOOK_ALLOW_NETS", value: "10.0.0.0/33"},
		{setting: "TALLYGATE_WEBHOOK_CA_FILE", value: "/nowhere.pem"},
		{setting: "TALLYGATE_GEO_FILE", value: "/nowhere.mmdb", want: "no such file"},
		{setting: "TALLYGATE_REFERRER_SPAM_FILE", value: "/", want: "not a regular file"},
		{setting: "TALLYGATE_DATA_CENTRE_FILE", value: "/nowhere.txt"},
		{setting: "TALLYGATE_SMTP_URL", value: "pop3://user:hunter2@mail.example.com", secret: true},
		{setting: "TALLYGATE_MAIL_FROM", value: "no-address"},
		{setting: "TALLYGATE_DRAIN_DELAY", value: "61s"},
		{setting: "TALLYGATE_DRAIN_DELAY", value: "soon"},
		{setting: "TALLYGATE_METRICS_ADDR", value: "9090"},
		{setting: "TALLYGATE_LOG_LEVEL", value: "loud"},
		{setting: "TALLYGATE_LOG_FORMAT", value: "xml"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			for name, value := range map[string]string{"DATA_DIR": t.TempDir(), "CONTROL_ADDR": "127.0.0.1:0",
				"DATA_ADDR": "127.0.0.1:0"} {
				t.Setenv("TALLYGATE_"+name, value)
			}

			t.Setenv(test.setting, test.value)

			// A valid value would serve until then.
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()

			var out, log bytes.Buffer
			status := Run(ctx, []string{"serve"}, &out, &log)
			if status == 0 || out.Len() > 0 {
				t.Errorf("exit status %d, output %q; want a failure and nothing", status, &out)
			}
			if strings.Count(log.String(), "\n") != 1 || !strings.HasPrefix(log.String(), "tallygate: "+test.setting) ||
				!strings.Contains(log.String(), test.want) {
				t.Errorf("want one line that names %s, got %q", test.setting, &log)
			}
			if test.secret && strings.Contains(log.String(), "hunter2") {
				t.Errorf("the secret is repeated: %q", &log)
			}

			// The same value as a flag.
			t.Setenv(test.setting, "")
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(test.setting, "TALLYGATE_"), "_", "-"))
			byVariable := log.String()
			log.Reset()

			Run(ctx, []string{"serve", flag + "=" + test.value}, &out, &log)
			names := strings.NewReplacer(test.setting, flag, "requires TALLYGATE_DATABASE_URL", "requires --database-url")
			if want := names.Replace(byVariable); log.String() != want {
				t.Errorf("as a flag: %q, want %q", &log, want)
			}

			if files, err := os.ReadDir(os.Getenv("TALLYGATE_DATA_DIR")); err != nil || len(files) > 0 {
				t.Errorf("the refused service wrote %v, %v", files, err)
			}
		})
	}
}

// TestMissingSettings checks that a setting which needs others names those that are missing, as
// variables to a person who sets variables.
func TestMissingSettings(t *testing.T) {
	const issuer = "https://login.example.com"
	for _, test := range []struct {
		variables map[string]string
		args      []string
		want      string
	}{
		{map[string]string{"ISSUER": issuer}, nil, "TALLYGATE_OIDC_ISSUER: requires TALLYGATE_OIDC_CLIENT_ID and TALLYGATE_OIDC_CLIENT_SECRET"},
		{map[string]string{"ISSUER": issuer, "CLIENT_ID": "x"}, nil, "TALLYGATE_OIDC_ISSUER: requires TALLYGATE_OIDC_CLIENT_SECRET"},
		{map[string]string{"ISSUER": issuer, "CLIENT_SECRET": "x"}, nil, "TALLYGATE_OIDC_ISSUER: requires TALLYGATE_OIDC_CLIENT_ID"},
		{map[string]string{"CLIENT_ID": "x"}, nil, "TALLYGATE_OIDC_CLIENT_ID, TALLYGATE_OIDC_CLIENT_SECRET: require TALLYGATE_OIDC_ISSUER"},
		{nil, []string{"--oidc-issuer=" + issuer}, "--oidc-issuer: requires --oidc-client-id and --oidc-client-secret"},
		{map[string]string{"CLIENT_ID": "x"}, []string{"--oidc-issuer=" + issuer}, "--oidc-issuer: requires --oidc-client-secret"},
	} {
		t.Run(test.want, func(t *testing.T) {
			for name, value := range test.variables {
				t.Setenv("TALLYGATE_OIDC_"+name, value)
			}

			var out, log bytes.Buffer
			status := Run(t.Context(), append([]string{"serve", "--data-dir", t.TempDir()}, test.args...), &out, &log)
			if got := log.String(); status != 2 || got != "tallygate: "+test.want+"\n" {
				t.Errorf("exit status %d, %q", status, got)
			}
		})
	}
}

// TestCustomaryArguments checks the arguments that people try first.
func TestCustomaryArguments(t *testing.T) {
	for line, same := range map[string]string{
		"--version": "version", "help": "--help", "help migrate": "migrate --help", "help admin set-plan": "admin set-plan --help",
	} {
		var got, want, log bytes.Buffer
		if status := Run(t.Context(), strings.Fields(line), &got, &log); status != 0 {
			t.Errorf("%s: exit status %d: %s", line, status, &log)
		}
		if Run(t.Context(), strings.Fields(same), &want, &log); got.Len() == 0 || got.String() != want.String() {
			t.Errorf("%s prints\n%s\nwant that of %s:\n%s", line, &got, same, &want)
		}
	}
}

// TestEmptyVariables checks that with every variable empty, as compose and systemd files may set
// them, each setting of every command has its default.
func TestEmptyVariables(t *testing.T) {
	parser, err := newParser(new(config.Config))
	testkit.NoError(t, err)
	variables := parser.Variables()
	if len(variables) < reflect.TypeFor[config.Config]().NumField() {
		t.Fatalf("%d variables found, fewer than there are settings", len(variables))
	}

	for _, commandLine := range [][]string{{"serve"}, {"demo"}, {"migrate"},
		{"admin", "reset-password", "owner@example.com"}} {
		for _, name := range variables {
			// Setenv restores the variable after the test.
			t.Setenv(name, "")

			testkit.NoError(t, os.Unsetenv(name))
		}

		want, wantCommand := parsed(t, commandLine)

		for _, name := range variables {
			t.Setenv(name, "")
		}

		got, command := parsed(t, commandLine)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(command, wantCommand) {
			t.Errorf("%v with empty variables:\n%+v %+v, want\n%+v %+v", commandLine, got, command, want, wantCommand)
		}
	}
}

// parsed parses a command line as Run does, and returns the settings and the command.
func parsed(t *testing.T, args []string) (*config.Config, runner) {
	t.Helper()
	s := &session{terminal: terminal{out: t.Output(), log: t.Output()}}
	command, err := s.parse(args)
	testkit.Succeeds(t, err, "%v", args)

	return s.settings, command
}

// TestCancelledRun checks that a signal during the start is not reported as a failure.
func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	status := Run(ctx, []string{"serve", "--data-dir", t.TempDir(), "--control-addr", "127.0.0.1:0", "--data-addr",
		"127.0.0.1:0"}, &out, &log)
	if status != 0 {
		t.Errorf("exit status %d:\n%s", status, log.String())
	}
}

// TestVersion checks that the versions of the program and of its engines are shown, without a
// database.
func TestVersion(t *testing.T) {
	var text, encoded, log bytes.Buffer
	if status := Run(t.Context(), []string{"version"}, &text, &log); status != 0 {
		t.Fatalf("exit status %d: %s", status, log.String())
	}
	if status := Run(t.Context(), []string{"version", "--json"}, &encoded, &log); status != 0 {
		t.Fatalf("exit status %d: %s", status, log.String())
	}

	var versions map[string]string
	testkit.NoError(t, json.Unmarshal(encoded.Bytes(), &versions))
	for _, name := range []string{"version", "commit", "go", "platform", "sqlite", "postgres"} {
		if value := versions[name]; value == "" || !strings.Contains(text.String(), value) {
			t.Errorf("%s is %q in JSON, and the text is\n%s", name, value, text.String())
		}
	}
}
