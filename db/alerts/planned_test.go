package alerts_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestPlannedNotWanted checks that a channel gets no summary that was switched off, or after it was
// stopped, while the figures were read.
func TestPlannedNotWanted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example")
		for change, want := range map[string]int64{"weekly = weekly": 1, "stopped_at = 1": 0, "weekly = false": 0, "weekly_due_at = 8": 0} {
			channel := model.AlertChannel{
				AccountID: site.AccountID, SiteID: site.ID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: []model.AlertEvent{}, ConfirmedAt: 1, CreatedAt: 1, Weekly: true, WeeklyDueAt: 7,
			}
			if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_channels SET "+change+" WHERE id = ?", channel.ID))

			was := alerts.Planned{ChannelID: channel.ID, SiteID: site.ID, Kind: model.MessageWeekly, DueAt: 7}
			finished, err := alerts.NewChannels(d).Finish(t.Context(), was, 17, &model.AlertData{}, 7)
			if err != nil || finished != (want == 1) {
				t.Errorf("%s: finished %t, %v", change, finished, err)
			}
			rows, err := dbtest.Rows[int64](d, "SELECT count(*) FROM alert_messages WHERE channel_id = ?", channel.ID)
			if err != nil || rows[0] != want {
				t.Errorf("%s: %v messages, want %d, %v", change, rows, want, err)
			}
		}
	})
}

// TestDueAfter checks when messages are due, by the clock of the site, and the days that each then
// reports.
func TestDueAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
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
		{"visitors_below", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T04:00:00Z", "2026-03-28", "2026-03-28"}, // summer time begins
		{"visitors_below", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T05:00:00Z", "2026-10-24", "2026-10-24"}, // and ends
	} {
		zone, err := model.TimeZone(test.zone)
		testkit.NoError(t, err)

		due := alerts.DueAfter(test.kind, instant(t, test.at), zone)
		from, to, _ := alerts.Period(test.kind, due, due, zone)
		if text := due.Time().Format(time.RFC3339); text != test.due || from.String() != test.from || to.String() != test.to {
			t.Errorf("%s in %s after %s: due %s, about %s to %s; want %s, %s to %s", test.kind, test.zone, test.at, text, from, to,
				test.due, test.from, test.to)
		}
	}
}

// TestLastPeriod checks that the last finished period is reported after an interruption, and that
// the hour before a message is due still has the period before.
func TestLastPeriod(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, now, to string }{
		{"weekly", "2026-11-23T07:00:00Z", "2026-11-22"},
		{"weekly", "2026-12-09T07:00:00Z", "2026-12-06"},
		{"monthly", "2027-02-01T05:00:00Z", "2026-12-31"},
		{"visitors_below", "2026-11-25T05:00:00Z", "2026-11-23"},
	} {
		long := instant(t, "2026-11-16T06:00:00Z") // since when it has been due
		if _, to, _ := alerts.Period(test.kind, long, instant(t, test.now), time.UTC); to.String() != test.to {
			t.Errorf("%s at %s: about days until %s, want %s", test.kind, test.now, to, test.to)
		}
	}
}

// TestPeriodAfterANewTimeZone checks that each period is reported once when a site's time zone
// changes after a message was planned.
func TestPeriodAfterANewTimeZone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, due, zone, to, next string }{
		// 6:00 in Berlin is midnight in New York, and noon in Shanghai.
		{"weekly", "2026-11-23T05:00:00Z", "America/New_York", "2026-11-22", "2026-11-30T11:00:00Z"},
		{"weekly", "2026-11-23T05:00:00Z", "Asia/Shanghai", "2026-11-22", "2026-11-29T22:00:00Z"},
		{"visitors_below", "2026-11-25T05:00:00Z", "America/New_York", "2026-11-24", "2026-11-26T11:00:00Z"},
		{"monthly", "2026-12-01T05:00:00Z", "America/New_York", "2026-11-30", "2027-01-01T11:00:00Z"},
	} {
		zone, err := model.TimeZone(test.zone)
		testkit.NoError(t, err)

		due := instant(t, test.due)
		_, to, next := alerts.Period(test.kind, due, due.Add(time.Minute), zone)
		if at := next.Time().Format(time.RFC3339); to.String() != test.to || at != test.next {
			t.Errorf("%s in %s: about days until %s, then %s; want %s, %s", test.kind, test.zone, to, at, test.to, test.next)
		}
	}
}

func instant(t *testing.T, text string) model.Instant {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	testkit.NoError(t, err)
	return model.At(parsed)
}
