package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestTypedValuesChromium types what the page shows: letters in place of escapes, and words in
// place of codes. The search of a table, filters, page goals, journeys and funnels find the stored
// values.
func TestTypedValuesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("example.com", "Shop")
	for i, path := range []string{"/caf%C3%A9", "/caf%c3%a9", "/%C3%9Cber/uns", "/cafe"} {
		agent := fmt.Sprintf("%s Other/%d.0", browsertest.UserAgent, i+20)
		testkit.Require(t, s.hitFrom(agent, key, "http://example.com", path, ""), 204, "%s: status", path)
	}

	for path, event := range map[string]string{"/stra%c3%9fe": "", "/cafe": "outbound_click"} {
		agent := browsertest.UserAgent + " Other/23.0"
		testkit.Require(t, s.hitFrom(agent, key, "http://example.com", path, event), 204, "%s %s: status", path, event)
	}

	report := s.Origin + "/sites/" + id
	days := daysAround(time.Now().UTC())
	p := s.openSignedIn("/sites/" + id + days + "&all=page")
	rows := "document.querySelectorAll('dialog tbody tr').length"
	search := "document.querySelector('dialog input[type=search]')"
	for text, want := range map[string]int{"/café": 2, "É": 2, "über": 1, "caf": 3, "%c3%a9": 2, "ö": 0} {
		p.enter(search, text)
		p.WaitFor(fmt.Sprintf("%s === %d && document.querySelector('dialog [role=status]').textContent.startsWith('%d ')", rows, want, want))
	}

	// A language and a channel are found by the words of the page.
	p.Goto(report + days + "&all=language")
	p.WaitFor(rows + " > 0")
	all := p.Text("String(" + rows + ")")
	word := p.Text("document.querySelector('dialog tbody th').innerText.trim().toUpperCase()")
	p.enter(search, "nothing of it")
	p.WaitFor(rows + " === 0")
	p.enter(search, word)
	p.WaitFor(rows + " === " + all)

	filter := func(dimension, operator, value, address string, visitors int) {
		t.Helper()
		p.Goto(report + days)
		p.WaitFor(total(0) + " === '4'")
		p.press("Filter")
		p.fill("Filter by", dimension)
		p.choose("document.querySelectorAll('dialog select')[1]", operator)
		p.enter("document.querySelector('dialog textarea')", value)
		p.press("Add the filter")
		p.WaitFor(fmt.Sprintf("decodeURIComponent(location.search).includes(%q)", address))
		p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), visitors))
	}
	filter("PAGE", "IS", "/café", "f=page:is:/caf%C3%A9,/caf%c3%a9,/café", 2)
	p.see("Page is /café")
	p.WaitFor("!document.querySelector('.chips').innerText.includes(' or ')")
	filter("PAGE", "IS_NOT", "/café", "f=page:is_not:/caf%C3%A9", 2)
	filter("ENTRY_PAGE", "MATCHES", "/Über/*", "f=entry_page:matches:/%C3%9Cber/*", 1)
	filter("PAGE", "CONTAINS", "FÉ", "f=page:contains:FÉ", 2)
	filter("CHANNEL", "IS", "Direct", "f=channel:is:direct", 4)
	filter("LANGUAGE", "IS", "German", "f=language:is:de", 0)
	filter("EVENT", "IS", "Outbound click", "f=event:is:outbound_click", 1)
	p.see("Event is Outbound click")

	// A page goal counts both spellings.
	p.Goto(report + days + "&events=goal")
	p.press("New page goal")
	p.fill("Name", "Coffee")
	p.enter("document.querySelector('[name=pattern]')", "/café")
	p.press("Add the goal")
	goal := "[...document.querySelectorAll('.goals [role=row]')].find(row => row.innerText.includes('Coffee'))"
	p.WaitFor(goal + "?.querySelectorAll('.figure')[0].textContent.trim() === '2'")
	p.WaitFor(goal + ".querySelectorAll('.figure')[1].textContent === '2'")
	p.WaitFor("document.querySelector('.goals .stored').textContent === '/café'")

	// Journeys begin at a page that is typed.
	p.Goto(report + days + "&events=journey")
	p.enter("document.querySelector('#journey-from')", "/Über/uns")
	p.press("Show journeys")
	p.WaitFor("decodeURIComponent(location.search).includes('journey=/%C3%9Cber/uns')")
	p.see("1 visit")

	// A step of a funnel is stored as it is counted, or else as browsers send it, and keeps its
	// typed name.
	p.Goto(report + "/saved")
	p.press("New funnel")
	p.enter(`document.querySelector('details [name=name]')`, "To us")
	p.WaitFor("document.querySelector('datalist option[value=\"Outbound click\"]')")
	p.enter("document.querySelector('[name=value0]')", "/Über/*")
	p.enter("document.querySelector('[name=value1]')", "/straße")
	p.press("One more step")
	p.enter("document.querySelector('[name=value2]')", "Outbound click")
	p.press("Save the funnel")
	p.see("/Über/* → /straße → Outbound click")
	var data struct {
		Site struct {
			Funnels []struct {
				Steps []struct{ Page, Event, Label string }
			}
		}
	}
	s.Do(`query ($id: ID!) { site(id: $id) { funnels { steps { page event label } } } }`, map[string]any{"id": id}, &data)
	if got := fmt.Sprint(data.Site.Funnels); got != "[{[{/%C3%9Cber/*  /Über/*} {/stra%c3%9fe  /straße} { outbound_click Outbound click}]}]" {
		t.Errorf("the funnel is %s", got)
	}
	p.clean(s)
}

// TestImportsBeforeHitsChromium looks at a site with an import and without hits: its card and its
// report show the imported visitors, and the page says how to begin.
func TestImportsBeforeHitsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("example.com", "Shop")
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	stored, err := dbtest.Rows[struct{ ID model.SiteID }](d, "SELECT id FROM sites")
	if err != nil || len(stored) != 1 {
		t.Fatalf("sites: %v, %v", stored, err)
	}
	last := model.At(time.Now()).Day() - 60
	if _, err := reports.New(d).Import(t.Context(), stored[0].ID, &reports.Import{
		Source: model.ImportPlausible, First: last - 1, Last: last, Totals: scan.Figures{Visitors: 1_885, Visits: 1_940, Pageviews: 4_000},
		Figures: []reports.ImportFigure{
			{Day: last - 1, Visitors: 900, Visits: 950, Pageviews: 2_000}, {Day: last, Visitors: 985, Visits: 990, Pageviews: 2_000},
		},
	}, model.At(time.Now()), sites.RecordImport, func(float64) {}); err != nil {
		t.Fatal(err)
	}

	p := s.openSignedIn("/")
	p.see("1,885 imported visitors")
	p.press("Shop")
	p.WaitFor(total(0) + " === '1885'")
	p.WaitFor(periodMenu + ".value === '91d'")
	p.see("Only imported figures so far: Install the script")
	p.look("figures-imported-only")

	reader := s.open("/share#" + s.createLink(id, "For the bank", ""))
	reader.WaitFor(total(0) + " === '1885'")
	p.clean(s)
}
