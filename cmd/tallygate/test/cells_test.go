package test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/dbtest"
)

// TestCells runs the commands of cells, and moves a site that a running process serves.
func TestCells(t *testing.T) {
	t.Parallel()

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		admin := func(want string, args ...string) {
			t.Helper()
			out, err := newCommand(settings, append([]string{"admin"}, args...)...).CombinedOutput()
			if _, failed := err.(*exec.ExitError); !strings.Contains(string(out), want) ||
				failed != strings.HasPrefix(want, "tallygate: ") {
				t.Errorf("%v: %v\n%s\nwant %q", args, err, out, want)
			}
		}

		const unknownKey = "0123456789abcdef0123456789abcdef"
		admin("(common)", "cells")
		admin("tallygate: ", "move-site", unknownKey, "--to", "2")
		if settings["TALLYGATE_DATABASE_URL"] == "" {
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
		site := dbtest.NewOwnSite(t, d, "example.com")
		admin("tallygate: move site", "move-site", site.SiteKey, "--to", "2")
		if err := dbtest.Exec(d, "UPDATE cells SET created_at = 0"); err != nil {
			t.Fatal(err)
		}
		admin("example.com is in cell 2", "move-site", site.SiteKey, "--to", "2")
	})
}
