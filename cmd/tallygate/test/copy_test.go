package test

import (
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// figureQueries are what owners read, besides the rows.
var figureQueries = []string{
	`report(period: {from: "FROM", to: "TO"}) {
		totals { visitors visits pageviews bounceRate engagementTime scrollDepth events revenue { currency gross refunded purchases } }
		series { start metrics { visitors pageviews events } }
		pages: breakdown(by: PAGE, first: 500) { nodes { value metrics { visitors pageviews exitRate timeOnPage } } }
		channels: breakdown(by: CHANNEL, first: 100) { nodes { value metrics { visitors visits } } }
		events: breakdown(by: EVENT, first: 100) { nodes { value metrics { visitors events } } }
	}`,
	`domain name siteKey usage { pageviews } deliveries(first: 20) { nodes { id event state } }`,
}

// figures returns what the owner of a site can read of it, as the service sends it.
func (r *rotation) figures(p *process) map[string]string {
	r.t.Helper()
	r.owner.Origin = "http://" + p.addr["control"]

	today := time.Now().UTC()
	period := strings.NewReplacer("FROM", today.AddDate(0, 0, -91).Format(time.DateOnly), "TO", today.Format(time.DateOnly))
	all := make(map[string]string)
	for _, fields := range figureQueries {
		all[fields[:20]] = r.owner.data(`{ site(id: "` + r.site.ID + `") { ` + period.Replace(fields) + ` } }`)
	}
	all["audit log"] = r.owner.data(`{ account { auditLog(first: 100) { nodes { at action actor { kind email } changes { __typename } } } } }`)

	for _, kind := range []string{"pageviews", "events"} {
		query := url.Values{"site_id": {r.site.ID}, "type": {kind}, "from": {"2000-01-01"}, "to": {"2100-01-01"},
			"limit": {"50000"}, "format": {"csv"}}
		all[kind] = string(r.owner.download(query.Encode()))
	}
	return all
}

// wantFigures compares all figures byte by byte.
func (r *rotation) wantFigures(p *process, want map[string]string) {
	r.t.Helper()
	got := r.figures(p)
	for name, text := range want {
		if got[name] != text {
			r.t.Errorf("%s: after the copy %d bytes that differ from the %d before:\n%.2000s\nwant\n%.2000s", name, len(got[name]),
				len(text), got[name], text)
		}
	}
}

// fillHistory stores 90 days of hits with their reports.
func (r *rotation) fillHistory() {
	r.t.Helper()
	d, err := db.Open(r.database)
	testkit.NoError(r.t, err)
	defer d.Close()
	d.UseApplicationKey([]byte(firstKey))

	rows, err := dbtest.Rows[history.Shop](d, "SELECT s.account_id, s.id AS site_id, k.id AS sitekey_id FROM sites AS s, sitekeys AS k")
	if err != nil || len(rows) != 1 {
		r.t.Fatal(rows, err)
	}
	testkit.NoError(r.t, dbtest.Exec(d, "DELETE FROM report_days"))
	testkit.NoError(r.t, history.Fill(r.t.Context(), d, rows[0], time.Now().UTC().Truncate(24*time.Hour)))
}

// move copies the installation, and returns the settings of a service on the copy.
func (r *rotation) move(target string, settings map[string]string) map[string]string {
	r.t.Helper()
	status, out, log := tallygate(r.t, settings, "admin", "copy", "--to", target)
	if status != 0 || !strings.Contains(out, "and compared each.\n") || !strings.Contains(out, "Checked ") {
		r.t.Fatalf("copy: exit status %d\n%s%s", status, out, log)
	}
	r.t.Log(out)

	moved := r.with(map[string]string{"TALLYGATE_DATA_DIR": r.t.TempDir(), "TALLYGATE_DATABASE_URL": target})
	if path, isFile := db.SQLiteFile(target); isFile {
		moved["TALLYGATE_DATA_DIR"] = filepath.Dir(path)
		delete(moved, "TALLYGATE_DATABASE_URL")
	}
	return moved
}

// TestCopyInstallation moves an installation from SQLite to PostgreSQL and back. Its owner reads
// the same rows and reports, byte by byte, and stays signed in; its visitor of today stays one
// visitor; its tokens, webhook secrets and keys stay valid.
func TestCopyInstallation(t *testing.T) {
	testkit.SkipLong(t, "90 days of hits, copied twice")
	t.Parallel()

	r, p := newRotation(t, "sqlite:", firstKey)
	p.signal(syscall.SIGTERM)
	r.fillHistory()

	p = r.start(nil)
	r.view(p, "/before")
	r.purchase(p)
	token := r.token(p, p)
	want := r.figures(p)
	if n := strings.Count(want["pageviews"], "\n"); n < 1000 {
		t.Fatalf("%d page views: this test shows nothing", n)
	}

	postgres := dbtest.EmptyPostgresURL(t)
	if status, _, log := tallygate(t, r.settings, "admin", "copy", "--to", postgres); status != 1 ||
		!strings.Contains(log, "is running on this data folder; stop it first") {
		t.Errorf("copy while the service runs: exit status %d, %s", status, log)
	}
	p.signal(syscall.SIGTERM)

	// There.
	settings := r.move(postgres, r.settings)
	wrong := maps.Clone(settings)
	wrong["TALLYGATE_SECRET"] = wrongKey
	if status, _, log := tallygate(t, wrong); status != 4 || !strings.Contains(log, "another application key") {
		t.Errorf("a start with another key: exit status %d, %s", status, log)
	}

	p = start(t, settings, []string{"control", "data"})
	r.wantFigures(p, want)
	if !r.redeem(p, token) || r.redeem(p, token) {
		t.Error("a token of before counts not once")
	}
	r.view(p, "/on-postgres")
	r.purchase(p)
	p.signal(syscall.SIGTERM)

	// The process kept the report of today for some seconds.
	p = start(t, settings, []string{"control", "data"})
	want = r.figures(p)
	r.wantOneVisitor()

	if status, _, log := tallygate(t, settings, "admin", "copy", "--to", filepath.Join(t.TempDir(), "x.sqlite")); status != 1 ||
		!strings.Contains(log, "stop all of them first") {
		t.Errorf("copy while the service runs: exit status %d, %s", status, log)
	}
	p.signal(syscall.SIGTERM)

	// And back.
	settings = r.move("sqlite:"+filepath.Join(t.TempDir(), "tallygate.sqlite"), settings)
	p = start(t, settings, []string{"control", "data"})
	r.wantFigures(p, want)
	if r.redeem(p, token) {
		t.Error("a used token is valid again")
	}
	r.view(p, "/back")
	r.purchase(p)
	r.wantOneVisitor()
}

// TestCopiedSourceIsRefused checks that nothing starts on a database that was copied, except for
// "serve --again", after which every command does.
func TestCopiedSourceIsRefused(t *testing.T) {
	t.Parallel()

	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		i := &installation{T: t, settings: settingsFor(t, databaseURL)}
		i.settings["TALLYGATE_SECRET"], i.settings["TALLYGATE_DEMO_ADDR"] = firstKey, "127.0.0.1:0"
		i.wantCommand(0, "", "admin", "create-account", "a@example.com", "--name", "A")
		start(t, i.settings, []string{"control", "data"}).signal(syscall.SIGTERM)

		target := filepath.Join(t.TempDir(), "tallygate.sqlite")
		i.wantCommand(0, "A start on the old database is refused from now on.", "admin", "copy", "--to", target)
		for _, line := range []string{"serve", "serve --no-migrate", "migrate", "migrate --check", "demo", "admin accounts"} {
			i.wantCommand(4, "this database was copied into a SQLite file on ", strings.Fields(line)...)
		}
		i.wantFinding("error database-copied")

		moved := settingsFor(t, "sqlite:")
		moved["TALLYGATE_SECRET"], moved["TALLYGATE_DATA_DIR"] = firstKey, filepath.Dir(target)
		start(t, moved, []string{"control", "data"}).signal(syscall.SIGTERM)

		start(t, i.settings, []string{"control", "data"}, "serve", "--again").signal(syscall.SIGTERM)
		start(t, i.settings, []string{"control", "data"}).signal(syscall.SIGTERM)
		i.wantCommand(0, "a@example.com", "admin", "accounts")
	})
}

// wantOneVisitor checks that all page views of today are of one visitor.
func (r *rotation) wantOneVisitor() {
	r.t.Helper()
	distinct := make(map[any]bool)
	views := 0
	for _, row := range r.owner.export(r.site.ID) {
		if strings.HasPrefix(row["time"].(string), time.Now().UTC().Format(time.DateOnly)) {
			distinct[row["visitor_id"]] = true
			views++
		}
	}
	if len(distinct) != 1 || views < 2 {
		r.t.Errorf("%d page views of today are of %d visitors, want 1", views, len(distinct))
	}
}

// TestCopyInterrupted kills the command while it copies. The service does not start on the target,
// and the copy begins again after the target is emptied.
func TestCopyInterrupted(t *testing.T) {
	testkit.SkipLong(t, "90 days of hits, copied twice")
	t.Parallel()

	r, p := newRotation(t, "sqlite:", firstKey)
	p.signal(syscall.SIGTERM)
	r.fillHistory()
	killed := r.killedCopy()

	status, _, log := tallygate(t, r.with(map[string]string{"TALLYGATE_DATABASE_URL": killed}))
	if status != 4 || !strings.Contains(log, `a copy into this database did not end; empty the database`) {
		t.Errorf("the service on half a copy: exit status %d, %s", status, log)
	}
	status, _, log = tallygate(t, r.settings, "admin", "copy", "--to", killed)
	if status != 4 || !strings.Contains(log, "a copy into this database did not end; empty the database") {
		t.Errorf("a copy into half a copy: exit status %d, %s", status, log)
	}

	target := dbtest.Open(t, killed)
	testkit.NoError(t, dbtest.Exec(target, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
	if status, _, log := tallygate(t, r.settings, "admin", "copy", "--to", killed); status != 0 {
		t.Fatalf("the copy into the emptied database: exit status %d, %s", status, log)
	}

	for _, table := range []string{"pageviews", "visits", "events", "report_segments"} {
		source := dbtest.Open(t, r.database)
		want, err := dbtest.Count(source, table)
		testkit.NoError(t, err)
		dbtest.HasRows(t, target, table, want, "%s: rows", table)
	}
}

// killedCopy returns the address of a database of PostgreSQL in which a killed copy has left some
// rows.
func (r *rotation) killedCopy() string {
	r.t.Helper()
	for range 20 {
		postgres := dbtest.EmptyPostgresURL(r.t)
		target := dbtest.Open(r.t, postgres)
		cmd := newCommand(r.settings, "admin", "copy", "--to", postgres)
		testkit.NoError(r.t, cmd.Start())

		began := func() bool { // until then the table is missing
			rows, err := dbtest.Rows[string](target, "SELECT value FROM settings WHERE name = 'copy_of'")
			return err == nil && len(rows) == 1
		}
		testkit.Await(r.t, "the begin of the copy", began)
		_ = cmd.Process.Kill() // the copy may have ended
		err := cmd.Wait()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() && began() {
			return postgres
		}
		if err != nil && cmd.ProcessState.Exited() {
			r.t.Fatalf("the copy failed before it was killed: %v", err)
		}
	}
	r.t.Fatal("no copy was killed after its begin")
	return ""
}
