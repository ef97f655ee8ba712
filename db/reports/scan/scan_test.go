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
		found := maps.Collect(got.Breakdowns[i].All())
		if len(found) != len(rows) || got.Breakdowns[i].Len() != len(rows) {
			t.Fatalf("%s: visitors by %+v: %d rows, want %d", name, q.Breakdowns[i], len(found), len(rows))
		}
		for value, row := range rows {
			only, ok := found[value]
			if !ok || only.Visitors != row.Visitors || got.Breakdowns[i].Of(value).Visitors != row.Visitors {
				t.Fatalf("%s: visitors by %+v of %q: %d (%v), want %d", name, q.Breakdowns[i], value, only.Visitors, ok, row.Visitors)
			}
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
