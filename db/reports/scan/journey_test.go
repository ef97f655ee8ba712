package scan_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

var journeyDay = model.At(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)).Day() // a Monday

// visitOf is a visit with page views and events, one a second: "/a" is a page view, "signup" an
// event.
func visitOf(rows *segment.Rows, visitor, n int, user string, hits ...string) {
	key := segment.VisitKey{Visitor: model.VisitorID{byte(visitor), byte(visitor >> 8)}, N: int16(n)}
	start := rows.Day.Start().Add(time.Duration(n) * time.Hour)
	rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: start, Channel: "direct", UserID: user})
	for i, hit := range hits {
		at, id := start.Add(time.Duration(i)*time.Second), int64(i+1)
		if strings.HasPrefix(hit, "/") {
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: id, Path: hit, Width: -1})
			continue
		}
		rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: id, Name: hit, Path: "/"})
	}
}

// tree writes a journey in one line: each node with its visits, and the nodes below in brackets.
func tree(n *scan.JourneyNode) string {
	name := n.Page
	if n.End {
		name = "end"
	}
	text := fmt.Sprintf("%s %d", name, n.Visits)
	if len(n.Next) == 0 {
		return text
	}
	below := make([]string, len(n.Next))
	for i := range n.Next {
		below[i] = tree(&n.Next[i])
	}
	return text + " (" + strings.Join(below, ", ") + ")"
}

// TestJourneys checks what counts as a step, in visits of one visitor each.
func TestJourneys(t *testing.T) {
	page, event := scan.Step{Page: "/a"}, scan.Step{Event: "signup"}
	for name, test := range map[string]struct {
		visits  []string // hits, separated by blanks
		journey scan.Journey
		want    string
	}{
		"none":                {[]string{"/b"}, scan.Journey{From: page, Steps: 3}, " 0"},
		"the end":             {[]string{"/a"}, scan.Journey{From: page, Steps: 3}, " 1 (end 1)"},
		"the beginning":       {[]string{"/a /b"}, scan.Journey{From: page, Before: true, Steps: 3}, " 1 (end 1)"},
		"one step":            {[]string{"/a /b /c", "/a /b"}, scan.Journey{From: page, Steps: 1}, " 2 (/b 2)"},
		"three steps":         {[]string{"/a /b /c /d /e"}, scan.Journey{From: page, Steps: 3}, " 1 (/b 1 (/c 1 (/d 1)))"},
		"three steps back":    {[]string{"/e /d /c /b /a"}, scan.Journey{From: page, Before: true, Steps: 3}, " 1 (/b 1 (/c 1 (/d 1)))"},
		"repeated views":      {[]string{"/a /a /b /b /c"}, scan.Journey{From: page, Steps: 3}, " 1 (/b 1 (/c 1 (end 1)))"},
		"repeated views back": {[]string{"/c /b /b /a"}, scan.Journey{From: page, Before: true, Steps: 3}, " 1 (/b 1 (/c 1 (end 1)))"},
		"back to the start":   {[]string{"/a /b /a"}, scan.Journey{From: page, Steps: 3}, " 1 (/b 1 (/a 1 (end 1)))"},
		"the first view":      {[]string{"/c /a /b /a /d"}, scan.Journey{From: page, Steps: 1}, " 1 (/b 1)"},
		"the first view back": {[]string{"/c /a /b /a"}, scan.Journey{From: page, Before: true, Steps: 1}, " 1 (/c 1)"},
		"events between":      {[]string{"/a scroll /a scroll /b"}, scan.Journey{From: page, Steps: 1}, " 1 (/b 1)"},
		"a pattern":           {[]string{"/a/1 /a/2", "/a/2 /b"}, scan.Journey{From: scan.Step{Page: "/a/*"}, Steps: 1}, " 2 (/a/2 1, /b 1)"},
		"an event":            {[]string{"/a signup /a /b", "/b"}, scan.Journey{From: event, Steps: 2}, " 1 (/a 1 (/b 1))"},
		"before an event": {
			visits: []string{"/b /a signup /c signup"}, journey: scan.Journey{From: event, Before: true, Steps: 3},
			want: " 1 (/a 1 (/b 1 (end 1)))",
		},
		"an event without a page": {[]string{"signup"}, scan.Journey{From: event, Steps: 3}, " 0"},
		"an event before pages":   {[]string{"signup /a"}, scan.Journey{From: event, Before: true, Steps: 3}, " 1 (end 1)"},
		"order by visits and text": {
			visits: []string{"/a /c", "/a /b", "/a /d", "/a /d", "/a"}, journey: scan.Journey{From: page, Steps: 1},
			want: " 5 (/d 2, /b 1, /c 1, end 1)",
		},
	} {
		rows := segment.Rows{Day: journeyDay}
		for i, hits := range test.visits {
			visitOf(&rows, i, 1, "", strings.Fields(hits)...)
		}
		day := scan.DateOf(journeyDay.Start().Time())
		q := &scan.Query{Zone: time.UTC, From: day, To: day, Journeys: []scan.Journey{test.journey}}
		got := count(t, q, rows).Journeys[0]
		if tree(got) != test.want || got.Visitors != got.Visits {
			t.Errorf("%s: %s of %d visitors, want %s", name, tree(got), got.Visitors, test.want)
		}
	}
}

// count counts a query over segments of days.
func count(t *testing.T, q *scan.Query, days ...segment.Rows) *scan.Result {
	t.Helper()
	s := scan.New(q)
	for _, rows := range days {
		g, err := segment.Build(rows)
		testkit.NoError(t, err)
		testkit.NoError(t, s.Add(g))
	}
	return s.Result()
}

// TestVisitorsOfJourneys checks that a visitor and a user id count once in a node, for small
// groups.
func TestVisitorsOfJourneys(t *testing.T) {
	first, second := segment.Rows{Day: journeyDay}, segment.Rows{Day: journeyDay + 1}
	visitOf(&first, 1, 1, "", "/a", "/b")
	visitOf(&first, 1, 2, "", "/a", "/b")
	visitOf(&first, 2, 1, "user-1..........", "/a", "/b")
	visitOf(&second, 3, 1, "user-1..........", "/a", "/c")
	day := scan.DateOf(journeyDay.Start().Time())
	q := &scan.Query{Zone: time.UTC, From: day, To: day.AddDays(1), Journeys: []scan.Journey{{From: scan.Step{Page: "/a"}, Steps: 1}}}

	got := count(t, q, first, second).Journeys[0]
	want := &scan.JourneyNode{Visits: 4, Visitors: 2, Next: []scan.JourneyNode{
		{Page: "/b", Visits: 3, Visitors: 2}, {Page: "/c", Visits: 1, Visitors: 1},
	}}
	testkit.DeepEqual(t, got, want, "got")
}

// wander makes days of visits over many pages, and many user ids over several weeks.
func wander(r *rand.Rand, days int) []segment.Rows {
	all := make([]segment.Rows, days)
	for i := range all {
		all[i].Day = journeyDay + model.Day(5*i)
		for visitor := range 1 + r.IntN(40) {
			user := ""
			if r.IntN(2) == 0 {
				user = fmt.Sprintf("user-%02d.........", r.IntN(20))
			}
			for n := range 1 + r.IntN(2) {
				hits := make([]string, 1+r.IntN(12))
				for h := range hits {
					if hits[h] = fmt.Sprintf("/%d", min(r.IntN(20), r.IntN(20))); r.IntN(6) == 0 {
						hits[h] = "signup"
					}
				}
				visitOf(&all[i], visitor, n+1, user, hits...)
			}
		}
	}
	return all
}

// TestLongJourneys compares journeys and cohorts of long visits over weeks with a count by maps.
func TestLongJourneys(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		days := wander(r, 1+r.IntN(24))
		from := scan.DateOf(journeyDay.Start().Time()).AddDays(r.IntN(10) - 3)
		q := &scan.Query{Zone: time.UTC, From: from, To: from.AddDays(r.IntN(120)),
			Cohorts: &scan.Cohorts{First: from.Monday().AddDays(7 * (r.IntN(5) - 1)), Weeks: r.IntN(20)}}
		for _, step := range []scan.Step{{Page: "/1"}, {Page: "/1*"}, {Event: "signup"}} {
			q.Journeys = append(q.Journeys, scan.Journey{From: step, Before: r.IntN(2) == 0, Steps: 1 + r.IntN(3)})
		}
		if seed%3 == 0 {
			q = oracle.Filtered(q, scan.Page, "/2")
		}

		// Segments come in any order: months first, then single days.
		want := oracle.Count(q, days)
		r.Shuffle(len(days), func(i, j int) { days[i], days[j] = days[j], days[i] })
		got := count(t, q, days...)
		if !reflect.DeepEqual(got.Journeys, want.Journeys) {
			t.Errorf("seed %d: got\n%s\nwant\n%s", seed, tree(got.Journeys[0]), tree(want.Journeys[0]))
		}
		if len(want.Cohorts)+len(got.Cohorts) > 0 && !reflect.DeepEqual(got.Cohorts, want.Cohorts) {
			t.Errorf("seed %d: cohorts\ngot  %v\nwant %v", seed, got.Cohorts, want.Cohorts)
		}
		for i := range got.Journeys {
			checkTree(t, got.Journeys[i])
		}
	}
}

// checkTree checks that no node has more visits below it than itself, and how many nodes are below.
func checkTree(t *testing.T, n *scan.JourneyNode) {
	t.Helper()
	sum := int64(0)
	for i := range n.Next {
		sum += n.Next[i].Visits
		checkTree(t, &n.Next[i])
	}
	if sum > n.Visits || len(n.Next) > scan.MaxJourneyPages+1 || n.Visitors > n.Visits {
		t.Errorf("%s: %d visits in %d nodes below", tree(n), sum, len(n.Next))
	}
}

// TestJourneysOfOtherPages checks that paths beyond the limits of a segment are never a page of
// their own.
func TestJourneysOfOtherPages(t *testing.T) {
	rows := segment.Rows{Day: journeyDay}
	visitOf(&rows, 1, 1, "", "/a", "/other", "/b")
	visitOf(&rows, 2, 1, "", "/a", "/b")
	g, err := segment.Build(rows)
	testkit.NoError(t, err)
	g.Texts[segment.Path][indexOf(t, g.Texts[segment.Path], "/other")] = segment.Other

	day := scan.DateOf(journeyDay.Start().Time())
	s := scan.New(&scan.Query{Zone: time.UTC, From: day, To: day, Journeys: []scan.Journey{{From: scan.Step{Page: "/a"}, Steps: 3}}})
	testkit.NoError(t, s.Add(g))
	testkit.Equal(t, tree(s.Result().Journeys[0]), " 2 (/b 1 (end 1))", "got")
}

func indexOf(t *testing.T, texts []string, text string) int {
	t.Helper()
	for i := range texts {
		if texts[i] == text {
			return i
		}
	}
	t.Fatalf("%q is missing in %q", text, texts)
	return 0
}

// TestBudgetOfWays checks that the ways of a journey and the user ids of cohorts count, and that a
// count beyond its budget fails.
func TestBudgetOfWays(t *testing.T) {
	const visits = 3_000
	rows := segment.Rows{Day: journeyDay}
	for i := range visits {
		visitOf(&rows, i, 1, fmt.Sprintf("%016d", i), "/", fmt.Sprintf("/%d", i), "/b", fmt.Sprintf("/c/%d", i))
	}
	g, err := segment.Build(rows)
	testkit.NoError(t, err)

	day := scan.DateOf(journeyDay.Start().Time())
	for name, change := range map[string]func(*scan.Query){
		"journey": func(q *scan.Query) { q.Journeys = []scan.Journey{{From: scan.Step{Page: "/"}, Steps: 3}} },
		"journey backwards": func(q *scan.Query) {
			q.Journeys = []scan.Journey{{From: scan.Step{Page: "/c/**"}, Before: true, Steps: 3}}
		},
		"cohorts": func(q *scan.Query) { q.Cohorts = &scan.Cohorts{First: day.Monday(), Weeks: 1} },
	} {
		use := func(change func(*scan.Query), bytes int64) (int64, error) {
			q := &scan.Query{Zone: time.UTC, From: day, To: day}
			change(q)
			budget := scan.NewBudget(bytes)
			err := scan.NewWithin(t.Context(), q, budget).Add(g)
			return budget.Used(), err
		}

		without, _ := use(func(*scan.Query) {}, 1<<30)
		used, err := use(change, 1<<30)
		if err != nil || used-without < 4*visits {
			t.Errorf("%s: error %v, %d bytes more; want at least 4 for each of %d", name, err, used-without, visits)
		}
		if _, err := use(change, used-1); !errors.Is(err, scan.ErrBudget) {
			t.Errorf("%s: error %v with a byte less, want ErrBudget", name, err)
		}
	}
}

// TestJourneyOfALongVisit checks that a visit of very many views of one page ends with its context.
func TestJourneyOfALongVisit(t *testing.T) {
	hits := make([]string, 20_000)
	for i := range hits {
		hits[i] = "/b"
	}
	for name, test := range map[string]struct {
		hits    []string
		journey scan.Journey
	}{
		"page":            {append([]string{"/a"}, hits...), scan.Journey{From: scan.Step{Page: "/a"}, Steps: 3}},
		"page, backwards": {append(append([]string{}, hits...), "/a"), scan.Journey{From: scan.Step{Page: "/a"}, Before: true, Steps: 3}},
	} {
		rows := segment.Rows{Day: journeyDay}
		visitOf(&rows, 1, 1, "", test.hits...)
		g, err := segment.Build(rows)
		testkit.NoError(t, err)
		day := scan.DateOf(journeyDay.Start().Time())
		q := &scan.Query{Zone: time.UTC, From: day, To: day, Journeys: []scan.Journey{test.journey}}

		s := scan.New(q)
		testkit.NoError(t, s.Add(g))
		testkit.Equal(t, tree(s.Result().Journeys[0]), " 1 (/b 1 (end 1))", "%s", name)

		ctx := &leaving{t.Context(), 6}
		if err := scan.NewWithin(ctx, q, nil).Add(g); !errors.Is(err, context.Canceled) || ctx.looks < -10 {
			t.Errorf("%s: error %v after %d more looks; want canceled soon", name, err, -ctx.looks)
		}
	}
}

// TestCohorts checks weeks in a time zone, return after more weeks than are listed, and visits in
// no order.
func TestCohorts(t *testing.T) {
	zone, err := time.LoadLocation("Pacific/Kiritimati") // 14 hours before UTC
	testkit.NoError(t, err)
	const a, b, c = "user-a..........", "user-b..........", "user-c.........."
	day := func(n model.Day, users ...string) segment.Rows {
		rows := segment.Rows{Day: journeyDay + n}
		for i, user := range users {
			visitOf(&rows, i, 11, user, "/") // at 11 o'clock UTC, 1 o'clock of the next day in the zone
		}
		return rows
	}
	from := scan.DateOf(journeyDay.Start().Time())
	weeks := func(returned ...int64) (list [scan.MaxCohortWeeks]int64) {
		copy(list[:], returned)
		return list
	}

	for name, test := range map[string]struct {
		days []segment.Rows
		want []scan.Cohort
	}{
		"no user id":      {[]segment.Rows{day(0, "")}, []scan.Cohort{{}, {}}},
		"twice in a week": {[]segment.Rows{day(0, a), day(5, a)}, []scan.Cohort{{Users: 1}, {}}},
		"in the next week": {[]segment.Rows{day(5, a, b), day(6, a), day(7, c)},
			[]scan.Cohort{{Users: 2, Returned: weeks(1)}, {Users: 1}}},
		"in no order": {[]segment.Rows{day(14, a), day(84, a), day(0, a), day(91, a)},
			[]scan.Cohort{{Users: 1, Returned: weeks(0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)}, {}}},
		"before the weeks": {[]segment.Rows{day(-8, a), day(0, a, b), day(10, a)}, []scan.Cohort{{Users: 1}, {}}},
		"server events alone": {[]segment.Rows{func() segment.Rows {
			rows := segment.Rows{Day: journeyDay}
			visitOf(&rows, 1, 1, a, "signup")
			return rows
		}(), day(7, a)}, []scan.Cohort{{}, {Users: 1}}},
	} {
		q := &scan.Query{Zone: zone, From: from.AddDays(-30), To: from.AddDays(100), Cohorts: &scan.Cohorts{First: from, Weeks: 2}}
		testkit.DeepEqual(t, count(t, q, test.days...).Cohorts, test.want, "%s", name)
	}
}
