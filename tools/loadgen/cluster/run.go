package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// The groups of sites. The sites of each have a load of their own, which shows the effects of an
// event on them alone.
const (
	firstNode = iota
	secondNode
	coordinator
	moving
	groupCount
)

var groupNames = [groupCount]string{"sites on node 1", "sites on node 2", "sites on the coordinator", "sites that move"}

// group is a group of sites under load.
type group struct {
	session *traffic.Session
	journal *traffic.Journal
	path    string // of the journal
}

// run is a run of the command.
type run struct {
	*Command
	installation *installation
	progress     io.Writer

	account *target.Account
	groups  [groupCount]*group
	events  []*Event

	captcha       *captcha.Run
	verifications target.CaptchaUsage // at the beginning
	stopCaptcha   func()
}

// sitesOfGroups is the number of sites of the groups that do not move.
const sitesOfGroups = 20

// begin creates sites and a sitekey, starts the load on the captcha, and creates the journals.
func (c *Command) begin(ctx context.Context, i *installation, progress io.Writer) (*run, error) {
	r := &run{Command: c, installation: i, progress: progress}

	s, err := traffic.NewOwnSession(ctx, i.control.Target(), &traffic.Flags{Mix: "realistic", Sites: sitesOfGroups + c.Rounds,
		Visitors: 5000, Seed: c.Seed, Webhook: i.receiver.server.URL + "/conversion"})
	if err != nil {
		return nil, err
	}
	r.account = s.Account
	if err := r.divide(ctx, s); err != nil {
		return nil, err
	}
	return r, r.beginCaptcha(ctx)
}

// divide makes a session of each group from the session of all sites.
func (r *run) divide(ctx context.Context, all *traffic.Session) error {
	var sites [groupCount][]target.Site
	nodes := r.installation.nodes()
	for _, site := range all.Traffic.Sites {
		cell, err := r.cellOf(ctx, site.Key)
		if err != nil {
			return err
		}
		to := firstNode
		switch {
		case cell.Node == "":
			to = coordinator
		case len(sites[moving]) < r.Rounds:
			to = moving
		case cell.Node == nodes[1]:
			to = secondNode
		}
		sites[to] = append(sites[to], site)
	}

	for n := range r.groups {
		if len(sites[n]) == 0 {
			return fmt.Errorf("%s: there are none", groupNames[n])
		}
		g := &group{session: &traffic.Session{Account: r.account, Traffic: all.Traffic},
			path: filepath.Join(r.installation.dir, fmt.Sprintf("journal%d", n+1))}
		g.session.Traffic.Sites = sites[n]
		g.session.Traffic.Host = r.installation.proxy.Addresses[instance.BackendSite]
		var err error
		if g.journal, err = g.session.Begin(ctx, g.path); err != nil {
			return err
		}
		r.groups[n] = g
	}
	return nil
}

// cellOf returns the cell of a site.
func (r *run) cellOf(ctx context.Context, siteKey string) (cells.Info, error) {
	id, err := r.installation.cellID(ctx, siteKey)
	if err != nil {
		return cells.Info{}, fmt.Errorf("cell of the site %s: %w", siteKey, err)
	}
	for _, cell := range r.installation.cells {
		if cell.ID == id {
			return cell, nil
		}
	}
	return cells.Info{}, fmt.Errorf("the site %s is in cell %d", siteKey, id)
}

// captchaLap is the number of challenges that are solved and redeemed together.
const captchaLap = 100

// beginCaptcha redeems tokens until stopCaptcha is called.
func (r *run) beginCaptcha(ctx context.Context) (err error) {
	sitekey, secret, err := r.account.PrepareSitekey(ctx)
	if err != nil {
		return err
	}
	if r.verifications, err = r.account.CaptchaUsage(ctx); err != nil {
		return err
	}

	r.captcha = captcha.NewRun(r.installation.proxy.Addresses[instance.BackendSite], sitekey, secret, load.Load{Connections: 4, Rate: 200})
	r.captcha.Proxied = true
	var running sync.WaitGroup
	stopping := make(chan struct{})
	running.Go(func() {
		for {
			select {
			case <-stopping:
				return
			case <-ctx.Done():
				return
			default:
				r.captcha.Redeem(ctx, captcha.WithRepeats(r.captcha.Obtain(ctx, captchaLap)))
			}
		}
	})
	r.stopCaptcha = sync.OnceFunc(func() { close(stopping); running.Wait() })
	return nil
}

// play lets each event happen in each round.
func (r *run) play(ctx context.Context) error {
	list := r.eventsOf(r.installation)
	for _, e := range list {
		r.events = append(r.events, newEvent(e.name))
	}

	for round := range r.Rounds {
		for n, e := range list {
			if err := r.happen(ctx, e, round, r.events[n]); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	return nil
}

func newEvent(name string) *Event {
	e := &Event{Name: name}
	for range groupCount {
		e.Groups = append(e.Groups, &Effect{})
	}
	return e
}

// happen lets an event happen under load, and adds its effects to seen.
func (r *run) happen(ctx context.Context, e event, round int, seen *Event) error {
	var successes [groupCount]atomic.Int64
	var results [groupCount]*load.Result
	var gaps [groupCount]time.Duration
	loading, stop := context.WithCancel(ctx)
	defer stop()

	var running sync.WaitGroup
	for n, g := range r.groups {
		running.Go(func() {
			results[n] = g.session.Phase(loading, g.journal,
				load.Load{Connections: r.Connections, Rate: r.Rate, Successes: &successes[n]}, g.session.Traffic.Mix)
		})
		running.Go(func() { gaps[n] = longestGap(loading, &successes[n]) })
	}

	err := r.awaitSuccesses(ctx, &successes)
	began := time.Now()
	if err == nil {
		err = e.do(ctx, round)
	}
	took := time.Since(began)
	if err == nil {
		err = r.awaitSuccesses(ctx, &successes)
	}
	stop()
	running.Wait()
	if err != nil {
		return err
	}

	seen.Took = append(seen.Took, took.Seconds())
	for n, result := range results {
		seen.Groups[n].add(result, gaps[n])
	}
	fmt.Fprintf(r.progress, "round %d of %d: %s (%.1f s), longest time without a success:", round+1, r.Rounds, e.name, took.Seconds())
	for n := range gaps {
		fmt.Fprintf(r.progress, " %.1f s", gaps[n].Seconds())
	}
	fmt.Fprintln(r.progress)
	return nil
}

// longestGap returns the longest time without a success until ctx ends, after the first one.
func longestGap(ctx context.Context, successes *atomic.Int64) (longest time.Duration) {
	last, since := successes.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return longest
		case <-time.After(5 * time.Millisecond):
		}
		now := successes.Load()
		if last > 0 {
			longest = max(longest, time.Since(since))
		}
		if now != last {
			last, since = now, time.Now()
		}
	}
}

// awaitSuccesses waits for 100 more successes of each group.
func (r *run) awaitSuccesses(ctx context.Context, successes *[groupCount]atomic.Int64) error {
	ctx, cancel := context.WithTimeout(ctx, instance.StartPatience)
	defer cancel()
	for n := range successes {
		enough := successes[n].Load() + 100
		for successes[n].Load() < enough {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: no successful calls; the log of a data plane:\n%s", groupNames[n],
					r.installation.data[0].Logged())
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

// add adds the effects of one occurrence.
func (e *Effect) add(result *load.Result, gap time.Duration) {
	for answer, n := range result.Answers {
		e.count(answer, n)
	}
	e.Gap = max(e.Gap, gap.Seconds())
	e.Slowest = max(e.Slowest, result.Latency.Quantile(1).Seconds())
}

// count adds calls with the same answer.
func (e *Effect) count(answer string, n int64) {
	switch {
	case answer == load.NoAnswer || isBroken(answer):
		e.Broken += n
	case strings.HasPrefix(answer, "503"):
		e.Refused += n
	default:
		e.Served += n
	}
}

// isBroken reports whether HAProxy answered for a data plane that died during a call.
func isBroken(answer string) bool {
	return strings.HasPrefix(answer, "502") || strings.HasPrefix(answer, "504")
}

// abandon stops the captcha traffic and closes the journals.
func (r *run) abandon() error {
	r.stopCaptcha()
	var failed []error
	for _, g := range r.groups {
		failed = append(failed, g.journal.Close())
	}
	return errors.Join(failed...)
}

// finish ends the load, waits for the deliveries, and verifies everything.
func (r *run) finish(ctx context.Context) (*Outcome, error) {
	if err := r.abandon(); err != nil {
		return nil, err
	}
	o := &Outcome{Events: r.events, Unexpected: make(map[string]int64), Verdict: new(verify.Verdict), Captcha: &r.captcha.Verdict}

	var err error
	if o.Deliveries, err = r.awaitDeliveries(ctx); err != nil {
		return nil, err
	}
	for _, g := range r.groups {
		verdict, err := verify.JournalAs(ctx, r.account, g.path)
		if err != nil {
			return nil, err
		}
		o.Verdict.Add(verdict)
		maps.Copy(o.Unexpected, g.session.Unexpected.Counts)
	}

	after, err := r.account.CaptchaUsage(ctx)
	if err != nil {
		return nil, err
	}
	r.captcha.Verdict.Compare(r.verifications, after)
	maps.Copy(o.Unexpected, r.captcha.Unexpected.Counts)
	maps.DeleteFunc(o.Unexpected, func(what string, _ int64) bool { return isBroken(what) })
	return o, nil
}

// deliveryPatience is the longest wait for deliveries. Another process repeats deliveries that a
// process claimed and did not finish.
const deliveryPatience = 5 * time.Minute

// awaitDeliveries waits until no delivery is open, and compares them with the receiver's messages.
func (r *run) awaitDeliveries(ctx context.Context) (d Deliveries, err error) {
	deadline := time.Now().Add(deliveryPatience)
	for {
		d = Deliveries{}
		for _, g := range r.groups {
			for _, site := range g.session.Traffic.Sites {
				if err := r.addDeliveries(ctx, site.ID, &d); err != nil {
					return d, err
				}
			}
		}
		d.Received, d.Repeated = r.installation.receiver.counts()
		if d.Complete() || time.Now().After(deadline) {
			return d, nil
		}

		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// addDeliveries adds a site's deliveries.
func (r *run) addDeliveries(ctx context.Context, siteID string, d *Deliveries) error {
	all, err := r.account.Deliveries(ctx, siteID, "")
	if err != nil {
		return err
	}
	delivered, err := r.account.Deliveries(ctx, siteID, "DELIVERED")
	if err != nil {
		return err
	}
	for event, n := range all {
		d.Stored += n
		d.Open += n - delivered[event]
	}
	return nil
}
