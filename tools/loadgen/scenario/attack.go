package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// Attack plays attacks one after the other on one installation of each engine, and measures the
// hits of other sites, the reports of another account and the process before, during and after each
// one.
type Attack struct {
	Private
	Engines      []string      `long:"engine" defaults:"sqlite" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, or a private postgres. May be repeated."`
	Only         []string      `long:"only" value-name:"NAME" unquote:"false" description:"Attacks. May be repeated. Default: all of the command."`
	Rate         int           `long:"rate" default:"200" value-name:"N" description:"Hits a second of the other sites, each over a connection of its own, 1 to 4096."`
	AttackRate   float64       `long:"attack-rate" default:"600" value-name:"N" description:"Hits a second of an anonymous attacker."`
	Calm         time.Duration `long:"calm" default:"6s" value-name:"TIME" description:"Duration of the measurement before an attack, and of the one after it."`
	Duration     time.Duration `long:"duration" default:"15s" value-name:"TIME" description:"Duration of an attack that does not end by itself."`
	Patience     time.Duration `long:"patience" default:"90s" value-name:"TIME" description:"Longest duration of a build, or of an import after its upload. An import is then canceled."`
	Settle       time.Duration `long:"settle" default:"1m" value-name:"TIME" description:"Longest measurement after a report without an answer, whose work may continue."`
	Events       int           `long:"events" default:"5000" value-name:"N" description:"Events of 4 KB that the attacker sends and its reports read."`
	DayEvents    int           `long:"day-events" default:"60000" value-name:"N" description:"Events of 4 KB of the day that the worker builds."`
	Import       int           `long:"import" default:"256" value-name:"MB" description:"Size of the import, 1 to 256."`
	Directory    int           `long:"directory" default:"128" value-name:"MB" description:"Size of the archive that is only a list of files, 1 to 256."`
	Tries        int           `long:"tries" default:"3" value-name:"N" description:"Most measurements of an attack: it is repeated if the calms before and after it differ too much."`
	AddressSpace int64         `long:"address-space" default:"6144" value-name:"MB" description:"Bound of the service's address space, at which it terminates."`
	HitsFloor    time.Duration `long:"hits-floor" default:"20ms" value-name:"TIME" description:"A p99 of hits that meets the bound on any machine."`
	ReportsFloor time.Duration `long:"reports-floor" default:"50ms" value-name:"TIME" description:"A p95 of reports that meets the bound on any machine."`
	Observe      bool          `long:"observe" description:"Exit with status 0 even if a bound is exceeded, or hits were answered with 503 unavailable."`

	group string // of the table of attacks
}

// NewAttack returns the command that plays a group of the table of attacks.
func NewAttack(group string) *Attack { return &Attack{group: group} }

// Validate checks the limits of the flags.
func (c *Attack) Validate() error {
	var errs []error
	for _, name := range c.Only {
		if !slices.Contains(c.names(), name) {
			errs = append(errs, fmt.Errorf("--only: there is no attack %q, want one of %v", name, c.names()))
		}
	}

	return errors.Join(append(errs, within("--rate", c.Rate, 1, 4096), within("--attack-rate", c.AttackRate, 1, 100_000),
		within("--calm", c.Calm, shortest, longest), within("--duration", c.Duration, shortest, longest),
		within("--patience", c.Patience, shortest, longest), within("--settle", c.Settle, shortest, longest),
		within("--events", c.Events, 1, 10_000), within("--day-events", c.DayEvents, 1, 10_000_000),
		within("--import", c.Import, 1, 256), within("--directory", c.Directory, 1, 256), within("--tries", c.Tries, 1, 100),
		within("--address-space", c.AddressSpace, 1024, 1<<20), within("--hits-floor", c.HitsFloor, 0, longest),
		within("--reports-floor", c.ReportsFloor, 0, longest))...)
}

// selected returns the attacks to play.
func (c *Attack) selected() (all []*attack) {
	for _, a := range attacks() {
		if a.in(c.group) && (len(c.Only) == 0 || slices.Contains(c.Only, a.name)) {
			all = append(all, &a)
		}
	}
	return all
}

// names returns the names of the selected attacks.
func (c *Attack) names() (names []string) {
	for _, a := range (&Attack{group: c.group}).selected() {
		names = append(names, a.name)
	}
	return names
}

// Play implements Scenario. An exceeded bound is a fault.
func (c *Attack) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "attack-" + c.group}
	for _, engine := range c.Engines {
		if err := c.on(engine, o, progress, func(s *stage) error { return (&player{Attack: c, stage: s}).playAll(ctx) }); err != nil {
			return nil, err
		}
	}

	o.Head("%s. Hits of other accounts at %d/s: p50 / p99 / longest in ms from the time a hit was due. "+
		"Reports belong to another account, calm → attack, in ms. Memory is in MB.\n\n%s",
		report.Machine(), c.Rate, report.Table(attackColumns, o.Cases))
	return o, nil
}

// playAll plays the attacks on one engine.
func (p *player) playAll(ctx context.Context) error {
	if err := p.install(ctx); err != nil {
		return fmt.Errorf("prepare the accounts: %w", err)
	}

	for _, a := range p.selected() {
		m, err := p.repeat(ctx, a)
		if err != nil {
			// The rows until then show what happened.
			fmt.Fprint(p.progress, report.Table(attackColumns, p.outcome.Cases))
			return fmt.Errorf("%s: %w; the server's log:\n%s", a.name, err, p.in.Server.Logged())
		}
		p.add(p.outcome, p.engine, m)
	}
	return nil
}

// repeat plays an attack until the calms before and after it are alike.
func (p *player) repeat(ctx context.Context, a *attack) (*attackMeasure, error) {
	for try := 1; ; try++ {
		m := &attackMeasure{attack: a, try: try}
		if err := errors.Join(p.play(ctx, m), ctx.Err()); err != nil {
			return nil, err
		}

		fmt.Fprintf(p.progress, "%s: %s\n", a.name, m.got)
		if m.during.failures() > 0 {
			fmt.Fprintf(p.progress, "%s: reports of the other account: %s\n", a.name, countsText(m.during.failed.Counts))
		}
		if m.steady(p.HitsFloor) || try == p.Tries {
			return m, nil
		}
	}
}
