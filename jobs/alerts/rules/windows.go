package rules

import (
	"math"
	"slices"
	"time"
)

// Weeks is how many earlier weeks traffic is compared with, and minWeeks how many of them a site
// must have measured.
const (
	Weeks    = 4
	minWeeks = 3
)

// Span is a time from From until, but not including, To.
type Span struct{ From, To time.Time }

// PastSpans returns the spans of the same length that end at the same time of the same weekday in
// the Weeks weeks before, in the zone, newest first. At a change of the clocks they keep the time
// of the wall clock.
func PastSpans(s Span, zone *time.Location) [Weeks]Span {
	var spans [Weeks]Span
	for i := range spans {
		to := weeksBefore(s.To, i+1, zone)
		spans[i] = Span{to.Add(-s.To.Sub(s.From)), to}
	}
	return spans
}

// PastSilences is PastSpans for a time without page views. At a change of the clocks the spans also
// begin no earlier than it on the wall clock: the hour before a site's quiet hours is not expected
// to have page views when the first quiet hour comes twice.
func PastSilences(s Span, zone *time.Location) [Weeks]Span {
	spans := PastSpans(s, zone)
	for i := range spans {
		from := weeksBefore(s.From, i+1, zone)
		if from.After(spans[i].From) {
			spans[i].From = from
		}
		if from.After(spans[i].To) {
			spans[i].From = spans[i].To
		}
	}
	return spans
}

// weeksBefore returns the same time of the wall clock some weeks before.
func weeksBefore(t time.Time, weeks int, zone *time.Location) time.Time {
	local := t.In(zone)
	year, month, day := local.Date()
	return time.Date(year, month, day-7*weeks, local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), zone)
}

// Classes of sites by the usual page views of a day. Each has the length of the span that traffic
// is counted in: long enough for the small ones to have figures, and short enough for the large
// ones to be counted within a bound.
var classes = []struct {
	from   int64 // page views of a day
	length time.Duration
}{
	{2_000_000, time.Minute},
	{200_000, 10 * time.Minute},
	{1_500, time.Hour},
	{400, 6 * time.Hour},
	{0, 24 * time.Hour},
}

// LongestSpan is the longest length that SpanOf returns.
const LongestSpan = 24 * time.Hour

// DaysRead is how many finished days of usage the rules need.
const DaysRead = 7 * (Weeks + 1)

// Days are the page views and events of the last finished UTC days, newest first. Days before the
// site was created are missing at the end.
type Days []int64

// Span returns the length of the span that the site's traffic is counted in.
func (d Days) Span() time.Duration {
	usual := median(d[:min(len(d), 7*Weeks)])
	for _, class := range classes {
		if usual >= class.from {
			return class.length
		}
	}
	return LongestSpan
}

// The bounds of Growth. A site that changes more in four weeks is measured in another way than
// before. Between steady and its inverse, days differ by chance.
const (
	mostGrowth = 2.0
	steady     = 1.25
)

// Growth returns by how much the last seven days exceed the seven days that ended some weeks
// before: the quotient of their three middle days, which a campaign or a holiday of two days does
// not change. It is 1 for a small difference, or if one of the two weeks is unknown.
func (d Days) Growth(weeks int) float64 {
	if len(d) < 7*(weeks+1) {
		return 1
	}

	now, then := middle(d[:7]), middle(d[7*weeks:7*(weeks+1)])
	if now == 0 || then == 0 {
		return 1
	}

	growth := float64(now) / float64(then)
	if growth < steady && growth > 1/steady {
		return 1
	}
	return min(max(1/mostGrowth, growth), mostGrowth)
}

// middle returns the sum of the three middle days of a week.
func middle(week Days) (sum int64) {
	sorted := slices.Sorted(slices.Values(week))
	for _, n := range sorted[2:5] {
		sum += n
	}
	return sum
}

// IsMeasured reports whether the site had any use in the seven days that ended some weeks before. A
// week without any, for example of a paused site, is compared with nothing. Unknown days count as
// measured.
func (d Days) IsMeasured(weeks int) bool {
	if len(d) < 7*(weeks+1) {
		return true
	}
	return slices.Max(d[7*weeks:7*(weeks+1)]) > 0
}

// Scaled returns what a count of an earlier week would be today.
func (d Days) Scaled(count int64, weeks int) int64 {
	return int64(math.Round(float64(count) * d.Growth(weeks)))
}

// median returns the upper median; 0 without any number.
func median(numbers []int64) int64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// past are counts of the same span in earlier weeks.
type past struct {
	usual       float64 // the median
	lower       int64   // the second smallest: one week may have been unusual
	upper       int64   // the second largest
	isSufficing bool    // enough weeks for a comparison
}

// pastOf returns the order statistics of counts of earlier weeks.
func pastOf(counts []int64) past {
	if len(counts) < minWeeks {
		return past{}
	}

	sorted := slices.Sorted(slices.Values(counts))
	n := len(sorted)
	middle := float64(sorted[(n-1)/2]+sorted[n/2]) / 2
	return past{middle, sorted[1], sorted[n-2], true}
}

// noise is the deviation of a count by chance, as of independent arrivals.
func noise(usual float64) float64 { return math.Sqrt(max(1, usual)) }
