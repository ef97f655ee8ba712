package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Bench measures the service and the limits of the machine in one run: an empty handler and the
// database's bulk copy. Ratios compare with the empty handler in the same round.
type Bench struct {
	Private
	Engines     []string          `long:"engines" defaults:"sqlite,postgres" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, and a private postgres. May be repeated."`
	Connections []int             `long:"connections" defaults:"4,128,256" value-name:"N" description:"Concurrent browsers. May be repeated."`
	Rounds      int               `long:"rounds" default:"3" value-name:"N" description:"Measurements of each case, of which the median is reported."`
	Duration    time.Duration     `long:"duration" default:"5s" value-name:"TIME" description:"Duration of each measurement."`
	Rows        int               `long:"rows" default:"300000" value-name:"N" description:"Page views copied in one transaction to measure the database's limit."`
	Settings    map[string]string `long:"setting" value-name:"NAME=VALUE" key-value-delimiter:"=" description:"Settings of the measured service, as environment variables."`
}

// Validate checks the limits of the flags.
func (c *Bench) Validate() error {
	total := 0
	var errs []error
	for _, n := range c.Connections {
		total += n
		errs = append(errs, within("--connections", n, 1, 4096))
	}
	return errors.Join(append(errs, within("--rounds", c.Rounds, 1, 1000), inAll(total, c.Rounds*(len(benchMixes)+1)),
		within("--duration", c.Duration, shortest, longest), within("--rows", c.Rows, 1, maxBulkRows))...)
}

// benchMixes are the measured traffic mixes. Redeeming captcha tokens is one more case.
var benchMixes = []string{"pageviews", "realistic"}

// openMix is the mix that is also measured with an open loop, so that a slow answer delays no later
// call.
const openMix = "pageviews"

// The units of the figures of a bench, in addition to the figures of a load.
const (
	ofNoop        = "of-empty-handler" // share of its rate
	ofBulk        = "of-bulk-copy"     // share of the engine's rate
	p99OfNoop     = "p99-of-empty-handler"
	noopCPU       = "empty-handler-us/call"
	openRate      = "open-loop-calls/s" // half of the closed loop's rate, each call due at its time
	openP99       = "open-loop-p99-ms"
	openP99OfNoop = "open-loop-p99-of-empty-handler" // at the same rate
	bytesPerHit   = "stored-B/hit"                   // on disk, with indexes and visits
	logPerHit     = "log-B/hit"                      // write-ahead log; PostgreSQL only
	idleMemory    = "idle-memory-B"                  // of an idle process with all roles
)

var benchColumns = []report.Column{
	{Title: "database", Format: "%s", Names: []string{"engine"}},
	{Title: "calls", Format: "%s", Names: []string{"calls"}},
	{Title: "connections", Format: "%s", Names: []string{"connections"}},
	{Title: "a second", Format: "%.0f", Names: []string{report.Rate}},
	{Title: "of the empty handler", Format: "%.2f", Names: []string{ofNoop}},
	{Title: "of bulk copy", Format: "%.3f", Names: []string{ofBulk}},
	{Title: "p50 ms", Format: "%.2f", Names: []string{report.P50}},
	{Title: "p99 ms", Format: "%.2f", Names: []string{report.P99}},
	{Title: "p99 of the empty handler's", Format: "%.2f", Names: []string{p99OfNoop}},
	{Title: "µs CPU a call: server + database", Format: "%.1f + %.1f", Names: []string{report.ServerCPU, report.DatabaseCPU}},
	{Title: "empty handler", Format: "%.1f", Names: []string{noopCPU}},
	{Title: "memory MB", Of: megabytes, Names: []string{report.Memory}},
	{Title: "failed", Of: report.Marked, Names: []string{report.Failed}},
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.0f", report.Megabytes(bytes)) }

// Play implements Scenario.
func (c *Bench) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "bench"}
	if err := c.besideNoop(ctx, c.Engines, o, progress, func(s *stage) error {
		return (&bench{Bench: c, stage: s}).play(ctx)
	}); err != nil {
		return nil, err
	}

	o.Goals = benchGoals(o.Cases, c.Engines)
	cases := slices.DeleteFunc(slices.Clone(o.Cases), func(m *report.Case) bool { return m.Label("calls") == "" })
	o.Head("%s; medians of %d rounds of %v, client, server and database on the same cores.\n\n%s\n%s\n",
		report.Machine(), c.Rounds, c.Duration, report.Table(benchColumns, cases), report.GoalTable(o.Goals))
	return o, nil
}

// bench measures one engine.
type bench struct {
	*Bench
	*stage
	tokens *captcha.Run
	bulk   float64 // rows a second
}

// play prepares the engine, and measures all rounds.
func (b *bench) play(ctx context.Context) error {
	maps.Copy(b.in.Server.Env, b.Settings)
	if err := b.prepare(ctx); err != nil {
		return err
	}

	for range b.Rounds {
		for _, connections := range b.Connections {
			if err := b.round(ctx, connections); err != nil {
				return err
			}
		}
	}
	return b.finish(ctx)
}

// prepare measures bulk copy and the idle process, and creates sites and a sitekey.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.bulk, err = bulkRate(ctx, b.in, b.Rows); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "%s: copies %.0f page views a second\n", b.engine, b.bulk)
	b.in.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	if err := b.in.Server.Start(ctx); err != nil {
		return err
	}

	// Leave the server idle before its memory is read.
	_ = load.Wait(ctx, b.Duration)
	all := b.outcome.Case("engine", b.engine)
	all.Add(bulkRows, b.bulk)
	all.Add(idleMemory, float64(process.Memory(b.in.Server.Pid())))

	if err := b.open(ctx, b.in.Server, standard("realistic", 20)); err != nil {
		return err
	}
	sitekey, secret, err := b.session.Account.PrepareSitekey(ctx)
	if err != nil {
		return err
	}
	b.tokens = captcha.NewRun(b.in.Server.Data, sitekey, secret, load.Load{})

	// Measure the data plane alone: signing up leaves memory behind that it never needs.
	return b.in.Server.RestartAs(ctx, "data")
}

// finish verifies hits and tokens.
func (b *bench) finish(ctx context.Context) error {
	if err := b.in.Server.RestartAs(ctx, "control"); err != nil {
		return err
	}
	used, err := b.session.Account.CaptchaUsage(ctx)
	if err != nil {
		return err
	}
	tokens := &b.tokens.Verdict
	tokens.Compare(target.CaptchaUsage{Period: used.Period}, used)
	b.outcome.Tokens = tokens
	b.outcome.AddUnexpected(b.tokens.Unexpected.Counts)
	if err := b.close(ctx); err != nil {
		return err
	}

	number := map[bool]string{true: "their number", false: "**another number**"}[tokens.Wrong == 0]
	b.outcome.Write("%s copies %.0f page views a second in bulk. Of the hits of these runs %s.\n"+
		"Of the captcha tokens %d were accepted, %d of them twice; %d genuine ones were refused, and the account's usage is %s.\n",
		b.engine, b.bulk, b.outcome.Hits.Counts(), tokens.Accepted, tokens.Doubled, tokens.Lost, number)
	return nil
}

// round measures the empty handler and then each case over the same number of connections.
// Redeeming has its own measurement of the empty handler, because its requests are shorter than
// hits.
func (b *bench) round(ctx context.Context, connections int) error {
	base, err := driveNoop(ctx, b.noop, connections, b.Duration, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "%-9s %-10s %4d connections: %7.0f/s\n", b.engine, "empty", connections, base.Throughput())

	for _, calls := range append(slices.Clone(benchMixes), captcha.StepNames[captcha.Redeeming]) {
		c := b.outcome.Case("engine", b.engine, "calls", calls, "connections", connections)
		if err := b.measureCalls(ctx, c, calls, connections, base); err != nil {
			return err
		}
		fmt.Fprintf(b.progress,
			"%-9s %-10s %4d connections: %7.0f/s, %.2f of empty, p50 %.2f ms, p99 %.2f ms (%.2f of empty), %.1f + %.1f µs CPU, %.0f MB, failed: %s\n",
			b.engine, calls, connections, c.Last(report.Rate), c.Last(ofNoop), c.Last(report.P50), c.Last(report.P99), c.Last(p99OfNoop),
			c.Last(report.ServerCPU), c.Last(report.DatabaseCPU), report.Megabytes(c.Last(report.Memory)), report.Percent(c.Last(report.Failed)))

		if calls == openMix {
			if err := b.openLoop(ctx, c, connections); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// measureCalls measures one kind of calls once.
func (b *bench) measureCalls(ctx context.Context, c *report.Case, calls string, connections int, base *load.Result) error {
	databases, err := b.in.DatabasePids(ctx)
	if err != nil {
		return err
	}
	l := measured(connections, b.Duration, append([]int{b.in.Server.Pid()}, databases...)...)
	isCaptcha := calls == captcha.StepNames[captcha.Redeeming]
	phase := func() *load.Result { return b.phase(ctx, l, calls) }
	if isCaptcha {
		if base, phase, err = b.rehearse(ctx, l); err != nil {
			return err
		}
	}

	before, err := b.storage(ctx)
	if err != nil {
		return err
	}
	r := phase()
	after, err := b.storage(ctx)
	if err := errors.Join(err, b.enough(ctx, r)); err != nil {
		return err
	}

	c.AddResult(r)
	withWarmup := float64(r.Served() + r.Others)
	c.Add(ofNoop, r.Throughput()/base.Throughput())
	c.Add(p99OfNoop, c.Last(report.P99)/report.Milliseconds(base.Latency.Quantile(0.99)))
	c.Add(noopCPU, float64(base.Cost.CPU.Microseconds())/float64(base.Served()))
	c.Add(bytesPerHit, float64(after.Tables-before.Tables)/withWarmup)
	c.Add(logPerHit, float64(after.Log-before.Log)/withWarmup)

	// Captcha rows cannot be compared with copied page views.
	if !isCaptcha {
		c.Add(ofBulk, r.Throughput()/b.bulk)
	}
	return nil
}

const (
	// tokensPerSecond is the number of tokens that are prepared per second of a measurement. A
	// faster server ends its measurement early.
	tokensPerSecond = 10_000

	// obtaining is the number of connections that prepare tokens before the measurement.
	obtaining = 128
)

// rehearse obtains tokens, sends the redeeming requests to the empty handler, and returns its
// result and the function that redeems the tokens. Each token is redeemed once, so that every
// response stands for a committed row. A tenth of the responses of both is warm-up.
func (b *bench) rehearse(ctx context.Context, l load.Load) (base *load.Result, phase func() *load.Result, err error) {
	tokens := min(max(int(tokensPerSecond*l.Duration.Seconds()), 2*load.MinAnswers), 3*captcha.LapTokens)
	run := b.tokens
	run.Load = load.Load{Addr: b.in.Server.Data, Connections: obtaining}
	attempts := captcha.Once(run.Obtain(ctx, tokens))
	if len(attempts) < tokens-tokens/10 {
		return nil, nil, fmt.Errorf("only %d of %d tokens were obtained: %v",
			len(attempts), tokens, run.Results[captcha.Asking].Answers)
	}

	l.Addr, l.Warmup, l.WarmAnswers = b.in.Server.Data, 0, max(int64(len(attempts)/10), 1)
	run.Load = l
	base = run.Rehearse(ctx, b.noop.Data, b.noop.Pid(), captcha.Redeeming, attempts)
	return base, func() *load.Result { return run.Redeem(ctx, attempts) }, base.AllAccepted()
}

// openLoop measures the latency of the server and of the empty handler at half of the rate that the
// server reached in a closed loop.
func (b *bench) openLoop(ctx context.Context, c *report.Case, connections int) error {
	rate := c.Last(report.Rate) / 2
	base, err := driveNoop(ctx, b.noop, connections, b.Duration, rate)
	if err != nil {
		return err
	}

	l := measured(connections, b.Duration)
	l.Rate = rate
	r := b.phase(ctx, l, openMix)
	if err := b.enough(ctx, r); err != nil {
		return err
	}

	c.Add(openRate, rate)
	c.Add(openP99, report.Milliseconds(r.Latency.Quantile(0.99)))
	c.Add(openP99OfNoop, c.Last(openP99)/report.Milliseconds(base.Latency.Quantile(0.99)))
	c.Raise(report.Failed, r.FailedShare())
	fmt.Fprintf(b.progress, "%-9s %-10s %4d connections: at %.0f/s p99 %.2f ms (%.2f of empty), failed: %s\n",
		b.engine, openMix, connections, rate, c.Last(openP99), c.Last(openP99OfNoop), report.Percent(r.FailedShare()))
	return nil
}

func (b *bench) storage(ctx context.Context) (s bulk.Storage, err error) {
	err = b.in.WithDatabase(func(d *db.DB) error {
		s, err = bulk.Measure(ctx, d)
		return err
	})
	return s, err
}
