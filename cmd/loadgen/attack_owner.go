package main

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
)

// attackOwnerCommand measures the hits of one account's site while the owner of another account
// changes settings over many connections, without a pause and whatever the answers are.
type attackOwnerCommand struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engine      string        `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Connections int           `default:"200" placeholder:"N" help:"Connections of the attacker, 1 to 4096."`
	Rate        float64       `default:"50" placeholder:"N" help:"Hits a second of the other account's site, more than 0."`
	Quiet       time.Duration `default:"15s" placeholder:"TIME" help:"How long is measured before the attack."`
	Duration    time.Duration `default:"70s" placeholder:"TIME" help:"How long is measured during the attack. An account has its points again after a minute."`
}

// probeConnections is over how many connections the hits come that are measured.
const probeConnections = 25

// Validate checks what one flag alone cannot tell.
func (c *attackOwnerCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, maxConnections)
	case c.Rate <= 0 || c.Rate > 10_000:
		return fmt.Errorf("--rate: %v is not more than 0 and at most 10000", c.Rate)
	case c.Quiet <= 0 || c.Quiet > time.Hour:
		return fmt.Errorf("--quiet: %v is not more than 0 and at most 1h", c.Quiet)
	case c.Duration <= 0 || c.Duration > time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1h", c.Duration)
	}

	return nil
}

// Run runs the command. It fails when the attack harms the other account's hits.
func (c *attackOwnerCommand) Run(ctx context.Context, term terminal) error {
	b, err := newBench(c.Program, c.Engine)
	if err != nil {
		return err
	}
	defer b.close()

	if err := b.server.start(ctx); err != nil {
		return err
	}

	outcome, err := c.attack(ctx, b)
	if err != nil {
		return err
	}

	outcome.print(term.out, c)
	return outcome.check()
}

// attackOutcome is what was measured of the other account's hits, and what became of the attacker's
// requests.
type attackOutcome struct {
	quiet, attacked *result
	requests        int64 // of the attacker
	unanswered      int64
	refused         int64 // requests with at least one change that was refused
	changes         int64 // changes that were made
}

// worstSlowdown bounds the p99 during an attack, as a multiple of the p99 before.
const worstSlowdown = 5

// check fails when hits were refused or slowed down too much.
func (o *attackOutcome) check() error {
	if share := o.attacked.failedShare(); share > 0 {
		return fmt.Errorf("%s of the other account's hits were refused during the attack", percent(share))
	}

	before, during := o.quiet.latency.quantile(0.99), o.attacked.latency.quantile(0.99)
	if during > worstSlowdown*before {
		return fmt.Errorf("the p99 of the other account's hits rose from %v to %v", before, during)
	}

	return nil
}

func (o *attackOutcome) print(w io.Writer, c *attackOwnerCommand) {
	fmt.Fprintf(w, "%s: hits of another account's site at %g/s; attacker: one owner, %d connections\n", c.Engine, c.Rate, c.Connections)
	fmt.Fprintf(w, "%-8s %8s %9s %9s %9s %9s\n", "", "hits", "refused", "p50 ms", "p99 ms", "max ms")

	for _, phase := range []struct {
		name string
		r    *result
	}{{"quiet", o.quiet}, {"attack", o.attacked}} {
		fmt.Fprintf(w, "%-8s %8d %9s %9.1f %9.1f %9.1f\n", phase.name, phase.r.sent(), percent(phase.r.failedShare()),
			milliseconds(phase.r.latency.quantile(0.5)), milliseconds(phase.r.latency.quantile(0.99)), milliseconds(phase.r.latency.largest))
	}

	fmt.Fprintf(w, "attacker: %d requests, %d of them refused in part or whole, %d without answer; %d changes made\n",
		o.requests, o.refused, o.unanswered, o.changes)
}

// attack measures a server that runs already.
func (c *attackOwnerCommand) attack(ctx context.Context, b *bench) (*attackOutcome, error) {
	// first: only the first account may sign up
	request, err := c.request(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("make the attacker's request: %w", err)
	}

	victim, err := c.victim(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("make the other account's site: %w", err)
	}

	probe := load{connections: probeConnections, rate: c.Rate, warmup: 2 * time.Second, duration: c.Quiet}
	o := &attackOutcome{quiet: victim.phase(ctx, nil, probe, mixes["pageviews"])}

	attacking, stop := context.WithCancel(ctx)
	defer stop()

	var attacker sync.WaitGroup
	requests := &ownerRequests{request: request}
	attacker.Go(func() {
		l := load{addr: b.server.control, connections: c.Connections}
		l.run(attacking, func(int) source { return requests })
	})

	// the beginning is a part of the attack
	probe.warmup, probe.duration = 0, c.Duration
	o.attacked = victim.phase(ctx, nil, probe, mixes["pageviews"])
	stop()
	attacker.Wait()
	o.requests, o.unanswered = requests.sent.Load(), requests.unanswered.Load()
	o.refused, o.changes = requests.refused.Load(), requests.changes.Load()

	return o, errors.Join(ctx.Err(), o.quiet.enough())
}

// victim makes an account with a site in the database. Hits need no more than the site key.
func (c *attackOwnerCommand) victim(ctx context.Context, b *bench) (*scene, error) {
	const domain = "victim.example"
	var made *model.Site
	err := b.withDatabase(func(d *db.DB) error {
		now := model.At(time.Now())
		user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen, model.Account{Name: "Victim", CaptchaPlan: model.CaptchaPlanFree, CreatedAt: now},
			model.User{Email: "owner@" + domain, PasswordHash: "-", CreatedAt: now})
		if err != nil {
			return err
		}

		made, err = sites.New(d).CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: domain, Name: domain,
			Plan: model.PlanEnterprise, MonthlyPageviews: 1_000_000_000, CreatedAt: now})

		return err
	})
	if err != nil {
		return nil, err
	}

	return &scene{traffic: traffic{seed: 1, host: b.server.data, visitors: 20_000, sites: []site{{Key: made.SiteKey, Domain: domain}}}}, nil
}

// The attacker's request holds as many changes, of as many addresses, as the limits of a request
// and of a site allow.
const (
	attackChanges   = 10
	attackAddresses = 200
)

// request signs the attacker up and returns the bytes of the request that is sent again and again,
// with an API token.
func (c *attackOwnerCommand) request(ctx context.Context, b *bench) ([]byte, error) {
	a, err := newAccount(b.server.target())
	if err != nil {
		return nil, err
	}
	if err := a.signIn(ctx); err != nil {
		return nil, err
	}

	var created struct{ Site site }
	if err := a.change(ctx, "createSite", "site { id }", map[string]any{"domain": "attacker.example"}, &created); err != nil {
		return nil, err
	}

	var token struct{ Token string }
	input := map[string]any{"name": "attack", "scopes": []string{"WRITE"}}
	if err := a.change(ctx, "createApiToken", "token", input, &token); err != nil {
		return nil, err
	}

	var addresses, query strings.Builder
	for i := range attackAddresses {
		fmt.Fprintf(&addresses, `"10.%d.0.0/16" `, i)
	}

	query.WriteString("mutation {")

	for i := range attackChanges {
		fmt.Fprintf(&query, ` a%d: updateSite(input: {siteId: %q, excludedAddresses: [%s]}) { site { id } }`, i, created.Site.ID, addresses.String())
	}

	query.WriteString(" }")
	body, err := json.Marshal(map[string]string{"query": query.String()})
	if err != nil {
		return nil, err
	}

	head := "POST /graphql HTTP/1.1\r\nHost: " + b.server.control + "\r\nAuthorization: Bearer " + token.Token +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"

	return append([]byte(head), body...), nil
}

// ownerRequests is the source of all connections of the attacker.
type ownerRequests struct {
	request                            []byte
	sent, unanswered, refused, changes atomic.Int64
}

func (r *ownerRequests) next() []byte {
	r.sent.Add(1)
	return r.request
}

func (r *ownerRequests) done(a answer, err error) {
	if err != nil {
		r.unanswered.Add(1)
		return
	}

	r.changes.Add(int64(bytes.Count(a.body, []byte(`{"site":{"id"`))))

	if bytes.Contains(a.body, []byte(`"errors":`)) {
		r.refused.Add(1)
	}
}
