package bulk_test

import (
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/world"
)

// TestBulkLoad: loaded rows are exported, counted and continued like any others.
func TestBulkLoad(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := bulkSite(t, d)
		at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
		visit := model.Visit{SiteID: site.ID, N: 1, Visitor: model.VisitorID{1}, StartedAt: at, LastPageviewAt: at + 1,
			Pageviews: 2, Channel: "direct"}

		rows := bulk.Rows{Visits: []model.Visit{visit}}
		for i := range 2 {
			rows.Pageviews = append(rows.Pageviews, model.Pageview{
				SiteID: site.ID, At: at + model.Instant(i), ID: int64(i + 1), Visitor: visit.Visitor, N: visit.N,
				Path: "/", WidthRange: -1,
			})
		}

		before, err := bulk.Measure(t.Context(), d)
		if err != nil || before.Tables <= 0 {
			t.Fatalf("storage %+v, %v", before, err)
		}

		second := bulk.Rows{Pageviews: []model.Pageview{{
			SiteID: site.ID, At: at + 2, ID: 3, Visitor: visit.Visitor, N: visit.N, Path: "/more", WidthRange: 576,
		}}}
		if err := bulk.Fill(t.Context(), d, func() error {
			if err := bulk.Load(t.Context(), d, rows); err != nil {
				return err
			}
			return bulk.Load(t.Context(), d, second)
		}); err != nil {
			t.Fatal(err)
		}

		var exported []int64
		err = exports.New(d).ExportPageviews(t.Context(), exports.Range{SiteID: site.ID, From: at, To: at.Add(time.Hour), Limit: 10},
			func(p *exports.Pageview) error {
				exported = append(exported, p.ID)
				return nil
			})
		if err != nil || len(exported) != 3 {
			t.Errorf("exported %v, %v; want the three page views", exported, err)
		}
		if used, err := sites.New(d).Usage.MonthlyUsage(t.Context(), at.Month(), []model.SiteID{site.ID}); err != nil || used[site.ID] != 3 {
			t.Errorf("counted %v, %v; want 3", used, err)
		}

		store := ingest.NewHitStore(dbtest.SitesCell(t, d))
		defer store.Close()

		key := model.VisitorKey{SiteID: site.ID, Visitor: visit.Visitor}
		keys := ingest.HitKeys{Since: at.Day().Start(), Until: (at.Day() + 1).Start(), Visitors: []model.VisitorKey{key}}
		if err := store.Update(t.Context(), keys, func(s *ingest.HitState) *ingest.HitChanges {
			if got := s.Visits[key]; len(got) != 1 || got[0].N != visit.N || got[0].Pageviews != 2 {
				t.Errorf("the visitor's visit is %+v, want %+v", got, visit)
			}
			return &ingest.HitChanges{Engagement: []model.Engagement{{
				EngagementKey: model.EngagementKey{SiteID: site.ID, Day: at.Day(), PageviewID: 3}, MS: 70,
			}}}
		}); err != nil {
			t.Error(err)
		}

		if after, err := bulk.Measure(t.Context(), d); err != nil || d.Dialect() == "postgres" && after.Log <= before.Log {
			t.Errorf("storage %+v after %+v, %v; want a longer log", after, before, err)
		}
	})
}

func bulkSite(t *testing.T, d *db.DB) *model.Site {
	t.Helper()
	return world.New(t, d).Site("bulk.example", world.Quota(5_000_000))
}

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
