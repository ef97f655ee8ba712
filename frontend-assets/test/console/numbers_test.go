package console_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNumbersChromium opens the panel of properties with one that has numbers: it shows the figures
// of the API in both languages, fits into the narrowest window, and has no barriers. A property of
// texts shows its values alone.
func TestNumbersChromium(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	id := s.demoSite()
	page := "/sites/" + id
	p := s.openSignedIn(page)
	p.WaitFor("document.querySelector('.ranks a')")

	var data struct {
		Site struct {
			Report struct {
				Numbers struct {
					Totals struct {
						Numbers                     int64
						Sum, Average, P50, P75, P95 float64
					}
					Breakdown struct {
						Nodes []struct {
							Value   string
							Figures struct {
								Numbers  int64
								P50, P75 float64
							}
						}
					}
				}
			}
		}
	}
	s.Do(`query($id: ID!) { site(id: $id) { report(period: {preset: LAST_7_DAYS}) {
		numbers(property: "price") { totals { numbers sum average p50 p75 p95 }
			breakdown(by: PAGE) { nodes { value figures { numbers p50 p75 } } } } } } }`, map[string]any{"id": id}, &data)
	totals := data.Site.Report.Numbers.Totals
	if totals.Numbers == 0 || totals.P50 == totals.P95 {
		t.Fatalf("the demo has no prices: %+v", totals)
	}

	path := page + "?period=7d&events=property&property="
	figures := func() (texts []string) {
		p.Eval(`[...document.querySelectorAll('section[aria-label="Events"] .facts div, section[aria-label="Ereignisse"] .facts div')].map((e) =>
			[...e.children].map((c) => c.textContent).join(' '))`, &texts)
		return texts
	}
	open := func(property string) {
		t.Helper()
		p.Goto(s.Origin + path + property)
		p.WaitFor(fmt.Sprintf("document.querySelector('.choice select')?.value === %q && document.querySelector('.panels .ranks a')", property))
	}

	open("price")
	p.WaitFor(`document.querySelectorAll('section[aria-label="Events"] .facts div').length === 6`)
	want := []string{
		fmt.Sprintf("Numbers %s", grouped(float64(totals.Numbers), 0)), "Sum " + shown(totals.Sum), "Average " + shown(totals.Average),
		"Median " + shown(totals.P50), "75th percentile " + shown(totals.P75), "95th percentile " + shown(totals.P95),
	}
	testkit.EqualSlices(t, figures(), want, "the panel shows")

	// Each page has its percentiles; the values themselves are shown on demand.
	var pages, wantPages []string
	p.Eval(`[...document.querySelectorAll('section[aria-label="Events"] tbody tr')].map((row) => [...row.cells].map((c) => c.textContent).join(' '))`, &pages)
	for _, row := range data.Site.Report.Numbers.Breakdown.Nodes {
		if of := row.Figures; of.Numbers > 0 {
			wantPages = append(wantPages, strings.Join([]string{row.Value, grouped(float64(of.Numbers), 0), shown(of.P50), shown(of.P75)}, " "))
		}
	}
	if len(pages) == 0 || !slices.Equal(pages, wantPages) {
		t.Errorf("the panel shows the pages %q, want %q", pages, wantPages)
	}
	p.WaitFor(`document.querySelector('section[aria-label="Events"] details:not([open]) .ranks a')`)
	for theme, find := range map[string]func(string) []string{"light": p.Barriers, "dark": p.ColorBarriers} {
		p.Eval(fmt.Sprintf("document.documentElement.dataset.theme = %q", theme), nil)
		if barriers := find("html"); len(barriers) > 0 {
			t.Errorf("%s: %q", theme, barriers)
		}
	}
	p.Eval("delete document.documentElement.dataset.theme", nil)
	p.Do(chromedp.EmulateViewport(320, 900))
	p.WaitFor(`innerWidth === 320`)
	var wide int
	p.Eval(`document.documentElement.scrollWidth`, &wide)
	if wide > 320 {
		t.Errorf("the page is %d px wide in a window of 320 px", wide)
	}
	p.Do(chromedp.EmulateViewport(1280, 900))
	p.Eval(`document.querySelector('.choice').scrollIntoView({ block: 'center' })`, nil)
	p.shootAsIs("numbers")
	p.shoot("numbers")

	german := s.openInGerman(page + "?period=7d&events=property&property=price")
	german.WaitFor(`document.querySelectorAll('section[aria-label="Ereignisse"] .facts div').length === 6`)
	german.see("95. Perzentil")
	german.look("numbers-german")
	german.clean(s)
	p.Front()

	open("item_name")
	p.WaitFor(`!document.querySelector('.panels [aria-busy=true], .panels .loading')`)
	if got := figures(); len(got) > 0 {
		t.Errorf("a property of texts shows %q", got)
	}
	p.clean(s)
}

// shown writes a figure as the panel does in English.
func shown(figure float64) string {
	if math.Abs(figure) < 10 {
		text, _ := strconv.ParseFloat(strconv.FormatFloat(figure, 'g', 4, 64), 64)
		return strconv.FormatFloat(text, 'f', -1, 64)
	}
	return grouped(figure, 2)
}

// grouped writes a number with commas between thousands and up to so many decimals.
func grouped(figure float64, decimals int) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(figure, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole
	}
	return whole + "." + fraction
}
