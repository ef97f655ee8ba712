package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// figures are the figures of sites that a test sets.
type figures struct {
	mu    sync.Mutex
	live  int64
	day   int64 // visitors of each day
	fails map[int64]bool
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

// TestReportMails checks that concurrent planners send each summary and each alert once, at 6:00 in
// the site's time zone, and that a site with failing figures delays no other.
func TestReportMails(t *testing.T) {
	t.Parallel()

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		user := dbtest.NewUser(t, d, "owner@example.com")
		site, broken := dbtest.NewSite(t, d, user.AccountID, "shop.example"), dbtest.NewSite(t, d, user.AccountID, "broken.example")
		zone := "Pacific/Auckland" // 13 hours ahead
		store := sites.New(d)
		if err := store.UpdateSite(t.Context(), user.AccountID, site.ID, sites.SiteUpdate{TimeZone: &zone}); err != nil {
			t.Fatal(err)
		}

		// It is Friday, 20 November 2026.
		yes, above, below := true, int64(100), int64(10)
		for id, update := range map[int64]sites.ReportMailsUpdate{
			site.ID:   {Weekly: &yes, Monthly: &yes, SpikeAbove: &above, DropBelow: &below},
			broken.ID: {Weekly: &yes, DropBelow: &below},
		} {
			if err := store.SetReportMails(t.Context(), user, id, update, model.At(noon)); err != nil {
				t.Fatal(err)
			}
		}

		f := &figures{fails: map[int64]bool{broken.ID: true}}
		for _, step := range []struct {
			at        string
			live, day int64  // visitors
			want      string // further mails
		}{
			{"2026-11-20T12:04:00Z", 101, 10, ""},
			{"2026-11-20T12:05:00Z", 100, 10, ""},           // not above the threshold
			{"2026-11-20T12:10:00Z", 101, 10, "spike: 101"}, //
			{"2026-11-20T16:59:59Z", 500, 9, ""},            // the pause after a spike; 5:59 in Auckland
			{"2026-11-20T17:00:00Z", 500, 9, "drop of 2026-11-20: 9"},
			{"2026-11-20T17:00:00Z", 500, 9, ""},
			{"2026-11-21T00:10:00Z", 500, 9, "spike: 500"},
			{"2026-11-22T17:00:00Z", 0, 20, "weekly until 2026-11-22: 140"}, // Monday in Auckland; no drop
			{"2026-11-23T18:00:00Z", 0, 9, "drop of 2026-11-23: 9"},
			{"2026-12-16T00:00:00Z", 0, 20, "monthly until 2026-11-30: 600, weekly until 2026-12-13: 140"}, // after three weeks
		} {
			at, err := time.Parse(time.RFC3339, step.at)
			if err != nil {
				t.Fatal(err)
			}
			f.set(step.live, step.day)

			before := len(reportMails(t, d))
			var planners sync.WaitGroup
			for range 3 {
				planners.Go(func() {
					if _, err := jobs.PlanReportMails(t.Context(), store, f, model.At(at)); err != nil && !strings.Contains(err.Error(), "no figures") {
						t.Error(err)
					}
				})
			}
			planners.Wait()

			further := reportMails(t, d)[before:]
			slices.Sort(further)
			if got := strings.Join(further, ", "); got != step.want {
				t.Errorf("at %s: %q, want %q", step.at, got, step.want)
			}
		}

		// The broken site is mailed as soon as it has figures.
		f.mu.Lock()
		f.fails, f.day = nil, 1
		f.mu.Unlock()
		before := len(reportMails(t, d))
		if n, err := jobs.PlanReportMails(t.Context(), store, f, model.At(noon.AddDate(0, 1, 0))); err != nil || n == 0 {
			t.Errorf("%d mails, %v", n, err)
		}
		if list := reportMails(t, d)[before:]; !slices.Contains(list, "weekly until 2026-12-13: 7") {
			t.Errorf("mails %q", list)
		}
	})
}

// reportMails returns the queued mails in order.
func reportMails(t *testing.T, d *db.DB) (list []string) {
	t.Helper()
	rows, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range rows {
		var data struct {
			Kind, To, Day string
			Visitors      int64
			Summary       model.ReportSummary
		}
		if err := json.Unmarshal([]byte(row.Data), &data); err != nil {
			t.Fatal(err)
		}

		text := data.Kind
		if data.Day != "" {
			text += " of " + data.Day
		}
		if data.To != "" {
			text += " until " + data.To
		}
		list = append(list, fmt.Sprintf("%s: %d", text, data.Visitors+data.Summary.Figures.Visitors))
	}
	return list
}
