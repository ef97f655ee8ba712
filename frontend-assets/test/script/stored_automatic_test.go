package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// extensions lists the file extensions of downloads (analytics contract, section 2).
var extensions = strings.Fields("pdf doc docx xls xlsx ppt pptx odt ods odp rtf txt csv zip rar 7z gz dmg exe msi pkg apk epub mp3 wav mp4 mov avi wmv mkv")

// clickWith clicks on an element with the mouse; options set the button and modifier keys.
func clickWith(page *browsertest.Page, selector string, options ...func(*input.DispatchMouseEventParams) *input.DispatchMouseEventParams) {
	var at struct{ X, Y float64 }
	page.Eval(`(() => { const e = document.querySelector("`+selector+
		`"); e.scrollIntoView(); const {x, y} = e.getBoundingClientRect(); return {x: x + 3, y: y + 3} })()`, &at)
	page.Do(chromedp.MouseClickXY(at.X, at.Y, options...))
}

func TestStoredAutomaticEventsChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/": tag("") + `<style>a, svg { display: block }</style>
			<script>for (const kind of ["click", "auxclick"]) addEventListener(kind, e => e.preventDefault())</script>
			<a id=plain href="http://plain.test/a?b#c">x</a>
			<a id=nested href="http://nested.test/"><b><i>in</i></b></a>
			<a id=middle href="http://middle.test/">x</a>
			<a id=control href="http://control.test/">x</a>
			<a id=shift href="http://shift.test/">x</a>
			<a id=right href="http://right.test/">x</a>
			<a id=key href="http://key.test/">x</a>
			<a id=blank href="http://blank.test/" target=_blank>x</a>
			<a id=stopped href="http://stopped.test/" onclick="event.stopImmediatePropagation(); event.preventDefault()">x</a>
			<svg width=99 height=20><a id=svg href="http://svg.test/"><text y=15>svg</text></a><a id=xlink xlink:href="http://xlink.test/"><text x=50 y=15>old</text></a></svg>
			<map name=m><area id=area href="http://area.test/" shape=default></map>
			<div id=host></div><script>host.attachShadow({mode: "open"}).innerHTML = '<a href="http://shadow.test/"><b>x</b></a>'</script>
			<a id=own href="/own">x</a> <a id=apex href="http://shop.test/">x</a> <a id=sub href="http://a.b.shop.test/">x</a>
			<a id=extra href="http://shop-extra.test/">x</a> <a id=extrasub href="http://www.shop-extra.test/">x</a>
			<a id=alike href="http://notshop.test/">x</a>
			<a id=mail href="mailto:a@b.test">x</a> <a id=fragment href="#here">x</a>
			<a id=named href="/export?id=1" download="Report 1.CSV">x</a>
			<a id=file>x</a>`,
		"/leave":  tag("") + `<a id=away href="http://other.test/landing">x</a>`,
		"/window": tag("") + `<a id=away href="http://other.test/landing" target=_blank>x</a>`, "/landing": "<title>landed</title>",
		"/long": tag("") + tall,
	})

	// The page's clock stands still, so it sends no engagement.
	page := s.open("http://www.shop.test/")
	s.stored(1)
	var want []string
	outbound := func(host string) { want = append(want, `/ outbound_click {"host":"`+host+`"}`) }

	page.Eval(`plain.click(), document.querySelector("#nested i").click(), blank.click(), stopped.click(), area.click(), alike.click(), host.shadowRoot.querySelector("b").click()`, nil)

	for _, host := range []string{"plain.test", "nested.test", "blank.test", "stopped.test", "area.test", "notshop.test", "shadow.test"} {
		outbound(host)
	}

	s.stored(7)
	clickWith(page, "#middle", chromedp.ButtonType(input.Middle))
	clickWith(page, "#control", chromedp.ButtonModifiers(input.ModifierCtrl))
	clickWith(page, "#shift", chromedp.ButtonModifiers(input.ModifierShift))

	// The right button opens a menu.
	clickWith(page, "#right", chromedp.ButtonType(input.Right))
	clickWith(page, "#svg text")
	clickWith(page, "#xlink text")
	page.Do(chromedp.Focus("#key"), browsertest.Press(kb.Enter))

	for _, host := range []string{"middle.test", "control.test", "shift.test", "svg.test", "xlink.test", "key.test"} {
		outbound(host)
	}

	s.stored(6)
	s.hasEvents(want...)

	// The script does not know the site's other domains; the server drops clicks that lead there.
	// The other links send nothing.
	page.Eval(`extra.click(), extrasub.click(), own.click(), apex.click(), sub.click(), mail.click(), fragment.click()`, nil)
	s.stored(2)
	s.hasEvents(want...)

	// Downloads: each extension of the contract, no other, and names from the download attribute.
	page.Eval(fmt.Sprintf(`%q.split(" ").concat("html", "js", "xpdf", "pdfx").forEach(ext => { file.href = "/files/A." + ext + "?private=1"; file.click() })`, strings.Join(extensions, " ")), nil)
	page.Eval(`named.click(), file.href = "http://elsewhere.test/SETUP.EXE", file.click()`, nil)

	for _, ext := range extensions {
		want = append(want, `/ file_download {"file":"A.`+ext+`","ext":"`+ext+`"}`)
	}

	want = append(want, `/ file_download {"file":"Report 1.CSV","ext":"csv"}`, `/ file_download {"file":"SETUP.EXE","ext":"exe"}`)
	outbound("elsewhere.test")

	testkit.Equal(t, len(extensions), 30, "extensions, the contract lists 30")

	s.stored(len(extensions) + 3)
	s.hasEvents(want...)

	// Clicks that leave the page or open another tab send events too.
	for _, path := range []string{"/leave", "/window"} {
		page = s.open("http://www.shop.test" + path)
		s.stored(1)
		page.Eval("later(1000)", nil)
		page.Click("#away")
		s.stored(2)
		want = append(want, path+` outbound_click {"host":"other.test"}`)
	}

	s.hasEvents(want...)

	// Scrolling to 90 percent, once for each page view.
	page = s.open("http://www.shop.test/long")
	s.stored(1)
	scroll := func(screens string) {
		page.Eval(`new Promise(done => { addEventListener("scroll", () => requestAnimationFrame(() => done()), {once: true}); scrollTo(0, innerHeight * `+screens+`) })`, nil)
	}

	scroll("7.9")
	scroll("8.1")
	scroll("2")
	scroll("9")
	s.stored(1)
	page.Eval("scrollTo(0, 0), history.pushState(0, '', '/long/two')", nil)
	s.stored(1)
	scroll("9")
	s.stored(1)
	want = append(want, `/long scroll {"percent":90}`, `/long/two scroll {"percent":90}`)
	s.hasEvents(want...)
	s.refused(map[string]int64{"own_link": 2})
}

func TestStoredSwitchesChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/off": tag(`data-auto="off" data-search`) + tall +
			`<a id=out href="http://other.test/" onclick="return false">x</a><a id=file href="/x.pdf" onclick="return false">x</a>`,
		"/plain":  tag(""),
		"/search": tag("data-search"),
	})

	// With data-auto="off" only the page view at load and the time on the page are automatic.
	page := s.open("http://www.shop.test/off?q=boots")
	s.stored(1)
	page.Eval(`out.click(), file.click(), scrollTo(0, 1e6), history.pushState(0, "", "/off/2"), new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil)
	s.answered(0)
	page.Eval(`svc("event", "outbound_click", {host: "other.test"}), svc("event", "signup")`, nil)

	if calls := s.answered(2); calls[0].status == calls[1].status {
		t.Errorf("an automatic event and a registered one are answered alike: %d and %d", calls[0].status, calls[1].status)
	}

	page.Eval(`later(1000), svc("pageview")`, nil)
	s.stored(2)
	page.Eval("later(2000)", nil)
	page.Close()
	s.stored(1)
	s.hasViews("/off 1000ms 100%", "/off/2 2000ms 100% manual")
	s.hasEvents("/off signup")

	// Site search, only with data-search.
	want := []string{"/off signup"}
	for query, term := range map[string]string{
		"q=red+boots": "red boots", "s=%C3%A4": "ä", "search=a&x=private": "a", "query=+trimmed+": "trimmed", "keyword=k": "k",
		"q=" + letters(150): letters(100), "q=" + letters(99) + "😀z": letters(99) + "😀", "term=x&Q=y": "", "q=": "",
	} {
		page := s.open("http://www.shop.test/search?" + query)

		if term == "" {
			s.stored(1)
		} else {
			want = append(want, `/search site_search {"term":"`+term+`"}`)
			s.stored(2)
		}

		page.Close()
	}

	s.open("http://www.shop.test/plain?q=boots")
	s.stored(1)
	s.hasEvents(want...)

	// Visitors who have opted out are not measured.
	views := len(s.Views(s.site))

	for _, signal := range []string{
		`Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`,
		`Object.defineProperty(navigator, "globalPrivacyControl", {get: () => true})`,
	} {
		page := s.browser.NewPage()
		page.Before(signal)
		page.Goto("http://www.shop.test/search?q=boots")
		page.Eval(`svc("event", "signup"), svc("pageview"), history.pushState(0, "", "/other")`, nil)
		page.Goto("about:blank")

		for _, r := range page.Requests() {
			if strings.Contains(r.URL, "collect.php") {
				t.Errorf("with %s the page sent %s %s", signal, r.Method, r.URL)
			}
		}

		page.Close()
	}

	if got := len(s.Views(s.site)); got != views {
		t.Errorf("%d page views more", got-views)
	}

	s.refused(map[string]int64{"unknown_event": 1})
}
