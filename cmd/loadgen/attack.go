package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// attackCommand measures what others notice of an attack: another site's hits, without and with it.
type attackCommand struct {
	Visitor attackVisitorCommand `cmd:"" help:"One anonymous client sends hits that are as costly as it can make them."`
	Owner   attackOwnerCommand   `cmd:"" help:"Change one account's settings over many connections, and measure another account's hits."`
}

// attackVisitorCommand attacks as one anonymous client.
type attackVisitorCommand struct {
	Program  string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engines  []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Attacks  []string      `default:"manual,campaigns,exhausted" enum:"manual,campaigns,exhausted" help:"What the attacker sends: manual page views or automatic ones, each with a new campaign; or those for a site whose quota is used up."`
	Rate     float64       `default:"600" placeholder:"N" help:"The attacker's hits a second."`
	Rounds   int           `default:"3" placeholder:"N" help:"How often calm and attack alternate."`
	Duration time.Duration `default:"8s" placeholder:"TIME" help:"How long each calm and each attack takes."`
	Flood    bool          `help:"Leave the limit of hits of one network on, which stops this client. Without it, the client stands for one with many networks."`
}

// Validate checks what one flag alone cannot tell.
func (c *attackVisitorCommand) Validate() error {
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
	attackQuota   = 100 // page views of the month of a site that is exhausted on purpose
	attackWorkers = 64  // connections of the attacker
)

// Run runs the command. It fails when a hit of the other site was refused.
func (c *attackVisitorCommand) Run(ctx context.Context, term terminal) error {
	var harmed error

	for _, engine := range c.Engines {
		for _, attack := range c.Attacks {
			r, err := c.measure(ctx, engine, attack)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", engine, attack, err)
			}

			r.print(term.out, engine, attack)
			harmed = errors.Join(harmed, r.check())
		}
	}

	return harmed
}

// measure starts the program on a fresh database and alternates calm and attack.
func (c *attackVisitorCommand) measure(ctx context.Context, engine, attack string) (*attackResult, error) {
	b, err := newBench(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.close()

	b.server.env["TALLYGATE_ROLES"] = "control,data,worker"

	if c.Flood {
		// the default
		delete(b.server.env, "TALLYGATE_FLOOD_BURST")
	}

	if err := b.server.start(ctx); err != nil {
		return nil, err
	}

	s, err := newOwnScene(ctx, b, &trafficFlags{Mix: "pageviews", Sites: 2, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}

	bystander, target := s.traffic.sites[0], s.traffic.sites[1]

	if attack == "exhausted" {
		input := map[string]any{"siteId": target.ID, "plan": "ENTERPRISE", "monthlyPageviews": attackQuota}
		if err := s.account.change(ctx, "setSitePlan", "", input, nil); err != nil {
			return nil, err
		}
	}

	return alternate(ctx, c.Rounds, c.Duration, bystanders(b.server.data, bystander), func(ctx context.Context) *result {
		l := load{addr: b.server.data, connections: attackWorkers, rate: c.Rate}
		return l.run(ctx, func(connection int) source {
			return &attacker{host: b.server.data, site: target, manual: attack != "campaigns", connection: connection}
		})
	})
}

// bystanders returns what sends another site's hits at their own pace for a while.
func bystanders(addr string, site site) func(ctx context.Context, duration time.Duration) *result {
	round := 0
	return func(ctx context.Context, duration time.Duration) *result {
		round++
		l := load{addr: addr, connections: bystanderRate, rate: bystanderRate, duration: duration}
		return l.run(ctx, func(connection int) source {
			return &bystander{host: addr, site: site, number: (round*bystanderRate + connection) << 16}
		})
	}
}

// alternate measures the bystanders' hits in turn without and with an attack, which runs until its
// context ends.
func alternate(ctx context.Context, rounds int, duration time.Duration, bystanders func(context.Context, time.Duration) *result,
	attack func(context.Context) *result) (*attackResult, error) {
	r := &attackResult{calm: newTotals(), attacked: newTotals(), attacker: newTotals()}
	for range rounds {
		r.calm.add(bystanders(ctx, duration))

		attacking, stop := context.WithCancel(ctx)
		done := make(chan *result)
		go func() { done <- attack(attacking) }()
		r.attacked.add(bystanders(ctx, duration))
		stop()
		r.attacker.add(<-done)
	}

	return r, ctx.Err()
}

// attackResult is what the bystanders' hits met without and with the attack.
type attackResult struct {
	calm, attacked, attacker *totals
}

// totals sums up the results of several rounds.
type totals struct {
	latency histogram
	answers map[string]int64
	unsent  int64 // those that were due at the end, or that no connection was free for
	elapsed time.Duration
}

func newTotals() *totals { return &totals{answers: make(map[string]int64)} }

func (t *totals) add(r *result) {
	t.latency.merge(&r.latency)
	t.unsent += r.unsent
	t.elapsed += r.elapsed
	for answer, n := range r.answers {
		t.answers[answer] += n
	}
}

// refused counts the hits that were not stored.
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
	return fmt.Sprintf("%5d hits, %d refused, %d too late to be sent, p50 %6.2f ms, p99 %7.2f ms", t.sent(), t.refused(), t.unsent,
		milliseconds(t.latency.quantile(0.5)), milliseconds(t.latency.quantile(0.99)))
}

func (r *attackResult) print(w io.Writer, engine, attack string) {
	fmt.Fprintf(w, "%-8s %-10s calm:   %v\n", engine, attack, r.calm)
	fmt.Fprintf(w, "%-8s %-10s attack: %v, %.1f times the calm p99\n", engine, attack, r.attacked,
		float64(r.attacked.latency.quantile(0.99))/float64(r.calm.latency.quantile(0.99)))

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

// attacker makes page views of one visitor, each with a campaign of its own, which makes each a
// visit. It stands for a client that nothing but the rules of visits holds off.
type attacker struct {
	host       string
	site       site
	manual     bool
	connection int
	number     int
}

func (a *attacker) next() []byte {
	a.number++
	x := ""
	if a.manual {
		x = `"x":1,`
	}
	body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/",%s"u":{"source":"s%d-%d"}}`, a.site.Key, x, a.connection, a.number)
	return collectRequest(a.host, a.site.origin(), "198.51.100.7", body)
}

func (a *attacker) done(answer, error) {}

// bystander makes page views of ever new visitors.
type bystander struct {
	host   string
	site   site
	number int
}

func (b *bystander) next() []byte {
	b.number++
	addr := fmt.Sprintf("10.%d.%d.%d", b.number>>16&255, b.number>>8&255, b.number&255)
	body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/page","i":"%016x"}`, b.site.Key, b.number)
	return collectRequest(b.host, b.site.origin(), addr, body)
}

func (b *bystander) done(answer, error) {}

// collectRequest writes a hit as a browser behind a proxy sends it.
func collectRequest(host, origin, addr, body string) []byte {
	return fmt.Appendf(nil, "POST /collect.php HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nUser-Agent: %s\r\nX-Forwarded-For: %s\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", host, origin, attackAgent, addr, len(body), body)
}

const attackAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
