package ingest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
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
	if err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentHitStores checks that two writers that read and write one site's count lose no
// update.
func TestConcurrentHitStores(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a, b := dbtest.NewOwnSite(t, d, "a.example"), dbtest.NewOwnSite(t, d, "b.example")
		keys := ingest.HitKeys{Usage: []model.UsageKey{keyOf(a), keyOf(b)}}
		done := make(chan error)

		for range 4 {
			hits := ingest.New(d).HitStore()
			defer hits.Close()

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

// TestHitStoreRepeatsAfterCollision checks that decide runs again after an id collision, and that
// nothing of the first run stays.
func TestHitStoreRepeatsAfterCollision(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := ingest.New(d).HitStore()
		defer hits.Close()

		visit := func(id int64) []model.Visit { return []model.Visit{{SiteID: site.ID, ID: id, Channel: "direct"}} }
		runs := 0
		for range 2 {
			err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
				func(state *ingest.HitState) *ingest.HitChanges {
					runs++
					id := int64(1)
					// The second run of the second batch takes another id.
					if runs == 3 {
						id = 2
					}
					return &ingest.HitChanges{NewVisits: visit(id),
						Used: map[model.UsageKey]int64{keyOf(site): state.Usage[keyOf(site)].Used + 1}}
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

// TestHitStoreAllOrNothing checks that nothing of a batch is stored when one row is refused.
func TestHitStoreAllOrNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := ingest.New(d).HitStore()
		defer hits.Close()

		count(t, hits, site, 1)
		same := model.Pageview{SiteID: site.ID, At: 1, ID: 1, Path: "/"}
		err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
			func(*ingest.HitState) *ingest.HitChanges {
				return &ingest.HitChanges{
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

		// The store still works.
		count(t, hits, site, 1)
	})
}

// TestHitStoreReconnects checks a connection that the server ends between batches and within one.
func TestHitStoreReconnects(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.PostgresURL(t))
		site := dbtest.NewOwnSite(t, d, "example.com")
		hits := ingest.New(d).HitStore()
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

		if n := used(t, d, site); n != 3 {
			t.Errorf("count %d, want 3", n)
		}
	})
}

// TestHitStoreIsBounded checks that Update ends with its context while another writer holds the
// site's lock.
func TestHitStoreIsBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		holder, waiter := ingest.New(d).HitStore(), ingest.New(d).HitStore()
		defer holder.Close()
		defer waiter.Close()

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

// TestVisitsAreReadBack checks that a batch reads visits as an earlier one wrote them: the whole
// attribution only for the visitors that ask for it, and a missing value as an empty one.
func TestVisitsAreReadBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "example.com")
		store := ingest.New(d).HitStore()
		defer store.Close()

		at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
		full := model.Visit{
			SiteID: site.ID, ID: model.FirstTimeID(at), Visitor: model.VisitorID{1}, StartedAt: at, N: 2, LastPageviewAt: at +
				1, Pageviews: 3,
			Recent: []byte{4}, Awaited: []byte{5}, UserID: []byte{6}, Channel: "paid search",
			Campaign: model.Campaign{Source: "a", Medium: "b", Name: "c", Gclid: "d", Gbraid: "e", Wbraid: "f", Fbclid: "g",
				Msclkid: "h"},
		}

		empty := model.Visit{SiteID: site.ID, ID: full.ID + 1, Visitor: model.VisitorID{2}, StartedAt: at, Channel: "direct"}
		page := model.Pageview{SiteID: site.ID, At: at, ID: 77, VisitID: full.ID, Path: "/"}

		key := func(v *model.Visit) model.VisitorKey { return model.VisitorKey{SiteID: v.SiteID, Visitor: v.Visitor} }
		keys := ingest.HitKeys{
			Since: at.Day().Start(), Until: (at.Day() + 1).Start(), Usage: []model.UsageKey{keyOf(site)},
			Visitors:     []model.VisitorKey{key(&full), key(&empty)},
			Viewed:       []model.ViewKey{{Visitor: key(&full), PageviewID: page.ID}},
			Transactions: []model.TransactionKey{{SiteID: site.ID, TransactionID: "t"}},
		}

		update := func(changes *ingest.HitChanges) (state *ingest.HitState) {
			t.Helper()
			if err := store.Update(t.Context(), keys, func(s *ingest.HitState) *ingest.HitChanges {
				state = s
				return changes
			}); err != nil {
				t.Fatal(err)
			}

			return state
		}

		update(&ingest.HitChanges{
			NewVisits: []model.Visit{full, empty}, Pageviews: []model.Pageview{page},
			Transactions: []model.Transaction{{SiteID: site.ID, TransactionID: "t", Event: model.EventPurchase, At: at}},
		})

		state := update(&ingest.HitChanges{})
		short := full
		short.Channel, short.Campaign = "", model.Campaign{Source: "a", Name: "c"}
		bare := empty
		bare.Channel = ""
		if got, want := state.Visits, map[model.VisitorKey][]model.Visit{key(&full): {short},
			key(&empty): {bare}}; !reflect.DeepEqual(got, want) {
			t.Errorf("visits %+v, want %+v", got, want)
		}
		if got, want := state.Viewed, map[model.ViewKey]model.Visit{keys.Viewed[0]: full}; !reflect.DeepEqual(got, want) {
			t.Errorf("visits of page views %+v, want %+v", got, want)
		}
		if got := state.Transactions[keys.Transactions[0]]; got != model.EventPurchase {
			t.Errorf("the transaction is a %q", got)
		}

		keys.Visitors, keys.Converting = nil, keys.Visitors
		state = update(&ingest.HitChanges{})
		if got, want := state.Visits, map[model.VisitorKey][]model.Visit{key(&full): {full},
			key(&empty): {empty}}; !reflect.DeepEqual(got, want) {
			t.Errorf("visits with attribution %+v, want %+v", got, want)
		}
	})
}
