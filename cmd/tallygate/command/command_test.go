package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

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
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "2=postgres://u:hunter2@127.0.0.1/x,3=mysql://u:hunter2@127.0.0.1/x",
			flag: "--cell-addresses", secret: true},
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "postgres://u:hunter2@127.0.0.1/x", flag: "--cell-addresses", secret: true},
		{setting: "TALLYGATE_CELL_ADDRESSES", value: "2=postgres://u:hunter2@127.0.0.1/x", flag: "--cell-addresses", secret: true}, // on SQLite
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
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "127.0.0.1,0.0.0.0/0", flag: "--trusted-proxies: 0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "192.0.2.1/0", flag: "--trusted-proxies: 0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "::/0,127.0.0.1", flag: "--trusted-proxies: ::/0 trusts every address"},
		{setting: "TALLYGATE_TRUSTED_PROXIES", value: "::ffff:0:0/96", flag: "--trusted-proxies: 0.0.0.0/0 trusts every address"},
		{setting: "TALLYGATE_SIGNUPS", value: "sometimes", flag: "--signups"},
		{setting: "TALLYGATE_DEFAULT_SITE_PLAN", value: "GOLD", flag: "--default-site-plan"},
		{setting: "TALLYGATE_DEFAULT_CAPTCHA_PLAN", value: "PRO_2M", flag: "--default-captcha-plan"},
		{setting: "TALLYGATE_CAPTCHA_DIFFICULTY", value: "1000", flag: "--captcha-difficulty"},
		{setting: "TALLYGATE_CAPTCHA_TEST_SITEKEY", value: "perhaps", flag: "--captcha-test-sitekey"},
		{setting: "TALLYGATE_FLOOD_BURST", value: "-1", flag: "--flood-burst"},
		{setting: "TALLYGATE_FLOOD_RATE", value: "0", flag: "--flood-rate"},
		{setting: "TALLYGATE_SERVER_FLOOD_BURST", value: "1000000001", flag: "--server-flood-burst"},
		{setting: "TALLYGATE_SERVER_FLOOD_RATE", value: "0", flag: "--server-flood-rate"},
		{setting: "TALLYGATE_HIT_WRITERS", value: "0", flag: "--hit-writers"},
		{setting: "TALLYGATE_HIT_WRITERS", value: "17", flag: "--hit-writers"},
		{setting: "TALLYGATE_HIT_WRITERS", value: "2", flag: "--hit-writers"}, // on SQLite
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
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()

			var out, log bytes.Buffer
			status := Run(ctx, []string{"serve"}, &out, &log)
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

// TestEmptyVariables checks that with every variable empty, as compose and systemd files may set
// them, each setting of every command has its default.
func TestEmptyVariables(t *testing.T) {
	variables := environmentOf(reflect.TypeFor[commands]())
	if len(variables) < reflect.TypeFor[config.Config]().NumField() {
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

// TestVersion checks that the versions of the program and of its engines are shown, without a database.
func TestVersion(t *testing.T) {
	var text, encoded, log bytes.Buffer
	if status := Run(t.Context(), []string{"version"}, &text, &log); status != 0 {
		t.Fatalf("exit status %d: %s", status, log.String())
	}
	if status := Run(t.Context(), []string{"version", "--json"}, &encoded, &log); status != 0 {
		t.Fatalf("exit status %d: %s", status, log.String())
	}

	var versions map[string]string
	if err := json.Unmarshal(encoded.Bytes(), &versions); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "commit", "go", "platform", "sqlite", "postgres"} {
		if value := versions[name]; value == "" || !strings.Contains(text.String(), value) {
			t.Errorf("%s is %q in JSON, and the text is\n%s", name, value, text.String())
		}
	}
}
