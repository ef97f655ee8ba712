package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/bulk"
	"github.com/tallygate/tallygate/db"
)

// benchCommand measures the service beside what the machine could do at best, in one go, and writes
// the table of ratios.
type benchCommand struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines     []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Connections []int         `default:"4,128,256" placeholder:"N" help:"Browsers that send at once."`
	Rounds      int           `default:"3" placeholder:"N" help:"Measurements of each case. The median counts."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"How long each takes."`
	Rows        int           `default:"300000" placeholder:"N" help:"Page views that are copied at once for the database's own limit."`
	Out         string        `placeholder:"FILE" help:"Markdown file with a section for the tables, which is replaced."`
	JSON        bool          `name:"json" help:"Print the measurements as JSON."`
}

// Validate checks what one flag alone cannot tell.
func (c *benchCommand) Validate() error {
	total := 0
	for _, n := range c.Connections {
		if total += n; n < 1 {
			return fmt.Errorf("--connections: %d is less than 1", n)
		}
	}

	switch {
	case c.Rounds < 1 || total*c.Rounds*len(benchMixes) > maxConnections:
		return fmt.Errorf("--rounds: %d is less than 1, or gives more than %d connections in all", c.Rounds, maxConnections)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	case c.Rows < 1 || c.Rows > maxBulkRows:
		return fmt.Errorf("--rows: %d is not from 1 to %d", c.Rows, maxBulkRows)
	}

	return nil
}

// benchMixes are the cases of hits that are measured. Redeeming captcha tokens is one more.
var benchMixes = []string{"pageviews", "realistic"}

// measurement is one case: medians of its rounds. Each round's value is compared with the empty
// handler's of the same round.
type measurement struct {
	Engine      string  `json:"engine"`
	Mix         string  `json:"mix"`
	Connections int     `json:"connections"`
	Throughput  float64 `json:"throughput"` // calls a second that were worked on
	OfNoop      float64 `json:"ofNoop"`     // throughput as a share of the empty handler's
	OfBulk      float64 `json:"ofBulk"`     // throughput as a share of the engine's bulk copy
	P50         float64 `json:"p50Ms"`
	P99         float64 `json:"p99Ms"`
	NoopP99     float64 `json:"noopP99Ms"`
	P99OfNoop   float64 `json:"p99OfNoop"`
	ServerCPU   float64 `json:"serverCPUMicros"`   // per hit
	NoopCPU     float64 `json:"noopCPUMicros"`     // of the empty handler's process, per call
	DatabaseCPU float64 `json:"databaseCPUMicros"` // per hit; PostgreSQL only
	PeakMemory  int64   `json:"peakMemory"`        // of the server, bytes
	BytesPerHit float64 `json:"bytesPerHit"`       // on disk, with indexes and visits
	LogPerHit   float64 `json:"logBytesPerHit"`    // write-ahead log; PostgreSQL only
	FailedShare float64 `json:"failedShare"`       // of the calls, the worst round: 503, 429 or no answer
	rounds      []measurement
}

// engineReport is all that was measured with one engine.
type engineReport struct {
	Engine       string          `json:"engine"`
	BulkRate     float64         `json:"bulkRowsPerSecond"`
	IdleMemory   int64           `json:"idleMemory"` // of a process with all roles, bytes
	Measurements []*measurement  `json:"measurements"`
	Verdict      *verdict        `json:"verdict"`
	Captcha      *captchaVerdict `json:"captcha"`
	// Answers that nothing explains.
	Unexpected        map[string]int64 `json:"unexpected,omitempty"`
	UnexpectedCaptcha map[string]int64 `json:"unexpectedCaptcha,omitempty"`
}

// Run runs the command.
func (c *benchCommand) Run(ctx context.Context, term terminal) error {
	noop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.kill()

	var reports []*engineReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, noop, term.log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}

		reports = append(reports, r)
	}

	tables := benchTables(reports, c)

	if c.JSON {
		err = json.NewEncoder(term.out).Encode(reports)
	} else {
		_, err = io.WriteString(term.out, tables)
	}

	for _, r := range reports {
		err = errors.Join(err, r.check(term.log))
	}

	// the page keeps what was measured without a fault
	if err != nil || c.Out == "" {
		return err
	}

	return replaceSection(c.Out, "bench-report", tables)
}

// check prints the faults that were found, and fails if there are any.
func (r *engineReport) check(w io.Writer) (err error) {
	if !r.Verdict.complete() || len(r.Unexpected) > 0 {
		fmt.Fprint(w, r.Engine, ": ")
		r.Verdict.print(w)
		printCounts(w, "UNEXPECTED answers", r.Unexpected)
		err = errFaults
	}

	if !r.Captcha.ok() || len(r.UnexpectedCaptcha) > 0 {
		fmt.Fprint(w, r.Engine, ": ")
		r.Captcha.print(w)
		printCounts(w, "UNEXPECTED answers", r.UnexpectedCaptcha)
		err = errors.Join(err, errCaptchaFaults)
	}

	return err
}

// engine measures one engine.
func (c *benchCommand) engine(ctx context.Context, engine string, noop *server, progress io.Writer) (*engineReport, error) {
	b, err := newBench(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.close()

	report := &engineReport{Engine: engine}
	if report.BulkRate, err = b.bulkRate(ctx, c.Rows); err != nil {
		return nil, err
	}

	fmt.Fprintf(progress, "%s: copies %.0f page views a second\n", engine, report.BulkRate)
	b.server.env["TALLYGATE_ROLES"] = "control,data,worker"
	if err := b.server.start(ctx); err != nil {
		return nil, err
	}

	// before its memory is read it is left alone for as long as a measurement takes
	select {
	case <-time.After(c.Duration):
	case <-ctx.Done():
	}

	idle, _ := readProc(b.server.pid())
	report.IdleMemory = idle.memory

	s, err := newOwnScene(ctx, b, &trafficFlags{Mix: "realistic", Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	captcha, err := b.newCaptcha(ctx, s.account.target.Email)
	if err != nil {
		return nil, err
	}

	path := filepath.Join(b.dir, "journal")
	j, err := s.begin(ctx, path)
	if err != nil {
		return nil, err
	}

	// What is measured is the data plane alone: signing up leaves memory behind that it never
	// needs.
	if err := b.server.restart(ctx, "data"); err != nil {
		return nil, err
	}

	m := measurer{bench: b, scene: s, journal: j, captcha: captcha, noop: noop, report: report, duration: c.Duration, progress: progress}

	for range c.Rounds {
		for _, connections := range c.Connections {
			if err := m.round(ctx, connections); err != nil {
				return nil, err
			}
		}
	}

	for _, measured := range report.Measurements {
		measured.settle()
	}

	used, err := captcha.usage(ctx, b)
	if err != nil {
		return nil, err
	}

	report.Captcha = &captcha.run.verdict
	report.Captcha.compare(captchaUsage{Period: used.Period}, used)
	report.Unexpected, report.UnexpectedCaptcha = s.surprises.count, captcha.run.surprises.count

	if err := errors.Join(j.close(), b.server.restart(ctx, "control")); err != nil {
		return nil, err
	}

	report.Verdict, err = verifyAs(ctx, s.account, path)
	return report, err
}

// measurer runs the rounds of one engine.
type measurer struct {
	bench    *bench
	scene    *scene
	journal  *journal
	captcha  *benchCaptcha
	noop     *server
	report   *engineReport
	duration time.Duration
	progress io.Writer
}

// round measures the empty handler and then each mix over as many connections. Redeeming has the
// empty handler to itself: its requests are shorter than hits.
func (m *measurer) round(ctx context.Context, connections int) error {
	base, err := driveNoop(ctx, m.noop, connections, m.duration)
	if err != nil {
		return err
	}

	fmt.Fprintf(m.progress, "%-9s %-10s %4d connections: %7.0f/s\n", m.report.Engine, "empty", connections, base.throughput())

	for _, mix := range append(slices.Clone(benchMixes), stepNames[redeeming]) {
		one, err := m.measure(ctx, mix, connections, base)
		if err != nil {
			return err
		}

		fmt.Fprintf(m.progress, "%-9s %-10s %4d connections: %7.0f/s, %.2f of empty, p50 %.2f ms, p99 %.2f ms (%.2f of empty), %.1f + %.1f µs CPU, %.0f MB, failed: %s\n",
			m.report.Engine, mix, connections, one.Throughput, one.OfNoop, one.P50, one.P99, one.P99OfNoop, one.ServerCPU, one.DatabaseCPU, megabytes(one.PeakMemory), percent(one.FailedShare))

		all := m.find(mix, connections)
		all.rounds = append(all.rounds, one)
	}

	return ctx.Err()
}

// find returns the case that rounds are added to.
func (m *measurer) find(mix string, connections int) *measurement {
	for _, one := range m.report.Measurements {
		if one.Mix == mix && one.Connections == connections {
			return one
		}
	}

	one := &measurement{Engine: m.report.Engine, Mix: mix, Connections: connections}
	m.report.Measurements = append(m.report.Measurements, one)
	return one
}

// measure measures the server once.
func (m *measurer) measure(ctx context.Context, mix string, connections int, base *result) (one measurement, err error) {
	l := load{connections: connections, warmup: min(m.duration/5, time.Second), duration: m.duration, least: leastAnswers, watched: []int{m.bench.server.pid()}}

	if m.bench.postgres != nil {
		l.watched = append(l.watched, m.bench.postgres.Pid())
	}

	phase := func() *result { return m.scene.phase(ctx, m.journal, l, mixes[mix]) }

	if mix == stepNames[redeeming] {
		if base, phase, err = m.captcha.prepare(ctx, m.noop, l); err != nil {
			return one, err
		}
	}

	before, err := m.storage(ctx)
	if err != nil {
		return one, err
	}

	r := phase()
	after, err := m.storage(ctx)
	if err != nil {
		return one, err
	}
	if err := r.enough(); err != nil {
		return one, fmt.Errorf("%w; the server's log:\n%s", err, m.bench.server.logged())
	}

	hits := float64(r.served())
	withWarmup := hits + float64(r.others)
	one = measurement{
		Throughput: r.throughput(), OfNoop: r.throughput() / base.throughput(),
		P50: milliseconds(r.latency.quantile(0.5)), P99: milliseconds(r.latency.quantile(0.99)), NoopP99: milliseconds(base.latency.quantile(0.99)),
		ServerCPU: float64(r.cost.CPU.Microseconds()) / hits, NoopCPU: float64(base.cost.CPU.Microseconds()) / float64(base.served()),
		DatabaseCPU: float64(r.cost.OtherCPU.Microseconds()) / hits,
		PeakMemory:  r.cost.PeakMemory, FailedShare: r.failedShare(),
		BytesPerHit: float64(after.Tables-before.Tables) / withWarmup, LogPerHit: float64(after.Log-before.Log) / withWarmup,
	}

	one.P99OfNoop = one.P99 / one.NoopP99

	// whose rows are others than those that were copied
	if mix != stepNames[redeeming] {
		one.OfBulk = one.Throughput / m.report.BulkRate
	}

	return one, nil
}

func (m *measurer) storage(ctx context.Context) (s bulk.Storage, err error) {
	err = m.bench.withDatabase(func(d *db.DB) error {
		s, err = bulk.Measure(ctx, d)
		return err
	})
	return s, err
}

// settle takes the medians of the rounds, and the largest memory and share of failures.
func (m *measurement) settle() {
	for _, field := range []func(*measurement) *float64{
		func(m *measurement) *float64 { return &m.Throughput }, func(m *measurement) *float64 { return &m.OfNoop },
		func(m *measurement) *float64 { return &m.OfBulk }, func(m *measurement) *float64 { return &m.P50 },
		func(m *measurement) *float64 { return &m.P99 }, func(m *measurement) *float64 { return &m.NoopP99 },
		func(m *measurement) *float64 { return &m.P99OfNoop }, func(m *measurement) *float64 { return &m.ServerCPU },
		func(m *measurement) *float64 { return &m.NoopCPU },
		func(m *measurement) *float64 { return &m.DatabaseCPU }, func(m *measurement) *float64 { return &m.BytesPerHit },
		func(m *measurement) *float64 { return &m.LogPerHit },
	} {
		var values []float64
		for i := range m.rounds {
			values = append(values, *field(&m.rounds[i]))
		}

		*field(m) = median(values)
	}

	for _, one := range m.rounds {
		m.PeakMemory, m.FailedShare = max(m.PeakMemory, one.PeakMemory), max(m.FailedShare, one.FailedShare)
	}
}

// median is the middle value; of an even number the lower middle one; of none 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
