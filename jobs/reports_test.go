package jobs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestReportsAreBuilt checks that the worker builds the days that have ended, and that old rows are
// deleted only with their reports in place.
func TestReportsAreBuilt(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		clock := testkit.NewClock(noon)
		dbtest.SetClock(d, clock.Now)

		for i, at := range []model.Instant{model.At(noon.AddDate(0, 0, -1)), model.At(noon.AddDate(0, -3, 0))} {
			for _, statement := range []string{
				`INSERT INTO visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel)
SELECT ?0, ?1, 1, 1, ?2, ?2, 1, 1`,
				`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT ?0, ?2, ?3, 1, 1, 0, false, '/'`,
			} {
				testkit.NoError(t, dbtest.Exec(d, statement, site.ID, at.Day(), at, i))
			}
		}

		// The first worker builds the reports. Old rows are dropped only afterwards, once an hour.
		options := jobs.Options{DB: d, Now: clock.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RetentionMonths: 120}
		builder := startWorkerWith(t, options)
		awaitThat(t, func() (string, bool) {
			// After a builder stops, its day is due again after minutes. This clock does not reach
			// them.
			days, err := dbtest.Rows[struct{ Built, Merged int64 }](d, `
SELECT count(*) AS built, count(CASE state WHEN 2 THEN 1 END) AS merged FROM report_days WHERE built_at > 0`)
			testkit.NoError(t, err)
			return fmt.Sprintf("%+v, want 2 built and 1 of them merged", days[0]), days[0].Built == 2 && days[0].Merged == 1
		})
		testkit.NoError(t, builder.Stop(t.Context()))

		options.RetentionMonths = 1
		worker := startWorkerWith(t, options)
		awaitThat(t, func() (string, bool) {
			days, err := dbtest.Count(d, "report_segments")
			visits, err2 := dbtest.Count(d, "visits")
			testkit.NoError(t, errors.Join(err, err2))
			return fmt.Sprintf("%d segments and %d visits, want 2 and 1", days, visits), days == 2 && visits == 1
		})
		testkit.NoError(t, worker.Stop(t.Context()))

		today := scan.DateOf(noon)
		answer, err := reports.New(d).Report(t.Context(), reports.Request{SiteID: site.ID, Now: model.At(noon),
			Periods: []*scan.Query{{Zone: time.UTC, From: today.AddDays(-200), To: today}}})
		if err != nil || answer.Results[0].Totals.Visits != 2 {
			t.Errorf("%+v of %+v, error %v; want both visits", answer.Results[0].Totals, answer, err)
		}
	})
}
