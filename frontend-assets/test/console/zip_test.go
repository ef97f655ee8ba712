package console_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// collect sends a message of the script from a page of shop.localhost.
func (s *service) collect(agent string, message map[string]any) {
	s.TB.Helper()
	body, err := json.Marshal(message)
	testkit.NoError(s.TB, err)
	request, err := http.NewRequest(http.MethodPost, s.data+"/collect.php", bytes.NewReader(body))
	testkit.NoError(s.TB, err)
	request.Header.Set("Origin", "http://shop.localhost")
	request.Header.Set("User-Agent", agent)
	request.Header.Set("Accept-Language", "en")
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(s.TB, err)
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		s.TB.Fatalf("%s: status %d", body, response.StatusCode)
	}
}

// sellsKettles stores views of 131 pages, sales, a source that is a formula, and a funnel.
func (s *service) sellsKettles() (id string) {
	s.TB.Helper()
	id, key := s.createSite("shop.localhost", "Shop")
	s.Do(`mutation ($id: ID!) { updateSite(input: {siteId: $id, measureEcommerce: true}) { userErrors { message } }
		createFunnel(input: {siteId: $id, name: "=Sale", steps: [{page: "/p-1"}, {event: "purchase"}]}) { userErrors { message } } }`,
		map[string]any{"id": id}, nil)

	for i := range 130 {
		agent, source := fmt.Sprintf("%s Visitor/%d", browsertest.UserAgent, i%7), []string{"=1+1", "news", ""}[i%3]
		s.collect(agent, map[string]any{"k": key, "t": "pageview", "p": fmt.Sprintf("/p-%d", i), "r": nil, "w": 1440, "l": "en",
			"i": fmt.Sprintf("%016x", i+1), "u": map[string]any{"source": source}})
	}
	s.collect(browsertest.UserAgent+" Other/1", map[string]any{"k": key, "t": "pageview", "p": "/other", "r": nil, "w": 375, "l": "de",
		"i": "00000000000000ff", "u": map[string]any{}})
	for i, amount := range []string{"12.5", "1000000.000001", "0.1"} {
		s.collect(browsertest.UserAgent+" Visitor/1", map[string]any{"k": key, "t": "event", "e": "purchase", "p": "/p-1", "r": nil, "w": 1440, "l": "en",
			"i": fmt.Sprintf("%016x", i+1), "u": map[string]any{}, "m": map[string]any{
				"transaction_id": "t" + strconv.Itoa(i), "value": json.Number(amount), "currency": "EUR", "items": []any{}, "coupon": "-10%", "step": i,
			}})
	}
	return id
}

// zipped are the files of a downloaded zip, without the folder.
type zipped map[string][][]string

// downloadsReport downloads the whole report, and returns the files and the name of the zip.
func (p *tab) downloadsReport() (files zipped, name string) {
	p.t.Helper()
	p.Eval(`(() => { const make = URL.createObjectURL;
		window.saved = window.savedName = undefined;
		URL.createObjectURL = (b) => { window.saved = b; return make(b) };
		HTMLAnchorElement.prototype.click = function () { window.savedName = this.download } })()`, nil)
	p.WaitFor("!document.querySelector('[aria-busy=true]')")
	p.press("Download")
	p.see("A zip of CSV files")
	if found := p.Barriers("dialog"); len(found) > 0 {
		p.t.Errorf("the dialog: %v", found)
	}

	// Back closes the dialog, and stays on the report.
	address := p.Text("location.href")
	p.Eval("history.back()", nil)
	p.WaitFor(fmt.Sprintf("!document.querySelector('dialog') && !history.state?.dialog && location.href === %q", address))
	p.press("Download")
	p.see("A zip of CSV files")

	p.click("document.querySelector('dialog button.main:enabled')")
	p.WaitFor("window.savedName && window.saved?.type === 'application/zip'")
	p.WaitFor("!document.querySelector('dialog') && !history.state?.dialog")
	data, err := base64.StdEncoding.DecodeString(p.Text(`(async () => {
		const bytes = new Uint8Array(await window.saved.arrayBuffer());
		let text = '';
		for (const byte of bytes) text += String.fromCharCode(byte);
		return btoa(text) })()`))
	testkit.NoError(p.t, err)

	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	testkit.NoError(p.t, err)
	files, name = zipped{}, p.Text("window.savedName")
	for _, f := range archive.File {
		file, found := strings.CutPrefix(f.Name, strings.TrimSuffix(name, ".zip")+"/")
		if !found {
			p.t.Errorf("the zip %s has %s", name, f.Name)
		}
		r, err := f.Open()
		testkit.NoError(p.t, err)
		content, err := io.ReadAll(r)
		if err != nil {
			p.t.Fatalf("%s: %v", f.Name, err)
		}
		text, marked := bytes.CutPrefix(content, []byte("\ufeff"))
		if !marked {
			p.t.Errorf("%s has no byte order mark", file)
		}
		if files[file], err = csv.NewReader(bytes.NewReader(text)).ReadAll(); err != nil {
			p.t.Errorf("%s: %v", f.Name, err)
		}
	}
	return files, name
}

// cell returns a value of the API as the cell of a file.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	case string:
		if v != "" && strings.ContainsAny(v[:1], "=+-@") {
			return "'" + v
		}
		return v
	}
	return fmt.Sprint(value)
}

// table is a file of a zip with the dimension and the figures of its lines.
type table struct{ file, by, property, figures string }

const (
	visitFigures = "visitors visits pageviews viewsPerVisit bounceRate engagementTime conversionRate"
	pageFigures  = "visitors pageviews timeOnPage scrollDepth exitRate"
	eventFigures = "visitors events conversionRate"
	allFigures   = "visitors visits pageviews viewsPerVisit bounceRate engagementTime conversions conversionRate"
)

// tablesOfReport returns the tables of a report, by the dimensions of the schema.
func tablesOfReport() []table {
	list := []table{{"pages", "PAGE", "", pageFigures}, {"events", "EVENT", "", eventFigures}}
	for file, by := range map[string]string{
		"channels": "CHANNEL", "source-groups": "SOURCE_GROUP", "source-names": "SOURCE_NAME", "sources": "SOURCE",
		"referrers":     "REFERRER",
		"utm-campaigns": "UTM_CAMPAIGN", "utm-sources": "UTM_SOURCE", "utm-mediums": "UTM_MEDIUM", "utm-contents": "UTM_CONTENT",
		"utm-terms": "UTM_TERM", "ad-platforms": "AD_PLATFORM", "entry-pages": "ENTRY_PAGE", "exit-pages": "EXIT_PAGE",
		"hostnames": "HOSTNAME", "countries": "COUNTRY", "browsers": "BROWSER", "systems": "SYSTEM", "devices": "DEVICE",
		"languages": "LANGUAGE", "screen-widths": "SCREEN_WIDTH", "days-of-week": "DAY_OF_WEEK", "hours": "HOUR_OF_DAY",
	} {
		list = append(list, table{file, by, "", visitFigures})
	}
	return list
}

// ask reads a part of a report and returns its fields.
type ask func(selection string) map[string]any

// wantTable returns the lines of a table as the API has them.
func (read ask) wantTable(t *testing.T, of table) [][]string {
	t.Helper()
	by := "by: " + of.by
	if of.property != "" {
		by += fmt.Sprintf(", property: %q", of.property)
	}
	rows := read(`rows: breakdown(` + by + `, first: 200) { pageInfo { hasNextPage } nodes { value metrics { ` + of.figures +
		` comparison { visitors } } } }`)["rows"].(map[string]any)
	if rows["pageInfo"].(map[string]any)["hasNextPage"] == true {
		t.Fatalf("the table %s has more rows than the test reads", of.file)
	}

	var lines [][]string
	for _, node := range rows["nodes"].([]any) {
		row := node.(map[string]any)
		metrics := row["metrics"].(map[string]any)
		line := []string{cell(row["value"])}
		for _, figure := range strings.Fields(of.figures) {
			line = append(line, cell(metrics[figure]))
		}
		compared := ""
		if c, ok := metrics["comparison"].(map[string]any); ok {
			compared = cell(c["visitors"])
		}
		lines = append(lines, append(line, compared))
	}
	if of.by == "DAY_OF_WEEK" || of.by == "HOUR_OF_DAY" {
		slices.SortFunc(lines, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	}
	return lines
}

// check compares all files of a zip with the API, figure by figure.
func (files zipped) check(t *testing.T, read ask) {
	t.Helper()
	tables := tablesOfReport()
	for _, of := range tables {
		compareLines(t, of.file, files[of.file+".csv"], read.wantTable(t, of))
	}

	const metrics = allFigures + " comparison { " + allFigures + " }"
	report := read(`totals { ` + metrics + ` revenue { currency net gross refunded purchases averageOrder } }
		series { start partial comparedStart metrics { ` + metrics + ` } }`)
	totals := report["totals"].(map[string]any)
	var want [][]string
	for i, figure := range strings.Fields(allFigures) {
		want = append(want, []string{files["totals.csv"][i+1][0], cell(totals[figure]), cell(totals["comparison"].(map[string]any)[figure])})
	}
	compareLines(t, "totals", files["totals.csv"], want)

	want = nil
	for _, point := range report["series"].([]any) {
		p := point.(map[string]any)
		now := p["metrics"].(map[string]any)
		line := []string{cell(p["start"])}
		for _, figure := range strings.Fields(allFigures) {
			line = append(line, cell(now[figure]))
		}
		line = append(line, cell(p["partial"]), cell(p["comparedStart"]))
		for _, figure := range strings.Fields(allFigures) {
			line = append(line, cell(now["comparison"].(map[string]any)[figure]))
		}
		want = append(want, line)
	}
	compareLines(t, "series", files["series.csv"], want)

	if revenue := totals["revenue"].([]any); len(revenue) > 0 {
		r := revenue[0].(map[string]any)
		compareLines(t, "revenue", files["revenue.csv"], [][]string{{
			"EUR", cell(r["net"]), cell(r["gross"]), cell(r["refunded"]), cell(r["purchases"]), cell(r["averageOrder"]), "", "", "", "", "",
		}})
	} else if files["revenue.csv"] != nil {
		t.Errorf("revenue: %v", files["revenue.csv"])
	}
}

// compareLines compares the lines of a file after its header.
func compareLines(t *testing.T, file string, got, want [][]string) {
	t.Helper()
	if len(got) != len(want)+1 {
		t.Errorf("%s has %d lines, want a header and %d: %v", file, len(got), len(want), got)
		return
	}
	for i, line := range want {
		testkit.EqualSlices(t, got[i+1], line, "%s, line %d (%q)", file, i+1, got[0])
	}
}

// TestDownloadOfReportChromium downloads the whole report with filter and comparison, as an owner
// and as a reader of a link, and compares each figure with the API.
func TestDownloadOfReportChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id := s.sellsKettles()
	now := time.Now().UTC()
	from, to := now.AddDate(0, 0, -2).Format(time.DateOnly), now.AddDate(0, 0, 2).Format(time.DateOnly)
	arguments := fmt.Sprintf(`period: {from: %q, to: %q}, compare: {kind: PREVIOUS_PERIOD},
		filters: [{dimension: PAGE, operator: CONTAINS, values: ["/p-"]}]`, from, to)
	query := "?from=" + from + "&to=" + to + "&compare=previous&f=page:contains:/p-"

	p := s.openSignedIn("/sites/" + id + query)
	p.WaitFor("document.querySelector('.figures')")
	files, name := p.downloadsReport()
	if want := "shop.localhost " + from + " to " + to + " p-.zip"; name != want {
		t.Errorf("the zip is %q, want %q", name, want)
	}
	files.check(t, func(selection string) map[string]any {
		var data struct {
			Site struct{ Report map[string]any }
		}
		s.Do(`query ($id: ID!) { site(id: $id) { report(`+arguments+`) { `+selection+` } } }`, map[string]any{"id": id}, &data)
		return data.Site.Report
	})
	files.checkExtras(t)
	p.clean(s)

	// A reader of a link without revenue gets a smaller zip.
	var made struct{ CreateSharedLink struct{ Token string } }
	s.Do(`mutation ($id: ID!) { createSharedLink(input: {siteId: $id, name: "l", hideRevenue: true}) { token userErrors { message } } }`,
		map[string]any{"id": id}, &made)
	var opened struct{ OpenSharedLink struct{ ViewerToken string } }
	s.Do(`mutation ($token: String!) { openSharedLink(input: {token: $token}) { viewerToken userErrors { message } } }`,
		map[string]any{"token": made.CreateSharedLink.Token}, &opened)

	reader := s.open("/share" + query + "#" + made.CreateSharedLink.Token)
	reader.WaitFor("document.querySelector('.figures')")
	files, _ = reader.downloadsReport()

	// Tabs that are for members, or have amounts, open as the first tab.
	for _, tab := range []string{"funnel", "property"} {
		reader.Goto(s.Origin + "/share" + query + "&events=" + tab + "#" + made.CreateSharedLink.Token)
		reader.WaitFor(`document.querySelector('section[aria-label="Events"] .tabs [aria-current]')?.textContent === 'Events' &&
			!document.querySelector('.panels [aria-busy=true], .panels .error')`)
	}
	files.check(t, func(selection string) map[string]any {
		var data struct {
			SharedSite struct{ Report map[string]any }
		}
		s.doAs(opened.OpenSharedLink.ViewerToken, `{ sharedSite { report(`+arguments+`) { `+selection+` } } }`, &data)
		return data.SharedSite.Report
	})
	for _, left := range []string{"revenue.csv", "properties.csv", "property-values.csv", "funnels.csv", "numbers.csv"} {
		if files[left] != nil {
			t.Errorf("a reader without revenue has %s: %v", left, files[left])
		}
	}
	if text := fmt.Sprint(files); strings.Contains(text, "EUR") || strings.Contains(text, "12.5 ") {
		t.Errorf("a reader without revenue has %s", text)
	}
	reader.clean(s)
}

// checkExtras checks the files of an owner that no table of the page has, and that formulas are
// defused.
func (files zipped) checkExtras(t *testing.T) {
	t.Helper()
	if got := fmt.Sprint(files["sources.csv"]); !strings.Contains(got, "['=1+1 ") {
		t.Errorf("sources: %s", got)
	}
	if got, want := fmt.Sprint(files["funnels.csv"][1:]), "[['=Sale 1 /p-1 1  0] ['=Sale 2 purchase 1 100 0]]"; got != want {
		t.Errorf("funnels: %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(files["properties.csv"][1:]), "[[coupon 3] [step 3]]"; got != want {
		t.Errorf("properties: %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(files["goals.csv"][1:]), "[[purchase event 1 0 14.29]]"; got != want {
		t.Errorf("goals: %s, want %s", got, want)
	}
	if got := fmt.Sprint(files["numbers.csv"]); !strings.Contains(got, "[step  3 3 1 1 2 2]") {
		t.Errorf("numbers: %s", got)
	}
	if got := files["journeys.csv"]; len(got) < 6 || !strings.Contains(fmt.Sprint(got), "[/p-0 (end)  ") {
		t.Errorf("journeys: %v", got)
	}
	if got := files["cohorts.csv"]; got != nil {
		t.Errorf("a site without user ids has cohorts: %v", got)
	}
	if got := fmt.Sprint(files["property-values.csv"]); !strings.Contains(got, "[coupon '-10% 1 3 ") || !strings.Contains(got, "[step 2 1 1 ") {
		t.Errorf("values of properties: %s", got)
	}
	if got := fmt.Sprint(files["report.csv"]); !strings.Contains(got, "[site shop.localhost]") || !strings.Contains(got, "[filter Page contains /p-]") ||
		!strings.Contains(got, "[compared_from ") || !strings.Contains(got, "[time_zone UTC]") {
		t.Errorf("about the report: %s", got)
	}
	testkit.Equal(t, len(files["pages.csv"]), 131, "lines of pages, which are two requests")
}

// doAs runs a query with a viewer token.
func (s *service) doAs(token, query string, data any) {
	s.TB.Helper()
	body, err := json.Marshal(map[string]any{"query": query})
	testkit.NoError(s.TB, err)
	request, err := http.NewRequest(http.MethodPost, s.Origin+"/graphql", bytes.NewReader(body))
	testkit.NoError(s.TB, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(s.TB, err)
	defer response.Body.Close()
	answer := struct {
		Data   any
		Errors []struct{ Message string }
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Errors) > 0 {
		s.TB.Fatalf("%s: %v, %v", query, answer.Errors, err)
	}
}
