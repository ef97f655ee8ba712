package faces_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// matomo returns Matomo's snippet with commands before the two that name address and site.
func matomo(commands string) string {
	return fmt.Sprintf(`<script>var _paq = window._paq = window._paq || []; %s;
		_paq.push(["setTrackerUrl", "%s/matomo.php"], ["setSiteId", "1"]);</script><script async src="%[2]s/matomo.js"></script>`,
		pushes(commands), keyFolder)
}

// pushes returns the call that queues commands.
func pushes(commands string) string { return "_paq.push(" + commands + ")" }

const trackPage = `["trackPageView"], ["enableLinkTracking"]`

func TestMatomoChromium(t *testing.T) {
	s := newShop(t)
	path := "/" + siteKey + "/matomo.php"
	s.run(t, path, matomoInstallations())
	s.run(t, path, matomoCommands())
	s.run(t, path, matomoConsent())
}

// matomoInstallations are the ways to install the script.
func matomoInstallations() []row {
	atTop := `<script>_paq = [["trackPageView"], ["setTrackerUrl", "%s/%s.php"], ["setSiteId", "%s"]]</script><script src="%[1]s/%[2]s.js"></script>`

	return []row{
		{name: "snippet", page: matomo(trackPage), want: []string{viewOfPage}},
		{name: "nothing by itself", page: matomo(``), do: `history.pushState(0, "", "/next")`},
		{name: "key as id", page: fmt.Sprintf(atTop, dataOrigin, "matomo", siteKey), path: "/matomo.php", want: []string{viewOfPage}},
		{name: "piwik.js", page: fmt.Sprintf(atTop, dataOrigin, "piwik", uuid), path: "/piwik.php", want: []string{viewOfPage}},
		{
			name: "the folder js", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script>_paq = [["trackPageView"]]</script><script src="%s/js/"></script>`, keyFolder),
		},
		{
			name: "own proxy", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script>_paq = [["trackPageView"]]</script><script src="/proxy/%s/matomo.js?v=1"></script>`, siteKey),
		},
		{
			name: "address and site after the script", path: "/piwik.php", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script src="%s/matomo.js"></script>`, keyFolder),
			do:   fmt.Sprintf(`_paq.push(["setTrackerUrl", "%s/piwik.php"], ["setSiteId", "%s"], ["trackPageView"])`, dataOrigin, siteKey),
		},
		{
			name: "tracker", page: matomo(``), want: []string{viewOfPage, `event /page signup {"action":"go"}`},
			do: `Matomo.initialized && Piwik.getTracker().trackPageView() === "" && Matomo.getAsyncTracker().trackEvent("signup", "go") === ""
				&& Matomo.getTracker().getVisitorId() === "" || Promise.reject()`,
		},
		{
			name: "tracker as the result of a promise", page: matomo(``),
			do:   `Promise.resolve(Matomo.getTracker()).then((tracker) => { tracker.trackPageView() })`,
			want: []string{viewOfPage},
		},
		{
			name: "getTracker with address and site", path: "/matomo.php", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script src="%s/matomo.js"></script>`, dataOrigin),
			do:   fmt.Sprintf(`Matomo.getAsyncTracker("%s/matomo.php", "%s").trackPageView()`, dataOrigin, siteKey),
		},
		{
			name: "matomoAsyncInit", page: matomo(``), before: `window.matomoAsyncInit = () => { Matomo.getTracker().trackPageView() }`,
			want: []string{viewOfPage},
		},
		{name: "second copy", page: matomo(trackPage) + fmt.Sprintf(`<script src="%s/piwik.js"></script>`, keyFolder), want: []string{viewOfPage}},
		{name: "svc.js first", page: strings.Replace(svcTag, "defer", "", 1) + matomo(trackPage), path: "/collect.php", want: []string{viewOfPage}},
		{name: "Do Not Track", page: matomo(trackPage), before: `Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`},
	}
}

// matomoCommands are the commands with a meaning, and some without.
func matomoCommands() []row {
	withCurrency := fmt.Sprintf(`<script>_paq = [["trackPageView"]]</script><script src="%s/matomo.js?currency=EUR"></script>`, keyFolder)
	order := `_paq.push(["addEcommerceItem", "a", "Shoe", ["x"], 4.5, 2], ["addEcommerceItem", "b"], ["removeEcommerceItem", "b"],
		["trackEcommerceOrder", "m1", 9, 8, 1])`

	return []row{
		{
			name: "setCustomUrl", page: matomo(`["setCustomUrl", "/named?secret"], ["setReferrerUrl", "http://other.test/?secret"], ` + trackPage),
			do: pushes(`["trackEvent", "signup", "go"]`), want: []string{"view /named", `event /named signup {"action":"go"}`},
		},
		{
			name: "route of the page", page: matomo(trackPage), want: []string{viewOfPage, "view /next"},
			do: `history.pushState(0, "", "/next?secret"), ` + pushes(`["setDocumentTitle", "Secret"], ["setCustomUrl", "/next"], ["trackPageView"]`),
		},
		{
			name: "trackEvent", page: matomo(trackPage), do: pushes(`["trackEvent", "Signup Button!", "click", "head", 3]`),
			want: []string{viewOfPage, `event /page signup_button {"action":"click","name":"head","value":3}`},
		},
		{
			name: "trackGoal", page: matomo(trackPage), do: pushes(`["trackGoal", 1, 9.5]`),
			want: []string{viewOfPage, `event /page goal_1 {"value":9.5}`},
		},
		{
			name: "trackSiteSearch", page: matomo(trackPage), do: pushes(`["trackSiteSearch", "shoes", "category", 3]`),
			want: []string{viewOfPage, `event /page site_search {"term":"shoes"}`},
		},
		{
			name: "trackLink", page: matomo(trackPage),
			do: pushes(`["trackLink", "/files/list.PDF?secret", "download"], ["trackLink", "http://other.test/?secret", "link"]`),
			want: []string{
				viewOfPage, `event /page file_download {"file":"list.PDF","ext":"pdf"}`, `event /page outbound_click {"host":"other.test"}`,
			},
		},
		{
			name: "setEcommerceView", page: matomo(`["setEcommerceView", "a", "Shoe", "Shoes", 4.5], ` + trackPage),
			do:   pushes(`["setEcommerceView", false, false, "Shoes"], ["trackPageView"]`),
			want: []string{viewOfPage, `event /page view_item {"item_id":"a","item_name":"Shoe","price":4.5}`, viewOfPage},
		},
		{name: "trackEcommerceOrder", page: withCurrency, do: order, want: []string{
			viewOfPage, `event /page purchase {"items":[{"item_id":"a","item_name":"Shoe","price":4.5,"quantity":2}]}`,
		}},
		{
			name: "trackEcommerceOrder without currency", page: matomo(trackPage), do: order,
			want: []string{
				viewOfPage,
				`event /page own_purchase {"transaction_id":"m1","value":9,"items":[{"item_id":"a","item_name":"Shoe","price":4.5,"quantity":2}]}`,
			},
		},
		{
			name: "clearEcommerceCart", page: matomo(trackPage),
			do:   pushes(`["addEcommerceItem", "a"], ["trackEcommerceCartUpdate", 9], ["clearEcommerceCart"], ["trackEcommerceOrder", "m2", 9]`),
			want: []string{viewOfPage, `event /page own_purchase {"transaction_id":"m2","value":9,"items":[]}`},
		},
		{
			name: "functions", page: matomo(trackPage), want: []string{viewOfPage, `event /page signup {"action":"x"}`},
			do: pushes(`[function (action) { if (this.getVisitorId() === "") this.trackEvent("signup", action) }, "x"], [() => { throw 1 }]`),
		},
		{
			name: "without meaning", page: matomo(trackPage), want: []string{viewOfPage},
			do: pushes(`["enableHeartBeatTimer", 5], ["disableCookies"], ["setCustomDimension", 1, "secret"], ["MediaAnalytics::enable"], ["nothing"], []`),
		},
	}
}

// matomoConsent are the commands that forbid and allow messages.
func matomoConsent() []row {
	waiting := matomo(trackPage + `, ["requireConsent"]`)
	event := `["trackEvent", "signup", "go"]`

	return []row{
		{name: "requireConsent", page: waiting, do: pushes(event) + `, svc("event", "signup")`},
		{
			name: "setConsentGiven", page: waiting, do: pushes(event + `, ["setConsentGiven"], ` + event),
			want: []string{viewOfPage, `event /page signup {"action":"go"}`, `event /page signup {"action":"go"}`},
		},
		{name: "rememberConsentGiven", page: waiting, do: pushes(`["rememberConsentGiven", 24]`), want: []string{viewOfPage}},
		{
			name: "forgetConsentGiven", page: matomo(trackPage), want: []string{viewOfPage},
			do: `later(2000), ` + pushes(`["forgetConsentGiven"], `+event),
		},
		{
			name: "optUserOut", page: matomo(trackPage), want: []string{viewOfPage},
			do: `later(2000), ` + pushes(`["optUserOut"], ["rememberConsentGiven"], `+event),
		},
		{
			name: "forgetUserOptOut", page: matomo(`["optUserOut"], ` + trackPage), want: []string{viewOfPage},
			do: pushes(`["forgetUserOptOut"]`),
		},
	}
}

// TestMatomoUserChromium checks that messages after setUserId carry the id's SHA-256, and never the
// id.
func TestMatomoUserChromium(t *testing.T) {
	got := newShop(t).userIDs(matomo(trackPage+`, ["setUserId", "password"]`),
		pushes(`["trackEvent", "signup", "go"], ["resetUserId"], ["trackEvent", "legacy", "go"]`))

	want := map[string]any{"": passwordHash, "signup": passwordHash, "legacy": nil}
	testkit.EqualMaps(t, got, want, "user ids")
}
