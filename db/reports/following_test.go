package reports_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// waysOf is a day of visits from "/" to a page of their own and back, each of a user id of its own.
func waysOf(day model.Day, visits int) segment.Rows {
	rows := segment.Rows{Day: day}
	for i := range visits {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i), byte(i >> 8), byte(day)}, N: 1}
		at := day.Start().Add(time.Duration(i) * time.Second)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", UserID: fmt.Sprintf("%08d%08d", day, i)})
		for n, path := range []string{"/", fmt.Sprintf("/%d", i), "/"} {
			id := int64(day)<<32 | int64(i)<<4 | int64(n)
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at.Add(time.Duration(n) * time.Second), ID: id, Path: path, Width: -1})
		}
	}
	return rows
}

// following asks for a journey and cohorts of some days.
func following(days int) *scan.Query {
	q := whole(days)
	q.Breakdowns, q.Journeys = nil, []scan.Journey{{From: scan.Step{Page: "/"}, Steps: scan.MaxJourneySteps}}
	q.Cohorts = &scan.Cohorts{First: q.From.Monday(), Weeks: 1}
	return q
}

// TestImportsAreNotFollowed checks that imported visits count in the totals, but in no journey and
// cohort.
func TestImportsAreNotFollowed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.store(f.site.ID, waysOf(startDay+1, 5))
		f.work((startDay + 2).Start().Add(time.Hour))
		own := f.report(following(2)).Results[0]

		g, err := segment.Build(waysOf(startDay, 7))
		testkit.NoError(t, err)
		record := func(context.Context, *db.Tx, model.SiteID, map[string]any, map[string]any) error { return nil }
		_, err = f.reports.Import(t.Context(), f.site.ID, &reports.Import{
			Source: model.ImportUmami, First: startDay, Last: startDay, Visits: []*segment.Segment{g},
		}, f.clock.now, record, func(float64) {})
		testkit.NoError(t, err)

		with := f.report(following(2)).Results[0]
		if with.Totals.Visits != own.Totals.Visits+7 || own.Totals.Visits != 5 {
			t.Errorf("%d visits with the import, %d without, want 12 and 5", with.Totals.Visits, own.Totals.Visits)
		}
		if with.Journeys[0].Visits != 5 || !reflect.DeepEqual(with.Journeys, own.Journeys) {
			t.Errorf("a journey of %d visits, want the site's own 5", with.Journeys[0].Visits)
		}
		if with.Cohorts[0].Users != 5 || !reflect.DeepEqual(with.Cohorts, own.Cohorts) {
			t.Errorf("cohorts %v, want the site's own 5 user ids", with.Cohorts)
		}
	})
}

// TestFollowingIsBounded checks that a report is refused when a journey or its cohorts need more
// memory than a report may use.
func TestFollowingIsBounded(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const visits = 500
		f := newFixture(t, d, 1)
		f.store(f.site.ID, waysOf(startDay, visits))
		f.work((startDay + 1).Start().Add(time.Hour))
		ask := func(bytes int64, q *scan.Query) error {
			reports.UseAtMost(f.reports, bytes)
			_, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
			return err
		}

		journeys, cohorts, neither := following(1), following(1), following(1)
		journeys.Cohorts, cohorts.Journeys = nil, nil
		neither.Journeys, neither.Cohorts = nil, nil
		needs := func(q *scan.Query) int64 {
			low, high := int64(0), int64(1<<30)
			for low < high {
				middle := (low + high) / 2
				err := ask(middle, q)
				if err != nil && !errors.Is(err, reports.ErrTooLarge) {
					t.Fatal(err)
				}
				if err == nil {
					high = middle
				} else {
					low = middle + 1
				}
			}
			return low
		}
		without := needs(neither)
		if more := needs(journeys) - without; more < 100*visits {
			t.Errorf("a journey needs %d bytes, want at least 100 for each of %d visits", more, visits)
		}
		if more := needs(cohorts) - without; more < 4*visits {
			t.Errorf("cohorts need %d bytes, want at least 4 for each of %d user ids", more, visits)
		}
	})
}
