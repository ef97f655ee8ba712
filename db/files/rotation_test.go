package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestRemoveOldCopies: the oldest copies are removed beyond the number to keep, with partial copies
// of an earlier day, and no file with another name, no folder, no link and never the new copy.
func TestRemoveOldCopies(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 29, 22, 0, 0, 123_000_000, time.UTC)
	name := func(age time.Duration) string { return filepath.Base(files.CopyIn("", now.Add(-age))) }
	const hour, day = time.Hour, 24 * time.Hour
	others := []string{
		"tallygate.sqlite", "tallygate-2026-11-01.sqlite", "tallygate-20261101T000000Z.sqlite", "my-" + name(9*day),
		name(9*day) + ".gz", "tallygate-20261399T000000.000Z.sqlite", name(hour) + ".partial-1", "notes.partial-1",
	}

	for _, test := range []struct {
		about   string
		present []string
		keep    int
		removed []string
	}{
		{"fewer than are kept", []string{name(day)}, 2, nil},
		{"one too many", []string{name(day), name(2 * day)}, 2, []string{name(2 * day)}},
		{"one is kept", []string{name(day), name(2 * day)}, 1, []string{name(2 * day), name(day)}},
		{"names from before the clock was set back", []string{name(-day), name(day)}, 2, []string{name(day)}},
		{"nothing but later names", []string{name(-day), name(-2 * day)}, 1, []string{name(-day), name(-2 * day)}},
		{"partial copies", []string{name(25*hour) + ".partial-77", name(23*hour) + ".partial-78"}, 1, []string{name(25*hour) + ".partial-77"}},
	} {
		folder := t.TempDir()
		all := slices.Concat([]string{name(0)}, others, test.present)
		for _, file := range all {
			testkit.NoError(t, os.WriteFile(filepath.Join(folder, file), nil, 0o600))
		}
		kept := filepath.Join(folder, name(10*day))
		testkit.NoError(t, errors.Join(os.Mkdir(kept, 0o700), os.Symlink(kept, filepath.Join(folder, name(11*day)))))

		removed, err := files.RemoveOldCopies(filepath.Join(folder, name(0)), test.keep)
		if err != nil || !slices.Equal(removed, test.removed) {
			t.Errorf("%s: removed %q, %v; want %q", test.about, removed, err, test.removed)
		}
		left, err := os.ReadDir(folder)
		if err != nil || len(left) != len(all)+2-len(test.removed) {
			t.Errorf("%s: %d files are left of %d, %v", test.about, len(left), len(all)+2, err)
		}
	}
}

// TestNewestCopy finds the newest copy among other files.
func TestNewestCopy(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	if at, err := files.NewestCopy(folder); err != nil || !at.IsZero() {
		t.Errorf("an empty folder: %v, %v", at, err)
	}
	if _, err := files.NewestCopy(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}

	want := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for _, file := range []string{
		files.CopyIn(folder, want), files.CopyIn(folder, want.Add(-time.Hour)), files.CopyIn(folder, want.Add(time.Hour)) + ".partial-1",
		filepath.Join(folder, "z"),
	} {
		testkit.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	if at, err := files.NewestCopy(folder); err != nil || !at.Equal(want) {
		t.Errorf("%v, %v; want %v", at, err, want)
	}
}

// TestBackUpVerifies: a copy with a row that refers to a missing one gets no name and leaves no
// file, and neither does an interrupted copy. PostgreSQL writes nothing.
func TestBackUpVerifies(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		folder := t.TempDir()
		file := files.CopyIn(folder, time.Now())
		want := files.ErrBackUpElsewhere

		if !d.IsPostgres() {
			testkit.NoError(t, files.New(d).BackUp(t.Context(), files.CopyIn(t.TempDir(), time.Now())))
			want = files.ErrDamaged
			orphan(t, d)
		}
		if err := files.New(d).BackUp(t.Context(), file); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		if err := files.New(d).BackUp(interrupted, file); err == nil {
			t.Error("an interrupted copy is complete")
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// orphan stores a site of an account that does not exist.
func orphan(t *testing.T, d *db.DB) {
	t.Helper()

	conn, err := d.Write.Conn(t.Context())
	testkit.NoError(t, err)
	defer conn.Close()
	for _, statement := range []string{
		"PRAGMA foreign_keys = off", "INSERT INTO memberships (account_id, user_id, role, created_at) VALUES (99, 99, 1, 0)", "PRAGMA foreign_keys = on",
	} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
