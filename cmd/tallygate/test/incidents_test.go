package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The tests of this file follow docs/operator/incidents.md.

// visitor sends page views and counts the acknowledged ones.
type visitor struct {
	*testing.T
	key         string
	sent, acked int
}

// send sends a page view to a node and returns the status.
func (v *visitor) send(node *process) int {
	v.Helper()
	v.sent++
	status, err := sendPageview(http.DefaultClient, node.addr["data"], v.key, fmt.Sprint("/", v.sent))
	testkit.NoError(v, err)
	if status == http.StatusNoContent {
		v.acked++
	}
	return status
}

// await sends page views until one is answered with a status.
func (v *visitor) await(node *process, status int) {
	v.Helper()
	testkit.AwaitState(v, fmt.Sprint("a hit that is answered with ", status), func() (string, bool) {
		got := v.send(node)
		return fmt.Sprint(got, "\n", node.logged()), got == status
	})
}

// wantAll checks that each acknowledged page view is stored once, and at most the unacknowledged
// ones in addition.
func (v *visitor) wantAll(owner *testOwner, siteID string) {
	v.Helper()
	rows := owner.export(siteID)
	paths := make(map[any]bool)
	for _, row := range rows {
		paths[row["path"]] = true
	}
	if len(rows) < v.acked || len(rows) > v.sent || len(paths) != len(rows) {
		v.Errorf("%d rows of %d paths are stored; %d of %d were acknowledged", len(rows), len(paths), v.acked, v.sent)
	}
}

// wantFinding checks that the doctor reports a finding.
func (i *installation) wantFinding(want string) {
	i.Helper()
	if findings, _ := i.examine(); !slices.Contains(findings, want) {
		i.Errorf("findings %q, want %q", findings, want)
	}
}

// TestIncidentFullDisk: on a full disk hits are refused, and stored again once there is space.
func TestIncidentFullDisk(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	i := embedded(t)
	i.mount("24m")
	disk := filepath.Dir(i.settings["TALLYGATE_DATA_DIR"])
	p := start(t, i.settings, []string{"control", "data"})
	t.Cleanup(p.kill) // before the disk is unmounted
	owner := newOwner(t, p)
	site := owner.signUp("crash.localhost")
	v := &visitor{T: t, key: site.SiteKey}
	v.await(p, http.StatusNoContent)

	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	awaitReady(t, p, http.StatusServiceUnavailable)
	v.await(p, http.StatusServiceUnavailable)
	i.wantFinding("error disk-full")

	testkit.NoError(t, os.Remove(filler))
	v.await(p, http.StatusNoContent)
	awaitReady(t, p, http.StatusOK)
	v.wantAll(owner, site.ID)
}

// TestIncidentRedisLost: without Redis hits are stored, and the service reports it until Redis is
// back, which may be empty.
func TestIncidentRedisLost(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	i := embedded(t)
	redis := redistest.New(t)
	set("REDIS_URL", redis.URL(), "CONTROL_ADDR", dbtest.FreeAddress(t), "DATA_ADDR", dbtest.FreeAddress(t))(i)
	p := start(t, i.settings, []string{"control", "data"})
	owner := newOwner(t, p)
	site := owner.signUp("crash.localhost")
	v := &visitor{T: t, key: site.SiteKey}
	v.await(p, http.StatusNoContent)

	const warning = "warning: the job queue (Redis) is unavailable"
	redis.Kill()
	awaitReadyText(t, p, warning, true)
	testkit.Equal(t, v.send(p), http.StatusNoContent, "a hit without Redis")
	i.wantFinding("error redis-unreachable")

	redis.Start()
	awaitReadyText(t, p, warning, false)
	if findings, status := i.examine(); len(findings) > 0 || status != 0 {
		t.Errorf("findings %q after Redis is back", findings)
	}
	v.wantAll(owner, site.ID)
}

// awaitReadyText waits until the body of /readyz of the control plane's process, which is the
// worker too, contains a text or not.
func awaitReadyText(t *testing.T, p *process, text string, want bool) {
	t.Helper()
	p.awaitReadyz("control", func(status int, body string) bool {
		return status == http.StatusOK && strings.Contains(body, text) == want
	})
}

// TestIncidentDatabaseLost: while the database is away hits are refused. Processes connect again by
// themselves, here through an address with two hosts, of which one never answers.
func TestIncidentDatabaseLost(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	server := startPostgres(t, true)
	i := onPostgres(t, server)
	url := i.settings["TALLYGATE_DATABASE_URL"]
	set("DATABASE_URL", strings.Replace(url, "@127.0.0.1:", "@127.0.0.9,127.0.0.1:", 1)+"&target_session_attrs=read-write")(i)
	p := start(t, i.settings, []string{"control", "data"})
	owner := newOwner(t, p)
	site := owner.signUp("crash.localhost")
	v := &visitor{T: t, key: site.SiteKey}
	v.await(p, http.StatusNoContent)

	server.Crash()
	v.await(p, http.StatusServiceUnavailable)
	awaitReady(t, p, http.StatusServiceUnavailable)
	i.wantFinding("error database-unreachable")

	testkit.NoError(t, server.Restart())
	v.await(p, http.StatusNoContent)
	awaitReady(t, p, http.StatusOK)
	v.wantAll(owner, site.ID)
}

// TestIncidentNodeLost: a node is killed, the other one continues, and a new node takes its place.
func TestIncidentNodeLost(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	i := onPostgres(t, startPostgres(t, true))
	roles := []string{"control", "data"}
	first, second := start(t, i.settings, roles), start(t, i.settings, roles)
	owner := newOwner(t, second)
	site := owner.signUp("crash.localhost")
	v := &visitor{T: t, key: site.SiteKey}
	v.await(first, http.StatusNoContent)

	first.kill()
	for range 3 {
		testkit.Equal(t, v.send(second), http.StatusNoContent, "a hit at the other node")
	}

	// A new machine has no data folder.
	set("DATA_DIR", filepath.Join(t.TempDir(), "new"))(i)
	third := start(t, i.settings, roles)
	v.await(third, http.StatusNoContent)
	second.signal(syscall.SIGTERM)

	again := newOwner(t, third)
	again.HTTP = owner.HTTP // the session is valid at every node
	v.wantAll(again, site.ID)
}

// TestIncidentLeaks: a leaked server secret is refused after its rotation, and a new password ends
// the sessions.
func TestIncidentLeaks(t *testing.T) {
	t.Parallel()

	i := embedded(t)
	p := start(t, i.settings, []string{"control", "data"})
	owner := newOwner(t, p)
	site := owner.signUp("crash.localhost")

	rotate := func() string { return owner.rotateServerSecret(site.ID, ", keepOldFor: 0") }
	call := func(secret string) int {
		status, _ := callServer(t, p.addr["data"], secret, "signup", "198.51.100.7")
		return status
	}

	leaked := rotate()
	if status := call(leaked); status == http.StatusUnauthorized {
		t.Fatalf("the first secret is refused: %d", status)
	}
	current := rotate()
	testkit.Await(t, "the end of the leaked secret", func() bool { return call(leaked) == http.StatusUnauthorized })
	if status := call(current); status == http.StatusUnauthorized {
		t.Errorf("the new secret is refused: %d", status)
	}

	_, out, log := tallygate(t, i.settings, "admin", "reset-password", "owner@crash.localhost")
	link := regexp.MustCompile(`tgr_\w+`).FindString(out)
	if got := choose(t, p, link); !strings.Contains(got, `"userErrors":[]`) {
		t.Fatalf("%s\n%s", got, log)
	}
	testkit.Equal(t, owner.data(`{ viewer { email } }`), `{"viewer":null}`, "the session outlives the password")
}
