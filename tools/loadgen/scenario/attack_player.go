package scenario

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// player plays attacks on one installation.
type player struct {
	*Attack
	*stage

	others   *bystanders    // hits of the first account
	readSite target.Site    // of its reports
	attacked [2]target.Site // of the first account: page views of an attacker go there
	answered atomic.Int64   // reports of the first account since the last one without figures
	asked    questions      // of all accounts

	// The attacker of this attack.
	*tenant
	token   string          // API token or token of a shared link
	day     model.Day       // that the worker builds
	content []byte          // of an import
	people  []target.Target // that sign in
	q       question        // that the attacker asks
	alone   time.Duration   // that it takes without others

	// Of earlier attacks, for later ones.
	events, paths   *tenant  // with large events, and with long paths
	built, accepted question // a day that the worker has built, and the longest patterns that the service accepts
}

const (
	victimSites = 5
	readViews   = 1_000 // page views of a day of the first account
	readDays    = 7     // of its reports, which end today

	// openTime is how long the hits run before they are measured, so that all connections are open.
	openTime = time.Second

	// settleTime is the pause between an attack and the calm after it.
	settleTime = 2 * time.Second
)

// install starts the server as in an installation that is open to everybody, and fills the first
// account's site.
func (p *player) install(ctx context.Context) (err error) {
	env := p.in.Server.Env
	env["TALLYGATE_ROLES"], env["TALLYGATE_SIGNUPS"], env["TALLYGATE_DEFAULT_SITE_PLAN"] = "control,data,worker", "open", "FREE"
	p.in.Server.AddressSpace = p.AddressSpace << 20
	if err := p.in.Server.Start(ctx); err != nil {
		return err
	}

	// The first account is the operator's, who may give its own sites a large plan.
	flags := standard("pageviews", victimSites+1+len(p.attacked))
	if p.session, err = traffic.NewOwnSession(ctx, p.in.Server.Target(), &flags); err != nil {
		return err
	}
	sites := p.session.Traffic.Sites
	p.others = &bystanders{server: p.in.Server, sites: sites[:victimSites], rate: p.Rate}
	p.readSite = sites[victimSites]
	copy(p.attacked[:], sites[victimSites+1:])

	return p.withServerStopped(ctx, func(d *db.DB) error { return p.fillRead(ctx, d) })
}

// withServerStopped uses the database while the server is stopped.
func (p *player) withServerStopped(ctx context.Context, do func(*db.DB) error) error {
	if err := p.in.Server.Stop(); err != nil {
		return err
	}
	if err := p.in.WithDatabase(do); err != nil {
		return err
	}
	return p.in.Server.Start(ctx)
}

// fillRead stores page views of the first account, and builds its finished days.
func (p *player) fillRead(ctx context.Context, d *db.DB) error {
	id, err := siteOf(ctx, d, p.readSite.ID)
	if err != nil {
		return err
	}

	now := model.At(time.Now())
	if _, err := newYear(id, readViews*readDays, readDays, now).fill(ctx, d, p.progress); err != nil {
		return err
	}

	store := reports.New(d)
	if _, err := store.Plan(ctx, now); err != nil {
		return err
	}
	if err := store.PlanSite(ctx, model.SiteID(id), now.Day()-readDays, now); err != nil {
		return err
	}
	_, err = store.BuildDue(ctx)
	return err
}

// play plays and measures an attack on a fresh process.
func (p *player) play(ctx context.Context, m *attackMeasure) (err error) {
	if m.attack.prepare != nil {
		if err := m.attack.prepare(p, ctx); err != nil {
			return fmt.Errorf("prepare the attack: %w", err)
		}
	}
	if err := p.fresh(ctx); err != nil {
		return err
	}
	if m.before, err = p.calm(ctx); err != nil {
		return err
	}
	if m.attack.ready != nil {
		if err := m.attack.ready(p, ctx, m); err != nil {
			return err
		}
	}

	m.during, err = p.measure(ctx, func(ctx context.Context) error {
		began := time.Now()
		err := m.attack.run(p, ctx, m)

		// An attack that ends at once needs hits, too.
		_ = load.Wait(ctx, openTime-time.Since(began))
		return err
	})
	if err != nil || m.during.died {
		return err
	}

	_ = load.Wait(ctx, settleTime)
	m.after, err = p.calm(ctx)
	return err
}

// fresh replaces the process, which resets its caches and rate limits and ends all of its work, and
// lets it open its connections.
func (p *player) fresh(ctx context.Context) error {
	p.in.Server.Kill()
	if err := p.in.Server.Start(ctx); err != nil {
		return err
	}

	for range 2 {
		if err := p.read(ctx); err != nil {
			return fmt.Errorf("the first report: %w", err)
		}
	}
	p.others.drive(ctx, min(time.Second, p.Calm))
	return ctx.Err()
}

// period has the measurements with or without an attack.
type period struct {
	hits    *load.Result
	reports load.Histogram // of the first account
	failed  load.Counter   // reports of the first account without figures, by reason
	peak    int64          // resident bytes of the process since its start
	died    bool           // the process terminated by itself
}

// failures returns the number of reports without figures.
func (m *period) failures() (n int64) {
	for _, count := range m.failed.Counts {
		n += count
	}
	return n
}

// unserved returns the number of hits that were not stored.
func (m *period) unserved() int64 { return m.hits.Sent() - m.hits.Answers["204"] + m.hits.Outside }

// calm measures without an attack.
func (p *player) calm(ctx context.Context) (*period, error) {
	m, err := p.measure(ctx, nil)
	if err == nil {
		err = m.hits.Enough()
	}
	if err == nil && (m.died || m.failures() > 0 || m.hits.Failed > 0) {
		err = fmt.Errorf("other accounts are refused without an attack: hits %v, reports %s", m.hits.Answers, countsText(m.failed.Counts))
	}
	return m, err
}

// measure measures the process and the first account until attack returns, or for a calm without an
// attack.
func (p *player) measure(ctx context.Context, attack func(context.Context) error) (m *period, err error) {
	m = &period{}
	pid := p.in.Server.Pid()
	p.answered.Store(0)
	measuring, stop := context.WithCancel(ctx)
	defer stop()

	var group sync.WaitGroup
	group.Go(func() { p.keepReading(measuring, m) })
	if attack == nil {
		m.hits = p.others.drive(ctx, p.Calm)
	} else {
		group.Go(func() { m.hits = p.others.drive(measuring, 0) })
		_ = load.Wait(ctx, openTime)
		err = attack(ctx)
	}
	stop()
	group.Wait()

	m.died = p.in.Server.Ended()
	m.peak = max(m.hits.Cost.PeakMemory, process.Peak(pid))
	return m, err
}

const (
	// readPause is the time between two reports of the first account. They cost less than its rate
	// limit.
	readPause = 200 * time.Millisecond

	// failedRead is the least duration that counts for a report without figures: the service's
	// deadline.
	failedRead = 10 * time.Second
)

// keepReading asks for reports of the first account, one after the other, until ctx ends. One in
// flight at the end counts with its whole duration.
func (p *player) keepReading(ctx context.Context, m *period) {
	for ctx.Err() == nil {
		began := time.Now()
		err := p.read(context.WithoutCancel(ctx))
		took := time.Since(began)
		if err != nil {
			m.failed.Add(reasonOf(err))
			took = max(took, failedRead)
			p.answered.Store(-1)
		}

		p.answered.Add(1)
		m.reports.Add(took)
		_ = load.Wait(ctx, readPause)
	}
}

// read asks for a report of the first account that the service has not answered before, because the
// service keeps answers for seconds.
func (p *player) read(ctx context.Context) error {
	const document = `query ($id: ID!, $period: ReportPeriod!, $unknown: String) { site(id: $id) {
		report(period: $period) { totals { pageviews visitors } breakdown(by: PAGE) { totalCount }
			propertyNames(event: $unknown) { name } } } }`

	return p.figures(ctx, document, map[string]any{"id": p.readSite.ID, "period": lastDays(readDays), "unknown": p.asked.unknown()})
}

// attempts are the outcomes of a call that was repeated.
type attempts struct {
	load.Counter
	mu      sync.Mutex
	longest time.Duration
	last    string // the last outcome
}

// note adds an outcome.
func (t *attempts) note(outcome string, took time.Duration) {
	t.Add(outcome)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest, t.last = max(t.longest, took), outcome
}

// flood repeats a call over connections, at least once each, for the duration of an attack or until
// the process has terminated. A refused caller waits a little, because its own work would count as
// the server's.
func (p *player) flood(ctx context.Context, connections int, call func(context.Context) string) *attempts {
	all := &attempts{}
	flooding, stop := context.WithTimeout(ctx, p.Duration)
	defer stop()

	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for first := true; first && ctx.Err() == nil || flooding.Err() == nil; first = false {
				// The last calls end, too, because their work slows hits.
				began := time.Now()
				outcome := call(ctx)
				all.note(outcome, time.Since(began))

				switch {
				case outcome == outcomeNone:
					// A terminated process is noticed shortly after its connections.
					_ = load.Wait(ctx, time.Second)
				case !isAccepted(outcome):
					_ = load.Wait(flooding, 100*time.Millisecond)
				}
				if p.in.Server.Ended() {
					return
				}
			}
		})
	}
	group.Wait()
	return all
}

const (
	settledFor  = 5                      // seconds in a row
	settledCPU  = 500 * time.Millisecond // a second, of a process without a running report
	settledRead = 10                     // reports of the first account, answered in a row
)

// settle waits for the end of work that a report without an answer may have left, or for the end of
// the process. While a report is counted, it uses processor time or the first account waits.
func (p *player) settle(ctx context.Context, asked *attempts) {
	if asked.last == outcomeAnswered || !isAccepted(asked.last) {
		return
	}

	deadline := time.Now().Add(p.Settle)
	for settled := 0; settled < settledFor && ctx.Err() == nil && time.Now().Before(deadline) && !p.in.Server.Ended(); {
		used := p.processorTime(ctx, time.Second)
		settled++
		if used > settledCPU || p.answered.Load() < settledRead {
			settled = 0
		}
	}
}

// processorTime returns the processor time that the process uses within the given time from now.
func (p *player) processorTime(ctx context.Context, within time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return process.Watch(ctx, p.in.Server.Pid(), nil).CPU
}
