package scan_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestDateStart(t *testing.T) {
	for _, test := range []struct {
		name, zone string
		date       scan.Date
		want       string // UTC
	}{
		{"UTC", "UTC", scan.Date{Year: 2026, Month: 3, Day: 1}, "2026-03-01T00:00:00Z"},
		{"winter", "Europe/Berlin", scan.Date{Year: 2026, Month: 3, Day: 29}, "2026-03-28T23:00:00Z"},
		{"summer", "Europe/Berlin", scan.Date{Year: 2026, Month: 3, Day: 30}, "2026-03-29T22:00:00Z"},
		{"a quarter of an hour", "Asia/Kathmandu", scan.Date{Year: 2026, Month: 2, Day: 1}, "2026-01-31T18:15:00Z"},
		{"midnight is skipped", "Africa/Cairo", scan.Date{Year: 2026, Month: 4, Day: 24}, "2026-04-23T22:00:00Z"},
		{"the day after a skipped midnight", "Africa/Cairo", scan.Date{Year: 2026, Month: 4, Day: 25}, "2026-04-24T21:00:00Z"},
		{"midnight goes back to eleven", "Africa/Cairo", scan.Date{Year: 2026, Month: 10, Day: 30}, "2026-10-29T22:00:00Z"},
		{"the first hour comes twice", "America/Havana", scan.Date{Year: 2026, Month: 11, Day: 1}, "2026-11-01T04:00:00Z"},
		{"the day is skipped", "Pacific/Apia", scan.Date{Year: 2011, Month: 12, Day: 30}, "2011-12-30T10:00:00Z"},
		{"the day after a skipped day", "Pacific/Apia", scan.Date{Year: 2011, Month: 12, Day: 31}, "2011-12-30T10:00:00Z"},
		{"a month that overflows", "UTC", scan.Date{Year: 2026, Month: 1, Day: 32}, "2026-02-01T00:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			zone, err := time.LoadLocation(test.zone)
			testkit.NoError(t, err)
			testkit.Equal(t, test.date.Start(zone).UTC().Format(time.RFC3339), test.want, "%v in %s starts at", test.date, test.zone)
		})
	}
}
