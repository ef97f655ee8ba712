package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// siteOf creates a site and returns its global id.
func (c *client) siteOf(domain string) string {
	c.t.Helper()
	return c.createSite(domain).ok(c.t, "createSite").at("createSite.site.id").(string)
}

// lockSites blocks all writes to the sites of an account until release is called.
func lockSites(t *testing.T, d *db.DB, accountID int) (release func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(context.Background())
	var holder sync.WaitGroup

	if d.Dialect() == "sqlite" {
		held := make(chan struct{})
		holder.Go(func() {
			_ = dbtest.Quiet(d, func() { close(held); <-ctx.Done() })
		})

		<-held
	} else {
		lock := fmt.Sprintf("SELECT id FROM sites WHERE account_id = %d FOR UPDATE", accountID)
		holder.Go(func() { _ = dbtest.Transaction(ctx, d, lock, "SELECT pg_sleep(600)") })
		testkit.Await(t, "the lock", func() bool {
			sleepers, err := dbtest.Rows[int](d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(600)'")
			return err == nil && sleepers[0] == 1
		})
	}

	release = sync.OnceFunc(func() { cancel(); holder.Wait() })
	t.Cleanup(release)
	return release
}

// TestChangesTakeTurns: of many concurrent mutations of an account, two reach the database and 50
// wait; the others are refused. Mutations of other accounts do not wait.
func TestChangesTakeTurns(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		site := owner.siteOf("example.com")
		release := lockSites(t, d, 1)

		const sent = 70
		answers := make(chan *answer, sent)

		for i := range sent {
			go func() { answers <- owner.do("updateSite", "siteId", site, "name", fmt.Sprint(i)) }()
		}

		for range sent - 2 {
			got := <-answers
			got.named("one too many").code(t, "RATE_LIMITED").retries(t, 1.0)
		}

		other.createSite("other.example").ok(t, "createSite")
		release()

		for range 2 {
			(<-answers).ok(t, "updateSite")
		}
	})
}

// TestQueriesTakeTurns: of many concurrent queries of an account, twelve run, and the others wait
// for a bounded time. Queries of other accounts do not wait.
func TestQueriesTakeTurns(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		site := owner.siteOf("example.com")

		release := lockTable(t, d, "annotations")

		const atOnce, sent = 12, 15
		const query = `query($id: ID!) { site(id: $id) { annotations(first: 1) { edges { node { text } } } } }`
		answers := make(chan *answer, sent)
		for range sent {
			go func() { answers <- owner.query(query, "id", site) }()
		}

		for range sent - atOnce {
			got := <-answers
			got.named("one too many").code(t, "RATE_LIMITED").retries(t, 1.0)
		}
		other.query("{ viewer { id } }").ok(t, "")

		// Their own deadline ends the others, unless the lock does before.
		release()
		for range atOnce {
			if got := <-answers; got.codes() == "RATE_LIMITED" {
				t.Errorf("one that ran: %s", got.Body)
			}
		}
		owner.query(query, "id", site).ok(t, "")
	})
}

// lockTable locks a table of PostgreSQL until release is called, or the test ends.
func lockTable(t *testing.T, d *db.DB, table string) (release func()) {
	t.Helper()
	ctx, release := context.WithCancel(context.Background())
	var holder sync.WaitGroup
	holder.Go(func() {
		_ = dbtest.Transaction(ctx, d, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE", "SELECT pg_sleep(600)")
	})
	t.Cleanup(holder.Wait)
	t.Cleanup(release)

	testkit.Await(t, "the lock", func() bool {
		sleepers, err := dbtest.Rows[int](d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(600)'")
		return err == nil && sleepers[0] == 1
	})
	return release
}

// TestMessagesTakeTurns: of many concurrent messages of an account to the tools, twelve run, and
// the others wait for a bounded time. Other accounts, and the shared links of the account, do not
// wait.
func TestMessagesTakeTurns(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		site := owner.siteOf("example.com")
		link := owner.query(createLinkMutation, "site", site).ok(t, "createSharedLink").at("createSharedLink.token").(string)
		token, otherToken := owner.createToken("READ").secret, other.createToken("READ").secret
		release := lockTable(t, d, "funnels")

		// Each query of a tool has a turn, too, so that a tool never waits for one that another
		// message holds.
		const atOnce, sent = 12, 15
		const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"site","arguments":{"site":"example.com"}}}`
		answers := make(chan httpAnswer, sent)
		for range sent {
			go func() { answers <- a.post(t, call, "Authorization", "Bearer "+token) }()
		}

		for range sent - atOnce {
			got := <-answers
			if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "Too many messages") {
				t.Errorf("one too many: %+v", got)
			}
		}
		for name, token := range map[string]string{"another account": otherToken, "a shared link": link} {
			if got := a.post(t, ping, "Authorization", "Bearer "+token); got.status != http.StatusOK {
				t.Errorf("%s: %+v", name, got)
			}
		}

		// Their own deadline ends the others, unless the lock does before.
		release()
		for range atOnce {
			if got := <-answers; got.status != http.StatusOK {
				t.Errorf("one that ran: %+v", got)
			}
		}
	})
}

// TestAFewChangesAtOnceSucceed: a client that sends several mutations in parallel is not refused
// for that.
func TestAFewChangesAtOnceSucceed(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.siteOf("example.com")

		var changes sync.WaitGroup
		for i := range 12 {
			changes.Go(func() {
				// A change that waits in vain for a turn, on a busy machine, is refused after 3
				// seconds. It is repeated.
				began := time.Now()
				got := owner.do("updateSite", "siteId", site, "name", fmt.Sprint(i))
				for got.codes() == "RATE_LIMITED" && time.Since(began) >= 3*time.Second {
					began = time.Now()
					got = owner.do("updateSite", "siteId", site, "name", fmt.Sprint(i))
				}
				got.named("change %d, refused after %v", i, time.Since(began)).code(t, "").fails(t, "updateSite", "")
			})
		}

		changes.Wait()
	})
}

// TestNoChangeAfterARefusedOne: of a request with several mutations, those before the first refused
// one are run, and no later one.
func TestNoChangeAfterARefusedOne(t *testing.T) {
	dbtest.ParallelPostgres(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		site := owner.siteOf("example.com")
		release := lockSites(t, d, 1)

		blocked := make(chan *answer, 2)
		for range cap(blocked) {
			go func() { blocked <- owner.do("updateSite", "siteId", site, "name", "blocked") }()
		}

		testkit.Await(t, "two changes that wait for the lock", func() bool {
			waiting, err := dbtest.Rows[int](d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
			return err == nil && waiting[0] == 2
		})

		got := owner.query(`mutation {
			a: createSite(input: {domain: "a.example"}) { userErrors { code } }
			b: createSite(input: {domain: "b.example"}) { userErrors { code } } }`)
		got.named("two changes without a turn").code(t, "RATE_LIMITED RATE_LIMITED")

		release()

		for range cap(blocked) {
			(<-blocked).ok(t, "updateSite")
		}

		equal(t, value(dbtest.Count(d, "sites"))(t), 1, "rows of sites")
	})
}

// TestChangesHaveACost: a mutation costs as much as it writes, so the rate limit bounds what an
// owner can write.
func TestChangesHaveACost(t *testing.T) {
	var networks []string
	for i := range 100 {
		networks = append(networks, fmt.Sprintf("10.%d.0.0/16", i))
	}

	list := value(json.Marshal(networks))(t)

	eachAppWith(t, func(s *settings) { s.graph.CostPerMinute = 5_000 }, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		site := owner.siteOf("example.com")
		a.clock.Add(time.Minute)

		var changes strings.Builder
		for i := range 5 {
			fmt.Fprintf(&changes, ` a%d: updateSite(input: {siteId: %q, excludedAddresses: %s}) { userErrors { code } }`, i, site, list)
		}

		made := 0

		for got := ""; got == ""; {
			answer := owner.query("mutation {" + changes.String() + " }")
			if got = answer.codes(); got == "" {
				made++
			}
		}

		// Each request has 5 mutations of cost 100 + 100 + 2; without the networks, 9 would be
		// served.
		equal(t, made, 4, "requests were served")

		a.clock.Add(time.Minute)

		// An ordinary script stays within the limit, which is a twelfth of the product's.
		for i := range 25 {
			owner.done("updateSite", "siteId", site, "name", fmt.Sprint(i))
		}
	})
}

// TestPersistentCallersAreRefusedUnread: a caller that ignores retryAfter is refused without a
// statement until that time has passed. Other callers of the account are not.
func TestPersistentCallersAreRefusedUnread(t *testing.T) {
	t.Parallel()
	const query = `{ viewer { id email } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 300 })
		owner := a.owner("owner@example.com")
		token, other := owner.createToken("READ"), owner.createToken("READ")
		a.clock.Add(time.Minute)

		for range 100 {
			a.with(token.secret, query).ok(t, "")
		}

		for range 20 {
			a.with(token.secret, query).named("over the rate limit").code(t, "RATE_LIMITED").status(t, http.StatusOK)
		}

		statements.Take()
		got := a.with(token.secret, query)
		if sent := statements.Take(); len(sent) > 0 || got.Status != http.StatusTooManyRequests || got.codes() != "RATE_LIMITED" ||
			got.Errors[0].Extensions["retryAfter"] != 60.0 {
			t.Errorf("refused too often: status %d, %s, statements %q", got.Status, got.Body, sent)
		}
		a.with(other.secret, query).named("another token").status(t, http.StatusOK)

		a.clock.Add(time.Minute)
		a.with(token.secret, query).ok(t, "")
	})
}

// TestRequestsEnd: a request beyond its deadline is stopped, reports that, and has changed nothing.
func TestRequestsEnd(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.siteOf("example.com")

		// Another server of the same installation has the deadline, so that it ends no other
		// request.
		hasty := newApp(t, a.db, func(s *settings) { s.graph.RequestTimeout = 2 * time.Second })
		late := hasty.client()
		late.http.Jar = owner.http.Jar
		release := lockSites(t, a.db, 1)
		began := time.Now()

		got := late.do("updateSite", "siteId", site, "name", "late")
		if took := time.Since(began); got.Status != http.StatusOK || got.codes() != "TIMEOUT" || took > time.Minute {
			t.Errorf("status %d, %s after %v; want the code timeout", got.Status, got.Body, took)
		}
		if records := hasty.records(); len(records) != 1 || records[0].Stack != "" {
			t.Errorf("logged %s, want one line without a stack", hasty.log)
		}

		release()

		owner.site(site, `name`).ok(t, "").named("the site's name").has(t, "site.name", "example.com")

		owner.done("updateSite", "siteId", site, "name", "in time")
	})
}

// TestDisconnectedClients: a disconnected client is not an error and is not logged.
func TestDisconnectedClients(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		arrived, ended := make(chan struct{}), make(chan struct{}, 100)
		a := newApp(t, d, func(s *settings) {
			s.graph.ClientAddr = func(r *http.Request) netip.Addr {
				// From here on the server notices that the client disconnects.
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}

				r.Body = io.NopCloser(strings.NewReader(string(body)))
				arrived <- struct{}{}
				<-r.Context().Done()

				return netip.Addr{}
			}

			s.wrap = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() { ended <- struct{}{} }()
					next.ServeHTTP(w, r)
				})
			}
		})
		for range 20 {
			ctx, leave := context.WithCancel(t.Context())
			request := value(http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(`{"query":"{ viewer { id } }"}`)))(t)

			request.Header.Set("Content-Type", "application/json")
			go func() {
				if response, err := http.DefaultClient.Do(request); err == nil {
					response.Body.Close()
				}
			}()

			<-arrived
			leave()
			<-ended
		}

		equal(t, a.log.String(), "", "logged")
	})
}

// TestStacksAreRare: every panic is logged, with at most one stack per second.
func TestStacksAreRare(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	a := newApp(t, d, func(s *settings) {
		s.auth.ClientAddr = func(*http.Request) netip.Addr { panic("a programmer's mistake") }
		s.graph.ClientAddr = nil
	})

	c := a.client()
	for range 3 {
		c.signIn("owner@example.com", password)
	}

	a.clock.Add(time.Second)
	c.signIn("owner@example.com", password)

	var stacks []bool
	for _, r := range a.records() {
		stacks = append(stacks, r.Stack != "")
	}

	equal(t, fmt.Sprint(stacks), "[true false false true]", "lines with a stack: %v", stacks)
}

// TestDatabaseUnavailable: while the database does not respond, requests return unavailable with
// retryAfter, and the log does not fill.
func TestDatabaseUnavailable(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "a database that is away")
	unavailable := func(t *testing.T, got *answer) {
		t.Helper()
		got.named("status").status(t, http.StatusOK).code(t, "UNAVAILABLE").retries(t, 5.0)
	}

	// Another process holds the lock for longer than the driver waits.
	t.Run("sqlite", func(t *testing.T) {
		url := dbtest.SQLiteURL(t)
		a := newApp(t, dbtest.Open(t, url))
		owner := a.owner("owner@example.com")
		site := owner.siteOf("example.com")
		other := ingest.NewHitStore(dbtest.SitesCell(t, dbtest.Open(t, url)))
		held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- other.Update(context.Background(), ingest.HitKeys{}, func(*ingest.HitState) *ingest.HitChanges {
				close(held)
				<-release
				return &ingest.HitChanges{}
			})
		}()

		<-held
		unavailable(t, owner.do("updateSite", "siteId", site, "name", "late"))
		close(release)

		must(t, <-ended)

		owner.done("updateSite", "siteId", site, "name", "in time")
	})

	t.Run("postgres", func(t *testing.T) {
		postgres := dbtest.StartPostgres(t)
		d := dbtest.Open(t, postgres.URL())
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		site := owner.siteOf("example.com")

		release := lockSites(t, d, 1)
		lost := make(chan *answer)
		go func() { lost <- owner.do("updateSite", "siteId", site, "name", "lost") }()
		testkit.Await(t, "a change that waits", func() bool {
			ended, err := dbtest.Rows[bool](d,
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
			return err == nil && len(ended) == 1
		})

		unavailable(t, <-lost)
		release()

		start := postgres.Crash()
		a.log.Reset()

		for range 5 {
			unavailable(t, owner.query(`{ viewer { email } }`))
			unavailable(t, owner.do("updateSite", "siteId", site, "name", "away"))
		}

		if records := a.records(); len(records) > 1 {
			t.Errorf("logged %s, want at most one line a second", a.log)
		}

		start()
		a.clock.Add(time.Second)
		owner.done("updateSite", "siteId", site, "name", "back")
	})
}

// TestSchemaHasACost: GraphiQL and code generators can read the schema as often as they need, but
// no client can read it without limit.
func TestSchemaHasACost(t *testing.T) {
	t.Parallel()
	introspection := value(os.ReadFile(filepath.Join("testdata", "introspection.graphql")))(t)

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	a := newApp(t, d)
	visitor := a.client()
	first := visitor.query(string(introspection)).ok(t, "")
	visitor.query(string(introspection)).ok(t, "").named("the response changed").is(t, first.Body)

	// A small part of the schema counts as much as all of it, and takes less time.
	const part = `{ __type(name: "Site") { name } }`
	for range 58 {
		visitor.query(part).ok(t, "")
	}

	for _, query := range []string{string(introspection), `{ __type(name: "Site") { name } }`,
		`{ ...f } fragment f on Query { __schema { types { name } } }`,
		`{ viewer { id } __schema { types { name } } }`} {
		visitor.query(query).named("the 61st time").status(t, http.StatusTooManyRequests).code(t, "RATE_LIMITED").retries(t, 60.0)
	}

	visitor.query(`{ __typename viewer { id } }`).ok(t, "")
	elsewhere := a.client()
	elsewhere.address = "198.51.100.1"
	elsewhere.query(string(introspection)).ok(t, "")

	// The signed-in caller has the same network.
	owner := a.owner("owner@example.com")
	owner.query(`{ rateLimit { cost } __type(name: "Site") { name } }`).ok(t, "").
		named("the cost").has(t, "rateLimit.cost", 1_004.0).has(t, "__type.name", "Site")

	served := 1
	for owner.query(part).Status == http.StatusOK {
		served++
	}

	if served < 50 || served > 60 {
		t.Errorf("an account read the schema %d times in a minute, want nearly 60", served)
	}

	a.clock.Add(time.Minute)
	visitor.query(string(introspection)).ok(t, "")
	owner.query(string(introspection)).ok(t, "")
}
