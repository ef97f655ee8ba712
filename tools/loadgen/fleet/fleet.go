// Package fleet measures several data nodes on one PostgreSQL behind a load balancer: HAProxy spreads
// calls evenly, or by site. It can also kill nodes meanwhile.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command measures one node and all nodes in turn, each through HAProxy.
type Command struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Nodes       int           `default:"4" placeholder:"N" help:"Data nodes."`
	Connections int           `default:"128" placeholder:"N" help:"Concurrent browsers."`
	Mix         string        `default:"pageviews" enum:"pageviews,realistic" help:"Traffic: pageviews, or realistic."`
	Rounds      int           `default:"3" placeholder:"N" help:"Measurements of each case, of which the median is reported."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement."`
	Kills       int           `default:"0" placeholder:"N" help:"Then kill and restart nodes this often under load."`
	JSON        bool          `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	phases := c.Rounds*len(cases) + 1
	switch {
	case c.Nodes < 2 || c.Nodes > 16:
		return fmt.Errorf("--nodes: %d is not from 2 to 16", c.Nodes)
	case c.Rounds < 1 || c.Connections < 1 || c.Connections*phases > traffic.MaxConnections:
		return fmt.Errorf("--rounds, --connections: less than 1, or more than %d connections in all", traffic.MaxConnections)
	case c.Duration < time.Second || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not from 1s to 1h", c.Duration)
	case c.Kills < 0:
		return fmt.Errorf("--kills: %d is negative", c.Kills)
	}
	return nil
}

// Case is the measurement of one way to spread calls.
type Case struct {
	Name   string  `json:"name"`
	Rate   float64 `json:"rate"`   // calls a second, median of the rounds
	OfOne  float64 `json:"ofOne"`  // median of the ratios to one node in the same round
	P50    float64 `json:"p50Ms"`  // median of the rounds, as P99
	P99    float64 `json:"p99Ms"`  //
	Failed float64 `json:"failed"` // share of calls, in the worst round

	rates, ratios, p50s, p99s []float64
}

// Outcome is the result of the command.
type Outcome struct {
	Cases      []*Case          `json:"cases"`
	Kills      int              `json:"kills"`
	Killed     map[string]int64 `json:"killed,omitempty"` // answers while nodes were killed
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
}

// OK reports whether no fault was found.
func (o *Outcome) OK() bool { return len(o.Unexpected) == 0 && o.Verdict.Complete() }

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
	fmt.Fprintln(w, "| nodes | calls a second | of one node | p50 ms | p99 ms | failed |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, one := range o.Cases {
		fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f | %.2f | %s |\n", one.Name, one.Rate, one.OfOne, one.P50, one.P99,
			report.Percent(one.Failed))
	}
	if o.Kills > 0 {
		fmt.Fprintf(w, "%d nodes killed\n", o.Kills)
		report.PrintCounts(w, "answers meanwhile", o.Killed)
	}
	report.PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	o.Verdict.Print(w)
}

// cases are the ways to spread calls, which are measured in turn. The first one is the reference.
var cases = []struct{ name, backend string }{
	{"one", instance.BackendOne}, {"all, evenly", instance.BackendEven}, {"all, by site", instance.BackendSite},
}

// Play starts the fleet, measures it and verifies the hits.
func (c *Command) Play(ctx context.Context, progress io.Writer) (*Outcome, error) {
	b, err := instance.New(c.Program, "postgres")
	if err != nil {
		return nil, err
	}
	defer b.Close()

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	// With an error some nodes may run already, so end them in any case.
	nodes, err := c.startNodes(ctx, b)
	defer func() {
		for _, node := range nodes {
			node.Kill()
		}
	}()
	if err != nil {
		return nil, err
	}

	p, err := instance.StartHAProxy(ctx, b.Dir, nodes)
	if err != nil {
		return nil, err
	}
	defer p.Stop()

	s, err := traffic.NewOwnSession(ctx, b.Server.Target(),
		&traffic.Flags{Mix: c.Mix, Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.Dir, "journal")
	j, err := s.Begin(ctx, path)
	if err != nil {
		return nil, err
	}

	f := &fleet{Command: c, nodes: nodes, proxy: p, session: s, journal: j, progress: progress,
		outcome: &Outcome{Kills: c.Kills}}
	if err := errors.Join(f.measure(ctx), f.kill(ctx), j.Close()); err != nil {
		return nil, err
	}

	f.outcome.Unexpected = s.Unexpected.Counts
	f.outcome.Verdict, err = verify.JournalAs(ctx, s.Account, path)
	return f.outcome, err
}

// startNodes starts the data nodes. The instance's own server has the control plane alone.
func (c *Command) startNodes(ctx context.Context, b *instance.Instance) (nodes []*instance.Server, err error) {
	for range c.Nodes {
		node, err := b.Second(c.Program)
		if err != nil {
			return nodes, err
		}
		node.Env["TALLYGATE_ROLES"] = "data"
		nodes = append(nodes, node)
		if err := node.Start(ctx); err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// fleet is a run of the command.
type fleet struct {
	*Command
	nodes    []*instance.Server
	proxy    *instance.HAProxy
	session  *traffic.Session
	journal  *traffic.Journal
	outcome  *Outcome
	progress io.Writer
}

// phase drives a backend of the load balancer.
func (f *fleet) phase(ctx context.Context, backend string, l load.Load) *load.Result {
	f.session.Traffic.Host = f.proxy.Addresses[backend]
	l.Connections = f.Connections
	return f.session.Phase(ctx, f.journal, l, traffic.Mixes[f.Mix])
}

// measure measures all cases in turn.
func (f *fleet) measure(ctx context.Context) error {
	for _, one := range cases {
		f.outcome.Cases = append(f.outcome.Cases, &Case{Name: one.name})
	}

	for range f.Rounds {
		for i, one := range cases {
			r := f.phase(ctx, one.backend,
				load.Load{Warmup: min(f.Duration/5, time.Second), Duration: f.Duration, MinAnswers: load.MinAnswers})
			if err := errors.Join(r.Enough(), ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}

			measured := f.outcome.Cases[i]
			measured.add(r, f.outcome.Cases[0])
			fmt.Fprintf(f.progress, "%-12s %7.0f/s, %.2f of one node\n", one.name, r.Throughput(), measured.ratios[len(measured.ratios)-1])
		}
	}

	for _, measured := range f.outcome.Cases {
		measured.settle()
	}
	return nil
}

// add adds a round, which the reference has already.
func (m *Case) add(r *load.Result, reference *Case) {
	m.rates = append(m.rates, r.Throughput())
	m.ratios = append(m.ratios, r.Throughput()/reference.rates[len(reference.rates)-1])
	m.p50s = append(m.p50s, report.Milliseconds(r.Latency.Quantile(0.5)))
	m.p99s = append(m.p99s, report.Milliseconds(r.Latency.Quantile(0.99)))
	m.Failed = max(m.Failed, r.FailedShare())
}

// settle sets the medians.
func (m *Case) settle() {
	m.Rate, m.OfOne = report.Median(m.rates), report.Median(m.ratios)
	m.P50, m.P99 = report.Median(m.p50s), report.Median(m.p99s)
}

// kill kills and restarts nodes under load, one after the other.
func (f *fleet) kill(ctx context.Context) error {
	if f.Kills == 0 {
		return ctx.Err()
	}

	before := maps.Clone(f.session.Unexpected.Counts)
	loading, stop := context.WithCancel(ctx)
	ended := make(chan *load.Result, 1)
	go func() { ended <- f.phase(loading, instance.BackendSite, load.Load{}) }()

	err := f.killNodes(ctx)
	stop()
	f.outcome.Killed = (<-ended).Answers

	// HAProxy answers 502 for a node that dies during a call.
	maps.DeleteFunc(f.session.Unexpected.Counts, func(what string, _ int64) bool {
		return strings.HasPrefix(what, "502") && before[what] == 0
	})
	return errors.Join(err, ctx.Err())
}

func (f *fleet) killNodes(ctx context.Context) error {
	random := rand.New(rand.NewPCG(1, 1))
	for range f.Kills {
		// The load is running by then, and HAProxy has seen the last node return.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second + time.Duration(random.IntN(1000))*time.Millisecond):
		}

		node := f.nodes[random.IntN(len(f.nodes))]
		node.Kill()
		if err := node.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}
