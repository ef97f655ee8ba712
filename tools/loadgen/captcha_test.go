package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/testkit"
)

// captchaSetup starts a server and creates an account with a sitekey.
func captchaSetup(t *testing.T, b *instance.Instance) (*target.Account, *captcha.Run) {
	t.Helper()

	mustStart(t, b)
	a, err := target.NewAccount(b.Server.Target())
	testkit.NoError(t, err)
	testkit.NoError(t, a.SignIn(t.Context()))

	sitekey, secret, err := a.PrepareSitekey(t.Context())
	if err != nil || len(a.Notes) > 0 {
		t.Fatal(err, a.Notes)
	}

	return a, captcha.NewRun(b.Server.Data, sitekey, secret, load.Load{Connections: 4})
}

// TestCaptcha drives the program from the command line. It checks that every token is accepted
// once, that repetitions are refused, and that the database counted the accepted tokens.
func TestCaptcha(t *testing.T) {
	testkit.SkipLong(t, "a load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		const tokens = 400
		mustStart(t, b)
		to := b.Server.Target()
		out := command(t, "captcha", "--control", to.Control, "--data", to.Data, "--email", to.Email, "--password",
			to.Password,
			"--connections", "16", "--tokens", strconv.Itoa(tokens), "--json")

		var r report.Outcome
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}

		// A quarter of the challenges and of the tokens is tried twice.
		v := r.Tokens
		if !v.OK() || v.Challenges != tokens || v.Tokens != tokens || v.Accepted != tokens || v.Repeats != tokens/4*2 ||
			v.Later != 0 || v.Unknown != 0 || len(r.Unexpected) != 0 {
			t.Errorf("verdict %+v, unexpected %v", v, r.Unexpected)
		}

		// A note would describe an omitted check.
		testkit.Equal(t, len(r.Notes), 0, "notes %q", r.Notes)

		for name, want := range map[string]map[string]int64{
			"config": {"200": tokens}, "solve": {"solved": tokens}, "siteverify": {"200": tokens / 4 * 5},
			"verify": {"200": tokens, "400 Challenge not found or invalid work: request a new challenge.": tokens / 4},
		} {
			for answer, n := range want {
				if r.Answers[name+": "+answer] != n {
					t.Errorf("%s: answers %v, want %d times %s", name, r.Answers, n, answer)
				}
			}

			i := slices.IndexFunc(r.Cases, func(c *report.Case) bool { return c.Label("step") == name })
			if step := r.Cases[i]; step.Get(report.Rate) <= 0 || step.Get(report.P50) <= 0 || step.Get(report.P999) < step.Get(report.P50) {
				t.Errorf("%s: %s", name, out)
			}
		}

		if n, err := verifications(t, b); err != nil || n != tokens {
			t.Errorf("%d verifications are counted, %v; want %d", n, err, tokens)
		}
	})
}

// verifications returns the database's count over all accounts.
func verifications(t *testing.T, b *instance.Instance) (n int64, err error) {
	t.Helper()
	err = b.WithDatabase(func(d *db.DB) error {
		rows, err := dbtest.Rows[struct{ Used int64 }](d, "SELECT used FROM captcha_usage")
		for _, row := range rows {
			n += row.Used
		}
		return err
	})

	return n, err
}

// TestCaptchaOfOthers checks that a run without the sitekey's account notes that the usage is not
// compared.
func TestCaptchaOfOthers(t *testing.T) {
	testkit.SkipLong(t, "a load")
	t.Parallel()
	b := sqliteInstance(t)
	_, run := captchaSetup(t, b)
	out := command(t, "captcha", "--control", "http://"+b.Server.Control, "--data", b.Server.Data, "--connections", "4",
		"--tokens", "40", "--sitekey", run.Sitekey, "--secret", run.Secret)
	if !strings.Contains(out, "40 accepted") || !strings.Contains(out, "note: the account's usage is not compared") {
		t.Errorf("printed\n%s", out)
	}
}

// TestCaptchaFaults changes rows and counters in the database, and checks that each fault is
// reported as its kind.
func TestCaptchaFaults(t *testing.T) {
	testkit.SkipLong(t, "a load")
	eachInstance(t, func(t *testing.T, b *instance.Instance) {
		a, run := captchaSetup(t, b)
		tickets := run.Obtain(t.Context(), 40)
		run.Redeem(t.Context(), captcha.Once(tickets[:20]))
		used, err := a.CaptchaUsage(t.Context())
		run.Verdict.Compare(target.CaptchaUsage{Period: used.Period}, used)

		if v := run.Verdict; err != nil || !v.OK() || v.Accepted != 20 || v.Tokens != 40 {
			t.Fatalf("%+v, %v", v, err)
		}

		// A token is accepted again after its row is deleted; an unexpected row refuses a token.
		execSQL(t, b, "DELETE FROM captcha_spent")
		run.Redeem(t.Context(), captcha.Once(tickets[:20]))

		if v := run.Verdict; v.Doubled != 20 {
			t.Errorf("accepted again: %+v", v)
		}

		var fresh []*captcha.Ticket
		for _, accepted := range tickets[:20] {
			fresh = append(fresh, &captcha.Ticket{Token: accepted.Token})
		}

		run.Redeem(t.Context(), captcha.Once(fresh))

		if v := run.Verdict; v.Lost != 20 {
			t.Errorf("refused: %+v", v)
		}

		// A used-up quota is not a fault.
		execSQL(t, b, "UPDATE accounts SET captcha_plan = 'FREE'")
		execSQL(t, b, "UPDATE captcha_usage SET used = 11000, reserve_from = 1, over_quota = 10000")
		refused := run.Redeem(t.Context(), captcha.Once(tickets[20:]))

		// Refusals have status 200 too.
		if refused.Served() != 0 || refused.FailedShare() != 1 {
			t.Errorf("refused for now, %d of %d count as work", refused.Served(), refused.Sent())
		}
		if v := run.Verdict; v.Later != 20 || v.Lost != 20 || len(run.Unexpected.Counts) != 0 {
			t.Errorf("over the quota: %+v, %v", v, run.Unexpected.Counts)
		}

		// An altered challenge has no solution, and a wrong secret is an unexpected response.
		altered := &captcha.Ticket{Challenge: pow.Challenge{Challenge: "made-up"}}
		if kept := run.Solve(t.Context(), []*captcha.Ticket{altered}); len(kept) != 0 {
			t.Error("an altered challenge is solved")
		}

		run.Secret = strings.Repeat("x", 20)
		run.Redeem(t.Context(), captcha.Once(tickets[20:21]))

		testkit.Equal(t, len(run.Unexpected.Counts), 2, "unexpected %v", run.Unexpected.Counts)
	})
}
