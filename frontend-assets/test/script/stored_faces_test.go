package script_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestStoredPrerenderedFacesChromium prerenders a page with each of the scripts in the place of
// other products' scripts for analytics. Such a page counts when it is shown, with the events before.
func TestStoredPrerenderedFacesChromium(t *testing.T) {
	tags := map[string]string{
		"umami":     `<script src="%[1]s/script.js" data-website-id="%[2]s"></script><script>umami.track("signup")</script>`,
		"plausible": `<script src="%[1]s/js/script.js" data-domain="%[2]s"></script><script>plausible("signup")</script>`,
		"goatcounter": `<script src="%[1]s/count.js" data-goatcounter="%[1]s/%[2]s/count"></script>
			<script>goatcounter.count({path: "signup", event: true})</script>`,
		"matomo": `<script>_paq = [["trackPageView"], ["trackEvent", "signup"]]</script><script src="%[1]s/%[2]s/matomo.js"></script>`,
	}

	pages := map[string]string{"/": ""}
	for name, tag := range tags {
		pages["/start/"+name] = fmt.Sprintf(`<script type=speculationrules>{"prerender": [{"source": "list", "urls": ["/%s"], "eagerness": "immediate"}]}</script>
			<script>new BroadcastChannel("go").onmessage = () => { location.href = "/%[1]s" }</script>`, name)
		pages["/"+name] = fmt.Sprintf(tag, dataOrigin, siteKey) +
			`<script>addEventListener("load", () => fetch("/report?prerendering=" + document.prerendering));
			document.addEventListener("prerenderingchange", () => fetch("/report?activated"))</script>`
	}

	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), pages)
	page := s.browser.Open("http://www.shop.test/")
	shown := 0
	for name := range tags {
		// Chromium prerenders nothing for a tab with a test driver.
		page.Eval(fmt.Sprintf(`window.open("/start/%s", "_blank", "noopener")`, name), nil)
		s.reported("prerendering=true")
		if views, events := len(s.Views(s.site)), len(s.Events(s.site)); views != shown || events != shown {
			t.Errorf("%s: %d page views and %d events before it is shown, want %d", name, views, events, shown)
		}

		page.Eval(`new BroadcastChannel("go").postMessage(1)`, nil)
		s.reported("activated")
		shown++
		s.Await("the page view and the event of "+name, func() bool {
			return len(s.Views(s.site)) == shown && len(s.Events(s.site)) == shown
		})
	}

	var paths []string
	for _, view := range s.Views(s.site) {
		paths = append(paths, view.Path)
	}
	s.same("page views", paths, []string{"/umami", "/plausible", "/goatcounter", "/matomo"})
	s.hasEvents("/umami signup", "/plausible signup", "/goatcounter signup", "/matomo signup")
}
