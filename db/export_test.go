package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// newOwnSite makes an account with a site.
func newOwnSite(t *testing.T, d *db.DB, domain string) *model.Site {
	t.Helper()
	return newSite(t, d, newUser(t, d, "owner@"+domain).AccountID, domain)
}

// storeForExport stores n page views, one each second, in visits of five page views. Each visit but the first has an event
// beside each page view.
func storeForExport(tb testing.TB, d *db.DB, siteID int64, start model.Instant, n int) {
	tb.Helper()
	must := func(statement string, args ...any) {
		tb.Helper()
		if err := dbtest.Exec(d, statement, args...); err != nil {
			tb.Fatal(err)
		}
	}
	const numbers = `WITH RECURSIVE numbers (n) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?) `
	visit := model.FirstTimeID(start) // and 5 s later the next one
	must(numbers+`INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, channel, referrer, utm_source, gclid)
		SELECT ?, ? + n * 5000000 * 4096, ?, ? + n * 5000000, ? + n * 5000000, 5, 'paid search', 'search.example/', 'search', 'click' FROM numbers`,
		n/5, siteID, visit, make([]byte, 16), start, start)
	must(numbers+`INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path, language)
		SELECT ?, ? + n * 1000000, n, ? + n / 5 * 5000000 * 4096, 1500, 40, 1920, false, '/a/path/of/usual/length', 'de' FROM numbers`,
		n, siteID, start, visit)
	must(numbers+`INSERT INTO events (site_id, at, id, visit_id, name, path, value, currency, transaction_id, properties)
		SELECT ?, ? + n * 1000000, n, ? + n / 5 * 5000000 * 4096, 'purchase', '/a/path/of/usual/length', 19990000, 'EUR', 'T', '{"items":[{"item_id":"1","price":19.99}]}'
		FROM numbers WHERE n >= 5`,
		n, siteID, start, visit)
}

// TestExportStopsWithItsReader: when the reader leaves, the query ends instead of running on for nobody.
func TestExportStopsWithItsReader(t *testing.T) {
	const stored = 10_000
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newOwnSite(t, d, "example.com")
		storeForExport(t, d, site.ID, model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), stored)
		all := db.ExportRange{SiteID: site.ID, To: 1 << 62, Limit: stored}
		exports := map[string]func(context.Context, func() error) error{
			"page views": func(ctx context.Context, each func() error) error {
				return d.ExportPageviews(ctx, all, func(*db.ExportedPageview) error { return each() })
			},
			"events": func(ctx context.Context, each func() error) error {
				return d.ExportEvents(ctx, all, func(*db.ExportedEvent) error { return each() })
			},
		}
		for name, export := range exports {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			seen := 0
			err := export(ctx, func() error {
				if seen++; seen == 10 {
					leave()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) || seen >= stored-5 {
				t.Errorf("%s after the reader left: %d of %d rows, error %v; want fewer and context.Canceled", name, seen, stored, err)
			}

			errStop := errors.New("stop")
			seen = 0
			err = export(t.Context(), func() error { seen++; return errStop })
			if !errors.Is(err, errStop) || seen != 1 {
				t.Errorf("%s after an error of the caller: %d rows, error %v; want 1 and that error", name, seen, err)
			}

			seen = 0
			if err := export(t.Context(), func() error { seen++; return nil }); err != nil || seen < stored-5 {
				t.Errorf("%s, the next download: %d rows, error %v; want all", name, seen, err)
			}
		}
	})
}

// TestExportFindsVisits: a row comes with its visit wherever the range begins and ends, across months, and although the
// clock was set back between the two.
func TestExportFindsVisits(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newOwnSite(t, d, "example.com")
		midnight := model.At(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
		for i, test := range []struct {
			name      string
			visit, at model.Instant
			from, to  model.Instant
		}{
			{"a visit of the whole day", midnight, midnight.Add(24*time.Hour - 1), midnight.Add(23 * time.Hour), midnight.Add(24 * time.Hour)},
			{"a visit that seems later", midnight.Add(time.Hour), midnight.Add(-time.Hour), midnight.Add(-24 * time.Hour), midnight},
			{"a visit that seems of the day before", midnight.Add(-time.Hour), midnight, midnight, midnight.Add(24 * time.Hour)},
		} {
			visit := model.NewTimeID(test.visit)
			err := errors.Join(
				dbtest.Exec(d, `INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, channel) VALUES (?, ?, ?, ?, 0, 0, 'direct')`,
					site.ID, visit, make([]byte, 16), test.visit),
				dbtest.Exec(d, `INSERT INTO events (site_id, at, id, visit_id, name, path) VALUES (?, ?, ?, ?, 'signup', '/')`,
					site.ID, test.at, i, visit))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			r := db.ExportRange{SiteID: site.ID, From: test.from, To: test.to, Limit: 100}
			if err := d.ExportEvents(t.Context(), r, func(e *db.ExportedEvent) error {
				found = found || e.ID == int64(i) && e.VisitID == visit
				return nil
			}); err != nil || !found {
				t.Errorf("%s: found %v, error %v", test.name, found, err)
			}
		}
	})
}

// BenchmarkExport measures one page of 10,000 rows, the first and a late one, out of 100,000.
func BenchmarkExport(b *testing.B) {
	const stored, page = 100_000, 10_000
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		const siteID = 1
		start := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		storeForExport(b, d, siteID, start, stored)
		for _, late := range []bool{false, true} {
			r := db.ExportRange{SiteID: siteID, From: start, To: start.Add(30 * 24 * time.Hour), Limit: page}
			name := "first"
			if late {
				name = "late"
				r.After = &db.ExportCursor{At: start.Add(80_000 * time.Second), ID: 80_000}
			}
			rows := 0
			check := func(b *testing.B, err error) {
				b.Helper()
				if err != nil || rows != page {
					b.Fatalf("%d rows, error %v; want %d", rows, err, page)
				}
				rows = 0
			}
			b.Run("pageviews/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					check(b, d.ExportPageviews(b.Context(), r, func(*db.ExportedPageview) error { rows++; return nil }))
				}
			})
			b.Run("events/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					check(b, d.ExportEvents(b.Context(), r, func(*db.ExportedEvent) error { rows++; return nil }))
				}
			})
		}
	})
}
