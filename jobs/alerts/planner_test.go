package alerts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	jobalerts "github.com/tallygate/tallygate/jobs/alerts"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

var noon = dbtest.Noon.Time()

// figures are the figures of sites that a test sets.
type figures struct {
	mu    sync.Mutex
	live  int64
	day   int64 // visitors of each day
	fails map[model.SiteID]bool
}

func (f *figures) set(live, day int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live, f.day = live, day
}

func (f *figures) Summary(_ context.Context, site *model.Site, from, to model.Day) (*model.ReportSummary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails[site.ID] {
		return nil, errors.New("no figures")
	}

	visitors := int64(to-from+1) * f.day
	return &model.ReportSummary{Figures: model.ReportFigures{Visitors: visitors, Visits: visitors, Pageviews: visitors}}, nil
}

func (f *figures) LiveVisitors(context.Context, *model.Site, model.Instant) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live, nil
}

// TestChannelSummaries checks that concurrent planners queue each summary of a channel once, at
// 6:00 in the site's time zone and with the figures of the whole period, that quiet hours postpone
// its message, and that a site with failing figures delays no other. Channels that get no messages
// get no summaries.
func TestChannelSummaries(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		shop, broken := world.New(t, d).Site("shop.example", world.Of(user.AccountID)), world.New(t, d).Site("broken.example", world.Of(user.AccountID))
		zone := "Pacific/Auckland" // 13 hours ahead
		testkit.NoError(t, sites.New(d).Sites.UpdateSite(t.Context(), user.AccountID, shop.ID, sites.SiteUpdate{TimeZone: &zone}))

		names := make(map[int64]string)
		add := func(name string, site *model.Site, change func(*model.AlertChannel)) {
			t.Helper()
			channel := model.AlertChannel{
				AccountID: user.AccountID, SiteID: site.ID, Kind: model.ChannelSlack, Name: name, Language: model.English,
				Events: []model.AlertEvent{}, Weekly: true,
			}
			change(&channel)
			address := "https://hook.example/0123456789abcdef"
			made, err := alerts.NewChannels(d).Create(t.Context(), channel, alerts.Secrets{Address: &address}, nil, model.At(noon))
			testkit.NoError(t, err)
			names[made.ID] = name
		}
		add("both", shop, func(c *model.AlertChannel) { c.Monthly = true })
		add("quiet", shop, func(c *model.AlertChannel) { c.Quiet = model.QuietHours{From: 5 * 60, To: 9 * 60, Zone: zone} })
		add("none", shop, func(c *model.AlertChannel) { c.Weekly = false })
		add("stopped", shop, func(*model.AlertChannel) {})
		add("broken", broken, func(*model.AlertChannel) {})
		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_channels SET stopped_at = 1 WHERE name = 'stopped'"))

		// summaries returns the messages, with the UTC time at which they are due.
		summaries := func() (list []string) {
			t.Helper()
			var rows []model.AlertMessage
			testkit.NoError(t, d.Read.NewSelect().Model(&rows).Order("id").Scan(t.Context()))
			for _, m := range rows {
				list = append(list, fmt.Sprintf("%s %s %s..%s of %s: %d at %s", names[m.ChannelID], m.Event, m.Data.From, m.Data.To,
					m.Data.Site, m.Data.Summary.Figures.Visitors, m.NextAttemptAt.Time().UTC().Format("02T15:04")))
			}
			return list
		}

		// It is Friday, 20 November 2026.
		f := &figures{fails: map[model.SiteID]bool{broken.ID: true}}
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
			testkit.NoError(t, err)

			before := len(summaries())
			var planners sync.WaitGroup
			for range 3 {
				planners.Go(func() {
					if _, err := jobalerts.NewPlanner(d, f, nil).Plan(t.Context(), model.At(at)); err != nil && !strings.Contains(err.Error(), "no figures") {
						t.Error(err)
					}
				})
			}
			planners.Wait()

			further := summaries()[before:]
			slices.Sort(further)
			testkit.EqualSlices(t, further, step.want, "at %s", step.at)
		}

		// The broken site's channel gets a summary as soon as there are figures, and not of a
		// suspended account.
		f.mu.Lock()
		f.fails = nil
		f.mu.Unlock()
		later := model.At(noon.AddDate(0, 0, 11))
		before := len(summaries())
		for _, suspended := range []model.Instant{1, 0} {
			testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET suspended_at = ?", suspended))
			if n, err := jobalerts.NewPlanner(d, f, nil).Plan(t.Context(), later); err != nil || n > 0 != (suspended == 0) {
				t.Errorf("%d summaries, %v", n, err)
			}
		}
		want := []string{"broken weekly 2026-11-23..2026-11-29 of broken.example: 140 at 01T12:00"}
		if further := summaries()[before:]; !slices.Equal(further, want) {
			t.Errorf("%q, want %q", further, want)
		}
	})
}

// TestThresholds checks the messages of fixed thresholds, of which concurrent planners queue each
// once: a spike is checked every 5 minutes, with a pause after a message, and a drop at 6:00 in the
// site's time zone. An own channel gets the same as a site's.
func TestThresholds(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		site := world.New(t, d).Site("shop.example", world.Of(user.AccountID))
		zone := "Pacific/Auckland" // 13 hours ahead
		testkit.NoError(t, sites.New(d).Sites.UpdateSite(t.Context(), user.AccountID, site.ID, sites.SiteUpdate{TimeZone: &zone}))

		above, below, address := 100, 10, "https://hook.example/0123456789abcdef"
		channels := alerts.NewChannels(d)
		_, err := channels.SetOwn(t.Context(), user, site.ID, model.At(noon), func(c *model.AlertChannel) error {
			c.SpikeAbove, c.DropBelow = &above, &below
			return nil
		})
		testkit.NoError(t, err)
		_, err = channels.Create(t.Context(), model.AlertChannel{
			AccountID: user.AccountID, SiteID: site.ID, Kind: model.ChannelSlack, Name: "ops", Language: model.English,
			Events: []model.AlertEvent{}, SpikeAbove: &above, DropBelow: &below,
		}, alerts.Secrets{Address: &address}, nil, model.At(noon))
		testkit.NoError(t, err)

		messages := func() (list []string) {
			t.Helper()
			var rows []model.AlertMessage
			testkit.NoError(t, d.Read.NewSelect().Model(&rows).Order("id").Scan(t.Context()))
			for _, m := range rows {
				list = append(list, fmt.Sprintf("%s %s: %d of %d", m.Event, m.Data.From, m.Data.Figures.Value, m.Data.Figures.Threshold))
			}
			return list
		}

		// It is Friday, 20 November 2026.
		f := &figures{}
		for _, step := range []struct {
			at        string
			live, day int64  // visitors
			want      string // the message that both channels get
		}{
			{"2026-11-20T12:04:00Z", 101, 10, ""},
			{"2026-11-20T12:05:00Z", 100, 10, ""}, // not above the threshold
			{"2026-11-20T12:10:00Z", 101, 10, "visitors_above : 101 of 100"},
			{"2026-11-20T16:59:59Z", 500, 9, ""}, // the pause after a spike; 5:59 in Auckland
			{"2026-11-20T17:00:00Z", 500, 9, "visitors_below 2026-11-20: 9 of 10"},
			{"2026-11-20T17:00:00Z", 500, 9, ""},
			{"2026-11-21T00:10:00Z", 500, 9, "visitors_above : 500 of 100"},
			{"2026-11-22T17:00:00Z", 0, 20, ""},
			{"2026-11-23T18:00:00Z", 0, 9, "visitors_below 2026-11-23: 9 of 10"},
		} {
			at, err := time.Parse(time.RFC3339, step.at)
			testkit.NoError(t, err)
			f.set(step.live, step.day)

			before := len(messages())
			var planners sync.WaitGroup
			for range 3 {
				planners.Go(func() {
					if _, err := jobalerts.NewPlanner(d, f, nil).Plan(t.Context(), model.At(at)); err != nil {
						t.Error(err)
					}
				})
			}
			planners.Wait()

			var want []string
			if step.want != "" {
				want = []string{step.want, step.want}
			}
			testkit.EqualSlices(t, messages()[before:], want, "at %s", step.at)
		}
	})
}
