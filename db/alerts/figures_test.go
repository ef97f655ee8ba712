package alerts_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// addPageviews stores page views of a site, a second apart, the last one at a time.
func addPageviews(t *testing.T, d *db.DB, siteID model.SiteID, last model.Instant, n int) {
	t.Helper()
	exec(t, d, `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT CAST(? AS integer), CAST(? AS bigint) - CAST(i AS bigint) * 1000000, CAST(i AS bigint), 1, 1, 0, false, '/' FROM n`,
		n-1, siteID, last)
}

// TestWatched checks whose figures are read: those of live sites of accounts with a channel, with
// the events that the channels of the site and of its account want.
func TestWatched(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var sites []*model.Site
		for i := range 6 {
			sites = append(sites, world.New(t, d).Site(fmt.Sprintf("site%d.example", i), world.Webhook))
		}
		second := world.New(t, d).Site("second.example", world.Of(sites[0].AccountID))
		addChannel(t, d, sites[0].AccountID, 0, model.AlertTrafficSpike, model.AlertNewSignIn)
		addChannel(t, d, sites[0].AccountID, second.ID, model.AlertTrafficSpike, model.AlertNoHits)
		addChannel(t, d, sites[1].AccountID, sites[1].ID, model.AlertQuota)
		addChannel(t, d, sites[2].AccountID, 0, model.AlertQuota)
		addChannel(t, d, sites[3].AccountID, 0, model.AlertQuota)
		exec(t, d, "UPDATE alert_channels SET confirmed_at = 0 WHERE account_id = ?", sites[3].AccountID)
		addChannel(t, d, sites[4].AccountID, 0, model.AlertQuota)
		exec(t, d, "UPDATE accounts SET suspended_at = 1 WHERE id = ?", sites[4].AccountID)
		exec(t, d, "UPDATE sites SET paused_at = 1 WHERE id = ?", sites[2].ID)

		store := alerts.New(d)
		if _, err := store.Begin(t.Context(), model.Alert{
			AccountID: sites[0].AccountID, SiteID: second.ID, Event: model.AlertNoHits,
		}, dbtest.Noon); err != nil {
			t.Fatal(err)
		}

		var got []string
		for after := model.AccountID(0); ; {
			accounts, err := store.Watched(t.Context(), after, 2)
			testkit.NoError(t, err)
			if len(accounts) == 0 {
				break
			}
			for _, a := range accounts {
				text := fmt.Sprintf("account %v, %d open:", a.Events, len(a.Open))
				for _, s := range a.Sites {
					text += fmt.Sprintf(" %d %v", slices.IndexFunc(sites, func(x *model.Site) bool { return x.ID == s.ID }), s.Events)
				}
				got = append(got, text)
			}
			after = accounts[len(accounts)-1].ID
		}

		want := []string{
			"account [traffic_spike new_sign_in], 1 open: 0 [traffic_spike new_sign_in] -1 [traffic_spike new_sign_in no_hits]",
			"account [], 0 open: 1 [quota]", "account [quota], 0 open:", "account [], 0 open:", "account [quota], 0 open:",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestCounts checks the numbers of page views in spans, with their bounds, and the last one.
func TestCounts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		now := dbtest.Noon
		addPageviews(t, d, site.ID, now, 100)
		addPageviews(t, d, other.ID, now.Add(-hour), 7)
		store := alerts.New(d)

		spans := []alerts.Span{
			{SiteID: site.ID, From: now.Add(-10 * time.Second), To: now},
			{SiteID: site.ID, From: now.Add(-10 * time.Second), To: now + 1},
			{SiteID: other.ID, From: 0, To: now},
			{SiteID: site.ID, From: now + 1, To: now.Add(hour)},
			{SiteID: site.ID, From: now, To: now},
			{SiteID: 999_999, From: 0, To: now},
		}
		for range 300 { // more than a page
			spans = append(spans, alerts.Span{SiteID: other.ID, From: now.Add(-hour), To: now})
		}

		counts, err := store.CountPageviews(t.Context(), spans)
		testkit.NoError(t, err)
		if want := []int64{10, 11, 7, 0, 0, 0}; !slices.Equal(counts[:6], want) {
			t.Errorf("the counts are %v, want %v", counts[:6], want)
		}
		if slices.ContainsFunc(counts[6:], func(n int64) bool { return n != 1 }) {
			t.Errorf("the counts of the later pages are %v, want 1 each", counts[6:])
		}

		last, err := store.LastPageviews(t.Context(), spans)
		testkit.NoError(t, err)
		want := []model.Instant{now.Add(-time.Second), now, now.Add(-hour), 0, 0, 0}
		testkit.EqualSlices(t, last[:6], want, "the last page views are at")

		if counts, err := store.CountPageviews(t.Context(), nil); err != nil || len(counts) != 0 {
			t.Errorf("no spans: %v, %v", counts, err)
		}
	})
}

// TestBounds checks that a site with very many page views costs no more than MaxCounted of them,
// and that each read uses the index of its table, in a table with rows of other sites.
func TestBounds(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		now := dbtest.Noon
		addPageviews(t, d, site.ID, now, alerts.MaxCounted+1)
		addChannel(t, d, site.AccountID, 0, model.AlertEvents...)
		exec(t, d, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
SELECT 5000000 + i % 50, i, 'conversion', 'e', CASE WHEN i % 2 = 0 THEN 'failed' ELSE 'delivered' END, 5, 0, 0, '' FROM n`)
		testkit.NoError(t, dbtest.Exec(d, "ANALYZE"))

		statements := dbtest.WatchStatements(d)
		store := alerts.New(d)
		counts, err := store.CountPageviews(t.Context(), []alerts.Span{{SiteID: site.ID, From: 0, To: now + 1}})
		if err != nil || counts[0] != alerts.MaxCounted {
			t.Fatalf("counted %v, want %d: %v", counts, alerts.MaxCounted, err)
		}

		statements.Take()
		spans := []alerts.Span{
			{SiteID: site.ID, From: now.Add(-hour), To: now}, {SiteID: site.ID, From: now.Add(-2 * hour), To: now.Add(-hour)},
		}
		if _, err := store.CountPageviews(t.Context(), spans); err != nil {
			t.Fatal(err)
		}
		if _, err := store.LastPageviews(t.Context(), spans); err != nil {
			t.Fatal(err)
		}
		if _, err := store.FinishedDeliveries(t.Context(), []model.SiteID{site.ID}, now.Add(-hour), now); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenOfInstallation(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.EndOrphans(t.Context(), now); err != nil {
			t.Fatal(err)
		}

		full := regexp.MustCompile(`(?i)Seq Scan on (pageviews_202611|deliveries|failure)|SCAN (a|p|d|pageviews|deliveries|failure_notices|alerts)\b(.*)`)
		checked := 0
		for _, statement := range statements.Take() {
			if !strings.Contains(statement, "pageviews") && !strings.Contains(statement, "deliveries") &&
				!strings.Contains(statement, "alerts") {
				continue
			}
			checked++
			plan := dbtest.PlanOf(t, d, dbtest.SitesCell(t, d).Read, statement)
			if found := full.FindString(plan); found != "" && !strings.Contains(found, "USING INDEX") {
				t.Errorf("%q in the plan of %s:\n%s", found, statement, plan)
			}
		}
		testkit.Equal(t, checked, 5, "plans were checked")
	})
}

// TestFinishedDeliveries compares the figures of failed deliveries with their rows.
func TestFinishedDeliveries(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, healthy := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("healthy.example", world.Webhook)
		now := dbtest.Noon
		add := func(siteID model.SiteID, kind, state string, before time.Duration) model.Instant {
			t.Helper()
			at := now.Add(-before)
			exec(t, d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, ?, 'e', ?, 5, ?, 0, '')`, siteID, model.NewTimeID(at), kind, state, at)
			return at
		}

		add(site.ID, model.DeliveryConversion, "failed", 100*hour)
		first := add(site.ID, model.DeliveryConversion, "failed", 5*hour)
		newest := add(site.ID, model.DeliveryConversion, "failed", 4*hour)
		delivered := add(site.ID, model.DeliveryConversion, "delivered", 3*hour)
		add(site.ID, model.DeliveryConversion, "pending", hour)
		add(site.ID, model.DeliveryTest, "failed", hour)
		add(site.ID, model.DeliveryDailyExport, "delivered", hour)
		add(healthy.ID, model.DeliveryConversion, "delivered", hour)

		store := alerts.New(d)
		read := func() []alerts.Deliveries {
			t.Helper()
			rows, err := store.FinishedDeliveries(t.Context(), []model.SiteID{site.ID, healthy.ID}, now.Add(-72*hour), now)
			testkit.NoError(t, err)
			return rows
		}
		want := alerts.Deliveries{SiteID: site.ID, Failed: 2, First: first, Newest: newest, Delivered: delivered}
		if rows := read(); len(rows) != 1 || rows[0] != want {
			t.Errorf("the figures are %+v, want %+v", rows, want)
		}

		exec(t, d, "INSERT INTO failure_notices (site_id, day) VALUES (?, ?)", site.ID, now.Day())
		want.IsToday = true
		if rows := read(); len(rows) != 1 || rows[0] != want {
			t.Errorf("the figures are %+v, want %+v", rows, want)
		}
		if rows, err := store.FinishedDeliveries(t.Context(), nil, 0, now); len(rows) != 0 || err != nil {
			t.Errorf("no sites: %v, %v", rows, err)
		}
	})
}

// TestAttacks checks which sitekeys are read.
func TestAttacks(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account, other := world.New(t, d).Account("one"), world.New(t, d).Account("two")
		for i, row := range []struct {
			account model.AccountID
			attack  string
		}{{account, "{}"}, {account, `{"level":2,"since":5,"seen":9,"networks":70,"usual":4}`}, {other, `{"level":1}`}} {
			exec(t, d, `INSERT INTO sitekeys (account_id, sitekey, name, domains, secret_hash, secret_hint, created_at, attack)
VALUES (?, ?, 'form', '[]', ?, '', 1, ?)`, row.account, fmt.Sprint("key", i), []byte{byte(i)}, row.attack)
		}

		attacks, err := alerts.New(d).Attacks(t.Context(), []model.AccountID{account})
		want := model.CaptchaAttack{Level: 2, Since: 5, Seen: 9, Networks: 70, Usual: 4}
		if err != nil || len(attacks) != 1 || attacks[0].AccountID != account || attacks[0].Attack != want {
			t.Errorf("the attacks are %+v, %v", attacks, err)
		}
	})
}

// TestMovedSite checks that page views are counted in the cell that a site is in, before and after
// it is moved to another cell.
func TestMovedSite(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		now := dbtest.Noon
		d := dbtest.Open(t, dbtest.DefaultCellURL(t))
		dbtest.SetClock(d, now.Time)
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		cell, err := dbtest.AddCell(t.Context(), d, now)
		testkit.NoError(t, err)
		in, err := d.Cell(t.Context(), cell.ID)
		testkit.NoError(t, err)

		for pool, n := range map[*bun.DB]int{d.Write: 3, in.Write: 5} {
			for i := range n {
				for _, id := range []model.SiteID{site.ID, other.ID} {
					_, err := pool.ExecContext(t.Context(), `INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
VALUES (?, ?, 1, 1, 1, 0, false, '/')`, id, now.Add(-time.Duration(i)*time.Minute))
					testkit.NoError(t, err)
				}
			}
		}

		spans := []alerts.Span{{SiteID: site.ID, From: now.Add(-hour), To: now + 1}, {SiteID: other.ID, From: now.Add(-hour), To: now + 1}}
		for _, step := range []struct {
			cell int64
			want []int64
		}{{db.DefaultCell, []int64{3, 3}}, {cell.ID, []int64{5, 3}}} {
			if _, err := d.Write.ExecContext(t.Context(), "UPDATE sites SET cell = ? WHERE id = ?", step.cell, site.ID); err != nil {
				t.Fatal(err)
			}
			if counts, err := alerts.New(d).CountPageviews(t.Context(), spans); err != nil || !slices.Equal(counts, step.want) {
				t.Errorf("in cell %d the counts are %v, want %v, %v", step.cell, counts, step.want, err)
			}
		}
	})
}
