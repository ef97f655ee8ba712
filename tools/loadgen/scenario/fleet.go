package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// Fleet measures one data node and all data nodes on one PostgreSQL in turn, each through HAProxy,
// which spreads calls evenly or by site. It can also kill nodes.
type Fleet struct {
	Private
	Nodes       int           `long:"nodes" default:"4" value-name:"N" description:"Data nodes."`
	Connections int           `long:"connections" default:"128" value-name:"N" description:"Concurrent browsers."`
	Mix         string        `long:"mix" default:"pageviews" choice:"pageviews" choice:"realistic" value-name:"NAME" unquote:"false" description:"Traffic: pageviews, or realistic."`
	Rounds      int           `long:"rounds" default:"3" value-name:"N" description:"Measurements of each case, of which the median is reported."`
	Duration    time.Duration `long:"duration" default:"5s" value-name:"TIME" description:"Duration of each measurement."`
	Kills       int           `long:"kills" value-name:"N" description:"Then kill and restart nodes this often under load."`
}

// Validate checks the limits of the flags.
func (c *Fleet) Validate() error {
	return errors.Join(within("--nodes", c.Nodes, 2, 16), within("--rounds", c.Rounds, 1, 1000),
		within("--connections", c.Connections, 1, 4096), inAll(c.Connections, c.Rounds*len(spreads)+1),
		within("--duration", c.Duration, time.Second, longest), within("--kills", c.Kills, 0, 1000))
}

// spreads are the ways to spread calls, which are measured in turn. The first one is the reference.
var spreads = []struct{ name, backend string }{
	{"one", instance.BackendOne}, {"all, evenly", instance.BackendEven}, {"all, by site", instance.BackendSite},
}

// ofFirst is the unit of ratios to the first case in the same round.
const ofFirst = "of-first"

var fleetColumns = []report.Column{
	{Title: "nodes", Format: "%s", Names: []string{"nodes"}},
	{Title: "calls a second", Format: "%.0f", Names: []string{report.Rate}},
	{Title: "of one node", Format: "%.2f", Names: []string{ofFirst}},
	{Title: "p50 ms", Format: "%.2f", Names: []string{report.P50}},
	{Title: "p99 ms", Format: "%.2f", Names: []string{report.P99}},
	{Title: "failed", Of: report.Percent, Names: []string{report.Failed}},
}

// Play implements Scenario.
func (c *Fleet) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "fleet"}
	return o, c.on("postgres", o, progress, func(s *stage) error {
		for _, step := range []func(context.Context, *stage) error{c.start, c.measure, c.kill} {
			if err := step(ctx, s); err != nil {
				return err
			}
		}
		return s.close(ctx)
	})
}

// start starts the nodes and the load balancer. The first server has the control plane alone.
func (c *Fleet) start(ctx context.Context, s *stage) error {
	if err := s.in.Server.Start(ctx); err != nil {
		return err
	}
	for range c.Nodes {
		node, err := s.in.Node(c.Program, "data")
		if err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
	}
	if err := s.in.StartProxy(ctx, s.in.Nodes); err != nil {
		return err
	}
	return s.open(ctx, s.in.Server, standard(c.Mix, 20))
}

// measure measures all ways to spread calls in turn.
func (c *Fleet) measure(ctx context.Context, s *stage) error {
	for range c.Rounds {
		for _, spread := range spreads {
			s.session.Traffic.Host = s.in.Proxy.Addresses[spread.backend]
			one := s.outcome.Case("nodes", spread.name)
			if _, err := s.measure(ctx, one, measured(c.Connections, c.Duration), c.Mix); err != nil {
				return fmt.Errorf("%s: %w", spread.name, err)
			}
			one.Add(ofFirst, one.Last(report.Rate)/s.outcome.Cases[0].Last(report.Rate))
			fmt.Fprintf(s.progress, "%-12s %7.0f/s, %.2f of one node\n", spread.name, one.Last(report.Rate), one.Last(ofFirst))
		}
	}
	s.outcome.Write("%s", report.Table(fleetColumns, s.outcome.Cases))
	return nil
}

// kill kills and restarts nodes under load, one after the other.
func (c *Fleet) kill(ctx context.Context, s *stage) error {
	if c.Kills == 0 {
		return ctx.Err()
	}

	before := maps.Clone(s.session.Unexpected.Counts)
	random := rand.New(rand.NewPCG(1, 1))
	results, _, err := underLoad(ctx, []*stage{s}, load.Load{Connections: c.Connections},
		func(ctx context.Context, _ *traffics) error {
			for range c.Kills {
				// The load is running by then, and HAProxy has seen the last node return.
				if err := load.Wait(ctx, time.Second+time.Duration(random.IntN(1000))*time.Millisecond); err != nil {
					return err
				}
				if err := instance.Killed("", nil, s.in.Nodes...).Do(ctx, random.IntN(c.Nodes)); err != nil {
					return err
				}
			}
			return nil
		})

	// HAProxy answers 502 for a node that dies during a call.
	maps.DeleteFunc(s.session.Unexpected.Counts, func(what string, _ int64) bool {
		return strings.HasPrefix(what, "502") && before[what] == 0
	})
	if err != nil {
		return err
	}
	s.outcome.AddAnswers(results[0])
	s.outcome.Write("%d nodes killed; the answers are from this time\n", c.Kills)
	return nil
}
