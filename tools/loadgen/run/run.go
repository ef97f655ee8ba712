// Package run drives a running instance with realistic traffic and reports throughput, latency and
// errors.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Command drives a running instance.
type Command struct {
	Traffic     traffic.Flags `embed:""`
	Target      target.Flags  `embed:""`
	Journal     string        `default:"loadgen.journal" placeholder:"FILE" help:"File that records acknowledged hits for verify."`
	Rate        float64       `default:"0" placeholder:"N" help:"Hits a second over all connections. 0: as many as possible."`
	Connections int           `default:"128" placeholder:"N" help:"Concurrent browsers, 1 to 4096."`
	JSON        bool          `name:"json" help:"Print the report as JSON."`
	Pid         int           `placeholder:"PID" help:"Process id of the server on this machine, to measure its CPU time and memory."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	if c.Connections < 1 || c.Connections > traffic.MaxConnections {
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections)
	}
	return c.Traffic.Check()
}

// Run drives the instance and prints a report.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	t := c.Target.Target()
	t.UseNewAccount()

	s, err := traffic.NewSession(ctx, t, &c.Traffic)
	if err != nil {
		return err
	}
	if !c.JSON {
		s.PrintNotes(term.Out)
	}

	r, err := s.Drive(ctx, c.Journal, load.Load{Connections: c.Connections, Rate: c.Rate, Warmup: c.Traffic.Warmup,
		Duration:   c.Traffic.Duration,
		MinAnswers: load.MinAnswers, Progress: term.Log, Watched: []int{c.Pid}})
	if err != nil {
		return err
	}

	report := report.New(r, c.Connections)
	report.Unexpected, report.Notes = s.Unexpected.Counts, s.Account.Notes

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(report)
	} else {
		report.Print(term.Out)
		fmt.Fprintf(term.Out, "The acknowledged hits are in %s; check them with: loadgen verify %s\n",
			c.Journal, c.Journal)
	}

	return errors.Join(err, ctx.Err(), r.Enough(), report.Check())
}
