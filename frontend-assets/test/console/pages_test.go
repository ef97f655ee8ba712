package console_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/testkit"
)

// widths are the window's widths in which every page is checked.
var widths = []int64{320, 1440}

// TestEveryPageChromium opens every address of the console's router, in light and dark and in a
// narrow and a wide window, and requires that axe-core finds no fault. Other tests look at further
// states of the pages.
func TestEveryPageChromium(t *testing.T) {
	testkit.SkipLong(t, "axe-core on every page")
	t.Parallel()

	s := start(t, map[string]string{"SIGNUPS": "open"})
	s.signUp()
	site, key := s.createSite("shop.localhost", "Kettle shop")
	blank, _ := s.createSite("blog.localhost", "")
	imported, _ := s.createSite("example.com", "Example")
	testkit.Require(t, s.hit(key, "http://shop.localhost", "/kettle", ""), 204, "a hit: status")
	if status := s.hit(key, "http://copy.localhost", "/", ""); status == 204 {
		t.Fatalf("a hit of another domain: status %d", status)
	}
	var created struct {
		CreateSitekey struct{ Sitekey struct{ ID string } }
	}
	s.Do(`mutation { createSitekey(input: {name: "Contact"}) { sitekey { id } userErrors { message } } }`, nil, &created)
	link := s.createLink(site, "For the bank", "")

	p := s.openSignedIn("/sites/" + imported + "/import")
	p.startImport("PLAUSIBLE", plausibleArchive(t))
	p.see("will be imported.")

	checked := map[string]int{}
	for _, path := range []string{
		"/", "/sites/new", "/sites/" + site, "/sites/" + blank, "/sites/" + site + "/live", "/sites/" + site + "/install", "/sites/" + blank + "/install",
		"/sites/" + site + "/events", "/sites/" + site + "/rejections", "/sites/" + site + "/webhooks", "/sites/" + site + "/export",
		"/sites/" + site + "/import", "/sites/" + imported + "/import", "/sites/" + site + "/settings",
		"/sites/" + site + "/measurement", "/sites/" + site + "/exclusions", "/sites/" + site + "/advanced", "/sites/" + site + "/sharing",
		"/sites/" + site + "/saved", "/sites/" + site + "/alerts", "/alerts", "/sites/" + site + "/usage", "/deleted", "/captcha", "/captcha/new",
		"/captcha/" + created.CreateSitekey.Sitekey.ID, "/account", "/members", "/tokens", "/sessions", "/security", "/audit", "/provider",
		"/operator", "/sites/site_unknown",
	} {
		p.hasNoBarriers(path)
		checked[path]++
	}

	reader := s.open("/sign-up")
	for _, path := range []string{
		"/sign-in", "/sign-up", "/forgot-password", "/reset-password", "/accept-invitation", "/confirm-sign-up", "/confirm-email",
		"/sign-in/provider", "/stop-mail", "/confirm-alerts", "/share#unknown", "/embed/unknown#unknown", "/share#" + link,
	} {
		reader.hasNoBarriers(path)
		checked[path]++
	}

	// An address that is opened directly has its heading, too.
	p.Goto(s.Origin + "/deleted")
	p.WaitFor("document.querySelector('h1')?.textContent === 'Recently deleted sites' && !document.querySelector('.loading')")

	// A new page must be added above.
	source, err := os.ReadFile("../../src/console/main.tsx")
	testkit.NoError(t, err)
	patterns := map[string]bool{}
	for _, found := range regexp.MustCompile(`'(/[a-z:/-]*)'`).FindAllStringSubmatch(string(source), -1) {
		patterns[found[1]] = true
	}
	for pattern := range patterns {
		expression := regexp.MustCompile("^" + regexp.MustCompile(`:[a-z]+`).ReplaceAllString(pattern, `[^/?#]+`) + `([?#].*)?$`)
		covered := false
		for path := range checked {
			// /sites/new and /captcha/new are pages of their own.
			covered = covered || expression.MatchString(path) && (patterns[path] == (path == pattern))
		}
		if !covered {
			t.Errorf("no address of the page %s is checked", pattern)
		}
	}
	t.Logf("%d addresses of %d pages, each in light and dark with %d px", len(checked), len(patterns), widths)
}

// overflow is by how many pixels a page is higher than the window, although its content and the
// footer fit.
const overflow = `(() => {
	const footer = document.querySelector('footer'), main = document.querySelector('main');
	if (!footer || main.classList.contains('narrow')) return '';
	const content = main.lastElementChild.getBoundingClientRect().bottom + scrollY + 64 + footer.offsetHeight;
	const more = document.documentElement.scrollHeight - innerHeight;
	return content <= innerHeight && more > 0 ? String(more) : '';
})()`

// hasNoBarriers opens an address within the loaded console, and fails the test if axe-core finds a
// fault or the page scrolls sideways.
func (p *tab) hasNoBarriers(path string) {
	p.t.Helper()

	// A page has a new heading, even if it has the text of the last one.
	p.Eval(`document.querySelectorAll('h1').forEach((e) => { e.dataset.before = '' })`, nil)
	p.Eval(fmt.Sprintf("history.pushState(null, '', %q), dispatchEvent(new PopStateEvent('popstate'))", path), nil)
	p.WaitFor("document.querySelector('h1:not([data-before])') && !document.querySelector('.loading, [aria-busy=true]')")

	for _, width := range widths {
		p.Do(chromedp.EmulateViewport(width, 900))
		var barriers []string
		for _, theme := range []struct {
			name string
			find func(selector string) []string
		}{{"light", p.Barriers}, {"dark", p.ColorBarriers}} {
			p.Eval(fmt.Sprintf("document.documentElement.dataset.theme = %q", theme.name), nil)
			for _, barrier := range theme.find("html") {
				barriers = append(barriers, theme.name+": "+barrier)
			}
		}
		p.staysWithin(fmt.Sprintf("%s with %d px", path, width))

		if needless := p.Text(overflow); needless != "" {
			barriers = append(barriers, "it is higher than the window by "+needless+" px without need")
		}

		if len(barriers) > 0 {
			p.t.Errorf("%s with %d px:\n%s", path, width, strings.Join(barriers, "\n"))
		}
	}
}
