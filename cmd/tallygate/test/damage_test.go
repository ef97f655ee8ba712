package test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// sqlitePage is the size of a page of SQLite in bytes.
const sqlitePage = 4096

// damage overwrites the beginning of each seventh page of a file, from the third one on.
func damage(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	testkit.NoError(t, err)
	defer file.Close()

	info, err := file.Stat()
	testkit.NoError(t, err)

	for at := int64(2 * sqlitePage); at < info.Size(); at += 7 * sqlitePage {
		if _, err := file.WriteAt(bytes.Repeat([]byte{0xa5}, 60), at); err != nil {
			t.Fatal(err)
		}
	}
	testkit.NoError(t, file.Sync())
}

// restored returns an installation. Its data folder has a database file and the application key
// alone.
func (i *installation) restored(file string) *installation {
	i.Helper()
	other := &installation{T: i.T, settings: settingsFor(i.T, "sqlite:")}
	dir := filepath.Join(i.TempDir(), "data")
	other.settings["TALLYGATE_DATA_DIR"] = dir
	testkit.NoError(i, os.Mkdir(dir, 0o700))

	writeFile(i, dir, "tallygate.sqlite", readFile(i, file))
	writeFile(i, dir, "secret", readFile(i, i.path("secret")))

	return other
}

// wantRefused checks that a start fails each time with a reason, and changes nothing in the data
// folder but the lock.
func (i *installation) wantRefused(reason string) {
	i.Helper()
	before, err := os.ReadFile(i.path("tallygate.sqlite"))
	testkit.NoError(i, err)

	for range 2 {
		status, _, logged := tallygate(i.T, i.settings, "serve")
		if status != 4 || !strings.Contains(logged, reason) {
			i.Errorf("status %d, want 4 with %q:\n%s", status, reason, logged)
		}
	}

	after, err := os.ReadFile(i.path("tallygate.sqlite"))
	if err != nil || !bytes.Equal(after, before) {
		i.Errorf("a refused start changed the file, %v", err)
	}
	if files, _ := filepath.Glob(i.path("*")); len(files) != 3 {
		i.Errorf("a refused start leaves %q, want the file, the key and the lock", files)
	}
}

// TestIncidentDamage: a damaged backup is found by admin verify-backup, by doctor and by the start
// from it, and a database that is damaged while the service runs makes its process not ready.
func TestIncidentDamage(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	i := embedded(t)
	p := start(t, i.settings, []string{"control", "data"})
	owner := newOwner(t, p)
	site := owner.signUp("crash.localhost")
	v := &visitor{T: t, key: site.SiteKey}
	for range 500 {
		v.await(p, http.StatusNoContent)
	}

	backup := filepath.Join(t.TempDir(), "backup.sqlite")
	i.wantCommand(0, "and verified", "admin", "backup", backup)
	i.wantCommand(0, "page views: 500\n", "admin", "verify-backup", backup)
	i.wantCommand(1, "exists", "admin", "backup", backup)

	sound := i.restored(backup)
	damage(t, backup)
	i.wantCommand(4, "damaged", "admin", "verify-backup", backup)
	if names, _ := filepath.Glob(backup + "*"); len(names) != 1 {
		t.Errorf("verify-backup leaves %q", names)
	}

	broken := i.restored(backup)
	broken.wantFinding("error database-damaged")
	broken.wantRefused("the database file is damaged")

	if findings, status := sound.examine(); status == 1 {
		t.Errorf("of a good backup the doctor reports %q", findings)
	}
	start(t, sound.settings, []string{"control", "data"}).signal(syscall.SIGTERM)

	// Everything is in the file, and the next process has read none of it.
	p.signal(syscall.SIGTERM)
	p = start(t, i.settings, []string{"control", "data"})
	awaitReady(t, p, http.StatusOK)
	damage(t, i.path("tallygate.sqlite"))
	awaitDamage(t, p, v)
}

// awaitDamage sends hits until a process meets damaged data, and checks the log.
func awaitDamage(t *testing.T, p *process, v *visitor) {
	t.Helper()
	p.awaitReadyz("data", func(status int, body string) bool {
		v.send(p)
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "database damaged\ncheck: damage\nsince: ")
	})
	awaitLog(t, p, "database damaged")
}

// TestEmptyFileBesideTheKey checks that an empty database file, such as a copy that was interrupted
// leaves, is no new installation while there is a key of an earlier one.
func TestEmptyFileBesideTheKey(t *testing.T) {
	t.Parallel()
	i := embedded(t)
	empty := filepath.Join(t.TempDir(), "empty")
	testkit.NoError(t, os.WriteFile(empty, nil, 0o600))
	i.wantCommand(4, "the file is empty", "admin", "verify-backup", empty)

	other := i.restored(empty)
	other.wantFinding("error database-empty")
	other.wantRefused("the database file " + other.path("tallygate.sqlite") + " is empty")
	other.wantCommand(4, "is empty", "migrate", "--check")
}

// TestKeyWithoutDatabase checks that nothing begins without rows in a folder that has lost its
// database, as after a move to PostgreSQL without its setting, until the key is removed.
func TestKeyWithoutDatabase(t *testing.T) {
	t.Parallel()

	i := embedded(t)
	i.settings["TALLYGATE_DATABASE_URL"] = dbtest.EmptyPostgresURL(t)
	start(t, i.settings, []string{"control", "data"}).signal(syscall.SIGTERM)
	delete(i.settings, "TALLYGATE_DATABASE_URL")

	away := filepath.Join(t.TempDir(), "tallygate.sqlite")
	testkit.NoError(t, os.Rename(i.path("tallygate.sqlite"), away))
	before := i.contents()
	refusal := "there is no database at " + i.path("tallygate.sqlite") + ", and the application key " + i.path("secret")
	for _, line := range []string{"serve", "migrate", "migrate --check", "admin accounts", "admin create-account a@example.com --name A"} {
		i.wantCommand(4, refusal, strings.Fields(line)...)
	}
	i.wantFinding("error database-empty")
	if after := i.contents(); !maps.Equal(after, before) {
		t.Errorf("refused commands changed the data folder: %v", slices.Sorted(maps.Keys(after)))
	}

	// The two ways out.
	testkit.NoError(t, os.Rename(away, i.path("tallygate.sqlite")))
	start(t, i.settings, []string{"control", "data"}).signal(syscall.SIGTERM)
	for _, name := range []string{"tallygate.sqlite", "secret"} {
		testkit.NoError(t, os.Remove(i.path(name)))
	}
	start(t, i.settings, []string{"control", "data"}).signal(syscall.SIGTERM)
}

// TestMissingKeyIsNotReplaced checks that a start without the key of its database is refused and
// creates no other key.
func TestMissingKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	i := embedded(t)
	testkit.NoError(t, os.Remove(i.path("secret")))

	for range 2 {
		i.wantCommand(4, "this configuration has none", "serve")
	}
	if _, err := os.Stat(i.path("secret")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the refused start left a key, %v", err)
	}
	i.wantFinding("error key-missing")
}

// wantCommand runs a command and checks its status, and that a text is in what it prints or logs.
func (i *installation) wantCommand(status int, text string, args ...string) {
	i.Helper()
	got, out, logged := tallygate(i.T, i.settings, args...)
	if got != status || !strings.Contains(out+logged, text) {
		i.Errorf("%q: status %d, want %d with %q:\n%s%s", args, got, status, text, out, logged)
	}
}

// TestIncidentDamagePostgres: doctor finds a damaged index of PostgreSQL with amcheck, and a
// process that meets the index is not ready.
func TestIncidentDamagePostgres(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	server := startPostgres(t, false)
	i := onPostgres(t, server)
	p := start(t, i.settings, []string{"control", "data"})
	v := &visitor{T: t, key: newOwner(t, p).signUp("crash.localhost").SiteKey}
	v.await(p, http.StatusNoContent)
	p.signal(syscall.SIGTERM)

	d, err := db.Open(i.settings["TALLYGATE_DATABASE_URL"])
	testkit.NoError(t, err)
	var index string
	err = d.Write.NewRaw("SELECT pg_relation_filepath('sites_pkey')").Scan(t.Context(), &index)
	for _, statement := range []string{"CREATE EXTENSION amcheck", "CHECKPOINT"} {
		if err == nil {
			err = dbtest.Exec(d, statement)
		}
	}
	testkit.NoError(t, err)
	testkit.NoError(t, d.Close())
	i.wantNoFinding("error database-damaged")

	server.Crash()
	overwritePages(t, filepath.Join(server.DataDir(), index))
	testkit.NoError(t, server.Restart())

	i.wantFinding("error database-damaged")
	p = start(t, i.settings, []string{"control", "data"})
	awaitDamage(t, p, v)
}

// overwritePages overwrites the headers of all pages of a file of PostgreSQL, of 8 KiB each.
func overwritePages(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	testkit.NoError(t, err)
	for at := 0; at < len(content); at += 8192 {
		copy(content[at:], bytes.Repeat([]byte{0xa5}, 24))
	}
	testkit.NoError(t, os.WriteFile(path, content, 0o600))
}

// wantNoFinding checks that the doctor does not report a finding.
func (i *installation) wantNoFinding(unwanted string) {
	i.Helper()
	findings, _ := i.examine()
	for _, found := range findings {
		if found == unwanted {
			i.Errorf("unexpected finding %q", found)
		}
	}
}
