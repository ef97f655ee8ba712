package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

const worldDays = 6

// download fetches an export page by page, as its documentation says, and returns the files.
func download(t *testing.T, client *http.Client, address string, parameters url.Values) (paths []string) {
	t.Helper()
	const limit = 7
	parameters.Set("limit", strconv.Itoa(limit))

	for {
		response, err := client.Get(address + "?" + parameters.Encode())
		testkit.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s, error %v", parameters, response.Status, body, err)
		}

		path := filepath.Join(t.TempDir(), parameters.Get("type")+"."+parameters.Get("format"))
		testkit.NoError(t, os.WriteFile(path, body, 0o600))
		paths = append(paths, path)

		rows, err := readFile(path)
		testkit.NoError(t, err)
		if len(rows) < limit {
			return paths
		}
		parameters.Set("cursor", rows[len(rows)-1].RowID)
	}
}

// downloadAll downloads the site's rows in a format, and returns the arguments that name the files.
func downloadAll(t *testing.T, d *db.DB, site *model.Site, format string, first model.Day) (args []string) {
	t.Helper()
	ids, err := keys.New(d).NodeIDs(t.Context())
	testkit.NoError(t, err)
	owner := &model.User{ID: 1, AccountID: site.AccountID, Role: model.RoleOwner}
	server := httptest.NewServer(export.Handler(export.Options{
		DB: d, User: func(*http.Request) (*model.User, error) { return owner, nil },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))
	defer server.Close()

	for _, kind := range []string{"pageviews", "events"} {
		for _, path := range download(t, server.Client(), server.URL+export.Path, url.Values{
			"site_id": {nodeid.Of(ids, site.ID)}, "type": {kind}, "format": {format},
			"from": {(first - 2).String()}, "to": {(first + worldDays + 2).String()},
		}) {
			args = append(args, "--"+kind, path)
		}
	}
	if len(args) < 2*4 {
		t.Fatalf("%d files, want several of each kind", len(args)/2)
	}
	return args
}

// TestReportsEqualARecount asks the service for 100 random reports on each database, after the days
// were built, and counts each again from downloaded files of the export alone: JSON and CSV in
// turn.
func TestReportsEqualARecount(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		random := rand.New(rand.NewPCG(17, 200))
		site := world.New(t, d).Site("example.com")

		// Daylight saving ends in New York on 1 November.
		first := model.At(time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC)).Day()
		testkit.NoError(t, oracle.Store(t.Context(), d, int64(site.ID), oracle.World(random, first, worldDays)...))
		now := (first + worldDays).Start().Add(time.Hour)
		dbtest.SetClock(d, now.Time)
		store := reports.New(d)
		if _, err := store.Plan(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if built, err := store.BuildDue(t.Context()); err != nil || built.Days == 0 {
			t.Fatalf("built %+v, error %v", built, err)
		}

		// The server's files, in both forms.
		files := [][]string{downloadAll(t, d, site, "json", first), downloadAll(t, d, site, "csv", first)}

		counted, followed, users, numbers := 0, int64(0), int64(0), int64(0)
		for i := range 100 {
			q, args := randomReport(random, first)
			args = append(args, files[i%2]...)
			var out, log bytes.Buffer
			if status := execute(args, &out, &log); status != 0 {
				t.Fatalf("%q: status %d, %s", args, status, log.String())
			}
			answer, err := store.Report(t.Context(), reports.Request{SiteID: site.ID, Now: now, Periods: []*scan.Query{q}})
			testkit.NoError(t, err)
			result := answer.Results[0]
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetIndent("", "  ")
			expected := report{
				Totals: result.Totals, Days: result.Points, Rows: maps.Collect(result.Breakdowns[0].All()), Cohorts: result.Cohorts,
			}
			if len(result.Journeys) > 0 {
				expected.Journey = result.Journeys[0]
				followed += expected.Journey.Visits
			}
			for i := range result.Cohorts {
				users += result.Cohorts[i].Users
			}
			for _, n := range result.Numbers {
				expected.Numbers = append(expected.Numbers, oracle.ByGroup(n))
			}
			if len(result.Numbers) > 0 {
				numbers += result.Numbers[0].Figures[0].Numbers
			}
			if len(result.Funnels) > 0 {
				expected.Funnel = result.Funnels[0]
			}
			testkit.NoError(t, encoder.Encode(expected))
			if out.String() != want.String() {
				t.Fatalf("%q: the recount is %s, the report %s", args, out.String(), want.String())
			}
			counted += int(result.Totals.Pageviews)
		}
		if counted < 500 {
			t.Errorf("all reports together have %d page views", counted)
		}
		if followed < 100 || users < 20 || numbers < 20 {
			t.Errorf("all journeys together have %d visits, all cohorts %d user ids, all questions %d numbers", followed, users, numbers)
		}
	})
}

// randomReport returns a query of the service and the same as a command line.
func randomReport(random *rand.Rand, first model.Day) (*scan.Query, []string) {
	zone := []string{"UTC", "America/New_York", "Asia/Kathmandu"}[random.IntN(3)]
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	from := scan.DateOf(first.Start().Time()).AddDays(random.IntN(worldDays+1) - 1)
	to := from.AddDays(random.IntN(4))
	names := make([]string, 0, len(dimensions))
	for name := range dimensions {
		names = append(names, name)
	}
	slices.Sort(names)

	q := &scan.Query{Zone: location, From: from, To: to, KeyEvents: map[string]bool{"purchase": true, "signup": true}}
	for day := from; day.Compare(to.AddDays(1)) <= 0; day = day.AddDays(1) {
		q.Points = append(q.Points, day.Start(location))
	}

	by := names[random.IntN(len(names))]
	args := []string{"--zone", zone, "--from", from.String(), "--to", to.String(), "--by", by, "--key-events", "signup"}
	breakdown := scan.Breakdown{By: dimensions[by]}
	if by == "PROPERTY" {
		breakdown.Property = "plan"
		args = append(args, "--property", "plan")
	}
	q.Breakdowns = []scan.Breakdown{breakdown}

	if random.IntN(2) == 0 {
		var funnel scan.Funnel
		for range 2 + random.IntN(2) {
			step := []string{"PAGE /*", "PAGE /a", "PAGE /b", "EVENT signup", "EVENT scroll"}[random.IntN(5)]
			args = append(args, "--step", step)
			if pattern, ok := strings.CutPrefix(step, "PAGE "); ok {
				funnel.Steps = append(funnel.Steps, scan.Step{Page: pattern})
				continue
			}
			funnel.Steps = append(funnel.Steps, scan.Step{Event: strings.TrimPrefix(step, "EVENT ")})
		}
		q.Funnels = []scan.Funnel{funnel}
	}

	if random.IntN(2) == 0 {
		journey := scan.Journey{From: scan.Step{Page: "/*"}, Steps: scan.MaxJourneySteps}
		step := "PAGE /*"
		if random.IntN(3) == 0 {
			journey.From, step = scan.Step{Event: "signup"}, "EVENT signup"
		}
		args = append(args, "--journey", step)
		if journey.Before = random.IntN(2) == 0; journey.Before {
			args = append(args, "--before")
		}
		q.Journeys = []scan.Journey{journey}
	}
	if random.IntN(2) == 0 {
		args = append(args, "--cohorts", from.String())
		q.Cohorts = &scan.Cohorts{First: from.Monday(), Weeks: from.Monday().DaysUntil(to)/daysOfWeek + 1}
	}

	if random.IntN(2) == 0 {
		event := []string{"signup", "scroll", "purchase"}[random.IntN(3)]
		args = append(args, "--numbers", event+":n")
		q.Numbers = numbersOf(event, "n", dimensions[by])
	}

	for range random.IntN(3) {
		by, property := names[random.IntN(len(names))], ""
		dimension := by
		if by == "PROPERTY" {
			property, dimension = "plan", "PROPERTY:plan"
		}
		operator := []string{"IS", "IS_NOT", "CONTAINS", "CONTAINS_NOT", "MATCHES", "MATCHES_NOT"}[random.IntN(6)]
		value := []string{"/", "/a", "/A", "/*", "direct", "NEWS", "signup", "pro", "*r*", "1", "en", "**.example**"}[random.IntN(12)]
		if strings.HasPrefix(operator, "IS") && random.IntN(4) == 0 {
			value = ""
		}
		args = append(args, "--filter", strings.Join([]string{dimension, operator, value}, " "))

		q.Filters = append(q.Filters, scan.Filter{
			Breakdown: scan.Breakdown{By: dimensions[by], Property: property},
			Operator:  model.ReportOperator(operator), Values: []string{value},
		})
	}
	return q, args
}

// TestCommandLine checks that wrong arguments and files are refused.
func TestCommandLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pageviews.json")
	testkit.NoError(t, os.WriteFile(path, []byte("[]"), 0o600))
	broken := filepath.Join(t.TempDir(), "broken.json")
	testkit.NoError(t, os.WriteFile(broken, []byte("[{"), 0o600))

	spreadsheet := filepath.Join(t.TempDir(), "other.csv")
	testkit.NoError(t, os.WriteFile(spreadsheet, []byte("name,price\nx,1\n"), 0o600))

	for _, test := range []struct {
		args   string
		status int
	}{
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01", 0},
		{"--pageviews " + path + " --from 2026-11-02 --to 2026-11-01", 1},
		{"--pageviews " + path + " --from 2026-11-31 --to 2026-12-01", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --zone Mars/Olympus", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --by CITY", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --by PROPERTY", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --filter PAGE", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --step PAGE", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --journey PAGE", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --cohorts monday", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --cohorts 2026-11-02", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --cohorts 2025-11-01", 0},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --cohorts 2025-10-01", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --numbers vitals:lcp", 0},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --numbers vitals", 1},
		{"--pageviews " + broken + " --from 2026-11-01 --to 2026-11-01", 1},
		{"--pageviews " + path + ".missing --from 2026-11-01 --to 2026-11-01", 1},
		{"--pageviews " + spreadsheet + " --from 2026-11-01 --to 2026-11-01", 1},
		{"--from 2026-11-01 --to 2026-11-01", 2},
		{"--help", 0},
	} {
		var out, log bytes.Buffer
		if status := execute(strings.Fields(test.args), &out, &log); status != test.status || status != 0 && log.Len() == 0 {
			t.Errorf("%s: status %d, want %d; %s", test.args, status, test.status, log.String())
		}
	}
}

// TestMatchPattern checks the patterns of filters.
func TestMatchPattern(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"*", "", true}, {"*", "a/b", false}, {"**", "a/b", true},
		{"/blog/*", "/blog/1", true}, {"/blog/*", "/blog/1/2", false}, {"/blog/**", "/blog/1/2", true},
		{"*.pdf", "a.pdf", true}, {"*.pdf", "a.pdf.gz", false}, {"/*/x", "/a/x", true}, {"/*/x", "/a/b/x", false},
		{"/***/x", "/a/b/x", true}, {"a.c", "abc", false},
	} {
		testkit.Equal(t, oracle.MatchPattern(test.pattern, test.text), test.want, "%q of %q", test.pattern, test.text)
	}
}

// TestCSV checks the columns of CSV, and that text is what it was before the export made it safe
// for spreadsheets.
func TestCSV(t *testing.T) {
	const header = "row_id,time,event,path,value,currency,properties,visitor_id,visit_id,visit_started_at,engaged_ms,scroll_percent,manual\r\n"
	for _, test := range []struct {
		line string
		want oracle.Row
	}{
		{`1-2,2026-11-01T10:00:00.5Z,'=1+1,"/a;'@b",-1.50,EUR,"{""plan"":""=\u003bx""}",0a,v,2026-11-01T09:00:00Z,,,`, oracle.Row{
			RowID: "1-2", Time: time.Date(2026, 11, 1, 10, 0, 0, 5e8, time.UTC), Event: "=1+1", Path: "/a;@b", Value: "-1.50",
			Currency: "EUR", Properties: json.RawMessage(`{"plan":"=\u003bx"}`), VisitorID: "0a", VisitID: "v",
			StartedAt: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
		}},
		{`1-2,2026-11-01T10:00:00Z,'tis,"''=",,,,0a,v,2026-11-01T09:00:00Z,1500,40,true`, oracle.Row{
			RowID: "1-2", Time: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC), Event: "'tis", Path: "''=", VisitorID: "0a",
			VisitID: "v", StartedAt: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC), Engaged: 1500, Scroll: 40,
		}},
	} {
		rows, err := readCSV(strings.NewReader(header + test.line + "\r\n"))
		if err != nil || len(rows) != 1 || !reflect.DeepEqual(rows[0], test.want) {
			t.Errorf("%s: error %v, got %+v", test.line, err, rows)
		}
	}

	for _, line := range []string{"1-2,yesterday,,,,,,0a,v,,,,", "1-2,,,,,,,0a,v,,99999999999,,", "1-2,,,"} {
		if rows, err := readCSV(strings.NewReader(header + line + "\r\n")); err == nil {
			t.Errorf("%s: %+v", line, rows)
		}
	}
}
