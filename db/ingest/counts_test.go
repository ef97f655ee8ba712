package ingest_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestUnknownEventsAreBounded: a site has 100 names for a day, known names count on, and another
// site or day has its own.
func TestUnknownEventsAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
		add := func(siteID model.SiteID, day model.Day, from, n int) {
			t.Helper()
			counts := map[ingest.UnknownEventKey]int64{}
			for i := range n {
				counts[ingest.UnknownEventKey{SiteID: siteID, Day: day, Name: fmt.Sprintf("e%03d", from+i)}] = int64(i + 1)
			}
			testkit.NoError(t, ingest.New(d).AddUnknownEvents(t.Context(), counts))
		}

		add(site.ID, 5, 0, 60)
		add(site.ID, 5, 30, 60) // 30 known, 30 new
		add(site.ID, 5, 0, 140) // 90 known, 10 of 50 new
		add(site.ID, 6, 0, 1)
		add(other.ID, 5, 0, 2)
		add(other.ID+1, 5, 0, 2) // no such site

		for _, test := range []struct {
			siteID model.SiteID
			day    model.Day
			want   int
		}{{site.ID, 5, 100}, {site.ID, 6, 1}, {other.ID, 5, 2}, {other.ID + 1, 5, 0}} {
			rows, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM unknown_events WHERE site_id = ? AND day = ?", test.siteID, test.day)
			if err != nil || rows[0].N != test.want {
				t.Errorf("site %d has %d names for day %d, %v; want %d", test.siteID, rows[0].N, test.day, err, test.want)
			}
		}

		testkit.NoError(t, sites.New(d).Sites.RegisterEvent(t.Context(), site.AccountID, site.ID, "e089"))

		events, err := ingest.New(d).UnknownEventsOfSites(t.Context(), []model.SiteID{site.ID, other.ID}, 5)
		testkit.NoError(t, err)
		if got := events[site.ID]; len(got) != ingest.ShownUnknownEvents ||
			got[0] != (ingest.UnknownEvent{SiteID: site.ID, Name: "e059", Count: 60 + 30 + 60, Last: 5}) {
			t.Errorf("%d names, first %+v", len(got), got[0])
		}
		if got := fmt.Sprint(events[other.ID]); got != fmt.Sprintf("[{%d e001 2 1970-01-06} {%[1]d e000 1 1970-01-06}]", other.ID) {
			t.Errorf("the other site has %s", got)
		}
		if events, err = ingest.New(d).UnknownEventsOfSites(t.Context(), []model.SiteID{site.ID}, 6); err != nil || len(events[site.ID]) != 1 {
			t.Errorf("since day 6: %v, %v", events, err)
		}
	})
}

// TestCaptchaCountsOfASitekey checks that counts add up by sitekey, day and name, and that a
// deleted sitekey gets no counts.
func TestCaptchaCountsOfASitekey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := world.New(t, d)
		account := w.Account("a")
		key := w.Sitekey(account)

		october, november := model.Day(20757), model.Day(20777) // 31 October and 20 November 2026
		count := func(id model.SitekeyID, day model.Day, name string) ingest.CaptchaCountKey {
			return ingest.CaptchaCountKey{SitekeyID: id, Day: day, Name: name}
		}
		for range 2 {
			err := ingest.New(d).AddCaptchaCounts(t.Context(), map[ingest.CaptchaCountKey]int64{
				count(key.ID, october, "verified"): 1, count(key.ID, november, "verified"): 2, count(key.ID, november+1, "verified"): 3,
				count(key.ID, november, "challenge"): 1 << 40, count(key.ID+1, november, "verified"): 5,
			})
			testkit.NoError(t, err)
		}

		activity, err := ingest.New(d).CaptchaActivity(t.Context(), []model.SitekeyID{key.ID, key.ID + 1}, november)
		days := activity[key.ID]
		if err != nil || len(activity) != 1 || len(days) != 2 || days[0].Verified != 6 || days[1].Challenges != 1<<41 {
			t.Errorf("activity %+v, %v", activity, err)
		}

		used, err := ingest.New(d).CaptchaVerifications(t.Context(), []model.SitekeyID{key.ID, key.ID + 1}, 202610)
		if err != nil || fmt.Sprint(used) != fmt.Sprintf("map[%d:map[2026-10:2 2026-11:10]]", key.ID) {
			t.Errorf("verifications %v, %v", used, err)
		}
	})
}
