package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestAdminData copies an embedded database and restores a month that retention removed.
func TestAdminData(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		if settings["TALLYGATE_DATABASE_URL"] == "" {
			databaseURL = db.EmbeddedURL(settings["TALLYGATE_DATA_DIR"])
		}

		admin := func(want string, args ...string) {
			t.Helper()
			out, err := newCommand(settings, append([]string{"admin"}, args...)...).CombinedOutput()
			if _, failed := err.(*exec.ExitError); !strings.Contains(string(out), want) ||
				failed != strings.HasPrefix(want, "tallygate: ") {
				t.Errorf("%v: %v\n%s\nwant %q", args, err, out, want)
			}
		}

		d := dbtest.Open(t, databaseURL)
		file := filepath.Join(t.TempDir(), "copy.sqlite")
		admin("Nothing to restore.", "restore-month")
		admin(`tallygate: "May" is not a month such as 2026-05`, "restore-month", "May")
		admin("tallygate: nothing to restore for 2026-05", "restore-month", "2026-05")

		if d.Dialect() == "sqlite" {
			admin("Copied to "+file, "backup", file)
			admin("tallygate: "+file+" exists, and a backup must be a new file", "backup", file)
			admin("tallygate: the backup cannot be written: lstat", "backup", filepath.Join(file, "below a file"))

			if _, err := migrations.ReadSchema(t.Context(), dbtest.Open(t, "sqlite:"+file)); err != nil {
				t.Error(err)
			}

			return
		}

		admin("tallygate: PostgreSQL has programs for this: pg_dump --no-unlogged-table-data", "backup", file)
		may := model.At(time.Date(2026, 5, 10, 0, 0, 0, 0, time.UTC))
		now := model.At(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))

		if err := retention.New(d).EnsurePartitions(t.Context(), may); err != nil {
			t.Fatal(err)
		}
		if err := dbtest.Exec(d,
			"INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (1, ?, 1, 1, 1, 'a', '/')",
			now); err != nil {
			t.Fatal(err)
		}
		if dropped, err := retention.New(d).DropOldData(t.Context(), now, 5); err != nil || dropped.Partitions == 0 {
			t.Fatalf("%+v, %v", dropped, err)
		}

		admin("2026-04\n2026-05\n", "restore-month")
		admin("2026-05 is restored.", "restore-month", "2026-05")
		admin("2026-04\n", "restore-month")
	})
}
