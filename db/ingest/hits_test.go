package ingest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const month = model.Month(202611)

func keyOf(site *model.Site) model.UsageKey { return model.UsageKey{SiteID: site.ID, Month: month} }

// count adds n to the site's count.
func count(t *testing.T, hits *ingest.HitStore, site *model.Site, n int64) {
	t.Helper()
	key := keyOf(site)
	err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{key}},
		func(state *ingest.HitState) *ingest.HitChanges {
			return &ingest.HitChanges{Used: map[model.UsageKey]int64{key: state.Usage[key].Used + n}}
		})
	testkit.NoError(t, err)
}

// TestConcurrentHitStores checks that two writers that read and write one site's count lose no
// update.
func TestConcurrentHitStores(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		a, b := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
		keys := ingest.HitKeys{Usage: []model.UsageKey{keyOf(a), keyOf(b)}}
		done := make(chan error)

		for range 4 {
			hits := hitStore(t, d)

			go func() {
				for range 25 {
					if err := hits.Update(context.Background(), keys, func(state *ingest.HitState) *ingest.HitChanges {
						changes := &ingest.HitChanges{Used: make(map[model.UsageKey]int64)}
						for key, usage := range state.Usage {
							changes.Used[key] = usage.Used + 1
						}
						return changes
					}); err != nil {
						done <- err
						return
					}
				}

				done <- nil
			}()
		}

		for range 4 {
			testkit.NoError(t, <-done)
		}

		for _, site := range []*model.Site{a, b} {
			testkit.Equal(t, used(t, d, site), 100, "%s counts", site.Domain)
		}
	})
}

// TestHitStoreRepeatsAfterCollision checks that decide runs again after an id collision, and that
// nothing of the first run stays.
func TestHitStoreRepeatsAfterCollision(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, hits := siteWithStore(t, d)

		visit := func(n int16) []model.Visit { return []model.Visit{{SiteID: site.ID, N: n, Channel: "direct"}} }
		runs := 0
		for range 2 {
			err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
				func(state *ingest.HitState) *ingest.HitChanges {
					runs++
					n := int16(1)
					// The second run of the second batch takes another number.
					if runs == 3 {
						n = 2
					}
					return &ingest.HitChanges{NewVisits: visit(n),
						Used: map[model.UsageKey]int64{keyOf(site): state.Usage[keyOf(site)].Used + 1}}
				})
			testkit.NoError(t, err)
		}

		if n := used(t, d, site); runs != 3 || n != 2 {
			t.Errorf("%d runs, count %d; want 3 and 2", runs, n)
		}
		dbtest.HasRows(t, d, "visits", 2, "visits")
	})
}

// TestHitStoreAllOrNothing checks that nothing of a batch is stored when one row is refused.
func TestHitStoreAllOrNothing(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, hits := siteWithStore(t, d)

		count(t, hits, site, 1)
		same := model.Event{SiteID: site.ID, At: 1, ID: 1, Name: "signup", Path: "/"}
		err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
			func(*ingest.HitState) *ingest.HitChanges {
				return &ingest.HitChanges{
					NewVisits: []model.Visit{{SiteID: site.ID, N: 7, Channel: "direct"}},
					Pageviews: []model.Pageview{{SiteID: site.ID, At: 1, ID: 1, Path: "/"}},
					Events:    []model.Event{same, same}, // one key twice, at every attempt
					Used:      map[model.UsageKey]int64{keyOf(site): 99},
				}
			})
		if !db.IsBadData(err) || !db.IsUnique(err) {
			t.Errorf("error %v, want a unique violation", err)
		}

		visits, _ := dbtest.Count(d, "visits")
		pageviews, _ := dbtest.Count(d, "pageviews")
		if n := used(t, d, site); visits != 0 || pageviews != 0 || n != 1 {
			t.Errorf("%d visits, %d page views, count %d; want 0, 0 and 1", visits, pageviews, n)
		}

		// The store still works.
		count(t, hits, site, 1)
	})
}

// TestHitStoreReconnects checks a connection that the server ends between batches and within one.
func TestHitStoreReconnects(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		site, hits := siteWithStore(t, d)

		cut := func() {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%pg_terminate%'`))
		}

		count(t, hits, site, 1)
		cut()

		// The batch takes a new connection, without an error.
		count(t, hits, site, 1)

		err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
			func(*ingest.HitState) *ingest.HitChanges {
				cut()
				return &ingest.HitChanges{Used: map[model.UsageKey]int64{keyOf(site): 99}}
			})
		if err == nil || db.IsBadData(err) {
			t.Errorf("cut before the commit: error %v, want one of the connection", err)
		}

		count(t, hits, site, 1)

		testkit.Equal(t, used(t, d, site), 3, "count")
	})
}

// TestHitStoreIsBounded checks that Update ends with its context while another writer holds the
// site's lock.
func TestHitStoreIsBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		holder, waiter := hitStore(t, d), hitStore(t, d)

		count(t, holder, site, 1)
		held, release := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- holder.Update(context.Background(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
				func(*ingest.HitState) *ingest.HitChanges {
					close(held)
					<-release
					return &ingest.HitChanges{}
				})
		}()

		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()

		err := waiter.Update(ctx, ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
			func(*ingest.HitState) *ingest.HitChanges {
				t.Error("decide ran without the lock")
				return &ingest.HitChanges{}
			})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want context.DeadlineExceeded", err)
		}

		close(release)

		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestVisitsAreReadBack checks that a batch reads visits as an earlier batch wrote or continued
// them, and only the visits of its days.
func TestVisitsAreReadBack(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, store := siteWithStore(t, d)

		at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
		full := model.Visit{
			SiteID: site.ID, Visitor: model.VisitorID{0xff, 7: 1}, StartedAt: at, N: 2, LastPageviewAt: at + 1, Pageviews: 3,
			Recent: []model.RecentView{{At: at, Path: 4}}, Awaited: []byte{5}, Viewed: []byte{6}, UserID: []byte{7}, Channel: "paid search",
			Referrer: "r.example/",
			Campaign: model.Campaign{Source: "a", Medium: "b", Name: "c", Content: "d", Term: "e", Gclid: "f", Gbraid: "g",
				Wbraid: "h", Fbclid: "i", Msclkid: "j"},
		}

		empty := model.Visit{SiteID: site.ID, N: 1, Visitor: model.VisitorID{2}, StartedAt: at, Channel: "direct"}
		other := empty
		other.StartedAt = at.Add(-24 * time.Hour)

		key := func(v *model.Visit) model.VisitorKey { return model.VisitorKey{SiteID: v.SiteID, Visitor: v.Visitor} }
		keys := ingest.HitKeys{
			Since: at.Day().Start(), Until: (at.Day() + 1).Start(), Usage: []model.UsageKey{keyOf(site)},
			Visitors:     []model.VisitorKey{key(&empty), key(&full)},
			Transactions: []model.TransactionKey{{SiteID: site.ID, TransactionID: "t"}},
		}

		update := func(changes *ingest.HitChanges) (state *ingest.HitState) {
			t.Helper()
			testkit.NoError(t, store.Update(t.Context(), keys, func(s *ingest.HitState) *ingest.HitChanges {
				state = s
				return changes
			}))

			return state
		}

		update(&ingest.HitChanges{
			NewVisits:    []model.Visit{other, empty, full},
			Transactions: []model.Transaction{{SiteID: site.ID, TransactionID: "t", Event: model.EventPurchase, At: at}},
		})

		want := map[model.VisitorKey][]model.Visit{key(&full): {full}, key(&empty): {empty}}
		state := update(&ingest.HitChanges{})
		testkit.DeepEqual(t, state.Visits, want, "visits")
		testkit.Equal(t, state.Transactions[keys.Transactions[0]], model.EventPurchase, "the transaction is a")

		// The values of the visit's start stay, the rest changes.
		full.LastPageviewAt, full.Pageviews, full.Recent, full.Awaited, full.Viewed, full.UserID = at+
			2, 4, []model.RecentView{{At: at - 7, Path: 8}, {At: at + 9, Path: 9}}, nil, []byte{9}, nil
		again := full
		again.Channel, again.Source, again.StartedAt = "email", "other", at+5
		update(&ingest.HitChanges{Continued: []model.Visit{again}})

		want[key(&full)] = []model.Visit{full}
		testkit.DeepEqual(t, update(&ingest.HitChanges{}).Visits, want, "visits")
	})
}

// TestEngagementIsAdded checks that reports on one page view id and day add up within their bounds
// in one row, and that a batch reads which rows exist and how many were added.
func TestEngagementIsAdded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, store := siteWithStore(t, d)

		day := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)).Day()
		id := func(day model.Day, id int64) model.EngagementKey {
			return model.EngagementKey{SiteID: site.ID, Day: day, PageviewID: id}
		}

		keys := ingest.HitKeys{Since: day.Start(), Until: (day + 2).Start(), Usage: []model.UsageKey{keyOf(site)},
			Reported: []model.EngagementKey{id(day, -1), id(day, 2), id(day+1, -1)}}

		var state *ingest.HitState
		report := func(rows int64, engagement ...model.Engagement) {
			t.Helper()
			testkit.NoError(t, store.Update(t.Context(), keys, func(s *ingest.HitState) *ingest.HitChanges {
				state = s
				return &ingest.HitChanges{Engagement: engagement, Reports: map[model.UsageKey]int64{keyOf(site): rows}}
			}))
		}

		const most = 86_400_000
		report(2, model.Engagement{EngagementKey: id(day, -1), MS: 5, Scroll: 40},
			model.Engagement{EngagementKey: id(day+1, -1), MS: most, Scroll: 1})
		report(0, model.Engagement{EngagementKey: id(day, -1), MS: 6, Scroll: 30, RepeatedAt: 99},
			model.Engagement{EngagementKey: id(day+1, -1), MS: most, Scroll: 2})
		report(0, model.Engagement{EngagementKey: id(day, -1), MS: 7, Scroll: 50})

		if got, want := state.Reported, map[model.EngagementKey]bool{id(day, -1): true, id(day+1, -1): true}; !reflect.DeepEqual(got, want) {
			t.Errorf("rows %v exist, want %v", got, want)
		}
		if got := state.Usage[keyOf(site)]; got.Reports != 2 || got.Used != 0 {
			t.Errorf("usage %+v, want 2 rows of engagement", got)
		}

		type row struct {
			Day        model.Day
			ID         int64
			MS, Scroll int64
			RepeatedAt int64
		}

		want := []row{{day, -1, 18, 50, 99}, {day + 1, -1, most, 2, 0}}
		rows, err := dbtest.Rows[row](d, "SELECT day, id, ms, scroll, coalesce(repeated_at, 0) AS repeated_at FROM engagement ORDER BY day")
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("stored %v, %v; want %v", rows, err, want)
		}
	})
}
