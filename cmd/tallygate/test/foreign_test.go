package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestForeignDatabase: the service and doctor refuse a database of another program with a sentence,
// and change nothing.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		i := &installation{T: t, settings: settingsFor(t, databaseURL)}
		if i.settings["TALLYGATE_DATABASE_URL"] == "" {
			databaseURL = db.EmbeddedURL(i.settings["TALLYGATE_DATA_DIR"])
		}
		d, err := db.Open(databaseURL)
		testkit.NoError(t, err)
		if _, err := d.Write.ExecContext(t.Context(), "CREATE TABLE wp_posts (id integer)"); err != nil {
			t.Fatal(err)
		}
		testkit.NoError(t, d.Close())

		i.wantFinding("error database-foreign")
		for _, command := range []string{"serve", "migrate", "migrate --check", "serve --no-migrate"} {
			i.wantCommand(4, `the database belongs to another program: it has a table wp_posts`, strings.Fields(command)...)
		}

		if d, err = db.Open(databaseURL); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		if names, err := migrations.Objects(t.Context(), d); err != nil || len(names) != 1 {
			t.Errorf("the database has %q, %v", names, err)
		}
	})
}

// TestFileThatIsNoDatabase: doctor advises on a file that is no database of SQLite as on a file,
// not as on a server.
func TestFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	i := embedded(t)
	testkit.NoError(t, os.WriteFile(i.path("tallygate.sqlite"), []byte(strings.Repeat("this is no database ", 1000)), 0o600))
	for _, name := range []string{"tallygate.sqlite-wal", "tallygate.sqlite-shm"} {
		_ = os.Remove(filepath.Join(i.settings["TALLYGATE_DATA_DIR"], name))
	}

	status, out, _ := tallygate(t, i.settings, "doctor")
	if status != 1 || strings.Contains(out, "pg_hba.conf") || strings.Contains(out, "TALLYGATE_DATABASE_URL") ||
		!strings.Contains(out, "docs/operator/backup.md") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
	for _, command := range []string{"serve", "migrate", "migrate --check"} {
		i.wantCommand(4, "the database file is damaged: ", strings.Fields(command)...)
	}
}
