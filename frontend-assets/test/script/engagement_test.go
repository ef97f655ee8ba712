package script_test

import (
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// engagement returns the two values of an engagement message.
func engagement(h hit) (ms, sc float64) {
	ms, _ = h.body["ms"].(float64)
	sc, _ = h.body["sc"].(float64)
	return ms, sc
}

func TestChromiumEngagementIsSentOncePerSpan(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("") + `<body style="margin: 0; height: 10000px">`, "/next": "next"})
	page := w.open("http://shop.example.test/")
	view := w.next()
	check := func(want float64) {
		t.Helper()
		h := w.nextOf("engagement")[0]
		if ms, _ := engagement(h); ms != want {
			t.Errorf("%v ms in view, want those since the last message: %v", ms, want)
		}
		if h.body["i"] != view.body["i"] || h.body["p"] != "/" {
			t.Errorf("%s does not belong to %s", h, view)
		}
	}

	page.Eval("later(50000)", nil)

	// Opening another tab hides the page.
	elsewhere := w.browser.NewPage()
	check(50000)

	// Time in the background does not count, and ends without a message.
	page.Eval("later(3600000), dispatchEvent(new Event('pagehide')), dispatchEvent(new Event('pageshow'))", nil)
	page.Front()
	page.WaitFor("!document.hidden")
	w.nothingBeyond(page, 2)

	page.Eval("later(20000)", nil)
	elsewhere.Front()
	check(20000)
	page.Front()
	page.WaitFor("!document.hidden")

	// Leaving fires pagehide and visibilitychange, which together cause one message.
	page.Eval("later(30000)", nil)
	page.Goto("http://shop.example.test/next")
	check(30000)
	page.Close()
	elsewhere.Close()

	select {
	case h := <-w.arrived:
		t.Errorf("unexpected message: %s", h)
	default:
	}
}

func TestChromiumPageThatIsNeverSeen(t *testing.T) {
	w := newWorld(t, map[string]string{
		"/":       `<a href="/behind" target="_blank" onclick="">x</a>`,
		"/behind": tag("") + `<script>fetch("/report?" + document.visibilityState)</script>`,
	})
	w.browser.NewPage()
	front := w.browser.Open("http://shop.example.test/")
	hidden := w.browser.NewPage()
	front.Front()
	hidden.WaitFor("document.hidden")
	hidden.Goto("http://shop.example.test/behind")

	testkit.Require(t, <-w.reports, "hidden", "the page")

	// Loading is a page view (analytics contract, section 4).
	w.nextOf("pageview")
	hidden.Goto("about:blank")
	front.Goto("http://shop.example.test/behind")
	w.nextOf("pageview")
	front.Goto("about:blank")
	w.nextOf("engagement")
	w.nothingBeyond(hidden, 1)
}

func TestChromiumScrollDepth(t *testing.T) {
	page := func(height string) string {
		return tag("") + `<body style="margin: 0"><div id="content" style="height: ` + height + `"></div>`
	}

	w := newWorld(t, map[string]string{"/": page("1000vh"), "/short": page("10px"), "/growing": page("200vh"),
		"/quirks": `<style>html, body { height: 100% }</style>` + page("400vh")})

	scroll := func(to string) string {
		return `new Promise(done => { addEventListener("scroll", () => requestAnimationFrame(() => done()), {once: true}); scrollTo(0, innerHeight * ` + to + `) })`
	}
	for _, test := range []struct {
		name, path string
		steps      []string
		events     int
		want       float64
	}{
		{"first screen of ten", "/", nil, 0, 10},
		{"half", "/", []string{scroll("4")}, 0, 50},
		{"the deepest point counts", "/", []string{scroll("6"), scroll("1")}, 0, 70},
		{"the end", "/", []string{scroll("9")}, 1, 100},
		{"90 percent is an event, once", "/", []string{scroll("8"), scroll("1"), scroll("9")}, 1, 100},
		{"below 90 percent is none", "/", []string{scroll("7.9")}, 0, 89},
		{"89.6 percent is none either", "/", []string{scroll("7.96")}, 0, 90},
		{"shorter than the window", "/short", nil, 0, 100},
		{"a page that grows has been seen to a lesser part", "/growing", []string{scroll("0.5"), `content.style.height = "600vh"`}, 0, 25},
		{"full-height body", "/quirks", []string{scroll("1")}, 0, 50},
		{
			name: "boxes within the page do not count", path: "/",
			steps:  []string{`new Promise(done => { content.innerHTML = '<div id=box style="height: 50px; overflow: auto"><p style="height: 999px">'; box.onscroll = () => done(); box.scrollTo(0, 900) })`},
			events: 0, want: 10,
		},
	} {
		page := w.open("http://shop.example.test" + test.path)
		w.nextOf("pageview")

		for _, step := range test.steps {
			page.Eval(step, nil)
		}

		for range test.events {
			w.expect(page, w.nextOf("scroll")[0], `{"t": "event", "e": "scroll", "m": {"percent": 90}, "p": "`+test.path+`", "r": null}`)
		}

		w.nothingBeyond(page, 1+test.events)
		page.Eval("later(1)", nil)
		page.Goto("about:blank")

		if _, sc := engagement(w.nextOf("engagement")[0]); sc != test.want {
			t.Errorf("%s: %v percent, want %v", test.name, sc, test.want)
		}

		page.Close()
	}

	// A new route starts at its own top, and can have its own event.
	p := w.open("http://shop.example.test/")
	w.nextOf("pageview")
	p.Eval(scroll("9"), nil)
	w.nextOf("scroll")
	p.Eval("later(100), history.pushState(0, '', '/route'), content.style.height = '500vh', scrollTo(0, 0)", nil)

	if _, sc := engagement(w.nextOf("pageview", "engagement")[1]); sc != 100 {
		t.Errorf("old route: %v percent, want 100", sc)
	}

	p.Eval(scroll("0.5"), nil)
	p.Eval("later(100), history.pushState(0, '', '/last')", nil)

	if _, sc := engagement(w.nextOf("pageview", "engagement")[1]); sc != 30 {
		t.Errorf("new route: %v percent, want 30", sc)
	}

	p.Eval(scroll("4"), nil)
	w.nextOf("scroll")
}
