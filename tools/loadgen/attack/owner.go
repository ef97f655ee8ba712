package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// OwnerCommand measures the hits of one account's site while the owner of another account changes
// settings over many connections, continuously and regardless of the responses.
type OwnerCommand struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engine      string        `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Connections int           `default:"200" placeholder:"N" help:"Connections of the attacker, 1 to 4096."`
	Rate        float64       `default:"50" placeholder:"N" help:"Hits a second of the other account's site, more than 0."`
	Quiet       time.Duration `default:"15s" placeholder:"TIME" help:"Duration of the measurement before the attack."`
	Duration    time.Duration `default:"70s" placeholder:"TIME" help:"Duration of the measurement during the attack. An account's rate limit refills within a minute."`
}

// probeConnections is the number of connections of the measured hits.
const probeConnections = 25

// Validate checks the limits of the flags.
func (c *OwnerCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > traffic.MaxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections)
	case c.Rate <= 0 || c.Rate > 10_000:
		return fmt.Errorf("--rate: %v is not more than 0 and at most 10000", c.Rate)
	case c.Quiet <= 0 || c.Quiet > time.Hour:
		return fmt.Errorf("--quiet: %v is not more than 0 and at most 1h", c.Quiet)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	}

	return nil
}

// Run prints the outcome. It returns an error if the attack harmed the other account's hits.
func (c *OwnerCommand) Run(ctx context.Context, term report.Terminal) error {
	b, err := instance.New(c.Program, c.Engine)
	if err != nil {
		return err
	}
	defer b.Close()

	if err := b.Server.Start(ctx); err != nil {
		return err
	}

	outcome, err := c.Attack(ctx, b)
	if err != nil {
		return err
	}

	outcome.Print(term.Out, c)
	return outcome.check()
}

// attackOutcome is the measurement of the other account's hits, and the counts of the attacker's
// requests.
type attackOutcome struct {
	quiet, Attacked *load.Result
	requests        int64 // sent by the attacker
	Unanswered      int64
	Refused         int64 // requests with at least one refused change
	Changes         int64 // changes made
}

// worstSlowdown is the largest accepted p99 during an attack, as a multiple of the p99 before.
const worstSlowdown = 5

// check returns an error if hits were refused or slowed down too much.
func (o *attackOutcome) check() error {
	if share := o.Attacked.FailedShare(); share > 0 {
		return fmt.Errorf("%s of the other account's hits were refused during the attack", report.Percent(share))
	}

	before, during := o.quiet.Latency.Quantile(0.99), o.Attacked.Latency.Quantile(0.99)
	if during > worstSlowdown*before {
		return fmt.Errorf("the p99 of the other account's hits rose from %v to %v", before, during)
	}

	return nil
}

// Print writes the outcome for people.
func (o *attackOutcome) Print(w io.Writer, c *OwnerCommand) {
	fmt.Fprintf(w, "%s: hits of another account's site at %g/s; attacker: one owner, %d connections\n",
		c.Engine, c.Rate, c.Connections)
	fmt.Fprintf(w, "%-8s %8s %9s %9s %9s %9s\n", "", "hits", "refused", "p50 ms", "p99 ms", "max ms")

	for _, phase := range []struct {
		name string
		r    *load.Result
	}{{"quiet", o.quiet}, {"attack", o.Attacked}} {
		fmt.Fprintf(w, "%-8s %8d %9s %9.1f %9.1f %9.1f\n",
			phase.name, phase.r.Sent(), report.Percent(phase.r.FailedShare()),
			report.Milliseconds(phase.r.Latency.Quantile(0.5)), report.Milliseconds(phase.r.Latency.Quantile(0.99)),
			report.Milliseconds(phase.r.Latency.Max))
	}

	fmt.Fprintf(w, "attacker: %d requests, %d of them partly or wholly refused, %d without answer; %d changes made\n",
		o.requests, o.Refused, o.Unanswered, o.Changes)
}

// Attack measures a running server.
func (c *OwnerCommand) Attack(ctx context.Context, b *instance.Instance) (*attackOutcome, error) {
	// The attacker signs up first, because only the first account may.
	request, err := c.request(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("make the attacker's request: %w", err)
	}

	victim, err := c.victim(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("make the other account's site: %w", err)
	}

	probe := load.Load{Connections: probeConnections, Rate: c.Rate, Warmup: 2 * time.Second, Duration: c.Quiet}
	o := &attackOutcome{quiet: victim.Phase(ctx, nil, probe, traffic.Mixes["pageviews"])}

	attacking, stop := context.WithCancel(ctx)
	defer stop()

	var attacker sync.WaitGroup
	requests := &ownerRequests{request: request}
	attacker.Go(func() {
		l := load.Load{Addr: b.Server.Control, Connections: c.Connections}
		l.Run(attacking, func(int) load.Source { return requests })
	})

	// There is no warm-up: the start of the attack counts.
	probe.Warmup, probe.Duration = 0, c.Duration
	o.Attacked = victim.Phase(ctx, nil, probe, traffic.Mixes["pageviews"])
	stop()
	attacker.Wait()
	o.requests, o.Unanswered = requests.sent.Load(), requests.unanswered.Load()
	o.Refused, o.Changes = requests.refused.Load(), requests.changes.Load()

	return o, errors.Join(ctx.Err(), o.quiet.Enough())
}

// victim creates the other account and its site in the database. Its hits need only the site key.
func (c *OwnerCommand) victim(ctx context.Context, b *instance.Instance) (*traffic.Session, error) {
	const domain = "victim.example"
	var made *model.Site
	err := b.WithDatabase(func(d *db.DB) error {
		now := model.At(time.Now())
		user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen,
			model.Account{Name: "Victim", CaptchaPlan: model.CaptchaPlanFree, CreatedAt: now},
			model.User{Email: "owner@" + domain, PasswordHash: "-", CreatedAt: now})
		if err != nil {
			return err
		}

		made, err = sites.New(d).CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: domain,
			Name: domain,
			Plan: model.PlanEnterprise, MonthlyPageviews: 1_000_000_000, CreatedAt: now})

		return err
	})
	if err != nil {
		return nil, err
	}

	return &traffic.Session{Traffic: traffic.Traffic{Seed: 1, Host: b.Server.Data, Visitors: 20_000,
		Sites: []target.Site{{Key: made.SiteKey, Domain: domain}}}}, nil
}

// The attacker's request contains as many changes, each of as many addresses, as the limits of a
// request and a site permit.
const (
	attackChanges   = 10
	attackAddresses = 200
)

// request signs the attacker up and returns the request to repeat, authorized by an API token.
func (c *OwnerCommand) request(ctx context.Context, b *instance.Instance) ([]byte, error) {
	a, err := target.NewAccount(b.Server.Target())
	if err != nil {
		return nil, err
	}
	if err := a.SignIn(ctx); err != nil {
		return nil, err
	}

	site, err := a.CreateSite(ctx, "attacker.example")
	if err != nil {
		return nil, err
	}

	token, err := client.CreateApiToken(ctx, a, "attack", []client.ApiTokenScope{client.ApiTokenScopeWrite})
	if err := client.Refused(err, token.CreateApiToken); err != nil {
		return nil, err
	}

	var addresses, query strings.Builder
	for i := range attackAddresses {
		fmt.Fprintf(&addresses, `"10.%d.0.0/16" `, i)
	}

	query.WriteString("mutation {")

	for i := range attackChanges {
		fmt.Fprintf(&query, ` a%d: updateSite(input: {siteId: %q, excludedAddresses: [%s]}) { site { id } }`,
			i, site.ID, addresses.String())
	}

	query.WriteString(" }")
	body, err := json.Marshal(map[string]string{"query": query.String()})
	if err != nil {
		return nil, err
	}

	head := "POST /graphql HTTP/1.1\r\nHost: " + b.Server.Control + "\r\nAuthorization: Bearer " + *token.CreateApiToken.Token +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"

	return append([]byte(head), body...), nil
}

// ownerRequests is the attacker's source, shared by all connections.
type ownerRequests struct {
	request                            []byte
	sent, unanswered, refused, changes atomic.Int64
}

func (r *ownerRequests) Next() []byte {
	r.sent.Add(1)
	return r.request
}

func (r *ownerRequests) Done(a load.Answer, err error) {
	if err != nil {
		r.unanswered.Add(1)
		return
	}

	r.changes.Add(int64(bytes.Count(a.Body, []byte(`{"site":{"id"`))))

	if bytes.Contains(a.Body, []byte(`"errors":`)) {
		r.refused.Add(1)
	}
}
