package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// AttackReport measures the cost of the most expensive reports of an account on the FREE plan, and
// of the reader of a shared link, for the process and another account.
type AttackReport struct {
	Private
	Engine       string        `long:"engine" default:"sqlite" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Database: sqlite, or a private postgres."`
	Events       int           `long:"events" default:"10000" value-name:"N" description:"Events that the attacker sends, each with as many properties as fit."`
	EventRate    float64       `long:"event-rate" default:"900" value-name:"N" description:"Events that the attacker sends a second."`
	DayEvents    int           `long:"day-events" default:"50000" value-name:"N" description:"Such events of the day that the worker builds."`
	Calm         time.Duration `long:"calm" default:"8s" value-name:"TIME" description:"Duration of each measurement without an attack, and the least duration of one with it."`
	Duration     time.Duration `long:"duration" default:"20s" value-name:"TIME" description:"Duration of the attack over 8 connections."`
	Window       time.Duration `long:"window" default:"5s" value-name:"TIME" description:"Duration of each measurement of processor time."`
	Patience     time.Duration `long:"patience" default:"10m" value-name:"TIME" description:"Longest wait for the worker's build."`
	Settle       time.Duration `long:"settle" default:"1m" value-name:"TIME" description:"Longest measurement after a report without an answer, whose work may continue."`
	AddressSpace int64         `long:"address-space" default:"6144" value-name:"MB" description:"Bound of the service's address space, at which it terminates."`
	HitsFloor    time.Duration `long:"hits-floor" default:"20ms" value-name:"TIME" description:"A p99 of hits that meets the goal on any machine."`
	ReportsFloor time.Duration `long:"reports-floor" default:"50ms" value-name:"TIME" description:"A p95 of reports that meets the goal on any machine."`
	Observe      bool          `long:"observe" description:"Exit with status 0 even if a goal is missed."`
}

// Validate checks the limits of the flags.
func (c *AttackReport) Validate() error {
	return errors.Join(within("--events", c.Events, 1, 1_000_000), within("--day-events", c.DayEvents, 1, 10_000_000),
		within("--event-rate", c.EventRate, 0.001, 100_000), within("--address-space", c.AddressSpace, 1024, 1<<20),
		within("--hits-floor", c.HitsFloor, 0, longest), within("--reports-floor", c.ReportsFloor, 0, longest),
		within("--calm", c.Calm, shortest, longest), within("--duration", c.Duration, shortest, longest),
		within("--window", c.Window, shortest, longest), within("--patience", c.Patience, shortest, longest),
		within("--settle", c.Settle, shortest, longest))
}

// Play implements Scenario. A missed goal is a fault.
func (c *AttackReport) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "attack-report"}
	return o, c.on(c.Engine, o, progress, func(s *stage) error {
		steps, err := c.attack(ctx, s.in, progress)
		c.conclude(s.outcome, steps)
		if err != nil {
			// The steps until then show what happened.
			fmt.Fprint(progress, s.outcome.Text)
			return fmt.Errorf("%w; the server's log:\n%s", err, s.in.Server.Logged())
		}
		return nil
	})
}

// attack runs all steps on a new instance. After an error it returns the steps until then.
func (c *AttackReport) attack(ctx context.Context, b *instance.Instance, progress io.Writer) ([]reportStep, error) {
	// As in an installation that is open to everybody: one process with the default flood limit.
	b.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	b.Server.Env["TALLYGATE_SIGNUPS"] = "open"
	b.Server.Env["TALLYGATE_DEFAULT_SITE_PLAN"] = "FREE"
	delete(b.Server.Env, "TALLYGATE_FLOOD_BURST")
	b.Server.AddressSpace = c.AddressSpace << 20

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	a := &reportAttack{AttackReport: c, in: b, progress: progress}
	if err := a.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare the accounts: %w", err)
	}

	for _, part := range []func(context.Context) error{a.properties, a.day, a.patterns, a.turns} {
		var err error
		if a.calmed, err = a.calm(ctx); err == nil {
			err = part(ctx)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return a.steps, err
		}
	}

	return a.steps, nil
}

// reportAttack runs the steps.
type reportAttack struct {
	*AttackReport
	in       *instance.Instance
	progress io.Writer

	honest             *target.Account
	readSite           target.Site // of the honest account
	hostile            *target.Account
	eventSite, daySite target.Site // of the attacker
	pathSite           target.Site
	eventReader        *target.Account // of the shared link of eventSite
	pathReader         *target.Account

	others   *bystanders // hits of the honest account
	asked    questions
	answered atomic.Int64 // reports of the honest account since the last one without figures
	accepted question     // with the longest patterns that the service accepts
	built    bool         // the worker has built yesterday of daySite
	calmed   *period      // the measurement before the attacks of this part
	steps    []reportStep
}

// measureStep measures a step until attack returns, which sets its outcome.
func (a *reportAttack) measureStep(ctx context.Context, s *reportStep, attack func(context.Context) error) (err error) {
	s.calm = a.calmed
	if s.during, err = a.measure(ctx, attack); err != nil {
		return err
	}

	a.steps = append(a.steps, *s)
	fmt.Fprintf(a.progress, "%s: %s\n", s.name, s.outcome)
	if s.during.failures() > 0 {
		fmt.Fprintf(a.progress, "%s: reports of the other account: %s\n", s.name, countsText(s.during.failed))
	}
	return nil
}

// reportPatience is how long the attacker waits for a report: longer than the service's own
// deadlines.
const reportPatience = 35 * time.Second

// step measures a report that the attacker asks for again and again, from a fresh process on.
func (a *reportAttack) step(ctx context.Context, name string, q question) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	s := &reportStep{name: name}
	return a.measureStep(ctx, s, func(ctx context.Context) error {
		asked := a.keepAsking(ctx, q, reportPatience, a.Calm)
		a.settle(ctx, &asked)
		s.outcome, s.slot = asked.String(), asked.longest
		return nil
	})
}

// properties sends events with many properties, and asks for reports of them.
func (a *reportAttack) properties(ctx context.Context) error {
	if err := a.eventStep(ctx); err != nil {
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
			if err := a.step(ctx, fmt.Sprintf("%s, %s", report.name, caller.name), q); err != nil {
				return err
			}
		}
	}

	return nil
}

// eventStep sends the events, and counts how many are stored.
func (a *reportAttack) eventStep(ctx context.Context) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	s := &reportStep{name: fmt.Sprintf("%d events", a.Events)}
	return a.measureStep(ctx, s, func(ctx context.Context) error {
		began := time.Now()
		s.outcome = sendEvents(ctx, a.in.Server.Data, a.eventSite.Secret, a.Events, a.EventRate)
		_ = load.Wait(ctx, a.Calm-time.Since(began))
		if a.in.Server.Ended() {
			return nil
		}
		used, err := a.hostile.Usage(ctx, a.eventSite.ID)
		s.outcome = fmt.Sprintf("%d stored: %s", used.Pageviews, s.outcome)
		return err
	})
}

// day stores such events of yesterday, and lets the worker build that day.
func (a *reportAttack) day(ctx context.Context) error {
	if err := a.in.Server.Stop(); err != nil {
		return err
	}
	var day model.Day
	if err := a.in.WithDatabase(func(d *db.DB) (err error) {
		day, err = storeDay(ctx, d, a.daySite.ID, a.DayEvents)
		return err
	}); err != nil {
		return fmt.Errorf("store a day of events: %w", err)
	}
	if err := a.in.Server.Start(ctx); err != nil {
		return err
	}

	s := &reportStep{name: fmt.Sprintf("worker, day of %d events", a.DayEvents), peakGoal: dayMemoryGoal}
	return a.measureStep(ctx, s, func(ctx context.Context) (err error) {
		began := time.Now()
		a.built, err = awaitDay(ctx, a.in, a.daySite.ID, day, a.Patience)
		s.unfinished = !a.built

		switch took := time.Since(began).Seconds(); {
		case a.in.Server.Ended():
			s.outcome = fmt.Sprintf("process terminated after %.0f s", took)
		case a.built:
			s.outcome = fmt.Sprintf("built %.0f s after the start", took)
		default:
			s.outcome = fmt.Sprintf("not built after %.0f s", took)
		}
		return err
	})
}

// leaveAfter is how long a client waits for a report with patterns.
const leaveAfter = time.Second

// patterns asks for reports with many asterisks in the patterns of a filter, from clients that
// leave.
func (a *reportAttack) patterns(ctx context.Context) error {
	owner := question{caller: a.hostile, site: a.pathSite.ID, fields: "totals { visitors }"}
	if err := a.patternStep(ctx, "patterns, owner", owner); err != nil {
		return err
	}
	return a.patternStep(ctx, "patterns, shared link", question{caller: a.pathReader, fields: "totals { visitors }"})
}

// patternStep finds the longest patterns that the service accepts, and measures the processor time
// after the client has left, then another account.
func (a *reportAttack) patternStep(ctx context.Context, name string, q question) error {
	if err := a.fresh(ctx); err != nil {
		return err
	}

	// The honest account asks for nothing meanwhile, so that all processor time is the attack's.
	_ = load.Wait(ctx, leaveAfter)
	idle := a.processorTime(ctx, a.Window)
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

	_ = load.Wait(ctx, leaveAfter)
	s := &reportStep{name: name, left: true, after: max(a.processorTime(ctx, a.Window)-idle, 0)}
	if accepted {
		a.accepted = q
	}

	return a.measureStep(ctx, s, func(ctx context.Context) error {
		asked := a.keepAsking(ctx, q, leaveAfter, a.Calm)
		s.outcome, s.slot = strings.Join(append(refusals, asked.String()), "; "), asked.longest
		return nil
	})
}

// processorTime returns the processor time that the process uses within the given time from now.
func (a *reportAttack) processorTime(ctx context.Context, within time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return process.Watch(ctx, a.in.Server.Pid(), nil).CPU
}

// turnConnections is the number of the attacker's connections that ask for reports.
const turnConnections = 8

// turns asks for the most expensive report over several connections.
func (a *reportAttack) turns(ctx context.Context) error {
	q, name, slot, err := a.mostExpensive(ctx)
	if err != nil {
		return err
	}
	if err := a.fresh(ctx); err != nil {
		return err
	}

	s := &reportStep{name: fmt.Sprintf("%d connections, %s", turnConnections, name), slot: slot}
	return a.measureStep(ctx, s, func(ctx context.Context) error {
		all := attempts{began: time.Now()}
		each := make(chan attempts)
		for range turnConnections {
			go func() { each <- a.keepAsking(ctx, q, reportPatience, a.Duration) }()
		}
		for range turnConnections {
			all.merge(<-each)
		}
		s.outcome = fmt.Sprintf("alone %.1f s: %v", slot.Seconds(), all)
		return nil
	})
}

// mostExpensive returns the report that takes longest alone and does not terminate the process. It
// may be refused late.
func (a *reportAttack) mostExpensive(ctx context.Context) (q question, name string, slot time.Duration, err error) {
	type candidate struct {
		name string
		q    question
	}
	candidates := []candidate{
		{"totals", question{caller: a.hostile, site: a.eventSite.ID, fields: "totals { visitors }"}},
		{"breakdowns of today", question{caller: a.hostile, site: a.eventSite.ID, fields: propertyBreakdowns}},
		{"breakdowns of yesterday", question{caller: a.hostile, site: a.daySite.ID, period: "YESTERDAY", fields: propertyBreakdowns}},
	}
	if !a.built {
		candidates = candidates[:2]
	}

	for _, one := range append(candidates, candidate{"patterns", a.accepted}) {
		if one.q.caller == nil {
			continue
		}
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
		if !a.in.Server.Ended() && took > slot {
			q, name, slot = one.q, one.name, took
		}
	}

	if q.caller == nil {
		return q, "", 0, errors.New("each of the attacker's reports terminates the process")
	}
	return q, name, slot, nil
}
