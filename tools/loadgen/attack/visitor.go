package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// VisitorCommand measures another site's hits while one anonymous client sends expensive hits.
type VisitorCommand struct {
	Program  string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines  []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Attacks  []string      `default:"manual,campaigns,exhausted" enum:"manual,campaigns,exhausted" help:"Kinds of attack: manual or automatic page views, each with a new campaign; or exhausted: page views of a site whose quota is used up."`
	Rate     float64       `default:"600" placeholder:"N" help:"The attacker's hits a second."`
	Rounds   int           `default:"3" placeholder:"N" help:"Number of times that calm and attack alternate."`
	Duration time.Duration `default:"8s" placeholder:"TIME" help:"Duration of each calm and each attack."`
	Flood    bool          `help:"Keep the flood limit per network, which stops this client. Without it, the client stands for one with many networks."`
}

// Validate checks the limits of the flags.
func (c *VisitorCommand) Validate() error {
	switch {
	case c.Rate < 1 || c.Rate > 100_000:
		return fmt.Errorf("--rate: %v is not from 1 to 100000", c.Rate)
	case c.Rounds < 1 || c.Rounds > 100:
		return fmt.Errorf("--rounds: %d is not from 1 to 100", c.Rounds)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	}

	return nil
}

const (
	bystanderRate = 50  // hits a second of the other site
	attackQuota   = 100 // monthly page views of the site with an exhausted quota
	attackWorkers = 64  // connections of the attacker
)

// Run prints the results. It returns an error if a hit of the other site was refused.
func (c *VisitorCommand) Run(ctx context.Context, term report.Terminal) error {
	var harmed error

	for _, engine := range c.Engines {
		for _, attack := range c.Attacks {
			r, err := c.measure(ctx, engine, attack)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", engine, attack, err)
			}

			r.print(term.Out, engine, attack)
			harmed = errors.Join(harmed, r.check())
		}
	}

	return harmed
}

// measure starts the program on an empty database and alternates calm and attack.
func (c *VisitorCommand) measure(ctx context.Context, engine, attack string) (*attackResult, error) {
	b, err := instance.New(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.Close()

	b.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"

	if c.Flood {
		// Use the default limit.
		delete(b.Server.Env, "TALLYGATE_FLOOD_BURST")
	}

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	s, err := traffic.NewOwnSession(ctx, b.Server.Target(),
		&traffic.Flags{Mix: "pageviews", Sites: 2, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	bystander, target := s.Traffic.Sites[0], s.Traffic.Sites[1]

	if attack == "exhausted" {
		if err := s.Account.SetPlan(ctx, target.ID, attackQuota); err != nil {
			return nil, err
		}
	}

	return alternate(ctx, c.Rounds, c.Duration, bystanders(b.Server.Data, bystander),
		func(ctx context.Context) *load.Result {
			l := load.Load{Addr: b.Server.Data, Connections: attackWorkers, Rate: c.Rate}
			return l.Run(ctx, func(connection int) load.Source {
				return &attacker{host: b.Server.Data, site: target, manual: attack != "campaigns", connection: connection}
			})
		})
}

// bystanders returns a function that sends another site's hits at a fixed rate.
func bystanders(addr string, site target.Site) func(ctx context.Context, duration time.Duration) *load.Result {
	round := 0
	return func(ctx context.Context, duration time.Duration) *load.Result {
		round++
		l := load.Load{Addr: addr, Connections: bystanderRate, Rate: bystanderRate, Duration: duration}
		return l.Run(ctx, func(connection int) load.Source {
			return &bystander{host: addr, site: site, number: (round*bystanderRate + connection) << 16}
		})
	}
}

// alternate measures the bystanders' hits in turn without and with an attack. The attack runs until
// its context ends.
func alternate(ctx context.Context, rounds int, duration time.Duration,
	bystanders func(context.Context, time.Duration) *load.Result,
	attack func(context.Context) *load.Result) (*attackResult, error) {
	r := &attackResult{calm: newTotals(), attacked: newTotals(), attacker: newTotals()}
	for range rounds {
		r.calm.add(bystanders(ctx, duration))

		attacking, stop := context.WithCancel(ctx)
		done := make(chan *load.Result)
		go func() { done <- attack(attacking) }()
		r.attacked.add(bystanders(ctx, duration))
		stop()
		r.attacker.add(<-done)
	}

	return r, ctx.Err()
}

// attackResult is the measurement of the bystanders' hits without and with the attack.
type attackResult struct {
	calm, attacked, attacker *totals
}

// totals is the sum of the results of several rounds.
type totals struct {
	latency load.Histogram
	answers map[string]int64
	unsent  int64 // hits that were due but not sent
	elapsed time.Duration
}

func newTotals() *totals { return &totals{answers: make(map[string]int64)} }

func (t *totals) add(r *load.Result) {
	t.latency.Merge(&r.Latency)
	t.unsent += r.Unsent
	t.elapsed += r.Elapsed
	for answer, n := range r.Answers {
		t.answers[answer] += n
	}
}

// refused returns the number of hits that were not stored.
func (t *totals) refused() (n int64) {
	for answer, count := range t.answers {
		if answer != "204" {
			n += count
		}
	}
	return n
}

func (t *totals) sent() (n int64) {
	for _, count := range t.answers {
		n += count
	}
	return n
}

func (t *totals) String() string {
	return fmt.Sprintf("%5d hits, %d refused, %d not sent in time, p50 %6.2f ms, p99 %7.2f ms",
		t.sent(), t.refused(), t.unsent,
		report.Milliseconds(t.latency.Quantile(0.5)), report.Milliseconds(t.latency.Quantile(0.99)))
}

func (r *attackResult) print(w io.Writer, engine, attack string) {
	fmt.Fprintf(w, "%-8s %-10s calm:   %v\n", engine, attack, r.calm)
	fmt.Fprintf(w, "%-8s %-10s attack: %v, %.1f times the calm p99\n", engine, attack, r.attacked,
		float64(r.attacked.latency.Quantile(0.99))/float64(r.calm.latency.Quantile(0.99)))

	var answers []string
	for _, answer := range slices.Sorted(maps.Keys(r.attacker.answers)) {
		answers = append(answers, fmt.Sprintf("%d %s", r.attacker.answers[answer], answer))
	}

	fmt.Fprintf(w, "%-8s %-10s attacker: %.0f a second: %s\n", engine, attack,
		float64(r.attacker.sent())/r.attacked.elapsed.Seconds(), strings.Join(answers, ", "))
}

var errHarmed = errors.New("hits of another site were refused")

func (r *attackResult) check() error {
	if r.attacked.refused() > 0 {
		return errHarmed
	}
	return nil
}

// attacker sends page views of one visitor. Each has a new campaign and therefore starts a visit.
// It stands for a client that is limited only by the rules of visits.
type attacker struct {
	host       string
	site       target.Site
	manual     bool
	connection int
	number     int
}

func (a *attacker) Next() []byte {
	a.number++
	x := ""
	if a.manual {
		x = `"x":1,`
	}
	body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/",%s"u":{"source":"s%d-%d"}}`,
		a.site.Key, x, a.connection, a.number)
	return collectRequest(a.host, a.site.Origin(), "198.51.100.7", body)
}

func (a *attacker) Done(load.Answer, error) {}

// bystander sends page views of new visitors.
type bystander struct {
	host   string
	site   target.Site
	number int
}

func (b *bystander) Next() []byte {
	b.number++
	addr := fmt.Sprintf("10.%d.%d.%d", b.number>>16&255, b.number>>8&255, b.number&255)
	body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/page","i":"%016x"}`, b.site.Key, b.number)
	return collectRequest(b.host, b.site.Origin(), addr, body)
}

func (b *bystander) Done(load.Answer, error) {}

// collectRequest returns a hit as a browser behind a proxy sends it.
func collectRequest(host, origin, addr, body string) []byte {
	return fmt.Appendf(nil,
		"POST /collect.php HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nUser-Agent: %s\r\nX-Forwarded-For: %s\r\n"+
			"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", host, origin, attackAgent, addr, len(body), body)
}

const attackAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
