package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Cluster breaks the largest layout under load, and checks that nothing is lost: cells on the
// workers of a Citus cluster, two data planes behind HAProxy, two workers, a Redis Cluster, and a
// receiver of webhooks over TLS.
type Cluster struct {
	Private
	Citus       string        `long:"citus" required:"true" value-name:"URL" unquote:"false" description:"Address of the coordinator of a Citus cluster on this machine, with a superuser. Its nodes are restarted."`
	Addresses   bool          `long:"addresses" defaults:"true" value-name:"BOOL" description:"Let the data planes connect to the worker of each cell."`
	Rounds      int           `long:"rounds" default:"2" value-name:"N" description:"Number of times that each event happens."`
	Connections int           `long:"connections" default:"16" value-name:"N" description:"Concurrent browsers of each group of sites."`
	Rate        float64       `long:"rate" default:"200" value-name:"N" description:"Hits a second of each group of sites."`
	Outage      time.Duration `long:"outage" default:"3s" value-name:"TIME" description:"Time that a database node is down."`
	Only        string        `long:"only" value-name:"TEXT" unquote:"false" description:"Only the events whose names contain this."`
	Seed        uint64        `long:"seed" default:"1" value-name:"N" description:"Seed of the traffic."`
}

// Validate checks the limits of the flags.
func (c *Cluster) Validate() error {
	const maxRounds = 20 // limits the sites that move
	return errors.Join(within("--rounds", c.Rounds, 1, maxRounds), within("--connections", c.Connections, 1, 4096),
		inAll(c.Connections, c.Rounds*eventCount), within("--rate", c.Rate, 10, 100_000),
		within("--outage", c.Outage, 100*time.Millisecond, time.Minute))
}

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

// clusterRun is a run of the scenario.
type clusterRun struct {
	*Cluster
	*clusterInstallation
	outcome  *report.Outcome
	progress io.Writer

	account *target.Account
	groups  []*stage

	captcha       *captcha.Run
	verifications target.CaptchaUsage // at the beginning
	stopCaptcha   func()
}

// sitesOfGroups is the number of sites of the groups that do not move.
const sitesOfGroups = 20

// Play starts the cluster, lets the events happen under load, and verifies hits, tokens and
// deliveries.
func (c *Cluster) Play(ctx context.Context, progress io.Writer) (_ *report.Outcome, err error) {
	i := &clusterInstallation{}
	defer func() { err = errors.Join(err, i.close()) }()
	if err := i.install(ctx, c); err != nil {
		return nil, err
	}

	r := &clusterRun{Cluster: c, clusterInstallation: i, progress: progress,
		outcome: &report.Outcome{Scenario: "cluster"}}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	for round := range c.Rounds {
		for _, e := range r.events() {
			if err := r.happen(ctx, e, round); err != nil {
				r.stopCaptcha()
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
	}
	return r.outcome, r.finish(ctx)
}

// begin creates sites and a sitekey, starts the load on the captcha, and creates the journals.
func (r *clusterRun) begin(ctx context.Context) error {
	s, err := traffic.NewOwnSession(ctx, r.in.Server.Target(), &traffic.Flags{Mix: "realistic", Sites: sitesOfGroups + r.Rounds,
		Visitors: 5000, Seed: r.Seed, Webhook: r.receiver.address()})
	if err != nil {
		return err
	}
	r.account = s.Account
	if err := r.divide(ctx, s); err != nil {
		return err
	}
	return r.beginCaptcha(ctx)
}

// divide makes a stage of each group from the session of all sites.
func (r *clusterRun) divide(ctx context.Context, all *traffic.Session) error {
	var sites [groupCount][]target.Site
	nodes := r.nodes()
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

	for n, own := range sites {
		if len(own) == 0 {
			return fmt.Errorf("%s: there are none", groupNames[n])
		}
		g := &stage{in: r.in, outcome: r.outcome, progress: r.progress,
			session: &traffic.Session{Account: r.account, Traffic: all.Traffic}}
		g.session.Traffic.Sites = own
		g.session.Traffic.Host = r.in.Proxy.Addresses[instance.BackendSite]
		if err := g.begin(ctx, fmt.Sprintf("journal%d", n+1)); err != nil {
			return err
		}
		r.groups = append(r.groups, g)
	}
	return nil
}

// cellOf returns the cell of a site.
func (r *clusterRun) cellOf(ctx context.Context, siteKey string) (cells.Info, error) {
	id, err := r.cellID(ctx, siteKey)
	if err != nil {
		return cells.Info{}, fmt.Errorf("cell of the site %s: %w", siteKey, err)
	}
	for _, cell := range r.in.Cells {
		if cell.ID == id {
			return cell, nil
		}
	}
	return cells.Info{}, fmt.Errorf("the site %s is in cell %d", siteKey, id)
}

// captchaLap is the number of challenges that are solved and redeemed together.
const captchaLap = 100

// beginCaptcha redeems tokens until stopCaptcha is called.
func (r *clusterRun) beginCaptcha(ctx context.Context) (err error) {
	sitekey, secret, err := r.account.PrepareSitekey(ctx)
	if err != nil {
		return err
	}
	if r.verifications, err = r.account.CaptchaUsage(ctx); err != nil {
		return err
	}

	r.captcha = captcha.NewRun(r.in.Proxy.Addresses[instance.BackendSite], sitekey, secret, load.Load{Connections: 4, Rate: 200})
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

// happen lets an event happen under load, and adds its effects.
func (r *clusterRun) happen(ctx context.Context, e instance.Fault, round int) error {
	const successes = 100
	var took time.Duration
	results, gaps, err := underLoad(ctx, r.groups, load.Load{Connections: r.Connections, Rate: r.Rate},
		func(ctx context.Context, t *traffics) error {
			if err := t.await(ctx, successes); err != nil {
				return err
			}
			began := time.Now()
			if err := e.Do(ctx, round); err != nil {
				return err
			}
			took = time.Since(began)
			return t.await(ctx, successes)
		})
	if err != nil {
		return fmt.Errorf("%w; the log of a data plane:\n%s", err, r.data[0].Logged())
	}

	fmt.Fprintf(r.progress, "round %d of %d: %s (%.1f s), longest time without a success:", round+1, r.Rounds, e.Name, took.Seconds())
	for n, result := range results {
		effect := r.outcome.Case("event", e.Name, "sites", groupNames[n])
		effect.Add(tookUnit, took.Seconds())
		addEffect(effect, result, gaps[n])
		fmt.Fprintf(r.progress, " %.1f s", gaps[n].Seconds())
	}
	fmt.Fprintln(r.progress)
	return nil
}

// The units of the effects of an event on a group of sites.
const (
	served    = "served-calls"
	refused   = "refused-calls" // with 503
	broken    = "broken-calls"  // without an answer, or HAProxy's 502 or 504
	gap       = "gap-s"         // longest time without a success
	slowest   = "slowest-s"
	tookUnit  = "took-s"
	effectFmt = "%.0f; %.0f; %.0f; %.1f"
)

// addEffect adds the effects of one occurrence of an event.
func addEffect(c *report.Case, result *load.Result, longest time.Duration) {
	counts := map[string]int64{served: 0, refused: 0, broken: 0}
	for answer, n := range result.Answers {
		switch {
		case answer == load.NoAnswer || isBroken(answer):
			counts[broken] += n
		case strings.HasPrefix(answer, "503"):
			counts[refused] += n
		default:
			counts[served] += n
		}
	}
	for _, unit := range []string{served, refused, broken} {
		c.Add(unit, float64(counts[unit]))
	}
	c.Worst(gap, longest.Seconds())
	c.Worst(slowest, result.Latency.Quantile(1).Seconds())
}

// isBroken reports whether HAProxy answered for a data plane that died during a call.
func isBroken(answer string) bool {
	return strings.HasPrefix(answer, "502") || strings.HasPrefix(answer, "504")
}

// finish ends the load, waits for the deliveries, and verifies everything.
func (r *clusterRun) finish(ctx context.Context) error {
	r.stopCaptcha()
	o := r.outcome
	var sites []target.Site
	for _, g := range r.groups {
		sites = append(sites, g.session.Traffic.Sites...)
	}
	deliveries, err := r.receiver.await(ctx, r.account, sites)
	if err != nil {
		return err
	}
	if !deliveries.complete() {
		o.Fault("conversions were not delivered: %+v", deliveries)
	}
	for _, g := range r.groups {
		if err := g.close(ctx); err != nil {
			return err
		}
	}

	after, err := r.account.CaptchaUsage(ctx)
	if err != nil {
		return err
	}
	r.captcha.Verdict.Compare(r.verifications, after)
	o.Tokens = &r.captcha.Verdict
	o.AddUnexpected(r.captcha.Unexpected.Counts)
	maps.DeleteFunc(o.Unexpected, func(what string, _ int64) bool { return isBroken(what) })
	r.write(deliveries)
	return nil
}

// write writes the table of events, with a column for each group of sites.
func (r *clusterRun) write(d deliveries) {
	o := r.outcome
	way := "writers at the addresses of the workers"
	if !r.Addresses {
		way = "writers through the coordinator"
	}
	o.Write("%s; each event %d times, %.0f hits a second of each group, %v without a database node; %s.\n\n", report.Machine(),
		r.Rounds, r.Rate, r.Outage, way)
	o.Write("| event | took s | %s |\n|---|---|%s\n", strings.Join(groupNames[:], " | "), strings.Repeat("---|", groupCount))
	for n, c := range o.Cases {
		if n%groupCount == 0 {
			o.Write("| %s | %s |", c.Label("event"), c.Each(tookUnit, "%.1f"))
		}
		o.Write(" "+effectFmt+" |", c.Sum(served), c.Sum(refused), c.Sum(broken), c.Get(gap))
		if n%groupCount == groupCount-1 {
			o.Write("\n")
		}
	}

	o.Write("\nFor each group: hits served; refused with 503; without an answer or with HAProxy's 502; the longest time without a success in seconds.\n"+
		"Of %d acknowledged hits %d were lost, %d duplicated, %d wrong. Of %d captcha tokens accepted, %d were accepted twice, %d lost.\n"+
		"Of %d conversions %d arrived, with %d repeated calls.\n", o.Hits.Acknowledged, o.Hits.Lost, o.Hits.Duplicated, o.Hits.Wrong,
		o.Tokens.Accepted, o.Tokens.Doubled, o.Tokens.Lost, d.Stored, d.Received, d.Repeated)
}
