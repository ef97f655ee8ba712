package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/pgserver"
)

// Cells measures the cost of a hit in four layouts: one cell and four cells of a PostgreSQL server,
// and four cells of a Citus cluster, through its coordinator and at the addresses of its workers.
type Cells struct {
	Private
	Citus       string        `long:"citus" value-name:"URL" unquote:"false" description:"Address of the coordinator of a Citus cluster on this machine, with a superuser. Empty: without the layouts of Citus."`
	Connections int           `long:"connections" default:"128" value-name:"N" description:"Concurrent browsers."`
	Mix         string        `long:"mix" default:"pageviews" choice:"pageviews" choice:"realistic" value-name:"NAME" unquote:"false" description:"Traffic: pageviews, or realistic."`
	Rounds      int           `long:"rounds" default:"5" value-name:"N" description:"Measurements of each layout, of which the median is reported."`
	Duration    time.Duration `long:"duration" default:"5s" value-name:"TIME" description:"Duration of each measurement."`
}

// Validate checks the limits of the flags.
func (c *Cells) Validate() error {
	return errors.Join(within("--rounds", c.Rounds, 1, 1000), within("--connections", c.Connections, 1, 4096),
		inAll(c.Connections, c.Rounds+1), within("--duration", c.Duration, time.Second, longest))
}

// layout is an installation with its server, which runs during its measurements only.
type layout struct {
	name           string
	cells          int // 1: the default one; more: as many in addition to it, which then has no site
	citus, address bool

	*stage
	measured *report.Case
	metrics  string // host:port
	baseline int64  // prepared transactions before the first hit
}

// layouts returns the layouts, which are measured in turn. The first one is the reference.
func (c *Cells) layouts() []*layout {
	all := []*layout{{name: "PostgreSQL, 1 cell", cells: 1}, {name: "PostgreSQL, 4 cells", cells: 4}}
	if c.Citus == "" {
		return all
	}
	return append(all, &layout{name: "Citus, 4 cells, through the coordinator", cells: 4, citus: true},
		&layout{name: "Citus, 4 cells, addresses of the workers", cells: 4, citus: true, address: true})
}

// The units of the figures of layouts, in addition to the figures of a load.
const (
	hitsPerBatch  = "hits/batch"
	trips         = "trips/batch"      // round trips of the service to the database
	nodeTrips     = "node-trips/batch" // round trips between the nodes
	twoPhase      = "prepared-commits" // participants of two-phase commits, in all rounds
	cpuOfFirst    = "cpu-of-first"     // processor time as a share of the first layout's in the same round
	batchesMetric = `tallygate_batch_items_count{queue="hits"}`
	hitsMetric    = `tallygate_batch_items_sum{queue="hits"}`
)

var cellColumns = []report.Column{
	{Title: "layout", Format: "%s", Names: []string{"layout"}},
	{Title: "a second", Format: "%.0f", Names: []string{report.Rate}},
	{Title: "µs CPU a hit: service + databases", Format: "%.1f + %.1f", Names: []string{report.ServerCPU, report.DatabaseCPU}},
	{Title: "of the first", Format: "%.2f", Names: []string{cpuOfFirst}},
	{Title: "hits a batch", Format: "%.0f", Names: []string{hitsPerBatch}},
	{Title: "round trips a batch: service, between nodes", Format: "%.2f, %.2f", Names: []string{trips, nodeTrips}},
	{Title: "two-phase participants", Format: "%.0f", Names: []string{twoPhase}},
	{Title: "p50 ms", Format: "%.1f", Names: []string{report.P50}},
	{Title: "p99 ms", Format: "%.1f", Names: []string{report.P99}},
	{Title: "failed", Of: report.Marked, Names: []string{report.Failed}},
}

// Play prepares all layouts, measures them in turn, counts round trips, and verifies the hits.
func (c *Cells) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	outcome := &report.Outcome{Scenario: "cells"}
	all := c.layouts()
	defer func() {
		for _, l := range all {
			if l.stage != nil {
				_ = l.in.Close()
			}
		}
	}()

	each := func(do func(context.Context, *layout) error) error {
		for _, l := range all {
			if err := do(ctx, l); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		return ctx.Err()
	}
	install := func(ctx context.Context, l *layout) error {
		l.stage, l.measured = &stage{outcome: outcome, progress: progress}, outcome.Case("layout", l.name)
		return c.install(ctx, l)
	}
	steps := []func(context.Context, *layout) error{
		func(_ context.Context, l *layout) error { return l.begin(ctx, c.Mix) },
	}
	for range c.Rounds {
		steps = append(steps, func(ctx context.Context, l *layout) error { return c.round(ctx, l, all[0]) })
	}
	steps = append(steps, c.count, c.finish)

	if err := errors.Join(each(install), instance.AwaitCells(ctx)); err != nil {
		return nil, err
	}
	for _, step := range steps {
		if err := each(step); err != nil {
			return nil, err
		}
	}

	outcome.Write("%s; medians of %d rounds of %v, %d connections, mix %s, 20 sites; client, service and all database nodes on the same cores.\n\n%s",
		report.Machine(), c.Rounds, c.Duration, c.Connections, c.Mix, report.Table(cellColumns, outcome.Cases))
	outcome.Write("\nOf the hits of these runs %s.\n", outcome.Hits.Counts())
	return outcome, nil
}

// install creates a database with cells, and a server that runs.
func (c *Cells) install(ctx context.Context, l *layout) (err error) {
	if l.citus {
		l.in, err = instance.NewOnCitus(ctx, c.Program, c.Citus)
	} else {
		l.in, err = instance.New(c.Program, "postgres")
	}
	if err != nil {
		l.stage = nil
		return err
	}

	if l.metrics, err = pgserver.FreeAddress(); err != nil {
		return err
	}
	l.in.Server.Env["TALLYGATE_METRICS_ADDR"] = l.metrics

	// The first start migrates.
	if err := l.in.Server.Start(ctx); err != nil || l.cells == 1 {
		return err
	}
	return l.in.AddCells(ctx, l.cells, false)
}

// begin creates the sites and the journal, and leaves a server for the data plane.
func (l *layout) begin(ctx context.Context, mix string) (err error) {
	if err := l.open(ctx, l.in.Server, standard(mix, 20)); err != nil {
		return err
	}
	if err := l.in.Server.Stop(); err != nil {
		return err
	}
	l.in.Server.Env["TALLYGATE_ROLES"] = "data"
	l.connect(l.in.Database, nil)
	l.baseline, err = l.prepared(ctx)
	return err
}

// connect sets the addresses of the databases.
func (l *layout) connect(common string, through func(host string) string) {
	l.in.Server.Env["TALLYGATE_DATABASE_URL"] = common
	if l.address {
		l.in.Server.Env["TALLYGATE_CELL_ADDRESSES"] = l.in.CellAddresses(through)
	}
}

// prepared returns how many transactions were prepared since begin. PostgreSQL without Citus
// prepares no transactions.
func (l *layout) prepared(ctx context.Context) (int64, error) {
	if !l.citus {
		return 0, nil
	}
	n, err := l.in.Citus.Prepared(ctx)
	return n - l.baseline, err
}

// round measures one layout once. Its server runs alone.
func (c *Cells) round(ctx context.Context, l, first *layout) error {
	if err := l.in.Server.Start(ctx); err != nil {
		return err
	}
	pids, err := l.in.DatabasePids(ctx)
	if err != nil {
		return err
	}

	watched := append([]int{l.in.Server.Pid()}, pids...)
	if _, err := l.measure(ctx, l.measured, measured(c.Connections, c.Duration, watched...), c.Mix); err != nil {
		return err
	}
	batches, hits, err := l.batches(ctx)
	if err := errors.Join(err, l.in.Server.Stop()); err != nil {
		return err
	}

	cpu := func(m *report.Case) float64 { return m.Last(report.ServerCPU) + m.Last(report.DatabaseCPU) }
	m := l.measured
	m.Add(hitsPerBatch, hits/batches)
	m.Add(cpuOfFirst, cpu(m)/cpu(first.measured))
	fmt.Fprintf(l.progress, "%-42s %6.0f/s, %.1f + %.1f µs CPU a hit (%.2f), batches of %.0f\n", l.name, m.Last(report.Rate),
		m.Last(report.ServerCPU), m.Last(report.DatabaseCPU), m.Last(cpuOfFirst), hits/batches)
	return nil
}

// batches reads the server's metrics: the batches since its start, and their hits.
func (l *layout) batches(ctx context.Context) (batches, hits float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.metrics+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}

	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case batchesMetric:
			batches, err = strconv.ParseFloat(value, 64)
		case hitsMetric:
			hits, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if batches == 0 {
		return 0, 0, errors.New("the metrics have no batches")
	}
	return batches, hits, nil
}

// count drives the layout through relays, which slows the load down, and counts round trips.
func (c *Cells) count(ctx context.Context, l *layout) (err error) {
	relays, err := l.relay(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relays.close(ctx)) }()

	if err := l.in.Server.Start(ctx); err != nil {
		return err
	}
	service, nodes := relays.service.Load(), relays.nodes.Load()
	result := l.phase(ctx, measured(c.Connections, c.Duration), c.Mix)
	batches, _, err := l.batches(ctx)
	l.measured.Add(trips, float64(relays.service.Load()-service)/batches)
	l.measured.Add(nodeTrips, float64(relays.nodes.Load()-nodes)/batches)
	if err := errors.Join(err, result.Enough(), l.in.Server.Stop()); err != nil {
		return fmt.Errorf("count round trips: %w", err)
	}

	prepared, err := l.prepared(ctx)
	l.measured.Add(twoPhase, float64(prepared))
	return err
}

// finish verifies all hits of a layout.
func (c *Cells) finish(ctx context.Context, l *layout) error {
	l.in.Server.Env["TALLYGATE_ROLES"] = "control"
	l.connect(l.in.Database, nil)
	if err := l.in.Server.Start(ctx); err != nil {
		return err
	}
	return errors.Join(l.close(ctx), l.in.Server.Stop())
}
