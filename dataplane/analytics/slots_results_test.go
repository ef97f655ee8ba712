package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
)

// giant is a site with hits that two processes store, each with a writer for each slot.
type giant struct {
	t       *testing.T
	d       *db.DB
	owner   *model.User
	site    *site
	writers [2]writers
	now     model.Instant
	texts   []string // what was found, in an order that all variants share
}

func newGiant(t *testing.T, d *db.DB, slots int) *giant {
	g := &giant{t: t, d: d, owner: dbtest.NewUser(t, d, "owner@giant.example")}
	dbtest.SetClock(d, func() time.Time { return g.now.Time() })
	g.newSite("giant.example", slots)

	for i := range g.writers {
		stores := make([]HitStore, slots)
		for n := range stores {
			stores[n] = storeOf(t, d)
		}
		g.writers[i] = newWriters(stores, nil, nil)
		t.Cleanup(func() { _ = g.writers[i].Stop(context.Background()) })
	}
	return g
}

// newSite creates a site, which gets the next hits.
func (g *giant) newSite(domain string, slots int) {
	g.t.Helper()
	created := dbtest.NewSite(g.t, g.d, g.owner.AccountID, domain)
	g.site = &site{id: created.ID, key: "the same", slots: int16(slots), keyEvents: map[string]bool{model.EventPurchase: true}}
	if err := dbtest.Exec(g.d, "UPDATE sites SET monthly_pageviews = 900 WHERE id = ?", created.ID); err != nil {
		g.t.Fatal(err)
	}
	if g.d.IsPostgres() {
		if err := cells.New(g.d).SetSlots(g.t.Context(), created.ID, slots); err != nil {
			g.t.Fatal(err)
		}
	}
}

// commit stores the hits of a round, those of different slots at the same time, and notes the
// outcomes.
func (g *giant) commit(process int, hits []*hit) {
	g.t.Helper()
	byWriter := make(map[*writer][]*hit)
	for _, h := range hits {
		writer := g.writers[process].of(g.site.id, h.slot())
		byWriter[writer] = append(byWriter[writer], h)
	}

	var mu sync.Mutex
	outcomes := make(map[*hit]outcome)
	var wg sync.WaitGroup
	for writer, hits := range byWriter {
		wg.Go(func() {
			got, err := writer.Commit(g.t.Context(), hits)
			if err != nil {
				g.t.Error(err)
				return
			}

			mu.Lock()
			defer mu.Unlock()
			for i, h := range hits {
				outcomes[h] = got[i]
			}
		})
	}
	wg.Wait()

	for _, h := range hits {
		g.texts = append(g.texts, fmt.Sprint("outcome ", outcomes[h]))
	}
}

// note notes what was found.
func (g *giant) note(name string, found any, err error) {
	g.t.Helper()
	text, jsonErr := json.Marshal(found)
	if err != nil || jsonErr != nil {
		g.t.Fatalf("%s: %v, %v", name, err, jsonErr)
	}
	g.texts = append(g.texts, name+" "+string(text))
}

// noteExports notes the raw exports. The ids of events are random.
func (g *giant) noteExports() {
	g.t.Helper()
	store, all := exports.New(g.d), exports.Range{SiteID: g.site.id, To: 1 << 60, Limit: 1 << 30}
	var rows []string
	add := func(fields []exports.Field) error {
		row, err := exports.AppendJSON(nil, fields)
		rows = append(rows, string(row))
		return err
	}
	g.note("page views", nil, store.ExportPageviews(g.t.Context(), all, func(p *exports.Pageview) error { return add(p.Fields()) }))
	g.note("events", nil, store.ExportEvents(g.t.Context(), all, func(e *exports.Event) error { return add(e.Fields()[1:]) }))
	g.texts = append(g.texts, rows...)
}

// noteReports notes the report of the dashboard and random ones.
func (g *giant) noteReports(first model.Day, days int) {
	g.t.Helper()
	store, random := reports.New(g.d), rand.New(rand.NewPCG(1, 1))
	for i := range 6 {
		q := oracle.Query(random, time.UTC, first, days)
		if i == 0 {
			q = oracle.Dashboard(time.UTC, first, days)
		}
		request := reports.Request{SiteID: g.site.id, Now: g.now, Periods: []*scan.Query{q}}
		answer, err := store.Answer(g.t.Context(), request, free{})
		if err != nil {
			g.t.Fatal(err)
		}
		g.note("report", answer.Results[0], nil)
		if i == 0 && answer.Results[0].Totals.Pageviews == 0 {
			g.t.Error("an empty report")
		}
	}
}

// free is a reports.Payer that pays nothing.
type free struct{}

func (free) PayBefore(reports.Size) error { return nil }
func (free) PayAfter(reports.Work)        {}

// noteUsage notes all that readers of the usage show.
func (g *giant) noteUsage() {
	g.t.Helper()
	ids, month := []int64{g.site.id}, g.now.Month()
	monthly, err := sites.New(g.d).MonthlyUsage(g.t.Context(), month, ids)
	g.note("month", monthly, err)
	history, err := sites.New(g.d).UsageHistory(g.t.Context(), ids, month-1)
	g.note("history", history, err)
	_, err = sites.New(g.d).CountUsageDays(g.t.Context(), g.now)
	g.note("count days", nil, err)
	days, err := sites.New(g.d).UsageByDay(g.t.Context(), ids, 0)
	g.note("days", days, err)
	accounts, err := accounts.New(g.d).Overviews(g.t.Context(), accounts.OverviewPage{Limit: 10}, month)
	g.note("accounts", accounts, err)
	n, err := outbox.New(g.d).NoteSiteQuotas(g.t.Context(), g.now)
	g.note("quotas", n, err)
	notices, err := dbtest.Rows[outbox.QuotaNotice](g.d, "SELECT site_id, month, threshold FROM quota_notices ORDER BY threshold")
	g.note("notices", notices, err)
}

// noteRows notes how many rows tables have.
func (g *giant) noteRows(tables []string) {
	g.t.Helper()
	for _, table := range tables {
		n, err := dbtest.Count(g.d, table)
		g.note(table, n, err)
	}
}

// TestSlotsChangeNoResult stores the same hits of three days in a site with one slot and with four, whose
// writers work at the same time, and follows them through all that is made of them: exports, reports before and
// after their build, usage, notices of the quota, deliveries, the erasure of a user, and the deletion of
// the site and of the account.
func TestSlotsChangeNoResult(t *testing.T) {
	t.Parallel()
	variants := []struct {
		name  string
		d     *db.DB
		slots int
	}{
		{"SQLite", dbtest.Open(t, dbtest.SQLiteURL(t)), 1},
		{"one slot", dbtest.Open(t, dbtest.PostgresURL(t)), 1},
		{"four slots", dbtest.Open(t, dbtest.PostgresURL(t)), 4},
	}

	var want []string
	for _, v := range variants {
		got := followGiant(newGiant(t, v.d, v.slots))
		if want == nil {
			want = got
			if len(want) < 2_000 || !strings.Contains(strings.Join(want, "\n"), `"Threshold":80`) {
				t.Fatalf("%d results, want some of each kind", len(want))
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d results, want %d", v.name, len(got), len(want))
		}
		different := 0
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] && different < 5 {
				t.Errorf("%s:\n%s\nwant\n%s", v.name, got[i], want[i])
				different++
			}
		}
	}
}

func followGiant(g *giant) []string {
	g.t.Helper()
	ctx := g.t.Context()
	first := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)).Day()
	const days = 3
	g.store(first, days)

	g.now = (first + days - 1).Start().Add(23 * time.Hour)
	g.noteExports()
	g.noteReports(first, days)
	g.now = (first + days).Start().Add(time.Hour)
	g.build()
	g.noteReports(first, days)
	g.noteUsage()
	bodies, err := dbtest.Rows[struct{ Body string }](g.d, "SELECT body FROM deliveries ORDER BY created_at")
	g.note("deliveries", bodies, err)

	// The erasure of a user.
	eraser := retention.New(g.d)
	if _, err := eraser.RequestErasure(ctx, g.owner.AccountID, g.site.id, userIDs[0], g.now); err != nil {
		g.t.Fatal(err)
	}
	n, err := eraser.EraseUsers(ctx, g.now)
	g.note("erased", n, err)
	if n == 0 {
		g.t.Error("no row of the user was erased")
	}
	g.build()
	g.noteExports()
	g.noteReports(first, days)
	g.noteUsage()
	hits := []string{"visits", "pageviews", "engagement", "events", "transactions", "deliveries"}
	g.noteRows(hits)

	// The deletion of a site, and of an account with another site.
	gone := g.site.id
	g.newSite("second.example", int(g.site.slots))
	g.store(first, 1)
	if _, err := sites.New(g.d).DeleteSite(ctx, g.owner.AccountID, gone, "giant.example", g.now); err != nil {
		g.t.Fatal(err)
	}
	_, err = eraser.PurgeDeletedSites(ctx, g.now)
	g.note("deleted site", nil, err)
	g.noteRows(hits)
	g.noteUsage()

	g.note("deleted account", nil, accounts.New(g.d).DeleteAccount(ctx, g.owner, g.now))
	if _, err = eraser.PurgeDeletedSites(ctx, g.now); err != nil {
		g.t.Fatal(err)
	}
	for _, table := range celllist.SiteTables {
		if n, err := dbtest.Count(g.d, table); n != 0 || err != nil {
			g.t.Errorf("%d rows are left in %s, error %v", n, table, err)
		}
	}
	return g.texts
}

// userIDs are the ids that the site sends for some of its visitors.
var userIDs = []string{strings.Repeat("0a", 32), strings.Repeat("0b", 32)}

// store stores random hits of some days. Those of a round have different times, and a purchase is
// repeated by its own visitor only: so their results depend on no order.
func (g *giant) store(first model.Day, days int) {
	g.t.Helper()
	secret, err := keys.New(g.d).UserIDKey(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}

	random, number := rand.New(rand.NewPCG(7, 1)), 0
	for day := range days {
		at := (first + model.Day(day)).Start().Add(8 * time.Hour)
		for round := range 20 {
			var hits []*hit
			for range 1 + random.IntN(40) {
				number++
				at = at.Add(time.Millisecond + time.Duration(random.IntN(30_000))*time.Millisecond)
				h := randomHit(random, []*site{g.site}, at, number)
				person := random.IntN(12)
				h.visitor = model.VisitorID{byte(person), byte(at.Day())}
				if person < len(userIDs) {
					h.userID = model.UserIDKey(secret).Of(g.site.id, userIDs[person])
				}
				if h.event != nil && h.event.TransactionID != "" {
					h.event.TransactionID += fmt.Sprint(" of ", person)
				}
				hits = append(hits, h)
			}
			g.now = at
			g.commit(round%2, hits)
		}
	}
}

// build builds the reports of all days that are over.
func (g *giant) build() {
	g.t.Helper()
	store := reports.New(g.d)
	if _, err := store.Plan(g.t.Context(), g.now); err != nil {
		g.t.Fatal(err)
	}
	built, err := store.BuildDue(g.t.Context())
	if err != nil {
		g.t.Fatal(built, err)
	}
	_, err = store.Check(g.t.Context(), g.site.id, func(d reports.Difference) { g.t.Errorf("segment and rows differ: %+v", d) })
	if err != nil {
		g.t.Error(err)
	}
}
