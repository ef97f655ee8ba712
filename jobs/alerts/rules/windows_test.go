package rules_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPastSpans checks the spans of earlier weeks, also where the clocks are changed.
func TestPastSpans(t *testing.T) {
	for _, test := range []struct {
		name, zone, end string
		length          time.Duration
		first, last     string // begin of the newest and of the oldest span, UTC
		silence         time.Duration
	}{
		{"common", "Europe/Berlin", "2026-09-16T10:00:00Z", time.Hour, "2026-09-09T09:00", "2026-08-19T09:00", time.Hour},
		{"after summer time", "Europe/Berlin", "2026-10-28T10:00:00Z", time.Hour, "2026-10-21T08:00", "2026-09-30T08:00", time.Hour},
		{"half an hour", "Australia/Lord_Howe", "2026-10-07T10:00:00Z", time.Hour, "2026-09-30T09:30", "2026-09-09T09:30", time.Hour},
		{"the repeated hour", "America/New_York", "2026-11-01T06:00:00Z", 2 * time.Hour,
			"2026-10-25T03:00", "2026-10-04T03:00", time.Hour},
		{"the skipped hour", "Europe/Berlin", "2026-03-29T01:30:00Z", time.Hour, "2026-03-22T01:30", "2026-03-01T01:30", time.Hour},
		{"a day without a change", "Asia/Kolkata", "2026-03-29T01:30:00Z", 24 * time.Hour, "2026-03-21T01:30", "2026-02-28T01:30",
			24 * time.Hour},
	} {
		zone, err := model.TimeZone(test.zone)
		testkit.NoError(t, err)
		end, err := time.Parse(time.RFC3339, test.end)
		testkit.NoError(t, err)

		span := rules.Span{From: end.Add(-test.length), To: end}
		spans := rules.PastSpans(span, zone)
		for i, past := range spans {
			if past.To.Sub(past.From) != test.length || past.To.After(end) {
				t.Errorf("%s: the span of %d weeks before is %v", test.name, i+1, past)
			}
			if local := past.To.In(zone); local.Weekday() != end.In(zone).Weekday() {
				t.Errorf("%s: the span of %d weeks before ends on a %s", test.name, i+1, local.Weekday())
			}
		}
		for _, want := range []struct{ got, want string }{
			{spans[0].From.UTC().Format("2006-01-02T15:04"), test.first},
			{spans[rules.Weeks-1].From.UTC().Format("2006-01-02T15:04"), test.last},
		} {
			testkit.Equal(t, want.got, want.want, "%s: a span begins at", test.name)
		}

		silences := rules.PastSilences(span, zone)
		if got := silences[0].To.Sub(silences[0].From); got != test.silence {
			t.Errorf("%s: a silence is %s long, want %s", test.name, got, test.silence)
		}
	}
}

// TestPastSilences checks each quarter of an hour of a year in several zones: a silence has no
// negative length, is not longer than now, and never ends later.
func TestPastSilences(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza"} {
		zone, err := model.TimeZone(name)
		testkit.NoError(t, err)
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(15 * time.Minute) {
			span := rules.Span{From: at.Add(-time.Hour), To: at}
			for i, past := range rules.PastSilences(span, zone) {
				length := past.To.Sub(past.From)
				if length < 0 || length > time.Hour || past.To.After(at.AddDate(0, 0, -7*(i+1)).Add(3*time.Hour)) {
					t.Fatalf("%s, %s: %d weeks before is %v", name, at, i+1, past)
				}
			}
		}
	}
}

// TestDays checks the length of spans and the growth of sites.
func TestDays(t *testing.T) {
	weeks := func(perDay ...int64) (days rules.Days) {
		for _, n := range perDay {
			for range 7 {
				days = append(days, n)
			}
		}
		return days
	}
	withDay := func(days rules.Days, i int, n int64) rules.Days {
		days[i] = n
		return days
	}

	for _, test := range []struct {
		name   string
		days   rules.Days
		span   time.Duration
		growth float64 // in one week
	}{
		{"a new site", nil, day, 1},
		{"a few days", rules.Days{5_000, 5_000, 5_000}, time.Hour, 1},
		{"tiny", weeks(10, 10, 10, 10, 10), day, 1},
		{"small", weeks(400, 400, 400, 400, 400), 6 * time.Hour, 1},
		{"common", weeks(1_500, 1_500, 1_500, 1_500, 1_500), time.Hour, 1},
		{"large", weeks(200_000, 200_000, 200_000, 200_000, 200_000), 10 * time.Minute, 1},
		{"very large", weeks(2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000), time.Minute, 1},
		{"chance", weeks(1_240, 1_000, 1_000, 1_000, 1_000), 6 * time.Hour, 1},
		{"growing", weeks(3_000, 2_000, 1_000, 1_000, 1_000), time.Hour, 1.5},
		{"growing much", weeks(9_000, 2_000, 1_000, 1_000, 1_000), time.Hour, 2},
		{"shrinking", weeks(1_000, 2_000, 2_000, 2_000, 2_000), time.Hour, 0.5},
		{"a campaign of a day", withDay(weeks(2_000, 2_000, 2_000, 2_000, 2_000), 3, 90_000), time.Hour, 1},
		{"a pause", weeks(2_000, 0, 2_000, 2_000, 2_000), time.Hour, 1},
	} {
		testkit.Equal(t, test.days.Span(), test.span, "%s: the span", test.name)
		testkit.Equal(t, test.days.Growth(1), test.growth, "%s: the growth", test.name)
	}
	testkit.Equal(t, weeks(3_000, 2_000, 1_000).Scaled(100, 1), 150, "100 page views are now")
}
