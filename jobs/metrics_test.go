package jobs_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMetricsOfCells: the metrics of what waits in the database add up all cells.
func TestMetricsOfCells(t *testing.T) {
	t.Parallel()

	t.Run("postgres", func(t *testing.T) {
		t.Parallel()

		now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		d := dbtest.Open(t, dbtest.DefaultCellURL(t))
		dbtest.SetClock(d, func() time.Time { return now })
		if _, err := dbtest.AddCell(t.Context(), d, model.At(now)); err != nil {
			t.Fatal(err)
		}

		// The first cell has a row of each kind that is due for a minute. The second cell has two;
		// the oldest is due for an hour.
		at := int64(model.At(now))
		const minute = int64(time.Minute / time.Microsecond)
		for _, statement := range []string{
			`INSERT INTO SCHEMA.deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (1, ?0, 'conversion', 'sale', 'pending', 0, 1, ?1, '{}')`,
			`INSERT INTO SCHEMA.report_days (site_id, day, state, version, due_at, built_at, visits, pageviews, events, checksum)
				VALUES (1, ?0, 0, 1, ?1, 0, 0, 0, 0, 0)`,
		} {
			for id, row := range []struct {
				schema string
				age    int64
			}{{"public", minute}, {"cell_2", 60 * minute}, {"cell_2", 2 * minute}} {
				testkit.NoError(t, dbtest.Exec(d, strings.ReplaceAll(statement, "SCHEMA", row.schema), id+1, at-row.age))
			}
		}

		j, err := jobs.New(jobs.Options{DB: d, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		testkit.NoError(t, err)
		metrics := metricsOf(t, j)
		for _, want := range []string{
			`tallygate_deliveries{state="pending"} 3`, `tallygate_deliveries{state="due"} 3`,
			"tallygate_oldest_due_delivery_seconds 3600", "tallygate_report_segments_due 3",
			"tallygate_oldest_due_report_seconds 3600",
		} {
			if !strings.Contains(metrics, "\n"+want+"\n") {
				t.Errorf("the metrics lack %q", want)
			}
		}
		if t.Failed() {
			t.Log(metrics)
		}
	})
}
