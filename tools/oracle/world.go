package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Zones have offsets of hours, halves and quarters, daylight saving at midnight and of half an
// hour, and a calendar day that was skipped. Each comes with the UTC day of something unusual.
var Zones = []struct {
	Name string
	Day  string
}{
	{"UTC", "2026-03-01"},
	{"Europe/Berlin", "2026-03-28"},
	{"America/New_York", "2026-10-31"},
	{"Australia/Lord_Howe", "2026-04-04"},
	{"Asia/Kathmandu", "2026-01-30"},
	{"Africa/Cairo", "2026-04-23"},
	{"Asia/Beirut", "2026-03-28"},
	{"Pacific/Apia", "2011-12-28"},
	{"Pacific/Kiritimati", "2026-02-27"},
}

// World makes the rows of a few UTC days: few visitors and few values, so that they meet.
func World(r *rand.Rand, first model.Day, days int) []segment.Rows {
	all := make([]segment.Rows, days)
	for i := range all {
		rows := segment.Rows{Day: first + model.Day(i)}
		for visitor := range 1 + r.IntN(5) {
			start := rows.Day.Start()
			for n := range 1 + r.IntN(3) {
				start = start.Add(time.Duration(r.IntN(7*60)) * time.Minute)
				if start.Day() != rows.Day {
					break
				}
				addVisit(r, &rows, segment.VisitKey{Visitor: model.VisitorID{byte(visitor), byte(i)}, N: int16(n + 1)}, start)
			}
		}
		all[i] = rows
	}
	return all
}

func addVisit(r *rand.Rand, rows *segment.Rows, key segment.VisitKey, start model.Instant) {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	v := segment.Visit{VisitKey: key, StartedAt: start, UserID: pick("", "", "", "user-a", "user-b"),
		Channel: pick("direct", "email", "referral"), Referrer: pick("", "a.example/", "b.example/page", "www.google.com/", "google.de/search", "m.facebook.com/")}
	v.Source, v.Medium, v.Name = pick("", "", "", "news", "google", "Facebook"), pick("", "mail"), pick("", "spring")
	v.Content, v.Term = pick("", "top"), pick("", "shoes")
	v.Gclid, v.Msclkid, v.Fbclid = pick("", "", "g1"), pick("", "", "m1"), pick("", "", "f1")
	v.Client = model.Client{Country: pick("", "DE", "CH"), Browser: model.Browser(pick("", "Chrome", "Firefox")),
		System: model.System(pick("Windows", "iOS")), Device: model.Device(pick("", "desktop", "phone")),
		Host: pick("", "shop.example", "www.shop.example")}
	rows.Visits = append(rows.Visits, v)

	last := (rows.Day + 1).Start() - 1
	before := start
	at := func() model.Instant {
		// Many rows share a second, and some a microsecond.
		switch r.IntN(3) {
		case 0:
			before = start.Add(time.Duration(r.IntN(100*60)) * time.Second)
		case 1:
			before = max(start, before.Add(time.Duration(r.IntN(1500)-500)*time.Millisecond))
		}
		before = min(before, last)
		return before
	}
	views, events := r.IntN(4), r.IntN(3)
	if views+events == 0 {
		// A visit begins with a page view or an event.
		views = 1
	}
	for range views {
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at(),
			ID: r.Int64(), Path: pick("/", "/a", "/b"), Language: pick("", "en", "de"), Width: []int16{-1, 0, 1920}[r.IntN(3)],
			EngagedMS: int32(r.IntN(15_000)), Scroll: int16(r.IntN(3) * 50)})
	}
	for range events {
		e := segment.Event{VisitKey: key, At: at(), ID: r.Int64(),
			Name: pick("scroll", "signup", "purchase", "refund", "add_to_cart"), Path: pick("/", "/a"),
			Properties: pick("", `{"plan":"pro","n":1.50,"list":[1],"gone":null}`, `{"plan":"free","ok":true}`, numbered(r), numbered(r))}
		switch e.Name {
		case "purchase", "add_to_cart":
			e.Value, e.Currency = model.Money(r.IntN(5_000_000)), pick("EUR", "USD")
		case "refund":
			e.Value, e.Currency = -model.Money(r.IntN(5_000_000)), "EUR"
		}
		rows.Events = append(rows.Events, e)
	}
}

// numbered makes properties with a number, or with a text that is nearly one.
func numbered(r *rand.Rand) string {
	texts := []string{
		`0.1`, `0.2`, `"0.3"`, `-7`, `-0`, `1e21`, `1e-300`, `9007199254740993`, `"1e400"`, `"1e-400"`, `"+5"`, `" 5"`, `"05"`, `"5."`,
		`".5"`, `"0x10"`, `"NaN"`, `"Infinity"`, `"1,5"`, `""`, `true`, `null`, `[1]`, `"1e+2"`,
	}
	value := fmt.Sprintf("%.3f", r.Float64()*5)
	if r.IntN(2) == 0 {
		value = texts[r.IntN(len(texts))]
	}
	return `{"n":` + value + `,"plan":"pro"}`
}

// AllBreakdowns asks for every dimension.
func AllBreakdowns() (all []scan.Breakdown) {
	for by := range scan.Dimensions {
		all = append(all, scan.Breakdown{By: by, Property: "plan"})
	}
	return append(all, scan.Breakdown{By: scan.Property, Property: "n", Event: "signup"},
		scan.Breakdown{By: scan.Property, Property: "list"})
}

// Query makes a query about some of the days.
func Query(r *rand.Rand, zone *time.Location, first model.Day, days int) *scan.Query {
	from := scan.DateOf(first.Start().Time().In(zone)).AddDays(r.IntN(3) - 1)
	q := &scan.Query{Zone: zone, From: from, To: from.AddDays(r.IntN(days + 1)), Breakdowns: AllBreakdowns(),
		KeyEvents: map[string]bool{"signup": true, "purchase": r.IntN(2) == 0}}

	if r.IntN(4) == 0 {
		minutes := r.IntN(24 * 60)
		q.Until = q.To.Start(zone).Add(time.Duration(minutes) * time.Minute)
		if minutes%3 == 0 {
			q.Since = q.From.Start(zone).Add(time.Duration(minutes/3) * time.Minute)
		}
	}

	// Points of hours, days, or none.
	switch end := q.To.AddDays(1).Start(zone); r.IntN(3) {
	case 0:
		for t := q.From.Start(zone); t.Before(end); t = t.Add(time.Hour) {
			q.Points = append(q.Points, t)
			if len(q.Points)%7 == 0 {
				q.Points = append(q.Points, t) // an hour that the compared day skips
			}
		}
		q.Points = append(q.Points, end)
	case 1:
		for d := q.From; d.Compare(q.To.AddDays(1)) <= 0; d = d.AddDays(1 + r.IntN(2)) {
			q.Points = append(q.Points, d.Start(zone))
		}
		q.Points = slices.Compact(q.Points)
	}

	for range r.IntN(2) {
		steps := make([]scan.Step, 2+r.IntN(2))
		all := []scan.Step{{Page: "/**"}, {Page: "/a**"}, {Page: "/b**"}, {Event: "signup"}, {Event: "scroll"}}
		for i := range steps {
			steps[i] = all[r.IntN(len(all))]
		}
		q.Funnels = append(q.Funnels, scan.Funnel{Steps: steps})
	}

	for range r.IntN(2) {
		all := []scan.Step{{Page: "/**"}, {Page: "/"}, {Page: "/a"}, {Page: "/b*"}, {Event: "signup"}, {Event: "scroll"}}
		q.Journeys = append(q.Journeys, scan.Journey{
			From: all[r.IntN(len(all))], Before: r.IntN(2) == 0, Steps: 1 + r.IntN(scan.MaxJourneySteps),
		})
	}
	if r.IntN(2) == 0 {
		q.Cohorts = &scan.Cohorts{First: q.From.Monday().AddDays(7 * (r.IntN(3) - 1)), Weeks: r.IntN(4)}
	}

	if r.IntN(2) == 0 {
		q.Numbers = AllNumbers([]string{"signup", "scroll", "missing", ""}[r.IntN(4)], "n")
	}

	for range r.IntN(3) {
		b := q.Breakdowns[r.IntN(len(q.Breakdowns))]
		want := []string{"", "/", "/a", "direct", "news", "signup", "pro", "1", "3", "14", "en", "a.example"}[r.IntN(12)]
		operator := model.ReportOperators[r.IntN(len(model.ReportOperators))]
		f := scan.Filter{Breakdown: b, Operator: operator, Values: []string{want}}
		switch f.Operator {
		case model.OperatorMatches, model.OperatorMatchesNot:
			f.Values[0] += "**"
		case model.OperatorContains, model.OperatorContainsNot:
			f.Values[0] = strings.ToUpper(cmp.Or(want, "E"))
		}
		q.Filters = append(q.Filters, f)
	}
	return q
}

// Check compares results, and ends the test if they differ.
func Check(t testing.TB, name string, want *Result, got *scan.Result) {
	t.Helper()
	testkit.DeepEqual(t, got.Totals, want.Totals, "%s: totals", name)

	testkit.Require(t, len(got.Points), len(want.Points), "%s: points", name)
	for i := range want.Points {
		testkit.DeepEqual(t, got.Points[i], want.Points[i], "%s: point %d", name, i)
	}

	for i := range want.Breakdowns {
		rows := maps.Collect(got.Breakdowns[i].All())
		for _, value := range slices.Sorted(maps.Keys(want.Breakdowns[i])) {
			w := want.Breakdowns[i][value]
			testkit.DeepEqual(t, rows[value], w, "%s: breakdown %d, the row %q", name, i, value)
			testkit.DeepEqual(t, got.Breakdowns[i].Of(value), w, "%s: breakdown %d of %q", name, i, value)
		}

		if len(rows) != len(want.Breakdowns[i]) || len(rows) != got.Breakdowns[i].Len() {
			t.Errorf("%s: breakdown %d has %d values %q, want %q", name, i, got.Breakdowns[i].Len(),
				slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(want.Breakdowns[i])))
		}
	}

	if len(want.Funnels)+len(got.Funnels) > 0 {
		testkit.DeepEqual(t, got.Funnels, want.Funnels, "%s: funnels", name)
	}
	if len(want.Journeys)+len(got.Journeys) > 0 {
		testkit.DeepEqual(t, got.Journeys, want.Journeys, "%s: journeys", name)
	}
	if len(want.Cohorts)+len(got.Cohorts) > 0 {
		testkit.DeepEqual(t, got.Cohorts, want.Cohorts, "%s: cohorts", name)
	}
	testkit.Require(t, len(got.Numbers), len(want.Numbers), "%s: questions about numbers", name)
	for i := range want.Numbers {
		testkit.DeepEqual(t, ByGroup(got.Numbers[i]), want.Numbers[i], "%s: numbers of question %d", name, i)
	}

	if t.Failed() {
		t.FailNow()
	}
}
