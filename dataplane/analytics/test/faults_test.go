package analytics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// faultyStore is a real store with an injected fault before a transaction and one within it.
type faultyStore struct {
	analytics.HitStore
	before func(ctx context.Context) error // runs before the transaction; nil for none
	spoil  func(*ingest.HitChanges)        // changes the rows to store; nil for none
}

func (s *faultyStore) Update(ctx context.Context, keys ingest.HitKeys, decide func(*ingest.HitState) *ingest.HitChanges) error {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return err
		}
	}

	return s.HitStore.Update(ctx, keys, func(state *ingest.HitState) *ingest.HitChanges {
		changes := decide(state)
		if s.spoil != nil {
			s.spoil(changes)
		}
		return changes
	})
}

// TestFailedCommitIsNo204 checks that a hit that could not be committed is answered with 503 and
// Retry-After.
func TestFailedCommitIsNo204(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := &faultyStore{
			HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)),
			before:   func(context.Context) error { return errors.New("disk full") },
		}
		p := newPlaneOn(t, d, store)
		site := p.shop("shop.example")
		bearer := "Bearer " + p.secret(site)

		for name, c := range map[string]call{
			"page view": viewCall(site, "", nil), "event": eventCall(site, "", "signup", nil, nil),
			"engagement": viewCall(site, "", m{"t": "engagement", "i": "0123456789abcdef", "ms": 1}),
		} {
			response, _ := p.Send(c)

			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d, Retry-After %q; want 503 and some", name, response.StatusCode, response.Header.Get("Retry-After"))
			}
		}

		if status, body := p.serverCall("POST", bearer,
			mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})); status != 503 || body != `{"error":"unavailable"}` {
			t.Errorf("server: %d %s, want 503 unavailable", status, body)
		}
		if rows, events, used := len(p.Views(site)), len(p.Events(site)), p.Used(site); rows+events+int(used) != 0 {
			t.Errorf("%d page views, %d events, %d counted; want nothing", rows, events, used)
		}
	})
}

// hang is the longest time of a request that waits for a stuck database: far longer than it takes,
// so that a busy machine does not fail the test.
const hang = 6 * analytics.StoreTimeout

// TestStuckStoreIsBounded checks that no request waits forever for a database that does not answer.
func TestStuckStoreIsBounded(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	store := &faultyStore{
		HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)),
		before:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	p := newPlaneOn(t, d, store)
	site := p.site("example.com", quota)

	p.HTTP.Timeout = hang
	if status, code := p.Collect(viewCall(site, "", nil)); status != http.StatusServiceUnavailable || code != "unavailable" {
		t.Errorf("got %d %s, want 503 unavailable", status, code)
	}
}

// TestDisconnectCancelsNothing checks that the page view of a browser that disconnects right after
// sending is stored, as pages do when they are closed.
func TestDisconnectCancelsNothing(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		entered, release := make(chan struct{}, 1), make(chan struct{})
		store := &faultyStore{HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)), before: func(ctx context.Context) error {
			entered <- struct{}{}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}

		p := newPlaneOn(t, d, store)
		site := p.site("example.com", quota)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/collect.php",
				strings.NewReader(mustJSON(t, viewCall(site, "", nil).Body)))
			if err == nil {
				request.Header.Set("Origin", "https://example.com")
				request.Header.Set("User-Agent", chrome)
				_, err = p.HTTP.Do(request) //nolint:bodyclose // there is no response
			}
			ended <- err
		}()

		<-entered
		leave()

		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("the browser got %v, want a cancelled request", err)
		}

		close(release)
		p.Stop()

		testkit.Equal(t, len(p.Views(site)), 1, "page views stored")
	})
}

// TestOneBadHitFailsAlone checks that a hit that the database refuses, or that makes its
// transaction panic, fails alone: the other hits of its batch are stored and counted.
func TestOneBadHitFailsAlone(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		// PostgreSQL refuses the text, and SQLite the second row of one primary key. A violated key
		// alone would be tried with other ids, four times in each commit: on a busy machine the
		// good hits of the batch would be left without time.
		oneBadHit(t, func(changes *ingest.HitChanges, i int) {
			row := model.Event{SiteID: changes.Pageviews[i].SiteID, At: changes.Pageviews[i].At, ID: 1, Name: "signup", Path: "/bad\x00"}
			changes.Events = append(changes.Events, row, row)
		})
	})
	t.Run("panic", func(t *testing.T) { oneBadHit(t, func(*ingest.HitChanges, int) { panic("bad hit") }) })
}

// oneBadHit stores a batch with one page view that spoil makes invalid.
func oneBadHit(t *testing.T, spoil func(changes *ingest.HitChanges, pageview int)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		gathered, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		store := &faultyStore{HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)),
			before: func(context.Context) error { // hold the first batch, so that the others meet in the second
				once.Do(func() { close(gathered); <-release })
				return nil
			},
			spoil: func(changes *ingest.HitChanges) {
				if i := slices.IndexFunc(changes.Pageviews, func(p model.Pageview) bool { return p.Path == "/bad" }); i >= 0 {
					spoil(changes, i)
				}
			},
		}

		p := newPlaneWith(t, d, func(o *analytics.Options) { o.Store, o.Timeout = store, time.Minute })
		site := p.site("example.com", quota)
		var wg sync.WaitGroup
		send := func(path string, want int) {
			wg.Go(func() {
				if status, code := p.Collect(viewCall(site, "", m{"p": path})); status != want {
					t.Errorf("%s: %d %s, want %d", path, status, code, want)
				}
			})
		}

		send("/first", http.StatusNoContent)
		<-gathered

		// The batch is small: its commits share one timeout, also on a busy machine.
		for range 2 {
			send("/good", http.StatusNoContent)
		}

		send("/bad", http.StatusServiceUnavailable)

		for range 2 {
			send("/good", http.StatusNoContent)
		}

		close(release)
		wg.Wait()

		if rows, used := len(p.Views(site)), p.Used(site); rows != 5 || used != 5 {
			t.Errorf("%d stored, %d counted; want 5 of both", rows, used)
		}
	})
}

// TestConnectionsCut checks that an acknowledged event is stored once and with its delivery while
// the server repeatedly closes all connections under load, and that the plane recovers.
func TestConnectionsCut(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		p := newPlaneOn(t, d, nil)
		site := p.shop("shop.example")
		testkit.NoError(t, sites.New(d).Sites.SetSitePlan(t.Context(), site.ID, model.PlanEnterprise, new(int64(1<<40))))

		stop := make(chan struct{})
		var wg sync.WaitGroup
		var mu sync.Mutex

		acknowledged := make(map[string]bool)
		for sender := range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}

					id := strings.Repeat("x", sender+1) + "-" + mustJSON(t, n)
					status, code := p.Collect(eventCall(site, "", "purchase", m{"transaction_id": id, "value": 1, "currency": "EUR"}, nil))
					switch status {
					case http.StatusNoContent:
						mu.Lock()
						acknowledged[id] = true
						mu.Unlock()
					case http.StatusServiceUnavailable:
					default:
						t.Errorf("purchase: %d %s", status, code)
					}
				}
			})
		}

		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged)
		}
		for range 8 {
			before := count()

			if err := dbtest.Exec(d, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
				// This pool loses its connections as well.
				t.Logf("cut: %v", err)
			}

			p.Await("an acknowledgement after the cut", func() bool { return count() > before })
		}

		close(stop)
		wg.Wait()

		stored := make(map[string]int)
		for _, e := range p.Events(site) {
			stored[e.TransactionID]++
		}

		for id := range acknowledged {
			if stored[id] != 1 {
				t.Errorf("purchase %s was acknowledged and is stored %d times", id, stored[id])
			}
		}

		if deliveries, used := len(p.deliveries(site)), p.Used(site); deliveries != len(stored) || used != int64(len(stored)) {
			t.Errorf("%d events, %d deliveries, %d counted; want as many of each", len(stored), deliveries, used)
		}
		dbtest.HasRows(t, d, "transactions", len(stored), "transactions")

		t.Logf("%d acknowledged, %d stored", len(acknowledged), len(stored))
	})
}

// TestDatabaseRestarted checks that no acknowledged hit is lost when the database crashes and
// restarts, that hits are refused in between, and that the plane needs no restart.
func TestDatabaseRestarted(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		postgres := dbtest.StartPostgres(t)
		d := dbtest.Open(t, postgres.URL())
		p := newPlaneOn(t, d, nil)
		site := p.shop("shop.example")

		acknowledged := 0
		for range 3 {
			for range 20 {
				p.Event(site, "", "signup")
				acknowledged++
			}

			postgres.Restart()
			p.Await("an acknowledgement after the restart", func() bool {
				status, _ := p.Collect(eventCall(site, "", "signup", nil, nil))
				if status == http.StatusNoContent {
					acknowledged++
				}
				return status == http.StatusNoContent
			})
		}

		if events, deliveries := len(p.Events(site)), len(p.deliveries(site)); events != acknowledged || deliveries != acknowledged {
			t.Errorf("%d acknowledged, %d events, %d deliveries stored; want as many of each", acknowledged, events, deliveries)
		}
	})
}

// TestPoolExhausted checks that hits are stored while all connections of the control plane's pools
// are busy, including the first hit of a site and of a day, and counters of refused calls too: the
// writer has its own connection, and lookups have their own pool.
func TestPoolExhausted(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		p := newPlaneOn(t, d, nil)
		site, unseen := p.site("example.com", quota), p.site("unseen.example", quota)
		p.awaitNotifications(site)

		// The site and the key of the day are cached now.
		p.View(site, "", nil)
		ctx, release := context.WithCancel(t.Context())
		var wg sync.WaitGroup

		// These are more connections than a pool has. That of the sites' cell can be another one.
		pools := []*db.Cell{d.DefaultCell(), dbtest.SitesCell(t, d)}
		for i := range 80 {
			wg.Go(func() { _, _ = pools[i%2].Write.ExecContext(ctx, "SELECT pg_sleep(60)") })
		}

		p.Await("busy pools", func() bool { return dbtest.IsBusy(pools[0]) && dbtest.IsBusy(pools[1]) })
		p.View(site, "", nil)
		p.View(unseen, "", nil)
		p.Clock.Set(noon.Add(24 * time.Hour))
		p.View(unseen, "", nil)

		// This call counts as bad_path.
		p.Collect(viewCall(unseen, "", m{"p": "no path"}))
		p.Stop()
		release()
		wg.Wait()

		if known, first := len(p.Views(site)), len(p.Views(unseen)); known != 2 || first != 2 {
			t.Errorf("%d and %d page views stored, want 2 and 2", known, first)
		}

		p.Rejected(unseen, map[string]int64{"collect bad_path": 1})
	})
}

// TestLockWait checks that the waits of hits are bounded while another session locks the site's
// row, both for the hit that is being stored and for the next one in the queue. Hits that were
// answered with 503 are not stored after the row is unlocked, and later hits are.
func TestLockWait(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		taken := make(chan struct{}, 10)
		p := newPlaneOn(t, d, &faultyStore{
			HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)),
			before:   func(context.Context) error { taken <- struct{}{}; return nil },
		})
		p.HTTP.Timeout = hang
		site := p.site("example.com", quota)
		p.View(site, "", nil)
		<-taken
		release := holdUsage(t, d, site.ID)

		var wg sync.WaitGroup
		refused := func(which string) {
			wg.Go(func() {
				if status, code := p.Collect(viewCall(site, "", m{"p": "/" + which})); status != http.StatusServiceUnavailable {
					t.Errorf("%s, while the row is held: %d %s, want 503", which, status, code)
				}
			})
		}

		refused("first")
		<-taken
		refused("second")
		wg.Wait()
		release()

		p.View(site, "", m{"p": "/after"})

		// The writer has ended, so that no commit can follow.
		p.Stop()
		var paths []string
		for _, row := range p.Views(site) {
			paths = append(paths, row.Path)
		}

		if used := p.Used(site); !slices.Equal(paths, []string{"/", "/after"}) || used != 2 {
			t.Errorf("%q stored, %d counted; want the first and the last", paths, used)
		}
	})
}

// holdUsage locks the row of a site's usage in another session until release is called.
func holdUsage(t *testing.T, d *db.DB, siteID model.SiteID) (release func()) {
	t.Helper()
	holder := ingest.NewHitStore(dbtest.SitesCell(t, d))
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	key := model.UsageKey{SiteID: siteID, Month: model.At(noon).Month()}
	go func() {
		ended <- holder.Update(context.Background(), ingest.HitKeys{Usage: []model.UsageKey{key}}, func(*ingest.HitState) *ingest.HitChanges {
			close(held)
			<-done
			return &ingest.HitChanges{}
		})
	}()

	<-held
	return func() {
		t.Helper()
		close(done)
		testkit.NoError(t, errors.Join(<-ended, holder.Close()))
	}
}

// TestPauseRefusesNoHit checks that hits are stored, once each, which wait for a lock that is held
// for longer than one attempt to store them.
func TestPauseRefusesNoHit(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		attempts := make(chan struct{}, 100)
		p := newPlaneOn(t, d, &faultyStore{
			HitStore: ingest.NewHitStore(dbtest.SitesCell(t, d)),
			before:   func(context.Context) error { attempts <- struct{}{}; return nil },
		})
		p.HTTP.Timeout = hang
		site := p.site("example.com", quota)
		p.View(site, "", nil)
		<-attempts
		release := holdUsage(t, d, site.ID)

		const clients = 8
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				if status, code := p.Collect(viewCall(site, "", m{"p": fmt.Sprint("/", i)})); status != http.StatusNoContent {
					t.Errorf("hit %d: %d %s, want 204", i, status, code)
				}
			})
		}
		<-attempts
		<-attempts // the first attempt has run out of time
		release()
		wg.Wait()

		if rows, used := len(p.Views(site)), p.Used(site); rows != 1+clients || used != 1+clients {
			t.Errorf("%d page views, %d counted, want %d", rows, used, 1+clients)
		}
	})
}

// TestFloodOfUnknownKeys checks that a flood of different made-up site keys delays no site. The
// keys are answered with 404, or with 503 if there are too many.
func TestFloodOfUnknownKeys(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newPlaneOn(t, d, nil)
		site := p.site("example.com", quota)
		p.View(site, "", nil)
		stop := make(chan struct{})

		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}

					status, code := p.Collect(call{Body: m{"k": model.NewSiteKey(), "t": "pageview", "p": "/"}, Origin: "https://example.com"})
					if status != http.StatusNotFound && status != http.StatusServiceUnavailable {
						t.Errorf("a made-up key: %d %s, want 404 or 503", status, code)
					}
				}
			})
		}

		for i := range 20 {
			// The cache entry has expired each time.
			p.Clock.Set(noon.Add(time.Duration(i) * time.Minute))
			p.View(site, "", nil)
		}

		close(stop)
		wg.Wait()

		testkit.Equal(t, len(p.Views(site)), 21, "page views stored")
	})
}

// lockTable locks a table of PostgreSQL exclusively, until the test ends or for some seconds. It
// returns once it holds the lock.
func lockTable(t *testing.T, p *plane, table string, seconds int) {
	t.Helper()

	ctx, release := context.WithCancel(context.Background())
	var holder sync.WaitGroup
	holder.Go(func() {
		_ = dbtest.Transaction(ctx, p.DB, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE", fmt.Sprintf("SELECT pg_sleep(%d)", seconds))
	})

	t.Cleanup(func() { release(); holder.Wait() })
	p.Await("the lock of "+table, func() bool {
		locks, err := dbtest.Rows[int](p.DB,
			`SELECT count(*) FROM pg_locks WHERE relation = ?::regclass AND mode = 'AccessExclusiveLock' AND granted`, table)
		testkit.NoError(t, err)
		return locks[0] == 1
	})
}

// TestOneDeadlineForAllWaits checks that a hit that waits for its site and then for the key of its
// day is answered after StoreTimeout in total.
func TestOneDeadlineForAllWaits(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		p := newPlaneOn(t, d, nil)
		p.HTTP.Timeout = hang
		site := p.site("example.com", quota)
		const first = 4 // seconds for which the site cannot be read

		// This creates the day's table.
		if _, err := ingest.New(d).DaySalt(t.Context(), model.At(noon).Day()); err != nil {
			t.Fatal(err)
		}

		lockTable(t, p, "day_salts_1", 60)
		lockTable(t, p, "sites", first)
		began := time.Now()
		status, code := p.Collect(viewCall(site, "", nil))
		took := time.Since(began)

		if status != http.StatusServiceUnavailable || code != "unavailable" {
			t.Errorf("got %d %s, want 503 unavailable", status, code)
		}
		if latest := analytics.StoreTimeout + first*time.Second*3/4; took > latest {
			t.Errorf("answered after %v, want at most %v", took, latest)
		}
	})
}
