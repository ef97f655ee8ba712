package test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMissingDatabase checks that commands which need the service's database create none: neither a
// folder nor a table. create-account creates one.
func TestMissingDatabase(t *testing.T) {
	t.Parallel()

	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		dir := filepath.Join(settings["TALLYGATE_DATA_DIR"], "data")
		settings["TALLYGATE_DATA_DIR"] = dir

		want := "tallygate: there is no database at " + filepath.Join(dir, "tallygate.sqlite") + "; set TALLYGATE_DATA_DIR"
		if settings["TALLYGATE_DATABASE_URL"] != "" {
			want = "tallygate: TALLYGATE_DATABASE_URL: this database has no tables of Tallygate"
		}

		const key = "00000000000000000000000000000000"
		file := filepath.Join(t.TempDir(), "sites.yaml")
		testkit.NoError(t, os.WriteFile(file, []byte("account: a@example.com\nsites: []\n"), 0o600))

		for _, line := range []string{
			"admin reset-password a@example.com", "admin invite b@example.com --account a@example.com",
			"admin set-plan " + key + " FREE", "admin backup " + file + ".backup", "admin copy --to " + file + ".copy", "admin record-backup",
			"admin restore-month", "admin cells",
			"admin check-reports", "admin accounts", "admin installation", "admin rotate-secret", "admin apply " + file,
			"admin import export.csv --site " + key + " --from umami", "admin export-config a@example.com",
		} {
			if status, out, log := tallygate(t, settings, strings.Fields(line)...); status != 4 || out != "" ||
				!strings.HasPrefix(log, want) || strings.Count(log, "\n") != 1 {
				t.Errorf("%s: exit status %d, output %q, log %q; want %q", line, status, out, log, want)
			}
		}

		// A report of PostgreSQL prints the migrations of an empty database.
		for _, report := range []string{"--check", "--plan"} {
			if status, out, log := tallygate(t, settings, "migrate", report); settings["TALLYGATE_DATABASE_URL"] == "" &&
				(status != 4 || out != "" || !strings.Contains(log, "there is no database at "+dir)) {
				t.Errorf("migrate %s: exit status %d, output %q, log %q", report, status, out, log)
			}
		}

		// doctor names what is missing. health asks the service.
		tallygate(t, settings, "doctor")
		tallygate(t, settings, "health")

		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the data folder was created: %v", err)
		}
		if settings["TALLYGATE_DATABASE_URL"] != "" {
			d, err := db.Open(databaseURL)
			testkit.NoError(t, err)
			if exists, err := migrations.HasSchema(t.Context(), d); exists || err != nil {
				t.Errorf("the tables were created: %t, %v", exists, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}

		if status, _, log := tallygate(t, settings, "admin", "create-account", "a@example.com", "--name", "A"); status != 0 {
			t.Errorf("create-account: exit status %d, log %q", status, log)
		}
		if status, _, log := tallygate(t, settings, "admin", "accounts"); status != 0 {
			t.Errorf("accounts: exit status %d, log %q", status, log)
		}
	})
}
