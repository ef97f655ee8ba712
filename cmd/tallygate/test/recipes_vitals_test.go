package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// vitalsPackage is where .ci/setup installs the package web-vitals.
const vitalsPackage = "../../../frontend-assets/test/vitals/node_modules"

// vitalsFigures are the figures of a vital in a report.
type vitalsFigures struct {
	Totals struct {
		Events, Numbers    int64
		Sum, Min, Max, P75 *float64
	}
	Breakdown struct {
		Nodes []struct {
			Value   string
			Figures struct{ P75 *float64 }
		}
	}
}

// TestRecipeVitalsChromium opens a page with the package web-vitals and the recipe in a browser,
// clicks, moves content and leaves. The report has the same numbers as the package reported to the
// page.
func TestRecipeVitalsChromium(t *testing.T) {
	testkit.SkipLong(t, "a browser")
	modules, err := filepath.Abs(vitalsPackage)
	testkit.NoError(t, err)
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err != nil {
		testkit.Missing(t, ".ci/setup npm has not installed the package web-vitals")
	}
	// A second observer keeps what the package reports, to compare it with the report.
	const observer = `import { onCLS, onFCP, onINP, onLCP, onTTFB } from 'web-vitals';
const keep = ({ name, value }) => (sessionStorage[name.toLowerCase()] = value);
for (const observe of [onCLS, onFCP, onINP, onLCP, onTTFB]) observe(keep);`
	scripts := bundledVitals(t, modules, observer) + bundledVitals(t, modules, recipeFile(t, "web-vitals.mjs"))

	r := openRecipes(t)
	r.owner.RegisterEvent(r.site.ID, "vitals")
	const head = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Vitals</title><link rel="icon" href="data:,">
<script defer src="{analytics_url}/svc.js" data-site="{site_key}"></script>`
	r.add("/vitals", head+`<div id="above"></div><h1 style="font-size: 90px">Web Vitals</h1><p>Text</p>
<button id="press" onclick="for (const end = performance.now() + 120; performance.now() < end;);">Press</button>`)
	// A page without a window may never be idle. So the package reads the click in a timer, as it
	// does in Safari.
	r.pages["/vitals"] += "<script>window.requestIdleCallback = undefined</script>" + scripts
	r.add("/after", head)

	page := r.open("/vitals")
	page.WaitFor(sent + " >= 1")
	page.WaitFor(`performance.getEntriesByName('first-contentful-paint').length > 0`)
	// A shift within half a second after a click would count as the user's.
	page.Eval(`document.querySelector('#above').style.height = '37px'`, nil)
	page.Eval(`new PerformanceObserver(() => { window.shifted = true }).observe({ type: 'layout-shift', buffered: true })`, nil)
	page.WaitFor(`window.shifted`)
	page.Eval(`new PerformanceObserver((list) => { window.pressed ||= list.getEntries().some((e) => e.interactionId > 0) })
		.observe({ type: 'event', durationThreshold: 40, buffered: true })`, nil)
	page.Click("#press")
	page.WaitFor(`window.pressed`)
	page.Eval(`setTimeout(() => setTimeout(() => { window.idle = true }))`, nil)
	page.WaitFor(`window.idle`)
	page.Goto(r.address("/after"))
	page.WaitFor(sent + " >= 1")

	var kept map[string]string
	page.Eval(`({ ...sessionStorage })`, &kept)
	shown := make(map[string]float64)
	for _, name := range []string{"lcp", "fcp", "ttfb", "cls", "inp"} {
		value, err := strconv.ParseFloat(kept[name], 64)
		if err != nil || value <= 0 {
			t.Fatalf("the package has reported %v", kept)
		}
		shown[name] = value
	}

	for name, want := range shown {
		got := r.vital(name)
		if got.Totals.Numbers != 1 || *got.Totals.P75 != want || *got.Totals.Sum != want || *got.Totals.Max != want {
			t.Errorf("%s: the report has %+v, want %v", name, got.Totals, want)
			continue
		}
		if nodes := got.Breakdown.Nodes; len(nodes) != 1 || nodes[0].Value != "/vitals" || *nodes[0].Figures.P75 != want {
			t.Errorf("%s by page: %+v, want %v of /vitals", name, nodes, want)
		}
	}
	wantQuietConsole(t, page)
}

// bundledVitals returns the script element of a module that imports the package.
func bundledVitals(t *testing.T, modules, source string) string {
	t.Helper()
	built := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: source, ResolveDir: filepath.Dir(modules), Loader: api.LoaderJS},
		Bundle: true, Format: api.FormatIIFE,
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	return "<script>" + strings.ReplaceAll(string(built.OutputFiles[0].Contents), "</script", `<\/script`) + "</script>"
}

// vital reads a vital of today, as soon as the report has one. Each attempt asks another question,
// because the answer to an equal one is kept.
func (r *recipePages) vital(name string) (figures vitalsFigures) {
	r.t.Helper()
	const between = 250 * time.Millisecond // so that the attempts stay below the rate limit
	deadline := time.Now().Add(patience)
	for attempt := 0; ; attempt++ {
		var data struct {
			Site struct {
				Report struct{ Numbers vitalsFigures }
			}
		}
		r.owner.do(fmt.Sprintf(`{ site(id: %q) { report(period: {preset: TODAY}, filters: [{dimension: PAGE, operator: IS_NOT, values: ["/none-%d"]}]) {
	numbers(event: "vitals", property: %q) { totals { events numbers sum min max p75 }
		breakdown(by: PAGE, orderBy: {metric: P75}) { nodes { value figures { p75 } } } } } } }`, r.site.ID, attempt, name), &data)
		if figures = data.Site.Report.Numbers; figures.Totals.Numbers > 0 || time.Now().After(deadline) {
			return figures
		}
		<-time.After(between)
	}
}
