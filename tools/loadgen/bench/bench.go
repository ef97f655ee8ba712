// Package bench measures the service against the limits of the machine: an empty handler and the
// database's bulk copy. Its commands start private servers and write the tables of
// docs/performance.md.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command measures the service and the limits of the machine in one run, and writes the table of
// ratios.
type Command struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines     []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Connections []int         `default:"4,128,256" placeholder:"N" help:"Concurrent browsers."`
	Rounds      int           `default:"3" placeholder:"N" help:"Measurements of each case, of which the median is reported."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement."`
	Rows        int           `default:"300000" placeholder:"N" help:"Page views copied in one transaction to measure the database's limit."`
	Out         string        `placeholder:"FILE" help:"Markdown file whose section of tables is replaced."`
	JSON        bool          `name:"json" help:"Print the measurements as JSON."`

	Settings map[string]string `name:"setting" placeholder:"NAME=VALUE" help:"Settings of the measured service, as environment variables."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	total := 0
	for _, n := range c.Connections {
		if total += n; n < 1 {
			return fmt.Errorf("--connections: %d is less than 1", n)
		}
	}

	switch {
	case c.Rounds < 1 || total*c.Rounds*(len(benchMixes)+1) > traffic.MaxConnections:
		return fmt.Errorf("--rounds: %d is less than 1, or gives more than %d connections in all",
			c.Rounds, traffic.MaxConnections)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	case c.Rows < 1 || c.Rows > maxBulkRows:
		return fmt.Errorf("--rows: %d is not from 1 to %d", c.Rows, maxBulkRows)
	}

	return nil
}

// benchMixes are the measured traffic mixes. Redeeming captcha tokens is one more case.
var benchMixes = []string{"pageviews", "realistic"}

// measurement is the median of the rounds of one case. Ratios compare with the empty handler in the
// same round.
type measurement struct {
	Engine      string  `json:"engine"`
	Mix         string  `json:"mix"`
	Connections int     `json:"connections"`
	Throughput  float64 `json:"throughput"` // processed calls per second
	OfNoop      float64 `json:"ofNoop"`     // share of the empty handler's throughput
	OfBulk      float64 `json:"ofBulk"`     // share of the engine's bulk copy rate
	P50         float64 `json:"p50Ms"`
	P99         float64 `json:"p99Ms"`
	NoopP99     float64 `json:"noopP99Ms"`
	P99OfNoop   float64 `json:"p99OfNoop"`
	ServerCPU   float64 `json:"serverCPUMicros"`   // per hit
	NoopCPU     float64 `json:"noopCPUMicros"`     // of the empty handler's process, per call
	DatabaseCPU float64 `json:"databaseCPUMicros"` // per hit; PostgreSQL only
	// With half of the closed loop's rate, each call due at its time. 0: not measured.
	OpenRate      float64 `json:"openRate"`
	OpenP99       float64 `json:"openP99Ms"`
	OpenP99OfNoop float64 `json:"openP99OfNoop"`  // at the same rate
	PeakMemory    int64   `json:"peakMemory"`     // of the server, bytes
	BytesPerHit   float64 `json:"bytesPerHit"`    // on disk, with indexes and visits
	LogPerHit     float64 `json:"logBytesPerHit"` // write-ahead log; PostgreSQL only
	FailedShare   float64 `json:"failedShare"`    // share of calls with status 503, 429 or no response, in the worst round
	rounds        []measurement
}

// EngineReport is the result of one engine.
type EngineReport struct {
	Engine       string           `json:"engine"`
	BulkRate     float64          `json:"bulkRowsPerSecond"`
	IdleMemory   int64            `json:"idleMemory"` // of an idle process with all roles, bytes
	Measurements []*measurement   `json:"measurements"`
	Verdict      *verify.Verdict  `json:"verdict"`
	Captcha      *captcha.Verdict `json:"captcha"`
	// Responses that violate the contract, by description.
	Unexpected        map[string]int64 `json:"unexpected,omitempty"`
	UnexpectedCaptcha map[string]int64 `json:"unexpectedCaptcha,omitempty"`
}

// Run measures all engines and prints the tables. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	noop, err := instance.StartNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.Kill()

	var reports []*EngineReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, noop, term.Log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}

		reports = append(reports, r)
	}

	tables := benchTables(reports, c)

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(reports)
	} else {
		_, err = io.WriteString(term.Out, tables)
	}

	for _, r := range reports {
		err = errors.Join(err, r.check(term.Log))
	}

	// Write only results without a fault.
	if err != nil || c.Out == "" {
		return err
	}

	return report.ReplaceSection(c.Out, "bench-report", tables)
}

// check prints the faults, and returns an error if there are any.
func (r *EngineReport) check(w io.Writer) (err error) {
	if !r.Verdict.Complete() || len(r.Unexpected) > 0 {
		fmt.Fprint(w, r.Engine, ": ")
		r.Verdict.Print(w)
		report.PrintCounts(w, "UNEXPECTED answers", r.Unexpected)
		err = verify.ErrFaults
	}

	if !r.Captcha.OK() || len(r.UnexpectedCaptcha) > 0 {
		fmt.Fprint(w, r.Engine, ": ")
		r.Captcha.Print(w)
		report.PrintCounts(w, "UNEXPECTED answers", r.UnexpectedCaptcha)
		err = errors.Join(err, captcha.ErrFaults)
	}

	return err
}

// engine measures one engine.
func (c *Command) engine(ctx context.Context, engine string, noop *instance.Server,
	progress io.Writer) (*EngineReport, error) {
	b, err := instance.New(c.Program, engine)
	if err != nil {
		return nil, err
	}
	maps.Copy(b.Server.Env, c.Settings)
	defer b.Close()

	report := &EngineReport{Engine: engine}
	if report.BulkRate, err = bulkRate(ctx, b, c.Rows); err != nil {
		return nil, err
	}

	fmt.Fprintf(progress, "%s: copies %.0f page views a second\n", engine, report.BulkRate)
	b.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	// Leave the server idle before its memory is read.
	select {
	case <-time.After(c.Duration):
	case <-ctx.Done():
	}

	idle, _ := process.Read(b.Server.Pid())
	report.IdleMemory = idle.Memory

	s, err := traffic.NewOwnSession(ctx, b.Server.Target(),
		&traffic.Flags{Mix: "realistic", Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	captcha, err := NewCaptcha(ctx, b, s.Account.Target.Email)
	if err != nil {
		return nil, err
	}

	path := filepath.Join(b.Dir, "journal")
	j, err := s.Begin(ctx, path)
	if err != nil {
		return nil, err
	}

	// Measure the data plane alone: signing up leaves memory behind that it never needs.
	if err := b.Server.Restart(ctx, "data"); err != nil {
		return nil, err
	}

	m := measurer{instance: b, session: s, journal: j, captcha: captcha, noop: noop, report: report,
		duration: c.Duration, progress: progress}

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

	used, err := captcha.Usage(ctx, b)
	if err != nil {
		return nil, err
	}

	report.Captcha = &captcha.Run.Verdict
	report.Captcha.Compare(target.CaptchaUsage{Period: used.Period}, used)
	report.Unexpected, report.UnexpectedCaptcha = s.Unexpected.Counts, captcha.Run.Unexpected.Counts

	if err := errors.Join(j.Close(), b.Server.Restart(ctx, "control")); err != nil {
		return nil, err
	}

	report.Verdict, err = verify.JournalAs(ctx, s.Account, path)
	return report, err
}

// measurer runs the rounds of one engine.
type measurer struct {
	instance *instance.Instance
	session  *traffic.Session
	journal  *traffic.Journal
	captcha  *Captcha
	noop     *instance.Server
	report   *EngineReport
	duration time.Duration
	progress io.Writer
}

// round measures the empty handler and then each case over the same number of connections.
// Redeeming has its own measurement of the empty handler, because its requests are shorter than
// hits.
func (m *measurer) round(ctx context.Context, connections int) error {
	base, err := driveNoop(ctx, m.noop, connections, m.duration, 0)
	if err != nil {
		return err
	}

	fmt.Fprintf(m.progress, "%-9s %-10s %4d connections: %7.0f/s\n",
		m.report.Engine, "empty", connections, base.Throughput())

	for _, mix := range append(slices.Clone(benchMixes), captcha.StepNames[captcha.Redeeming]) {
		one, err := m.measure(ctx, mix, connections, base)
		if err != nil {
			return err
		}

		fmt.Fprintf(m.progress,
			"%-9s %-10s %4d connections: %7.0f/s, %.2f of empty, p50 %.2f ms, p99 %.2f ms (%.2f of empty), %.1f + %.1f µs CPU, %.0f MB, failed: %s\n",
			m.report.Engine, mix, connections, one.Throughput, one.OfNoop, one.P50, one.P99, one.P99OfNoop,
			one.ServerCPU, one.DatabaseCPU, report.Megabytes(one.PeakMemory), report.Percent(one.FailedShare))

		if mix == openMix {
			if err := m.open(ctx, connections, &one); err != nil {
				return err
			}
		}

		all := m.find(mix, connections)
		all.rounds = append(all.rounds, one)
	}

	return ctx.Err()
}

// find returns the measurement of a case, and adds it on first use.
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
func (m *measurer) measure(ctx context.Context, mix string, connections int,
	base *load.Result) (one measurement, err error) {
	l := load.Load{Connections: connections, Warmup: min(m.duration/5, time.Second), Duration: m.duration,
		MinAnswers: load.MinAnswers, Watched: []int{m.instance.Server.Pid()}}

	if m.instance.Postgres != nil {
		l.Watched = append(l.Watched, m.instance.Postgres.Pid())
	}

	phase := func() *load.Result { return m.session.Phase(ctx, m.journal, l, traffic.Mixes[mix]) }

	if mix == captcha.StepNames[captcha.Redeeming] {
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
	if err := r.Enough(); err != nil {
		return one, fmt.Errorf("%w; the server's log:\n%s", err, m.instance.Server.Logged())
	}

	hits := float64(r.Served())
	withWarmup := hits + float64(r.Others)
	one = measurement{
		Throughput: r.Throughput(), OfNoop: r.Throughput() / base.Throughput(),
		P50: report.Milliseconds(r.Latency.Quantile(0.5)), P99: report.Milliseconds(r.Latency.Quantile(0.99)),
		NoopP99:     report.Milliseconds(base.Latency.Quantile(0.99)),
		ServerCPU:   float64(r.Cost.CPU.Microseconds()) / hits,
		NoopCPU:     float64(base.Cost.CPU.Microseconds()) / float64(base.Served()),
		DatabaseCPU: float64(r.Cost.OtherCPU.Microseconds()) / hits,
		PeakMemory:  r.Cost.PeakMemory, FailedShare: r.FailedShare(),
		BytesPerHit: float64(after.Tables-before.Tables) / withWarmup,
		LogPerHit:   float64(after.Log-before.Log) / withWarmup,
	}

	one.P99OfNoop = one.P99 / one.NoopP99

	// Captcha rows cannot be compared with copied page views.
	if mix != captcha.StepNames[captcha.Redeeming] {
		one.OfBulk = one.Throughput / m.report.BulkRate
	}

	return one, nil
}

// openMix is the mix that is also measured with an open loop, so that a slow answer delays no later
// call.
const openMix = "pageviews"

// open measures the latency of the server and of the empty handler at half of the rate that the
// server reached in a closed loop.
func (m *measurer) open(ctx context.Context, connections int, one *measurement) error {
	rate := one.Throughput / 2
	base, err := driveNoop(ctx, m.noop, connections, m.duration, rate)
	if err != nil {
		return err
	}

	l := load.Load{Connections: connections, Rate: rate, Warmup: min(m.duration/5, time.Second), Duration: m.duration,
		MinAnswers: load.MinAnswers}

	r := m.session.Phase(ctx, m.journal, l, traffic.Mixes[openMix])
	if err := r.Enough(); err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, m.instance.Server.Logged())
	}

	one.OpenRate, one.OpenP99 = rate, report.Milliseconds(r.Latency.Quantile(0.99))
	one.OpenP99OfNoop = one.OpenP99 / report.Milliseconds(base.Latency.Quantile(0.99))
	one.FailedShare = max(one.FailedShare, r.FailedShare())

	fmt.Fprintf(m.progress, "%-9s %-10s %4d connections: at %.0f/s p99 %.2f ms (%.2f of empty), failed: %s\n",
		m.report.Engine, openMix, connections, rate, one.OpenP99, one.OpenP99OfNoop, report.Percent(r.FailedShare()))

	return nil
}

func (m *measurer) storage(ctx context.Context) (s bulk.Storage, err error) {
	err = m.instance.WithDatabase(func(d *db.DB) error {
		s, err = bulk.Measure(ctx, d)
		return err
	})
	return s, err
}

// settle sets the medians of the rounds, and the largest memory and share of failures.
func (m *measurement) settle() {
	for _, field := range []func(*measurement) *float64{
		func(m *measurement) *float64 { return &m.Throughput }, func(m *measurement) *float64 { return &m.OfNoop },
		func(m *measurement) *float64 { return &m.OfBulk }, func(m *measurement) *float64 { return &m.P50 },
		func(m *measurement) *float64 { return &m.P99 }, func(m *measurement) *float64 { return &m.NoopP99 },
		func(m *measurement) *float64 { return &m.P99OfNoop }, func(m *measurement) *float64 { return &m.ServerCPU },
		func(m *measurement) *float64 { return &m.NoopCPU },
		func(m *measurement) *float64 { return &m.OpenRate }, func(m *measurement) *float64 { return &m.OpenP99 },
		func(m *measurement) *float64 { return &m.OpenP99OfNoop },
		func(m *measurement) *float64 { return &m.DatabaseCPU },
		func(m *measurement) *float64 { return &m.BytesPerHit },
		func(m *measurement) *float64 { return &m.LogPerHit },
	} {
		var values []float64
		for i := range m.rounds {
			values = append(values, *field(&m.rounds[i]))
		}

		*field(m) = report.Median(values)
	}

	for _, one := range m.rounds {
		m.PeakMemory, m.FailedShare = max(m.PeakMemory, one.PeakMemory), max(m.FailedShare, one.FailedShare)
	}
}
