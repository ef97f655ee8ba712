package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// AttackOwner measures the hits of one account's site while the owner of another account changes
// settings over many connections, continuously and regardless of the responses.
type AttackOwner struct {
	Private
	Engine      string        `long:"engine" default:"sqlite" choices:"sqlite,postgres" value-name:"NAME" unquote:"false" description:"Database: sqlite, or a private postgres."`
	Connections int           `long:"connections" default:"200" value-name:"N" description:"Connections of the attacker, 1 to 4096."`
	Rate        float64       `long:"rate" default:"50" value-name:"N" description:"Hits a second of the other account's site, more than 0."`
	Quiet       time.Duration `long:"quiet" default:"15s" value-name:"TIME" description:"Duration of the measurement before the attack."`
	Duration    time.Duration `long:"duration" default:"70s" value-name:"TIME" description:"Duration of the measurement during the attack. An account's rate limit refills within a minute."`
}

// probeConnections is the number of connections of the measured hits.
const probeConnections = 25

// Validate checks the limits of the flags.
func (c *AttackOwner) Validate() error {
	return errors.Join(within("--connections", c.Connections, 1, traffic.MaxConnections), within("--rate", c.Rate, 0.001, 10_000),
		within("--quiet", c.Quiet, shortest, longest), within("--duration", c.Duration, shortest, longest))
}

// worstSlowdown is the largest accepted p99 during an attack, as a multiple of the p99 before.
const worstSlowdown = 5

// The units of the attacker's figures.
const (
	attackRequests   = "requests"
	attackUnanswered = "unanswered-requests"
	attackRefused    = "refused-requests" // with at least one refused change
	attackChanged    = "changes"          // made
)

var ownerColumns = []report.Column{
	{Title: "phase", Format: "%s", Names: []string{"phase"}},
	{Title: "hits", Format: "%.0f", Names: []string{report.Sent}},
	{Title: "refused", Of: report.Percent, Names: []string{report.Failed}},
	{Title: "p50 ms", Format: "%.1f", Names: []string{report.P50}},
	{Title: "p99 ms", Format: "%.1f", Names: []string{report.P99}},
	{Title: "max ms", Format: "%.1f", Names: []string{report.Longest}},
}

// Play implements Scenario.
func (c *AttackOwner) Play(ctx context.Context, progress io.Writer) (o *report.Outcome, err error) {
	err = c.on(c.Engine, new(report.Outcome), progress, func(s *stage) error {
		if err := s.in.Server.Start(ctx); err != nil {
			return err
		}
		o, err = c.PlayOn(ctx, s.in)
		return err
	})
	return o, err
}

// PlayOn measures a running server.
func (c *AttackOwner) PlayOn(ctx context.Context, b *instance.Instance) (*report.Outcome, error) {
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
	quiet := victim.Phase(ctx, nil, probe, traffic.Mixes["pageviews"])

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
	attacked := victim.Phase(ctx, nil, probe, traffic.Mixes["pageviews"])
	stop()
	attacker.Wait()
	return c.outcome(quiet, attacked, requests), errors.Join(ctx.Err(), quiet.Enough())
}

// outcome returns the measurement of the other account's hits, and the counts of the attacker's
// requests. It is a fault if hits were refused or slowed down too much.
func (c *AttackOwner) outcome(quiet, attacked *load.Result, requests *ownerRequests) *report.Outcome {
	o := &report.Outcome{Scenario: "attack-owner"}
	o.Case("engine", c.Engine, "phase", "quiet").AddResult(quiet)
	o.Case("engine", c.Engine, "phase", "attack").AddResult(attacked)
	o.Write("%s: hits of another account's site at %g/s; attacker: one owner, %d connections\n\n%s\n",
		c.Engine, c.Rate, c.Connections, report.Table(ownerColumns, o.Cases))

	attacker := o.Case("engine", c.Engine, "phase", "attacker")
	attacker.Add(attackRequests, float64(requests.sent.Load()))
	attacker.Add(attackUnanswered, float64(requests.unanswered.Load()))
	attacker.Add(attackRefused, float64(requests.refused.Load()))
	attacker.Add(attackChanged, float64(requests.changes.Load()))
	o.Write("attacker: %.0f requests, %.0f of them partly or wholly refused, %.0f without answer; %.0f changes made\n",
		attacker.Get(attackRequests), attacker.Get(attackRefused), attacker.Get(attackUnanswered), attacker.Get(attackChanged))

	if share := attacked.FailedShare(); share > 0 {
		o.Fault("%s of the other account's hits were refused during the attack", report.Percent(share))
	}
	if before, during := quiet.Latency.Quantile(0.99), attacked.Latency.Quantile(0.99); during > worstSlowdown*before {
		o.Fault("the p99 of the other account's hits rose from %v to %v", before, during)
	}
	return o
}

// victim creates the other account and its site in the database. Its hits need only the site key.
func (c *AttackOwner) victim(ctx context.Context, b *instance.Instance) (*traffic.Session, error) {
	s := &traffic.Session{Traffic: traffic.Traffic{Seed: 1, Host: b.Server.Data, Visitors: 20_000}}
	err := b.WithDatabase(func(d *db.DB) (err error) {
		s.Traffic.Sites, err = storeSites(ctx, d, "victim", 1)
		return err
	})
	return s, err
}

// The attacker's request contains as many changes, each of as many addresses, as the limits of a
// request and a site permit.
const (
	attackChanges   = 10
	attackAddresses = 200
)

// request signs the attacker up and returns the request to repeat, authorized by an API token.
func (c *AttackOwner) request(ctx context.Context, b *instance.Instance) ([]byte, error) {
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

	return load.Post(nil, b.Server.Control, "/graphql", body, "Authorization: Bearer "+*token.CreateApiToken.Token,
		"Content-Type: application/json"), nil
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
