package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// The accounts of the attack on reports, their sites, and the stored rows.

// eventName is the event that the attacker registers.
const eventName = "signup"

// prepare creates both accounts with their sites.
func (a *reportAttack) prepare(ctx context.Context) error {
	// The first account is the operator's, who may give its own sites a large plan.
	flags := standard("pageviews", 2)
	s, err := traffic.NewOwnSession(ctx, a.in.Server.Target(), &flags)
	if err != nil {
		return err
	}
	a.honest, a.readSite = s.Account, s.Traffic.Sites[1]
	a.others = &bystanders{server: a.in.Server, sites: s.Traffic.Sites[:1], rate: bystanderRate}

	if err := a.prepareHostile(ctx); err != nil {
		return err
	}
	if err := a.sendPaths(ctx); err != nil {
		return err
	}
	if err := a.in.Server.Stop(); err != nil {
		return err
	}
	return a.in.WithDatabase(a.fillHonest(ctx))
}

// prepareHostile signs up on the FREE plan, and creates sites and shared links.
func (a *reportAttack) prepareHostile(ctx context.Context) (err error) {
	if a.hostile, err = newTenant(ctx, a.in.Server); err != nil {
		return err
	}

	for _, site := range []struct {
		domain string
		made   *target.Site
	}{{"events.example", &a.eventSite}, {"day.example", &a.daySite}, {"paths.example", &a.pathSite}} {
		if *site.made, err = a.hostile.CreateSite(ctx, "attack-"+site.domain); err != nil {
			return err
		}
	}

	if err := a.hostile.RegisterEvent(ctx, a.eventSite.ID, eventName); err != nil {
		return err
	}
	if a.eventSite.Secret, err = a.hostile.NewServerSecret(ctx, a.eventSite.ID); err != nil {
		return err
	}

	if a.eventReader, err = openLink(ctx, a.hostile, a.eventSite.ID); err != nil {
		return err
	}
	a.pathReader, err = openLink(ctx, a.hostile, a.pathSite.ID)
	return err
}

// readViews is the number of page views of a day of the honest account.
const readViews = 1_000

// fillHonest stores page views of the honest account, and builds its finished days.
func (a *reportAttack) fillHonest(ctx context.Context) func(*db.DB) error {
	return func(d *db.DB) error {
		id, err := siteOf(ctx, d, a.readSite.ID)
		if err != nil {
			return err
		}

		now := model.At(time.Now())
		if _, err := newYear(id, readViews*readDays, readDays, now).fill(ctx, d, a.progress); err != nil {
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
}

// viewsOf returns page views at equal distances, each of a visitor of its own.
func viewsOf(random *rand.Rand, siteID int64, from, to model.Instant, n int) bulk.Rows {
	var rows bulk.Rows
	for i := range n {
		at := from.Add(time.Duration(i) * to.Sub(from) / time.Duration(n))
		v := model.Visit{SiteID: model.SiteID(siteID), N: 1, StartedAt: at, LastPageviewAt: at, Pageviews: 1, Channel: "direct"}
		for b := range v.Visitor {
			v.Visitor[b] = byte(random.Uint32())
		}

		rows.Visits = append(rows.Visits, v)
		rows.Pageviews = append(rows.Pageviews, model.Pageview{SiteID: model.SiteID(siteID), At: at, ID: random.Int64(),
			Visitor: v.Visitor, N: v.N, Path: fmt.Sprintf("/page-%d", i%40), WidthRange: -1})
	}

	rows.Sort()
	return rows
}

const (
	dayVisitors = 500   // of the day that the worker builds
	dayChunk    = 5_000 // events of one transaction
)

// storeDay stores events of yesterday, with as many properties as fit, and makes that day due.
func storeDay(ctx context.Context, d *db.DB, nodeID string, events int) (model.Day, error) {
	id, err := siteOf(ctx, d, nodeID)
	if err != nil {
		return 0, err
	}

	// A day is built some minutes after its end, so in the first hour of a day it is an earlier
	// one.
	now := model.At(time.Now())
	day := now.Add(-time.Hour).Day() - 1
	random := rand.New(rand.NewPCG(2, 33))
	err = bulk.Fill(ctx, d, func() error {
		if err := retention.New(d).EnsurePartitions(ctx, day.Start()); err != nil {
			return err
		}

		visits := viewsOf(random, id, day.Start(), day.Start().Add(time.Hour), dayVisitors)
		if err := bulk.Load(ctx, d, visits); err != nil {
			return err
		}

		for first := 0; first < events; first += dayChunk {
			var rows bulk.Rows
			for i := first; i < min(first+dayChunk, events); i++ {
				at := day.Start().Add(time.Hour + time.Duration(i)*22*time.Hour/time.Duration(events))
				rows.Events = append(rows.Events, model.Event{SiteID: model.SiteID(id), At: at, ID: random.Int64(),
					Visitor: visits.Visits[i%dayVisitors].Visitor, N: 1, Name: eventName, Path: "/",
					Properties: string(appendProperties(nil, random))})
			}
			if err := bulk.Load(ctx, d, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}

	return day, reports.New(d).PlanSite(ctx, model.SiteID(id), day, now)
}

// awaitDay waits until the worker has built a day of a site. It returns false if the process
// terminates or the patience ends first.
func awaitDay(
	ctx context.Context, in *instance.Instance, nodeID string, day model.Day, patience time.Duration,
) (built bool, err error) {
	deadline := time.Now().Add(patience)
	err = in.WithDatabase(func(d *db.DB) error {
		id, err := siteOf(ctx, d, nodeID)
		if err != nil {
			return err
		}

		for store := reports.New(d); ; _ = load.Wait(ctx, 200*time.Millisecond) {
			views, err := store.DayPageviews(ctx, model.SiteID(id), day)
			built = views > 0
			if err != nil || built || in.Server.Ended() || time.Now().After(deadline) {
				return errors.Join(err, ctx.Err())
			}
		}
	})
	return built, err
}

const (
	propertyCount = 273 // properties that fit into the 4,096 bytes of an event
	valueBytes    = 7
)

// propertyName returns a name of two letters.
func propertyName(i int) string { return string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}) }

// appendProperties appends as many properties as an event may have, with random values.
func appendProperties(b []byte, random *rand.Rand) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	b = append(b, '{')
	for i := range propertyCount {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, '"')
		b = append(b, propertyName(i)...)
		b = append(b, `":"`...)
		value := random.Uint64()
		for range valueBytes {
			b = append(b, letters[value%uint64(len(letters))])
			value /= uint64(len(letters))
		}
		b = append(b, '"')
	}
	return append(b, '}')
}

// eventConnections is the number of connections that send events.
const eventConnections = 16

// sendEvents sends n events of a site over /server.php, at a rate and whatever the answers. It
// returns the answers with their numbers.
func sendEvents(ctx context.Context, host, secret string, n int, rate float64) string {
	random := rand.New(rand.NewPCG(3, 33))
	events := &counted{name: recordedAs, request: func(number int) []byte {
		if number > n {
			return nil
		}
		body := fmt.Appendf(nil, `{"event":%q,"ip":"198.51.%d.%d","user_agent":%q,"meta":`, eventName,
			100+number/200%4, 1+number%200, strings.ReplaceAll(attackAgent, "145", fmt.Sprint(100+number%40)))
		body = append(appendProperties(body, random), '}')
		return load.Post(nil, host, "/server.php", body, "Authorization: Bearer "+secret, "X-Forwarded-For: 203.0.113.7",
			"Content-Type: application/json")
	}}

	l := load.Load{Addr: host, Connections: eventConnections, Rate: rate}
	l.Run(ctx, func(int) load.Source { return events })
	return events.String()
}

// recordedAs returns the status and the reason of an answer of /server.php.
func recordedAs(answer load.Answer) string {
	var reply struct{ Status, Reason string }
	if answer.Status == 200 && json.Unmarshal(answer.Body, &reply) == nil {
		return strings.TrimSpace(reply.Status + " " + reply.Reason)
	}
	return strings.TrimSpace(fmt.Sprint(answer.Status, " ", load.CodeOf(answer.Body)))
}

const (
	pathViews  = 100   // page views of the site with long paths
	pathLength = 2_000 // characters
)

// sendPaths sends page views. Their paths repeat one letter and differ at the end.
func (a *reportAttack) sendPaths(ctx context.Context) error {
	n := 0
	l := load.Load{Addr: a.in.Server.Data, Connections: 1}
	r := l.Run(ctx, func(int) load.Source {
		return load.Requests(func() []byte {
			if n++; n > pathViews {
				return nil
			}
			tail := fmt.Sprintf("%03d", n)
			body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/%s%s","i":"%016x"}`, a.pathSite.Key,
				bytes.Repeat([]byte("a"), pathLength-1-len(tail)), tail, n)
			return collectRequest(a.in.Server.Data, a.pathSite.Origin(), fmt.Sprintf("198.51.100.%d", n), body)
		})
	})

	if r.Answers["204"] != pathViews {
		return fmt.Errorf("page views with long paths: %v", r.Answers)
	}
	return ctx.Err()
}

// patternSize is how long the patterns of a filter are together.
type patternSize struct {
	bytes     int
	asterisks int // 0: every other character
}

// patternSizes are tried in this order, until the service accepts one.
var patternSizes = []patternSize{{20_000, 0}, {2_000, 0}, {2_000, 50}, {1_000, 50}, {1_000, 20}, {500, 10}, {100, 2}}

// String describes the patterns.
func (s patternSize) String() string {
	if s.asterisks == 0 {
		return fmt.Sprintf("%d bytes of patterns", s.bytes)
	}
	return fmt.Sprintf("%d bytes of patterns with %d asterisks", s.bytes, s.asterisks)
}

// filter returns a filter with patterns that no path matches but at their ends.
func (s patternSize) filter() string {
	var values []string
	for rest := s.bytes; rest > 0; rest -= pathLength {
		values = append(values, fmt.Sprintf("%q", s.pattern(min(rest, pathLength))))
	}
	return fmt.Sprintf("{dimension: PAGE, operator: MATCHES, values: [%s]}", strings.Join(values, ", "))
}

// pattern returns one pattern of a length.
func (s patternSize) pattern(length int) string {
	every := 2
	if s.asterisks > 0 {
		every = max(length/s.asterisks, 2)
	}

	p := []byte("/")
	for asterisks := 0; len(p) < length-1; {
		if (s.asterisks == 0 || asterisks < s.asterisks) && len(p)%every == 1 {
			p = append(p, '*')
			asterisks++
		} else {
			p = append(p, 'a')
		}
	}
	return string(append(p, 'b'))
}
