package reports_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// storeSources stores a day on which visitor n came by the n-th list of sources, in visits of an
// hour each. A source that ends with a slash is a referrer, any other one a campaign value.
func (f *fixture) storeSources(day model.Day, visitors ...[]string) {
	f.t.Helper()
	rows := segment.Rows{Day: day}
	for visitor, sources := range visitors {
		for n, source := range sources {
			key := segment.VisitKey{Visitor: model.VisitorID{byte(visitor), byte(day)}, N: int16(n + 1)}
			at := day.Start().Add(time.Duration(n) * time.Hour)
			v := segment.Visit{VisitKey: key, StartedAt: at, Channel: "referral"}
			if v.Source = source; strings.HasSuffix(source, "/") {
				v.Source, v.Referrer = "", source
			}
			rows.Visits = append(rows.Visits, v)
			rows.Views = append(rows.Views, segment.View{
				VisitKey: key, At: at, ID: int64(day)<<32 | int64(visitor)<<8 | int64(n), Path: "/", Width: -1,
			})
		}
	}
	f.store(f.site.ID, rows)
}

// byName asks for the rows of names and of sources in two days from startDay on.
func byName(visitorsOnly bool) *scan.Query {
	q := whole(2)
	q.Breakdowns = []scan.Breakdown{
		{By: scan.SourceName, VisitorsOnly: visitorsOnly}, {By: scan.Source, VisitorsOnly: visitorsOnly},
	}
	return q
}

// TestSourceNames checks that the row of a name counts a visitor of several of its sources once,
// that a filter by the name selects what the row counts, and that rollups give the same figures.
func TestSourceNames(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 2) // with rollups
		f.storeSources(startDay, []string{"google", "www.google.com/"}, []string{"www.google.de/"}, []string{"l.instagram.com/", "instagram"},
			[]string{"", "google"}, []string{"mail.google.com/"}, []string{"blog.example/"})
		f.storeSources(startDay+1, []string{"Google", "google"}, []string{"newsletter"})

		want := map[string][2]int64{ // visitors and visits
			"Google": {4, 6}, "Instagram": {1, 2}, "Gmail": {1, 1}, "blog.example": {1, 1}, "newsletter": {1, 1}, "": {1, 1},
		}
		check := func(name string) {
			t.Helper()
			f.restart()
			r := f.report(byName(false)).Results[0]
			got := map[string][2]int64{}
			for value, row := range r.Breakdowns[0].All() {
				got[value] = [2]int64{row.Visitors, row.Visits}

				filtered := byName(false)
				filtered.Filters = []scan.Filter{oracle.Is(scan.SourceName, value)}
				if totals := f.report(filtered).Results[0].Totals; totals.Visitors != row.Visitors || totals.Visits != row.Visits {
					t.Errorf("%s: the filter %q keeps %+v, and the row has %+v", name, value, totals, row)
				}
			}
			testkit.DeepEqual(t, got, want, "%s: rows", name)
			if google := r.Breakdowns[1].Of("google"); google.Visitors != 3 {
				t.Errorf("%s: SOURCE has changed: %+v", name, google)
			}

			for value, row := range f.report(byName(true)).Results[0].Breakdowns[0].All() {
				testkit.Equal(t, row.Visitors, want[value][0], "%s: visitors of %q alone", name, value)
			}
		}
		f.clock.now = (startDay + 2).Start()
		check("live")
		f.work((startDay + 4).Start())
		check("built")
		f.checkNamesOfRollups(want)
	})
}

// checkNamesOfRollups replaces the figures of all rollups by none, and checks that only rollups
// with the names of this program are used for names.
func (f *fixture) checkNamesOfRollups(want map[string][2]int64) {
	f.t.Helper()
	google := func() int64 {
		f.restart()
		return f.report(byName(true)).Results[0].Breakdowns[0].Of("Google").Visitors
	}

	for names, visitors := range map[uint64]int64{
		model.SourceNamesVersion(): 0, model.SourceNamesVersion() + 1: want["Google"][0], 0: want["Google"][0],
	} {
		empty := &segment.Rollup{Names: names}
		f.exec("UPDATE report_segments SET data = ? WHERE chunk = 2097152 AND site_id = ?", empty.Encode(), f.site.ID)
		if got := google(); got != visitors {
			f.t.Errorf("names %d of %d: %d visitors, want %d", names, model.SourceNamesVersion(), got, visitors)
		}
	}
}
