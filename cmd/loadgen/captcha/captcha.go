package captcha

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/report"
	"github.com/tallygate/tallygate/cmd/loadgen/target"
	"github.com/tallygate/tallygate/cmd/loadgen/traffic"
)

// Command drives the captcha of an instance that is running already: challenges are asked
// for, solved, exchanged for tokens and redeemed. Each of these steps runs by itself over all
// connections, so that the solver, which shares the machine, is not measured with the server.
type Command struct {
	Target      target.Flags `embed:""`
	Sitekey     string       `placeholder:"KEY" help:"Existing sitekey, unbound or bound to loadgen.example. Empty: a new one is made."`
	Secret      string       `env:"LOADGEN_CAPTCHA_SECRET" placeholder:"SECRET" help:"Its secret."`
	Connections int          `default:"128" placeholder:"N" help:"Callers at once, 1 to 4096."`
	Tokens      int          `default:"50000" placeholder:"N" help:"Challenges that are solved and redeemed, 1 to 5000000."`
	JSON        bool         `name:"json" help:"Print the report as JSON."`
	Pid         int          `placeholder:"PID" help:"Process of the server on this machine, whose CPU and memory are measured."`
}

// Help is what --help adds.
func (c *Command) Help() string {
	return "Start the server with TALLYGATE_CAPTCHA_DIFFICULTY=1024, so that solving takes no time, and with TALLYGATE_TRUSTED_PROXIES=127.0.0.1. " +
		"The account must have nothing else to verify meanwhile."
}

// LapTokens is how many challenges are under way at most, in a bench three times as many: they and
// their tokens must not expire before their turn, five minutes later.
const LapTokens = 20_000

// Validate checks what one flag alone cannot tell.
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

// Run runs the command. A fault is an error.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	t := c.Target.Target()
	var notes []string

	// nil: nobody tells
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
		notes = append(notes, "the account's usage is not compared: no account is named")
	} else if before, err = usage(); err != nil {
		return err
	}

	run := NewRun(c.Target.Data, c.Sitekey, c.Secret, load.Load{Connections: c.Connections, Watched: []int{c.Pid}})
	for left := c.Tokens; left > 0 && ctx.Err() == nil; left -= LapTokens {
		tickets := run.Obtain(ctx, min(left, LapTokens))
		run.Redeem(ctx, withRepeats(tickets))
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

var ErrFaults = errors.New("tokens were lost, accepted twice or miscounted, none was accepted, or answers were not as specified")

// Verdict is what became of the challenges and tokens of a run.
type Verdict struct {
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

func (v *Verdict) OK() bool {
	return v.Accepted > 0 && v.Doubled == 0 && v.Lost == 0 && v.Wrong == 0
}

// fault notes a fault; of many alike the first ones are enough.
func (v *Verdict) fault(count *int64, format string, args ...any) {
	if *count++; len(v.Details) < 20 {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// Compare compares the account's usage with what was accepted. Who got no answer may have been
// counted.
func (v *Verdict) Compare(before, after target.CaptchaUsage) {
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

func (v *Verdict) Print(w io.Writer) {
	fmt.Fprintf(w, "%d challenges, %d tokens, %d accepted; %d repeats refused, %d refused for now, %d without an answer that tells; %d doubled, %d lost, %d wrong\n",
		v.Challenges, v.Tokens, v.Accepted, v.Repeats, v.Later, v.Unknown, v.Doubled, v.Lost, v.Wrong)
	for _, detail := range v.Details {
		fmt.Fprintln(w, "fault:", detail)
	}
}

// Report is the outcome of a run.
type Report struct {
	Steps      map[string]*report.Report `json:"steps"` // by the names of stepNames
	Verdict    *Verdict                  `json:"verdict"`
	Unexpected map[string]int64          `json:"unexpected,omitempty"` // answers that nothing explains
	Notes      []string                  `json:"notes,omitempty"`
}

func (r *Run) report(notes []string) *Report {
	all := &Report{Steps: make(map[string]*report.Report), Verdict: &r.Verdict, Unexpected: r.Unexpected.Counts, Notes: notes}
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
