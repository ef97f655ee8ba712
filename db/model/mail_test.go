package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

func TestReportMailSchedule(t *testing.T) {
	for _, test := range []struct {
		kind     model.ReportMailKind
		zone, at string
		due      string
		from, to string
	}{
		{"weekly", "UTC", "2026-11-20T12:00:00Z", "2026-11-23T06:00:00Z", "2026-11-16", "2026-11-22"},
		{"weekly", "UTC", "2026-11-23T05:59:59Z", "2026-11-23T06:00:00Z", "2026-11-16", "2026-11-22"},
		{"weekly", "UTC", "2026-11-23T06:00:00Z", "2026-11-30T06:00:00Z", "2026-11-23", "2026-11-29"},
		{"weekly", "Pacific/Auckland", "2026-11-20T12:00:00Z", "2026-11-22T17:00:00Z", "2026-11-16", "2026-11-22"},
		{"weekly", "America/Los_Angeles", "2026-11-23T13:00:00Z", "2026-11-23T14:00:00Z", "2026-11-16", "2026-11-22"},
		{"monthly", "UTC", "2026-02-10T00:00:00Z", "2026-03-01T06:00:00Z", "2026-02-01", "2026-02-28"},
		{"monthly", "Asia/Kolkata", "2026-12-31T23:00:00Z", "2027-01-01T00:30:00Z", "2026-12-01", "2026-12-31"},
		{"monthly", "UTC", "2026-03-01T06:00:00Z", "2026-04-01T06:00:00Z", "2026-03-01", "2026-03-31"},
		{"drop", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T04:00:00Z", "2026-03-28", "2026-03-28"}, // summer time begins
		{"drop", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T05:00:00Z", "2026-10-24", "2026-10-24"}, // and ends
	} {
		zone, err := model.TimeZone(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, test.at)
		if err != nil {
			t.Fatal(err)
		}

		mail := model.ReportMail{Kind: test.kind}
		mail.Schedule(model.At(at), zone)
		from, to := mail.Period()
		if due := mail.DueAt.Time().Format(time.RFC3339); due != test.due || from.String() != test.from || to.String() != test.to {
			t.Errorf("%s in %s after %s: due %s, about %s to %s; want %s, %s to %s", test.kind, test.zone, test.at, due, from, to,
				test.due, test.from, test.to)
		}
	}
}

// TestReportMailsCatchUp: after an interruption the last finished period is mailed, and each period at
// most once.
func TestReportMailsCatchUp(t *testing.T) {
	at := func(text string) model.Instant {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return model.At(parsed)
	}

	for _, test := range []struct {
		kind               model.ReportMailKind
		began, now, to, on string
	}{
		{"weekly", "2026-11-20T12:00:00Z", "2026-11-23T07:00:00Z", "2026-11-22", "2026-11-30"},
		{"weekly", "2026-11-20T12:00:00Z", "2026-12-09T07:00:00Z", "2026-12-06", "2026-12-14"},
		{"monthly", "2026-11-20T12:00:00Z", "2027-02-01T05:00:00Z", "2026-12-31", "2027-02-01"},
		{"drop", "2026-11-20T12:00:00Z", "2026-11-25T05:00:00Z", "2026-11-23", "2026-11-25"},
	} {
		mail := model.ReportMail{Kind: test.kind}
		mail.Schedule(at(test.began), time.UTC)
		mail.CatchUp(at(test.now), time.UTC)
		_, to := mail.Period()
		mail.Schedule(at(test.now), time.UTC)
		if to.String() != test.to || mail.Day.String() != test.on {
			t.Errorf("%s at %s: about days until %s, then on %s; want %s and %s", test.kind, test.now, to, mail.Day, test.to, test.on)
		}
	}
}
