package script_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestChromiumLinks(t *testing.T) {
	const content = `<style>a, svg { display: block }</style>
		<script>addEventListener("click", e => e.preventDefault()); addEventListener("auxclick", e => e.preventDefault())</script>
		<a id=out href="http://other.example/page?private=1#x">out</a>
		<a id=port href="https://other.example:8443/">port</a>
		<a id=nested href="http://other.example/"><b><i>in</i></b></a>
		<a id=stopped href="http://other.example/" onclick="event.stopImmediatePropagation(); event.preventDefault()">stopped</a>
		<a id=blank href="http://other.example/" target=_blank>blank</a>
		<map name=m><area id=area href="http://other.example/" shape=default></map>
		<img usemap="#m" width=20 height=20 src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>">
		<svg width=99 height=20><a id=svg href="http://other.example/svg"><text y=15>svg</text></a></svg>
		<div id=host></div><script>host.attachShadow({mode: "open"}).innerHTML = '<a href="http://other.example/shadow"><b>shadow</b></a>'</script>
		<a id=own href="/next">own</a>
		<a id=www href="http://www.shop.example.test/">own www</a>
		<a id=sub href="http://deep.sub.shop.example.test/">own subdomain</a>
		<a id=alike href="http://notshop.example.test/">only alike</a>
		<a id=fragment href="#here">fragment</a>
		<a id=mail href="mailto:someone@example.org">mail</a>
		<a id=script href="javascript:void 0">script</a>
		<a id=noref>no address</a>
		<a id=bad href="http://[">unreadable</a>
		<a id=file href="/files/Price%20list.PDF?private=1#page=2">file</a>
		<a id=both href="http://other.example/a.tar.gz">file elsewhere</a>
		<a id=named href="/export?id=1" download="report.csv">named</a>
		<a id=blob download="table.xlsx">blob</a><script>blob.href = URL.createObjectURL(new Blob(["x"]))</script>
		<a id=page href="/page.html">page</a>
		<a id=folder href="/a.pdf/">folder</a>`

	w := newWorld(t, map[string]string{"/": tag("") + content, "/off": tag(`data-auto="off"`) + content})
	page := w.open("http://www.shop.example.test/")
	w.nextOf("pageview")

	outbound := func(host string) string { return `{"e": "outbound_click", "m": {"host": "` + host + `"}}` }
	download := func(file, ext string) string {
		return `{"e": "file_download", "m": {"file": "` + file + `", "ext": "` + ext + `"}}`
	}

	const leaves = `{"t": "engagement"}`
	click := func(selector string) string { return `document.querySelector("` + selector + `").click()` }

	mouse := func(selector, options string) string {
		return `document.querySelector("` + selector + `").dispatchEvent(new MouseEvent(` + options + `))`
	}
	for _, test := range []struct {
		script string
		want   []string
	}{
		{click("#out"), []string{leaves, outbound("other.example")}},
		{click("#port"), []string{leaves, outbound("other.example")}},
		{click("#nested i"), []string{leaves, outbound("other.example")}},
		{click("#stopped"), []string{leaves, outbound("other.example")}},
		{click("#blank"), []string{leaves, outbound("other.example")}},
		{click("#area"), []string{leaves, outbound("other.example")}},
		{mouse("#svg text", `"click", {bubbles: true, cancelable: true, composed: true}`), []string{leaves, outbound("other.example")}},
		{`host.shadowRoot.querySelector("b").click()`, []string{leaves, outbound("other.example")}},
		{mouse("#out", `"click", {bubbles: true, cancelable: true, ctrlKey: true}`), []string{leaves, outbound("other.example")}},
		{mouse("#out", `"auxclick", {bubbles: true, cancelable: true, button: 1}`), []string{leaves, outbound("other.example")}},
		{mouse("#out", `"auxclick", {bubbles: true, cancelable: true, button: 2}`), nil},
		{click("#own"), []string{leaves}},
		{click("#www"), nil}, // the current page
		{click("#sub"), []string{leaves}},
		{click("#alike"), []string{leaves, outbound("notshop.example.test")}},
		{click("#fragment"), nil},
		{click("#mail"), nil},
		{click("#script"), nil},
		{click("#noref"), nil},
		{click("#bad"), nil},
		{`document.body.click()`, nil},
		{click("#file"), []string{leaves, download("Price%20list.PDF", "pdf")}},
		{click("#both"), []string{leaves, outbound("other.example"), download("a.tar.gz", "gz")}},
		{click("#named"), []string{leaves, download("report.csv", "csv")}},
		{click("#blob"), []string{download("table.xlsx", "xlsx")}},
		{click("#page"), []string{leaves}},
		{click("#folder"), []string{leaves}},
	} {
		// More than a second after the last click, so that each click has engagement to send.
		page.Eval("later(2000)", nil)
		before := len(page.Requests())
		page.Eval("(()=>{ "+test.script+" })()", nil)

		testkit.Equal(t, len(page.Requests())-before, len(test.want), "%s: messages", test.script)

		for range min(len(test.want), len(page.Requests())-before) {
			h := w.next()
			if !includedIn(h, test.want) {
				t.Errorf("%s: received %s, want %v", test.script, h, test.want)
			}
			if strings.Contains(h.raw, "private") {
				t.Errorf("%s: the message contains part of a query string: %s", test.script, h)
			}
		}

		if t.Failed() {
			return
		}
	}

	page.Close()

	// A real key press on a link.
	page = w.open("http://shop.example.test/")
	w.nextOf("pageview")
	page.Eval("later(1)", nil)
	page.Do(chromedp.Focus("#out"), browsertest.Press(kb.Enter))
	w.nextOf("engagement", "outbound_click")

	// A real click with the middle button.
	page.Eval("later(2000), scrollTo(0, 0)", nil)
	var at struct{ X, Y float64 }
	page.Eval(`(() => { const {x, y} = document.querySelector("#out").getBoundingClientRect(); return {x: x + 3, y: y + 3} })()`, &at)
	page.Do(chromedp.MouseClickXY(at.X, at.Y, func(p *input.DispatchMouseEventParams) *input.DispatchMouseEventParams {
		return p.WithButton(input.Middle)
	}))

	w.nextOf("engagement", "outbound_click")
	page.Close()

	// With data-auto="off" only engagement is measured.
	page = w.open("http://shop.example.test/off")
	w.nextOf("pageview")
	page.Eval("later(1), out.click(), later(2000), file.click()", nil)

	for range 2 {
		w.expect(page, withoutTime(w.nextOf("engagement")[0]), `{"t": "engagement", "p": "/off", "r": null, "a": "off"}`)
	}

	w.nothingBeyond(page, 3)
}

// includedIn reports whether a message has all fields of one of the wanted JSON objects.
func includedIn(h hit, want []string) bool {
	for _, one := range want {
		var object map[string]any
		if json.Unmarshal([]byte(one), &object) != nil {
			panic(one)
		}

		same := true
		for key, value := range object {
			same = same && fmt.Sprint(h.body[key]) == fmt.Sprint(value)
		}

		if same {
			return true
		}
	}

	return false
}

// withoutTime removes the fields that differ from run to run.
func withoutTime(h hit) hit {
	delete(h.body, "ms")
	delete(h.body, "sc")
	return h
}

func TestChromiumSiteSearch(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("data-search"), "/plain": tag(""), "/off": tag(`data-search data-auto="off"`)})
	for query, want := range map[string]string{
		"q=red+boots":               "red boots",
		"s=x":                       "x",
		"search=%C3%A4":             "ä",
		"query=+trimmed+":           "trimmed",
		"keyword=k":                 "k",
		"q=&s=+&search=second":      "second",
		"q=" + letters(150):         letters(100),
		"Q=other&term=x&private=me": "",
		"":                          "",
	} {
		page := w.browser.Open("http://shop.example.test/?" + query)

		if want == "" {
			w.nextOf("pageview")
			w.nothingBeyond(page, 1)
		} else {
			term, _ := json.Marshal(want)
			w.expect(page, w.nextOf("pageview", "site_search")[1], `{"t": "event", "e": "site_search", "m": {"term": `+string(term)+`}, "p": "/", "r": null}`)
			w.nothingBeyond(page, 2)
		}

		page.Goto("about:blank")
		w.nextOf("engagement")
		page.Close()
	}

	for _, path := range []string{"/plain", "/off"} {
		page := w.browser.Open("http://shop.example.test" + path + "?q=boots")
		w.nextOf("pageview")
		w.nothingBeyond(page, 1)
		page.Goto("about:blank")
		w.nextOf("engagement")
	}

	// The term is sent once per page view, also after a change of route.
	page := w.open("http://shop.example.test/?q=one")
	w.nextOf("pageview", "site_search")
	page.Eval("later(1), history.replaceState(0, '', '/?q=two'), history.pushState(0, '', '/results?q=three')", nil)

	if h := w.nextOf("engagement", "pageview", "site_search")[2]; !strings.Contains(h.raw, `"three"`) {
		t.Errorf("received %s, want the term three", h)
	}

	w.nothingBeyond(page, 5)
}

// letters returns a text of n characters.
func letters(n int) string { return strings.Repeat("y", n) }
