package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Upgrade starts the previous program, then the new one, which migrates the database, and loads
// both. No call may fail, except of a previous program that says in /readyz that it cannot serve.
type Upgrade struct {
	Private
	Previous    string        `long:"previous" required:"true" value-name:"FILE" unquote:"false" description:"The previous tallygate program."`
	Engines     []string      `long:"engines" defaults:"sqlite,postgres" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, and a private postgres. May be repeated."`
	Duration    time.Duration `long:"duration" default:"10s" value-name:"TIME" description:"Time before the new program starts, and time that both run."`
	Connections int           `long:"connections" default:"32" value-name:"N" description:"Concurrent browsers of each program."`
}

// Validate checks the limits of the flags.
func (c *Upgrade) Validate() error {
	return errors.Join(within("--duration", c.Duration, time.Second, longest),
		within("--connections", c.Connections, 1, traffic.MaxConnections/2))
}

// Play implements Scenario.
func (c *Upgrade) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "upgrade"}
	previous := Private{Program: c.Previous}
	for _, engine := range c.Engines {
		if err := previous.on(engine, o, progress, func(s *stage) error { return c.play(ctx, s) }); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// play runs both programs on one database, and verifies the hits.
func (c *Upgrade) play(ctx context.Context, old *stage) error {
	in, outcome, progress := old.in, old.outcome, old.progress
	if err := old.join(ctx, in.Server, "previous"); err != nil {
		return fmt.Errorf("the previous program: %w", err)
	}
	newer, err := in.Node(c.Program, "")
	if err != nil {
		return err
	}

	// The previous program is loaded the whole time, the new one as soon as it has started.
	added := &stage{in: in, outcome: outcome, progress: progress}
	var result *load.Result
	var refusal error
	results, _, err := underLoad(ctx, []*stage{old}, load.Load{Connections: c.Connections},
		func(ctx context.Context, _ *traffics) error {
			if err := load.Wait(ctx, c.Duration); err != nil {
				return err
			}
			fmt.Fprintf(progress, "%s: the new program starts\n", old.engine)
			if err := added.join(ctx, newer, "new"); err != nil {
				return err
			}
			fmt.Fprintln(progress, "both programs serve")
			l := load.Load{Connections: c.Connections, Duration: c.Duration, MinAnswers: load.MinAnswers}
			result = added.phase(ctx, l, "realistic")
			refusal = in.Server.CheckReady(ctx)
			return nil
		})
	if err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(newer.Logged())))
	}

	for name, r := range map[string]*load.Result{"previous": results[0], "new": result} {
		outcome.Case("engine", old.engine, "program", name, "connections", c.Connections).AddResult(r)
		outcome.AddAnswers(r)
		failed := r.Failed + r.Outside
		switch {
		case failed > 0 && name == "previous" && refusal != nil:
			outcome.Notes = append(outcome.Notes,
				fmt.Sprintf("%s: %d calls of the previous program failed, which says so: %v", old.engine, failed, refusal))
		case failed > 0:
			outcome.Fault("%s: %d calls of the %s program failed", old.engine, failed, name)
		}
	}
	return errors.Join(old.close(ctx), added.close(ctx))
}

// join starts a server that accepts accounts at once, and creates an account with sites there. A
// server does so if it knows that no mail is sent, for which it must be the worker, too.
func (s *stage) join(ctx context.Context, server *instance.Server, journal string) (err error) {
	server.Env["TALLYGATE_SIGNUPS"], server.Env["TALLYGATE_ROLES"] = "open", "control,data,worker"
	if err := server.Start(ctx); err != nil {
		return err
	}

	// The second account is no operator's: its sites keep the plan of new sites, which is large
	// enough.
	flags := traffic.Flags{Mix: "realistic", Sites: 10, Visitors: 2_000, Seed: 1}
	if s.session, err = traffic.NewSession(ctx, server.Target(), &flags); err != nil {
		return err
	}
	return s.begin(ctx, journal)
}
