package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
)

// captchaScene is an account with a sitekey on a running server.
func captchaScene(t *testing.T, b *bench) *benchCaptcha {
	t.Helper()

	b.mustStart(t)
	who := b.server.target()
	a, err := newAccount(who)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.signIn(t.Context()); err != nil {
		t.Fatal(err)
	}

	c, err := b.newCaptcha(t.Context(), who.Email)
	if err != nil {
		t.Fatal(err)
	}

	return c
}

// TestCaptcha drives the real program by the command line: every token is accepted once, whoever
// asks again is refused, and the database has counted what was accepted.
func TestCaptcha(t *testing.T) {
	eachBench(t, func(t *testing.T, b *bench) {
		const tokens = 1200
		b.mustStart(t)
		who := b.server.target()
		out := command(t, "captcha", "--control", who.Control, "--data", who.Data, "--email", who.Email, "--password", who.Password,
			"--connections", "16", "--tokens", "1200", "--json")

		var r captchaReport
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}

		// A quarter of the challenges and of the tokens is tried twice.
		v := r.Verdict
		if !v.ok() || v.Challenges != tokens || v.Tokens != tokens || v.Accepted != tokens || v.Repeats != tokens/4*2 || v.Later != 0 || v.Unknown != 0 || len(r.Unexpected) != 0 {
			t.Errorf("verdict %+v, unexpected %v", v, r.Unexpected)
		}

		// which would tell of what was not checked
		if len(r.Notes) != 0 {
			t.Errorf("notes %q", r.Notes)
		}

		for name, want := range map[string]map[string]int64{
			"config": {"200": tokens}, "solve": {"solved": tokens}, "siteverify": {"200": tokens / 4 * 5},
			"verify": {"200": tokens, "400 Challenge not found or invalid work: request a new challenge.": tokens / 4},
		} {
			step := r.Steps[name]
			for answer, n := range want {
				if step.Answers[answer] != n {
					t.Errorf("%s: answers %v, want %d times %s", name, step.Answers, n, answer)
				}
			}

			if step.Throughput <= 0 || step.Latency.P50 <= 0 || step.Latency.P999 < step.Latency.P50 {
				t.Errorf("%s: %+v", name, step)
			}
		}

		if n, err := b.verifications(t); err != nil || n != tokens {
			t.Errorf("%d verifications are counted, %v; want %d", n, err, tokens)
		}
	})
}

// verifications is what the database has counted of all accounts.
func (b *bench) verifications(t *testing.T) (n int64, err error) {
	t.Helper()
	err = b.withDatabase(func(d *db.DB) error {
		rows, err := dbtest.Rows[struct{ Used int64 }](d, "SELECT used FROM captcha_usage")
		for _, row := range rows {
			n += row.Used
		}
		return err
	})

	return n, err
}

// TestCaptchaOfOthers drives a sitekey whose account nobody tells: that the usage is not compared
// is noted.
func TestCaptchaOfOthers(t *testing.T) {
	t.Parallel()
	b := sqliteBench(t)
	c := captchaScene(t, b)
	out := command(t, "captcha", "--control", "http://"+b.server.control, "--data", b.server.data, "--connections", "4",
		"--tokens", "40", "--sitekey", c.run.sitekey, "--secret", c.run.secret)
	if !strings.Contains(out, "40 accepted") || !strings.Contains(out, "note: the account's usage is not compared") {
		t.Errorf("printed\n%s", out)
	}
}

// TestCaptchaFaults: rows and counters are changed behind the server's back, and each fault is
// found as what it is.
func TestCaptchaFaults(t *testing.T) {
	eachBench(t, func(t *testing.T, b *bench) {
		c := captchaScene(t, b)
		c.run.load.connections = 4
		tickets := c.run.obtain(t.Context(), 40)
		c.run.redeem(t.Context(), once(tickets[:20]))
		used, err := c.usage(t.Context(), b)
		c.run.verdict.compare(captchaUsage{Period: used.Period}, used)

		if v := c.run.verdict; err != nil || !v.ok() || v.Accepted != 20 || v.Tokens != 40 {
			t.Fatalf("%+v, %v", v, err)
		}

		// A token whose row is gone is accepted again; a row of which nobody knows refuses a token.
		b.exec(t, "DELETE FROM captcha_spent")
		c.run.redeem(t.Context(), once(tickets[:20]))

		if v := c.run.verdict; v.Doubled != 20 {
			t.Errorf("accepted again: %+v", v)
		}

		for _, ticket := range tickets[:20] {
			ticket.outcomes[redeeming] = [outcomeCount]uint16{}
		}

		c.run.redeem(t.Context(), once(tickets[:20]))

		if v := c.run.verdict; v.Lost != 20 {
			t.Errorf("refused: %+v", v)
		}

		// The plan is used up: that is no fault.
		b.exec(t, "UPDATE accounts SET captcha_plan = 'FREE'")
		b.exec(t, "UPDATE captcha_usage SET used = 11000, reserve_from = 1, over_quota = 10000")
		refused := c.run.redeem(t.Context(), once(tickets[20:]))

		// although the status is 200
		if refused.served() != 0 || refused.failedShare() != 1 {
			t.Errorf("refused for now, %d of %d count as work", refused.served(), refused.sent())
		}
		if v := c.run.verdict; v.Later != 20 || v.Lost != 20 || len(c.run.surprises.count) != 0 {
			t.Errorf("over the quota: %+v, %v", v, c.run.surprises.count)
		}

		// Nobody solves an altered challenge, and a wrong secret is nothing that can be answered
		// here.
		altered := tickets[0]
		altered.challenge = pow.Challenge{Challenge: "made-up"}
		if kept := c.run.solve(t.Context(), []*ticket{altered}); len(kept) != 0 {
			t.Error("it is solved")
		}

		c.run.secret = strings.Repeat("x", 20)
		c.run.redeem(t.Context(), once(tickets[20:21]))

		if len(c.run.surprises.count) != 2 {
			t.Errorf("surprises %v", c.run.surprises.count)
		}
	})
}

// TestCaptchaUsage: what is counted is compared with what was accepted, as far as the answers tell.
func TestCaptchaUsage(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after captchaUsage
		wrong         bool
	}{
		{"exact", captchaUsage{"2026-11", 5}, captchaUsage{"2026-11", 15}, false},
		{"one without an answer was counted", captchaUsage{"2026-11", 5}, captchaUsage{"2026-11", 16}, false},
		{"too few", captchaUsage{"2026-11", 5}, captchaUsage{"2026-11", 14}, true},
		{"too many", captchaUsage{"2026-11", 5}, captchaUsage{"2026-11", 17}, true},
		{"a new month", captchaUsage{"2026-11", 5}, captchaUsage{"2026-12", 3}, false},
		{"too many in a new month", captchaUsage{"2026-11", 5}, captchaUsage{"2026-12", 12}, true},
	} {
		v := captchaVerdict{Accepted: 10, Unknown: 1}
		if v.compare(test.before, test.after); v.Wrong > 0 != test.wrong || v.ok() == test.wrong {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}

// TestRehearsal: the empty handler gets the very requests that redeem tokens; the first answers are
// warm-up, and none counts.
func TestRehearsal(t *testing.T) {
	var paths sync.Map
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		paths.Store(r.URL.Path+" "+string(body), true)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer stub.Close()

	tickets := make([]*ticket, 1000)
	for i := range tickets {
		tickets[i] = &ticket{token: "same"}
	}

	run := newCaptchaRun("elsewhere.example:1", "key", "secret", load{connections: 4, warmAnswers: 400})
	r := run.rehearse(t.Context(), &server{data: stub.Listener.Addr().String()}, redeeming, once(tickets))

	// others may answer at that moment
	if n := r.sent(); n > 600 || n < 600-3 || r.others != 1000-n || checkNoop(r) != nil {
		t.Errorf("%d measured, %d not, %v", n, r.others, checkNoop(r))
	}
	if _, ok := paths.Load(`/api/v1/pow/siteverify {"sitekey":"key","secret":"secret","token":"same"}`); !ok {
		t.Error("other requests were sent")
	}
	if v := run.verdict; v.Accepted+v.Lost+v.Unknown != 0 || len(run.surprises.count) != 0 || tickets[0].outcomes != (ticket{}).outcomes {
		t.Errorf("the answers count: %+v", v)
	}

	r.answers["503"] = 1
	if checkNoop(r) == nil {
		t.Error("an empty handler that refuses is fine")
	}
}

func TestCaptchaCommandLine(t *testing.T) {
	for _, args := range [][]string{{"--tokens", "0"}, {"--connections", "0"}, {"--connections", "4097"}, {"--sitekey", "x"}, {"--secret", "x"}} {
		if status := run(t.Context(), append([]string{"captcha"}, args...), quiet()); status != 2 {
			t.Errorf("%q: exit status %d", args, status)
		}
	}
}
