package analytics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEventsInAnyOrder: the hits of a page load may arrive in any order, in any batches, at two
// writers in turn: page views and events belong to the same visits with the same attribution, and
// the webhooks say the same. The loads of a visitor keep their order, which is that of their first
// hits.
func TestEventsInAnyOrder(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		for seed := range uint64(8) {
			random := rand.New(rand.NewPCG(seed, 2))
			loads := randomLoads(random)
			want := storeLoads(t, d, fmt.Sprintf("in-order-%d.example", seed), slices.Concat(loads...), nil)
			for i := range 3 {
				domain := fmt.Sprintf("shuffled-%d-%d.example", seed, i)
				if got := storeLoads(t, d, domain, shuffleLoads(random, loads), random); got != want {
					t.Errorf("seed %d, loads %v\nstored\n%s\nwant\n%s", seed, shownLoads(loads), got, want)
				}
			}
		}
	})
}

// load is the hits of one page load: its page view first, then its events.
type load []hit

// randomLoads makes one visitor's page loads within two seconds, after one of earlier or none.
func randomLoads(random *rand.Rand) (loads []load) {
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

	if random.IntN(3) > 0 {
		before := at.Add(-time.Duration(5+random.IntN(50)) * time.Minute)
		loads = append(loads, load{{at: before, pageview: &model.Pageview{ID: 1, Path: "/before"},
			entry: entry{channel: "direct", campaign: model.Campaign{Source: pick("", "x")}}}})
	}

	for n := range 1 + random.IntN(3) {
		id := int64(100 + n)
		from := entry{
			channel: "referral", campaign: model.Campaign{Source: pick("", "x", "y"), Name: pick("", "", "spring")},
			referrer: pick("", "a.example/"),
		}
		one := load{{at: at, entry: from, pageview: &model.Pageview{ID: id, Path: fmt.Sprint("/", n)}}}
		for k := range random.IntN(4) {
			e := event.Accepted{Name: "signup"}

			if random.IntN(2) == 0 {
				e = event.Accepted{Name: model.EventPurchase, TransactionID: fmt.Sprint(n, "-", k), Currency: "EUR", Value: 1_000_000}
			}

			one = append(one, hit{at: at, entry: from, event: &e, path: fmt.Sprint("/", n), onPageview: &id})
		}

		loads = append(loads, one)
	}

	return loads
}

// shuffleLoads returns the hits in an order that keeps the order of the loads' first hits, 20 ms
// apart. An earlier load stays before the others.
func shuffleLoads(random *rand.Rand, loads []load) (hits []hit) {
	rest := make([]load, len(loads))
	for i, l := range loads {
		rest[i] = slices.Clone(l)
		random.Shuffle(len(l), func(a, b int) { rest[i][a], rest[i][b] = rest[i][b], rest[i][a] })
	}

	// how many loads have sent a hit
	begun := 0

	for {
		var choices []int
		for i := range min(begun+1, len(rest)) {
			if len(rest[i]) > 0 {
				choices = append(choices, i)
			}
		}

		if len(choices) == 0 {
			return hits
		}

		i := choices[random.IntN(len(choices))]
		h := rest[i][0]
		rest[i] = rest[i][1:]
		begun = max(begun, i+1)
		h.at = h.at.Add(time.Duration(len(hits)) * 20 * time.Millisecond)
		hits = append(hits, h)
	}
}

// storeLoads stores the hits on a site of their own, in random batches by two writers in turn, and
// shows what is stored. Without a source of randomness it is one batch.
func storeLoads(t *testing.T, d *db.DB, domain string, hits []hit, random *rand.Rand) string {
	t.Helper()

	site := modelSite(t, d, domain, 1<<40)
	writers := [2]*writer{newWriter(storeOf(t, d), StoreTimeout, nil, nil), newWriter(storeOf(t, d), StoreTimeout, nil, nil)}
	for _, w := range writers {
		defer w.Stop(context.Background())
	}

	var all []*hit
	for _, h := range hits {
		h.site, h.visitor = site, model.VisitorID{7}
		if h.pageview != nil {
			row := *h.pageview
			row.SiteID, h.pageview = site.id, &row
		}

		all = append(all, &h)
	}

	for round := 0; len(all) > 0; round++ {
		n := len(all)

		if random != nil {
			n = 1 + random.IntN(n)
		}
		if _, err := writers[round%2].Commit(t.Context(), all[:n]); err != nil {
			t.Fatal(err)
		}

		all = all[n:]
	}

	return showVisits(t, d, site)
}

// showVisits shows a site's visits with their attribution, page views, events and webhooks, in an
// order that does not depend on that of their arrival.
func showVisits(t *testing.T, d *db.DB, site *site) string {
	t.Helper()

	type row struct {
		VisitID     string
		What        string
		Channel     model.Channel
		Attribution string
		Pageviews   int
		Awaited     []byte
	}

	rows, err := dbtest.Rows[row](d, `
		SELECT v.visitor || ' ' || v.n AS visit_id, 'page view ' || p.id AS what, v.channel, v.attribution, v.pageviews, v.awaited
		FROM pageviews p JOIN visits v ON v.site_id = p.site_id AND v.visitor = p.visitor AND v.n = p.n WHERE p.site_id = ?
		UNION ALL
		SELECT v.visitor || ' ' || v.n, 'event ' || e.name || ' ' || coalesce(e.transaction_id, '') || ' on ' || e.path, v.channel, v.attribution, v.pageviews, v.awaited
		FROM events e JOIN visits v ON v.site_id = e.site_id AND v.visitor = e.visitor AND v.n = e.n WHERE e.site_id = ?
		UNION ALL
		SELECT visitor || ' ' || n, 'a visit', channel, attribution, pageviews, awaited FROM visits WHERE site_id = ?`, site.id, site.id, site.id)
	testkit.NoError(t, err)

	visits := make(map[string][]string)
	for _, r := range rows {
		visits[r.VisitID] = append(visits[r.VisitID], fmt.Sprintf("%s (%s, %q, %d page views, awaits %d)",
			r.What, r.Channel, r.Attribution, r.Pageviews, len(r.Awaited)))
	}

	var shown []string
	for _, lines := range visits {
		slices.Sort(lines)
		shown = append(shown, strings.Join(lines, "\n"))
	}

	deliveries, err := dbtest.Rows[model.Delivery](d, "SELECT body FROM deliveries WHERE site_id = ?", site.id)
	testkit.NoError(t, err)

	for _, delivery := range deliveries {
		// without its time
		_, attribution, _ := strings.Cut(delivery.Body, `"path"`)
		shown = append(shown, attribution)
	}

	slices.Sort(shown)
	return strings.Join(shown, "\n\n")
}

func shownLoads(loads []load) (shown []string) {
	for _, l := range loads {
		shown = append(shown, fmt.Sprintf("%s: %d hits from %+v", l[0].pageview.Path, len(l), l[0].entry.campaign))
	}
	return shown
}
