package ingest_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const hostileRows, hostileBatches = 3_000, 20

// hostile is a database with many rows of one visitor of an open site, of one visitor of an
// exhausted site, and of another site. Any client can cause them.
type hostile struct {
	t        *testing.T
	d        *db.DB
	store    *ingest.HitStore
	keys     ingest.HitKeys
	open     *model.Site
	visitors [2]model.VisitorKey
	stored   int
	newest   int16 // number of the first visitor's last visit
}

// The page view ids that are stored repeatedly, by another site and by the open one.
const (
	foreignPageview = 1
	ownPageview     = 2
)

func newHostile(t *testing.T, d *db.DB) *hostile {
	at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	open, exhausted, other := world.New(t, d).Site("open.example"), world.New(t, d).Site("exhausted.example"), world.New(t, d).Site("other.example")
	testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 0 WHERE id = ?", exhausted.ID))

	h := &hostile{t: t, d: d, store: hitStore(t, d), open: open,
		visitors: [2]model.VisitorKey{{SiteID: open.ID, Visitor: model.VisitorID{1}},
			{SiteID: exhausted.ID, Visitor: model.VisitorID{2}}}}

	converting := model.VisitorKey{SiteID: open.ID, Visitor: model.VisitorID{3}}
	h.keys = ingest.HitKeys{
		Since: at.Day().Start(), Until: (at.Day() + 1).Start(),
		Usage:    []model.UsageKey{keyOf(open), keyOf(exhausted)},
		Visitors: append(h.visitors[:], converting),
		Reported: []model.EngagementKey{h.report(foreignPageview), h.report(ownPageview)},
	}

	// Filling first gives the trees their levels.
	h.fill(at, other, converting, hostileRows/10)
	return h
}

// report is the key of a report of the day on a page view of the open site.
func (h *hostile) report(id int64) model.EngagementKey {
	return model.EngagementKey{SiteID: h.open.ID, Day: model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)).Day(), PageviewID: id}
}

// fill stores n visits of each visitor, n page views under each of the two ids,
// and n reports on page views that do not exist.
func (h *hostile) fill(at model.Instant, other *model.Site, converting model.VisitorKey, n int) {
	h.t.Helper()

	var changes ingest.HitChanges
	for range n {
		when := at + model.Instant(h.stored)
		h.newest++
		for _, key := range append(h.visitors[:], converting) {
			changes.NewVisits = append(changes.NewVisits, model.Visit{SiteID: key.SiteID, N: h.newest,
				Visitor: key.Visitor, StartedAt: when, LastPageviewAt: when, Channel: "direct"})
		}

		changes.Pageviews = append(changes.Pageviews,
			model.Pageview{SiteID: other.ID, At: when, ID: foreignPageview, Path: "/"},
			model.Pageview{SiteID: h.open.ID, At: when, ID: ownPageview, Path: "/"})

		report := h.report(int64(1_000 + h.stored))
		changes.Engagement = append(changes.Engagement, model.Engagement{EngagementKey: report, MS: 1})

		h.stored++
	}

	h.update(func(*ingest.HitState) *ingest.HitChanges { return &changes })
}

func (h *hostile) update(decide func(*ingest.HitState) *ingest.HitChanges) {
	h.t.Helper()
	testkit.NoError(h.t, h.store.Update(h.t.Context(), h.keys, decide))
}

// hit stores one hit of each kind. The visit continues, and events and engagement arrive for the
// page view id that the open site repeats, and for an id that only the other site has.
func (h *hostile) hit() {
	h.t.Helper()

	h.update(func(state *ingest.HitState) *ingest.HitChanges {
		visits := state.Visits[h.visitors[0]]
		if len(visits) != 4 || len(state.Visits) != 2 || visits[0].N != h.newest {
			h.t.Fatalf("%d visits of %d visitors were read, want the newest 4 of each of the open site's two", len(visits),
				len(state.Visits))
		}

		return &ingest.HitChanges{
			Continued: visits[:1],
			Engagement: []model.Engagement{
				{EngagementKey: h.report(foreignPageview), MS: 5},
				{EngagementKey: h.report(ownPageview), MS: 5},
			},
		}
	})
}

// TestHostileVisitor checks that the work for a hit does not depend on what its visitor, or another
// site, has stored, and that no visit is read for an exhausted site.
func TestHostileVisitor(t *testing.T) {
	t.Parallel()
	at := model.At(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))

	t.Run("sqlite", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.SQLiteURL(t))
		h := newHostile(t, d)
		cost := func() int {
			before := pagesRead(t, d)
			for range hostileBatches {
				h.hit()
			}
			return pagesRead(t, d) - before
		}

		// The first batch prepares the statements.
		cost()
		few := cost()
		h.fill(at, world.New(t, d).Site("another.example"), h.keys.Visitors[2], hostileRows)
		many := cost()
		t.Logf("%d pages read, then %d", few, many)

		// A larger tree may have one more level.
		if many > 2*few {
			t.Errorf("%d batches read %d pages with %d rows of each kind stored, and %d with a tenth", hostileBatches, many,
				hostileRows, few)
		}
	})

	t.Run("postgres", func(t *testing.T) {
		d := dbtest.Open(t, dbtest.PostgresURL(t))
		h := newHostile(t, d)

		// The first batch makes the plans.
		h.hit()
		h.fill(at, world.New(t, d).Site("another.example"), h.keys.Visitors[2], hostileRows)

		for range hostileBatches {
			h.hit()
		}

		// PostgreSQL publishes a connection's statistics when it closes.
		testkit.NoError(t, h.store.Close())

		touched := entriesRead(t, d, "^(visits|pageviews|engagement)_", 6*hostileRows)
		t.Logf("%d entries read", touched)

		if touched > hostileRows {
			t.Errorf("%d batches read %d entries, with %d rows of each kind stored", hostileBatches, touched, hostileRows)
		}
	})
}

// TestExhaustedSite checks that the visit of an exhausted site's visitor is read only for a manual
// page view, which may be a duplicate.
func TestExhaustedSite(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		h := newHostile(t, d)

		// In the first run the site is found exhausted, in the second it is known to be.
		for range 2 {
			h.hit()
			h.keys.Manual = []model.VisitorKey{h.visitors[1]}
			h.update(func(state *ingest.HitState) *ingest.HitChanges {
				if _, ok := state.Visits[h.visitors[1]]; !ok || len(state.Visits) != 3 {
					t.Errorf("%d visits were read, want 3 with the manual page view's visit", len(state.Visits))
				}
				return &ingest.HitChanges{}
			})

			h.keys.Manual = nil
		}
	})
}

// TestExhaustedSiteOpensAgain checks that a batch also reads the visits of a site that was
// exhausted in the previous batch and no longer is.
func TestExhaustedSiteOpensAgain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		h := newHostile(t, d)

		h.hit()

		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 10 WHERE id = ?", h.visitors[1].SiteID))

		// In the first run the site reopens, in the second it is known to be open.
		for range 2 {
			h.update(func(state *ingest.HitState) *ingest.HitChanges {
				if _, ok := state.Visits[h.visitors[1]]; !ok || len(state.Visits) != 3 {
					t.Errorf("%d visits were read, want 3 with the visitor's of the site that opened", len(state.Visits))
				}
				return &ingest.HitChanges{}
			})
		}
	})
}

func pagesRead(t *testing.T, d *db.DB) int {
	t.Helper()
	pages, err := dbtest.PagesRead(d)
	testkit.NoError(t, err)
	return pages
}
