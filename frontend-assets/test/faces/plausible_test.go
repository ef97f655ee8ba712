package faces_test

import (
	"fmt"
	"testing"
	"time"
)

// plausible returns Plausible's tag with the file's name and further attributes.
func plausible(file, attributes string) string {
	return fmt.Sprintf(`<script defer data-domain="%s" src="%s/js/%s" %s></script>`, siteKey, dataOrigin, file, attributes)
}

// plausibleStub is the snippet before the tag. It queues the calls until the script runs.
const plausibleStub = `<script>window.plausible = window.plausible || function () { (plausible.q = plausible.q || []).push(arguments) };
	plausible.init = plausible.init || function (options) { plausible.o = options || {} };</script>`

// plausibleKeyed returns the snippet and a tag with the site key in the file's name.
func plausibleKeyed(call string) string {
	return fmt.Sprintf(`%s<script>%s</script><script async src="%s/js/pa-%s.js"></script>`, plausibleStub, call, dataOrigin, siteKey)
}

func TestPlausibleChromium(t *testing.T) {
	s := newShop(t)
	s.run(t, "/api/event", plausibleTags())
	s.run(t, "/api/event", plausibleOptions())
	s.run(t, "/api/event", plausibleCalls())
	s.run(t, "/api/event", plausibleElements())
}

// plausibleTags are the ways to install the script.
func plausibleTags() []row {
	inFolder := fmt.Sprintf(`<script defer data-domain="shop.test" src="%s/js/script.js"></script>`, keyFolder)

	return []row{
		{name: "key in data-domain", page: plausible("script.js", ""), want: []string{viewOfPage}},
		{
			name: "one of several domains", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script defer data-domain="shop.test, %s" src="%s/js/plausible.js"></script>`, uuid, dataOrigin),
		},
		{name: "key in the address", page: inFolder, path: "/" + siteKey + "/api/event", want: []string{viewOfPage}},
		{
			name: "key in the address, no domain", path: "/" + siteKey + "/api/event",
			page: fmt.Sprintf(`<script defer src="%s/js/index.js"></script>`, keyFolder), want: []string{viewOfPage},
		},
		{
			name: "key in the address, init", path: "/" + siteKey + "/api/event",
			page: fmt.Sprintf(`%s<script src="%s/js/script.js"></script>`, plausibleStub, keyFolder),
			do:   `plausible.init({autoCapturePageviews: false}), plausible("signup")`, want: []string{viewOfPage, "event /page signup"},
		},
		{
			name: "key in the address, no domain, after the page", path: "/" + siteKey + "/api/event", want: []string{viewOfPage},
			do: fmt.Sprintf(`new Promise((done) => document.head.append(Object.assign(document.createElement("script"),
				{src: "%s/js/script.js", onload: done})))`, keyFolder),
		},
		{name: "key in the file's name", page: plausibleKeyed(`plausible.init()`), want: []string{viewOfPage}},
		{name: "init after the script", page: plausibleKeyed(``), do: `plausible.init(), plausible.init()`, want: []string{viewOfPage}},
		{name: "no init", page: plausibleKeyed(``), do: `plausible("signup")`},
		{
			name: "data-api", path: "/" + siteKey + "/api/event", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script data-domain=shop.test data-api="/proxy/%s/api/event" src="/proxy/js/script.js"></script>`, siteKey),
		},
		{
			name: "compat", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script id=plausible src="%s/js/script.compat.js" data-domain="%s"></script>`, dataOrigin, siteKey),
		},
		{name: "second copy", page: plausible("script.js", "") + plausible("plausible.js", ""), want: []string{viewOfPage}},
		{name: "svc.js as well", page: plausible("script.js", "") + svcTag, want: []string{viewOfPage}},
		{
			name: "svc.js first", page: svcTag + plausible("script.js", ""), path: "/collect.php",
			do:   `new Promise((done) => plausible("signup", {callback: done}))`,
			want: []string{viewOfPage},
		},
		{name: "our attributes", page: plausible("script.js", "data-auto=off"), do: `history.pushState(0, "", "/next")`, want: []string{viewOfPage}},
	}
}

// plausibleOptions are the variants of the script, and the settings of init and of the tag.
func plausibleOptions() []row {
	next := `history.pushState(0, "", "/next?secret")`

	return []row{
		{name: "manual", page: plausible("script.manual.js", ""), do: next},
		{
			name: "manual, calls", page: plausible("script.manual.js", ""),
			do:   `plausible("pageview"), plausible("signup"), plausible("pageview", {u: "http://www.shop.test/in?secret#secret"}), plausible("signup")`,
			want: []string{"view /page manual", "event /page signup", "view /in manual", "event /in signup"},
		},
		{
			name: "autoCapturePageviews", page: plausibleKeyed(`plausible.init({autoCapturePageviews: false})`),
			do: next + `, plausible("pageview", {url: () => "/in"})`, want: []string{"view /in manual"},
		},
		{
			name: "endpoint", page: plausibleKeyed(`plausible.init({endpoint: "` + keyFolder + `/api/event"})`),
			path: "/" + siteKey + "/api/event", want: []string{viewOfPage},
		},
		{name: "routes", page: plausible("script.js", ""), do: next, want: []string{viewOfPage, "view /next"}},
		{
			name: "hash", page: plausible("script.hash.js", ""), before: `history.replaceState(0, "", "/#/about?secret")`,
			do: `location.hash = "!/in", location.hash = "secret"`, want: []string{"view /about", "view /in", "view /"},
		},
		{
			name: "hashBasedRouting", page: plausibleKeyed(`plausible.init({hashBasedRouting: true})`),
			before: `history.replaceState(0, "", "/#/about?secret")`, want: []string{"view /about"},
		},
		{
			name: "data-exclude", page: plausible("script.exclusions.js", `data-exclude="/pa*, /blog/**"`),
			do: `plausible("signup"), ` + next + `, history.pushState(0, "", "/blog/2026/a"), history.pushState(0, "", "/blog")`,
			// The event belongs to no page view.
			want: []string{"event /page signup", "view /next", "view /blog"},
		},
		{
			name: "data-include", page: plausible("script.exclusions.js", `data-include="/next/*"`),
			do: `history.pushState(0, "", "/next/a"), history.pushState(0, "", "/next/a/b")`, want: []string{"view /next/a"},
		},
		{
			name: "customProperties", page: plausibleKeyed(`plausible.init({customProperties: {theme: "dark", plan: "x"}})`),
			do: `plausible("signup", {props: {plan: "pro"}})`, want: []string{viewOfPage, `event /page signup {"theme":"dark","plan":"pro"}`},
		},
		{
			name: "customProperties by name", page: plausibleKeyed(`plausible.init({customProperties: (name) => ({name})})`),
			do: `plausible("signup")`, want: []string{viewOfPage, `event /page signup {"name":"signup"}`},
		},
		{
			name: "transformRequest", page: plausibleKeyed(`plausible.init({transformRequest: (payload) => {
				if (Object.keys(payload).join() !== "n,u,d,r,p") throw payload;
				if (payload.n === "drop") return null;
				return {...payload, n: payload.n === "x" ? "signup" : payload.n, u: payload.u + "/edited?secret", p: {n: 1}};
			}})`),
			do: `plausible("drop"), plausible("x")`, want: []string{"view /page/edited", `event /page/edited/edited signup {"n":1}`},
		},
		{
			name: "transformRequest without an address", page: plausibleKeyed(`plausible.init({transformRequest: ({n}) => ({n})})`),
			do: `plausible("signup", {props: {a: 1}})`, want: []string{viewOfPage, "event /page signup"},
		},
		{
			name: "transformRequest that throws", page: plausibleKeyed(`plausible.init({transformRequest: () => { throw 1 }})`),
			do: `new Promise((done) => plausible("signup", {callback: done}))`,
		},
		{
			name: "without meaning", want: []string{viewOfPage},
			page: plausible("script.local.outbound-links.file-downloads.revenue.tagged-events.pageview-props.js", `event-author=secret`),
		},
	}
}

// plausibleCalls are calls of the function.
func plausibleCalls() []row {
	page := plausible("script.js", "")

	return []row{
		{
			name: "queue", page: plausibleStub + `<script>plausible("signup", {props: {a: 1}})</script>` + page,
			want: []string{viewOfPage, `event /page signup {"a":1}`},
		},
		{name: "name", page: page, do: `plausible("Signup Button!")`, want: []string{viewOfPage, "event /page signup_button"}},
		{
			name: "meta and props", page: page, do: `plausible("signup", {meta: {a: 1, b: 1}, props: {b: 2}, interactive: false})`,
			want: []string{viewOfPage, `event /page signup {"a":1,"b":2}`},
		},
		{
			name: "path of an event", page: page, do: `plausible("signup", {u: "/in?secret"}), plausible("signup")`,
			want: []string{viewOfPage, "event /in signup", "event /page signup"},
		},
		{
			name: "revenue", page: page, do: `plausible("signup", {revenue: {amount: 9.5, currency: "EUR"}})`,
			want: []string{viewOfPage, `event /page signup {"value":9.5,"currency":"EUR"}`},
		},
		{
			name: "purchase", page: page,
			do:   `plausible("Purchase", {revenue: {amount: 9.5, currency: "EUR"}, props: {transaction_id: "p1"}})`,
			want: []string{viewOfPage, "event /page purchase"},
		},
		{
			name: "purchase without a number", page: page, do: `plausible("Purchase", {revenue: {amount: 9.5, currency: "EUR"}})`,
			want: []string{viewOfPage, `event /page own_purchase {"value":9.5,"currency":"EUR"}`},
		},
		{
			name: "404", page: page, do: `plausible("404", {props: {path: document.location.pathname}})`,
			want: []string{viewOfPage, `event /page 404 {"path":"/page"}`},
		},
		{
			name: "unregistered", page: page, do: `plausible("WP Search Queries")`, want: []string{viewOfPage, "status 400 wp_search_queries"},
		},
		{
			name: "pageview", page: page, pause: 1500 * time.Millisecond, do: `plausible("pageview", {props: {a: 1}})`,
			want: []string{viewOfPage, "view /page manual"},
		},
		{name: "pageview that repeats the automatic one", page: page, do: `plausible("pageview")`, want: []string{viewOfPage}},
		{
			name: "callback", page: page, want: []string{viewOfPage, "event /page signup"},
			do: `new Promise((done) => { let later; plausible("signup", {callback: () => done(later || Promise.reject("at once"))}); later = 1 })`,
		},
		{
			name: "callback that throws", page: page, do: `plausible("signup", {callback() { throw 1 }}), plausible("legacy")`,
			want: []string{viewOfPage, "event /page signup", "event /page legacy"},
		},
		{
			name: "Do Not Track", page: page, before: `Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`,
			do: `new Promise((done) => plausible("signup", {callback: done}))`,
		},
	}
}

// plausibleElements are elements of the page that name an event.
func plausibleElements() []row {
	const classes = `class="big plausible-event-name=Signup+Button plausible-event-plan--pro+plan plausible-revenue-amount=9"`
	const event = `event /page signup_button {"plan":"pro plan","value":"9"}`
	page := plausible("script.tagged-events.js", "")
	form := page + `<form onsubmit="return false" %s><input required value="%s"><button>Go</button></form>`

	return []row{
		{name: "classes", page: page + `<button ` + classes + `>Go</button>`, click: "button", want: []string{viewOfPage, event}},
		{name: "three above", page: page + `<div ` + classes + `><p><i><b>Go</b></i></p></div>`, click: "b", want: []string{viewOfPage, event}},
		{name: "four above", page: page + `<div ` + classes + `><p><i><u><b>Go</b></u></i></p></div>`, click: "b", want: []string{viewOfPage}},
		{name: "form", page: fmt.Sprintf(form, classes, "x"), click: "button", want: []string{viewOfPage, event}},
		{name: "incomplete form", page: fmt.Sprintf(form, classes, ""), click: "button", want: []string{viewOfPage}},
		{name: "form without classes", page: fmt.Sprintf(form, "", "x"), click: "button", want: []string{viewOfPage}},
		{
			name: "formSubmissions", click: "button", want: []string{viewOfPage, "event /page form_submission"},
			page: plausibleKeyed(`plausible.init({formSubmissions: true})`) + `<form onsubmit="return false"><button>Go</button></form>`,
		},
		{
			name: "link to another website", click: "a", want: []string{viewOfPage, `event /page outbound_click {"host":"other.test"}`},
			page: page + `<a href="http://other.test/x?secret" onclick="return false">x</a>`,
		},
	}
}
