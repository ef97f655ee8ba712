package exports_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// storeForExport stores n page views, one each second, in visits of five page views. Each visit but
// the first has an event with each page view.
func storeForExport(tb testing.TB, d *db.DB, siteID model.SiteID, start model.Instant, n int) {
	tb.Helper()

	must := func(statement string, args ...any) {
		tb.Helper()
		testkit.NoError(tb, dbtest.Exec(d, statement, args...))
	}

	const numbers = `WITH RECURSIVE numbers (n) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?) `

	// The next visit starts 5 s later.
	must(numbers+`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, attribution)
		SELECT ?, n, (? + n * 5000000) / 86400000000, 1, ? + n * 5000000, ? + n * 5000000, 5, 3, ? FROM numbers`,
		n/5, siteID, start, start, start, model.PackAttribution("search.example/", &model.Campaign{Source: "search", Gclid: "click"}))

	must(numbers+`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path, language)
		SELECT ?, ? + n * 1000000, n, n / 5, 1, 1920, false, '/a/path/of/usual/length', 'de' FROM numbers`,
		n, siteID, start)

	must(numbers+`INSERT INTO engagement (site_id, day, id, ms, scroll)
		SELECT ?, (? + n * 1000000) / 86400000000, n, 1500, 40 FROM numbers`, n, siteID, start)

	must(numbers+`INSERT INTO events (site_id, at, id, visitor, n, name, path, value, currency, transaction_id, properties)
		SELECT ?, ? + n * 1000000, n, n / 5, 1, 'purchase', '/a/path/of/usual/length', 19990000, 'EUR', 'T', '{"items":[{"item_id":"1","price":19.99}]}'
		FROM numbers WHERE n >= 5`,
		n, siteID, start)
}

// TestExportStopsWithItsReader checks that the query ends when the reader disconnects.
func TestExportStopsWithItsReader(t *testing.T) {
	t.Parallel()
	const stored = 3_000 // three pages of the database
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		storeForExport(t, d, site.ID, model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), stored)
		all := exports.Range{SiteID: site.ID, To: 1 << 62, Limit: stored}
		exports := map[string]func(context.Context, func() error) error{
			"page views": func(ctx context.Context, each func() error) error {
				return exports.New(d).ExportPageviews(ctx, all, func(*exports.Pageview) error { return each() })
			},
			"events": func(ctx context.Context, each func() error) error {
				return exports.New(d).ExportEvents(ctx, all, func(*exports.Event) error { return each() })
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

// TestExportFindsVisits checks that a row has its visit wherever the range begins and ends, across
// months, and even if the clock was set back between the two.
func TestExportFindsVisits(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		midnight := model.At(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
		for i, test := range []struct {
			name      string
			visit, at model.Instant
			from, to  model.Instant
		}{
			{"a visit of the whole day", midnight, midnight.Add(24*time.Hour - 1), midnight.Add(23 * time.Hour), midnight.Add(24 * time.Hour)},
			{"a visit that seems later", midnight.Add(24*time.Hour - 1), midnight, midnight, midnight + 1},
			{"the day before, to the end of its month", midnight.Add(-time.Hour), midnight - 1, midnight - 1, midnight},
		} {
			err := errors.Join(
				dbtest.Exec(d, `INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (?, ?, ?, 3, ?, 0, 0, 1)`,
					site.ID, i, test.visit.Day(), test.visit),
				dbtest.Exec(d, `INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (?, ?, ?, ?, 3, 'signup', '/')`,
					site.ID, test.at, i, i))
			testkit.NoError(t, err)

			found := false
			r := exports.Range{SiteID: site.ID, From: test.from, To: test.to, Limit: 100}
			if err := exports.New(d).ExportEvents(t.Context(), r, func(e *exports.Event) error {
				found = found || e.ID == int64(i) && e.StartedAt == test.visit && e.N == 3
				return nil
			}); err != nil || !found {
				t.Errorf("%s: found %v, error %v", test.name, found, err)
			}
		}
	})
}

// TestExportRange checks that limit, offset and cursor, alone and together, select rows as slicing
// a list would, across database pages.
func TestExportRange(t *testing.T) {
	t.Parallel()
	const stored = 2_100
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")

		// The month ends within the rows.
		start := model.At(time.Date(2026, 11, 30, 23, 45, 0, 0, time.UTC))
		storeForExport(t, d, site.ID, start, stored)

		if err := dbtest.Exec(d, "UPDATE pageviews SET at = ? WHERE at > ? AND at < ?", start.Add(time.Second), start,
			start.Add(6*time.Second)); err != nil {
			// Rows 1 to 5 have the same time.
			t.Fatal(err)
		}

		for _, test := range []struct {
			after, offset, limit int // after this row; 0: from the first
			first, n             int // expected rows; the first is number 1
		}{
			{0, 0, stored, 1, stored},
			{0, 1, 5, 2, 5},
			{0, 3, 1, 4, 1},
			{0, 1_050, stored, 1_051, stored - 1_050},
			{0, stored - 1, 10, stored, 1},
			{0, stored, 10, 0, 0},
			{0, stored + 1, 10, 0, 0},
			{0, 1 << 40, 10, 0, 0},
			{3, 0, 3, 4, 3},
			{3, 1, 3, 5, 3},
			{1_000, 999, 1_050, 2_000, stored - 1_999},
			{2_000, stored - 2_000, 10, 0, 0},
		} {
			r := exports.Range{SiteID: site.ID, From: start, To: start.Add(24 * time.Hour), Offset: test.offset, Limit: test.limit}

			if n := test.after; n > 0 {
				at := start.Add(time.Duration(n-1) * time.Second)

				if n <= 6 {
					at = start.Add(time.Second)
				}

				r.After = &exports.Cursor{At: at, ID: int64(n - 1)}
			}

			var got []int64
			testkit.NoError(t, exports.New(d).ExportPageviews(t.Context(), r, func(p *exports.Pageview) error { got = append(got, p.ID+1); return nil }))

			var want []int64
			for n := range test.n {
				want = append(want, int64(test.first+n))
			}

			if !slices.Equal(got, want) {
				t.Errorf("after %d, offset %d, limit %d: %d rows %.60v, want %d %.60v", test.after, test.offset, test.limit, len(got), got, len(want), want)
			}
		}
	})
}

// BenchmarkExport measures one page of 10,000 rows out of 110,000: the first one, a late one by
// cursor, and the last one by offset.
func BenchmarkExport(b *testing.B) {
	const stored, page = 110_010, 10_000
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		const siteID = 1
		start := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		storeForExport(b, d, siteID, start, stored)

		for name, where := range map[string]exports.Range{
			"first":  {},
			"cursor": {After: &exports.Cursor{At: start.Add(80_000 * time.Second), ID: 80_000}},
			"offset": {Offset: 100_000},
		} {
			r := where
			r.SiteID, r.From, r.To, r.Limit = siteID, start, start.Add(30*24*time.Hour), page
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
					check(b, exports.New(d).ExportPageviews(b.Context(), r, func(*exports.Pageview) error { rows++; return nil }))
				}
			})

			b.Run("events/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					check(b, exports.New(d).ExportEvents(b.Context(), r, func(*exports.Event) error { rows++; return nil }))
				}
			})
		}
	})
}

// TestExportsTakeTurns checks that concurrent exports leave connections to other queries, and that
// all of them finish.
func TestExportsTakeTurns(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		var reading atomic.Int64
		release := make(chan struct{})
		dbtest.OnStatement(d, func(statement string) {
			if strings.Contains(statement, `"pageviews" AS r`) {
				reading.Add(1)
				<-release
			}
		})

		var group errgroup.Group

		// More exports than either pool has connections.
		for i := range 24 {
			group.Go(func() error {
				r := exports.Range{SiteID: site.ID, From: dbtest.Noon, To: dbtest.Noon.Add(time.Hour), Limit: 1, Offset: i % 2}
				return exports.New(d).ExportPageviews(context.Background(), r, func(*exports.Pageview) error { return nil })
			})
		}

		testkit.Await(t, "the exports to begin", func() bool { return reading.Load() >= 4 })

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		if _, err := sites.New(d).Lookup.SiteRulesByKey(ctx, site.SiteKey); err != nil {
			t.Errorf("another query: %v", err)
		}
		testkit.Equal(t, reading.Load(), 4, "exports read at once")

		waiting, leave := context.WithCancel(t.Context())
		leave()

		if err := exports.New(d).ExportPageviews(waiting, exports.Range{SiteID: site.ID, Limit: 1}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("one that leaves while it waits: %v", err)
		}

		close(release)

		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestFarOffset checks an offset larger than the number of rows that one statement skips.
func TestFarOffset(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const rows = 100_003 // one statement skips 100,000
		site := world.New(t, d).Site("example.com")
		err := dbtest.Exec(d, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) SELECT %d, %d + i / 2, i, 1, 1, 0, false, '/' FROM n`,
			rows, site.ID, dbtest.Noon))
		if err == nil {
			err = dbtest.Exec(d, `INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (?, 7, ?, 1, 1, 1, 1, 1)`,
				site.ID, dbtest.Noon.Day())
		}

		if err == nil {
			err = dbtest.Exec(d, "UPDATE pageviews SET visitor = 7 WHERE id > 99990")
		}
		testkit.NoError(t, err)

		for offset, want := range map[int][]int64{100_000: {100_001, 100_002}, 100_002: {100_003}, rows: nil, rows + 1: nil, 1 << 40: nil} {
			var got []int64
			r := exports.Range{SiteID: site.ID, From: dbtest.Noon, To: dbtest.Noon.Add(time.Hour), Limit: 2, Offset: offset}
			if err := exports.New(d).ExportPageviews(t.Context(), r, func(row *exports.Pageview) error {
				got = append(got, row.ID)
				return nil
			}); err != nil || !slices.Equal(got, want) {
				t.Errorf("offset %d: %v, %v, want %v", offset, got, err, want)
			}
		}
	})
}

// TestPagesAreBounded exports events with the longest texts, of one visit and of a visit each. A
// page holds a bounded number of bytes, and all pages together have each event once.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	const events, text, attribution = 1_600, 4_096, 6_000
	start := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	const numbers = `WITH RECURSIVE numbers (n) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?) `

	for name, test := range map[string]struct {
		visits           int // the events take turns
		properties, path int // bytes
	}{
		"long events of one visit":         {1, text, 2_048},
		"long events of visits":            {events, text, 2_048},
		"short events of long visits":      {events, 2, 1},
		"short events of some long visits": {exports.PageVisits / 2, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				site := world.New(t, d).Site("example.com")
				from := model.PackAttribution(strings.Repeat("r", attribution), &model.Campaign{})
				err := errors.Join(
					dbtest.Exec(d, numbers+`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, attribution)
						SELECT ?, n, ?, 1, ?, 0, 0, 3, ? FROM numbers`, test.visits, site.ID, start.Day(), start, from),
					dbtest.Exec(d, numbers+`INSERT INTO events (site_id, at, id, visitor, n, name, path, properties)
						SELECT ?, ? + n, n, n % ?, 1, 'signup', ?, ? FROM numbers`, events, site.ID, start, test.visits,
						strings.Repeat("p", test.path), `{"a":"`+strings.Repeat("v", test.properties-2)+`"}`))
				testkit.NoError(t, err)

				all := exports.Range{SiteID: site.ID, To: 1 << 62, Limit: 1 << 20}
				pages, err := exports.EventPages(t.Context(), d, all)
				testkit.NoError(t, err)
				rows := 0
				for _, page := range pages {
					rows += page.Rows
					if page.Rows > exports.PageRows || page.Visits > exports.PageVisits ||
						page.Bytes > exports.PageBytes+exports.PageVisits*attribution+2*text {
						t.Errorf("a page has %+v", page)
					}
				}
				if rows != events {
					t.Errorf("%d pages have %d events, want %d", len(pages), rows, events)
				}

				next := int64(0)
				err = exports.New(d).ExportEvents(t.Context(), all, func(e *exports.Event) error {
					if e.ID != next || len(e.Referrer) != attribution || len(e.Path) != test.path {
						t.Fatalf("event %d after %d, with a referrer of %d bytes", e.ID, next-1, len(e.Referrer))
					}
					next++
					return nil
				})
				if err != nil || next != events {
					t.Errorf("%d events, error %v", next, err)
				}
			})
		})
	}
}

// TestJSONEscapesLittle checks that a row as JSON has about the length of its texts, whatever they
// contain, and that it has the same values as json.Marshal's.
func TestJSONEscapesLittle(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"<>&", "a\u2028b\u2029", "\u00e4\u65e5\U0001f600", "\x7f", `"\`, "\t\n\x01", "a\xffb"} {
		properties, err := json.Marshal(map[string]string{"k": text})
		testkit.NoError(t, err)
		got, err := exports.AppendJSON([]byte("before"), []exports.Field{
			{Name: "text", Value: text}, {Name: "object", Value: json.RawMessage(properties)}, {Name: "none", Value: nil},
			{Name: "number", Value: int64(7)}, {Name: "yes", Value: true},
		})
		if err != nil || !bytes.HasPrefix(got, []byte("before{")) {
			t.Fatalf("%q, error %v", got, err)
		}

		var row struct {
			Text   string
			Object struct{ K string }
			None   *string
			Number int64
			Yes    bool
		}
		err = json.Unmarshal(got[len("before"):], &row)
		want := strings.ToValidUTF8(text, "\ufffd")
		if err != nil || row.Text != want || row.Object.K != want || row.None != nil || row.Number != 7 || !row.Yes {
			t.Errorf("%q became %q, error %v", text, got, err)
		}
	}

	long := strings.Repeat("<&\u2028", 1_000)
	got, err := exports.AppendJSON(nil, []exports.Field{{Name: "a", Value: long}, {Name: "b", Value: json.RawMessage(`"` + long + `"`)}})
	if err != nil || len(got) > 2*len(long)+20 {
		t.Errorf("two texts of %d bytes became %d bytes, error %v", len(long), len(got), err)
	}
}
