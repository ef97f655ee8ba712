// Package captcha drives the captcha of a running instance and checks that each token counts
// exactly once.
package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Command drives the captcha of a running instance: it requests challenges, solves them, exchanges
// them for tokens and redeems the tokens. Each step runs alone over all connections, so that the
// solver, which shares the cores, does not disturb the measurement of the server.
type Command struct {
	Target      target.Flags `embed:""`
	Sitekey     string       `placeholder:"KEY" help:"Existing sitekey, unbound or bound to loadgen.example. Empty: a new one is created."`
	Secret      string       `env:"LOADGEN_CAPTCHA_SECRET" placeholder:"SECRET" help:"Secret of the sitekey."`
	Connections int          `default:"128" placeholder:"N" help:"Concurrent callers, 1 to 4096."`
	Tokens      int          `default:"50000" placeholder:"N" help:"Challenges to solve and redeem, 1 to 5000000."`
	JSON        bool         `name:"json" help:"Print the report as JSON."`
	Pid         int          `placeholder:"PID" help:"Process id of the server on this machine, to measure its CPU time and memory."`
}

// Help returns the detailed help.
func (c *Command) Help() string {
	return "Start the server with TALLYGATE_CAPTCHA_DIFFICULTY=1024, so that solving is fast, and with TALLYGATE_TRUSTED_PROXIES=127.0.0.1. " +
		"The account must not verify other tokens during the run."
}

// LapTokens is the largest number of challenges in flight (a benchmark uses three times as many).
// Challenges and tokens expire after five minutes, so they must all be used before.
const LapTokens = 20_000

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > traffic.MaxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections)
	case c.Tokens < 1 || c.Tokens > 5_000_000:
		return fmt.Errorf("--tokens: %d is not from 1 to 5000000", c.Tokens)
	case (c.Sitekey == "") != (c.Secret == ""):
		return errors.New("--sitekey, --secret: one without the other")
	}

	return nil
}

// Run drives the captcha and prints a report. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	t := c.Target.Target()
	var notes []string

	// usage is nil if the sitekey's account is unknown.
	var usage func() (target.CaptchaUsage, error)
	var err error

	if c.Sitekey == "" || t.Email != "" || t.Token != "" {
		t.UseNewAccount()
		a, err := target.NewAccount(t)
		if err != nil {
			return err
		}
		if err := a.SignIn(ctx); err != nil {
			return err
		}

		if c.Sitekey == "" {
			if c.Sitekey, c.Secret, err = a.PrepareSitekey(ctx); err != nil {
				return err
			}
		}

		usage = func() (target.CaptchaUsage, error) { return a.CaptchaUsage(ctx) }
		notes = a.Notes
	}

	var before target.CaptchaUsage

	if usage == nil {
		notes = append(notes, "the account's usage is not compared: no account was given")
	} else if before, err = usage(); err != nil {
		return err
	}

	run := NewRun(c.Target.Data, c.Sitekey, c.Secret, load.Load{Connections: c.Connections, Watched: []int{c.Pid}})
	for left := c.Tokens; left > 0 && ctx.Err() == nil; left -= LapTokens {
		tickets := run.Obtain(ctx, min(left, LapTokens))
		run.Redeem(ctx, WithRepeats(tickets))
		fmt.Fprintf(term.Log, "%d tokens accepted\n", run.Verdict.Accepted)
	}

	if err := ctx.Err(); err != nil {
		return err
	}

	if usage != nil {
		after, err := usage()
		if err != nil {
			return err
		}

		run.Verdict.Compare(before, after)
	}

	report := run.report(notes)

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(report)
	} else {
		report.print(term.Out)
	}

	if err == nil && !(run.Verdict.OK() && len(report.Unexpected) == 0) {
		err = ErrFaults
	}

	return err
}

// ErrFaults is the error of a run with a verdict other than OK, or with unexpected responses.
var ErrFaults = errors.New("tokens were lost, accepted twice or miscounted, none was accepted, or responses violated the contract")

// Verdict is the result of checking the challenges and tokens of a run.
type Verdict struct {
	Challenges int64    `json:"challenges"` // received
	Tokens     int64    `json:"tokens"`     // received for challenges
	Accepted   int64    `json:"accepted"`   // tokens
	Repeats    int64    `json:"repeats"`    // repeated tokens and challenges that were refused, as required
	Later      int64    `json:"later"`      // refused temporarily: over the quota, or too many challenges from one network
	Unknown    int64    `json:"unknown"`    // tokens without a conclusive response
	Doubled    int64    `json:"doubled"`    // fault: two successes with one challenge or token
	Lost       int64    `json:"lost"`       // fault: no success, although every attempt was answered
	Wrong      int64    `json:"wrong"`      // fault: the account's usage differs from the accepted tokens
	Details    []string `json:"details,omitempty"`
}

// OK reports whether tokens were accepted and no fault was found.
func (v *Verdict) OK() bool {
	return v.Accepted > 0 && v.Doubled == 0 && v.Lost == 0 && v.Wrong == 0
}

// fault counts a fault, and keeps the details of the first 20.
func (v *Verdict) fault(count *int64, format string, args ...any) {
	if *count++; len(v.Details) < 20 {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// Compare compares the account's usage with the accepted tokens. Tokens without a conclusive
// response may have been counted.
func (v *Verdict) Compare(before, after target.CaptchaUsage) {
	grown := after.Verifications - before.Verifications

	// A new month started between the two readings.
	if before.Period != after.Period {
		if grown = after.Verifications; grown > v.Accepted+v.Unknown {
			v.fault(&v.Wrong, "%d verifications are counted in %s, but only %d were accepted", grown, after.Period,
				v.Accepted)
		}

		return
	}

	if grown < v.Accepted || grown > v.Accepted+v.Unknown {
		v.fault(&v.Wrong, "%d verifications are counted, but %d were accepted and %d are unknown", grown, v.Accepted,
			v.Unknown)
	}
}

// Print writes the verdict for people.
func (v *Verdict) Print(w io.Writer) {
	fmt.Fprintf(w, "%d challenges, %d tokens, %d accepted; %d repeats refused, %d refused temporarily, %d without a conclusive response; %d doubled, %d lost, %d wrong\n",
		v.Challenges, v.Tokens, v.Accepted, v.Repeats, v.Later, v.Unknown, v.Doubled, v.Lost, v.Wrong)
	for _, detail := range v.Details {
		fmt.Fprintln(w, "fault:", detail)
	}
}

// Report is the outcome of a run.
type Report struct {
	Steps      map[string]*report.Report `json:"steps"` // by StepNames
	Verdict    *Verdict                  `json:"verdict"`
	Unexpected map[string]int64          `json:"unexpected,omitempty"` // responses that violate the contract
	Notes      []string                  `json:"notes,omitempty"`
}

func (r *Run) report(notes []string) *Report {
	all := &Report{Steps: make(map[string]*report.Report), Verdict: &r.Verdict, Unexpected: r.Unexpected.Counts,
		Notes: notes}
	for i, name := range StepNames {
		connections := r.Load.Connections

		if i == solving {
			connections = solvers()
		}

		all.Steps[name] = report.New(&r.Results[i], connections)
	}

	return all
}

func (r *Report) print(w io.Writer) {
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}

	for _, name := range StepNames {
		fmt.Fprintf(w, "%s: ", name)
		r.Steps[name].Print(w)
	}

	report.PrintCounts(w, "UNEXPECTED answers", r.Unexpected)
	r.Verdict.Print(w)
}
