package test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAdminData copies an embedded database and restores a month that retention removed.
func TestAdminData(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		admin := adminOf(t, settings)
		d := dbtest.Open(t, databaseOf(settings))
		file := filepath.Join(t.TempDir(), "copy.sqlite")
		admin("Nothing to restore.", "restore-month")
		admin(`tallygate: "May" is not a month such as 2026-05`, "restore-month", "May")
		admin("tallygate: nothing to restore for 2026-05", "restore-month", "2026-05")

		if d.Dialect() == "sqlite" {
			admin("Copied to "+file, "backup", file)
			admin("tallygate: "+file+" exists, and a backup must be a new file", "backup", file)
			admin("tallygate: the backup cannot be written: lstat", "backup", filepath.Join(file, "below a file"))

			admin("tallygate: --keep: at least 1 copy is kept", "backup", t.TempDir(), "--keep", "0")
			admin("tallygate: --every requires --keep", "backup", t.TempDir(), "--every", "24h")
			admin("tallygate: <file>: --keep requires an existing folder", "backup", file+"-missing", "--keep", "1")
			admin("tallygate: <file>: --keep requires a folder", "backup", file, "--keep", "1")
			admin("tallygate: <file>: "+filepath.Dir(file)+" is a folder", "backup", filepath.Dir(file))
			testRotation(t, settings)

			if _, err := migrations.ReadSchema(t.Context(), dbtest.Open(t, "sqlite:"+file)); err != nil {
				t.Error(err)
			}

			return
		}

		admin("tallygate: PostgreSQL has programs for this: pg_dump --no-unlogged-table-data", "backup", file)
		admin("tallygate: PostgreSQL has programs for this", "backup", t.TempDir(), "--keep", "2")
		may := model.At(time.Date(2026, 5, 10, 0, 0, 0, 0, time.UTC))
		now := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))

		testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), may))
		testkit.NoError(t, dbtest.Exec(d,
			"INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (1, ?, 1, 1, 1, 'a', '/')",
			now))
		if dropped, err := retention.New(d).DropOldData(t.Context(), now, 5); err != nil || dropped.Partitions == 0 {
			t.Fatalf("%+v, %v", dropped, err)
		}

		admin("2026-04\n2026-05\n", "restore-month")
		admin("2026-05 is restored.", "restore-month", "2026-05")
		admin("2026-04\n", "restore-month")
	})
}

// testRotation: of five copies the newest two remain, and each remaining one is a sound backup. A
// copy that fails removes none. A process that repeats copies makes the first one at once, and SIGTERM
// ends it.
func testRotation(t *testing.T, settings map[string]string) {
	t.Helper()
	folder := t.TempDir()
	copies := func() []string {
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		testkit.NoError(t, err)
		return files
	}

	for i := range 5 {
		status, out := runAdmin(t, settings, "backup", folder, "--keep", "2")
		if status != 0 || strings.Count(out, "Removed ") != min(1, max(0, i-1)) {
			t.Errorf("copy %d: status %d\n%s", i+1, status, out)
		}
	}
	kept := copies()
	for _, file := range kept {
		if status, out := runAdmin(t, nil, "verify-backup", file); status != 0 {
			t.Errorf("status %d: %s", status, out)
		}
	}
	testkit.Equal(t, len(kept), 2, "kept %q", kept)

	// A limited process can write files of the same size as a process on a full disk.
	failing := newCommand(settings, "admin", "backup", folder, "--keep", "1")
	limited := exec.Command("sh", append([]string{"-c", `trap "" XFSZ; ulimit -f 8; exec "$0" "$@"`, failing.Path}, failing.Args[1:]...)...)
	limited.Env = failing.Env
	if out, err := limited.CombinedOutput(); err == nil || !slices.Equal(copies(), kept) {
		t.Errorf("a copy beyond the limit: %v\n%s\n%q, want %q", err, out, copies(), kept)
	}

	repeating := newCommand(settings, "admin", "backup", t.TempDir(), "--keep", "1", "--every", "24h")
	folder = repeating.Args[len(repeating.Args)-5]
	testkit.NoError(t, dbtest.StartBound(repeating))
	testkit.Await(t, "a copy", func() bool {
		files := copies()
		return len(files) == 1 && strings.HasSuffix(files[0], ".sqlite")
	})
	if err := repeating.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := repeating.Wait(); err != nil {
		t.Error(err)
	}
}
