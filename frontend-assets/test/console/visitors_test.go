package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// visitorSettings are the settings of a site that the cards of visitors and of hits that are left
// out have.
type visitorSettings struct {
	VisitDetails, ExcludedCountries, ExcludedPaths, Shields []string
	SmallGroup                                              int
}

// visitorSettings reads these settings as a script would.
func (s *service) visitorSettings(id string) string {
	s.TB.Helper()
	var data struct{ Site visitorSettings }
	s.Do(`query ($id: ID!) { site(id: $id) { visitDetails excludedCountries excludedPaths shields smallGroup } }`,
		map[string]any{"id": id}, &data)
	return fmt.Sprintf("%+v", data.Site)
}

// visitFrom sends a page view of another visitor, and sets what its visit has kept of the browser.
// number is the site's number in the database.
func (s *service) visitFrom(number int, key, origin string, client model.Client) {
	s.TB.Helper()

	d := dbtest.Open(s.TB, db.EmbeddedURL(s.dir))
	visits := func() []int64 {
		rows, err := dbtest.Rows[struct{ Visitor int64 }](d, "SELECT visitor FROM visits WHERE site_id = ?", number)
		testkit.NoError(s.TB, err)
		visitors := make([]int64, len(rows))
		for i, row := range rows {
			visitors[i] = row.Visitor
		}
		return visitors
	}

	before := visits()
	agent := fmt.Sprintf("%s Visitor/%d", browsertest.UserAgent, len(before))
	if status := s.hitFrom(agent, key, origin, "/kettle", ""); status != 204 {
		s.TB.Fatalf("a hit: status %d", status)
	}
	for _, visitor := range visits() {
		if slices.Contains(before, visitor) {
			continue
		}
		testkit.NoError(s.TB, dbtest.Exec(d, "UPDATE visits SET client = ? WHERE site_id = ? AND visitor = ?",
			client.Pack(), number, visitor))
	}
}

// daysAround returns the query of a period that includes the hits of now also if the test runs at
// midnight.
func daysAround(now time.Time) string {
	return "?from=" + now.AddDate(0, 0, -2).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)
}

// TestVisitorsChromium chooses what the visits of a site keep and which hits it leaves out, and
// looks at the panels of these details.
func TestVisitorsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	blank, blankKey := s.createSite("blog.localhost", "Blog")

	p := s.openSignedIn("/sites/" + id + "/measurement")
	p.choosesDetails(s, id)
	p.readsPrivacyText()
	p.press("Exclusions")
	p.choosesLeftOut(s, id)

	for _, client := range []model.Client{
		{Country: "DE", Browser: model.Chrome, System: model.Windows, Device: model.Desktop, Host: "shop.localhost"},
		{Country: "DE", Browser: model.Firefox, System: model.Android, Device: model.Phone, Host: "shop.localhost"},
		{Country: "FR", Browser: model.Chrome, System: model.Windows, Device: model.Desktop, Host: "www.shop.localhost"},
		{},
	} {
		s.visitFrom(1, key, "http://shop.localhost", client)
	}
	s.visitFrom(2, blankKey, "http://blog.localhost", model.Client{})

	days := daysAround(time.Now().UTC())
	p.showsDetails(s, "/sites/"+id+days)
	p.explainsUnknown(s, "/sites/"+blank+days)
	p.hidesSmallGroups(s, "/share"+days+"#"+s.createLink(blank, "For the bank", ""))
	p.isGerman(s, id, days)
	p.clean(s)
}

// TestCountriesChromium keeps and excludes a country by a file of the operator.
func TestCountriesChromium(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	countries, networks := filepath.Join(folder, "countries.mmdb"), filepath.Join(folder, "networks")
	content := map[string][]byte{
		countries: countrytest.Countries(t, time.Now(), map[string]string{"127.0.0.0/8": "CH"}),
		networks:  []byte("192.0.2.0/24\n"),
	}
	for file, data := range content {
		testkit.NoError(t, os.WriteFile(file, data, 0o600))
	}

	s := start(t, map[string]string{"GEO_FILE": countries, "DATA_CENTRE_FILE": networks})
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	p := s.openSignedIn("/sites/" + id + "/measurement")
	p.check("Country")
	p.press("Save")
	p.WaitFor(labelled("Country") + ".defaultChecked")

	s.hitUntil(key, func(before, now []string) bool { return slices.Contains(now, "CH---") })

	p.Goto(s.Origin + "/sites/" + id + daysAround(time.Now().UTC()) + "&audience=country")
	p.WaitFor(`[...document.querySelectorAll('section[aria-label="Audience"] .ranks a')].some(e => e.textContent === 'Switzerland')`)

	// A list that the operator has not set up is not offered.
	p.Goto(s.Origin + "/sites/" + id + "/exclusions")
	p.WaitFor(labelled("Data centres"))
	p.WaitFor("!" + labelled("Referrer spam"))
	p.list("excludedCountries", "switzerland", "Atlantis")
	p.press("Save")
	p.WaitFor("document.activeElement === " + rowOf("excludedCountries", 1) + " && document.activeElement.ariaInvalid === 'true'")
	p.look("settings-countries")
	p.press("Remove Atlantis")
	p.check("Data centres")
	p.press("Save")
	p.WaitFor(labelled("Data centres") + ".defaultChecked && " + rowOf("excludedCountries", 0) + ".value === 'Switzerland'")
	if got, want := s.visitorSettings(id), "{VisitDetails:[COUNTRY] ExcludedCountries:[CH] ExcludedPaths:[] Shields:[DATA_CENTRES] SmallGroup:3}"; got != want {
		t.Errorf("settings %s, want %s", got, want)
	}
	p.Goto(s.Origin + "/sites/" + id + "/install")
	p.see("It works.")
	s.hitUntil(key, func(before, now []string) bool { return len(before) == len(now) })
	p.see("Your country is excluded.")
	p.clean(s)
}

// hitUntil sends page views of new visitors until done, because the data plane gets changes of
// settings a little later. done gets what the stored visits keep of browsers, before and after a
// page view.
func (s *service) hitUntil(key string, done func(before, now []string) bool) {
	s.TB.Helper()

	d := dbtest.Open(s.TB, db.EmbeddedURL(s.dir))
	stored := func() (clients []string) {
		rows, err := dbtest.Rows[struct{ Client string }](d, "SELECT client FROM visits")
		testkit.NoError(s.TB, err)
		for _, row := range rows {
			clients = append(clients, row.Client)
		}
		return clients
	}

	for deadline := time.Now().Add(program.Patience); time.Now().Before(deadline); {
		before := stored()
		agent := fmt.Sprintf("%s Visitor/%d", browsertest.UserAgent, time.Now().UnixNano())
		if status := s.hitFrom(agent, key, "http://shop.localhost", "/", ""); status != 204 {
			s.TB.Fatalf("a hit: status %d", status)
		}
		if done(before, stored()) {
			return
		}
	}
	s.TB.Fatalf("after %v the visits have %q", program.Patience, stored())
}

// choosesDetails chooses all details but the country, for which the operator has named no file.
func (p *tab) choosesDetails(s *service, id string) {
	p.t.Helper()

	p.WaitFor(labelled("Country") + ".disabled")
	p.see("The operator has set up no country database.")
	for _, label := range []string{"Browser", "Device", "Hostname"} {
		p.check(label)
	}
	p.fill("Hide groups smaller than", "1")
	p.press("Save")
	p.WaitFor(labelled("Browser") + ".defaultChecked")

	// Another save changes its own fields only.
	p.check("System")
	p.press("Save")
	p.WaitFor(labelled("System") + ".defaultChecked")
	want := "{VisitDetails:[BROWSER SYSTEM DEVICE HOSTNAME] ExcludedCountries:[] ExcludedPaths:[] Shields:[] SmallGroup:1}"
	if got := s.visitorSettings(id); got != want {
		p.t.Errorf("settings %s, want %s", got, want)
	}
}

// choosesLeftOut enters wrong paths. Errors are at their rows, and nothing is saved until all are
// right.
func (p *tab) choosesLeftOut(s *service, id string) {
	p.t.Helper()
	before := s.visitorSettings(id)

	p.WaitFor("document.querySelector('[name=excludedCountries]').disabled && !" + labelled("Data centres"))
	const paths = "excludedPaths"
	p.list(paths, "/admin/**", "admin", "/a?b")
	p.press("Save")
	p.WaitFor("document.activeElement === " + rowOf(paths, 1) + " && " + rowOf(paths, 2) + ".ariaInvalid === 'true'") // the first field with an error
	p.look("settings-exclusions")
	if got := s.visitorSettings(id); got != before {
		p.t.Errorf("settings after an error: %s", got)
	}

	p.list(paths, "/admin/**", "/preview/*")
	p.press("Remove /a?b")
	p.press("Save")
	p.WaitFor("!" + button("Save"))
	want := strings.Replace(before, "ExcludedPaths:[]", "ExcludedPaths:[/admin/** /preview/*]", 1)
	if got := s.visitorSettings(id); got != want {
		p.t.Errorf("settings %s, want %s", got, want)
	}
}

// readsPrivacyText reads the text for the privacy policy in both languages. It follows a change on
// the same page.
func (p *tab) readsPrivacyText() {
	p.t.Helper()

	const text = "document.querySelector('.code pre')?.textContent"
	p.press("English")
	p.WaitFor(text + ".includes('## Measuring visits to shop.localhost')")
	p.press("Deutsch")
	p.WaitFor(text + ".includes('### Verantwortlicher')")
	p.WaitFor("document.querySelectorAll('.code').length === 1 && document.querySelector('.code').parentElement.lang === 'de'")
	p.look("settings-privacy")

	p.Eval("window.before = "+text, nil)
	p.check("Hostname")
	p.press("Save")
	p.WaitFor(text + " !== window.before && !" + labelled("Hostname") + ".defaultChecked")
	p.check("Hostname")
	p.press("Save")
	p.WaitFor(text + " === window.before")
}

// rows waits for the rows of a panel, as bars returns them.
func (p *tab) rows(panel string, want ...string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf(`(rows => rows.join() === %q)([...document.querySelectorAll('section[aria-label=%q] .ranks > *')]
		.map(e => e.firstChild.textContent + ' ' + e.querySelector('.figure').textContent.trim()))`, strings.Join(want, ","), panel))
}

// more opens the last tab of a panel, which has the rarely used ones.
func (p *tab) more(panel string) {
	p.t.Helper()
	p.click(fmt.Sprintf("document.querySelector('section[aria-label=%s] .tabs a:last-child')", panel))
	p.WaitFor(fmt.Sprintf("document.querySelector('section[aria-label=%s] .subtabs')", panel))
}

// showsDetails looks at the panels of a site with details, and filters by a country.
func (p *tab) showsDetails(s *service, path string) {
	p.t.Helper()

	p.Goto(s.Origin + path)
	p.see("Languages")
	p.press("Countries")
	p.rows("Audience", "Germany 2", "(unknown) 1", "France 1")
	p.more("Audience")
	p.press("Browsers")
	p.rows("Audience", "Chrome 2", "(unknown) 1", "Firefox 1")
	p.press("Systems")
	p.rows("Audience", "Windows 2", "(unknown) 1", "Android 1")
	p.press("Devices")
	p.rows("Audience", "desktop 2", "(unknown) 1", "phone 1")
	p.press("Hostnames")
	p.rows("Pages", "shop.localhost 2", "(unknown) 1", "www.shop.localhost 1")
	p.more("Sources")
	p.press("Source groups")
	p.rows("Sources", "(none) 4")
	p.look("figures-details")

	// A row is a filter.
	p.press("Countries")
	p.press("Germany")
	p.see("Country is Germany")
	p.WaitFor(total(0) + " === '2'")
	p.rows("Audience", "Germany 2")
	p.press("Details, Countries: all 1")
	p.WaitFor("document.querySelector('dialog[open] tbody th')?.textContent === 'Germany'")
	p.press("Close")
	p.WaitFor("!location.search.includes('all=')")
	p.press("Remove the filter Country is Germany")
	p.WaitFor(total(0) + " === '4'")

	// The dialog takes names and codes, and refuses what is neither.
	p.press("Filter")
	p.fill("Filter by", "COUNTRY")
	p.WaitFor(`[...document.querySelectorAll('dialog .offered a')].map(e => e.textContent).join() === 'Germany,(unknown),France'`)
	p.WaitFor(`[...document.querySelectorAll('dialog select')[1].options].some(o => o.textContent === 'is not (unknown)')`)
	p.enter("document.querySelector('dialog textarea')", "france\nAtlantis")
	p.press("Add the filter")
	p.see("Atlantis is not a country.")
	p.WaitFor("document.activeElement.name === 'values'")
	p.look("figures-filter-country")
	p.enter("document.querySelector('dialog textarea')", "france\nde")
	p.press("Add the filter")
	p.see("Country is France or Germany")
	p.WaitFor(total(0) + " === '3'")
}

// explainsUnknown looks at the panels of a site that keeps nothing.
func (p *tab) explainsUnknown(s *service, path string) {
	p.t.Helper()

	p.Goto(s.Origin + path + "&audience=country&pages=hostname")
	p.rows("Audience", "(unknown) 1")
	p.see("The operator has set up no country database.")
	p.see("Hostnames are turned off for this site. Settings")
	p.look("figures-unknown")
	p.more("Audience")
	p.press("Browsers")
	p.WaitFor(`document.querySelector('section[aria-label=Audience] .hint a')?.getAttribute('href').endsWith('/measurement')`)
}

// hidesSmallGroups opens a shared report with one visitor, which is less than the site's smallest
// group.
func (p *tab) hidesSmallGroups(s *service, path string) {
	p.t.Helper()

	p.Goto(s.Origin + path)
	p.rows("Audience", "(other) 1")
	p.WaitFor(`!document.querySelector('section[aria-label=Audience] .ranks a')`)
	p.press("Countries")
	p.rows("Audience", "(unknown) 1")
	p.see("Countries of these visits are unknown.")
}

// isGerman looks at the pages in German and in two widths, at the reasons why hits were left out
// too.
func (p *tab) isGerman(s *service, id, days string) {
	p.t.Helper()

	d := dbtest.Open(p.t, db.EmbeddedURL(s.dir))
	for i, code := range []string{"excluded_country", "excluded_path", "referrer_spam", "data_centre"} {
		if err := dbtest.Exec(d, "INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (1, ?, 'collect', ?, ?)",
			model.At(time.Now()).Day(), code, i+1); err != nil {
			p.t.Fatal(err)
		}
	}

	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	path := "/sites/" + id + days + "&audience=country&f=device:is:phone,desktop"
	p.Goto(s.Origin + path)
	p.see("Gerät ist Telefon oder Computer")
	p.rows("Zielgruppe", "Deutschland 2", "Frankreich 1")
	p.look("figures-details-german")

	p.Goto(s.Origin + "/sites/" + id + "/rejections")
	for _, advice := range []string{
		"Sie kamen aus Ländern, die Sie ausgeschlossen haben.", "Sie betrafen Seiten, die Sie ausgeschlossen haben.",
		"Sie nannten als Verweis eine Website, die in Berichten für sich wirbt.", "Sie kamen aus Netzen von Rechenzentren",
	} {
		p.see(advice)
	}

	p.hasNoBarriers("/sites/" + id + "/measurement")
	p.see("Gruppen ausblenden unter")
	p.look("settings-visitors-german")
	p.hasNoBarriers("/sites/" + id + "/exclusions")
	p.look("settings-exclusions-german")
	p.hasNoBarriers(path)
}
