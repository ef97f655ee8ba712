package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestCells runs the commands of cells, and moves a site that a running process serves, and an
// account.
func TestCells(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		admin := adminOf(t, settings)
		if status, _, logged := tallygate(t, settings, "migrate"); status != 0 {
			t.Fatal(logged)
		}
		const unknownKey = "0123456789abcdef0123456789abcdef"
		admin("(common)", "cells")
		admin("tallygate: ", "move-site", unknownKey, "--to", "2")
		const owner = "owner@example.com"
		admin("", "create-account", owner, "--name", "Example")
		admin("tallygate: ", "move-account", "unknown@example.com", "--to", "1")
		if settings["TALLYGATE_DATABASE_URL"] == "" {
			admin("tallygate: move account 1 to cell 2: SQLite has one cell; more of them need PostgreSQL", "move-account", owner, "--to", "2")
			admin("tallygate: SQLite has one cell", "cells", "add")
			admin("tallygate: SQLite has one cell", "cells", "close", "1")
			return
		}

		admin("Cell 2 is created in the schema cell_2.", "cells", "add")
		admin("cell_2", "cells", "list")
		admin("Cell 1 takes no new sites.", "cells", "close", "1")
		admin("Cell 1 takes new sites.", "cells", "open", "1")
		admin("tallygate: there is no cell 3", "cells", "open", "3")

		d := dbtest.Open(t, databaseURL)
		site := world.New(t, d).Site("crash.localhost")

		// Processes may not know a new cell for a while.
		created := func(at model.Instant) {
			testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = ?", at))
		}
		created(model.At(time.Now().Add(time.Hour)))
		admin("tallygate: move site", "move-site", site.SiteKey, "--to", "2")
		created(0)
		admin("crash.localhost is in cell 2", "move-site", site.SiteKey, "--to", "2")

		// A new account's captcha goes to the cell with the fewest accounts, the first one of
		// several.
		for i := range 3 {
			world.New(t, d).User(fmt.Sprintf("owner%d@example.com", i))
		}
		wantCells(t, settings, "CELL SCHEMA NODE NEW SITES SITES ACCOUNTS MB",
			"1 (common) (this server) yes 0 3 ", "2 cell_2 (this server) yes 1 2 ")
		admin("tallygate: move account", "move-account", owner, "--to", "9")
		admin("tallygate: move account", "move-account", owner, "--to", "1")
		admin("The captcha of Example is in cell 2 after", "move-account", owner, "--to", "2")

		// A wrong address of a cell stops the start, and the error does not contain it.
		for addresses, want := range map[string]string{
			"7=" + databaseURL:                "cell 7: there is no such cell",
			"2=" + dbtest.EmptyPostgresURL(t): "cell 2: the address leads to another database",
		} {
			settings["TALLYGATE_CELL_ADDRESSES"] = addresses
			if status, _, log := tallygate(t, settings, "serve"); status != 4 || !strings.Contains(log, want) ||
				strings.Contains(log, addresses[2:]) {
				t.Errorf("exit status %d, log %q; want %q", status, log, want)
			}
		}

		// A server that does not respond refuses its own sites alone. The right address stores
		// hits.
		settings["TALLYGATE_ROLES"] = "data"
		const nowhere = "2=postgres://tallygate:hunter2@127.0.0.1:1/x"
		for addresses, want := range map[string]int{nowhere: 503, "2=" + databaseURL: 204} {
			settings["TALLYGATE_CELL_ADDRESSES"] = addresses
			p := start(t, settings, []string{"data"})
			status, err := sendPageview(http.DefaultClient, p.addr["data"], site.SiteKey, "/page")
			if err != nil || status != want {
				t.Errorf("a page view: status %d, error %v; want %d", status, err, want)
			}
			p.kill()
			if strings.Contains(p.logged(), "hunter2") {
				t.Error("the log contains a password")
			}
		}
	})
}

// wantCells checks the beginnings of the lines of "admin cells".
func wantCells(t *testing.T, settings map[string]string, want ...string) {
	t.Helper()
	status, out, log := tallygate(t, settings, "admin", "cells")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != len(want) {
		t.Fatalf("status %d, %q, %q; want %d lines", status, out, log, len(want))
	}
	for i, line := range lines {
		if line = strings.Join(strings.Fields(line), " "); !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %q, want %q", line, want[i])
		}
	}
}
