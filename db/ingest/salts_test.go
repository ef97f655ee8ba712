package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

var saltDay = model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)).Day()

func daySalt(t *testing.T, d *db.DB, day model.Day) []byte {
	t.Helper()
	salt, err := ingest.New(d).DaySalt(t.Context(), day)
	if err != nil || len(salt) != 32 || bytes.Equal(salt, make([]byte, 32)) {
		t.Fatalf("salt %x, error %v", salt, err)
	}
	return salt
}

// TestDaySaltIsTheSameEverywhere checks that concurrent processes all get the salt of the first
// one.
func TestDaySaltIsTheSameEverywhere(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		var wg sync.WaitGroup
		salts, errs := make([][]byte, 8), make([]error, 8)
		for i := range salts {
			d := dbtest.Open(t, databaseURL)
			wg.Go(func() { salts[i], errs[i] = ingest.New(d).DaySalt(t.Context(), saltDay) })
		}

		wg.Wait()

		for i := range salts {
			if errs[i] != nil || !bytes.Equal(salts[i], salts[0]) {
				t.Errorf("process %d has salt %x, error %v; want %x", i, salts[i], errs[i], salts[0])
			}
		}

		d := dbtest.Open(t, databaseURL)
		if other := daySalt(t, d, saltDay+1); bytes.Equal(other, salts[0]) {
			t.Error("two days have one salt")
		}
		if days, err := ingest.New(d).SaltDays(t.Context()); err != nil ||
			fmt.Sprint(days) != fmt.Sprint([]model.Day{saltDay, saltDay + 1}) {
			t.Errorf("salts of %v, error %v", days, err)
		}
	})
}

// filesWith returns the files under folders that contain the bytes.
func filesWith(t *testing.T, text []byte, folders ...string) (found []string) {
	t.Helper()

	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}

			content, err := os.ReadFile(path)
			if err == nil && bytes.Contains(content, text) {
				found = append(found, path)
			}

			return err
		})
		testkit.NoError(t, err)
	}

	return found
}

// TestDestroyedSaltIsInNoFile checks that a salt in use is in one file, and not in SQLite's
// database or log or PostgreSQL's write-ahead log. A destroyed salt is in no file.
func TestDestroyedSaltIsInNoFile(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		folder := t.TempDir()
		d := dbtest.Open(t, "sqlite:"+filepath.Join(folder, "test.sqlite"))
		testkit.NoError(t, migrations.Apply(t.Context(), d))

		old, current := daySalt(t, d, saltDay), daySalt(t, d, saltDay+1)
		for _, salt := range [][]byte{old, current} {
			if found := filesWith(t, salt, folder); len(found) != 1 ||
				!strings.HasPrefix(found[0], filepath.Join(folder, "test.sqlite-salts/")) {
				t.Errorf("a salt in use is in %v", found)
			}
		}

		// The file's content is overwritten, also for a process that has it open.
		open, err := os.Open(filesWith(t, old, folder)[0])
		testkit.NoError(t, err)
		defer open.Close()

		if n, err := ingest.New(d).DestroyDaySalts(t.Context(), saltDay+1); n != 1 || err != nil {
			t.Fatalf("%d destroyed, error %v", n, err)
		}

		left := make([]byte, 100)
		if n, err := open.Read(left); n != 32 || !bytes.Equal(left[:n], make([]byte, 32)) {
			t.Errorf("the removed file has %x, %v; want zeros", left[:n], err)
		}
		if found := filesWith(t, old, folder); len(found) != 0 {
			t.Errorf("the destroyed salt is in %v", found)
		}
		if !bytes.Equal(daySalt(t, d, saltDay+1), current) {
			t.Error("the salt in use has changed")
		}

		info, err := os.Stat(filesWith(t, current, folder)[0])
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want only the owner to read it", info.Mode(), err)
		}
	})

	t.Run("postgres", func(t *testing.T) {
		server := dbtest.StartPostgres(t)
		d := dbtest.Open(t, server.URL())

		base, wal := filepath.Join(server.DataDir(), "base"), filepath.Join(server.DataDir(), "pg_wal")
		checkpoint := func() {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, "CHECKPOINT"))
		}

		// Check that the search finds a deleted row of an ordinary table.
		witness := []byte("a row of an ordinary table")
		for _, statement := range []string{"CREATE TABLE witness (text bytea)",
			"INSERT INTO witness VALUES ('" + string(witness) + "')", "DELETE FROM witness"} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		old, current := daySalt(t, d, saltDay), daySalt(t, d, saltDay+1)

		// A checkpoint leaves unlogged tables in memory; a rewrite does not.
		testkit.NoError(t, dbtest.Exec(d, "VACUUM FULL day_salts_1"))

		checkpoint()

		if len(filesWith(t, witness, base)) == 0 || len(filesWith(t, witness, wal)) == 0 {
			t.Error("the deleted row of an ordinary table is not found: this test finds nothing")
		}
		if found := filesWith(t, old, base); len(found) != 1 {
			t.Errorf("a salt in use is in %v, want one file", found)
		}
		if n, err := ingest.New(d).DestroyDaySalts(t.Context(), saltDay+1); n != 1 || err != nil {
			t.Fatalf("%d destroyed, error %v", n, err)
		}

		checkpoint()

		if found := filesWith(t, old, server.DataDir()); len(found) != 0 {
			t.Errorf("the destroyed salt is in %v", found)
		}
		if found := filesWith(t, current, wal); len(found) != 0 {
			t.Errorf("the salt in use is in the write-ahead log: %v", found)
		}
		if !bytes.Equal(daySalt(t, d, saltDay+1), current) {
			t.Error("the salt in use has changed")
		}
	})
}

// TestSaltAfterACrash checks salts after a crash of PostgreSQL, which empties their tables. A
// process that has the salt in memory restores it. Without such a process, the day gets another
// salt for all processes. A destroyed salt is not restored.
func TestSaltAfterACrash(t *testing.T) {
	t.Parallel()
	postgres := dbtest.StartPostgres(t)
	databaseURL := postgres.URL()
	d := dbtest.Open(t, databaseURL)
	salt := daySalt(t, d, saltDay)

	postgres.Restart()

	for range 2 {
		if kept, err := ingest.New(d).KeepDaySalt(t.Context(), saltDay, salt); err != nil || !bytes.Equal(kept, salt) {
			t.Fatalf("kept %x, error %v; want %x", kept, err, salt)
		}
	}

	if !bytes.Equal(daySalt(t, dbtest.Open(t, databaseURL), saltDay), salt) {
		t.Error("another process has another salt")
	}

	postgres.Restart()
	other := daySalt(t, dbtest.Open(t, databaseURL), saltDay)
	if bytes.Equal(other, salt) {
		t.Fatal("the crash did not empty the table: this test shows nothing")
	}
	if kept, err := ingest.New(d).KeepDaySalt(t.Context(), saltDay, salt); err != nil || !bytes.Equal(kept, other) {
		t.Errorf("kept %x, error %v; want the other process's, %x", kept, err, other)
	}

	if n, err := ingest.New(d).DestroyDaySalts(t.Context(), saltDay+1); n != 1 || err != nil {
		t.Fatalf("%d destroyed, error %v", n, err)
	}
	if _, err := ingest.New(d).KeepDaySalt(t.Context(), saltDay, other); err != nil {
		t.Error(err)
	}
	if days, err := ingest.New(d).SaltDays(t.Context()); err != nil || len(days) != 0 {
		t.Errorf("salts of %v, error %v; want no salts", days, err)
	}
}

// TestDumpHasNoSalts checks that a dump made as described in docs/operator/operations.md has no salts.
func TestDumpHasNoSalts(t *testing.T) {
	t.Parallel()
	bin, err := pgserver.Bin()
	if err != nil {
		testkit.Missing(t, err.Error())
	}

	databaseURL := dbtest.PostgresURL(t)
	salt := daySalt(t, dbtest.Open(t, databaseURL), saltDay)

	dump := func(options ...string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(bin, "pg_dump"), append(options, databaseURL)...).Output()
		testkit.NoError(t, err)
		return string(out)
	}
	if text := fmt.Sprintf("%x", salt); strings.Contains(dump("--no-unlogged-table-data"), text) {
		t.Error("the salt is in the dump")
	} else if !strings.Contains(dump(), text) {
		t.Error("the salt is not found in a dump with all data: this test finds nothing")
	}
}

// TestBackupHasNoSalts checks that BackUp's copy of SQLite has all rows and no salt.
func TestBackupHasNoSalts(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	salt := daySalt(t, d, saltDay)
	site := world.New(t, d).Site("example.com")

	file := filepath.Join(t.TempDir(), "it's a backup.sqlite")
	testkit.NoError(t, files.New(d).BackUp(t.Context(), file))
	if found := filesWith(t, salt, filepath.Dir(file)); len(found) != 0 {
		t.Errorf("the salt is in %v", found)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v; want only the owner to read it", info.Mode(), err)
	}
	if err := files.New(d).BackUp(t.Context(), file); err == nil {
		t.Error("a backup was overwritten")
	}

	restored := dbtest.Open(t, "sqlite:"+file)
	if found, err := sites.New(restored).Lookup.SiteRulesByKey(context.Background(), site.SiteKey); err != nil ||
		found.ID != site.ID {
		t.Errorf("site %+v, error %v", found, err)
	}
	if bytes.Equal(daySalt(t, restored, saltDay), salt) {
		t.Error("the restored database has the salt")
	}
}
