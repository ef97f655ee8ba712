package faces_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// umami returns Umami's tag with further attributes.
func umami(attributes string) string {
	return fmt.Sprintf(`<script defer src="%s/script.js" data-website-id="%s" %s></script>`, dataOrigin, uuid, attributes)
}

const viewOfPage = "view /page"

func TestUmamiChromium(t *testing.T) {
	s := newShop(t)

	const button = `<button data-umami-event="Signup Button!" data-umami-event-plan=pro data-umami-event-user-type="new"><b>Go</b></button>`
	s.run(t, "/api/send", []row{
		{name: "tag", page: umami(""), want: []string{viewOfPage}},
		{
			name: "other name of the script",
			page: fmt.Sprintf(`<script src="%s/umami.js" data-website-id="%s"></script>`, dataOrigin, siteKey),
			want: []string{viewOfPage},
		},
		{
			name: "key in the address, old id", path: "/" + siteKey + "/api/send",
			page: fmt.Sprintf(`<script defer src="%s/script.js" data-website-id="%s"></script>`, keyFolder, oldID), want: []string{viewOfPage},
		},
		{
			name: "own proxy", path: "/" + siteKey + "/api/send",
			page: fmt.Sprintf(
				`<script defer src="/proxy/%s/script.js?v=/2" data-website-id="%s"></script>`, siteKey, oldID,
			), want: []string{viewOfPage},
		},
		{name: "no tag with an id", page: `<script src="` + dataOrigin + `/script.js"></script>`},

		{name: "data-auto-track", page: umami("data-auto-track=false") + button, do: `history.pushState(0, "", "/next")`, click: "b"},
		{
			name: "data-auto-track, calls", page: umami("data-auto-track=false"),
			do:   `umami.track("signup"), history.pushState(0, "", "/next?secret"), umami.track(), umami.track("signup")`,
			want: []string{"event /page signup", "view /next manual", "event /next signup"},
		},
		{name: "data-domains", page: umami(`data-domains="shop.test, www.shop.test"`), want: []string{viewOfPage}},
		{name: "data-domains, other", page: umami(`data-domains="shop.test"`), do: `umami.track("signup")`},
		{name: "data-host-url", page: umami(`data-host-url="` + keyFolder + `/"`), path: "/" + siteKey + "/api/send", want: []string{viewOfPage}},
		{
			name: "data-before-send", page: umami(`data-before-send=edit`),
			before: `window.edit = (type, payload) => {
				window.seen = [type, ...Object.keys(payload)].join();
				if (payload.name === "drop") return null;
				if (payload.name) return {...payload, name: "Signup Button!", data: {n: 1}, url: "/in?secret"};
				return Promise.resolve({...payload, url: payload.url + "/edited?secret#secret"});
			}`,
			do:   `umami.track("drop"), umami.track("x", {secret: 1}), seen === "event,website,hostname,language,screen,title,url,referrer,name,data" || Promise.reject(seen)`,
			want: []string{"view /page/edited", `event /in signup_button {"n":1}`},
		},
		{
			name: "data-before-send that drops the first view", page: umami(`data-before-send=edit`),
			before: `window.edit = (type, payload) => payload.url === "/page" ? false : payload`,
			do:     `history.pushState(0, "", "/next")`, want: []string{"view /next"},
		},
		{
			name: "data-before-send that throws", page: umami(`data-before-send=edit`),
			before: `window.edit = () => { throw 1 }`, do: `umami.track("signup")`,
		},
		{name: "data-before-send that is no function", page: umami(`data-before-send=edit`), want: []string{viewOfPage}},
		{
			name: "ignored attributes", want: []string{viewOfPage},
			page: umami(`data-tag=b data-performance=true data-fetch-credentials=include data-cache=true data-exclude-search=false data-exclude-hash=false data-do-not-track=false`),
		},
		{
			name: "our attributes", page: umami(`data-auto=off`),
			do:   `history.pushState(0, "", "/next"), svc("event", "signup")`,
			want: []string{viewOfPage, "event /page signup"},
		},

		{name: "track()", page: umami(""), pause: 1500 * time.Millisecond, do: `umami.track()`, want: []string{viewOfPage, "view /page manual"}},
		{name: "track() that repeats the automatic view", page: umami(""), do: `later(500), umami.track()`, want: []string{viewOfPage}},
		{name: "track(name)", page: umami(""), do: `umami.track("Signup Button!")`, want: []string{viewOfPage, "event /page signup_button"}},
		{
			name: "track(name, data)", page: umami(""), do: `umami.track("signup", {plan: "pro", seats: 2, list: [1]})`,
			want: []string{viewOfPage, `event /page signup {"plan":"pro","seats":2,"list":[1]}`},
		},
		{
			name: "track(object) of an event", page: umami(""),
			do:   `umami.track({website: "x", url: "/in?secret", name: "signup", data: {a: 1}})`,
			want: []string{viewOfPage, `event /in signup {"a":1}`},
		},
		{
			name: "track(object) of a view", page: umami(""),
			do:   `umami.track({url: "http://www.shop.test/in?secret#secret", title: "Secret"}), umami.track("signup")`,
			want: []string{viewOfPage, "view /in manual", "event /in signup"},
		},
		{
			name: "track(function)", page: umami(""),
			do:   `umami.track((payload) => ({...payload, url: payload.url + "/in", name: "signup"}))`,
			want: []string{viewOfPage, "event /page/in signup"},
		},
		{name: "track(function) that drops", page: umami(""), do: `umami.track(() => null)`, want: []string{viewOfPage}},
		{name: "track(function) that throws", page: umami(""), do: `umami.track(() => { throw 1 })`, want: []string{viewOfPage}},
		{
			name: "track() returns a promise", page: umami(""),
			do:   `umami.track("signup").then(() => umami.track("legacy"))`,
			want: []string{viewOfPage, "event /page signup", "event /page legacy"},
		},
		{
			name: "names", page: umami(""),
			do:   `umami.track("!!"), umami.track("scroll"), umami.track("Purchase", {value: 1}), umami.track("not registered")`,
			want: []string{viewOfPage, `event /page own_scroll`, `event /page own_purchase {"value":1}`, "status 400 not_registered"},
		},
		{
			name: "purchase", page: umami(""),
			do:   `umami.track("purchase", {transaction_id: "t1", value: 9.5, currency: "EUR"})`,
			want: []string{viewOfPage, "event /page purchase"},
		},
		{name: "getSession", page: umami(""), do: `umami.getSession().website === "` + uuid + `" || Promise.reject()`, want: []string{viewOfPage}},

		{
			name: "click", page: umami("") + button, click: "b",
			want: []string{viewOfPage, `event /page signup_button {"plan":"pro","user-type":"new"}`},
		},
		{
			name: "click on a link that leads away", page: umami("") + `<a data-umami-event=signup href="/next?secret">x</a>`, click: "a",
			want: []string{viewOfPage, "event /page signup", "view /next"},
			do:   `document.querySelector("a").addEventListener("click", (e) => { e.preventDefault(); history.pushState(0, "", "/next") })`,
		},

		{
			name: "routes", page: umami(""),
			do:   `history.pushState(0, "", "/a?secret"), history.replaceState(0, "", "/a?other"), location.hash = "x"`,
			want: []string{viewOfPage, "view /a"},
		},
		{
			name: "a named path is no change of the route", page: umami(""),
			do:   `umami.track({url: "/named"}), history.replaceState({}, "")`,
			want: []string{viewOfPage, "view /named manual"},
		},
		{
			name: "calls of svc", page: umami(""),
			before: `(window.svc = function () { (svc.q = svc.q || []).push(arguments) })("event", "signup")`,
			pause:  2 * time.Second, do: `svc("event", "legacy", {a: 1}), svc("pageview")`,
			want: []string{viewOfPage, "event /page signup", `event /page legacy {"a":1}`, "view /page manual"},
		},
		{
			name: "identify", page: umami("data-auto-track=false"),
			do: `umami.identify("password", {name: "Secret"}), umami.track().then(() => umami.identify("` + passwordHash +
				`")), umami.identify({plan: "secret"}), umami.identify("x")`,
			want: []string{"view /page manual"},
		},

		{name: "second copy", page: umami("") + umami(""), want: []string{viewOfPage}},
		{name: "svc.js as well", page: umami("") + svcTag, want: []string{viewOfPage}},
		{
			name: "svc.js first", page: svcTag + umami(""), do: `umami.track("signup"), umami.track().then(() => 0)`,
			path: "/collect.php", want: []string{viewOfPage},
		},
		{
			name: "Do Not Track", page: umami("") + button,
			before: `Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`,
			do:     `umami.track("signup").then(() => umami.identify("x"))`, click: "b",
		},
		{name: "Global Privacy Control", page: umami(""), before: `Object.defineProperty(navigator, "globalPrivacyControl", {get: () => true})`},
	})
}

// svcTag is the browser script's own tag.
const svcTag = `<script defer src="` + dataOrigin + `/svc.js" data-site="` + siteKey + `"></script>`

// passwordHash is the SHA-256 of "password".
const passwordHash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"

// TestUmamiIdentifyChromium checks that events after identify carry the id's SHA-256, and never the
// id.
func TestUmamiIdentifyChromium(t *testing.T) {
	got := newShop(t).userIDs(
		umami(""),
		`umami.identify("password"), umami.track("signup"), umami.identify("`+passwordHash+`"), umami.track("legacy")`,
	)

	want := map[string]any{"": nil, "signup": passwordHash, "legacy": passwordHash}
	testkit.EqualMaps(t, got, want, "user ids")
}
