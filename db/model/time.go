package model

import (
	"regexp"
	"sync"
	"time"
	_ "time/tzdata" // for machines without a time zone database
)

// Instant is a time in microseconds since 1970-01-01 00:00:00 UTC. Both databases store it as a
// 64-bit integer, so that no time zone or precision is lost between them.
type Instant int64

// At converts a time, truncated to microseconds.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time returns i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add returns i plus d, truncated to microseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Microseconds()) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Microsecond }

const microsPerDay = 24 * 60 * 60 * 1_000_000

// Day is a UTC calendar day as the number of days since 1970-01-01.
type Day int32

// Day returns the UTC day that contains i.
func (i Instant) Day() Day {
	d := int64(i) / microsPerDay
	if int64(i)%microsPerDay < 0 {
		d--
	}
	return Day(d)
}

// Start returns 00:00 UTC of the day.
func (d Day) Start() Instant { return Instant(int64(d) * microsPerDay) }

// String formats the day as YYYY-MM-DD.
func (d Day) String() string { return d.Start().Time().Format(time.DateOnly) }

// ParseDay parses YYYY-MM-DD.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, err
	}
	return At(t).Day(), nil
}

// Month is a UTC calendar month written as year*100+month, for instance 202611. It is the quota
// period (analytics contract, section 8).
type Month int32

// Month returns the UTC month that contains i.
func (i Instant) Month() Month {
	y, m, _ := i.Time().Date()
	return Month(y*100 + int(m))
}

// Start returns 00:00 UTC on the first day of the month.
func (m Month) Start() time.Time {
	return time.Date(int(m)/100, time.Month(int(m)%100), 1, 0, 0, 0, 0, time.UTC)
}

// Next returns the month after m.
func (m Month) Next() Month { return At(m.Start().AddDate(0, 1, 0)).Month() }

// String formats the month as YYYY-MM.
func (m Month) String() string { return m.Start().Format("2006-01") }

// DefaultTimeZone is the time zone of a site that has not chosen one.
const DefaultTimeZone = "UTC"

// timeZoneForm is the form of IANA names, such as America/Argentina/Buenos_Aires or Etc/GMT+5.
var timeZoneForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]{0,30}(/[A-Z][A-Za-z0-9_+-]{0,30}){0,2}$`)

// timeZones caches zones by name. It holds valid names only, so that it is bounded.
var timeZones sync.Map // string to *time.Location

// TimeZone returns the zone with an IANA name. It fails for a name that the time zone database does
// not have.
func TimeZone(name string) (*time.Location, error) {
	if zone, ok := timeZones.Load(name); ok {
		return zone.(*time.Location), nil
	}

	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}

	timeZones.Store(name, zone)
	return zone, nil
}

// ParseTimeZone checks the name of a time zone that a client sent. It refuses Local, which depends
// on the machine, and names that are no IANA zones although a machine has files for them.
func ParseTimeZone(field, name string) (string, error) {
	form := timeZoneForm.MatchString(name) && name != "Local" && name != "Factory"
	if form {
		_, err := TimeZone(name)
		form = err == nil
	}
	if !form {
		return "", InvalidField(field, "invalid_time_zone", "Use an IANA name such as Europe/Berlin, or UTC.")
	}
	return name, nil
}
