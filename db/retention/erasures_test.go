package retention_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

var (
	erasureKey = model.UserIDKey(model.ApplicationKey(dbtest.ApplicationKey).Derive("user id"))
	subjectID  = strings.Repeat("0a", 32)
	anotherID  = strings.Repeat("0b", 32)
	erasedAt   = model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
)

// people stores hits of several users.
type people struct {
	t *testing.T
	d *db.DB
	n int64
}

func (p *people) exec(query string, args ...any) {
	p.t.Helper()
	testkit.NoError(p.t, dbtest.Exec(p.d, query, args...))
}

// visit stores a visit with a page view, a purchase and its deliveries: a pending delivery with an
// attempt, and a delivered delivery.
func (p *people) visit(siteID model.SiteID, userID []byte, at model.Instant) {
	p.t.Helper()

	p.n++
	id := model.FirstTimeID(at) + p.n
	p.exec("INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, user_id) VALUES (?, ?, ?, 1, ?, ?, 1, 1, ?)",
		siteID, id, at.Day(), at, at, notNil(userID))
	p.exec("INSERT INTO engagement (site_id, day, id, ms, scroll) VALUES (?, ?, ?, 5, 5), (?, ?, ?, 5, 5)",
		siteID, at.Day(), -p.n, siteID, at.Day()+2, -p.n)

	p.exec("INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (?, ?, ?, ?, 1, 0, false, '/')",
		siteID, at, -p.n, id)

	later := at.Add(time.Minute)
	p.exec("INSERT INTO events (site_id, at, id, visitor, n, name, path, transaction_id) VALUES (?, ?, ?, ?, 1, 'purchase', '/', ?)",
		siteID, later, p.n, id, fmt.Sprint("T", p.n))

	p.exec("INSERT INTO transactions (site_id, transaction_id, event, at) VALUES (?, ?, 'purchase', ?)", siteID, fmt.Sprint("T", p.n), later)
	delivery := model.FirstTimeID(later) + p.n
	state := []string{model.DeliveryPending, model.DeliveryDelivered}[p.n%2]
	p.exec(`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body) VALUES (?, ?, 'conversion', 'purchase', ?, 1, ?, ?, ?)`,
		siteID, delivery, state, later, later, fmt.Sprintf(`{"type":"conversion","event":"purchase","path":"/","transaction_id":"T%d"}`, p.n))

	p.exec(`INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer) VALUES (?, ?, 1, false, ?, 1, 500, 'server_error', '')`,
		siteID, delivery, later)
}

func notNil(b []byte) []byte { return append([]byte{}, b...) }

// crowd stores many visits without a user id in one hour, so that several pages are read.
func (p *people) crowd(siteID model.SiteID, from model.Instant, n int) {
	p.t.Helper()
	numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	for _, statement := range []string{
		`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) SELECT ?0, ?1 + i * 4096, (?2 + i) / 86400000000, 1, ?2 + i, ?2 + i, 1, 13 FROM n`,
		`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) SELECT ?0, ?2 + i, i, ?1 + i * 4096, 1, 0, false, '/crowd' FROM n`,
	} {
		p.exec(numbers+statement, siteID, model.FirstTimeID(from), from)
	}
}

// dump returns the content of the tables with hits and of their dependent tables. Rows of the crowd
// are only counted.
func (p *people) dump() map[string][]string {
	p.t.Helper()
	all := map[string][]string{}
	ofCrowd := map[string]string{"visits": "channel = 13", "pageviews": "path = '/crowd'"}
	for _, table := range []string{"visits", "pageviews", "engagement", "events", "transactions", "deliveries", "delivery_attempts", "site_usage"} {
		crowd, found := ofCrowd[table]
		if !found {
			crowd = "1 = 0"
		}

		rows, err := dbtest.DumpWhere(p.d, table, "NOT ("+crowd+")")
		testkit.NoError(p.t, err)

		if found {
			counts, err := dbtest.Rows[int64](p.d, "SELECT count(*) FROM "+table+" WHERE "+crowd)
			testkit.NoError(p.t, err)

			rows = append(rows, fmt.Sprint(counts, " of the crowd"))
		}

		slices.Sort(rows)
		all[table] = rows
	}

	return all
}

func erasableSite(t *testing.T, d *db.DB, domain string) *model.Site {
	t.Helper()
	site := world.New(t, d).Site(domain)
	testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 7)", site.ID))
	return site
}

// TestEraseUser checks that everything stored about a user id until the request is deleted, and
// nothing else: other users, other sites, hits without an id, later visits, counters, and the ids
// of purchases stay.
func TestEraseUser(t *testing.T) {
	t.Parallel()
	key := erasureKey
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site, other := erasableSite(t, d, "shop.example"), erasableSite(t, d, "other.example")
		subject := key.Of(site.ID, subjectID)
		p := &people{t: t, d: d}

		// Store and dump the rows that must stay.
		p.crowd(site.ID, erasedAt.Add(-30*time.Hour), 5_500)

		for i := range 3 {
			at := erasedAt.Add(-time.Duration(i) * 24 * time.Hour)
			p.visit(site.ID, key.Of(site.ID, anotherID), at)
			p.visit(site.ID, nil, at)
			p.visit(other.ID, key.Of(other.ID, subjectID), at)
			p.visit(other.ID, subject, at)
		}

		p.visit(site.ID, subject, erasedAt+1)
		p.visit(site.ID, subject, erasedAt.Add(24*time.Hour))

		// Store the rows to erase: on days of several years, two visits of one day, and at the time
		// of the request. Another site has rows with the same ids.
		times := []model.Instant{erasedAt, erasedAt - 1, erasedAt.Day().Start(), (erasedAt.Day() - 1).Start().Add(-time.Hour),
			erasedAt.Add(-29 * time.Hour), erasedAt.Add(-400 * 24 * time.Hour), model.At(time.Date(2020, 1, 1, 0, 0, 1, 0, time.UTC))}

		n := p.n

		for _, at := range times {
			p.visit(other.ID, subject, at)
		}

		want := p.dump()
		p.n = n
		for _, at := range times {
			p.visit(site.ID, subject, at)
		}

		rows, err := dbtest.Dump(d, "transactions")
		testkit.NoError(t, err)

		slices.Sort(rows)
		want["transactions"] = rows

		e, err := retention.New(d).RequestErasure(t.Context(), site.AccountID, site.ID, subjectID, erasedAt)
		testkit.NoError(t, err)
		if _, err := retention.New(d).EraseUser(t.Context(), e, erasedAt.Add(time.Second)); err != nil {
			t.Fatal(err)
		}

		got := p.dump()
		for table, rows := range want {
			if !slices.Equal(got[table], rows) {
				t.Errorf("%s: %d rows are left, want %d: %.2000q", table, len(got[table]), len(rows), missing(got[table], rows))
			}
		}

		all := int64(len(times))
		after, err := retention.New(d).Erasure(t.Context(), site.AccountID, e.ID)
		testkit.NoError(t, err)

		counted := [...]int64{after.Visits, after.Pageviews, after.Events, after.Deliveries}
		if counted != [...]int64{all, all, all, all} || after.FinishedAt != erasedAt.Add(time.Second) || after.RequestedAt != erasedAt {
			t.Errorf("the erasure is %+v, want %d of each", after, all)
		}

		// A repeated request restarts the erasure and includes rows stored since.
		again, err := retention.New(d).RequestErasure(t.Context(), site.AccountID, site.ID, strings.ToUpper(subjectID), erasedAt.Add(time.Hour))
		if err != nil || again.ID != e.ID || again.FinishedAt != 0 || again.Visits != 0 {
			t.Fatalf("again: %+v, %v", again, err)
		}
		if _, err := retention.New(d).EraseUsers(t.Context(), erasedAt.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if after, err := retention.New(d).Erasure(t.Context(), site.AccountID, e.ID); err != nil || after.Visits != 1 || after.FinishedAt == 0 {
			t.Errorf("again: %+v, %v; want one more visit", after, err)
		}
		if n, err := retention.New(d).DeleteOldRecords(t.Context(), erasedAt.Add(40*24*time.Hour)); err != nil || n == 0 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}
		dbtest.HasRows(t, d, "user_erasures", 0, "erasures are left")
	})
}

// TestEraseAmongManyDeliveries erases a user with many deliveries of other users between the first
// and last event of a day. These are read in pages.
func TestEraseAmongManyDeliveries(t *testing.T) {
	t.Parallel()
	const others = 2*retention.ErasureBodies + 1
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := erasableSite(t, d, "shop.example")
		subject := erasureKey.Of(site.ID, subjectID)
		p := &people{t: t, d: d}

		from := erasedAt.Day().Start()
		p.visit(site.ID, subject, from.Add(time.Hour))
		p.visit(site.ID, subject, from.Add(2*time.Hour))
		p.visit(site.ID, subject, erasedAt.Add(-2*time.Minute))
		first := from.Add(90 * time.Minute)
		p.exec(fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
			SELECT ?, ? + i * 4096, 'conversion', 'purchase', 'delivered', 1, ?, 0, ? FROM n`, others),
			site.ID, model.FirstTimeID(first), first, `{"type":"conversion","event":"purchase","path":"/","transaction_id":"another"}`)

		e, err := retention.New(d).RequestErasure(t.Context(), site.AccountID, site.ID, subjectID, erasedAt)
		testkit.NoError(t, err)
		if _, err := retention.New(d).EraseUser(t.Context(), e, erasedAt.Add(time.Second)); err != nil {
			t.Fatal(err)
		}

		after, err := retention.New(d).Erasure(t.Context(), site.AccountID, e.ID)
		left, countErr := dbtest.Count(d, "deliveries")
		if err != nil || countErr != nil || after.Events != 3 || after.Deliveries != 3 || left != others {
			t.Errorf("%+v, %d deliveries are left, errors %v, %v; want 3 erased and %d left", after, left, err, countErr, others)
		}
	})
}

// missing returns the rows that only one of the lists has.
func missing(a, b []string) []string {
	var only []string

	for _, lists := range [][2][]string{{a, b}, {b, a}} {
		for _, row := range lists[0] {
			if _, found := slices.BinarySearch(lists[1], row); !found {
				only = append(only, row)
			}
		}
	}

	return only
}

// TestEraseDuringHit checks that a hit which would continue a visit while it is deleted begins
// another visit. No page view is left without its visit.
func TestEraseDuringHit(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := erasableSite(t, d, "shop.example")
		visitor := model.VisitorKey{SiteID: site.ID, Visitor: model.VisitorID{7}}
		hits := ingest.NewHitStore(dbtest.SitesCell(t, d))
		defer hits.Close()

		view := func(at model.Instant) error {
			keys := ingest.HitKeys{
				Since: at.Day().Start(), Until: (at.Day() + 1).Start(),
				Usage: []model.UsageKey{{SiteID: site.ID, Month: at.Month()}}, Visitors: []model.VisitorKey{visitor},
			}
			return hits.Update(t.Context(), keys, func(state *ingest.HitState) *ingest.HitChanges {
				changes := &ingest.HitChanges{}
				var visit model.Visit

				if visits := state.Visits[visitor]; len(visits) > 0 {
					visit = visits[0]
					visit.Pageviews++
					changes.Continued = []model.Visit{visit}
				} else {
					visit = model.Visit{SiteID: site.ID, N: 1, Visitor: visitor.Visitor, StartedAt: at, LastPageviewAt: at, Pageviews: 1,
						Channel: "direct", UserID: erasureKey.Of(site.ID, subjectID)}

					changes.NewVisits = []model.Visit{visit}
				}

				changes.Pageviews = []model.Pageview{{SiteID: site.ID, At: at, ID: int64(at), Visitor: visit.Visitor, N: visit.N, Path: "/"}}
				return changes
			})
		}
		testkit.NoError(t, view(erasedAt))

		e, err := retention.New(d).RequestErasure(t.Context(), site.AccountID, site.ID, subjectID, erasedAt)
		testkit.NoError(t, err)

		erase := func() error { _, err := retention.New(d).EraseUser(t.Context(), e, erasedAt); return err }
		erased, stored := dbtest.Race(t, d, `DELETE FROM "visits"`, erase, func() error { return view(erasedAt.Add(time.Second)) })
		if erased != nil || stored != nil {
			t.Fatalf("errors %v and %v", erased, stored)
		}

		type row struct{ At, Visit model.Instant }
		rows, err := dbtest.Rows[row](d,
			"SELECT p.at, coalesce(v.started_at, 0) AS visit FROM pageviews p LEFT JOIN visits v ON v.site_id = p.site_id AND v.visitor = p.visitor AND v.n = p.n")
		if want := []row{{erasedAt.Add(time.Second), erasedAt.Add(time.Second)}}; err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("page views with their visits %v, %v; want %v", rows, err, want)
		}
		dbtest.HasRows(t, d, "visits", 1, "visits")
	})
}

// TestRequestErasure checks which sites and ids are accepted, and the limit.
func TestRequestErasure(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		site, other := erasableSite(t, d, "shop.example"), erasableSite(t, d, "other.example")
		for _, id := range []string{"", "x", subjectID[1:], subjectID + "0", strings.Repeat("0g", 32)} {
			_, err := retention.New(d).RequestErasure(ctx, site.AccountID, site.ID, id, erasedAt)
			dbtest.WantCode(t, err, model.Invalid, "invalid_user_id", "userId")
		}

		for _, foreign := range []struct {
			account model.AccountID
			site    model.SiteID
		}{{site.AccountID, other.ID}, {site.AccountID, 99}, {99, site.ID}} {
			if _, err := retention.New(d).RequestErasure(ctx, foreign.account, foreign.site, subjectID, erasedAt); model.KindOf(err) != model.NotFound {
				t.Errorf("%+v: %v", foreign, err)
			}
		}

		if n, err := dbtest.Count(d, "user_erasures"); n != 0 || err != nil {
			t.Fatalf("%d erasures, %v", n, err)
		}

		request := func(n int) error {
			_, err := retention.New(d).RequestErasure(ctx, site.AccountID, site.ID, fmt.Sprintf("%064x", n), erasedAt)
			return err
		}
		for n := range model.MaxErasures {
			testkit.NoError(t, request(n))
		}

		dbtest.WantCode(t, request(model.MaxErasures), model.Conflict, "too_many_erasures", "userId")

		testkit.Succeeds(t, request(0), "one that is in progress, again")
		if _, err := retention.New(d).RequestErasure(ctx, other.AccountID, other.ID, subjectID, erasedAt); err != nil {
			t.Errorf("another account: %v", err)
		}

		mine, err := dbtest.Rows[int64](d, "SELECT id FROM user_erasures WHERE site_id = ? ORDER BY id LIMIT 1", site.ID)
		testkit.NoError(t, err)
		if _, err := retention.New(d).Erasure(ctx, other.AccountID, model.ErasureID(mine[0])); model.KindOf(err) != model.NotFound {
			t.Errorf("another account reads it: %v", err)
		}
		if _, err := retention.New(d).EraseUsers(ctx, erasedAt); err != nil {
			t.Fatal(err)
		}
		testkit.Succeeds(t, request(model.MaxErasures), "when the others are finished")
	})
}
