package reports_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
)

// oldDay is the first day of the segments in testdata.
var oldDay = model.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Day()

// oldForms are segments as programs of before the first release stored them: a plain one of two days with
// 500 page views each, and a deflated one of a day with 300 page views. The oldest program did not store
// the order of events in the deflated one. oracle.NewBusy(1) makes the rows of all, without clients.
func oldForms(t testing.TB) (forms []oldForm) {
	for _, name := range []string{"old", "version2"} {
		forms = append(forms, oldForm{name, oldPlain(t, name+"-plain.gz"), oldFile(t, name+"-deflated")})
	}
	return forms
}

type oldForm struct {
	name            string
	plain, deflated []byte
}

func oldPlain(t testing.TB, name string) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(oldFile(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func oldFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRewrite checks that segments of before the first release have the figures of their rows, that what
// they do not have is unknown, and that the worker rewrites them with the same figures.
func TestRewrite(t *testing.T) {
	for _, form := range oldForms(t) {
		t.Run(form.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) { testRewrite(t, d, form) })
		})
	}
}

func testRewrite(t *testing.T, d *db.DB, form oldForm) {
	f := newFixture(t, d, 1)
	other := dbtest.NewOwnSite(t, d, "imported.example")
	f.exec(`INSERT INTO report_imports (id, site_id, source, state, created_at, completed_at, first_day, last_day, visit_rows, dimensions,
  visitors, visits, pageviews, events, size) VALUES (7, ?, 'umami', 1, 1, 1, ?, ?, true, '', 1, 1, 300, 0, 300)`,
		other.ID, oldDay, oldDay)
	put := func(siteID, imported int64, packed []byte) {
		if err := f.reports.PutOld(t.Context(), siteID, imported, packed); err != nil {
			t.Fatal(err)
		}
	}
	put(f.site.ID, 0, form.plain)
	put(other.ID, 7, form.deflated)

	busy := oracle.NewBusy(1)
	rows := []segment.Rows{busy.Day(oldDay, 500)}
	rows = append(rows, busy.Day(oldDay+1, 500))
	for day := range rows {
		for i := range rows[day].Visits {
			rows[day].Visits[i].Client = model.Client{}
		}
	}

	dashboard := oracle.Dashboard(time.UTC, oldDay, 2)
	dashboard.Breakdowns = append(dashboard.Breakdowns, scan.Breakdown{By: scan.Country, VisitorsOnly: true},
		scan.Breakdown{By: scan.Host, VisitorsOnly: true}, scan.Breakdown{By: scan.SourceGroup, VisitorsOnly: true})
	all := *dashboard
	all.Breakdowns = slices.Clone(all.Breakdowns)
	for i := range all.Breakdowns {
		all.Breakdowns[i].VisitorsOnly = false
	}
	queries := []*scan.Query{
		rollable(dashboard), &all, oracle.Filtered(&all, scan.Page, oracle.BusyPath(10)), oracle.Filtered(&all, scan.SourceGroup, "other"),
	}
	report := func() (figures []any) {
		t.Helper()
		f.restart()
		for _, q := range queries {
			answer := f.report(q)
			oracle.Check(t, "own", oracle.Count(q, rows), answer.Results[0])

			imported, err := f.reports.Report(t.Context(), reports.Request{SiteID: other.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
			if err != nil || imported.Results[0].Totals.Visits == 0 {
				t.Fatalf("imported: %+v, error %v", imported, err)
			}
			figures = append(figures, shown(answer), shown(imported))
		}
		return figures
	}

	before := report()
	f.work(dbtest.Noon)
	for table, want := range map[string]byte{"report_segments": 5, "import_segments": 6} {
		type row struct{ Data []byte }
		found, err := dbtest.Rows[row](d, "SELECT data FROM "+table+" WHERE chunk = 0")
		if err != nil || len(found) != 1 || found[0].Data[0] != want {
			t.Errorf("%s: %d rows, error %v, want form %d", table, len(found), err, want)
		}
	}
	if after := report(); !reflect.DeepEqual(after, before) {
		t.Error("the figures have changed")
	}

	type rollup struct{ Data []byte }
	found, err := dbtest.Rows[rollup](d, "SELECT data FROM report_segments WHERE chunk = 2097152")
	if err != nil || len(found) != 1 {
		t.Fatalf("%d rollups, error %v", len(found), err)
	}
	if _, err := segment.DecodeRollup(found[0].Data); err != nil {
		t.Errorf("the rollup of the site's own segment: %v", err)
	}
}

// FuzzUnpack changes the stored form of a segment, of this program and of before. Its checksums must
// notice.
func FuzzUnpack(f *testing.F) {
	g, err := reports.Unpack(oldForms(f)[0].deflated)
	if err != nil {
		f.Fatal(err)
	}
	var forms [][]byte
	for _, form := range oldForms(f) {
		forms = append(forms, form.plain, form.deflated)
	}
	for _, below := range []int{0, 1 << 20} {
		packed, err := reports.PackColumns(g, below)
		if err != nil {
			f.Fatal(err)
		}
		forms = append(forms, packed)
	}
	for form := range uint8(len(forms)) {
		for at := range uint16(100) {
			f.Add(form, at*8, byte(0x55))
		}
		f.Add(form, uint16(1000), byte(0)) // cuts
	}

	f.Fuzz(func(t *testing.T, form uint8, at uint16, change byte) {
		packed := bytes.Clone(forms[int(form)%len(forms)])
		place := int(at) % len(packed)
		if packed[place] ^= change; change == 0 {
			packed = packed[:place]
		}

		got, err := reports.Unpack(packed)
		switch {
		case err == nil && !reflect.DeepEqual(got.Texts, mustUnpack(t, forms[int(form)%len(forms)]).Texts):
			t.Fatal("a damaged segment was read")
		case err != nil && !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, segment.ErrVersion):
			t.Fatalf("error %v, want ErrDamaged or ErrVersion", err)
		}
	})
}

func mustUnpack(t *testing.T, packed []byte) *segment.Segment {
	t.Helper()
	g, err := reports.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
