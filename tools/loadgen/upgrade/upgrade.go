// Package upgrade runs the previous program and the new one on one PostgreSQL under load, and
// checks that no call fails and no acknowledged hit is lost.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command starts the previous program, then the new one, which migrates the database, and loads both.
type Command struct {
	Previous    string        `required:"" placeholder:"FILE" help:"The previous tallygate program."`
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The new tallygate program."`
	Duration    time.Duration `default:"10s" placeholder:"TIME" help:"Time before the new program starts, and time that both run."`
	Connections int           `default:"32" placeholder:"N" help:"Concurrent browsers of each program."`
	JSON        bool          `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	switch {
	case c.Duration < time.Second || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not from 1s to 1h", c.Duration)
	case c.Connections < 1 || c.Connections > traffic.MaxConnections/2:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections/2)
	}
	return nil
}

// Outcome is the result of the command.
type Outcome struct {
	Answers    map[string]int64 `json:"answers"`
	Failed     int64            `json:"failed"` // calls that were refused temporarily or got no answer
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
}

// OK reports whether no call failed and no fault was found.
func (o *Outcome) OK() bool { return o.Failed == 0 && len(o.Unexpected) == 0 && o.Verdict.Complete() }

// Run prints the outcome. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	outcome, err := c.Play(ctx, term.Log)
	if err != nil {
		return err
	}

	return verify.Print(term, c.JSON, outcome)
}

// Print writes the outcome for people.
func (o *Outcome) Print(w io.Writer) {
	report.PrintCounts(w, "answers", o.Answers)
	report.PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	fmt.Fprintf(w, "%d calls failed\n", o.Failed)
	o.Verdict.Print(w)
}

// Play runs both programs on a new instance and verifies the hits.
func (c *Command) Play(ctx context.Context, progress io.Writer) (*Outcome, error) {
	b, err := instance.New(c.Previous, "postgres")
	if err != nil {
		return nil, err
	}
	defer b.Close()

	acceptAccounts(b.Server)
	if err := b.Server.Start(ctx); err != nil {
		return nil, fmt.Errorf("the previous program: %w", err)
	}

	newer, err := b.Second(c.Program)
	if err != nil {
		return nil, err
	}
	acceptAccounts(newer)
	defer newer.Kill()

	old, err := newSession(ctx, b.Server)
	if err != nil {
		return nil, err
	}

	outcome := &Outcome{Answers: make(map[string]int64)}
	journals := []string{filepath.Join(b.Dir, "previous"), filepath.Join(b.Dir, "new")}

	// The previous program is loaded the whole time, the new one as soon as it has started.
	loading, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(loading)

	var results [2]*load.Result
	group.Go(func() (err error) {
		results[0], err = old.Drive(running, journals[0], load.Load{Connections: c.Connections})
		return err
	})

	sessions := []*traffic.Session{old}
	group.Go(func() error {
		defer stop()
		if err := pause(running, c.Duration); err != nil {
			return err
		}

		fmt.Fprintln(progress, "the new program starts")
		if err := newer.Start(running); err != nil {
			return fmt.Errorf("the new program: %w", err)
		}
		added, err := newSession(running, newer)
		if err != nil {
			return err
		}
		sessions = append(sessions, added)

		fmt.Fprintln(progress, "both programs serve")
		results[1], err = added.Drive(running, journals[1],
			load.Load{Connections: c.Connections, Duration: c.Duration, MinAnswers: load.MinAnswers})
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, errors.New(strings.TrimSpace(newer.Logged())))
	}

	for i, session := range sessions {
		outcome.add(results[i], session)
	}
	if err := outcome.verify(ctx, journals); err != nil {
		return nil, err
	}

	return outcome, ctx.Err()
}

// acceptAccounts lets a server create accounts at once. It does so if it knows that no mail is
// sent, for which it must be the worker, too.
func acceptAccounts(s *instance.Server) {
	s.Env["TALLYGATE_SIGNUPS"], s.Env["TALLYGATE_ROLES"] = "open", "control,data,worker"
}

// newSession creates an account with sites at a server.
func newSession(ctx context.Context, s *instance.Server) (*traffic.Session, error) {
	flags := traffic.Flags{Mix: "realistic", Sites: 10, Visitors: 2_000, Seed: 1}
	// The second account is no operator's: its sites keep the plan of new sites, which is large
	// enough.
	return traffic.NewSession(ctx, s.Target(), &flags)
}

// add adds the answers that a program gave.
func (o *Outcome) add(r *load.Result, s *traffic.Session) {
	for answer, n := range r.Answers {
		o.Answers[answer] += n
	}
	o.Failed += r.Failed + r.Outside

	if o.Unexpected == nil {
		o.Unexpected = make(map[string]int64)
	}
	maps.Copy(o.Unexpected, s.Unexpected.Counts)
}

// verify adds the verdicts on all journals.
func (o *Outcome) verify(ctx context.Context, journals []string) error {
	o.Verdict = new(verify.Verdict)
	for _, journal := range journals {
		v, err := verify.Journal(ctx, journal)
		if err != nil {
			return err
		}
		o.Verdict.Add(v)
	}
	return nil
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
