package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// heldStore is a real store that holds its first batch until it is let go.
type heldStore struct {
	HitStore
	batches       int // only the writer touches it until it is stopped
	held, release chan struct{}
}

func (s *heldStore) Update(ctx context.Context, keys ingest.HitKeys, decide func(*ingest.HitState) *ingest.HitChanges) error {
	if s.batches++; s.batches == 1 {
		close(s.held)
		<-s.release
	}
	return s.HitStore.Update(ctx, keys, decide)
}

// TestStampsAfterTheClockWasSetBack: hits of the same microsecond are kept apart, also while the
// clock has not reached again what it was at before. A hit that is only late changes nothing.
func TestStampsAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	noon := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for _, back := range []time.Duration{time.Minute, time.Hour, 400 * 24 * time.Hour} {
		var w stamps
		w.next(noon)

		seen := make(map[model.Instant]bool)
		for range 100 {
			at := w.next(noon.Add(-back))
			if seen[at] || at.Sub(noon.Add(-back)) >= maxAhead || at < noon.Add(-back) {
				t.Fatalf("set back by %v: stamp %v, seen %v", back, at.Time(), seen[at])
			}

			seen[at] = true
		}
	}

	var w stamps
	w.next(noon)
	w.next(noon.Add(-5 * time.Second))

	if at := w.next(noon); at != noon+1 {
		t.Errorf("after a late hit: stamp %v, want the microsecond after noon", at.Time())
	}
}

// TestManualPageviewsInOneBatch checks that a batch distinguishes automatic and manual page views,
// in the order of their arrival.
func TestManualPageviewsInOneBatch(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := &heldStore{HitStore: storeOf(t, d), held: make(chan struct{}), release: make(chan struct{})}
		site := modelSite(t, d, "example.com", 100)
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		s, err := New(Options{
			Cell:       dbtest.SitesCell(t, d),
			UserIDKey:  []byte("a key for tests"),
			VisitorKey: visitorKey,
			ClientAddr: func(*http.Request) netip.Addr { return netip.MustParseAddr("203.0.113.1") },
			Now:        func() time.Time { return now },
			Store:      store,
			Log:        slog.New(slog.DiscardHandler),
		})
		testkit.NoError(t, err)

		s.Start()
		var wg sync.WaitGroup
		queued := 0
		send := func(path string, manual int) {
			t.Helper()

			body, err := json.Marshal(map[string]any{"k": site.key, "t": "pageview", "p": path, "x": manual})
			testkit.NoError(t, err)

			request := httptest.NewRequest(http.MethodPost, "/collect.php", strings.NewReader(string(body)))
			request.Header.Set("Origin", "https://example.com")
			request.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")
			wg.Go(func() {
				w := httptest.NewRecorder()
				if err := s.Collect(w, request); err != nil || w.Code != http.StatusNoContent {
					t.Errorf("page view of %s: %d, %v; want 204", path, w.Code, err)
				}
			})
		}

		sendNext := func(path string, manual int) {
			t.Helper()
			send(path, manual)
			for queued++; s.writers.Len() < queued; {
				runtime.Gosched()
			}
		}

		send("/holds the writer", 0)
		<-store.held
		sendNext("/automatic first", 0)
		sendNext("/automatic first", 1)
		sendNext("/automatic first", 1)
		sendNext("/manual first", 1)
		sendNext("/manual first", 0)
		sendNext("/manual first", 1)
		close(store.release)
		wg.Wait()

		testkit.NoError(t, s.Stop(context.Background()))

		rows, err := dbtest.Rows[model.Pageview](d, "SELECT path, manual FROM pageviews ORDER BY at")
		testkit.NoError(t, err)

		var got []string
		for _, row := range rows {
			got = append(got, row.Path+map[bool]string{true: ", manual"}[row.Manual])
		}

		want := []string{"/holds the writer", "/automatic first", "/manual first, manual", "/manual first"}
		if store.batches != 2 || !slices.Equal(got, want) {
			t.Errorf("%d batches stored %q; want 2 and %q", store.batches, got, want)
		}
	})
}

// TestVisitsOfADayAreBounded: a visitor who brings a new campaign with every page view has 200
// visits of a day; the page views after that belong to the last one, and none is lost.
func TestVisitsOfADayAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const sent = visit.MaxPerDay + 150
		site := modelSite(t, d, "example.com", 1_000)
		w := newWriter(storeOf(t, d), StoreTimeout, nil, nil)
		defer w.Stop(context.Background())

		at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

		for n := 0; n < sent; {
			var hits []*hit
			for range min(50, sent-n) {
				n++
				hits = append(hits, &hit{site: site, at: at.Add(time.Duration(n) * time.Second), visitor: model.VisitorID{1},
					entry:    entry{campaign: model.Campaign{Source: fmt.Sprint("source ", n)}, channel: "direct"},
					pageview: &model.Pageview{SiteID: site.id, ID: int64(n), Path: "/"}})
			}

			if _, err := w.Commit(t.Context(), hits); err != nil {
				t.Fatal(err)
			}
		}

		type row struct {
			N, Pageviews int
			Attribution  string
		}

		visits, err := dbtest.Rows[row](d, "SELECT n, pageviews, attribution FROM visits ORDER BY n")
		if err != nil || len(visits) != visit.MaxPerDay {
			t.Fatalf("%d visits, %v; want %d", len(visits), err, visit.MaxPerDay)
		}

		for i, v := range visits {
			want := row{N: i + 1, Pageviews: 1, Attribution: model.PackAttribution("", &model.Campaign{Source: fmt.Sprint("source ", i+1)})}

			if i == visit.MaxPerDay-1 {
				want.Pageviews = sent - visit.MaxPerDay + 1
			}
			testkit.Equal(t, v, want, "visit")
		}

		dbtest.HasRows(t, d, "pageviews", sent, "page views")
	})
}
