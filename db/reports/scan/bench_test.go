package scan_test

import (
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	busyDays  = 30
	busyViews = 27_400 // a day; 10 million a year
)

var busyFirst = model.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Day()

// busyMonth is a month of a busy site: a merged segment of 8 days, then 22 single days.
var busyMonth = sync.OnceValues(func() ([][segment.Parts][]byte, error) {
	const mergedDays = 8
	var all [][segment.Parts][]byte
	var first []*segment.Segment
	store := func(g *segment.Segment, err error) error {
		if err != nil {
			return err
		}
		all = append(all, g.Encode())
		return nil
	}

	b := oracle.NewBusy(1)
	for n := range model.Day(busyDays) {
		g, err := segment.Build(b.Day(busyFirst+n, busyViews))
		if n < mergedDays && err == nil {
			first = append(first, g)
			if n < mergedDays-1 {
				continue
			}
			g, err = segment.Merge(first)
		}
		if err := store(g, err); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func busySegments(b *testing.B) []*segment.Segment {
	b.Helper()
	scan.UseLargeBlocks()
	encoded, err := busyMonth()
	testkit.NoError(b, err)

	all := make([]*segment.Segment, len(encoded))
	for i, parts := range encoded {
		if all[i], err = segment.Decode(parts); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// BenchmarkDecode decodes a month of 10 million page views a year.
func BenchmarkDecode(b *testing.B) {
	busySegments(b)
	b.ReportAllocs()
	for b.Loop() {
		busySegments(b)
	}
}

// BenchmarkDashboard counts a dashboard over 30 days of 10 million page views a year.
func BenchmarkDashboard(b *testing.B) {
	segments := busySegments(b)
	berlin, err := time.LoadLocation("Europe/Berlin")
	testkit.NoError(b, err)

	all := oracle.Dashboard(time.UTC, busyFirst, busyDays)
	for _, c := range []struct {
		name  string
		query *scan.Query
	}{
		{"all", all},
		{"berlin", oracle.Dashboard(berlin, busyFirst, busyDays)},
		{"page", oracle.Filtered(all, scan.Page, oracle.BusyPath(10))},
		{"channel", oracle.Filtered(all, scan.Channel, "organic search")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := scan.New(c.query)
				for _, g := range segments {
					testkit.NoError(b, s.Add(g))
				}
				if s.Result().Totals.Pageviews == 0 {
					b.Fatal("nothing was counted")
				}
			}
		})
	}
}

// BenchmarkRollups counts the dashboard of BenchmarkDashboard from rollups.
func BenchmarkRollups(b *testing.B) {
	encoded, err := busyMonth()
	testkit.NoError(b, err)
	segments := busySegments(b)
	rollups := make([][]byte, len(segments))
	size := 0
	for i, g := range segments {
		rollups[i] = scan.RollUp(g, time.UTC).Encode()
		size += len(rollups[i])
	}

	query := oracle.Dashboard(time.UTC, busyFirst, busyDays)
	b.ReportAllocs()
	for b.Loop() {
		s := scan.New(query)
		for i := range rollups {
			rollup, err := segment.DecodeRollup(rollups[i])
			testkit.NoError(b, err)
			texts, err := segment.DecodeTexts(encoded[i][segment.PartDays], encoded[i][segment.PartTexts])
			if err != nil || s.NeedsColumns(texts, rollup.Spans()) {
				b.Fatal("the rollup cannot be added", err)
			}
			testkit.NoError(b, s.AddRollup(texts, rollup))
		}
		if s.Result().Totals.Pageviews == 0 {
			b.Fatal("nothing was counted")
		}
	}
	b.ReportMetric(float64(size)/busyDays/busyViews, "B/pageview")
}

// BenchmarkRollUp counts the rollup of a day.
func BenchmarkRollUp(b *testing.B) {
	segments := busySegments(b)
	berlin, err := time.LoadLocation("Europe/Berlin")
	testkit.NoError(b, err)
	for _, zone := range []*time.Location{time.UTC, berlin} {
		b.Run(zone.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scan.RollUp(segments[len(segments)-1], zone).Encode()
			}
		})
	}
}

// BenchmarkFollowing counts a funnel, a journey or cohorts over 30 days of 10 million page views a
// year, and nothing else.
func BenchmarkFollowing(b *testing.B) {
	segments := busySegments(b)
	from := scan.DateOfNumber(busyFirst)
	home, second := scan.Step{Page: oracle.BusyPath(0)}, scan.Step{Page: oracle.BusyPath(1)}
	for _, c := range []struct {
		name  string
		query scan.Query
	}{
		{"nothing", scan.Query{}},
		{"funnel", scan.Query{Funnels: []scan.Funnel{{Steps: []scan.Step{home, second, {Event: "signup"}}}}}},
		{"journey", scan.Query{Journeys: []scan.Journey{{From: home, Steps: 3}}}},
		{"journey-before", scan.Query{Journeys: []scan.Journey{{From: second, Before: true, Steps: 3}}}},
		{"journey-all", scan.Query{Journeys: []scan.Journey{{From: scan.Step{Page: "**"}, Steps: 3}}}},
		{"cohorts", scan.Query{Cohorts: &scan.Cohorts{First: from.Monday(), Weeks: 5}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			query := c.query
			query.Zone, query.From, query.To = time.UTC, from, from.AddDays(busyDays-1)
			b.ReportAllocs()
			for b.Loop() {
				budget := scan.NewBudget(128 << 20)
				s := scan.NewWithin(b.Context(), &query, budget)
				for _, g := range segments {
					testkit.NoError(b, s.Add(g))
				}
				s.Result()
				b.ReportMetric(float64(budget.Used()), "budget-B")
			}
		})
	}
}

// BenchmarkSourceNames counts visitors by source and by name of the source, and with a filter by
// each, over 30 days of 10 million page views a year: from columns and from rollups.
func BenchmarkSourceNames(b *testing.B) {
	segments := busySegments(b)
	rollups := make([]*segment.Rollup, len(segments))
	for i, g := range segments {
		var err error
		if rollups[i], err = segment.DecodeRollup(scan.RollUp(g, time.UTC).Encode()); err != nil {
			b.Fatal(err)
		}
	}
	columns := func(s *scan.Scanner, i int) error { return s.Add(segments[i]) }
	rolledUp := func(s *scan.Scanner, i int) error { return s.AddRollup(segments[i], rollups[i]) }

	for _, c := range []struct {
		name     string
		by       scan.Dimension
		filtered bool
		add      func(s *scan.Scanner, i int) error
	}{
		{"columns/source", scan.Source, false, columns}, {"columns/name", scan.SourceName, false, columns},
		{"filtered/source", scan.Source, true, columns}, {"filtered/name", scan.SourceName, true, columns},
		{"rollups/source", scan.Source, false, rolledUp}, {"rollups/name", scan.SourceName, false, rolledUp},
	} {
		b.Run(c.name, func(b *testing.B) {
			from := scan.DateOfNumber(busyFirst)
			query := &scan.Query{Zone: time.UTC, From: from, To: from.AddDays(busyDays - 1),
				Breakdowns: []scan.Breakdown{{By: c.by, VisitorsOnly: true}}}
			if c.filtered {
				query = oracle.Filtered(query, c.by, "newsletter")
			}

			b.ReportAllocs()
			for b.Loop() {
				s := scan.New(query)
				for i := range segments {
					testkit.NoError(b, c.add(s, i))
				}
				if s.Result().Breakdowns[0].Of("newsletter").Visitors == 0 {
					b.Fatal("nothing was counted")
				}
			}
		})
	}
}
