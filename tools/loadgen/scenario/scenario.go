// Package scenario has the scenarios of the load program. Each one is an installation, the traffic
// on it, faults that happen meanwhile, and measurements; its outcome has the figures and the faults
// that were found.
package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Scenario is one command of the load program.
type Scenario interface {
	// Play runs the scenario and returns its outcome.
	Play(ctx context.Context, progress io.Writer) (*report.Outcome, error)
	// Printing returns the flags of how the outcome is printed.
	Printing() *report.Output
}

// Run runs a scenario and prints its outcome. It returns an error if a fault was found, and after
// an interruption, because an interrupted check is not complete.
func Run(ctx context.Context, s Scenario, term report.Terminal) error {
	o, err := s.Play(ctx, term.Log)
	if err != nil {
		return err
	}
	return errors.Join(o.Print(term, s.Printing()), ctx.Err())
}

// Private are the flags of the scenarios that start the program themselves.
type Private struct {
	report.Output
	Program   string `long:"program" default:"bin/tallygate" value-name:"FILE" unquote:"false" description:"The tallygate program."`
	Processes string `long:"processes" choice:"one" choice:"two" value-name:"NUMBER" unquote:"false" description:"TALLYGATE_PROCESSES of the program: one, or two. Empty: the program's default, also of programs that do not know the setting."`
}

// on plays on a new installation of an engine, with a server that is not started, and adds what is
// measured to the outcome.
func (p *Private) on(engine string, o *report.Outcome, progress io.Writer, play func(*stage) error) error {
	in, err := instance.New(p.Program, engine)
	if err != nil {
		return err
	}
	defer in.Close()
	in.Server.Env["TALLYGATE_PROCESSES"] = p.Processes

	s := &stage{in: in, engine: engine, outcome: &report.Outcome{Scenario: o.Scenario}, progress: progress}
	if err := play(s); err != nil {
		return fmt.Errorf("%s: %w", engine, err)
	}
	o.Add(s.outcome)
	return nil
}

// besideNoop plays on a new installation of each engine, in the minutes in which the empty handler
// is measured.
func (p *Private) besideNoop(
	ctx context.Context, engines []string, o *report.Outcome, progress io.Writer, play func(*stage) error,
) error {
	noop, err := instance.StartNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.Kill()

	for _, engine := range engines {
		if err := p.on(engine, o, progress, func(s *stage) error { s.noop = noop; return play(s) }); err != nil {
			return err
		}
	}
	return nil
}

// within returns an error that names the flag if its value is less than least or more than most.
func within[N cmp.Ordered](flag string, value, least, most N) error {
	if value < least || value > most {
		return fmt.Errorf("%s: %v is not from %v to %v", flag, value, least, most)
	}
	return nil
}

// The limits of durations, which are more than 0.
const (
	shortest = time.Nanosecond
	longest  = time.Hour
)

// inAll returns an error if a run has more connections than marks of hits can hold.
func inAll(connections, phases int) error {
	return within("--connections in all rounds", connections*phases, 0, traffic.MaxConnections)
}

// measured returns the load of one measurement.
func measured(connections int, duration time.Duration, watched ...int) load.Load {
	return load.Load{Connections: connections, Warmup: min(duration/5, time.Second), Duration: duration,
		MinAnswers: load.MinAnswers, Watched: watched}
}
