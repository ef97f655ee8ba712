package alertchannels_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alertchannels"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestSummaryNobodyWants checks that a channel gets no summary that was switched off, or after it was stopped, while the
// figures were read.
func TestSummaryNobodyWants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.NewOwnSite(t, d, "shop.example")
		for change, want := range map[string]int64{"weekly = weekly": 1, "stopped_at = 1": 0, "weekly = false": 0, "weekly_due_at = 8": 0} {
			channel := model.AlertChannel{
				AccountID: site.AccountID, SiteID: site.ID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: []model.AlertEvent{}, ConfirmedAt: 1, CreatedAt: 1, Weekly: true, WeeklyDay: 3, WeeklyDueAt: 7,
			}
			if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := dbtest.Exec(d, "UPDATE alert_channels SET "+change+" WHERE id = ?", channel.ID); err != nil {
				t.Fatal(err)
			}

			was := alertchannels.Summary{ChannelID: channel.ID, SiteID: site.ID, Kind: model.ReportWeekly, Day: 3, DueAt: 7}
			finished, err := alertchannels.New(d).FinishSummary(t.Context(), was, 10, 17, &model.AlertData{}, 7)
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
