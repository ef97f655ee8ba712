package test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/world"
)

// TestImportCommands checks the operator's commands: a dry run changes nothing, a damaged file is
// refused with its line, and an import is listed and undone.
func TestImportCommands(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		run := func(ok bool, want string, args ...string) {
			t.Helper()
			status, out := runAdmin(t, settings, args...)
			if (status == 0) != ok || !strings.Contains(out, want) {
				t.Errorf("%v: status %d\n%s\nwant %q", args, status, out, want)
			}
		}
		if status, _, logged := tallygate(t, settings, "migrate"); status != 0 {
			t.Fatal(logged)
		}

		d := dbtest.Open(t, databaseOf(settings))
		site := world.New(t, d).Site("example.com")
		const fixtures = "../importer/testdata/plausible/"
		export := []string{"import", "--site", site.SiteKey, "--from", "plausible", fixtures + "imported_visitors_20260201_20260204.csv",
			fixtures + "imported_pages_20260201_20260204.csv"}

		run(true, "2026-02-01 to 2026-02-04, 3 days: 20 visitors, 23 visits, 39 page views, 0 events\nNothing was changed.",
			append(export, "--dry-run")...)
		run(true, "The site has no imports.", "imports", "--site", site.SiteKey)

		damaged := writeFile(t, t.TempDir(), "imported_pages.csv", "date,page,visitors,pageviews\n2026-02-05,/,1,many\n")
		run(false, "imported_pages.csv, line 2: pageviews is not a number", append(export, damaged)...)
		run(true, "The site has no imports.", "imports", "--site", site.SiteKey)

		run(true, "100 %\nImport 1 is complete.", export...)
		run(false, "Plausible's import of 2026-02-01 to 2026-02-04 already has these days (import 1). Undo it, or choose other days. (--since and --until choose the days)", export...)
		run(true, "1: plausible, 2026-02-01 to 2026-02-04, 20 visitors, 23 visits, 39 page views, 0 events, complete",
			"imports", "--site", site.SiteKey)
		run(true, "Import 1 is undone.", "undo-import", "--site", site.SiteKey, "1")
		run(false, "No such object.", "undo-import", "--site", site.SiteKey, "1")
		run(true, "2026-02-02 to 2026-02-04, 2 days", append(export, "--since", "2026-02-02")...)
		run(false, `"soon" is not a day`, append(export, "--since", "soon")...)

		sums := []string{"import", "--site", site.SiteKey, "--from", "goatcounter-api", "http://127.0.0.1:1"}
		run(false, "goatcounter-api takes the address of one GoatCounter site, and a token by --token-file", sums...)
		token := writeFile(t, t.TempDir(), "token", "secret-token\n")
		run(false, "api/v0/me: Get \"http://127.0.0.1:1/api/v0/me\": dial tcp", append(sums, "--token-file", token)...)
		run(false, `there is no site with the key "0000`, "imports", "--site", strings.Repeat("0", 32))
	})
}
