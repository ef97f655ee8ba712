package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestCommonDatabaseAway checks that a data plane stays ready, and stores the hits of sites that it
// knows, while only the address of their cell leads to a database that accepts changes, and that it
// is not ready when none does.
func TestCommonDatabaseAway(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	t.Run("postgres", func(t *testing.T) {
		databaseURL := dbtest.PostgresURL(t)
		settings := settingsFor(t, databaseURL)
		site := siteInSecondCell(t, settings, databaseURL)

		restricted := dbtest.RestrictedURL(t, databaseURL)
		owner, role := dbtest.Open(t, databaseURL), roleOf(t, restricted)
		testkit.NoError(t, dbtest.Exec(owner, "GRANT USAGE ON SCHEMA cell_2 TO "+role))

		common := newCable(t, restricted)
		settings["TALLYGATE_ROLES"] = "data"
		settings["TALLYGATE_DATABASE_URL"] = common.url
		settings["TALLYGATE_CELL_ADDRESSES"] = "2=" + databaseURL
		settings["TALLYGATE_METRICS_ADDR"] = "127.0.0.1:0"
		p := start(t, settings, []string{"data", "metrics"})

		const notifications = `tallygate_change_notifications_up{cache="sites"} `
		// What was read before notifications arrive is read again afterwards.
		awaitMetrics(t, "http://"+p.addr["metrics"], notifications+"1\n")
		stored := 0
		store := func() {
			t.Helper()
			stored++
			status, err := sendPageview(http.DefaultClient, p.addr["data"], site, fmt.Sprintf("/page-%d", stored))
			if err != nil || status != http.StatusNoContent {
				t.Fatalf("page view %d: status %d, error %v\n%s", stored, status, err, p.logged())
			}
		}
		store()

		reconnect := func() { common.pull(); common.plug(t) }
		for _, away := range []struct {
			begin, end func()
			notifies   string // "1": its notifications still arrive
		}{
			{common.pull, func() { common.plug(t) }, "0"},
			{common.freeze, common.thaw, "0"},
			{
				func() { readOnly(t, owner, "ROLE "+role, "on"); reconnect() },
				func() { readOnly(t, owner, "ROLE "+role, "off"); reconnect() }, "1",
			},
		} {
			const warning = "warning: the common database is not reachable or not writable"
			away.begin()
			awaitWarning(t, p, warning, true)
			awaitMetrics(t, "http://"+p.addr["metrics"], notifications+away.notifies+"\n")
			for range 20 {
				store()
			}

			away.end()
			awaitWarning(t, p, warning, false)
			awaitMetrics(t, "http://"+p.addr["metrics"], notifications+"1\n")
			store()
		}

		var rows int
		if err := owner.Read.NewRaw("SELECT count(*) FROM cell_2.pageviews").Scan(t.Context(), &rows); err != nil || rows != stored {
			t.Errorf("%d page views are stored, error %v; want %d", rows, err, stored)
		}

		// The address of the cell does not help if nothing can be written there.
		database := "DATABASE " + nameOf(t, databaseURL)
		readOnly(t, owner, database, "on")
		defer readOnly(t, owner, database, "off") // for the connections that clean up
		readOnly(t, owner, "ROLE "+role, "on")    // its own setting counts
		reconnect()
		p.awaitReadyz("data", func(status int, body string) bool {
			return status == http.StatusServiceUnavailable && strings.Contains(body, "database not writable")
		})
	})
}

// roleOf returns the role of a database's address.
func roleOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	return u.User.Username()
}

// nameOf returns the name of the database at an address.
func nameOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

// readOnly sets whether new connections of a role or to a database can only read.
func readOnly(t *testing.T, owner *db.DB, of, value string) {
	t.Helper()
	testkit.NoError(t, dbtest.Exec(owner, "ALTER "+of+" SET default_transaction_read_only = ?", value))
}

// siteInSecondCell creates a second cell with a site, and returns the site's key.
func siteInSecondCell(t *testing.T, settings map[string]string, databaseURL string) (siteKey string) {
	t.Helper()
	admin := adminOf(t, settings)
	admin("", "cells", "add")
	d := dbtest.Open(t, databaseURL)
	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = 0"))
	site := world.New(t, d).Site("crash.localhost")
	admin("", "move-site", site.SiteKey, "--to", "2")
	return site.SiteKey
}

// awaitWarning waits until /readyz responds with 200 and has the warning, or does not.
func awaitWarning(t *testing.T, p *process, warning string, want bool) {
	t.Helper()
	p.awaitReadyz("data", func(status int, body string) bool {
		if status != http.StatusOK {
			t.Fatalf("readyz responds %d %q\n%s", status, body, p.logged())
		}
		return strings.Contains(body, warning) == want
	})
}

// cable forwards connections to a database until it is pulled or frozen.
type cable struct {
	url      string // the address of the database through the cable
	addr     string // host:port of this end, and of the other one
	database string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn

	frozen sync.RWMutex // locked while nothing is forwarded
}

func newCable(t *testing.T, databaseURL string) *cable {
	t.Helper()
	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	c := &cable{addr: dbtest.FreeAddress(t), database: u.Host}
	c.plug(t)
	t.Cleanup(c.pull)
	u.Host = c.addr
	c.url = u.String()
	return c
}

// plug accepts connections, after pull at the same address.
func (c *cable) plug(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", c.addr)
	testkit.NoError(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener, c.addr = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.forward(client)
		}
	}()
}

func (c *cable) forward(client net.Conn) {
	server, err := net.Dial("tcp", c.database)
	if err != nil {
		client.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, client, server)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(writer{c, pair[0]}, pair[1])
			pair[0].Close()
		}()
	}
}

// pull closes all connections and accepts none.
func (c *cable) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener.Close()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// freeze forwards nothing until thaw. Connections stay, and further ones are accepted.
func (c *cable) freeze() { c.frozen.Lock() }
func (c *cable) thaw()   { c.frozen.Unlock() }

// writer is an end of a connection through a cable.
type writer struct {
	cable *cable
	conn  net.Conn
}

func (w writer) Write(data []byte) (int, error) {
	w.cable.frozen.RLock()
	defer w.cable.frozen.RUnlock()
	return w.conn.Write(data)
}
