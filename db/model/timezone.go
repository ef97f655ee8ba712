package model

import (
	"regexp"
	"sync"
	"time"
	_ "time/tzdata" // for machines without a time zone database
)

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

// ParseTimeZone checks the name of a time zone that a client sent. It refuses Local, which depends on
// the machine, and names that are no IANA zones although a machine has files for them.
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
