package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/recount"
	"github.com/tallygate/tallygate/db/reports/scan"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

const worldDays = 6

// writeExport writes an export of page views or events as the service sends it.
func writeExport(t *testing.T, path string, export func(add func([]exports.Field) error) error) {
	t.Helper()
	text := []byte("[")
	err := export(func(fields []exports.Field) error {
		if len(text) > 1 {
			text = append(text, ',', '\n')
		}
		var err error
		text, err = exports.AppendJSON(text, fields)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, ']'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReportsEqualARecount asks the service for 100 random reports on each database, after the days
// were built, and counts each again from the files of the export alone.
func TestReportsEqualARecount(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		random := rand.New(rand.NewPCG(17, 200))
		site := dbtest.NewOwnSite(t, d, "example.com")

		// Daylight saving ends in New York on 1 November.
		first := model.At(time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC)).Day()
		if err := recount.Store(t.Context(), d, site.ID, recount.World(random, first, worldDays)...); err != nil {
			t.Fatal(err)
		}
		now := (first + worldDays).Start().Add(time.Hour)
		dbtest.SetClock(d, now.Time)
		store := reports.New(d)
		if _, err := store.Plan(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if built, err := store.BuildDue(t.Context()); err != nil || built.Days == 0 {
			t.Fatalf("built %+v, error %v", built, err)
		}

		views, events := filepath.Join(t.TempDir(), "pageviews.json"), filepath.Join(t.TempDir(), "events.json")
		all := exports.Range{SiteID: site.ID, To: 1 << 60, Limit: 1 << 30}
		writeExport(t, views, func(add func([]exports.Field) error) error {
			return exports.New(d).ExportPageviews(t.Context(), all, func(p *exports.Pageview) error { return add(p.Fields()) })
		})
		writeExport(t, events, func(add func([]exports.Field) error) error {
			return exports.New(d).ExportEvents(t.Context(), all, func(e *exports.Event) error { return add(e.Fields()) })
		})

		counted := 0
		for range 100 {
			q, args := randomReport(random, first)
			args = append(args, "--pageviews", views, "--events", events)
			var out, log bytes.Buffer
			if status := execute(args, &out, &log); status != 0 {
				t.Fatalf("%q: status %d, %s", args, status, log.String())
			}
			answer, err := store.Report(t.Context(), reports.Request{SiteID: site.ID, Now: now, Periods: []*scan.Query{q}})
			if err != nil {
				t.Fatal(err)
			}
			result := answer.Results[0]
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(report{result.Totals, result.Points, maps.Collect(result.Breakdowns[0].All())}); err != nil {
				t.Fatal(err)
			}
			if out.String() != want.String() {
				t.Fatalf("%q: the recount is %s, the report %s", args, out.String(), want.String())
			}
			counted += int(result.Totals.Pageviews)
		}
		if counted < 500 {
			t.Errorf("all reports together have %d page views", counted)
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

	for range random.IntN(3) {
		by, property := names[random.IntN(len(names))], ""
		dimension := by
		if by == "PROPERTY" {
			property, dimension = "plan", "PROPERTY:plan"
		}
		operator := []string{"IS", "IS_NOT", "CONTAINS", "CONTAINS_NOT", "MATCHES", "MATCHES_NOT"}[random.IntN(6)]
		value := []string{"/", "/a", "/A", "/*", "direct", "NEWS", "signup", "pro", "*r*", "1", "en", "**.example**"}[random.IntN(12)]
		args = append(args, "--filter", strings.Join([]string{dimension, operator, value}, " "))

		f := model.ReportFilter{Operator: model.ReportOperator(operator), Values: []string{value}}
		q.Filters = append(q.Filters, scan.Filter{Breakdown: scan.Breakdown{By: dimensions[by], Property: property},
			Not: f.Operator.IsNegative(), Match: f.Matcher()})
	}
	return q, args
}

// TestCommandLine checks that wrong arguments and files are refused.
func TestCommandLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pageviews.json")
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		args   string
		status int
	}{
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01", 0},
		{"--pageviews " + path + " --from 2026-11-02 --to 2026-11-01", 1},
		{"--pageviews " + path + " --from 2026-11-31 --to 2026-12-01", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --zone Mars/Olympus", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --by COUNTRY", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --by PROPERTY", 1},
		{"--pageviews " + path + " --from 2026-11-01 --to 2026-11-01 --filter PAGE", 1},
		{"--pageviews " + broken + " --from 2026-11-01 --to 2026-11-01", 1},
		{"--pageviews " + path + ".missing --from 2026-11-01 --to 2026-11-01", 1},
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
		if got := matchPattern(test.pattern, test.text); got != test.want {
			t.Errorf("%q of %q: %v", test.pattern, test.text, got)
		}
	}
}
