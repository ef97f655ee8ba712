// Package cells measures the cost of a hit in four layouts: one cell and four cells of a PostgreSQL
// server, and four cells of a Citus cluster, through its coordinator and at the addresses of its
// workers.
package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command measures all layouts in turn.
type Command struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Citus       string        `placeholder:"URL" help:"Address of the coordinator of a Citus cluster on this machine, with a superuser. Empty: without the layouts of Citus."`
	Connections int           `default:"128" placeholder:"N" help:"Concurrent browsers."`
	Mix         string        `default:"pageviews" enum:"pageviews,realistic" help:"Traffic: pageviews, or realistic."`
	Rounds      int           `default:"5" placeholder:"N" help:"Measurements of each layout, of which the median is reported."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement."`
	Out         string        `placeholder:"FILE" help:"Markdown file whose section of cells is replaced."`
	JSON        bool          `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	switch {
	case c.Rounds < 1 || c.Connections < 1 || c.Connections*(c.Rounds+1) > traffic.MaxConnections:
		return fmt.Errorf("--rounds, --connections: less than 1, or more than %d connections in all", traffic.MaxConnections)
	case c.Duration < time.Second || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not from 1s to 1h", c.Duration)
	}
	return nil
}

// Layout is the measurement of one layout. Figures are medians of the rounds.
type Layout struct {
	Name        string  `json:"name"`
	Rate        float64 `json:"rate"`    // calls a second
	OfFirst     float64 `json:"ofFirst"` // ratio of the processor time to the first layout's in the same round
	ServerCPU   float64 `json:"serverCPUMicros"`
	DatabaseCPU float64 `json:"databaseCPUMicros"` // of all nodes
	Batch       float64 `json:"batch"`             // hits
	P50         float64 `json:"p50Ms"`
	P99         float64 `json:"p99Ms"`
	Trips       float64 `json:"trips"`     // round trips of the service to the database, a batch
	NodeTrips   float64 `json:"nodeTrips"` // round trips between the nodes, a batch
	Prepared    int64   `json:"prepared"`  // participants of two-phase commits, in all rounds
	Failed      float64 `json:"failed"`    // share of calls, in the worst round
	rounds      []round // of these medians
}

type round struct{ rate, ofFirst, server, database, batch, p50, p99 float64 }

// Outcome is the result of the command.
type Outcome struct {
	Layouts    []*Layout        `json:"layouts"`
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
	table      string
}

// OK reports whether no fault was found.
func (o *Outcome) OK() bool { return len(o.Unexpected) == 0 && o.Verdict.Complete() }

// Run prints the outcome. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	outcome, err := c.Play(ctx, term.Log)
	if err != nil {
		return err
	}

	if err := verify.Print(term, c.JSON, outcome); err != nil || c.Out == "" {
		return err
	}
	return report.ReplaceSection(c.Out, "bench-cells", outcome.table)
}

// Print writes the outcome for people.
func (o *Outcome) Print(w io.Writer) {
	fmt.Fprint(w, o.table)
	report.PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	o.Verdict.Print(w)
}

// layouts are measured in turn. The first one is the reference.
var layouts = []struct {
	name           string
	cells          int // 1: the default one; more: as many in addition to it, which then has no site
	citus, address bool
}{
	{name: "PostgreSQL, 1 cell", cells: 1},
	{name: "PostgreSQL, 4 cells", cells: 4},
	{name: "Citus, 4 cells, through the coordinator", cells: 4, citus: true},
	{name: "Citus, 4 cells, addresses of the workers", cells: 4, citus: true, address: true},
}

// Play prepares all layouts, measures them in turn, counts round trips, and verifies the hits.
func (c *Command) Play(ctx context.Context, progress io.Writer) (*Outcome, error) {
	outcome := &Outcome{Unexpected: make(map[string]int64), Verdict: new(verify.Verdict)}
	var all []*installation
	defer func() {
		for _, i := range all {
			i.close()
		}
	}()

	for _, l := range layouts {
		if l.citus && c.Citus == "" {
			continue
		}
		i, err := c.install(ctx, l.cells, l.citus, l.address)
		if i != nil {
			all = append(all, i)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		outcome.Layouts = append(outcome.Layouts, &Layout{Name: l.name})
	}

	// All processes know the new cells by then.
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(celllist.Delay):
	}

	for n, i := range all {
		if err := i.begin(ctx, c.Mix); err != nil {
			return nil, fmt.Errorf("%s: %w", outcome.Layouts[n].Name, err)
		}
	}
	if err := c.measure(ctx, all, outcome, progress); err != nil {
		return nil, err
	}

	for n, i := range all {
		if err := i.finish(ctx, outcome); err != nil {
			return nil, fmt.Errorf("%s: %w", outcome.Layouts[n].Name, err)
		}
	}
	outcome.table = c.tableOf(outcome)
	return outcome, ctx.Err()
}

// measure measures the rounds, and then counts round trips, which slows the load down.
func (c *Command) measure(ctx context.Context, all []*installation, outcome *Outcome, progress io.Writer) error {
	for range c.Rounds {
		for n, i := range all {
			l := outcome.Layouts[n]
			if err := c.round(ctx, i, l, outcome.Layouts[0]); err != nil {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			r := l.rounds[len(l.rounds)-1]
			fmt.Fprintf(progress, "%-42s %6.0f/s, %.1f + %.1f µs CPU a hit (%.2f), batches of %.0f\n", l.Name, r.rate, r.server,
				r.database, r.ofFirst, r.batch)
		}
	}

	for n, i := range all {
		l := outcome.Layouts[n]
		l.settle()
		if err := c.count(ctx, i, l); err != nil {
			return fmt.Errorf("%s: count round trips: %w", l.Name, err)
		}
		prepared, err := i.prepared(ctx)
		if err != nil {
			return err
		}
		l.Prepared = prepared
	}
	return nil
}

// load returns the load of one phase.
func (c *Command) load(watched ...int) load.Load {
	return load.Load{Connections: c.Connections, Warmup: min(c.Duration/5, time.Second), Duration: c.Duration,
		MinAnswers: load.MinAnswers, Watched: watched}
}

// round measures one layout once. Its server runs alone.
func (c *Command) round(ctx context.Context, i *installation, l, first *Layout) error {
	if err := i.server.Start(ctx); err != nil {
		return err
	}
	pids, err := i.pids(ctx)
	if err != nil {
		return err
	}

	result := i.session.Phase(ctx, i.journal, c.load(append([]int{i.server.Pid()}, pids...)...), traffic.Mixes[c.Mix])
	if err := errors.Join(result.Enough(), ctx.Err()); err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, i.server.Logged())
	}
	batches, hits, err := i.batches(ctx)
	if err := errors.Join(err, i.server.Stop()); err != nil {
		return err
	}

	served := float64(result.Served())
	one := round{rate: result.Throughput(), batch: hits / batches,
		server:   float64(result.Cost.CPU.Microseconds()) / served,
		database: float64(result.Cost.OtherCPU.Microseconds()) / served,
		p50:      report.Milliseconds(result.Latency.Quantile(0.5)), p99: report.Milliseconds(result.Latency.Quantile(0.99))}
	one.ofFirst = 1
	if l != first {
		reference := first.rounds[len(first.rounds)-1]
		one.ofFirst = (one.server + one.database) / (reference.server + reference.database)
	}
	l.rounds = append(l.rounds, one)
	l.Failed = max(l.Failed, result.FailedShare())
	return nil
}

// count drives the layout through relays, and counts round trips.
func (c *Command) count(ctx context.Context, i *installation, l *Layout) (err error) {
	relays, err := i.relay(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relays.close(ctx)) }()

	if err := i.server.Start(ctx); err != nil {
		return err
	}
	service, nodes := relays.service.Load(), relays.nodes.Load()
	result := i.session.Phase(ctx, i.journal, c.load(), traffic.Mixes[c.Mix])
	batches, _, err := i.batches(ctx)
	l.Trips = float64(relays.service.Load()-service) / batches
	l.NodeTrips = float64(relays.nodes.Load()-nodes) / batches
	return errors.Join(err, result.Enough(), i.server.Stop())
}

// settle sets the medians.
func (l *Layout) settle() {
	for _, field := range []struct {
		median *float64
		of     func(round) float64
	}{
		{&l.Rate, func(r round) float64 { return r.rate }}, {&l.OfFirst, func(r round) float64 { return r.ofFirst }},
		{&l.ServerCPU, func(r round) float64 { return r.server }}, {&l.DatabaseCPU, func(r round) float64 { return r.database }},
		{&l.Batch, func(r round) float64 { return r.batch }},
		{&l.P50, func(r round) float64 { return r.p50 }}, {&l.P99, func(r round) float64 { return r.p99 }},
	} {
		values := make([]float64, len(l.rounds))
		for i, r := range l.rounds {
			values[i] = field.of(r)
		}
		*field.median = report.Median(values)
	}
}

// tableOf returns the outcome as a Markdown table.
func (c *Command) tableOf(o *Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d rounds of %v, %d connections, mix %s, 20 sites; client, service and all database nodes on the same cores.\n\n",
		report.Machine(), c.Rounds, c.Duration, c.Connections, c.Mix)
	b.WriteString("| layout | a second | µs CPU a hit: service + databases | of the first | hits a batch | round trips a batch: service, between nodes | two-phase participants | p50 ms | p99 ms | failed |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range o.Layouts {
		fmt.Fprintf(&b, "| %s | %.0f | %.1f + %.1f | %.2f | %.0f | %.2f, %.2f | %d | %.1f | %.1f | %s |\n", l.Name, l.Rate, l.ServerCPU,
			l.DatabaseCPU, l.OfFirst, l.Batch, l.Trips, l.NodeTrips, l.Prepared, l.P50, l.P99, report.Marked(l.Failed))
	}
	fmt.Fprintf(&b, "\nOf the hits of these runs %d were acknowledged, %d lost, %d duplicated, %d wrong.\n", o.Verdict.Acknowledged,
		o.Verdict.Lost, o.Verdict.Duplicated, o.Verdict.Wrong)
	return b.String()
}
