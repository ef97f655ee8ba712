package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// largeBatch returns a batch of one site, large enough for COPYs. The paths of its page views have
// all bytes that a row format could treat specially.
func largeBatch(site *model.Site, at model.Instant, size int) *ingest.HitChanges {
	changes := &ingest.HitChanges{Used: map[model.UsageKey]int64{keyOf(site): 1}}
	for i := range size {
		when := at + model.Instant(i)
		v := model.Visit{SiteID: site.ID, Visitor: model.VisitorID{0xff, byte(i)}, N: 1, StartedAt: when, LastPageviewAt: when,
			Pageviews: 1, Recent: []model.RecentView{{At: when, Path: 7}}, Viewed: []byte{0, 0xff, 1, 2}, Channel: "email",
			Referrer: "r.example/\t\\N", Campaign: model.Campaign{Source: "\n\"ü"}}

		changes.NewVisits = append(changes.NewVisits, v)
		changes.Pageviews = append(changes.Pageviews, model.Pageview{SiteID: site.ID, At: when, ID: -int64(i), Visitor: v.Visitor,
			N: v.N, Path: fmt.Sprintf("/%d\t\r\n\\.\\N,\"'ä😀", i), Language: "de", WidthRange: -1, Manual: i%2 == 1})
	}
	return changes
}

// storedPageview holds the columns of a stored page view, and some of its visit.
type storedPageview struct {
	At, ID         int64
	Visitor        model.VisitorID
	N, WidthRange  int16
	Manual         bool
	Path, Language string
	Attribution    string
	Pageviews      int32
}

func storedPageviews(t *testing.T, d *db.DB) []storedPageview {
	t.Helper()
	rows, err := dbtest.Rows[storedPageview](d, `SELECT p.at, p.id, p.visitor, p.n, p.width_range, p.manual, p.path,
		p.language, v.attribution, v.pageviews
		FROM pageviews p JOIN visits v ON v.site_id = p.site_id AND v.visitor = p.visitor AND v.n = p.n ORDER BY p.at`)
	testkit.NoError(t, err)
	return rows
}

// copiedStore prepares the statements of a batch on the connection of a new store, and returns a
// function that stores changes.
func copiedStore(t *testing.T, d *db.DB, site *model.Site) func(context.Context, func() *ingest.HitChanges) error {
	t.Helper()
	store := hitStore(t, d)

	update := func(ctx context.Context, decide func() *ingest.HitChanges) error {
		return store.Update(ctx, ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
			func(*ingest.HitState) *ingest.HitChanges { return decide() })
	}

	count(t, store, site, 1)
	return update
}

// november is the first time of the batches, of the month of keyOf.
var november = model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))

// TestLargeBatches checks that large batches store the same rows as small ones.
func TestLargeBatches(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		update := copiedStore(t, d, site)

		for batch, size := range []int{15, 16, 40, 200} {
			changes := largeBatch(site, november.Add(time.Duration(batch)*24*time.Hour), size)
			testkit.NoError(t, update(t.Context(), func() *ingest.HitChanges { return changes }))

			stored := storedPageviews(t, d)
			for i, got := range stored[len(stored)-size:] {
				v, p := &changes.NewVisits[i], &changes.Pageviews[i]
				want := storedPageview{At: int64(p.At), ID: p.ID, Visitor: v.Visitor, N: 1, WidthRange: -1, Manual: p.Manual, Path: p.Path,
					Language: "de", Attribution: model.PackAttribution(v.Referrer, &v.Campaign), Pageviews: 1}
				testkit.Require(t, got, want, "batch of %d: stored", size)
			}

			testkit.NoError(t, dbtest.Exec(d, "DELETE FROM visits"))
		}
	})
}

// TestLargeBatchesAreCopied checks that PostgreSQL gets large batches as a COPY, which follows no
// rule for inserts, and small ones as inserts. Citus gets no COPY.
func TestLargeBatchesAreCopied(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	site := world.New(t, d).Site("example.com")
	update := copiedStore(t, d, site)
	testkit.NoError(t, dbtest.Exec(d, "CREATE RULE no_inserts AS ON INSERT TO pageviews DO INSTEAD NOTHING"))

	for _, test := range []struct{ size, want int }{{15, 0}, {16, 16}, {15, 16}, {20, 36}} {
		at := november.Add(time.Duration(test.want+test.size) * time.Minute)
		testkit.NoError(t, update(t.Context(), func() *ingest.HitChanges {
			changes := largeBatch(site, at, test.size)
			changes.NewVisits = nil
			return changes
		}))

		want := test.want
		if isCitus, err := d.IsCitus(t.Context()); err != nil || isCitus {
			want = 0
		}
		dbtest.HasRows(t, d, "pageviews", want, "after a batch of %d: page views came by COPY", test.size)
	}
}

// onPostgres is dbtest.Each for what only PostgreSQL does.
func onPostgres(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Run("postgres", func(t *testing.T) { test(t, dbtest.Open(t, dbtest.PostgresURL(t))) })
}

// TestLargeBatchAllOrNothing checks that nothing of a large batch is stored when one row is
// refused, when its time is over, or when the connection ends, and that the next batch is stored.
func TestLargeBatchAllOrNothing(t *testing.T) {
	t.Parallel()
	const size = 40
	isConnection := func(err error) bool { return !db.IsBadData(err) }

	for _, test := range []struct {
		name    string
		spoil   func(t *testing.T, d *db.DB, c *ingest.HitChanges, cancel func())
		isError func(error) bool
		each    func(*testing.T, func(*testing.T, *db.DB))
	}{
		{"a visit twice", func(_ *testing.T, _ *db.DB, c *ingest.HitChanges, _ func()) {
			c.NewVisits[size-1] = c.NewVisits[0]
		}, db.IsUnique, dbtest.Each},
		{"an event twice", func(_ *testing.T, _ *db.DB, c *ingest.HitChanges, _ func()) {
			e := model.Event{SiteID: c.Pageviews[0].SiteID, At: 1, ID: 1, Name: "signup", Path: "/"}
			c.Events = []model.Event{e, e}
		}, db.IsUnique, dbtest.Each},
		{"a text that PostgreSQL refuses", func(_ *testing.T, _ *db.DB, c *ingest.HitChanges, _ func()) {
			c.Pageviews[size/2].Path = "/\x00"
		}, db.IsBadData, onPostgres},
		{"cancelled", func(_ *testing.T, _ *db.DB, _ *ingest.HitChanges, cancel func()) { cancel() },
			func(err error) bool { return errors.Is(err, context.Canceled) }, dbtest.Each},
		{"connection ended", func(t *testing.T, d *db.DB, _ *ingest.HitChanges, _ func()) {
			testkit.NoError(t, dbtest.Exec(d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%pg_terminate%'`))
		}, isConnection, onPostgres},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.each(t, func(t *testing.T, d *db.DB) {
				site := world.New(t, d).Site("example.com")
				update := copiedStore(t, d, site)
				stored := func(want int) {
					t.Helper()
					visits, _ := dbtest.Count(d, "visits")
					pageviews, _ := dbtest.Count(d, "pageviews")
					if visits != want || pageviews != want {
						t.Errorf("%d visits and %d page views are stored, want %d", visits, pageviews, want)
					}
				}

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := update(ctx, func() *ingest.HitChanges {
					changes := largeBatch(site, november, size)
					test.spoil(t, d, changes, cancel)
					return changes
				})
				if err == nil || !test.isError(err) {
					t.Errorf("error %v", err)
				}
				stored(0)

				// The first batch of a new connection prepares, the second one copies.
				for i := range 2 {
					at := november.Add(time.Duration(i) * 24 * time.Hour)
					testkit.NoError(t, update(t.Context(), func() *ingest.HitChanges { return largeBatch(site, at, size) }))
					stored((i + 1) * size)
				}
			})
		})
	}
}
