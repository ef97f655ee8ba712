package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The tests of this file run the commands of docs/operator/backup.md.

// restored is an instance that is restored from backups. Each run of its traffic has sites of its
// own, so that it can be verified while others continue.
type restored struct {
	*testing.T
	*instance.Instance
	first *traffic.Session // nil before the first run
}

// drive sends hits and returns the journal of the acknowledged hits.
func (r *restored) drive(name string) string {
	r.Helper()
	journal := filepath.Join(r.TempDir(), name)
	_, err := r.session().Drive(r.Context(), journal, load.Load{Connections: 8, Duration: 200 * time.Millisecond, MinAnswers: 500})
	testkit.NoError(r, err)
	return journal
}

// wantVisitors sends hits of the first run's visitors to its sites again, and verifies them. Their
// visits of before the restore end: the day has a new salt.
func (r *restored) wantVisitors() {
	r.Helper()
	journal := filepath.Join(r.TempDir(), "again")
	testkit.NoError(r, r.first.Account.SignIn(r.Context()))
	if _, err := r.first.Drive(r.Context(), journal, load.Load{Connections: 8, Duration: 200 * time.Millisecond, MinAnswers: 500}); err != nil {
		r.Fatal(err)
	}

	v, err := verify.Journal(r.Context(), journal)
	testkit.NoError(r, err)

	// The deliveries of the first run are the sites' too.
	v.Details = slices.DeleteFunc(v.Details, func(s string) bool { return strings.HasSuffix(s, " deliveries") })
	if v.Lost > 0 || v.Duplicated > 0 || len(v.Details) > 0 || v.Visits == 0 {
		r.Errorf("%+v", v)
	}
}

// session returns new sites of the instance's account.
func (r *restored) session() *traffic.Session {
	r.Helper()
	target := r.Server.Target()
	if r.first != nil {
		target = r.first.Account.Target
	}

	flags := shortRun
	flags.Sites = 2
	s, err := traffic.NewOwnSession(r.Context(), target, &flags)
	testkit.NoError(r, err)
	if r.first == nil {
		r.first = s
	}
	return s
}

// whileDriving runs do while hits arrive.
func (r *restored) whileDriving(do func()) {
	r.Helper()
	s := r.session()
	journal := filepath.Join(r.TempDir(), "meanwhile")

	ctx, stop := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		// The end of the context ends the run.
		_, _ = s.Drive(ctx, journal, load.Load{Connections: 4, Duration: time.Minute})
	})
	do()
	stop()
	wg.Wait()
}

// wantAll verifies a run as "loadgen verify" does.
func (r *restored) wantAll(journal string) {
	r.Helper()
	v, err := verify.Journal(r.Context(), journal)
	testkit.NoError(r, err)
	if !v.Complete() || v.Acknowledged < 100 {
		r.Errorf("%s: %+v", filepath.Base(journal), v)
	}
}

// wantNoSalts checks that a restored database has no salt, before the program starts on it.
func (r *restored) wantNoSalts() {
	r.Helper()
	d := dbtest.Open(r.T, r.Database)
	for n := range 4 {
		if rows, err := dbtest.Count(d, fmt.Sprint("day_salts_", n)); err != nil || rows != 0 {
			r.Errorf("table day_salts_%d has %d rows, %v", n, rows, err)
		}
	}
}

// mustRun runs a command and returns its output.
func mustRun(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// TestRestoreSQLite: a copy that "admin backup" made while hits arrived has all hits acknowledged
// before, and no salt. The service continues on it after the data folder was lost.
func TestRestoreSQLite(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	r := &restored{T: t, Instance: sqliteInstance(t)}
	mustStart(t, r.Instance)
	before := r.drive("before")

	copied := filepath.Join(t.TempDir(), "tallygate-1.sqlite")
	r.whileDriving(func() {
		cmd := exec.Command(tallygate(t), "admin", "backup", copied)
		cmd.Env = append(os.Environ(), "TALLYGATE_DATA_DIR="+r.Server.Env["TALLYGATE_DATA_DIR"])
		mustRun(t, cmd)
	})

	folder := r.Server.Env["TALLYGATE_DATA_DIR"]
	key, err := os.ReadFile(filepath.Join(folder, "secret"))
	testkit.NoError(t, err)

	// Lose the machine.
	r.Server.Kill()
	testkit.NoError(t, os.RemoveAll(folder))

	// Restore the copy and the key.
	testkit.NoError(t, os.Mkdir(folder, 0o700))
	testkit.NoError(t, os.Rename(copied, filepath.Join(folder, "tallygate.sqlite")))
	testkit.NoError(t, os.WriteFile(filepath.Join(folder, "secret"), key, 0o600))
	if _, err := os.Stat(filepath.Join(folder, "tallygate.sqlite-salts")); err == nil {
		t.Error("the copy has salts")
	}

	mustStart(t, r.Instance)
	r.wantAll(before)
	r.wantVisitors()
}

// newServer starts a PostgreSQL server of its own for a restore.
func newServer(t *testing.T) *pgserver.Server {
	t.Helper()
	bin, err := pgserver.Bin()
	if err != nil {
		testkit.Missing(t, "PostgreSQL's server programs are not installed: "+err.Error())
	}
	server, err := pgserver.Start(bin, pgserver.Options{})
	testkit.NoError(t, err)
	t.Cleanup(server.Stop)
	return server
}

// TestRestoreDump: a dump made while hits arrived has all hits acknowledged before, and no salt.
// The service continues on it after the database was lost.
func TestRestoreDump(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	server := newServer(t)
	databaseURL, err := server.CreateDatabase(t.Context(), "tallygate")
	testkit.NoError(t, err)
	r := &restored{T: t, Instance: newTestInstance(t, databaseURL)}
	mustStart(t, r.Instance)
	before := r.drive("before")

	const file = "tallygate.dump"
	r.whileDriving(func() {
		mustRun(t, server.Command("pg_dump", "--no-unlogged-table-data", "--format=custom", "--file="+file, databaseURL))
	})
	if rows := mustRun(t, server.Command("pg_restore", "--list", file)); strings.Contains(rows, "TABLE DATA public day_salts") {
		t.Errorf("the dump has salts:\n%s", rows)
	}

	// Lose the database.
	r.Server.Kill()
	execServer(t, server, "DROP DATABASE tallygate WITH (FORCE)")

	// Restore it.
	if _, err := server.CreateDatabase(t.Context(), "tallygate"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, server.Command("pg_restore", "--exit-on-error", "--no-owner", "--dbname="+databaseURL, file))
	r.wantNoSalts()

	mustStart(t, r.Instance)
	r.wantAll(before)
	r.wantVisitors()
}

// TestRestoreBaseBackup: a base backup with the archived write-ahead log has the hits acknowledged
// before and after the backup, and no salt. The service continues on it after the server was lost.
func TestRestoreBaseBackup(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	server := newServer(t)
	address, err := url.Parse(server.URL())
	testkit.NoError(t, err)

	// Archive the log.
	archive := filepath.Join(filepath.Dir(server.DataDir()), "archive")
	mustRun(t, asServer(server, "mkdir", archive))
	execServer(t, server, "ALTER SYSTEM SET archive_mode = on")
	execServer(t, server, "ALTER SYSTEM SET archive_command = 'test ! -f "+archive+"/%f && cp %p "+archive+"/%f'")
	server.Crash()
	testkit.NoError(t, server.Restart())

	r := &restored{T: t, Instance: newTestInstance(t, server.URL())}
	mustStart(t, r.Instance)
	before := r.drive("before")

	const base = "base"
	r.whileDriving(func() {
		mustRun(t, server.Command("pg_basebackup", "--dbname="+address.String(), "--pgdata="+base, "--checkpoint=fast", "--wal-method=none"))
	})
	later := r.drive("later")
	archiveAll(t, r.Instance)

	// Lose the server with its folder.
	r.Server.Kill()
	server.Crash()
	testkit.NoError(t, os.RemoveAll(server.DataDir()))

	// Restore the base backup, and replay the log.
	mustRun(t, asServer(server, "cp", "-a", base, server.DataDir()))
	mustRun(t, asServer(server, "sh", "-c",
		`echo "restore_command = 'cp `+archive+`/%f %p 2>/dev/null'" >> data/postgresql.auto.conf && touch data/recovery.signal`))
	testkit.NoError(t, server.Restart())
	awaitPrimary(t, r.Instance)
	r.wantNoSalts()

	mustStart(t, r.Instance)
	r.wantAll(before)
	r.wantAll(later)
	r.wantVisitors()
}

// asServer returns a command of the system that runs as the server's user in the folder above its
// data.
func asServer(server *pgserver.Server, name string, args ...string) *exec.Cmd {
	like := server.Command(name)
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr, cmd.Dir = like.SysProcAttr, like.Dir
	return cmd
}

// execServer runs a statement in the server's first database.
func execServer(t *testing.T, server *pgserver.Server, statement string) {
	t.Helper()
	execSQL(t, &instance.Instance{Database: server.URL()}, statement)
}

// archiveAll waits until the log up to now is in the archive.
func archiveAll(t *testing.T, b *instance.Instance) {
	t.Helper()
	type row struct{ Name string }
	d := dbtest.Open(t, b.Database)
	rows, err := dbtest.Rows[row](d, "SELECT pg_walfile_name(pg_switch_wal()) AS name")
	testkit.NoError(t, err)
	await(t, d, "SELECT (coalesce(last_archived_wal, '') >= '"+rows[0].Name+"')::text AS name FROM pg_stat_archiver")
}

// awaitPrimary waits until a server has replayed the log and accepts writes.
func awaitPrimary(t *testing.T, b *instance.Instance) {
	t.Helper()
	await(t, dbtest.Open(t, b.Database), "SELECT (NOT pg_is_in_recovery())::text AS name")
}

func await(t *testing.T, d *db.DB, query string) {
	t.Helper()
	testkit.AwaitState(t, query, func() (string, bool) {
		rows, err := dbtest.Rows[struct{ Name string }](d, query)
		return fmt.Sprint(rows, err), err == nil && rows[0].Name == "true"
	})
}
