package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// storeReaders stores visits of 8 weeks: each week 6 new user ids. Fewer of them come back each
// later week.
func storeReaders(t *testing.T, s *service) {
	t.Helper()
	const perWeek = 6
	ways := []string{"/ /pricing signup /welcome", "/ /docs /docs/install", "/ /pricing /docs", "/blog/how-to-descale-a-kettle /", "/ /", "/ /docs"}

	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	monday := model.At(time.Now()).Day()
	for monday.Start().Time().Weekday() != time.Monday {
		monday--
	}
	monday -= 8 * 7
	for week := range 8 {
		rows := segment.Rows{Day: monday + model.Day(7*week)}
		for first := range week + 1 {
			for i := range max(perWeek-(week-first), 1) {
				key := segment.VisitKey{Visitor: model.VisitorID{byte(first), byte(i)}, N: 1}
				at := rows.Day.Start().Add(10 * time.Hour)
				rows.Visits = append(rows.Visits, segment.Visit{
					VisitKey: key, StartedAt: at, Channel: "direct", UserID: fmt.Sprintf("user-%05d-%05d", first, i),
				})
				for n, hit := range strings.Fields(ways[i]) {
					at, id := at.Add(time.Duration(n)*time.Second), int64(rows.Day)<<24|int64(first)<<16|int64(i)<<8|int64(n)
					if strings.HasPrefix(hit, "/") {
						rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: id, Path: hit, Width: model.UnknownWidth})
					} else {
						rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: id, Name: hit, Path: "/pricing"})
					}
				}
			}
		}
		testkit.NoError(t, oracle.Store(t.Context(), d, 1, rows))
		err := dbtest.Exec(d, `INSERT INTO report_days (site_id, day, state, version, due_at, built_at, visits, pageviews, events, checksum)
VALUES (1, ?, 0, 1, 1, 0, 0, 0, 0, 0)`, rows.Day)
		testkit.NoError(t, err)
	}
	if _, err := reports.New(d).BuildDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// leads waits for the steps of the page of journeys: in each column the places with their visits.
func (p *tab) leads(want string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf(`[...document.querySelectorAll('.ways section')].map(s => [...s.querySelectorAll('li')]
		.map(li => li.firstChild.textContent + ' ' + li.querySelector('.figure').firstChild.textContent).join(', ')).join(' | ') === %q`, want))
}

// TestJourneysChromium follows journeys in both directions from the whole table of pages and from
// the tab, and reads the table of cohorts, with user ids and without.
func TestJourneysChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	storeReaders(t, s)

	// The week of today is one of the cohorts.
	today := time.Now().UTC()
	period := fmt.Sprintf("?from=%s&to=%s", today.AddDate(0, 0, -90).Format(dayFormat), today.Format(dayFormat))

	// 8 weeks have 6, 11, 15, 18, 20, 21, 22 and 23 visits; ways[i] is the way of user i of each
	// week.
	p := s.openSignedIn("/sites/" + id + period + "&all=page")
	p.WaitFor(`document.querySelector('dialog [aria-label="Journeys from /"]')`)
	p.look("journeys-table")
	p.click(`document.querySelector('dialog [aria-label="Journeys from /"]')`)
	p.WaitFor("document.querySelectorAll('.ways section').length === 3")
	p.see("136 visits with /, and the pages after it")
	p.leads("/pricing 62, /docs 38, Left the site 36 | /welcome 36, /docs 26 | Left the site 36")
	p.look("journeys-next")

	// A page of the first column decides what the second one shows.
	p.press("/docs")
	p.WaitFor(`document.querySelectorAll('.ways h3')[1].textContent.includes('after /docs')`)
	p.leads("/pricing 62, /docs 38, Left the site 36 | /docs/install 30, Left the site 8 | Left the site 30")

	// The other direction, and onward from a page. The address has both.
	p.press("What came before")
	p.see("and the pages before it")
	p.see("Entered here")
	p.leads("/blog/how-to-descale-a-kettle 21, Entered here 115 | Entered here 21")
	p.look("journeys-before")
	p.Goto(s.Origin + "/sites/" + id + period + "&journey=signup&before=1")
	p.WaitFor("document.querySelectorAll('.ways section').length === 3")
	p.leads("/pricing 36 | / 36 | Entered here 36")
	p.fill("Page, pattern or event", "/pricing")
	p.press("Show journeys")
	p.WaitFor("location.search.includes('journey=/pricing') && location.search.includes('before=1')")
	p.see("with /pricing, and the pages before it")
	p.WaitFor(`document.activeElement.textContent === 'Journeys: /pricing'`)

	// A link filters by a page, and the report is one link away.
	p.click(`document.querySelector('.ways [aria-label="Only visits with /"]')`)
	p.WaitFor("location.search.includes('f=page:is:/&')")
	p.see("Page is /")
	p.press("← Report")
	p.WaitFor("!location.search.includes('journey') && !document.querySelector('.ways') && document.querySelector('.totals')")
	p.press("Remove the filter Page is /")

	// The tab names frequent starts, and takes any.
	p.press("Journeys")
	p.WaitFor(`[...document.querySelectorAll('.panel .ranks a')].some(a => a.textContent === 'signup' && a.search.includes('journey=signup'))`)
	p.look("journeys-tab")
	p.fill("Page, pattern or event", "/nowhere/**")
	p.press("Show journeys")
	p.see("No visit had /nowhere/** in this period.")
	p.press("← Report")

	// Cohorts need user ids.
	p.press("Cohorts")
	p.see("Cohorts need pseudonymous user ids")
	p.look("cohorts-off")
	s.UpdateSite(id, map[string]any{"allowPseudonymousUserId": true})
	p.reload()
	p.WaitFor("document.querySelectorAll('.cohorts tbody tr').length === 9")
	cells := p.Text(`[...document.querySelectorAll('.cohorts tbody tr')].filter(tr => tr.cells[1].textContent === '6').slice(0, 1)
		.map(tr => [...tr.cells].slice(1).map(td => td.textContent.trim()).join(' ').trim()).join(' | ')`)
	if want := "6 83.3% 5 66.7% 4 50.0% 3 33.3% 2 16.7% 1 16.7% 1 16.7% 1 0% 0 so far"; cells != want {
		t.Errorf("the first cohort is %s, want %s", cells, want)
	}
	p.look("cohorts")
	p.clean(s)

	// A reader of a shared link sees journeys, but no numbers of few users.
	token := s.createLink(id, "x", "")
	reader := s.open("/share" + period + "&journey=/#" + token)
	reader.see("136 visits with /, and the pages after it")
	reader.press("← Report")
	reader.press("Cohorts")
	reader.see("Numbers of few users are not shown.")
	reader.WaitFor(`[...document.querySelectorAll('.cohorts tbody tr')[0].cells].slice(1).map(td => td.textContent.trim()).join(' ').trim() ===
		'6 83.3% 5 66.7% 4 50.0% 3 few few few few 0% 0 so far'`)
	reader.look("cohorts-shared")
	reader.Goto(s.Origin + "/share" + period + "&journey=/&f=browser:is_not:Chrome#" + token)
	reader.see("136 visits with /, and the pages after it")
	reader.Goto(s.Origin + "/share" + period + "&journey=/nowhere&f=browser:is_not:Chrome#" + token)
	reader.see("Too few visitors to show.")
	reader.clean(s)

	// German, on a narrow screen.
	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	for path, text := range map[string]string{
		"?period=91d&events=cohort": "Erster Besuch in der Woche ab", "?period=91d&journey=/": "Danach",
	} {
		p.Do(chromedp.EmulateViewport(320, 800))
		p.Goto(s.Origin + "/sites/" + id + path)
		p.see(text)
		p.WaitFor("document.querySelector('.cohorts td, .ways li')")
		p.staysWithin(path)
		p.shootAsIs("journeys-narrow-" + path[12:18])
	}
}
