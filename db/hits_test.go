package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

const month = model.Month(202611)

func keyOf(site *model.Site) model.UsageKey { return model.UsageKey{SiteID: site.ID, Month: month} }

// count adds n to the site's count.
func count(t *testing.T, hits db.HitStore, site *model.Site, n int64) {
	t.Helper()
	key := keyOf(site)
	err := hits.Update(t.Context(), db.HitKeys{Usage: []model.UsageKey{key}}, func(state *db.HitState) *db.HitChanges {
		return &db.HitChanges{Used: map[model.UsageKey]int64{key: state.Usage[key].Used + n}}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func used(t *testing.T, d *db.DB, site *model.Site) int64 {
	t.Helper()
	used, err := sites.New(d).MonthlyUsage(t.Context(), month, []int64{site.ID})
	if err != nil {
		t.Fatal(err)
	}
	return used[site.ID]
}

// TestHitStoresTakeTurns: two writers that read and write one site's count lose no update.
func TestHitStoresTakeTurns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a, b := dbtest.NewOwnSite(t, d, "a.example"), dbtest.NewOwnSite(t, d, "b.example")
		keys := db.HitKeys{Usage: []model.UsageKey{keyOf(a), keyOf(b)}}
		done := make(chan error)

		for range 4 {
			hits := d.HitStore()
			defer hits.Close()

			go func() {
				for range 25 {
					if err := hits.Update(context.Background(), keys, func(state *db.HitState) *db.HitChanges {
						changes := &db.HitChanges{Used: make(map[model.UsageKey]int64)}
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
			if err := <-done; err != nil {
				t.Error(err)
			}
		}

		for _, site := range []*model.Site{a, b} {
			if n := used(t, d, site); n != 100 {
				t.Errorf("%s counts %d, want 100", site.Domain, n)
			}
		}
	})
}

// TestHitStoreRepeatsAfterCollision: an id that is taken makes decide run again, and nothing of the
// first run stays.
func TestHitStoreRepeatsAfterCollision(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := d.HitStore()
		defer hits.Close()

		visit := func(id int64) []model.Visit { return []model.Visit{{SiteID: site.ID, ID: id, Channel: "direct"}} }
		runs := 0
		for range 2 {
			err := hits.Update(t.Context(), db.HitKeys{Usage: []model.UsageKey{keyOf(site)}}, func(state *db.HitState) *db.HitChanges {
				runs++
				id := int64(1)
				// the second batch's second run
				if runs == 3 {
					id = 2
				}
				return &db.HitChanges{NewVisits: visit(id), Used: map[model.UsageKey]int64{keyOf(site): state.Usage[keyOf(site)].Used + 1}}
			})
			if err != nil {
				t.Fatal(err)
			}
		}

		if n := used(t, d, site); runs != 3 || n != 2 {
			t.Errorf("%d runs, count %d; want 3 and 2", runs, n)
		}
		if n, err := dbtest.Count(d, "visits"); err != nil || n != 2 {
			t.Errorf("%d visits, %v; want 2", n, err)
		}
	})
}

// TestHitStoreAllOrNothing: when one row is refused, nothing of its batch is stored.
func TestHitStoreAllOrNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := d.HitStore()
		defer hits.Close()

		count(t, hits, site, 1)
		same := model.Pageview{SiteID: site.ID, At: 1, ID: 1, Path: "/"}
		err := hits.Update(t.Context(), db.HitKeys{Usage: []model.UsageKey{keyOf(site)}}, func(*db.HitState) *db.HitChanges {
			return &db.HitChanges{
				NewVisits: []model.Visit{{SiteID: site.ID, ID: 7, Channel: "direct"}},
				Pageviews: []model.Pageview{same, same}, // one key twice, at every attempt
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

		// and the store works on
		count(t, hits, site, 1)
	})
}

// TestHitStoreSurvivesACutConnection: the server ends the connection, between batches and within
// one.
func TestHitStoreSurvivesACutConnection(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.PostgresURL(t))
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := d.HitStore()
		defer hits.Close()

		cut := func() {
			t.Helper()
			if err := dbtest.Exec(d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%pg_terminate%'`); err != nil {
				t.Fatal(err)
			}
		}

		count(t, hits, site, 1)
		cut()

		// a new connection, without an error for anybody
		count(t, hits, site, 1)

		err := hits.Update(t.Context(), db.HitKeys{Usage: []model.UsageKey{keyOf(site)}}, func(*db.HitState) *db.HitChanges {
			cut()
			return &db.HitChanges{Used: map[model.UsageKey]int64{keyOf(site): 99}}
		})
		if err == nil || db.IsBadData(err) {
			t.Errorf("cut before the commit: error %v, want one of the connection", err)
		}

		count(t, hits, site, 1)

		if n := used(t, d, site); n != 3 {
			t.Errorf("count %d, want 3", n)
		}
	})
}

// TestHitStoreIsBounded: while somebody else holds the site's lock, Update ends with its context.
func TestHitStoreIsBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		holder, waiter := d.HitStore(), d.HitStore()
		defer holder.Close()
		defer waiter.Close()

		count(t, holder, site, 1)
		held, release := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- holder.Update(context.Background(), db.HitKeys{Usage: []model.UsageKey{keyOf(site)}}, func(*db.HitState) *db.HitChanges {
				close(held)
				<-release
				return &db.HitChanges{}
			})
		}()

		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()

		err := waiter.Update(ctx, db.HitKeys{Usage: []model.UsageKey{keyOf(site)}}, func(*db.HitState) *db.HitChanges {
			t.Error("decide ran without the lock")
			return &db.HitChanges{}
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
