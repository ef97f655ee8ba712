package test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMigratePlanAndCheck checks what the command prints before, during and after a migration.
func TestMigratePlanAndCheck(t *testing.T) {
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		migrate := func(want string, failure string, args ...string) {
			t.Helper()
			status, out, log := tallygate(t, settings, append([]string{"migrate"}, args...)...)
			if !strings.Contains(out, want) || !strings.Contains(log, failure) || (status == 0) != (failure == "") {
				t.Errorf("migrate %v: status %d\n%s\n%s\nwant %q and the failure %q", args, status, out, log, want, failure)
			}
		}

		if settings["TALLYGATE_DATABASE_URL"] != "" {
			migrate("CREATE TABLE accounts", "", "--plan")
			migrate("migrations of a newer program: 0", "migrations are pending", "--check")
		}

		if status, out, log := tallygate(t, settings, "serve", "--no-migrate"); status == 0 {
			t.Errorf("the service started without a schema:\n%s%s", out, log)
		}

		migrate("The schema is up to date.", "")
		migrate("pending migrations: 0", "", "--check")
		migrate("-- 0 pending migrations", "", "--plan")

		// A newer program has left its mark.
		const tooOld = "schema belongs to a newer version of Tallygate"
		d := dbtest.Open(t, databaseOf(settings))
		for _, statement := range []string{
			"INSERT INTO schema_migrations (name, applied_at) VALUES ('99990101_000001_later', 1)",
			"INSERT INTO settings (name, value) VALUES ('oldest_program', '99990101_000001_later') " +
				"ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		migrate("migrations of a newer program: 1", tooOld, "--check")
		migrate("", tooOld)
		for _, command := range [][]string{{"serve"}, nil} {
			if status, _, log := tallygate(t, settings, command...); status != 4 || !strings.Contains(log, tooOld) {
				t.Errorf("%v: exit status %d, want 4: %s", command, status, log)
			}
		}
	})
}

// TestMigrateReportsChangeNothing checks that the reports leave every byte of the data folder as it
// is: without a process, next to one, and after a killed one, with and without the index of its log.
func TestMigrateReportsChangeNothing(t *testing.T) {
	t.Parallel()

	i := embedded(t)
	unchanged := func(when string) {
		t.Helper()
		before := i.contents()
		i.wantCommand(0, "pending migrations: 0", "migrate", "--check")
		i.wantCommand(0, "-- 0 pending migrations", "migrate", "--plan")
		if after := i.contents(); !maps.Equal(after, before) {
			t.Errorf("%s: the reports changed the data folder: %v", when, slices.Sorted(maps.Keys(after)))
		}
	}
	unchanged("without a process")

	p := start(t, i.settings, []string{"control", "data"})
	newOwner(t, p).signUp("crash.localhost")
	i.wantCommand(0, "pending migrations: 0", "migrate", "--check")
	p.kill()
	awaitFreeFolder(t, i.settings["TALLYGATE_DATA_DIR"])
	unchanged("after a kill")

	// A log that was copied without its index is read, too.
	testkit.NoError(t, os.Remove(i.path("tallygate.sqlite-shm")))
	i.wantCommand(0, "pending migrations: 0", "migrate", "--check")
}

// contents returns the files of the data folder.
func (i *installation) contents() map[string]string {
	i.Helper()
	names, err := filepath.Glob(i.path("*"))
	testkit.NoError(i, err)

	files := make(map[string]string)
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			continue
		}
		text, err := os.ReadFile(name)
		testkit.NoError(i, err)
		files[name] = string(text)
	}
	return files
}

// TestServeWithoutRightsToCreateTables serves with a role of PostgreSQL that may only read and
// write rows, and stores a hit, for which the day needs a salt.
func TestServeWithoutRightsToCreateTables(t *testing.T) {
	databaseURL := dbtest.PostgresURL(t)
	settings := settingsFor(t, dbtest.RestrictedURL(t, databaseURL))
	settings["TALLYGATE_NO_MIGRATE"] = "true"

	p := start(t, settings, []string{"control", "data"})
	site := newOwner(t, p).signUp("crash.localhost")

	status, err := sendPageview(http.DefaultClient, p.addr["data"], site.SiteKey, "/")
	if err != nil || status != http.StatusNoContent {
		t.Errorf("%d, %v:\n%s", status, err, p.logged())
	}

	if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK {
		t.Errorf("not ready: %d %s", status, body)
	}
	if strings.Contains(p.logged(), "permission denied") {
		t.Errorf("a statement was refused:\n%s", p.logged())
	}
}
