// Package scan counts reports from segments. docs/owner/reports.md has the definitions; each is
// tested against a naive count of the same rows.
//
//   - A day is a day of the site's time zone. Page views and events count at their own time, visits
//     at their start.
//   - Visitors of a day are the distinct visitors with a page view on it; those of a longer period
//     are its days added up. A user id counts once in the period, in a row and in a point.
//   - A visit has at least one page view. Visits that only server events opened count in figures of
//     events alone.
//   - Journeys and cohorts count visits that began in the period, with all their page views.
//   - A filter keeps or drops whole visits, so that all figures of a page speak of the same visits.
//
// A Scanner takes one segment at a time and needs memory for one segment and for the values that it
// found. The package never reads a database, a clock or the network.
package scan

import (
	"sort"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Dimension is what visits, page views or events are broken down by.
type Dimension uint8

// The dimensions. Those up to SourceName are of the visit.
const (
	EntryPage Dimension = iota
	ExitPage
	Channel
	Source
	Referrer
	UTMSource
	UTMMedium
	UTMCampaign
	UTMContent
	UTMTerm
	ClickID
	Language
	Width
	Country
	Browser
	System
	Device
	Host
	SourceGroup
	SourceName // derived from Source, see model.NameOfSource
	Page
	Event
	Property // of Breakdown.Property, of events named Breakdown.Event or of all
	DayOfWeek
	HourOfDay

	Dimensions // their number
)

// fields are the columns of the visit's dimensions. The values of SourceName are names of their
// texts.
var fields = [...]segment.Field{
	EntryPage: segment.Entry, ExitPage: segment.Exit, Channel: segment.Channel, Source: segment.Source,
	Referrer: segment.Referrer, UTMSource: segment.UTMSource, UTMMedium: segment.UTMMedium,
	UTMCampaign: segment.UTMCampaign, UTMContent: segment.UTMContent, UTMTerm: segment.UTMTerm,
	ClickID: segment.ClickID, Language: segment.Language, Width: segment.Width,
	Country: segment.Country, Browser: segment.Browser, System: segment.System, Device: segment.Device,
	Host: segment.Host, SourceGroup: segment.SourceGroup, SourceName: segment.Source,
}

// isOfBrowser reports whether only visits with a hit of a browser have a value of the dimension.
func isOfBrowser(by Dimension) bool {
	return by == EntryPage || by == ExitPage || by == Language || by == Width || by >= Country && by <= Host
}

// Breakdown asks for one row per value of a dimension.
type Breakdown struct {
	By       Dimension
	Property string // of Property: its name
	Event    string // of Property: only of events of this name; empty for all

	// VisitorsOnly permits to leave out all figures but Visitors, which takes less time. The rows
	// are the same.
	VisitorsOnly bool
}

// Same reports whether both ask for the same rows.
func (b Breakdown) Same(other Breakdown) bool {
	b.VisitorsOnly = other.VisitorsOnly
	return b == other
}

// Filter keeps the visits with a value that the operator accepts, or drops them with a negative
// one. Page, Event and Property keep a visit in which such a page view or event happened, whenever
// in the visit.
type Filter struct {
	Breakdown
	Operator model.ReportOperator
	Values   []string // one must match; the empty text also stands for no value
}

// Query is what to count. It is data only, so that equal queries can be recognised.
type Query struct {
	Zone *time.Location
	// From and To are the first and the last local day.
	From, To Date
	// Since leaves out what happened before this time of the first day. Zero leaves out nothing.
	Since time.Time
	// Until leaves out what happened at this time and later, to compare with an unfinished day.
	// Zero leaves out nothing.
	Until time.Time

	Filters    []Filter
	KeyEvents  map[string]bool // names of the events that are conversions
	Points     []time.Time     // starts of the series' points, ascending; the last one ends the series
	Hours      []time.Time     // a second series, as Points
	Breakdowns []Breakdown
	Funnels    []Funnel
	Journeys   []Journey
	Cohorts    *Cohorts // nil for none
	Numbers    []Numbers
	Properties *PropertyNames // which properties to list; nil for none

	WithoutRevenue bool // for readers who must not see it: no figures have revenue
}

// Date is a day of the calendar in the query's time zone.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the date of a time in its own location.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date{y, m, d}
}

// Start returns the first time that belongs to the day or to a later one: midnight, or the end of
// the gap where the zone skips midnight or the whole day.
func (d Date) Start(zone *time.Location) time.Time {
	midnight := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, zone)
	if DateOf(midnight) == d.normal() && DateOf(midnight.Add(-time.Second)) != d.normal() {
		return midnight
	}

	// Midnight was skipped or came twice. No zone is 36 hours away from UTC.
	const reach = 36 * 60 * 60
	earliest := d.utc().Add(-reach * time.Second)
	seconds := sort.Search(2*reach, func(n int) bool {
		return DateOf(earliest.Add(time.Duration(n)*time.Second).In(zone)).Compare(d) >= 0
	})
	return earliest.Add(time.Duration(seconds) * time.Second).In(zone)
}

// normal returns the date with its month and day in range, so that Date{2026, 1, 32} is 1 February.
func (d Date) normal() Date { return DateOf(d.utc()) }

// AddDays returns the date n days later.
func (d Date) AddDays(n int) Date { return Date{d.Year, d.Month, d.Day + n}.normal() }

// Compare orders dates.
func (d Date) Compare(other Date) int {
	return d.utc().Compare(other.utc())
}

// DaysUntil returns the number of days from d to other, negative if other is earlier.
func (d Date) DaysUntil(other Date) int { return int(other.utc().Sub(d.utc()) / (24 * time.Hour)) }

// Weekday returns the day of the week, 0 for Sunday.
func (d Date) Weekday() int { return int(d.utc().Weekday()) }

// Number returns the days from 1970-01-01 to d.
func (d Date) Number() model.Day { return model.At(d.utc()).Day() }

// DateOfNumber is the inverse of Number.
func DateOfNumber(n model.Day) Date { return DateOf(n.Start().Time()) }

// String formats the date as YYYY-MM-DD.
func (d Date) String() string { return d.utc().Format(time.DateOnly) }

func (d Date) utc() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

// PropertyNames asks for the names of the properties that events carried.
type PropertyNames struct {
	Event string // only of events of this name; empty for all
}

// Funnel asks how many visitors went through steps in this order within a UTC day.
type Funnel struct {
	Steps []Step
}

// Step is a page view with a path that matches a pattern, or an event of a name.
type Step struct {
	Page  string // a pattern, see model.PatternMatcher; empty for an event
	Event string
}

// UTCDays returns the UTC days whose segments the query reads.
func (q *Query) UTCDays() (first, last model.Day) {
	return model.At(q.From.Start(q.Zone)).Day(), model.At(q.To.AddDays(1).Start(q.Zone).Add(-time.Microsecond)).Day()
}
