package sites_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// watch watches until the test ends, or stop is called.
func watch(t *testing.T, d *db.DB) (changed chan model.SiteID, synced chan bool, stop func()) {
	t.Helper()

	changed, synced = make(chan model.SiteID, 1000), make(chan bool, 100)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- sites.New(d).Lookup.WatchSites(ctx, func(id int64) { changed <- model.SiteID(id) }, func(why error) { synced <- why == nil })
	}()

	stop = sync.OnceFunc(func() {
		cancel()
		testkit.ErrorIs(t, <-ended, context.Canceled, "WatchSites returned")
	})

	t.Cleanup(stop)
	return changed, synced, stop
}

// patience bounds the wait for a report, on a machine that runs other tests too.
const patience = time.Minute

func wantNext[T comparable](t *testing.T, what string, c <-chan T, want T) {
	t.Helper()
	select {
	case got := <-c:
		testkit.Require(t, got, want, "%s", what)
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v, want %v", what, patience, want)
	}
}

// wantState waits until a state is reported. On a slow machine a query of the watcher can time out,
// so that other states come before it.
func wantState(t *testing.T, what string, synced <-chan bool, want bool) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case got := <-synced:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%s: not reported within %v: synced %v", what, patience, want)
		}
	}
}

// TestChangesReachEveryProcess checks that every change of a site is reported in another process,
// and most of them within a second: on a busy machine one of them can take longer.
func TestChangesReachEveryProcess(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		listener := dbtest.Open(t, databaseURL)
		owner := world.New(t, d).User("owner@example.com")
		changed, synced, stop := watch(t, listener)
		wantNext(t, "synced", synced, true)
		site := world.New(t, d).Site("example.com", world.Of(owner.AccountID))
		wantNext(t, "created", changed, site.ID)

		changes, late := 0, 0
		for name, err := range siteChanges(t.Context(), d, owner.AccountID, site.ID) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}

			made := time.Now()
			wantNext(t, name, changed, site.ID)

			changes++
			if time.Since(made) > time.Second {
				late++
			}
		}

		if late > changes/2 {
			t.Errorf("%d of %d changes were reported after more than a second", late, changes)
		}

		testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), owner.AccountID, site.ID))

		wantNext(t, "RevokeServerSecret", changed, site.ID)

		testkit.NoError(t, sites.New(d).Sites.SetSitePlan(t.Context(), site.ID, model.PlanPro1M, nil))

		wantNext(t, "SetSitePlan", changed, site.ID)

		if err := sites.New(d).Sites.AddSiteDomain(t.Context(), owner.AccountID, site.ID, "example.com"); err == nil {
			t.Fatal("the own domain was added")
		}

		other := world.New(t, d).Site("example.org", world.Of(owner.AccountID))
		wantNext(t, "after a refused change, which is none", changed, other.ID)

		second := world.New(t, d).User("second@example.com")
		lost := world.New(t, d).Site("example.com", world.Of(second.AccountID))
		wantNext(t, "created", changed, lost.ID)

		testkit.NoError(t, accounts.New(d).DeleteAccount(t.Context(), second, model.At(time.Now())))

		wantNext(t, "deleted with its account", changed, lost.ID)

		stop()
		world.New(t, d).Site("example.net", world.Of(owner.AccountID))

		if len(changed) != 0 || len(synced) != 0 {
			t.Errorf("reported after the end: %d changes, %d states", len(changed), len(synced))
		}
	})
}

// TestMissedSQLiteChanges checks that a process that missed changes, because of their number or
// because the database did not answer, reports that and continues with later changes.
func TestMissedSQLiteChanges(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.SQLiteURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")
	changed, synced, _ := watch(t, dbtest.Open(t, databaseURL))
	wantState(t, "begin", synced, true)
	var change func(when string)
	change = func(when string) {
		t.Helper()
		testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))

		select {
		case id := <-changed:
			testkit.Require(t, id, site.ID, "%s: site", when)
		case <-synced:
			// A query timed out on a slow machine, and the watcher may have missed the change.
			change(when)
		case <-time.After(patience):
			t.Fatalf("%s: nothing within %v", when, patience)
		}
	}

	change("a first change")

	// Make more changes than are kept. Those of another channel stand for the ones that the process
	// reads before they are deleted.
	err := errors.Join(
		dbtest.Exec(d, `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000)
			INSERT INTO changes (channel, id) SELECT 'another', n FROM numbers`),
		dbtest.Exec(d, "DELETE FROM changes WHERE seq < (SELECT max(seq) FROM changes)"))
	testkit.NoError(t, err)

	wantState(t, "after too many", synced, true)
	change("a change after too many")

	for range 2 {
		testkit.NoError(t, dbtest.Exec(d, "ALTER TABLE changes RENAME TO hidden"))

		wantState(t, "without an answer", synced, false)

		testkit.NoError(t, dbtest.Exec(d, "ALTER TABLE hidden RENAME TO changes"))

		wantState(t, "with an answer again", synced, true)
		change("a change after that")
	}

}

// TestSQLiteChangesAreBounded checks that the last 4,000 changes of sites and sitekeys are kept,
// also when an account with many sites is deleted.
func TestSQLiteChangesAreBounded(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	site := world.New(t, d).Site("example.com")

	err := dbtest.Exec(d, `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 4500)
		INSERT INTO changes (channel, id) SELECT 'another', n FROM numbers`)
	testkit.NoError(t, err)
	testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))
	dbtest.HasRows(t, d, "changes", 4000, "changes are kept")
}

const listening = "pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%watch'"

// TestWatchReconnects checks that a lost connection is reported and replaced.
func TestWatchReconnects(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")
	changed, synced, _ := watch(t, dbtest.Open(t, databaseURL))
	wantNext(t, "begin", synced, true)

	for range 2 {
		if cut := dbtest.PgStrings(t, databaseURL, "SELECT pg_terminate_backend(pid)::text FROM "+listening); len(cut) != 1 {
			t.Fatalf("%d connections listened, want one", len(cut))
		}

		wantNext(t, "cut", synced, false)
		wantNext(t, "again", synced, true)

		testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))

		wantNext(t, "a change after the cut", changed, site.ID)
	}
}

// TestWatchOverABadNetwork checks watching while the database cannot be reached, and while its
// connections are silent.
func TestWatchOverABadNetwork(t *testing.T) {
	testkit.SkipLong(t, "waits for more than the longest silence")

	t.Parallel()

	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")
	network := newNetwork(t, databaseURL)
	network.set(unreachable)
	changed, synced, _ := watch(t, dbtest.Open(t, network.url))
	wantNext(t, "never reached", synced, false)

	// Further failed attempts are not reported again.
	for range 3 {
		<-network.refused
	}

	if len(synced) != 0 {
		t.Errorf("%v reported again without a database", <-synced)
	}

	network.set(well)
	wantNext(t, "begin", synced, true)
	network.set(silent)
	wantNext(t, "silence", synced, false)
	network.set(well)
	wantNext(t, "again", synced, true)

	testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))

	wantNext(t, "a change after the silence", changed, site.ID)
}

// network is a proxy to the database that can fail.
type network struct {
	url     string
	refused chan struct{} // receives when a connection was refused

	mu    sync.Mutex
	state networkState
	over  map[net.Conn]bool // open connections through the proxy
}

type networkState int

const (
	well        networkState = iota
	unreachable              // connections are refused
	silent                   // open connections stay open, and no data arrives
)

func newNetwork(t *testing.T, databaseURL string) *network {
	t.Helper()

	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)

	n := &network{refused: make(chan struct{}, 1000), over: make(map[net.Conn]bool)}
	server := u.Host
	u.Host = listener.Addr().String()
	n.url = u.String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { n.carry(client, server) })
		}
	})

	t.Cleanup(func() {
		listener.Close()
		n.mu.Lock()
		for conn := range n.over {
			conn.Close()
		}
		n.mu.Unlock()
		wg.Wait()
	})

	return n
}

func (n *network) set(state networkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = state
}

func (n *network) is(state networkState) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == state
}

func (n *network) carry(client net.Conn, server string) {
	if n.is(unreachable) {
		client.Close()
		n.refused <- struct{}{}
		return
	}

	upstream, err := net.Dial("tcp", server)
	if err != nil {
		client.Close()
		return
	}

	n.mu.Lock()
	n.over[client], n.over[upstream] = true, true
	n.mu.Unlock()

	var both sync.WaitGroup
	for _, way := range []struct{ from, to net.Conn }{{client, upstream}, {upstream, client}} {
		both.Go(func() {
			defer way.to.Close()

			buffer := make([]byte, 4096)
			for {
				got, err := way.from.Read(buffer)
				if err != nil {
					return
				}

				if n.is(silent) {
					// Drop the data.
					continue
				}

				if _, err := way.to.Write(buffer[:got]); err != nil {
					return
				}
			}
		})
	}

	both.Wait()
}

// TestAnIdleWatcherStays checks that silence alone does not end a connection.
func TestAnIdleWatcherStays(t *testing.T) {
	testkit.SkipLong(t, "waits for more than the longest silence")

	t.Parallel()

	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")
	changed, synced, _ := watch(t, d)
	wantNext(t, "begin", synced, true)
	before := dbtest.PgStrings(t, databaseURL, "SELECT pid::text FROM "+listening)

	// No event marks a successful check of the connection, which follows 3 s of silence.
	time.Sleep(3500 * time.Millisecond)

	testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))

	wantNext(t, "a change after a silence", changed, site.ID)

	if after := dbtest.PgStrings(t, databaseURL, "SELECT pid::text FROM "+listening); len(synced) != 0 ||
		len(after) != 1 || after[0] != before[0] {
		t.Errorf("connection %v became %v", before, after)
	}
}

// TestWatchersShareAConnection checks that the watchers of a process listen over one connection,
// that one that comes later is in sync at once, and that the connection ends with the last of them.
func TestWatchersShareAConnection(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")
	listens := func(want int) {
		t.Helper()
		testkit.AwaitState(t, fmt.Sprint(want, " connections that listen"), func() (string, bool) {
			got := dbtest.PgStrings(t, databaseURL, "SELECT pid::text FROM "+listening)
			return fmt.Sprint(got), len(got) == want
		})
	}

	first, firstSynced, stopFirst := watch(t, d)
	wantNext(t, "begin", firstSynced, true)
	second, secondSynced, stopSecond := watch(t, d)
	wantNext(t, "the second begins", secondSynced, true)
	listens(1)

	change := func() {
		t.Helper()
		testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))
	}
	change()
	wantNext(t, "a change for the first", first, site.ID)
	wantNext(t, "a change for the second", second, site.ID)

	stopFirst()
	change()
	wantNext(t, "a change for the remaining one", second, site.ID)
	testkit.Equal(t, len(first), 0, "a change was reported to a watcher that has ended")
	listens(1)

	stopSecond()
	listens(0)

	_, again, _ := watch(t, d)
	wantNext(t, "a watcher after all have ended", again, true)
}

// TestLateWatcherLearnsOfTheFault checks that the fault is reported to a watcher that begins while
// the database cannot be reached.
func TestLateWatcherLearnsOfTheFault(t *testing.T) {
	t.Parallel()
	network := newNetwork(t, dbtest.PostgresURL(t))
	network.set(unreachable)
	d := dbtest.Open(t, network.url)

	_, first, _ := watch(t, d)
	wantNext(t, "never reached", first, false)
	_, second, _ := watch(t, d)
	wantNext(t, "the second", second, false)

	network.set(well)
	wantNext(t, "the first, reached", first, true)
	wantNext(t, "the second, reached", second, true)
}
