package period_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/testkit"
)

func date(t *testing.T, text string) scan.Date {
	t.Helper()
	at, err := time.Parse(time.DateOnly, text)
	testkit.NoError(t, err)
	return scan.DateOf(at)
}

func between(t *testing.T, from, to string) period.Period {
	t.Helper()
	return period.Period{From: date(t, from), To: date(t, to)}
}

func TestPresets(t *testing.T) {
	today, first := date(t, "2028-03-31"), date(t, "2026-11-20")
	for preset, want := range map[period.Preset][2]string{
		period.Today:         {"2028-03-31", "2028-03-31"},
		period.Yesterday:     {"2028-03-30", "2028-03-30"},
		period.Last7Days:     {"2028-03-24", "2028-03-30"},
		period.TodayAnd6Days: {"2028-03-25", "2028-03-31"},
		period.Last28Days:    {"2028-03-03", "2028-03-30"},
		period.Last30Days:    {"2028-03-01", "2028-03-30"},
		period.Last91Days:    {"2027-12-31", "2028-03-30"},
		period.MonthToDate:   {"2028-03-01", "2028-03-31"},
		period.LastMonth:     {"2028-02-01", "2028-02-29"},
		period.YearToDate:    {"2028-01-01", "2028-03-31"},
		period.Last12Months:  {"2027-03-01", "2028-02-29"},
		period.AllTime:       {"2026-11-20", "2028-03-31"},
	} {
		if got, ok := period.Of(preset, today, first); !ok || got != between(t, want[0], want[1]) {
			t.Errorf("%s: %v, want %v", preset, got, want)
		}
	}
	if _, ok := period.Of("FOREVER", today, first); ok {
		t.Error("an unknown preset has days")
	}
	if got, _ := period.Of(period.AllTime, today, date(t, "2030-01-01")); got != between(t, "2028-03-31", "2028-03-31") {
		t.Errorf("without figures: %v", got)
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		from, to string
		ok       bool
	}{
		{"2026-01-01", "2026-01-01", true},
		{"2026-01-02", "2026-01-01", false},
		{"2020-01-01", "2024-12-31", true},
		{"2020-01-01", "2025-01-06", false},
		{"1969-12-31", "1970-01-01", false},
		{"2090-12-31", "2091-01-01", false},
	} {
		err := between(t, test.from, test.to).Check("period")
		if (err == nil) != test.ok || err != nil && model.KindOf(err) != model.Invalid {
			t.Errorf("%s to %s: %v", test.from, test.to, err)
		}
	}
}

func TestShift(t *testing.T) {
	for _, test := range []struct {
		name     string
		from, to string
		shift    func(period.Period) period.Shift
		want     [2]string
	}{
		{
			name: "days before", from: "2026-03-01", to: "2026-03-30",
			shift: func(p period.Period) period.Shift { return period.Before(p, false) },
			want:  [2]string{"2026-01-30", "2026-02-28"},
		},
		{
			name: "weeks before", from: "2026-03-01", to: "2026-03-30",
			shift: func(p period.Period) period.Shift { return period.Before(p, true) },
			want:  [2]string{"2026-01-25", "2026-02-23"},
		},
		{
			name: "the day before", from: "2026-03-10", to: "2026-03-10",
			shift: func(p period.Period) period.Shift { return period.Before(p, false) },
			want:  [2]string{"2026-03-09", "2026-03-09"},
		},
		{
			name: "the same weekday", from: "2026-03-10", to: "2026-03-10",
			shift: func(p period.Period) period.Shift { return period.Before(p, true) },
			want:  [2]string{"2026-03-03", "2026-03-03"},
		},
		{
			name: "91 days", from: "2026-03-01", to: "2026-05-30",
			shift: func(p period.Period) period.Shift { return period.Before(p, true) },
			want:  [2]string{"2025-11-30", "2026-02-28"},
		},
		{
			name: "the year before", from: "2028-02-01", to: "2028-02-29",
			shift: func(p period.Period) period.Shift { return period.YearBefore(p, false) },
			want:  [2]string{"2027-02-01", "2027-02-28"},
		},
		{
			name: "52 weeks", from: "2026-11-20", to: "2026-11-20",
			shift: func(p period.Period) period.Shift { return period.YearBefore(p, true) },
			want:  [2]string{"2025-11-21", "2025-11-21"},
		},
		{
			name: "a year of 53 weeks", from: "2025-11-01", to: "2026-10-31",
			shift: func(p period.Period) period.Shift { return period.YearBefore(p, true) },
			want:  [2]string{"2024-10-26", "2025-10-25"},
		},
		{
			name: "days of choice", from: "2026-03-01", to: "2026-03-03",
			shift: func(p period.Period) period.Shift { return period.To(p, date(t, "2026-01-09"), false) },
			want:  [2]string{"2026-01-09", "2026-01-11"},
		},
		{
			name: "weekdays of choice", from: "2026-03-01", to: "2026-03-03",
			shift: func(p period.Period) period.Shift { return period.To(p, date(t, "2026-01-09"), true) },
			want:  [2]string{"2026-01-11", "2026-01-13"},
		},
		{
			name: "later", from: "2026-03-01", to: "2026-03-03",
			shift: func(p period.Period) period.Shift { return period.To(p, date(t, "2026-03-09"), true) },
			want:  [2]string{"2026-03-08", "2026-03-10"},
		},
	} {
		p := between(t, test.from, test.to)
		if got := test.shift(p).Period(p); got != between(t, test.want[0], test.want[1]) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestNoDayIsComparedWithItself checks periods of each length: the one before ends before the
// period begins and is at most a week away, and chosen days that are apart stay apart.
func TestNoDayIsComparedWithItself(t *testing.T) {
	from := date(t, "2026-03-01")
	for length := 1; length <= 400; length++ {
		p := period.Period{From: from, To: from.AddDays(length - 1)}

		for _, match := range []bool{false, true} {
			before := period.Before(p, match).Period(p)
			if gap := before.To.DaysUntil(p.From); gap < 1 || gap > 7 || !match && gap != 1 {
				t.Errorf("%v is compared with %v", p, before)
			}
			year := period.YearBefore(p, match).Period(p)
			if oneYear := length <= 365 || match && length == 366; oneYear && year.To.Compare(p.From) >= 0 {
				t.Errorf("%v is compared with %v, a year before", p, year)
			}
		}

		for away := range 10 {
			earlier := period.To(p, from.AddDays(-length-away), true).Period(p)
			later := period.To(p, from.AddDays(length+away), true).Period(p)
			if earlier.To.Compare(p.From) >= 0 || later.From.Compare(p.To) <= 0 {
				t.Errorf("%v is compared with %v and %v, %d days away", p, earlier, later, away)
			}
			for _, other := range []period.Period{earlier, later} {
				if p.From.DaysUntil(other.From)%7 != 0 {
					t.Errorf("%v is compared with %v, which begins on another day of the week", p, other)
				}
			}
		}
	}
}

// TestPoints checks the number of points, and that they cover the period without a gap.
func TestPoints(t *testing.T) {
	for _, test := range []struct {
		zone, from, to string
		interval       period.Interval
		n              int
		second         string
	}{
		{"UTC", "2026-03-01", "2026-03-01", period.Hour, 24, "2026-03-01T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-29", period.Hour, 23, "2026-03-29T01:00:00+01:00"},
		{"Europe/Berlin", "2026-10-25", "2026-10-25", period.Hour, 25, "2026-10-25T01:00:00+02:00"},
		{"Asia/Kathmandu", "2026-03-01", "2026-03-02", period.Hour, 48, "2026-03-01T01:00:00+05:45"},
		{"Australia/Lord_Howe", "2026-04-05", "2026-04-05", period.Hour, 25, "2026-04-05T01:00:00+11:00"},
		{"Europe/Berlin", "2026-03-28", "2026-03-30", period.Day, 3, "2026-03-29T00:00:00+01:00"},
		{"Pacific/Apia", "2011-12-29", "2011-12-31", period.Day, 2, "2011-12-31T00:00:00+14:00"},
		{"UTC", "2026-03-04", "2026-03-31", period.Week, 5, "2026-03-09T00:00:00Z"},
		{"UTC", "2026-01-15", "2026-12-31", period.Month, 12, "2026-02-01T00:00:00Z"},
		{"UTC", "2026-01-01", "2026-01-16", period.Hour, 384, "2026-01-01T01:00:00Z"},
		{"UTC", "2026-01-01", "2026-01-17", period.Hour, 0, ""},
		{"UTC", "2026-01-01", "2026-01-17", "MINUTE", 0, ""},
	} {
		zone, err := time.LoadLocation(test.zone)
		testkit.NoError(t, err)

		p := between(t, test.from, test.to)
		name := fmt.Sprintf("%s %v %s", test.zone, p, test.interval)
		times, ok := p.Points(zone, test.interval, period.Shift{})
		if ok != (test.n > 0) || ok && len(times) != test.n+1 {
			t.Errorf("%s: %d points, want %d", name, len(times)-1, test.n)
			continue
		}
		if !ok {
			continue
		}

		testkit.Equal(t, times[1].Format(time.RFC3339), test.second, "%s: the second point begins at", name)
		if !times[0].Equal(p.From.Start(zone)) || !times[test.n].Equal(p.To.AddDays(1).Start(zone)) {
			t.Errorf("%s: from %v to %v", name, times[0], times[test.n])
		}
		for i := range test.n {
			if !times[i].Before(times[i+1]) {
				t.Errorf("%s: point %d is empty", name, i)
			}
		}
	}
}

// TestComparedPoints checks that the points of both periods correspond: each hour is compared with
// the hour of the same time of day, although the clocks changed on one day.
func TestComparedPoints(t *testing.T) {
	for name, test := range map[string]struct {
		zone, day, other string
		n                int            // points
		starts           map[int]string // of compared points; of some
	}{
		"23 hours with 24": {"Europe/Berlin", "2026-03-29", "2026-03-22", 23, map[int]string{1: "01:00 CET", 2: "03:00 CET", 22: "23:00 CET"}},
		"24 hours with 23": {"Europe/Berlin", "2026-04-05", "2026-03-29", 24, map[int]string{2: "03:00 CEST", 3: "03:00 CEST", 4: "04:00 CEST"}},
		"24 hours with 25": {"Europe/Berlin", "2026-11-01", "2026-10-25", 24, map[int]string{2: "02:00 CEST", 3: "03:00 CET", 23: "23:00 CET"}},
		"25 hours with 24": {"Europe/Berlin", "2026-10-25", "2026-10-18", 25, map[int]string{2: "02:00 CEST", 3: "03:00 CEST", 4: "03:00 CEST"}},
		"25 hours with 25": {"Europe/Berlin", "2026-10-25", "2025-10-26", 25, map[int]string{2: "02:00 CEST", 3: "02:00 CET", 4: "03:00 CET"}},
		"23 hours with 25": {"Europe/Berlin", "2026-03-29", "2026-10-25", 23, map[int]string{1: "01:00 CEST", 2: "03:00 CET", 22: "23:00 CET"}},
		"half an hour more": {
			zone: "Australia/Lord_Howe", day: "2026-04-05", other: "2026-03-29", n: 25,
			starts: map[int]string{1: "01:00 +11", 2: "01:30 +11", 24: "23:30 +11"},
		},
		"without a midnight": {"Africa/Cairo", "2026-04-24", "2026-04-17", 23, map[int]string{0: "00:00 EET", 1: "02:00 EET", 22: "23:00 EET"}},
		"with one":           {"Africa/Cairo", "2026-05-01", "2026-04-24", 24, map[int]string{0: "01:00 EEST", 1: "01:00 EEST", 2: "02:00 EEST"}},
	} {
		zone, err := time.LoadLocation(test.zone)
		testkit.NoError(t, err)
		p := between(t, test.day, test.day)
		times, ok := p.Points(zone, period.Hour, period.To(p, date(t, test.other), false))
		if !ok || len(times) != test.n+1 {
			t.Errorf("%s: %d times", name, len(times))
			continue
		}
		for i, want := range test.starts {
			testkit.Equal(t, times[i].Format("15:04 MST"), want, "%s: point %d begins at", name, i)
		}
		other := date(t, test.other)
		if !slices.IsSortedFunc(times, time.Time.Compare) || !times[0].Equal(other.Start(zone)) ||
			!times[test.n].Equal(other.AddDays(1).Start(zone)) {
			t.Errorf("%s: %v", name, times)
		}
	}

	year := between(t, "2026-01-01", "2026-12-31")
	months, ok := year.Points(time.UTC, period.Month, period.YearBefore(year, false))
	if !ok || len(months) != 13 || months[2].Format(time.DateOnly) != "2025-03-01" {
		t.Errorf("months of the year before: %v", months)
	}
}

// TestTime checks that a time moves to the same time of day, whichever day's clocks changed.
func TestTime(t *testing.T) {
	for _, test := range []struct{ zone, now, other, want string }{
		{"UTC", "2026-03-29T14:30:00Z", "2026-03-22", "2026-03-22T14:30:00Z"},
		{"Europe/Berlin", "2027-03-28T14:30:00+02:00", "2027-03-21", "2027-03-21T14:30:00+01:00"},
		{"Europe/Berlin", "2027-04-04T14:30:00+02:00", "2027-03-28", "2027-03-28T14:30:00+02:00"},
		{"Europe/Berlin", "2027-04-04T01:30:00+02:00", "2027-03-28", "2027-03-28T01:30:00+01:00"},
		{"Europe/Berlin", "2027-04-04T02:30:00+02:00", "2027-03-28", "2027-03-28T03:00:00+02:00"},
		{"Europe/Berlin", "2026-11-01T02:30:00+01:00", "2026-10-25", "2026-10-25T02:30:00+02:00"},
		{"Europe/Berlin", "2026-11-01T03:30:00+01:00", "2026-10-25", "2026-10-25T03:30:00+01:00"},
		{"Europe/Berlin", "2026-10-25T02:30:00+01:00", "2026-10-18", "2026-10-18T02:30:00+02:00"},
		{"Europe/Berlin", "2026-10-25T02:30:00+01:00", "2025-10-26", "2025-10-26T02:30:00+01:00"},
		{"Europe/Berlin", "2026-10-25T23:59:59.9+01:00", "2026-10-18", "2026-10-18T23:59:59.9+02:00"},
		{"Africa/Cairo", "2026-05-01T00:30:00+03:00", "2026-04-24", "2026-04-24T01:00:00+03:00"},
		{"America/New_York", "2026-11-01T20:00:00-05:00", "2026-10-25", "2026-10-25T20:00:00-04:00"},
	} {
		zone, err := time.LoadLocation(test.zone)
		testkit.NoError(t, err)
		now, err := time.Parse(time.RFC3339Nano, test.now)
		testkit.NoError(t, err)
		today := scan.DateOf(now.In(zone))
		shift := period.To(period.Period{From: today, To: today}, date(t, test.other), false)
		testkit.Equal(t, shift.Time(now.In(zone)).Format(time.RFC3339Nano), test.want, "%s of %s on %s", test.now, test.zone, test.other)
	}
}

// TestHours checks that hours equal the points of a series by hour, and how many days can have
// hours.
func TestHours(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	testkit.NoError(t, err)

	changed := between(t, "2026-10-30", "2026-11-02") // the clocks change on the third day
	shift := period.Before(changed, true)
	want, _ := changed.Points(zone, period.Hour, shift)
	if got, ok := changed.Hours(zone, shift); !ok || !slices.Equal(got, want) {
		t.Errorf("the hours are %v, %v, want %v", got, ok, want)
	}

	long := between(t, "2026-08-03", "2026-11-02")
	if got, ok := long.Hours(zone, period.Shift{}); !ok || len(got) != 92*24+2 {
		t.Errorf("92 days have %d starts, %v", len(got), ok)
	}
	long.From = long.From.AddDays(-1)
	if _, ok := long.Hours(zone, period.Shift{}); ok {
		t.Error("93 days have hours")
	}
}

func TestDefaultInterval(t *testing.T) {
	for to, want := range map[string]period.Interval{"2026-01-02": period.Hour, "2026-01-03": period.Day, "2026-04-02": period.Day,
		"2026-04-03": period.Week,
		"2026-12-31": period.Week, "2027-01-02": period.Month} {
		testkit.Equal(t, between(t, "2026-01-01", to).Default(), want, "to %s", to)
	}
}
