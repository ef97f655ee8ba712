package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// ReportCommand measures the cost of the most expensive reports of an account on the FREE plan, and
// of the reader of a shared link, for the process and another account.
type ReportCommand struct {
	Program      string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engine       string        `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Events       int           `default:"10000" placeholder:"N" help:"Events that the attacker sends, each with as many properties as fit."`
	EventRate    float64       `default:"900" placeholder:"N" help:"Events that the attacker sends a second."`
	DayEvents    int           `default:"50000" placeholder:"N" help:"Such events of the day that the worker builds."`
	Calm         time.Duration `default:"8s" placeholder:"TIME" help:"Duration of each measurement without an attack, and the least duration of one with it."`
	Duration     time.Duration `default:"20s" placeholder:"TIME" help:"Duration of the attack over 8 connections."`
	Window       time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement of processor time."`
	Patience     time.Duration `default:"10m" placeholder:"TIME" help:"Longest wait for the worker's build."`
	Settle       time.Duration `default:"1m" placeholder:"TIME" help:"Longest measurement after a report without an answer, whose work may continue."`
	AddressSpace int64         `default:"6144" placeholder:"MB" help:"Bound of the service's address space, at which it terminates."`
	HitsFloor    time.Duration `default:"20ms" placeholder:"TIME" help:"A p99 of hits that meets the goal on any machine."`
	ReportsFloor time.Duration `default:"50ms" placeholder:"TIME" help:"A p95 of reports that meets the goal on any machine."`
	Observe      bool          `help:"Exit with status 0 even if a goal is missed."`
}

// Validate checks the limits of the flags.
func (c *ReportCommand) Validate() error {
	switch {
	case c.Events < 1 || c.Events > 1_000_000:
		return fmt.Errorf("--events: %d is not from 1 to 1000000", c.Events)
	case c.DayEvents < 1 || c.DayEvents > 10_000_000:
		return fmt.Errorf("--day-events: %d is not from 1 to 10000000", c.DayEvents)
	case c.EventRate <= 0 || c.EventRate > 100_000:
		return fmt.Errorf("--event-rate: %v is not more than 0 and at most 100000", c.EventRate)
	case c.AddressSpace < 1024 || c.AddressSpace > 1<<20:
		return fmt.Errorf("--address-space: %d is not from 1024 to 1048576", c.AddressSpace)
	case c.HitsFloor < 0 || c.ReportsFloor < 0:
		return errors.New("--hits-floor and --reports-floor: must not be negative")
	}

	for _, flag := range []struct {
		name  string
		value time.Duration
	}{{"calm", c.Calm}, {"duration", c.Duration}, {"window", c.Window}, {"patience", c.Patience}, {"settle", c.Settle}} {
		if flag.value <= 0 || flag.value > time.Hour {
			return fmt.Errorf("--%s: %v is not more than 0 and at most 1h", flag.name, flag.value)
		}
	}

	return nil
}

// errGoals is returned if a goal is missed.
var errGoals = errors.New("the attack harmed the process or the other account")

// Run prints the table of all steps. It returns an error if a goal is missed.
func (c *ReportCommand) Run(ctx context.Context, term report.Terminal) error {
	b, err := instance.New(c.Program, c.Engine)
	if err != nil {
		return err
	}
	defer b.Close()

	steps, err := c.attack(ctx, b, term.Log)
	if len(steps) > 0 {
		printReportSteps(term.Out, c, steps)
	}
	if err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, b.Server.Logged())
	}

	for i := range steps {
		if len(steps[i].missed(c)) > 0 && !c.Observe {
			return errGoals
		}
	}

	return nil
}

// attack runs all steps on a new instance. After an error it returns the steps until then.
func (c *ReportCommand) attack(ctx context.Context, b *instance.Instance, progress io.Writer) ([]reportStep, error) {
	// As in an installation that is open to everybody: one process with the default flood limit.
	b.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	b.Server.Env["TALLYGATE_SIGNUPS"] = "open"
	b.Server.Env["TALLYGATE_DEFAULT_SITE_PLAN"] = "FREE"
	delete(b.Server.Env, "TALLYGATE_FLOOD_BURST")
	b.Server.AddressSpace = c.AddressSpace << 20

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	a := &reportAttack{command: c, instance: b, progress: progress}
	if err := a.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare the accounts: %w", err)
	}

	for _, part := range []func(context.Context) error{a.properties, a.day, a.patterns, a.turns} {
		err := part(ctx)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return a.steps, err
		}
	}

	return a.steps, nil
}

// reportAttack runs the steps.
type reportAttack struct {
	command  *ReportCommand
	instance *instance.Instance
	progress io.Writer

	honest             *target.Account
	hitSite, readSite  target.Site // of the honest account
	hostile            *target.Account
	eventSite, daySite target.Site // of the attacker
	pathSite           target.Site
	eventReader        *target.Account // of the shared link of eventSite
	pathReader         *target.Account

	asked     questions
	answered  atomic.Int64 // reports of the honest account since the last one without figures
	hitRounds atomic.Int64
	accepted  question // with the longest patterns that the service accepts
	built     bool     // the worker has built the day of daySite
	steps     []reportStep
}

// add adds a finished step and prints its outcome.
func (a *reportAttack) add(s reportStep) {
	a.steps = append(a.steps, s)
	fmt.Fprintf(a.progress, "%s: %s\n", s.name, s.outcome)
	if s.during.failures() > 0 {
		fmt.Fprintf(a.progress, "%s: reports of the other account: %s\n", s.name, countsText(s.during.failed))
	}
}

// reportPatience is how long the attacker waits for a report: longer than the service's own
// deadlines.
const reportPatience = 35 * time.Second

// step measures a report that the attacker asks for again and again, from a fresh process on.
func (a *reportAttack) step(ctx context.Context, name string, calm *period, q question) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	var asked attempts
	during, err := a.measure(ctx, func(ctx context.Context) error {
		asked = a.keepAsking(ctx, q, reportPatience, a.command.Calm)
		a.settle(ctx, &asked)
		return nil
	})
	if err != nil {
		return err
	}

	a.add(reportStep{name: name, outcome: asked.String(), slot: asked.longest, calm: calm, during: during})
	return nil
}

// properties sends events with many properties, and asks for reports of them.
func (a *reportAttack) properties(ctx context.Context) error {
	calm, err := a.calm(ctx)
	if err != nil {
		return err
	}
	if err := a.eventStep(ctx, calm); err != nil {
		return err
	}

	for _, caller := range []struct {
		name string
		q    question
	}{{"owner", question{caller: a.hostile, site: a.eventSite.ID}}, {"shared link", question{caller: a.eventReader}}} {
		for _, report := range []struct{ name, fields string }{
			{"totals", "totals { visitors }"}, {"28 property breakdowns", propertyBreakdowns},
			{"property names", propertyNames},
		} {
			q := caller.q
			q.fields = report.fields
			if err := a.step(ctx, fmt.Sprintf("%s, %s", report.name, caller.name), calm, q); err != nil {
				return err
			}
		}
	}

	return nil
}

// eventStep sends the events, and counts how many are stored.
func (a *reportAttack) eventStep(ctx context.Context, calm *period) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	var answers string
	during, err := a.measure(ctx, func(ctx context.Context) error {
		began := time.Now()
		answers = a.sendEvents(ctx)
		pause(ctx, a.command.Calm-time.Since(began))
		return nil
	})
	if err != nil {
		return err
	}

	s := reportStep{name: fmt.Sprintf("%d events", a.command.Events), outcome: answers, calm: calm, during: during}
	if !during.died {
		used, err := a.hostile.Usage(ctx, a.eventSite.ID)
		if err != nil {
			return err
		}
		s.outcome = fmt.Sprintf("%d stored: %s", used.Pageviews, answers)
	}

	a.add(s)
	return nil
}

// day stores such events of yesterday, and lets the worker build that day.
func (a *reportAttack) day(ctx context.Context) error {
	calm, err := a.calm(ctx)
	if err != nil {
		return err
	}

	if err := a.instance.Server.Stop(); err != nil {
		return err
	}
	if err := a.instance.WithDatabase(a.storeDay(ctx)); err != nil {
		return fmt.Errorf("store a day of events: %w", err)
	}
	if err := a.instance.Server.Start(ctx); err != nil {
		return err
	}

	began := time.Now()
	during, err := a.measure(ctx, func(ctx context.Context) (err error) {
		a.built, err = a.awaitDay(ctx)
		return err
	})
	if err != nil {
		return err
	}

	s := reportStep{name: fmt.Sprintf("worker, day of %d events", a.command.DayEvents), calm: calm, during: during,
		peakGoal: dayMemoryGoal, unfinished: !a.built}
	switch took := time.Since(began).Seconds(); {
	case during.died:
		s.outcome = fmt.Sprintf("process terminated after %.0f s", took)
	case a.built:
		s.outcome = fmt.Sprintf("built %.0f s after the start", took)
	default:
		s.outcome = fmt.Sprintf("not built after %.0f s", took)
	}

	a.add(s)
	return nil
}

// leaveAfter is how long a client waits for a report with patterns.
const leaveAfter = time.Second

// patterns asks for reports with many asterisks in the patterns of a filter, from clients that leave.
func (a *reportAttack) patterns(ctx context.Context) error {
	calm, err := a.calm(ctx)
	if err != nil {
		return err
	}

	if err := a.patternStep(ctx, "patterns, owner", calm,
		question{caller: a.hostile, site: a.pathSite.ID, fields: "totals { visitors }"}); err != nil {
		return err
	}
	return a.patternStep(ctx, "patterns, shared link", calm, question{caller: a.pathReader, fields: "totals { visitors }"})
}

// patternStep finds the longest patterns that the service accepts, and measures the processor time
// after the client has left, then another account.
func (a *reportAttack) patternStep(ctx context.Context, name string, calm *period, q question) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	// The honest account asks for nothing meanwhile, so that all processor time is the attack's.
	pause(ctx, leaveAfter)
	idle := a.processorTime(ctx, a.command.Window)
	var refusals []string
	accepted := false

	for _, size := range patternSizes {
		q.filters = size.filter()
		outcome, _ := a.ask(ctx, q, leaveAfter)
		if accepted = isAccepted(outcome); accepted {
			refusals = append(refusals, "asked with "+size.String())
			break
		}
		refusals = append(refusals, fmt.Sprintf("%s for %v", outcome, size))
	}

	pause(ctx, leaveAfter)
	after := max(a.processorTime(ctx, a.command.Window)-idle, 0)
	if accepted {
		a.accepted = q
	}

	var asked attempts
	during, err := a.measure(ctx, func(ctx context.Context) error {
		asked = a.keepAsking(ctx, q, leaveAfter, a.command.Calm)
		return nil
	})
	if err != nil {
		return err
	}

	a.add(reportStep{name: name, outcome: strings.Join(append(refusals, asked.String()), "; "), slot: asked.longest,
		calm: calm, during: during, left: true, after: after})
	return nil
}

// processorTime returns the processor time that the process uses within the given time from now.
func (a *reportAttack) processorTime(ctx context.Context, within time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return process.Watch(ctx, a.instance.Server.Pid(), nil).CPU
}

// turnConnections is the number of the attacker's connections that ask for reports.
const turnConnections = 8

// turns asks for the most expensive report over several connections.
func (a *reportAttack) turns(ctx context.Context) error {
	calm, err := a.calm(ctx)
	if err != nil {
		return err
	}
	q, name, slot, err := a.mostExpensive(ctx)
	if err != nil {
		return err
	}
	if err := a.fresh(ctx); err != nil {
		return err
	}

	all := attempts{began: time.Now()}
	during, err := a.measure(ctx, func(ctx context.Context) error {
		each := make(chan attempts)
		for range turnConnections {
			go func() { each <- a.keepAsking(ctx, q, reportPatience, a.command.Duration) }()
		}
		for range turnConnections {
			all.merge(<-each)
		}
		return nil
	})
	if err != nil {
		return err
	}

	a.add(reportStep{name: fmt.Sprintf("%d connections, %s", turnConnections, name),
		outcome: fmt.Sprintf("alone %.1f s: %v", slot.Seconds(), all), slot: slot, calm: calm, during: during})
	return nil
}

// mostExpensive returns the report that takes longest alone and does not terminate the process. It
// may be refused late.
func (a *reportAttack) mostExpensive(ctx context.Context) (q question, name string, slot time.Duration, err error) {
	candidates := []struct {
		name string
		q    question
	}{
		{"totals", question{caller: a.hostile, site: a.eventSite.ID, fields: "totals { visitors }"}},
		{"breakdowns of today", question{caller: a.hostile, site: a.eventSite.ID, fields: propertyBreakdowns}},
	}
	if a.built {
		candidates = append(candidates, candidates[1])
		last := &candidates[len(candidates)-1]
		last.name, last.q.site, last.q.period = "breakdowns of yesterday", a.daySite.ID, "YESTERDAY"
	}
	if a.accepted.caller != nil {
		candidates = append(candidates, candidates[0])
		last := &candidates[len(candidates)-1]
		last.name, last.q = "patterns", a.accepted
	}

	for _, one := range candidates {
		if err := a.fresh(ctx); err != nil {
			return q, "", 0, err
		}

		// The first answer may include the build of a day, later answers do not.
		var outcome string
		var took time.Duration
		for range 2 {
			outcome, took = a.ask(ctx, one.q, reportPatience)
		}

		fmt.Fprintf(a.progress, "%s, alone: %s after %.1f s\n", one.name, outcome, took.Seconds())
		if !a.instance.Server.Ended() && took > slot {
			q, name, slot = one.q, one.name, took
		}
	}

	if q.caller == nil {
		return q, "", 0, errors.New("each of the attacker's reports terminates the process")
	}
	return q, name, slot, nil
}
