package faces_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/npmtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// wrappers is the folder of the published packages, and of the pages that use them.
const wrappers = "../dropin/wrappers"

// until makes a page wait for a condition: most packages add their script after the page has loaded.
const until = `window.until = (holds) => new Promise((done) => {
	const check = () => holds() ? done() : setTimeout(check, 5);
	check();
});`

// packagePages returns a function that makes a page of a package: with an element for the package
// and attributes of the element, which the page reads.
func packagePages(t *testing.T, page string) func(attributes string, values ...any) string {
	t.Helper()
	script := npmtest.Script(t, wrappers, page)
	return func(attributes string, values ...any) string {
		return "<div id=app " + fmt.Sprintf(attributes, values...) + "></div>" + script
	}
}

// TestUmamiPackagesChromium runs the packages that load Umami's script.
func TestUmamiPackagesChromium(t *testing.T) {
	s := newShop(t)
	react, vue := packagePages(t, "umami.react.jsx"), packagePages(t, "umami.vue.js")
	loaded := `until(() => document.querySelector("[data-umami-plugin-state=loaded]"))`

	s.run(t, "/api/send", []row{
		{
			name: "umami-react", page: react(`data-url=%s data-site=%s`, dataOrigin, uuid), pause: 2 * time.Second,
			do: `hook.track("signup", {plan: "pro"}), hook.trackPageview(), hook.trackPageview({url: "/in?secret", title: "Secret"}),
				hook.identify("password", {name: "Secret"}), hook.trackPageviewWithUTM({utm_source: "secret"}), umami.track("legacy")`,
			click: "button",
			want: []string{
				viewOfPage, `event /page signup {"plan":"pro"}`, "view /page manual", "view /in manual", "view /page manual",
				"event /page legacy", `event /page signup_button {"plan":"pro"}`,
			},
		},
		{
			name: "umami-react, key in the address", page: react(`data-url=%s data-site=%s`, keyFolder, oldID), before: until,
			path: "/" + siteKey + "/api/send", do: `until(() => window.umami)`, want: []string{viewOfPage},
		},
		{
			name: "umami-react, lazy", page: react(`data-url=%s data-site=%s data-lazy`, dataOrigin, siteKey), before: until,
			do: `until(() => document.dispatchEvent(new Event("mousemove")) && window.umami)`, want: []string{viewOfPage},
		},
		{
			name: "vue-umami-plugin", page: vue(`data-url=%s data-site=%s`, dataOrigin, uuid), before: until,
			do: loaded + `.then(() => router.push("/next?secret#secret")).then(() => {
				trackUmamiEvent("signup", {a: 1}), identifyUmamiSession("password", {name: "Secret"});
				trackUmamiPageView({url: "/in?secret", title: "Secret"});
				return umami.track("signup");
			})`,
			want: []string{
				`event /page legacy {"early":true}`, "view /page manual", "view /next manual", `event /next signup {"a":1}`,
				"view /in manual", "event /in signup",
			},
		},
		{
			name: "vue-umami-plugin, automatic", page: vue(`data-url=%s data-site=%s data-auto`, dataOrigin, uuid), before: until,
			do:   loaded + `.then(() => router.push("/next?secret"))`,
			want: []string{viewOfPage, `event /page legacy {"early":true}`, "view /next"},
		},
	})
}

// TestPlausiblePackagesChromium runs the package that loads Plausible's script.
func TestPlausiblePackagesChromium(t *testing.T) {
	s := newShop(t)
	page := packagePages(t, "plausible.next.jsx")
	loaded := `until(() => window.plausible?.l)`

	s.run(t, "/api/event", []row{
		{
			name: "next-plausible", page: page(`data-src=%s/js/pa-%s.js`, dataOrigin, siteKey), before: until, click: "button",
			do:   loaded + `.then(() => new Promise((done) => track("signup", {props: {plan: "pro"}, callback: done})))`,
			want: []string{viewOfPage, `event /page signup {"plan":"pro"}`, `event /page signup_button {"plan":"pro"}`},
		},
		{
			name: "next-plausible, key in the address", page: page(`data-src=%s/js/script.js`, keyFolder), before: until,
			path: "/" + siteKey + "/api/event", do: loaded, want: []string{viewOfPage},
		},
		{
			name: "next-plausible, its proxy", before: until, path: "/" + siteKey + "/api/event",
			page: page(`data-src=/proxy/js/script.js data-init='{"endpoint": "/proxy/%s/api/event"}'`, siteKey),
			do:   loaded + `.then(() => history.pushState(0, "", "/next?secret"))`, want: []string{viewOfPage, "view /next"},
		},
		{
			name:   "next-plausible, init",
			page:   page(`data-src=%s/js/pa-%s.js data-init='{"autoCapturePageviews": false, "hashBasedRouting": true}'`, dataOrigin, siteKey),
			before: until + `history.replaceState(0, "", "/#/about?secret")`, do: loaded + `.then(() => track("pageview"))`,
			want: []string{"view /about manual"},
		},
	})
}

// TestMatomoPackagesChromium runs the packages that load Matomo's script.
func TestMatomoPackagesChromium(t *testing.T) {
	s := newShop(t)
	plain, react, vue := packagePages(t, "matomo.js"), packagePages(t, "matomo.react.jsx"), packagePages(t, "matomo.vue.js")
	attributes := fmt.Sprintf(`data-url=%s data-site=1`, keyFolder)
	loaded := `until(() => window.Matomo)`
	event := `event /page signup_button {"action":"click","name":"head","value":3}`

	s.run(t, "/"+siteKey+"/matomo.php", []row{
		{
			name: "matomo-tracker-js", page: plain(attributes), before: until,
			do: loaded + `.then(() => {
				tracker.trackEvent({category: "Signup Button!", action: "click", name: "head", value: 3, documentTitle: "Secret"});
				history.pushState(0, "", "/next?secret");
				tracker.trackPageView(), tracker.trackSiteSearch({keyword: "shoes"}), tracker.trackLink({href: "http://other.test/?secret"});
				tracker.addEcommerceItem({sku: "a", productName: "Shoe", productPrice: 4.5});
				tracker.trackEcommerceOrder({orderId: "m1", orderRevenue: 4.5});
			})`,
			want: []string{
				viewOfPage, event, "view /next", `event /next site_search {"term":"shoes"}`, `event /next outbound_click {"host":"other.test"}`,
				`event /next own_purchase {"transaction_id":"m1","value":4.5,"items":[{"item_id":"a","item_name":"Shoe","price":4.5,"quantity":1}]}`,
			},
		},
		{name: "matomo-tracker-react", page: react(attributes), before: until, do: loaded, click: "button", want: []string{viewOfPage, event}},
		{
			// The package and the script see the same click.
			name: "matomo-tracker-react, link", page: react(attributes), pause: time.Second, click: "b",
			want: []string{viewOfPage, `event /page outbound_click {"host":"other.test"}`},
		},
		{
			name: "vue-matomo", page: vue(attributes), pause: time.Second, do: `router.push("/next?secret#secret")`,
			want: []string{viewOfPage, "view /next"},
		},
	})
}

// counted counts the messages of code that sends by XMLHttpRequest or fetch, as counter does for
// beacons.
const counted = `for (const [object, name] of [[window, "fetch"], [XMLHttpRequest.prototype, "send"]])
	object[name] = new Proxy(object[name], { apply(...call) { sent++; return Reflect.apply(...call) } });`

// TestOwnCodePackagesChromium runs the packages that contain Plausible's code. Their messages have
// whole addresses. The server stores the paths.
func TestOwnCodePackagesChromium(t *testing.T) {
	s := newShop(t)
	path := "/" + siteKey + "/api/event"
	community, official := packagePages(t, "plausible.tracker.js"), packagePages(t, "plausible.official.js")
	tracked := `new Promise((done) => track("Signup Button!", {props: {plan: "pro"}, callback: done}))`
	event := `event /page signup_button {"plan":"pro"}`

	elements := `<a id=file href="/files/list.pdf?secret" onclick="return false">x</a>
		<a id=out href="http://other.test/?secret" onclick="return false">x</a>
		<form onsubmit="return false"><input name=q value=secret></form>`
	// The code sends its engagement when the page is hidden.
	hidden := `Object.defineProperty(document, "visibilityState", {get: () => "hidden"}), document.dispatchEvent(new Event("visibilitychange"))`
	// A browser under test is a bot to the code, but for this.
	allowed := `window.__plausible = 1;` + counted

	s.run(t, path, []row{
		{
			name: "plausible-tracker", page: community(`data-url=%s data-site=www.shop.test`, keyFolder), before: counted,
			do: tracked + `.then(() => {
				history.pushState(0, "", "/next?secret#secret");
				track("404", {props: {path: location.pathname}}), track("Outbound Link: Click", {props: {url: "http://other.test/?secret"}});
			})`,
			want: []string{viewOfPage, event, "view /next", `event /next 404 {"path":"/next"}`, `event /next outbound_click {"host":"other.test"}`},
		},
		{
			name: "plausible-tracker, key as domain", page: community(`data-url=%s data-site=%s`, dataOrigin, siteKey), before: counted,
			path: "/api/event", do: tracked, want: []string{viewOfPage, event},
		},
		{
			name: "tracker", page: official(`data-url=%s data-site=www.shop.test`, keyFolder) + elements, before: allowed,
			do: tracked + `.then(() => {
				history.pushState(0, "", "/next?secret#secret");
				document.querySelector("#file").click(), document.querySelector("#out").click(), document.querySelector("form").requestSubmit();
				track("signup", {revenue: {amount: "9.50", currency: "EUR"}}), track("pageview", {url: "http://www.shop.test/in?secret"}), ` + hidden + `;
			})`,
			want: []string{
				viewOfPage, event, "view /next", `event /next file_download {"ext":"pdf","file":"list.pdf"}`,
				`event /next outbound_click {"host":"other.test"}`, `event /next form_submission`,
				`event /next signup {"value":9.50,"currency":"EUR"}`, "view /in",
			},
		},
		{
			name: "tracker, key as domain", page: official(`data-url=%s data-site=%s`, dataOrigin, uuid), before: allowed,
			path: "/api/event", do: tracked + `.then(() => { ` + hidden + ` })`, want: []string{viewOfPage, event},
		},
	})
}

// TestUmamiNode checks that the package for servers is refused: its calls have no Origin.
func TestUmamiNode(t *testing.T) {
	testkit.SkipLong(t, "packages from a registry")
	folder := npmtest.Folder(t, wrappers)
	node, err := exec.LookPath("node")
	if err != nil {
		testkit.Missing(t, "Node is not installed")
	}

	plane := planetest.New(t, dbtest.Open(t, dbtest.SQLiteURL(t)), planetest.Options{})
	site := plane.Site("shop.test", world.Key(siteKey), world.Events("signup"))

	command := exec.Command(node, "-e", `const { Umami } = require("@umami/node");
		const umami = new Umami({ hostUrl: process.argv[1], websiteId: process.argv[2] });
		const calls = [umami.track("signup"), umami.track({ url: "/page?secret" }), umami.identify({ name: "Secret" })];
		Promise.all(calls).then(async (answers) => { for (const each of answers) process.stdout.write(each.status + " " + await each.text()) });`,
		plane.URL, siteKey)
	command.Dir = folder
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("node: %v\n%s", err, &output)
	}

	if want := strings.Repeat(`403 {"error":"domain_not_allowed"}`+"\n", 3); output.String() != want {
		t.Errorf("answers\n%swant\n%s", &output, want)
	}
	if views, events := plane.Views(site), plane.Events(site); len(views)+len(events) > 0 {
		t.Errorf("stored %v and %v", views, events)
	}
}
