package reports_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// vitals makes a day of events, each with a visit and a value of the property n.
func vitals(day model.Day, values []string) segment.Rows {
	rows := segment.Rows{Day: day}
	for i, value := range values {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i), byte(i >> 8), byte(day)}, N: 1}
		at := day.Start().Add(time.Duration(i) * time.Second)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct"})
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(day)<<32 | int64(i), Path: "/", Width: -1})
		rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: int64(day)<<32 | int64(i), Name: "vitals",
			Path: fmt.Sprintf("/%d", i%3), Properties: `{"n":` + value + `}`})
	}
	return rows
}

// randomNumbers makes values, most of them numbers, and most of these different.
func randomNumbers(r *rand.Rand, n int) []string {
	values := make([]string, n)
	for i := range values {
		switch r.IntN(12) {
		case 0:
			values[i] = []string{`"x"`, `true`, `null`, `""`, `"01"`}[r.IntN(5)]
		case 1:
			values[i] = `"` + strconv.Itoa(r.IntN(50)) + `"`
		case 2:
			values[i] = strconv.FormatFloat(r.Float64()/10, 'f', -1, 64)
		case 3:
			values[i] = fmt.Sprintf("%de-%d", r.IntN(1e9)-5e8, r.IntN(200))
		default:
			values[i] = strconv.FormatFloat(r.ExpFloat64()*2_000-100, 'f', 1+r.IntN(12), 64)
		}
	}
	return values
}

// numbersSQL returns the numbers of the property n of a site's events. Its parameters are the site,
// and a path or "".
func numbersSQL(d *db.DB) string {
	if d.IsPostgres() {
		return `WITH texts AS (SELECT properties::jsonb ->> 'n' AS t FROM events
  WHERE site_id = ? AND name = 'vitals' AND (path = ? OR '' = ?)),
numbers AS (SELECT t::float8 AS v FROM texts WHERE t ~ '^-{0,1}(0|[1-9][0-9]*)([.][0-9]+){0,1}([eE][+-]{0,1}[0-9]+){0,1}$') `
	}
	return `WITH texts AS (SELECT json_extract(properties, '$.n') AS t, json_type(properties, '$.n') AS kind FROM events
  WHERE site_id = ? AND name = 'vitals' AND (path = ? OR '' = ?)),
numbers AS (SELECT CAST(t AS real) AS v FROM texts WHERE kind IN ('integer', 'real') OR kind = 'text' AND t = CAST(CAST(t AS integer) AS text)) `
}

// sqlNumbers are figures as the database counts them.
type sqlNumbers struct {
	Events, Numbers              int64
	Sum                          *float64
	Min, Max                     float64
	P50, P75, P90, P95, P99, Avg float64
}

// figuresSQL counts the numbers of numbersSQL: PostgreSQL with its percentile_disc and its decimal
// numbers, SQLite with the rank of each number.
func figuresSQL(d *db.DB) string {
	if d.IsPostgres() {
		return numbersSQL(d) + `SELECT (SELECT count(*) FROM texts) AS events, count(*) AS numbers,
  sum(v::text::numeric)::float8 AS sum, avg(v::text::numeric)::float8 AS avg, min(v) AS min, max(v) AS max,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS p50, percentile_disc(0.75) WITHIN GROUP (ORDER BY v) AS p75,
  percentile_disc(0.9) WITHIN GROUP (ORDER BY v) AS p90, percentile_disc(0.95) WITHIN GROUP (ORDER BY v) AS p95,
  percentile_disc(0.99) WITHIN GROUP (ORDER BY v) AS p99 FROM numbers`
	}
	of := func(percent int) string {
		return fmt.Sprintf("min(CASE WHEN 100 * rank >= %d * n THEN v END) AS p%d", percent, percent)
	}
	return numbersSQL(d) + `, ranked AS (SELECT v, row_number() OVER (ORDER BY v) AS rank, count(*) OVER () AS n FROM numbers)
SELECT (SELECT count(*) FROM texts) AS events, count(*) AS numbers, 0.0 AS avg, min(v) AS min, max(v) AS max, ` +
		strings.Join([]string{of(50), of(75), of(90), of(95), of(99)}, ", ") + ` FROM ranked`
}

// TestNumbersEqualSQL compares sums, averages and percentiles of days from rows, of built days
// beyond the limit of different texts, and of a merged month with a count by SQL. On PostgreSQL,
// percentiles are those of percentile_disc.
func TestNumbersEqualSQL(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 3)
		const days = 3
		for n := range days {
			f.store(f.site.ID, vitals(startDay+model.Day(n), randomNumbers(f.random, 1_700+n)))
		}
		other := world.New(t, d).Site("other.example", world.Of(f.site.AccountID))
		f.store(other.ID, vitals(startDay, []string{"123456789"}))

		q := whole(days)
		q.Breakdowns = nil
		q.Numbers = []scan.Numbers{
			{Event: "vitals", Property: "n"}, {Event: "vitals", Property: "n", Groups: scan.NumberRows, By: scan.Page},
		}
		compare := func(name, path string, got scan.NumberFigures) {
			t.Helper()
			rows, err := dbtest.Rows[sqlNumbers](d, figuresSQL(d), f.site.ID, path, path)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%s: %d rows, error %v", name, len(rows), err)
			}
			want := rows[0]
			p := [...]float64{want.P50, want.P75, want.P90, want.P95, want.P99}
			if got.Events != want.Events || got.Numbers != want.Numbers || got.Min != want.Min || got.Max != want.Max || got.Percentiles != p {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
			if d.IsPostgres() && (got.Sum != *want.Sum || got.Average != want.Avg) {
				t.Errorf("%s: sum %v and average %v, want %v and %v", name, got.Sum, got.Average, *want.Sum, want.Avg)
			}
			if got.Numbers < 1_000 || got.Numbers == got.Events || got.Unknown != 0 {
				t.Errorf("%s: %d numbers of %d events, %d unknown", name, got.Numbers, got.Events, got.Unknown)
			}
		}
		check := func(name string) {
			t.Helper()
			f.restart()
			result := f.report(q).Results[0]
			compare(name, "", result.Numbers[0].Figures[0])
			for i, path := range result.Numbers[1].Values {
				compare(name+" of "+path, path, result.Numbers[1].Figures[i])
			}
			testkit.Equal(t, len(result.Numbers[1].Values), 3, "%s: pages", name)
		}

		f.clock.now = (startDay + days - 1).Start().Add(20 * time.Hour)
		check("from rows")
		f.work((startDay + days).Start().Add(time.Hour))
		check("built")
		f.work((startDay + days).Start().Add(50 * time.Hour))
		check("final")
		f.work((startDay + 70).Start())
		if states := f.states(); states[merged] == 0 {
			t.Fatalf("days by state %v; want all merged", states)
		}
		check("merged")
	})
}

// TestNumbersWithinBudget checks that a report of too many different numbers fails with a clear
// error, and that one within the budget counts them all.
func TestNumbersWithinBudget(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 4)
		const events = 20_000
		values := make([]string, events)
		for i := range values {
			values[i] = strconv.Itoa(i) + ".5"
		}
		f.store(f.site.ID, vitals(startDay, values))
		f.work((startDay + 1).Start().Add(time.Hour))

		q := whole(1)
		q.Breakdowns, q.Numbers = nil, []scan.Numbers{{Event: "vitals", Property: "n"}}
		if got := f.report(q).Results[0].Numbers[0].Figures[0]; got.Numbers != events || got.Sum != events*events/2 {
			t.Errorf("%+v; want %d numbers", got, events)
		}

		reports.UseAtMost(f.reports, 256<<10)
		_, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
		if !errors.Is(err, reports.ErrTooLarge) {
			t.Errorf("error %v with a small budget, want ErrTooLarge", err)
		}
	})
}
