package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestWarningsOfSignUps checks that the start logs settings that permit more sign-ups than an
// operator may expect.
func TestWarningsOfSignUps(t *testing.T) {
	t.Parallel()

	const first, unverified = "tallygate admin create-account",
		"TALLYGATE_SIGNUPS) and no mail server is configured (TALLYGATE_SMTP_URL)"
	all := []config.Role{config.RoleControl, config.RoleData, config.RoleWorker}

	tests := []struct {
		name    string
		change  func(c *config.Config)
		account bool
		want    []string
	}{
		{"as it comes", func(*config.Config) {}, false, nil},
		{"a name of this machine", func(c *config.Config) { c.BaseURL = "http://app.localhost:8080" }, false, nil},
		{"a public name", func(c *config.Config) { c.BaseURL = "https://app.example.com" }, false, []string{first}},
		{"a public address", func(c *config.Config) { c.ControlAddr = "0.0.0.0:0"; c.BaseURL = "http://127.0.0.1" }, false,
			[]string{first}},
		{"a public name and an account", func(c *config.Config) { c.BaseURL = "https://app.example.com" }, true, nil},
		{"a public name without sign-ups", func(c *config.Config) {
			c.BaseURL, c.Signups = "https://app.example.com",
				model.SignupsClosed
		}, false, nil},
		{"open without mails", func(c *config.Config) { c.Signups = model.SignupsOpen }, false, []string{unverified}},
		{"open with mails", func(c *config.Config) {
			c.Signups, c.SMTPURL = model.SignupsOpen,
				"smtp://127.0.0.1:2525?tls=none"
		}, false, nil},
		{"open with a worker elsewhere", func(c *config.Config) {
			c.Signups, c.Roles = model.SignupsOpen,
				[]config.Role{config.RoleControl}
		}, false, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				c := &config.Config{
					DataDir: t.TempDir(), DatabaseURL: config.DatabaseURL(databaseURL), Roles: all,
					Signups:     model.SignupsFirstOnly,
					ControlAddr: "127.0.0.1:0", DataAddr: "127.0.0.1:0", MailFrom: "noreply@example.com",
					DefaultSitePlan: model.PlanFree, DefaultCaptchaPlan: model.CaptchaPlanFree, CaptchaDifficulty: 1024,
				}

				test.change(c)

				if test.account {
					d := dbtest.Open(t, databaseURL)
					at := model.At(time.Now())
					_, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen, model.Account{Name: "a", CreatedAt: at},
						model.User{Email: "owner@example.com", PasswordHash: "-", CreatedAt: at})
					testkit.NoError(t, err)
				}

				var lines bytes.Buffer
				a, err := Open(t.Context(), c, slog.New(slog.NewTextHandler(&lines, nil)))
				testkit.NoError(t, err)
				defer a.Close()

				for _, warning := range []string{first, unverified} {
					wanted := len(test.want) > 0 && test.want[0] == warning
					if got := strings.Contains(lines.String(), warning); got != wanted {
						t.Errorf("the log contains %q: %v, want %v:\n%s", warning, got, wanted, &lines)
					}
				}
			})
		})
	}
}
