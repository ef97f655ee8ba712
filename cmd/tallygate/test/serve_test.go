package test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestHealth checks that /healthz reports the process, and /readyz the database and its schema, on
// both listeners.
func TestHealth(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		p := start(t, settings, []string{"control", "data"})

		for _, role := range []string{"control", "data"} {
			for _, path := range []string{"/healthz", "/readyz"} {
				if status, body := get(t, "http://"+p.addr[role]+path); status != 200 || body != "ok\n" {
					t.Errorf("%s %s: %d %q", role, path, status, body)
				}
			}
		}

		d := dbtest.Open(t, databaseOf(settings))
		testkit.NoError(t, dbtest.Exec(d, "DELETE FROM schema_migrations"))

		awaitNotReady(t, p, "migrations pending\n")

		testkit.NoError(t, dbtest.Exec(d, "DROP TABLE schema_migrations"))

		awaitNotReady(t, p, "database not reachable\n")

		if status, _ := get(t, "http://"+p.addr["control"]+"/healthz"); status != 200 {
			t.Errorf("healthz without the table: %d", status)
		}
	})
}

// awaitNotReady waits until /readyz responds with 503 and the reason on both listeners. Results are
// cached for a second.
func awaitNotReady(t *testing.T, p *process, reason string) {
	t.Helper()

	for _, role := range []string{"control", "data"} {
		p.awaitReadyz(role, func(status int, body string) bool {
			return status == http.StatusServiceUnavailable && strings.HasPrefix(body, reason)
		})
	}
}

// TestRolesApart runs each role in a process of its own on one PostgreSQL, and checks that one
// plane shows what the other stores.
func TestRolesApart(t *testing.T) {
	t.Parallel()

	t.Run("postgres", func(t *testing.T) {
		settings := settingsFor(t, dbtest.PostgresURL(t))
		settings["TALLYGATE_ROLES"] = "control"
		control := start(t, settings, []string{"control"})
		settings["TALLYGATE_ROLES"] = "data"
		data := start(t, settings, []string{"data"})
		settings["TALLYGATE_ROLES"] = "worker"
		worker := start(t, settings, nil)

		o := newOwner(t, control)
		site := o.signUp("crash.localhost")
		status, err := sendPageview(http.DefaultClient, data.addr["data"], site.SiteKey, "/apart")
		if err != nil || status != http.StatusNoContent {
			t.Errorf("page view: %d, %v", status, err)
		}
		if rows := o.export(site.ID); len(rows) != 1 || rows[0]["path"] != "/apart" {
			t.Errorf("export: %v", rows)
		}

		for _, p := range []*process{control, data, worker} {
			select {
			case <-p.done:
				t.Errorf("a process ended by itself:\n%s", p.logged())
			default:
			}
		}
	})
}

// TestStartSeveralAtOnce checks that processes that start concurrently on an empty database all
// succeed.
func TestStartSeveralAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { start(t, settings, []string{"control", "data"}) })
		}
		wg.Wait()
	})
}

// TestHTTPLimits checks that too long headers and endless requests do not occupy a connection.
func TestHTTPLimits(t *testing.T) {
	t.Parallel()

	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}, []string{"control", "data"})
	for _, role := range []string{"control", "data"} {
		conn, err := net.Dial("tcp", p.addr[role])
		testkit.NoError(t, err)
		defer conn.Close()

		fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 64<<10))
		_ = conn.SetReadDeadline(time.Now().Add(patience))

		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "431") {
			t.Errorf("%s: 64 KB of headers: %q, %v; want 431", role, line, err)
		}
	}
}
