package scan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestScanEqualsNaiveCount compares random queries over random worlds with a count by maps: over
// the days as they were built, encoded and decoded, and over all days merged.
func TestScanEqualsNaiveCount(t *testing.T) {
	for _, z := range oracle.Zones {
		t.Run(z.Name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(z.Name)
			testkit.NoError(t, err)
			first, err := model.ParseDay(z.Day)
			testkit.NoError(t, err)

			seeds := func(from, to uint64) {
				for seed := from; seed < to; seed++ {
					r := rand.New(rand.NewPCG(seed, 17))
					days := oracle.World(r, first, 1+r.IntN(4))
					q := oracle.Query(r, zone, first, len(days))
					q.WithoutRevenue = seed%4 == 0
					compare(t, fmt.Sprintf("seed %d", seed), q, days)
				}
			}
			seeds(0, 30)
			t.Run("more", func(t *testing.T) {
				testkit.SkipLong(t, "many worlds")
				seeds(30, 100)
			})
		})
	}
}

func compare(t *testing.T, name string, q *scan.Query, days []segment.Rows) {
	t.Helper()
	want := oracle.Count(q, days)

	var segments []*segment.Segment
	for _, rows := range days {
		s, err := segment.Build(rows)
		testkit.NoError(t, err)
		if s, err = segment.Decode(s.Encode()); err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}

	// A second series has the figures of the first one for the same points.
	hourly := *q
	hourly.Hours = q.Points
	got := result(t, &hourly, segments)
	oracle.Check(t, name+", days", want, got)
	if !reflect.DeepEqual(got.Hours, got.Points) {
		t.Errorf("%s: hours %+v, points %+v", name, got.Hours, got.Points)
	}

	merged, err := segment.Merge(segments)
	testkit.NoError(t, err)
	oracle.Check(t, name+", merged", want, result(t, q, []*segment.Segment{merged}))

	compareVisitors(t, name, *q, want, segments)
	compareRollups(t, name, *q, days, append(segments, merged))
}

// compareRollups compares a query that rollups can answer with a count by maps. The last segment
// holds the days of all others. Days that the rollup has otherwise than the query are counted from
// the columns.
func compareRollups(t *testing.T, name string, q scan.Query, days []segment.Rows, segments []*segment.Segment) {
	t.Helper()
	q.Filters, q.Funnels, q.Journeys, q.Cohorts, q.Numbers = nil, nil, nil, nil, nil
	q.Breakdowns = []scan.Breakdown{{By: scan.Event}}
	for by := scan.EntryPage; by <= scan.Page; by++ {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: by})
	}
	q.KeyEvents = maps.Clone(q.KeyEvents)
	q.KeyEvents["scroll"] = len(days)%2 == 0
	want := oracle.Count(&q, days)

	q.Breakdowns = slices.Clone(q.Breakdowns)
	for i := range q.Breakdowns {
		q.Breakdowns[i].VisitorsOnly = true
	}
	checkRollups(t, name+", days rolled up", &q, want, segments[:len(segments)-1])
	checkRollups(t, name+", merged and rolled up", &q, want, segments[len(segments)-1:])
}

func checkRollups(t *testing.T, name string, q *scan.Query, want *oracle.Result, segments []*segment.Segment) {
	t.Helper()
	for _, zone := range []*time.Location{q.Zone, time.UTC, time.FixedZone("", 5*60*60)} {
		s := scan.New(q)
		for _, g := range segments {
			rolledUp, parts := scan.RollUp(g, zone).Encode(), g.Encode()
			rollup, texts := decodeRollup(t, rolledUp, parts)
			testkit.NoError(t, s.AddRollup(texts, rollup))
			needed := s.NeedsColumns(texts, rollup.Spans())
			overwrite(append(parts[:], rolledUp)...)
			if !needed {
				continue
			}
			testkit.NoError(t, s.AddRest(g, rollup.Spans()))
		}

		// Rows of events have all figures, the others visitors alone.
		got := s.Result()
		oracle.Check(t, name, &oracle.Result{Totals: want.Totals, Points: want.Points, Breakdowns: want.Breakdowns[:1]}, got)
		for i := range want.Breakdowns {
			checkVisitors(t, fmt.Sprintf("%s in %v: %+v", name, zone, q.Breakdowns[i]), want.Breakdowns[i], got.Breakdowns[i])
		}
	}
}

// decodeRollup decodes the rollup of a segment, and the segment's days and texts.
func decodeRollup(t *testing.T, rollup []byte, parts [segment.Parts][]byte) (*segment.Rollup, *segment.Segment) {
	t.Helper()
	decoded, err := segment.DecodeRollup(rollup)
	testkit.NoError(t, err)
	texts, err := segment.DecodeTexts(parts[segment.PartDays], parts[segment.PartTexts])
	testkit.NoError(t, err)
	return decoded, texts
}

// TestRollupsAreUsed checks which of three days rollups have for a query, and which are counted
// from the columns.
func TestRollupsAreUsed(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	testkit.NoError(t, err)
	first := model.At(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)).Day()
	var segments []*segment.Segment
	busy := oracle.NewBusy(1)
	for n := range model.Day(3) {
		g, err := segment.Build(busy.Day(first+n, 500))
		testkit.NoError(t, err)
		segments = append(segments, g)
	}
	g, err := segment.Merge(segments)
	testkit.NoError(t, err)

	change := func(q *scan.Query, how func(*scan.Query)) *scan.Query {
		how(q)
		return q
	}
	utc, local := oracle.Dashboard(time.UTC, first, 3), oracle.Dashboard(berlin, first, 3)
	for name, c := range map[string]struct {
		query *scan.Query
		zone  *time.Location
		want  string // "c" for each day whose columns are needed
	}{
		"UTC":           {utc, time.UTC, "---"},
		"Berlin":        {local, berlin, "---"},
		"one day":       {oracle.Dashboard(berlin, first+1, 1), berlin, "---"},
		"UTC in Berlin": {utc, berlin, "ccc"},
		"Berlin in UTC": {local, time.UTC, "ccc"},
		"filter":        {oracle.Filtered(utc, scan.Page, "/"), time.UTC, "ccc"},
		"unknown event": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Properties = &scan.PropertyNames{Event: "none"} }),
			zone:  berlin, want: "---",
		},
		"properties": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Properties = &scan.PropertyNames{Event: "signup"} }),
			zone:  berlin, want: "ccc",
		},
		"numbers": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Numbers = oracle.AllNumbers("signup", "n")[:1] }),
			zone:  berlin, want: "ccc",
		},
		"other figures": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Breakdowns[0].VisitorsOnly = false }),
			zone:  berlin, want: "ccc",
		},
		"until a time": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Until = q.To.Start(berlin).Add(time.Hour) }),
			zone:  berlin, want: "-c-",
		},
		"points of an hour": {
			query: change(oracle.Dashboard(berlin, first, 3), func(q *scan.Query) { q.Points[1] = q.Points[1].Add(2 * time.Hour) }),
			zone:  berlin, want: "-c-",
		},
	} {
		rollup, texts := decodeRollup(t, scan.RollUp(g, c.zone).Encode(), g.Encode())
		got := ""
		for _, columns := range scan.New(c.query).Rest(texts, rollup.Spans()) {
			got += map[bool]string{true: "c", false: "-"}[columns]
		}
		testkit.Equal(t, got, c.want, "%s", name)
	}
}

// compareVisitors checks that breakdowns by visitors alone have the same rows with the same
// visitors.
func compareVisitors(t *testing.T, name string, q scan.Query, want *oracle.Result, segments []*segment.Segment) {
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

// result counts a query over segments. The memory of each is overwritten once it was added.
func result(t *testing.T, q *scan.Query, segments []*segment.Segment) *scan.Result {
	t.Helper()
	s := scan.New(q)
	for _, g := range segments {
		parts := g.Encode()
		decoded, err := segment.Decode(parts)
		testkit.NoError(t, err)
		testkit.NoError(t, s.Add(decoded))
		overwrite(parts[:]...)
	}
	return s.Result()
}

func overwrite(parts ...[]byte) {
	for _, part := range parts {
		for i := range part {
			part[i] = 0xff
		}
	}
}
