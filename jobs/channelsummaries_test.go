package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alertchannels"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestChannelSummaries checks that concurrent planners queue each summary of a channel once, at 6:00 in the site's
// time zone and with the figures of the whole period, that quiet hours postpone its message, and that a site with
// failing figures delays no other. Channels that get no messages get no summaries.
func TestChannelSummaries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		user := dbtest.NewUser(t, d, "owner@example.com")
		shop, broken := dbtest.NewSite(t, d, user.AccountID, "shop.example"), dbtest.NewSite(t, d, user.AccountID, "broken.example")
		zone := "Pacific/Auckland" // 13 hours ahead
		if err := sites.New(d).UpdateSite(t.Context(), user.AccountID, shop.ID, sites.SiteUpdate{TimeZone: &zone}); err != nil {
			t.Fatal(err)
		}

		names := make(map[int64]string)
		add := func(name string, site *model.Site, change func(*model.AlertChannel)) {
			t.Helper()
			channel := model.AlertChannel{
				AccountID: user.AccountID, SiteID: site.ID, Kind: model.ChannelSlack, Name: name, Language: model.English,
				Events: []model.AlertEvent{}, Weekly: true,
			}
			change(&channel)
			address := "https://hook.example/0123456789abcdef"
			made, err := alertchannels.New(d).Create(t.Context(), channel, alertchannels.Secrets{Address: &address}, nil, model.At(noon))
			if err != nil {
				t.Fatal(err)
			}
			names[made.ID] = name
		}
		add("both", shop, func(c *model.AlertChannel) { c.Monthly = true })
		add("quiet", shop, func(c *model.AlertChannel) { c.Quiet = model.QuietHours{From: 5 * 60, To: 9 * 60, Zone: zone} })
		add("none", shop, func(c *model.AlertChannel) { c.Weekly = false })
		add("stopped", shop, func(*model.AlertChannel) {})
		add("broken", broken, func(*model.AlertChannel) {})
		if err := dbtest.Exec(d, "UPDATE alert_channels SET stopped_at = 1 WHERE name = 'stopped'"); err != nil {
			t.Fatal(err)
		}

		// summaries returns the messages, with the UTC time at which they are due.
		summaries := func() (list []string) {
			t.Helper()
			var rows []model.AlertMessage
			if err := d.Read.NewSelect().Model(&rows).Order("id").Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, m := range rows {
				list = append(list, fmt.Sprintf("%s %s %s..%s of %s: %d at %s", names[m.ChannelID], m.Event, m.Data.From, m.Data.To,
					m.Data.Site, m.Data.Summary.Figures.Visitors, m.NextAttemptAt.Time().UTC().Format("02T15:04")))
			}
			return list
		}

		// It is Friday, 20 November 2026.
		f := &figures{fails: map[int64]bool{broken.ID: true}}
		f.set(0, 20)
		week := "2026-11-16..2026-11-22 of shop.example: 140 at 22T"
		for _, step := range []struct {
			at   string
			want []string // further messages
		}{
			{"2026-11-20T12:00:00Z", nil},
			{"2026-11-22T16:59:59Z", nil}, // 5:59 on Monday in Auckland
			{"2026-11-22T17:00:00Z", []string{"both weekly " + week + "17:00", "quiet weekly " + week + "20:00"}},
			{"2026-11-22T17:00:00Z", nil},
			{"2026-11-29T16:59:59Z", nil},
			{"2026-11-30T17:00:00Z", []string{
				"both monthly 2026-11-01..2026-11-30 of shop.example: 600 at 30T17:00",
				"both weekly 2026-11-23..2026-11-29 of shop.example: 140 at 30T17:00",
				"quiet weekly 2026-11-23..2026-11-29 of shop.example: 140 at 30T20:00",
			}},
		} {
			at, err := time.Parse(time.RFC3339, step.at)
			if err != nil {
				t.Fatal(err)
			}

			before := len(summaries())
			var planners sync.WaitGroup
			for range 3 {
				planners.Go(func() {
					if _, err := jobs.PlanChannelSummaries(t.Context(), d, f, model.At(at)); err != nil && !strings.Contains(err.Error(), "no figures") {
						t.Error(err)
					}
				})
			}
			planners.Wait()

			further := summaries()[before:]
			slices.Sort(further)
			if !slices.Equal(further, step.want) {
				t.Errorf("at %s: %q, want %q", step.at, further, step.want)
			}
		}

		// The broken site's channel gets a summary as soon as there are figures, and not of a suspended account.
		f.mu.Lock()
		f.fails = nil
		f.mu.Unlock()
		later := model.At(noon.AddDate(0, 0, 11))
		before := len(summaries())
		for _, suspended := range []model.Instant{1, 0} {
			if err := dbtest.Exec(d, "UPDATE accounts SET suspended_at = ?", suspended); err != nil {
				t.Fatal(err)
			}
			if n, err := jobs.PlanChannelSummaries(t.Context(), d, f, later); err != nil || n > 0 != (suspended == 0) {
				t.Errorf("%d summaries, %v", n, err)
			}
		}
		want := []string{"broken weekly 2026-11-23..2026-11-29 of broken.example: 140 at 01T12:00"}
		if further := summaries()[before:]; !slices.Equal(further, want) {
			t.Errorf("%q, want %q", further, want)
		}
	})
}
