package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// The scenarios of this file drive a running instance of the caller.

// Hits drives a running instance with realistic traffic.
type Hits struct {
	report.Output
	Traffic     traffic.Flags
	Target      target.Flags
	Journal     string  `long:"journal" default:"loadgen.journal" value-name:"FILE" unquote:"false" description:"File that records acknowledged hits for verify."`
	Rate        float64 `long:"rate" value-name:"N" description:"Hits a second over all connections. 0: as many as possible."`
	Connections int     `long:"connections" default:"128" value-name:"N" description:"Concurrent browsers, 1 to 4096."`
	Pid         int     `long:"pid" value-name:"PID" description:"Process id of the server on this machine, to measure its CPU time and memory."`
}

// Validate checks the limits of the flags.
func (c *Hits) Validate() error {
	return errors.Join(within("--connections", c.Connections, 1, traffic.MaxConnections), c.Traffic.Check())
}

// Play implements Scenario.
func (c *Hits) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	t := c.Target.Target()
	t.UseNewAccount()
	s, err := traffic.NewSession(ctx, t, &c.Traffic)
	if err != nil {
		return nil, err
	}

	l := measured(c.Connections, c.Traffic.Duration, c.Pid)
	l.Rate, l.Warmup, l.Progress = c.Rate, c.Traffic.Warmup, progress
	r, err := s.Drive(ctx, c.Journal, l)
	if err != nil {
		return nil, err
	}

	o := &report.Outcome{Scenario: "run", Notes: s.Account.Notes, Answers: r.Answers, Unexpected: s.Unexpected.Counts}
	one := o.Case("mix", c.Traffic.Mix, "connections", c.Connections)
	one.AddResult(r)
	o.Write("%sThe acknowledged hits are in %s; check them with: loadgen verify %s\n", one.Describe(), c.Journal, c.Journal)
	if err := r.Enough(); err != nil {
		o.Fault("%v", err)
	}
	return o, nil
}

// Verify compares the journal of a run with the stored rows.
type Verify struct {
	report.Output
	Args struct {
		Journal string `positional-arg-name:"JOURNAL" description:"Journal of the run. Default: loadgen.journal."`
	} `positional-args:"true"`
}

// Play implements Scenario.
func (c *Verify) Play(ctx context.Context, _ io.Writer) (*report.Outcome, error) {
	v, err := verify.Journal(ctx, cmp.Or(c.Args.Journal, "loadgen.journal"))
	return &report.Outcome{Scenario: "verify", Hits: v, Partial: true}, err
}

// Captcha drives the captcha of a running instance: it requests challenges, solves them, exchanges
// them for tokens and redeems the tokens. Each step runs alone over all connections, so that the
// solver, which shares the cores, does not disturb the measurement of the server.
type Captcha struct {
	report.Output
	Target      target.Flags
	Sitekey     string `long:"sitekey" value-name:"KEY" unquote:"false" description:"Existing sitekey, unbound or bound to loadgen.example. Empty: a new one is created."`
	Secret      string `long:"secret" env:"LOADGEN_CAPTCHA_SECRET" value-name:"SECRET" unquote:"false" description:"Secret of the sitekey."`
	Connections int    `long:"connections" default:"128" value-name:"N" description:"Concurrent callers, 1 to 4096."`
	Tokens      int    `long:"tokens" default:"50000" value-name:"N" description:"Challenges to solve and redeem, 1 to 5000000."`
	Pid         int    `long:"pid" value-name:"PID" description:"Process id of the server on this machine, to measure its CPU time and memory."`
}

// Validate checks the limits of the flags.
func (c *Captcha) Validate() error {
	if (c.Sitekey == "") != (c.Secret == "") {
		return errors.New("--sitekey, --secret: one without the other")
	}
	return errors.Join(within("--connections", c.Connections, 1, traffic.MaxConnections),
		within("--tokens", c.Tokens, 1, 5_000_000))
}

// Play implements Scenario.
func (c *Captcha) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "captcha"}
	account, err := c.account(ctx)
	if err != nil {
		return nil, err
	}

	var before target.CaptchaUsage
	if account == nil {
		o.Notes = append(o.Notes, "the account's usage is not compared: no account was given")
	} else if before, err = account.CaptchaUsage(ctx); err != nil {
		return nil, err
	}

	run := captcha.NewRun(c.Target.Data, c.Sitekey, c.Secret, load.Load{Connections: c.Connections, Watched: []int{c.Pid}})
	for left := c.Tokens; left > 0 && ctx.Err() == nil; left -= captcha.LapTokens {
		tickets := run.Obtain(ctx, min(left, captcha.LapTokens))
		run.Redeem(ctx, captcha.WithRepeats(tickets))
		fmt.Fprintf(progress, "%d tokens accepted\n", run.Verdict.Accepted)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	if account != nil {
		after, err := account.CaptchaUsage(ctx)
		if err != nil {
			return nil, err
		}
		run.Verdict.Compare(before, after)
		o.Notes = append(o.Notes, account.Notes...)
	}
	c.add(o, run)
	return o, nil
}

// account signs in, and creates a sitekey unless there is one. It returns nil if the sitekey's
// account is unknown.
func (c *Captcha) account(ctx context.Context) (*target.Account, error) {
	t := c.Target.Target()
	if c.Sitekey != "" && t.Email == "" && t.Token == "" {
		return nil, nil
	}

	t.UseNewAccount()
	a, err := target.NewAccount(t)
	if err != nil {
		return nil, err
	}
	if err := a.SignIn(ctx); err != nil {
		return nil, err
	}
	if c.Sitekey == "" {
		c.Sitekey, c.Secret, err = a.PrepareSitekey(ctx)
	}
	return a, err
}

// add adds the steps and the verdict of a run.
func (c *Captcha) add(o *report.Outcome, run *captcha.Run) {
	for i, name := range captcha.StepNames {
		connections := c.Connections
		if i == captcha.Solving {
			connections = captcha.Solvers()
		}

		step := o.Case("step", name, "connections", connections)
		step.AddResult(&run.Results[i])
		o.Write("%s: %s", name, step.Describe())
		for answer, n := range run.Results[i].Answers {
			if o.Answers == nil {
				o.Answers = make(map[string]int64)
			}
			o.Answers[name+": "+answer] += n
		}
	}
	o.Tokens, o.Unexpected = &run.Verdict, run.Unexpected.Counts
}
