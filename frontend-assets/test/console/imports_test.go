package console_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// importPlausible imports the export of testdata, which has 1 to 4 February 2026, as its owner
// does.
func (s *service) importPlausible(siteKey string) {
	s.TB.Helper()
	exported, err := filepath.Glob("../../../cmd/tallygate/importer/testdata/plausible/*.csv")
	if err != nil || len(exported) == 0 {
		s.TB.Fatalf("%d files of an export, %v", len(exported), err)
	}

	args := append([]string{"admin", "import", "--site", siteKey, "--from", "plausible"}, exported...)
	cmd := program.Command("", map[string]string{"TALLYGATE_DATA_DIR": s.dir}, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.TB.Fatalf("import: %v\n%s", err, out)
	}
}

// chartSum adds up the column of the chart's table.
const chartSum = `[...document.querySelectorAll('.chart tbody tr')].reduce((sum, tr) => sum + Number(tr.cells[1].textContent), 0)`

// TestImportedFiguresChromium imports an export of Plausible, and checks that the totals are the
// sum of the chart, that no row leads to 0, and that the page says what is imported and what is
// missing.
func TestImportedFiguresChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("example.com", "Shop")
	testkit.Require(t, s.hit(key, "http://example.com", "/", ""), 204, "a hit: status")
	s.importPlausible(key)

	const days = "?from=2026-02-01&to=2026-02-05"
	p := s.openSignedIn("/sites/" + id + days)
	p.WaitFor(total(0) + " === '20'")
	p.see("Before Feb 5, 2026: from Plausible.")
	p.WaitFor("document.querySelector('.line.imported')")
	if got := p.bars("Pages"); strings.Join(got, ",") != "/ 17,/pricing,%20plans 9" {
		t.Errorf("pages: %q", got)
	}
	p.see("Rows without a link are imported, and cannot be filtered.")
	p.WaitFor(`!document.querySelector('section[aria-label="Pages"] .ranks a')`)
	p.see("Imported days are left out, because they have no such values.")
	p.look("figures-imported")

	p.press("Show as a table")
	p.WaitFor(chartSum + " === 20")

	// Daily sums have no hours: the chart of one day is the day.
	p.Goto(s.Origin + "/sites/" + id + "?from=2026-02-01&to=2026-02-01")
	p.WaitFor(total(0) + " === '10'")
	p.WaitFor("document.querySelector('.plot').ariaValueMax === '1' && /: 10$/.test(document.querySelector('.plot').ariaValueText)")
	p.press("Show as a table")
	p.WaitFor(chartSum + " === 10")

	p.Goto(s.Origin + "/sites/" + id + days + "&audience=hour_of_day")
	p.see("Imported days are left out, because they have no hours.")
	p.Goto(s.Origin + "/sites/" + id + days + "&f=page:is:/")
	p.see("Imported days are left out, because they cannot be filtered.")
	p.Goto(s.Origin + "/sites/" + id + days + "&all=page")
	p.WaitFor("document.querySelectorAll('dialog tbody tr').length === 2 && !document.querySelector('dialog tbody a')")

	// The readers of a shared link see the same.
	reader := s.open("/share" + days + "#" + s.createLink(id, "All", ""))
	reader.WaitFor(total(0) + " === '20'")
	reader.see("Before Feb 5, 2026: from Plausible.")
	reader.see("Rows without a link are imported, and cannot be filtered.")
	p.clean(s)
}

// TestImportedDaysWithoutVisitorsChromium checks that the chart of visitors has a gap, and says
// why, on days that have page views alone.
func TestImportedDaysWithoutVisitorsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("example.com", "Shop")
	testkit.Require(t, s.hit(key, "http://example.com", "/", ""), 204, "a hit: status")

	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	stored, err := dbtest.Rows[struct{ ID model.SiteID }](d, "SELECT id FROM sites")
	if err != nil || len(stored) != 1 {
		t.Fatalf("sites: %v, %v", stored, err)
	}
	yesterday := model.At(time.Now()).Day() - 1
	_, err = reports.New(d).Import(t.Context(), stored[0].ID, &reports.Import{
		Source: model.ImportGoatCounterSums, First: yesterday - 1, Last: yesterday,
		Dimensions: []model.ReportDimension{model.DimensionPage},
		Figures: []reports.ImportFigure{
			{Day: yesterday - 1, Pageviews: 30}, {Day: yesterday, Pageviews: 40},
			{Dimension: model.DimensionPage, Day: yesterday, Value: "/", Visitors: 40, Pageviews: 40},
		},
	}, model.At(time.Now()), sites.RecordImport, func(float64) {})
	testkit.NoError(t, err)

	p := s.openSignedIn("/sites/" + id + "?period=7d&table=1")
	p.WaitFor(total(2) + " === '70'")
	p.see("GoatCounter counts page views, but no visitors of a day.")
	p.WaitFor("[...document.querySelectorAll('.chart tbody td')].filter(td => td.textContent === '–').length === 2")
	p.Eval("document.querySelector('.totals a[href*=pageviews]').click()", nil)
	p.WaitFor(chartSum + " === 70")
	if text := p.Text("document.body.innerText"); strings.Contains(text, "no visitors of a day") {
		t.Error("page views have the hint about visitors")
	}
	p.clean(s)
}

// TestPathsAndHoursChromium checks that paths are shown decoded and filtered as they are, and that
// hours and days of the week stand in their order.
func TestPathsAndHoursChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("example.com", "Shop")
	for i, path := range []string{"/%C3%BCber/stra%C3%9Fe", "/%E2%80%AEabc", "/%FF%C3%BC", "/%2Fa"} {
		if status := s.hitFrom("Mozilla/5.0 (X11; Linux x86_64) Firefox/1"+strconv.Itoa(i), key, "http://example.com", path, ""); status != 204 {
			t.Fatalf("%s: status %d", path, status)
		}
	}

	p := s.openSignedIn("/sites/" + id + "?period=today&audience=hour_of_day")
	for _, text := range []string{"/über/straße", "/%E2%80%AEabc", "/%FFü", "/%2Fa"} {
		p.see(text)
	}
	p.WaitFor("document.querySelectorAll('.strip > *').length === 24")
	hours := strings.Split(p.Text("[...document.querySelectorAll('.strip a')].map(a => a.textContent).join()"), ",")
	if len(hours) != 24 || hours[0] != "00:00" || hours[23] != "23:00" {
		t.Errorf("hours: %q", hours)
	}
	p.more("Audience")
	p.press("Days of the week")
	p.WaitFor(`[...document.querySelectorAll('section[aria-label="Audience"] .ranks > *')].map(li => li.firstChild.textContent).join() ===
		'Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday'`)

	// A chart of zeros has no axis up to 1.
	p.Goto(s.Origin + "/sites/" + id + "?period=yesterday")
	p.WaitFor("document.querySelectorAll('.plot .grid').length === 1")
	p.Goto(s.Origin + "/sites/" + id + "?period=today")
	p.press("/über/straße")
	p.WaitFor("decodeURIComponent(location.search).includes('f=page:is:/%C3%BCber/stra%C3%9Fe')")
	p.WaitFor(total(0) + " === '1'")
	p.clean(s)
}
