package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// captchaCommand drives the captcha of an instance that is running already: challenges are asked
// for, solved, exchanged for tokens and redeemed. Each of these steps runs by itself over all
// connections, so that the solver, which shares the machine, is not measured with the server.
type captchaCommand struct {
	targetFlags `embed:""`
	Sitekey     string `placeholder:"KEY" help:"Existing sitekey, unbound or bound to loadgen.example. Empty: a new one is made."`
	Secret      string `env:"LOADGEN_CAPTCHA_SECRET" placeholder:"SECRET" help:"Its secret."`
	Connections int    `default:"128" placeholder:"N" help:"Callers at once, 1 to 4096."`
	Tokens      int    `default:"50000" placeholder:"N" help:"Challenges that are solved and redeemed, 1 to 5000000."`
	JSON        bool   `name:"json" help:"Print the report as JSON."`
	Pid         int    `placeholder:"PID" help:"Process of the server on this machine, whose CPU and memory are measured."`
}

// Help is what --help adds.
func (c *captchaCommand) Help() string {
	return "Start the server with TALLYGATE_CAPTCHA_DIFFICULTY=1024, so that solving takes no time, and with TALLYGATE_TRUSTED_PROXIES=127.0.0.1. " +
		"The account must have nothing else to verify meanwhile."
}

// captchaDomain is what new sitekeys are bound to.
const captchaDomain = "loadgen.example"

// lapTokens is how many challenges are under way at most, in a bench three times as many: they and
// their tokens must not expire before their turn, five minutes later.
const lapTokens = 20_000

// Validate checks what one flag alone cannot tell.
func (c *captchaCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, maxConnections)
	case c.Tokens < 1 || c.Tokens > 5_000_000:
		return fmt.Errorf("--tokens: %d is not from 1 to 5000000", c.Tokens)
	case (c.Sitekey == "") != (c.Secret == ""):
		return errors.New("--sitekey, --secret: one without the other")
	}

	return nil
}

// Run runs the command. A fault is an error.
func (c *captchaCommand) Run(ctx context.Context, term terminal) error {
	t := target{Control: c.Control, Data: c.Data, Email: c.Email, Password: c.Password, Token: c.Token}
	var notes []string

	// nil: nobody tells
	var usage func() (captchaUsage, error)
	var err error

	if c.Sitekey == "" || t.Email != "" || t.Token != "" {
		t.newcomer()
		a, err := newAccount(t)
		if err != nil {
			return err
		}
		if err := a.signIn(ctx); err != nil {
			return err
		}

		if c.Sitekey == "" {
			if c.Sitekey, c.Secret, err = a.prepareSitekey(ctx); err != nil {
				return err
			}
		}

		usage = func() (captchaUsage, error) { return a.captchaUsage(ctx) }
		notes = a.notes
	}

	var before captchaUsage

	if usage == nil {
		notes = append(notes, "the account's usage is not compared: no account is named")
	} else if before, err = usage(); err != nil {
		return err
	}

	run := newCaptchaRun(c.Data, c.Sitekey, c.Secret, load{connections: c.Connections, watched: []int{c.Pid}})
	for left := c.Tokens; left > 0 && ctx.Err() == nil; left -= lapTokens {
		tickets := run.obtain(ctx, min(left, lapTokens))
		run.redeem(ctx, withRepeats(tickets))
		fmt.Fprintf(term.log, "%d tokens accepted\n", run.verdict.Accepted)
	}

	if err := ctx.Err(); err != nil {
		return err
	}

	if usage != nil {
		after, err := usage()
		if err != nil {
			return err
		}

		run.verdict.compare(before, after)
	}

	report := run.report(notes)

	if c.JSON {
		err = json.NewEncoder(term.out).Encode(report)
	} else {
		report.print(term.out)
	}

	if err == nil && !(run.verdict.ok() && len(report.Unexpected) == 0) {
		err = errCaptchaFaults
	}

	return err
}

var errCaptchaFaults = errors.New("tokens were lost, accepted twice or miscounted, none was accepted, or answers were not as specified")

// captchaUsage is what an account has used of its captcha quota.
type captchaUsage struct {
	Period        string // YYYY-MM
	Verifications int64
}

// captchaUsage reads the usage of the account that is signed in.
func (a *account) captchaUsage(ctx context.Context) (captchaUsage, error) {
	var data struct {
		Viewer *struct {
			Account struct{ CaptchaUsage captchaUsage }
		}
	}

	err := a.call(ctx, `{ viewer { account { captchaUsage { period verifications } } } }`, nil, &data)
	if err == nil && data.Viewer == nil {
		err = errors.New("read the account's captcha usage: nobody is signed in")
	}
	if err != nil {
		return captchaUsage{}, err
	}

	return data.Viewer.Account.CaptchaUsage, nil
}

// prepareSitekey makes a sitekey, and puts the account on a plan without limit if that is
// permitted.
func (a *account) prepareSitekey(ctx context.Context) (sitekey, secret string, err error) {
	var created struct {
		Sitekey struct{ Sitekey string }
		Secret  string
	}

	input := map[string]any{"name": "Load test", "domains": []string{captchaDomain}}
	if err := a.change(ctx, "createSitekey", "sitekey { sitekey } secret", input, &created); err != nil {
		return "", "", fmt.Errorf("create a sitekey; an existing one is named with --sitekey and --secret: %w", err)
	}

	var data struct {
		Viewer *struct{ Account struct{ ID string } }
	}
	if err := a.call(ctx, `{ viewer { account { id } } }`, nil, &data); err != nil || data.Viewer == nil {
		return "", "", errors.Join(err, errors.New("read the account's id"))
	}

	unlimited := true
	a.try(ctx, &unlimited, "the account keeps its captcha plan, whose quota may refuse tokens", "setCaptchaPlan", "",
		map[string]any{"accountId": data.Viewer.Account.ID, "plan": "ENTERPRISE"}, nil)

	return created.Sitekey.Sitekey, created.Secret, nil
}

// captchaVerdict is what became of the challenges and tokens of a run.
type captchaVerdict struct {
	Challenges int64    `json:"challenges"` // handed out
	Tokens     int64    `json:"tokens"`     // that challenges were exchanged for
	Accepted   int64    `json:"accepted"`   // tokens
	Repeats    int64    `json:"repeats"`    // of tokens and challenges, refused as they must be
	Later      int64    `json:"later"`      // refused for now: over the quota, or too many challenges from one network
	Unknown    int64    `json:"unknown"`    // tokens without an answer that tells
	Doubled    int64    `json:"doubled"`    // fault: two successes with one challenge or token
	Lost       int64    `json:"lost"`       // fault: none, although every attempt was answered
	Wrong      int64    `json:"wrong"`      // fault: the account's usage is not the number of accepted tokens
	Details    []string `json:"details,omitempty"`
}

func (v *captchaVerdict) ok() bool {
	return v.Accepted > 0 && v.Doubled == 0 && v.Lost == 0 && v.Wrong == 0
}

// fault notes a fault; of many alike the first ones are enough.
func (v *captchaVerdict) fault(count *int64, format string, args ...any) {
	if *count++; len(v.Details) < 20 {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// compare compares the account's usage with what was accepted. Who got no answer may have been
// counted.
func (v *captchaVerdict) compare(before, after captchaUsage) {
	grown := after.Verifications - before.Verifications

	// counting began anew in between
	if before.Period != after.Period {
		if grown = after.Verifications; grown > v.Accepted+v.Unknown {
			v.fault(&v.Wrong, "%d verifications are counted in %s, but only %d were accepted", grown, after.Period, v.Accepted)
		}

		return
	}

	if grown < v.Accepted || grown > v.Accepted+v.Unknown {
		v.fault(&v.Wrong, "%d verifications are counted, but %d were accepted and of %d it is not known", grown, v.Accepted, v.Unknown)
	}
}

func (v *captchaVerdict) print(w io.Writer) {
	fmt.Fprintf(w, "%d challenges, %d tokens, %d accepted; %d repeats refused, %d refused for now, %d without an answer that tells; %d doubled, %d lost, %d wrong\n",
		v.Challenges, v.Tokens, v.Accepted, v.Repeats, v.Later, v.Unknown, v.Doubled, v.Lost, v.Wrong)
	for _, detail := range v.Details {
		fmt.Fprintln(w, "fault:", detail)
	}
}

// captchaReport is the outcome of a run.
type captchaReport struct {
	Steps      map[string]*report `json:"steps"` // by the names of stepNames
	Verdict    *captchaVerdict    `json:"verdict"`
	Unexpected map[string]int64   `json:"unexpected,omitempty"` // answers that nothing explains
	Notes      []string           `json:"notes,omitempty"`
}

func (r *captchaRun) report(notes []string) *captchaReport {
	all := &captchaReport{Steps: make(map[string]*report), Verdict: &r.verdict, Unexpected: r.surprises.count, Notes: notes}
	for i, name := range stepNames {
		connections := r.load.connections

		if i == solving {
			connections = solvers()
		}

		all.Steps[name] = newReport(&r.results[i], connections)
	}

	return all
}

func (r *captchaReport) print(w io.Writer) {
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}

	for _, name := range stepNames {
		fmt.Fprintf(w, "%s: ", name)
		r.Steps[name].print(w)
	}

	printCounts(w, "UNEXPECTED answers", r.Unexpected)
	r.Verdict.print(w)
}

// merge adds what was measured at another time.
func (r *result) merge(other *result) {
	r.elapsed += other.elapsed
	r.failed += other.failed
	r.others += other.others
	r.outside += other.outside
	if r.answers == nil {
		r.answers = make(map[string]int64)
	}

	for name, n := range other.answers {
		r.answers[name] += n
	}

	r.latency.merge(&other.latency)
	r.cost.CPU += other.cost.CPU
	r.cost.OtherCPU += other.cost.OtherCPU
	r.cost.PeakMemory = max(r.cost.PeakMemory, other.cost.PeakMemory)
}

// since is the time that has passed, for steps that no load drives.
func (r *result) since(began time.Time) { r.elapsed += time.Since(began) }
