package test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// startPooler starts PgBouncer in transaction mode before the server of an address, and returns the
// address through it. Its few connections to the server change hands after each transaction.
func startPooler(t *testing.T, databaseURL string) string {
	t.Helper()
	program := requireTool(t, "pgbouncer")

	server, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	addr := dbtest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	password, _ := server.User.Password()
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
`, server.Hostname(), server.Port(), server.User.Username(), password, port)

	file := writeFile(t, t.TempDir(), "pgbouncer.ini", text)
	args := []string{file}
	if os.Getuid() == 0 {
		args = []string{"-u", "daemon", file} // as root it does not start
	}
	runProxy(t, addr, exec.Command(program, args...))

	server.Host = addr
	return server.String()
}

// TestProxyPooler runs the roles apart behind a pooler in transaction mode, with an address that
// goes round it: hits are stored, and a change made through one process reaches another.
func TestProxyPooler(t *testing.T) {
	t.Parallel()

	direct := dbtest.PostgresURL(t)
	settings := settingsFor(t, startPooler(t, direct))
	settings["TALLYGATE_DATABASE_DIRECT_URL"] = direct
	settings["TALLYGATE_ROLES"] = "control,worker"
	control := start(t, settings, []string{"control"})
	settings["TALLYGATE_ROLES"] = "data"
	data := start(t, settings, []string{"data"})

	o := newOwner(t, control)
	site := o.signUp("crash.localhost")
	send := func() int {
		t.Helper()
		status, err := sendPageview(http.DefaultClient, data.addr["data"], site.SiteKey, "/pooled")
		testkit.NoError(t, err)
		return status
	}
	for range 20 {
		testkit.Require(t, send(), http.StatusNoContent, "a page view: status")
	}
	if rows := o.export(site.ID); len(rows) != 20 {
		t.Errorf("%d rows, want 20", len(rows))
	}

	today := time.Now().UTC().Format(time.DateOnly)
	report := o.data(`{ site(id: "` + site.ID + `") { report(period: {from: "` + today + `", to: "` + today + `"}) { totals { pageviews } } } }`)
	if !strings.Contains(report, `{"pageviews":20}`) {
		t.Errorf("the report is %s, want 20 page views", report)
	}

	// The data process learns of a change.
	o.do(`mutation { pauseSite(input: {siteId: "`+site.ID+`"}) { userErrors { message } } }`, &struct{}{})
	testkit.Await(t, "the pause at the data process", func() bool { return send() != http.StatusNoContent })

	for _, p := range []*process{control, data} {
		for line := range strings.Lines(p.logged()) {
			if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "notifications do not arrive") {
				t.Errorf("logged through the pooler: %s", line)
			}
		}
	}
}

// TestProxyPoolerWithoutDirectAddress checks that a process notices that notifications are lost in
// a pooler, and says so.
func TestProxyPoolerWithoutDirectAddress(t *testing.T) {
	t.Parallel()

	direct := dbtest.PostgresURL(t)
	settings := settingsFor(t, direct)
	settings["TALLYGATE_ROLES"] = "control"
	start(t, settings, []string{"control"}).signal(syscall.SIGTERM) // migrates

	settings["TALLYGATE_DATABASE_URL"] = startPooler(t, direct)
	settings["TALLYGATE_ROLES"] = "data"
	data := start(t, settings, []string{"data"})
	awaitLog(t, data, "the database's notifications do not arrive")
}

// TestProxyPoolerCopy checks that "admin copy" refuses a target behind a pooler in transaction
// mode, leaves it empty, and copies to the server itself.
func TestProxyPoolerCopy(t *testing.T) {
	t.Parallel()

	direct := dbtest.EmptyPostgresURL(t)
	pooler := startPooler(t, direct)
	settings := settingsFor(t, "sqlite:")
	if status, out, log := tallygate(t, settings, "migrate"); status != 0 {
		t.Fatalf("migrate: exit status %d\n%s%s", status, out, log)
	}

	status, out, log := tallygate(t, settings, "admin", "copy", "--to", pooler)
	if status != 1 || !strings.Contains(log, "leads through a connection pooler in transaction mode, and nothing was written") {
		t.Errorf("copy through the pooler: exit status %d\n%s%s", status, out, log)
	}
	tables := dbtest.PgStrings(t, direct, "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace")
	if len(tables) > 0 {
		t.Errorf("the refused target has %v", tables)
	}

	if status, out, log := tallygate(t, settings, "admin", "copy", "--to", direct); status != 0 {
		t.Errorf("copy to the server: exit status %d\n%s%s", status, out, log)
	}
}
