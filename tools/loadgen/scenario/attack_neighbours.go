package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// AttackNeighbours measures the hits of several sites while the owner of a FREE account, or the
// reader of its shared link, gives the service as much work as it accepts. Each attack has a new
// installation.
type AttackNeighbours struct {
	Private
	Engine    string        `long:"engine" default:"sqlite" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Database: sqlite, or a private postgres."`
	Only      []string      `long:"only" defaults:"reports,worker,import,directory,tools,tools-link,sign-in,settings" choice:"reports" choice:"worker" choice:"import" choice:"directory" choice:"tools" choice:"tools-link" choice:"sign-in" choice:"settings" value-name:"NAME" unquote:"false" description:"Attacks: reports of properties, the worker's build of large days, an import, an archive that is only a list of files, lists of tools with an API token or by a shared link, sign-ins by password, changes of settings. May be repeated."`
	Rate      int           `long:"rate" default:"200" value-name:"N" description:"Hits a second of the other sites, each over a connection of its own, 1 to 4096."`
	Calm      time.Duration `long:"calm" default:"6s" value-name:"TIME" description:"Duration of the measurement before an attack, and of the one after it."`
	Duration  time.Duration `long:"duration" default:"15s" value-name:"TIME" description:"Duration of an attack that does not end by itself."`
	Patience  time.Duration `long:"patience" default:"90s" value-name:"TIME" description:"Longest duration of a build, or of an import after its upload. An import is then canceled."`
	Events    int           `long:"events" default:"5000" value-name:"N" description:"Events of 4 KB that the reports read."`
	DayEvents int           `long:"day-events" default:"60000" value-name:"N" description:"Events of 4 KB of the day that the worker builds."`
	Import    int           `long:"import" default:"256" value-name:"MB" description:"Size of the import, 1 to 256."`
	Directory int           `long:"directory" default:"128" value-name:"MB" description:"Size of the archive that is only a list of files, 1 to 256."`
	Tries     int           `long:"tries" default:"3" value-name:"N" description:"Most measurements of an attack: it is repeated if the calms before and after it differ too much."`
	HitsFloor time.Duration `long:"hits-floor" default:"20ms" value-name:"TIME" description:"A p99 of hits that meets the goal on any machine."`
	Observe   bool          `long:"observe" description:"Exit with status 0 even if hits were slowed down, or were answered with 503 unavailable for it."`
}

// Validate checks the limits of the flags.
func (c *AttackNeighbours) Validate() error {
	return errors.Join(within("--rate", c.Rate, 1, 4096), within("--calm", c.Calm, shortest, longest),
		within("--duration", c.Duration, shortest, longest), within("--patience", c.Patience, shortest, longest),
		within("--events", c.Events, 1, 10_000), within("--day-events", c.DayEvents, 1, 10_000_000),
		within("--import", c.Import, 1, 256), within("--directory", c.Directory, 1, 256), within("--tries", c.Tries, 1, 100),
		within("--hits-floor", c.HitsFloor, 0, longest))
}

const (
	neighbourSites = 5

	// openTime is how long the hits run before they are measured, so that all connections are open.
	openTime = time.Second

	// settleTime is the pause between an attack and the calm after it.
	settleTime = 2 * time.Second
)

// neighboursRow is the measurement of one attack.
type neighboursRow struct {
	before, during, after *load.Result
	achieved              string // what the attacker got
}

// steady reports whether the calms before and after the attack are alike: their p99 differ by a
// factor of 2 at most, or both are within the floor.
func (r *neighboursRow) steady(floor time.Duration) bool {
	one, other := r.before.Latency.Quantile(0.99), r.after.Latency.Quantile(0.99)
	return max(one, other) <= max(2*min(one, other), floor)
}

// calm returns the p99 of both calms together.
func (r *neighboursRow) calm() time.Duration {
	var both load.Histogram
	both.Merge(&r.before.Latency)
	both.Merge(&r.after.Latency)
	return both.Quantile(0.99)
}

// unserved returns the number of hits that were not stored.
func unserved(r *load.Result) int64 { return r.Sent() - r.Answers["204"] + r.Outside }

// Play implements Scenario. A refused hit is a fault, and hits that are slowed down are.
func (c *AttackNeighbours) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "attack-neighbours"}
	for _, name := range c.Only {
		for try := 1; ; try++ {
			var row *neighboursRow
			if err := c.on(c.Engine, new(report.Outcome), progress, func(s *stage) (err error) {
				row, err = c.measure(ctx, s, name)
				return err
			}); err != nil {
				// The rows until now show what happened.
				c.conclude(o)
				fmt.Fprint(progress, o.Text)
				return nil, fmt.Errorf("%s: %w", name, err)
			}

			fmt.Fprintf(progress, "%s: %s; calm p99 %v before, %v during, %v after\n", name, row.achieved, row.before.Latency.Quantile(0.99),
				row.during.Latency.Quantile(0.99), row.after.Latency.Quantile(0.99))
			if row.steady(c.HitsFloor) || try == c.Tries {
				c.add(o, name, try, row)
				break
			}
		}
	}
	c.conclude(o)
	return o, nil
}

// measure measures one attack on a new installation.
func (c *AttackNeighbours) measure(ctx context.Context, s *stage, name string) (*neighboursRow, error) {
	// As in an installation that is open to everybody.
	in := s.in
	in.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	in.Server.Env["TALLYGATE_SIGNUPS"] = "open"
	in.Server.Env["TALLYGATE_DEFAULT_SITE_PLAN"] = "FREE"
	if err := in.Server.Start(ctx); err != nil {
		return nil, err
	}

	others := &bystanders{server: in.Server, rate: c.Rate, warmup: openTime, least: load.MinAnswers}
	err := in.WithDatabase(func(d *db.DB) (err error) {
		others.sites, err = storeSites(ctx, d, "neighbour", neighbourSites)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := &neighbourAttack{AttackNeighbours: c, in: in}
	kind := neighbourAttacks[name]
	if err := kind.prepare(a, ctx); err != nil {
		return nil, fmt.Errorf("prepare the attack: %w", err)
	}

	// The first hits fill the caches.
	others.drive(ctx, openTime)
	r := &neighboursRow{before: others.drive(ctx, c.Calm)}
	if kind.restart != nil {
		if err := kind.restart(a, ctx); err != nil {
			return nil, err
		}
	}

	loading, stop := context.WithCancel(ctx)
	defer stop()
	var hits sync.WaitGroup
	hits.Go(func() { r.during = others.drive(loading, 0) })
	_ = load.Wait(ctx, openTime)
	began := time.Now()
	r.achieved, err = kind.attack(a, ctx)

	// An attack that ends at once needs hits, too.
	_ = load.Wait(ctx, openTime-time.Since(began))
	stop()
	hits.Wait()
	if err != nil || in.Server.Ended() {
		return nil, fmt.Errorf("%w; the server's log:\n%s", errors.Join(err, ctx.Err()), in.Server.Logged())
	}

	_ = load.Wait(ctx, settleTime)
	r.after = others.drive(ctx, c.Calm)
	return r, errors.Join(ctx.Err(), r.before.Enough(), r.after.Enough())
}

// The units of the figures of an attack, in addition to the latencies.
const (
	duringRatio  = "p99-of-calm"
	unservedHits = "unserved-hits"
	ownMemory    = "server-memory-B"
	childMemory  = "children-memory-B"
)

// neighbourPhases are the prefixes of the units of latencies.
var neighbourPhases = []string{"before-", "during-", "after-"}

var neighbourColumns = func() []report.Column {
	columns := []report.Column{{Title: "attack", Format: "%s", Names: []string{"attack"}}}
	for i, title := range []string{"calm before", "during", "calm after"} {
		prefix := neighbourPhases[i]
		columns = append(columns, report.Column{Title: title, Format: "%.1f / %.1f / %.0f",
			Names: []string{prefix + report.P50, prefix + report.P99, prefix + report.Longest}})
	}
	return append(columns, report.Column{Title: "p99 during of calm", Format: "%.1f", Names: []string{duringRatio}},
		report.Column{Title: "refused", Format: "%.0f of %.0f", Names: []string{unservedHits, report.Sent}},
		report.Column{Title: "the attacker got", Format: "%s", Names: []string{"achieved"}},
		report.Column{Title: "memory", Of: megabytes, Names: []string{ownMemory}},
		report.Column{Title: "of children", Of: megabytes, Names: []string{childMemory}})
}()

// add adds the measurement of an attack.
func (c *AttackNeighbours) add(o *report.Outcome, name string, try int, r *neighboursRow) {
	one := o.Case("engine", c.Engine, "attack", name)
	for i, phase := range []*load.Result{r.before, r.during, r.after} {
		one.Add(neighbourPhases[i]+report.P50, report.Milliseconds(phase.Latency.Quantile(0.5)))
		one.Add(neighbourPhases[i]+report.P99, report.Milliseconds(phase.Latency.Quantile(0.99)))
		one.Add(neighbourPhases[i]+report.Longest, report.Milliseconds(phase.Latency.Max))
	}

	calm, during := r.calm(), r.during.Latency.Quantile(0.99)
	one.Add(duringRatio, float64(during)/float64(max(calm, 1)))
	one.Add(unservedHits, float64(unserved(r.during)))
	one.Add(report.Sent, float64(r.during.Sent()))
	one.Add(ownMemory, float64(r.during.Cost.OwnMemory))
	if r.during.Cost.ChildMemory > 0 {
		one.Add(childMemory, float64(r.during.Cost.ChildMemory))
	}
	achieved := r.achieved
	if !r.steady(c.HitsFloor) {
		achieved += fmt.Sprintf("; the calms differ in each of %d tries", try)
	}
	one.Remark("achieved", achieved)

	// To observe is for busy machines, on which a commit can take longer than a hit waits.
	slow := int64(0)
	if c.Observe {
		slow = r.during.Answers["503 unavailable"]
	}
	if n := unserved(r.during); n > slow {
		o.Fault("%s: %d hits of other accounts were refused or not answered: %s", name, n, countsText(r.during.Answers))
	}
	if goal := max(slowdownGoal*calm, c.HitsFloor); during > goal && !c.Observe {
		o.Fault("%s: the p99 of other accounts' hits rose to %v, want at most %v", name, during, goal)
	}
}

// conclude writes the table.
func (c *AttackNeighbours) conclude(o *report.Outcome) {
	o.Write("%s; %s. Hits of other accounts at %d/s: p50 / p99 / longest in ms from the time a hit was due. Memory is in MB.\n\n%s",
		report.Machine(), c.Engine, c.Rate, report.Table(neighbourColumns, o.Cases))
}
