package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// AttackVisitor measures another site's hits while one anonymous client sends expensive hits.
type AttackVisitor struct {
	Private
	Engines  []string      `long:"engines" defaults:"sqlite,postgres" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, and a private postgres. May be repeated."`
	Attacks  []string      `long:"attacks" defaults:"manual,campaigns,exhausted" choice:"manual" choice:"campaigns" choice:"exhausted" value-name:"NAME" unquote:"false" description:"Kinds of attack: manual or automatic page views, each with a new campaign; or exhausted: page views of a site whose quota is used up. May be repeated."`
	Rate     float64       `long:"rate" default:"600" value-name:"N" description:"The attacker's hits a second."`
	Rounds   int           `long:"rounds" default:"3" value-name:"N" description:"Number of times that calm and attack alternate."`
	Duration time.Duration `long:"duration" default:"8s" value-name:"TIME" description:"Duration of each calm and each attack."`
	Flood    bool          `long:"flood" description:"Keep the flood limit per network, which stops this client. Without it, the client stands for one with many networks."`
}

// Validate checks the limits of the flags.
func (c *AttackVisitor) Validate() error {
	return errors.Join(within("--rate", c.Rate, 1, 100_000), within("--rounds", c.Rounds, 1, 100),
		within("--duration", c.Duration, shortest, longest))
}

const (
	attackQuota   = 100 // monthly page views of the site with an exhausted quota
	attackWorkers = 64  // connections of the attacker
	maxAttacks    = 100 // attacks on a site whose quota is not used up yet
)

// Play implements Scenario. A refused hit of the other site is a fault.
func (c *AttackVisitor) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "attack-visitor"}
	for _, engine := range c.Engines {
		for _, attack := range c.Attacks {
			if err := c.on(engine, o, progress, func(s *stage) error { return c.measure(ctx, s, attack) }); err != nil {
				return nil, fmt.Errorf("%s: %w", attack, err)
			}
		}
	}
	return o, nil
}

// measure starts the program on an empty database and alternates calm and attack.
func (c *AttackVisitor) measure(ctx context.Context, s *stage, attack string) error {
	in := s.in
	in.Server.Env["TALLYGATE_ROLES"] = "control,data,worker"
	if c.Flood {
		// Use the default limit.
		delete(in.Server.Env, "TALLYGATE_FLOOD_BURST")
	}
	if err := in.Server.Start(ctx); err != nil {
		return err
	}
	if err := s.open(ctx, in.Server, standard("pageviews", 2)); err != nil {
		return err
	}
	attacked := s.session.Traffic.Sites[1]
	if attack == "exhausted" {
		if err := s.session.Account.SetPlan(ctx, attacked.ID, attackQuota); err != nil {
			return err
		}
	}

	others := &bystanders{server: in.Server, sites: s.session.Traffic.Sites[:1], rate: bystanderRate}
	var calm, during, attacker load.Result
	for range c.Rounds {
		calm.Merge(others.drive(ctx, c.Duration))

		attacking, stop := context.WithCancel(ctx)
		done := make(chan *load.Result)
		go func() { done <- c.attack(attacking, in.Server.Data, attacked, attack != "campaigns") }()
		during.Merge(others.drive(ctx, c.Duration))
		stop()
		attacker.Merge(<-done)
	}

	// The attacks can end before the quota on a busy machine.
	for try := 0; attack == "exhausted" && attacker.Answers["429 quota_exceeded"] == 0 && try < maxAttacks; try++ {
		attacking, stop := context.WithTimeout(ctx, c.Duration)
		attacker.Merge(c.attack(attacking, in.Server.Data, attacked, true))
		stop()
	}
	c.add(s.outcome, s.engine, attack, &calm, &during, &attacker)
	return errors.Join(s.journal.Close(), ctx.Err())
}

// attack sends page views of one visitor until ctx ends. Each has a new campaign and therefore
// starts a visit. It stands for a client that is limited only by the rules of visits.
func (c *AttackVisitor) attack(ctx context.Context, host string, site target.Site, manual bool) *load.Result {
	x := ""
	if manual {
		x = `"x":1,`
	}
	l := load.Load{Addr: host, Connections: attackWorkers, Rate: c.Rate}
	return l.Run(ctx, func(connection int) load.Source {
		number := 0
		return load.Requests(func() []byte {
			number++
			body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/",%s"u":{"source":"s%d-%d"}}`, site.Key, x, connection, number)
			return collectRequest(host, site.Origin(), "198.51.100.7", body)
		})
	})
}

// add adds the measurement of one kind of attack.
func (c *AttackVisitor) add(o *report.Outcome, engine, attack string, calm, during, attacker *load.Result) {
	line := func(phase, format string, args ...any) {
		o.Write("%-8s %-10s %s: %s\n", engine, attack, phase, fmt.Sprintf(format, args...))
	}
	hits := func(phase string, r *load.Result) (text string, one *report.Case) {
		one = o.Case("engine", engine, "attack", attack, "phase", phase)
		one.AddResult(r)
		return fmt.Sprintf("%5d hits, %d refused, %d not sent in time, p50 %6.2f ms, p99 %7.2f ms", r.Sent(),
			r.Sent()-r.Answers["204"], r.Unsent, one.Get(report.P50), one.Get(report.P99)), one
	}

	text, quiet := hits("calm", calm)
	line("calm", "%s", text)
	text, attacked := hits("attack", during)
	line("attack", "%s, %.1f times the calm p99", text, attacked.Get(report.P99)/quiet.Get(report.P99))
	line("attacker", "%.0f a second: %s", float64(attacker.Sent())/during.Elapsed.Seconds(), countsText(attacker.Answers))
	if during.Sent() > during.Answers["204"] {
		o.Fault("%s, %s: hits of another site were refused", engine, attack)
	}
}
