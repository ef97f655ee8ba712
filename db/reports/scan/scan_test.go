package scan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/recount"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// TestScanEqualsNaiveCount compares random queries over random worlds with a count by maps: over
// the days as they were built, encoded and decoded, and over all days merged.
func TestScanEqualsNaiveCount(t *testing.T) {
	for _, z := range recount.Zones {
		t.Run(z.Name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(z.Name)
			if err != nil {
				t.Fatal(err)
			}
			first, err := model.ParseDay(z.Day)
			if err != nil {
				t.Fatal(err)
			}

			for seed := range uint64(100) {
				r := rand.New(rand.NewPCG(seed, 17))
				days := recount.World(r, first, 1+r.IntN(4))
				q := recount.Query(r, zone, first, len(days))
				compare(t, fmt.Sprintf("seed %d", seed), q, days)
			}
		})
	}
}

func compare(t *testing.T, name string, q *scan.Query, days []segment.Rows) {
	t.Helper()
	want := recount.Count(q, days)

	var segments []*segment.Segment
	for _, rows := range days {
		s, err := segment.Build(rows)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if s, err = segment.Decode(parts); err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	recount.Check(t, name+", days", want, result(t, q, segments))

	merged, err := segment.Merge(segments)
	if err != nil {
		t.Fatal(err)
	}
	recount.Check(t, name+", merged", want, result(t, q, []*segment.Segment{merged}))

	compareVisitors(t, name, *q, want, segments)
	compareRollups(t, name, *q, days, append(segments, merged))
}

// compareRollups compares a query that rollups can answer with a count by maps. The last segment
// holds the days of all others. Rollups of other days than the query's must be refused.
func compareRollups(t *testing.T, name string, q scan.Query, days []segment.Rows, segments []*segment.Segment) {
	t.Helper()
	q.Filters, q.Breakdowns = nil, []scan.Breakdown{{By: scan.Event}}
	for by := scan.EntryPage; by <= scan.Page; by++ {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: by})
	}
	q.KeyEvents = maps.Clone(q.KeyEvents)
	q.KeyEvents["scroll"] = len(days)%2 == 0
	want := recount.Count(&q, days)

	q.Breakdowns = slices.Clone(q.Breakdowns)
	for i := range q.Breakdowns {
		q.Breakdowns[i].VisitorsOnly = true
	}
	checkRollups(t, name+", days rolled up", &q, want, segments[:len(segments)-1])
	checkRollups(t, name+", merged and rolled up", &q, want, segments[len(segments)-1:])
}

func checkRollups(t *testing.T, name string, q *scan.Query, want *recount.Result, segments []*segment.Segment) {
	t.Helper()
	for _, zone := range []*time.Location{q.Zone, time.UTC, time.FixedZone("", 5*60*60)} {
		s := scan.New(q)
		for _, g := range segments {
			rollup, texts := rollUp(t, g, zone)
			if !s.CanAdd(texts, rollup) {
				if err := s.Add(g); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := s.AddRollup(texts, rollup); err != nil {
				t.Fatal(err)
			}
		}

		// Rows of events have all figures, the others visitors alone.
		got := s.Result()
		recount.Check(t, name, &recount.Result{Totals: want.Totals, Points: want.Points, Breakdowns: want.Breakdowns[:1]}, got)
		for i := range want.Breakdowns {
			checkVisitors(t, fmt.Sprintf("%s in %v: %+v", name, zone, q.Breakdowns[i]), want.Breakdowns[i], got.Breakdowns[i])
		}
	}
}

// rollUp returns the decoded rollup of a segment, and the segment's days and texts.
func rollUp(t *testing.T, g *segment.Segment, zone *time.Location) (*segment.Rollup, *segment.Segment) {
	t.Helper()
	rollup, err := segment.DecodeRollup(scan.RollUp(g, zone).Encode())
	if err != nil {
		t.Fatal(err)
	}
	parts, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	texts, err := segment.DecodeTexts(parts[segment.PartDays], parts[segment.PartTexts])
	if err != nil {
		t.Fatal(err)
	}
	return rollup, texts
}

// TestRollupsAreUsed checks which queries rollups answer.
func TestRollupsAreUsed(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	first := model.At(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)).Day()
	var segments []*segment.Segment
	busy := recount.NewBusy(1)
	for n := range model.Day(3) {
		g, err := segment.Build(busy.Day(first+n, 500))
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, g)
	}
	g, err := segment.Merge(segments)
	if err != nil {
		t.Fatal(err)
	}

	change := func(q *scan.Query, how func(*scan.Query)) *scan.Query {
		how(q)
		return q
	}
	utc, local := recount.Dashboard(time.UTC, first, 3), recount.Dashboard(berlin, first, 3)
	for name, c := range map[string]struct {
		query *scan.Query
		zone  *time.Location
		want  bool
	}{
		"UTC":               {utc, time.UTC, true},
		"Berlin":            {local, berlin, true},
		"one day":           {recount.Dashboard(berlin, first+1, 1), berlin, true},
		"UTC in Berlin":     {utc, berlin, false},
		"Berlin in UTC":     {local, time.UTC, false},
		"filter":            {recount.Filtered(utc, scan.Page, "/"), time.UTC, false},
		"unknown event":     {change(recount.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Properties = &scan.PropertyNames{Event: "none"} }), berlin, true},
		"properties":        {change(recount.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Properties = &scan.PropertyNames{Event: "signup"} }), berlin, false},
		"other figures":     {change(recount.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Breakdowns[0].VisitorsOnly = false }), berlin, false},
		"until a time":      {change(recount.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Until = q.To.Start(berlin).Add(time.Hour) }), berlin, false},
		"points of an hour": {change(recount.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Points[1] = q.Points[1].Add(2 * time.Hour) }), berlin, false},
	} {
		rollup, texts := rollUp(t, g, c.zone)
		if got := scan.New(c.query).CanAdd(texts, rollup); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// compareVisitors checks that breakdowns by visitors alone have the same rows with the same visitors.
func compareVisitors(t *testing.T, name string, q scan.Query, want *recount.Result, segments []*segment.Segment) {
	t.Helper()

	q.Breakdowns = slices.Clone(q.Breakdowns)
	for i := range q.Breakdowns {
		q.Breakdowns[i].VisitorsOnly = true
	}
	got := result(t, &q, segments)

	for i, rows := range want.Breakdowns {
		checkVisitors(t, fmt.Sprintf("%s by %+v", name, q.Breakdowns[i]), rows, got.Breakdowns[i])
	}
}

// checkVisitors checks that a breakdown has the same rows with the same visitors.
func checkVisitors(t *testing.T, name string, want map[string]scan.Figures, got *scan.Rows) {
	t.Helper()
	found := maps.Collect(got.All())
	if len(found) != len(want) || got.Len() != len(want) {
		t.Fatalf("%s: visitors of %d rows, want %d", name, len(found), len(want))
	}
	for value, row := range want {
		only, ok := found[value]
		if !ok || only.Visitors != row.Visitors || got.Of(value).Visitors != row.Visitors {
			t.Fatalf("%s: visitors of %q: %d (%v), want %d", name, value, only.Visitors, ok, row.Visitors)
		}
	}
}

func result(t *testing.T, q *scan.Query, segments []*segment.Segment) *scan.Result {
	t.Helper()
	s := scan.New(q)
	for _, g := range segments {
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	return s.Result()
}
