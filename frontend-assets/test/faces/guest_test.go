package faces_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// face is a face on a page.
type face struct {
	name    string
	tag     string
	before  string // script before the tag's
	event   string // expression that sends the event signup
	awaited string // expression of a promise that the face resolves, with another event
	globals string // variables that the face adds
	views   int    // page views that it sends by itself after the back/forward cache
}

// faces lists all faces. None needs an inline script of the page.
func faces() []face {
	return []face{
		{
			name: "Umami", tag: umami(""), event: `umami.track("signup")`, awaited: `umami.track("legacy")`,
			globals: "svc umami", views: 1,
		},
		{
			name: "Plausible", tag: plausible("script.js", ""), event: `plausible("signup")`,
			awaited: `new Promise((done) => plausible("legacy", {callback: done}))`, globals: "plausible svc", views: 1,
		},
		{
			name: "GoatCounter", tag: goatcounter(""), event: `goatcounter.count({path: "signup", event: true})`,
			// It has no callbacks.
			awaited: `Promise.resolve(goatcounter.count({path: "legacy", event: true}))`, globals: "goatcounter svc", views: 1,
		},
		{
			name: "Matomo", tag: fmt.Sprintf(`<script async src="%s/matomo.js"></script>`, keyFolder),
			before: `window._paq = [["trackPageView"]];`, event: pushes(`["trackEvent", "signup"]`),
			awaited: `new Promise((done) => ` + pushes(`["trackEvent", "legacy"], [done]`) + `)`, globals: "Matomo Piwik svc",
		},
	}
}

// hasRows compares the rows of the messages that the test has not read.
func (s *shop) hasRows(want ...string) {
	s.t.Helper()
	got, messages := s.stored()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("stored\n  %s\nwant\n  %s\nafter %v", strings.Join(got, "\n  "), strings.Join(want, "\n  "), messages)
	}
}

// TestGoodGuestChromium opens each face under a strict Content-Security-Policy. It must send, log
// nothing, and leave the browser's functions and the page's variables as they are.
func TestGoodGuestChromium(t *testing.T) {
	s := newShop(t)
	s.headers.Set("Content-Security-Policy",
		fmt.Sprintf("default-src 'none'; img-src data:; frame-src 'self'; script-src %s; connect-src %[1]s", dataOrigin))

	keep := `window.own = [history.pushState, history.replaceState, fetch, XMLHttpRequest.prototype.send, addEventListener];`
	same := `JSON.stringify(own.map((each, i) => each === [history.pushState, history.replaceState, fetch, XMLHttpRequest.prototype.send, addEventListener][i]))`
	// A frame without an address has the variables of an empty page, where the script before the
	// page's own has run.
	globals := `(() => {
		const empty = document.body.appendChild(document.createElement("iframe")).contentWindow;
		return Object.getOwnPropertyNames(window).filter((name) => !(name in empty) && name !== "0").sort().join(" ");
	})()`

	for _, face := range faces() {
		t.Run(face.name, func(t *testing.T) {
			s.t = t
			page := s.open(face.tag, face.before+keep)
			page.Eval(face.event, nil)
			s.hasRows(viewOfPage, "event /page signup")

			testkit.Equal(t, page.Text(same), "[true,true,true,true,true]", "functions of the browser that are the same")
			testkit.Equal(t, page.Text(globals), face.globals, "variables")
			if console := page.Console(); len(console) > 0 {
				t.Errorf("console %v", console)
			}
		})
	}
}

// TestBackForwardCacheChromium leaves a page with each face and returns to it.
func TestBackForwardCacheChromium(t *testing.T) {
	s := newShop(t)
	for _, face := range faces() {
		t.Run(face.name, func(t *testing.T) {
			s.t = t
			page := s.open(face.tag, face.before+`addEventListener("pageshow", (shown) => { window.restored = shown.persisted });`)
			s.hasRows(viewOfPage)

			page.Eval(`sent = 0, location.href = "/away?secret"`, nil)
			page.WaitFor(`location.pathname === "/away" && document.readyState === "complete"`)
			s.hasRows("view /away")

			page.Eval(`history.back()`, nil)
			page.WaitFor(`location.pathname === "/page" && window.restored`)
			page.Eval(face.event, nil)
			s.hasRows(append(slices.Repeat([]string{viewOfPage}, face.views), "event /page signup")...)
		})
	}
}

// TestUnreachableChromium checks that callbacks run and nothing is thrown when the data plane cannot
// be reached, with each way of sending.
func TestUnreachableChromium(t *testing.T) {
	s := newShop(t)
	// The script comes from the website's own proxy. The browser finds no such host.
	down := "http://down.example.test/" + siteKey
	tags := map[string]string{
		"Umami":       fmt.Sprintf(`<script src="/proxy/script.js" data-website-id="%s" data-host-url="%s"></script>`, siteKey, down),
		"Plausible":   fmt.Sprintf(`<script src="/proxy/js/script.js" data-domain=shop.test data-api="%s/api/event"></script>`, down),
		"GoatCounter": fmt.Sprintf(`<script src="/proxy/count.js" data-goatcounter="%s/count"></script>`, down),
		"Matomo":      `<script src="/proxy/matomo.js"></script>`,
	}

	for _, face := range faces() {
		for name, sender := range map[string]string{
			"beacon":     "",
			"fetch":      `delete Navigator.prototype.sendBeacon, navigator.sendBeacon = undefined;`,
			"no sending": `navigator.sendBeacon = window.fetch = XMLHttpRequest.prototype.send = () => { throw new Error("no") };`,
		} {
			t.Run(face.name+"/"+name, func(t *testing.T) {
				s.t = t
				before := strings.ReplaceAll(face.before, "[[", fmt.Sprintf(`[["setTrackerUrl", "%s/matomo.php"], [`, down))
				page := s.open(tags[face.name], before+sender)
				page.Eval(face.awaited, nil)

				if slices.ContainsFunc(page.Console(), func(line browsertest.Message) bool { return line.Level == "exception" }) {
					t.Errorf("console %v", page.Console())
				}
			})
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) > 0 {
		t.Errorf("the data plane was reached: %v", s.calls)
	}
}

// TestSecondFaceChromium puts each face behind another one on a page: the first one counts. The
// functions of the second one do nothing, but run the page's callbacks.
func TestSecondFaceChromium(t *testing.T) {
	s := newShop(t)
	all := faces()
	for i, second := range all {
		first := all[(i+1)%len(all)]
		t.Run(second.name+" behind "+first.name, func(t *testing.T) {
			s.t = t
			tags := strings.NewReplacer("async", "defer").Replace(first.tag + second.tag)
			page := s.open(tags, first.before+second.before)
			page.Eval(second.event, nil)
			page.Eval(second.awaited, nil)
			page.Eval(first.event, nil)
			s.hasRows(viewOfPage, "event /page signup")
		})
	}
}
