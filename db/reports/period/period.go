// Package period computes the days of reports: presets, the period to compare with, and the points
// of a series. All days are of the site's time zone. The package reads no clock.
package period

import (
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Preset names days relative to today.
type Preset string

// The presets.
const (
	Today         Preset = "TODAY"
	Yesterday     Preset = "YESTERDAY"
	Last7Days     Preset = "LAST_7_DAYS"      // the days before today; likewise the next ones
	TodayAnd6Days Preset = "TODAY_AND_6_DAYS" // up to now
	Last28Days    Preset = "LAST_28_DAYS"
	Last30Days    Preset = "LAST_30_DAYS"
	Last91Days    Preset = "LAST_91_DAYS"
	MonthToDate   Preset = "MONTH_TO_DATE"
	LastMonth     Preset = "LAST_MONTH"
	YearToDate    Preset = "YEAR_TO_DATE"
	Last12Months  Preset = "LAST_12_MONTHS" // whole months before the current one
	AllTime       Preset = "ALL_TIME"
)

// MaxYears is how long a period with chosen days can be. AllTime is longer for older sites.
const MaxYears = 5

// Period is the days from From to To, both included.
type Period struct{ From, To scan.Date }

// Of returns the days of a preset. first is the first day with figures, for AllTime. ok is false
// for an unknown preset.
func Of(preset Preset, today, first scan.Date) (p Period, ok bool) {
	yesterday := today.AddDays(-1)
	month := scan.Date{Year: today.Year, Month: today.Month, Day: 1}

	switch preset {
	case Today:
		return Period{today, today}, true
	case Yesterday:
		return Period{yesterday, yesterday}, true
	case Last7Days:
		return Period{today.AddDays(-7), yesterday}, true
	case TodayAnd6Days:
		return Period{today.AddDays(-6), today}, true
	case Last28Days:
		return Period{today.AddDays(-28), yesterday}, true
	case Last30Days:
		return Period{today.AddDays(-30), yesterday}, true
	case Last91Days:
		return Period{today.AddDays(-91), yesterday}, true
	case MonthToDate:
		return Period{month, today}, true
	case LastMonth:
		return Period{addMonths(month, -1), month.AddDays(-1)}, true
	case YearToDate:
		return Period{scan.Date{Year: today.Year, Month: time.January, Day: 1}, today}, true
	case Last12Months:
		return Period{addMonths(month, -12), month.AddDays(-1)}, true
	case AllTime:
		if first.Compare(today) > 0 {
			first = today
		}
		return Period{first, today}, true
	}
	return Period{}, false
}

// addMonths moves the first day of a month.
func addMonths(first scan.Date, n int) scan.Date {
	return scan.Date{Year: first.Year, Month: first.Month + time.Month(n), Day: 1}.AddDays(0)
}

// Check returns the error of chosen days: a period that ends before it begins, is longer than
// MaxYears or lies before 1970 or after 2090, in the named field.
func (p Period) Check(field string) error {
	switch {
	case p.From.Compare(p.To) > 0:
		return model.InvalidField(field, "invalid_argument", "The last day of a period must not be before its first day.")
	case p.From.AddDays(MaxYears*366).Compare(p.To) < 0:
		return model.InvalidField(field, "invalid_argument", "A period has at most 5 years. ALL_TIME has no such limit.")
	}
	return p.CheckYears(field)
}

// CheckYears returns the error of a period that lies before 1970 or after 2090, in the named field.
func (p Period) CheckYears(field string) error {
	if p.From.Year < 1970 || p.To.Year > 2090 {
		return model.InvalidField(field, "invalid_argument", "A period lies between 1970 and 2090.")
	}
	return nil
}

// Days returns the number of days.
func (p Period) Days() int { return p.From.DaysUntil(p.To) + 1 }

// Shift moves days to the period to compare with: by whole days, or to another year.
type Shift struct {
	days  int
	years int
}

// Before returns the shift to as many days, just before. matchWeekday moves it to the next whole
// number of weeks, so that no day is in both periods: a day is compared with the same weekday a
// week before.
func Before(p Period, matchWeekday bool) Shift { return p.weeks(p.Days(), matchWeekday) }

// YearBefore returns the shift to the same dates of the year before. With matchWeekday it is 52
// weeks before, or 53 for a period of a day or two more. Only a period longer than a year overlaps
// the other.
func YearBefore(p Period, matchWeekday bool) Shift {
	switch days := p.Days(); {
	case !matchWeekday:
		return Shift{years: -1}
	case days > yearWeeks*7 && days <= 366:
		return Shift{days: -(yearWeeks + 1) * 7}
	}
	return Shift{days: -yearWeeks * 7}
}

// yearWeeks is the number of whole weeks of a year.
const yearWeeks = 52

// To returns the shift to a period that begins on a day. matchWeekday moves it to the nearest whole
// number of weeks, at least one. Chosen days that are apart stay apart.
func To(p Period, from scan.Date, matchWeekday bool) Shift {
	days := p.From.DaysUntil(from)
	if days < 0 {
		return p.weeks(-days, matchWeekday)
	}
	return Shift{days: -p.weeks(days, matchWeekday).days}
}

// weeks returns the shift by a number of days before. With round it is the nearest whole number of
// weeks, at least one, that does not make periods overlap which would not.
func (p Period) weeks(days int, round bool) Shift {
	if !round || days == 0 {
		return Shift{days: -days}
	}

	weeks := max(1, (days+3)/7)
	if days >= p.Days() && weeks*7 < p.Days() {
		weeks++
	}
	return Shift{days: -weeks * 7}
}

// Date moves a day. 29 February becomes 28 February in other years.
func (s Shift) Date(d scan.Date) scan.Date {
	moved := scan.Date{Year: d.Year + s.years, Month: d.Month, Day: d.Day}
	if shifted := moved.AddDays(0); shifted.Month != d.Month {
		moved.Day--
	}
	return moved.AddDays(s.days)
}

// Period moves a period.
func (s Shift) Period(p Period) Period { return Period{s.Date(p.From), s.Date(p.To)} }

// Time moves a local time to the same time of day of the shifted day. A time of day that the other
// day skips becomes the end of the gap. One that it has twice is the one as long after midnight, or
// else the first one.
func (s Shift) Time(local time.Time) time.Time {
	return sameTime(local, s.Date(scan.DateOf(local)), clockOf(local))
}

// sameTime returns the time of a day at which its clocks show a time of day, for a time of another
// day.
func sameTime(local time.Time, day scan.Date, clock time.Duration) time.Time {
	zone := local.Location()
	start, end := day.Start(zone), day.AddDays(1).Start(zone)

	// Of two days with the same change, the second pass through an hour corresponds to the second
	// one.
	elapsed := start.Add(local.Sub(scan.DateOf(local).Start(zone)))
	if elapsed.Before(end) && clockOf(elapsed) == clock {
		return elapsed
	}

	for at := start; at.Before(end); {
		if clockOf(at) >= clock {
			return at
		}
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(end) {
			change = end
		}
		if found := at.Add(clock - clockOf(at)); found.Before(change) {
			return found
		}
		at = change
	}
	return end
}

// clockOf returns the time of day that clocks show.
func clockOf(local time.Time) time.Duration {
	hour, minute, second := local.Clock()
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second +
		time.Duration(local.Nanosecond())
}

// Interval is the length of a point of a series.
type Interval string

// The intervals.
const (
	Hour  Interval = "HOUR"
	Day   Interval = "DAY"
	Week  Interval = "WEEK" // from Monday
	Month Interval = "MONTH"
)

// MaxPoints is how many points a series has at most.
const MaxPoints = 400

// Earliest returns the first day of the longest period that ends today: months are its MaxPoints
// points.
func Earliest(today scan.Date) scan.Date {
	return addMonths(scan.Date{Year: today.Year, Month: today.Month, Day: 1}, 1-MaxPoints)
}

// Default returns the interval of a series that does not ask for one.
func (p Period) Default() Interval {
	switch days := p.Days(); {
	case days <= 2:
		return Hour
	case days <= 92:
		return Day
	case days <= 366:
		return Week
	default:
		return Month
	}
}

// bound is the start of a point: so many hours after the start of a day.
type bound struct {
	day   scan.Date
	hours int
}

// bounds returns the starts of a series' points. ok is false for an unknown interval or more than
// so many points.
func (p Period) bounds(zone *time.Location, interval Interval, most int) (starts []bound, ok bool) {
	for day := p.From; day.Compare(p.To) <= 0; {
		end := day.AddDays(1)
		switch interval {
		case Hour:
			length := end.Start(zone).Sub(day.Start(zone))
			for n := 0; time.Duration(n)*time.Hour < length; n++ {
				starts = append(starts, bound{day, n})
			}
		case Day:
			// A zone that crossed the date line has skipped a day.
			if end.Start(zone).After(day.Start(zone)) {
				starts = append(starts, bound{day, 0})
			}
		case Week:
			starts = append(starts, bound{day, 0})
			end = day.AddDays(7 - (day.Weekday()+6)%7)
		case Month:
			starts = append(starts, bound{day, 0})
			end = addMonths(scan.Date{Year: day.Year, Month: day.Month, Day: 1}, 1)
		default:
			return nil, false
		}

		if day = end; len(starts) > most {
			return nil, false
		}
	}
	return starts, true
}

// Points returns the starts of the points of a series, and the end of the last one: of each point
// the same part of the shifted period. Hours begin at the same time of day; an hour that the other
// day skips is empty. ok is false for an unknown interval or more than MaxPoints points.
func (p Period) Points(zone *time.Location, interval Interval, shift Shift) (times []time.Time, ok bool) {
	return p.points(zone, interval, shift, MaxPoints)
}

// MaxHourDays is how many days Hours takes at most.
const MaxHourDays = 92

// Hours returns what Points does for hours, of up to MaxHourDays days. ok is false for more days.
func (p Period) Hours(zone *time.Location, shift Shift) (times []time.Time, ok bool) {
	if p.Days() > MaxHourDays {
		return nil, false
	}
	return p.points(zone, Hour, shift, (MaxHourDays+1)*24)
}

// points is Points for up to so many points.
func (p Period) points(zone *time.Location, interval Interval, shift Shift, most int) (times []time.Time, ok bool) {
	starts, ok := p.bounds(zone, interval, most)
	if !ok {
		return nil, false
	}

	times = make([]time.Time, 0, len(starts)+1)
	for i, b := range starts {
		day := shift.Date(b.day)
		if b.hours == 0 {
			times = append(times, day.Start(zone))
			continue
		}

		at := b.day.Start(zone).Add(time.Duration(b.hours) * time.Hour)
		clock, before := clockOf(at), clockOf(at.Add(-time.Hour))
		moved := sameTime(at, day, clock)
		if clock <= before && !moved.After(times[i-1]) {
			// The second pass through an hour is empty where the other day has one.
			moved = sameTime(at, day, before+time.Hour)
		}
		times = append(times, moved)
	}
	return append(times, shift.Date(p.To).AddDays(1).Start(zone)), true
}
