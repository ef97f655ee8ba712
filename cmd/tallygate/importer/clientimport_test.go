package importer_test

import (
	"encoding/csv"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// sumColumns are the columns of visitors, visits, page views and bounces, or of engaged sessions,
// in the files of a service.
type sumColumns struct{ value, visitors, visits, views, bounces, engaged string }

var (
	plausibleSums = sumColumns{"", "visitors", "visits", "pageviews", "bounces", ""}
	matomoSums    = sumColumns{"label", "nb_uniq_visitors", "nb_visits", "", "bounce_count", ""}
)

// naiveRows adds up the rows of a file of daily sums by value, and adds the site's own visit, which
// has no value.
func naiveRows(t *testing.T, file string, of sumColumns, values map[string]string) map[string]counts {
	t.Helper()
	content, err := os.ReadFile("testdata/" + file)
	testkit.NoError(t, err)
	var table []string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "#") {
			table = append(table, line)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(strings.Join(table, ""))).ReadAll()
	testkit.NoError(t, err)

	number := func(row []string, column string) int64 {
		i := slices.Index(rows[0], column)
		if column == "" || i < 0 {
			return 0
		}
		n, err := strconv.ParseInt(row[i], 10, 64)
		testkit.NoError(t, err)
		return n
	}
	sums := map[string]counts{"": {1, 1, 1, 0, 0, 0}}
	for _, row := range rows[1:] {
		value, ok := values[row[slices.Index(rows[0], of.value)]]
		if !ok {
			t.Fatalf("%s: no value of %q", file, row)
		}
		sum := sums[value]
		sum[0] += number(row, of.visitors)
		sum[1] += number(row, of.visits)
		sum[2] += number(row, of.views)
		sum[3] += number(row, of.bounces)
		if of.engaged != "" {
			sum[3] += number(row, of.visits) - number(row, of.engaged)
		}
		sums[value] = sum
	}
	return sums
}

// clientDimensions are the dimensions of browsers, and those that are derived from sources.
var clientDimensions = []scan.Dimension{
	scan.Country, scan.Browser, scan.System, scan.Device, scan.Host, scan.SourceGroup, scan.SourceName,
}

// wantClients checks the rows of the dimensions of browsers, and of groups and names of sources.
// nil: the import has no values.
func (f *fixture) wantClients(want ...map[string]counts) {
	f.t.Helper()
	r := f.report(query(clientDimensions...))
	for i, rows := range want {
		state := scan.ImportIncluded
		if rows == nil {
			rows, state = map[string]counts{"": {1, 1, 1, 0, 0, 0}}, scan.ImportNoValues
		}
		f.wantRows(r, i, rows)
		if r.Imported.Rows[i] != state {
			f.t.Errorf("breakdown %d has the state %d, want %d", i, r.Imported.Rows[i], state)
		}
	}
}

func wantPlausibleClients(f *fixture) {
	f.t.Helper()
	naive := func(table, column string, values map[string]string) map[string]counts {
		of := plausibleSums
		of.value = column
		return naiveRows(f.t, "plausible/imported_"+table+"_20260201_20260204.csv", of, values)
	}
	f.wantClients(
		naive("locations", "country", map[string]string{"NL": "NL", "DE": "DE", "??": ""}),
		naive("browsers", "browser", map[string]string{
			"Firefox": "Firefox", "Mobile App": "In-app browser", "Safari": "Safari", "Microsoft Edge": "Edge", "": "",
			"<script>alert(1)</script>": "Other",
		}),
		naive("operating_systems", "operating_system", map[string]string{
			"Mac": "macOS", "GNU/Linux": "Linux", "Ubuntu": "Linux", "Windows": "Windows", "": "", "Plan 9": "Other",
		}),
		naive("devices", "device", map[string]string{
			"Desktop": "desktop", "Laptop": "desktop", "Mobile": "phone", "Smart TV": "tv", "Tablet": "tablet", "Toaster": "",
		}),

		// On the first day, the pages of example.com have 15 visitors and 17 visits together, the
		// day has 10 and 12.
		map[string]counts{"example.com": {20, 23, 37, 0, 0, 0}, "www.example.com": {1, 1, 2, 0, 0, 0}, "": {1, 1, 1, 0, 0, 0}},
		map[string]counts{"search": {11, 12, 18, 7, 0, 0}, "other": {5, 6, 11, 2, 0, 0}, "": {5, 6, 11, 2, 0, 0}},
		map[string]counts{
			"Google": {11, 12, 18, 7, 0, 0}, "newsletter": {2, 3, 6, 1, 0, 0}, "news.example.org": {3, 3, 5, 1, 0, 0}, "": {5, 6, 11, 2, 0, 0},
		},
	)
}

func wantMatomoClients(f *fixture) {
	f.t.Helper()
	f.wantClients(
		naiveRows(f.t, "matomo/UserCountry.getCountry.csv", matomoSums, map[string]string{
			"Niederlande": "NL", "Unbekannt": "", "Czechia": "CZ", "Germany": "DE",
		}),
		naiveRows(f.t, "matomo/DevicesDetection.getBrowsers.csv", matomoSums, map[string]string{
			"Chrome Mobile": "Chrome", "Mobile Safari": "Safari", "Microsoft Edge": "Edge", "Unknown": "",
		}),
		naiveRows(f.t, "matomo/DevicesDetection.getOsFamilies.csv", matomoSums, map[string]string{
			"GNU/Linux": "Linux", "Chrome OS": "ChromeOS", "Gaming Console": "Other", "iOS": "iOS",
		}),
		naiveRows(f.t, "matomo/DevicesDetection.getType.csv", matomoSums, map[string]string{
			"Computer": "desktop", "Funktionstelefon": "phone", "Phablet": "phone", "Kamera": "",
		}),
		nil,
		map[string]counts{"search": {4, 4, 0, 2, 0, 0}, "social": {3, 3, 0, 1, 0, 0}, "other": {7, 8, 0, 6, 0, 0}, "": {5, 6, 1, 1, 0, 0}},
		map[string]counts{
			"Google": {4, 4, 0, 2, 0, 0}, "Mastodon": {3, 3, 0, 1, 0, 0}, "news.example.org": {7, 8, 0, 6, 0, 0}, "": {5, 6, 1, 1, 0, 0},
		},
	)
}

func wantGA4Clients(f *fixture) {
	f.t.Helper()
	f.wantClients(
		naiveRows(f.t, "ga4/countries.csv", sumColumns{"Country", "Total users", "Sessions", "Views", "", "Engaged sessions"},
			map[string]string{
				"Netherlands": "NL", "Türkiye": "TR", "(not set)": "", "United States": "US", "Côte d’Ivoire": "CI", "Atlantis": "",
			}),
		naiveRows(f.t, "ga4/browsers.csv", sumColumns{"browser", "totalUsers", "sessions", "", "", ""}, map[string]string{
			"Chrome": "Chrome", "Safari (in-app)": "In-app browser", "Samsung Internet": "Samsung Internet",
			"Mozilla Compatible Agent": "Other",
		}),
		naiveRows(f.t, "ga4/systems.csv",
			sumColumns{"Operating system with version", "Total users", "Sessions", "", "", "Engaged sessions"}, map[string]string{
				"Windows 10": "Windows", "Windows 11": "Windows", "Macintosh 10.15": "macOS", "Chrome OS 14541.0": "ChromeOS",
			}),
		naiveRows(f.t, "ga4/devices.csv", sumColumns{"Device category", "Total users", "Sessions", "", "", ""}, map[string]string{
			"desktop": "desktop", "mobile": "phone", "tablet": "tablet", "smart tv": "tv",
		}),
		naiveRows(f.t, "ga4/hosts.csv", sumColumns{"hostName", "totalUsers", "sessions", "screenPageViews", "", ""}, map[string]string{
			"www.example.com": "www.example.com", "EXAMPLE.com": "example.com", "(not set)": "",
		}),
		map[string]counts{"search": {15, 17, 0, 0, 0, 0}, "other": {6, 7, 0, 0, 0, 0}, "": {5, 6, 1, 0, 0, 0}},
	)
}

// Sessions of the fixtures of visits: the first one of a desktop, the second one, on two days, of a
// phone.
var (
	first, second = counts{1, 2, 3, 1, 0, 1}, counts{2, 2, 2, 2, 0, 0}
	ownVisit      = counts{1, 1, 1, 0, 0, 0}
)

func wantUmamiClients(f *fixture) {
	f.t.Helper()
	f.wantClients(
		map[string]counts{"NL": first, "DE": second, "": ownVisit},
		map[string]counts{"Firefox": first, "Safari": second, "": ownVisit},
		map[string]counts{"Linux": first, "iOS": second, "": ownVisit},
		map[string]counts{"desktop": first, "phone": second, "": ownVisit},
		map[string]counts{"example.com": {3, 4, 5, 3, 0, 1}, "": ownVisit},
	)
	f.wantFilteredClients(first, oracle.Is(scan.Country, "NL"), oracle.Is(scan.Browser, "Firefox"), oracle.Is(scan.Device, "desktop"))
}

// wantFilteredClients checks that imported visits can be filtered by values of browsers.
func (f *fixture) wantFilteredClients(want counts, filters ...scan.Filter) {
	f.t.Helper()
	filtered := query(scan.Country)
	filtered.Points, filtered.Filters = nil, filters
	r := f.report(filtered)
	f.wantTotals(r, want)
	f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportIncluded)
}

// TestImportsWithoutClients checks that exports without columns of browsers are imported, without
// values.
func TestImportsWithoutClients(t *testing.T) {
	const (
		visitors = "date,visitors,pageviews,bounces,visits\n2026-02-01,5,6,1,5\n"
		pages    = "date,page,visitors,pageviews\n2026-02-01,/,5,6\n"
		umami    = "session_id,url_path,event_type,created_at\ns,/,1,2026-02-01 10:00:00\n"
	)
	for name, test := range map[string]struct {
		source model.ImportSource
		files  map[string]string
		state  scan.ImportState
		row    counts // without a value
	}{
		"plausible": {model.ImportPlausible, map[string]string{"imported_visitors.csv": visitors, "imported_pages.csv": pages},
			scan.ImportNoValues, ownVisit},
		"umami": {model.ImportUmami, map[string]string{"u.csv": umami}, scan.ImportIncluded, counts{2, 2, 2, 1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				f := newFixture(t, databaseURL)
				var files []string
				for _, name := range slices.Sorted(maps.Keys(test.files)) {
					files = append(files, file(t, name, test.files[name]))
				}
				f.store(f.read(test.source, files...))

				r := f.report(query(clientDimensions...))
				for i := range clientDimensions {
					f.wantRows(r, i, map[string]counts{"": test.row})
					testkit.Equal(t, r.Imported.Rows[i], test.state, "breakdown %d has the state", i)
				}
			})
		})
	}
}

// TestAbsurdClients checks that no value of a browser makes an import fail.
func TestAbsurdClients(t *testing.T) {
	for _, text := range []string{"", "DE\x01", strings.Repeat("x", 100_000), "Ω", "-1", "=1+1", "null", "  "} {
		quoted := `"` + text + `"`
		umami := "session_id,url_path,event_type,created_at,country,browser,os,device,hostname\n" +
			"s,/,1,2026-02-01 10:00:00" + strings.Repeat(","+quoted, 5) + "\n"
		r, err := importer.Read(model.ImportUmami, []string{file(t, "u.csv", umami)}, everyDay)
		if err != nil || r.Totals.Visits != 1 {
			t.Errorf("%.20q: %v", text, err)
			continue
		}

		scanner := scan.New(query(clientDimensions...))
		testkit.NoError(t, scanner.Add(r.Visits[0]))
		for i, rows := range scanner.Result().Breakdowns {
			for value := range rows.All() {
				if value != "" && value != "Other" {
					t.Errorf("%.20q: breakdown %d has the value %q", text, i, value)
				}
			}
		}
	}
}
