package faces_test

import (
	"fmt"
	"testing"
	"time"
)

// goatcounter returns GoatCounter's tag with further attributes.
func goatcounter(attributes string) string {
	return fmt.Sprintf(`<script data-goatcounter="%s/count" async src="%[1]s/count.js" %s></script>`, keyFolder, attributes)
}

func TestGoatCounterChromium(t *testing.T) {
	s := newShop(t)
	settings := func(text string) string { return goatcounter(`data-goatcounter-settings='` + text + `'`) }
	framed := func(attributes string) string {
		return `<script>if (top === self) document.write("<iframe src=/frame></iframe>")</script>` + goatcounter(attributes)
	}

	s.run(t, "/"+siteKey+"/count", []row{
		{name: "tag", page: goatcounter(""), want: []string{viewOfPage}},
		{name: "no address", page: fmt.Sprintf(`<script async src="%s/count.js"></script>`, keyFolder), want: []string{viewOfPage}},
		{
			name: "own proxy", want: []string{viewOfPage},
			page: fmt.Sprintf(`<script data-goatcounter="/proxy/%s/count" src="/proxy/count.js"></script>`, siteKey),
		},
		{name: "second copy", page: goatcounter("") + goatcounter(""), want: []string{viewOfPage}},
		{name: "routes", page: goatcounter(""), do: `history.pushState(0, "", "/next?secret")`, want: []string{viewOfPage, "view /next"}},
		{
			name: "Do Not Track", page: goatcounter(""),
			before: `Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`, do: `goatcounter.count()`,
		},

		{
			name: "no_onload", page: settings(`{"no_onload": true}`), do: `history.pushState(0, "", "/next"), goatcounter.count()`,
			want: []string{"view /next manual"},
		},
		{name: "no_onload of the page", page: `<script>window.goatcounter = {no_onload: true}</script>` + goatcounter("")},
		{name: "path", page: settings(`{"path": "/named?secret"}`), want: []string{"view /named"}},
		{
			name: "path by a function", page: goatcounter(""), before: `window.goatcounter = {path: (path) => path + "/in"}`,
			do: `history.pushState(0, "", "/next"), goatcounter.count({path: "/x"})`, want: []string{"view /page/in", "view /next/in", "view /x manual"},
		},
		{
			name: "referrer by a function", page: goatcounter(""), before: `window.goatcounter = {referrer: (from) => seen = from + "x"}`,
			do: `seen === "x" || Promise.reject(seen)`, want: []string{viewOfPage},
		},
		{name: "path that is null", page: goatcounter(""), before: `window.goatcounter = {path: () => null}`, do: `goatcounter.count()`},
		{
			name: "settings that are no JSON", page: settings(`{path}`), do: `goatcounter.count({path: "/in"})`,
			want: []string{viewOfPage, "view /in manual"},
		},
		{
			name: "frame", page: framed(""), want: []string{viewOfPage},
			do: `new Promise((done) => { const check = () => frames[0].goatcounter?.filter ? done() : setTimeout(check, 5); check() })`,
		},
		{
			name: "allow_frame", page: framed(`data-goatcounter-settings='{"allow_frame": true}'`), want: []string{viewOfPage, "view /frame"},
			do: `new Promise((done) => { const check = () => frames[0].sent ? done() : setTimeout(check, 5); check() })`,
		},

		{
			name: "count()", page: goatcounter(""), pause: 1500 * time.Millisecond, do: `goatcounter.count()`,
			want: []string{viewOfPage, "view /page manual"},
		},
		{
			name: "count(path)", page: goatcounter(""), do: `goatcounter.count({path: "/in?secret", title: "Secret"})`,
			want: []string{viewOfPage, "view /in manual"},
		},
		{
			name: "count(event)", page: goatcounter(""), do: `goatcounter.count({path: "Signup Button!", event: true})`,
			want: []string{viewOfPage, "event /page signup_button"},
		},
		{
			name: "name with a point", page: goatcounter(""), do: `goatcounter.count({path: "ext-example.com", event: true})`,
			want: []string{viewOfPage, "event /page ext-example_com"},
		},
		{
			name: "other functions", page: goatcounter(""), want: []string{viewOfPage},
			do: `goatcounter.filter() === false && goatcounter.get_data().p === "/page" && /\/count\?p=%2Fpage$/.test(goatcounter.url())
				&& goatcounter.get_query("secret") > 0 && goatcounter.visit_count({append: "body"}) === undefined || Promise.reject()`,
		},

		{
			name: "data-goatcounter-click", page: goatcounter("") + `<button data-goatcounter-click=signup>Go</button>`,
			do: `goatcounter.bind_events(), goatcounter.bind_events()`, click: "button", want: []string{viewOfPage, "event /page signup"},
		},
		{
			name: "name of an element", page: goatcounter("") + `<button data-goatcounter-click name=signup>Go</button>`,
			click: "button", want: []string{viewOfPage, "event /page signup"},
		},
		{
			name: "id of an element", page: goatcounter("") + `<button data-goatcounter-click id=legacy>Go</button>`,
			click: "button", want: []string{viewOfPage, "event /page legacy"},
		},
		{
			name: "no_events", page: settings(`{"no_events": true}`) + `<button data-goatcounter-click=signup>Go</button>`,
			click: "button", want: []string{viewOfPage},
		},
		{name: "canonical", page: `<link rel=canonical href="//shop.test/real?secret">` + goatcounter(""), want: []string{"view /real"}},
		{name: "canonical of another host", page: `<link rel=canonical href="//other.test/real">` + goatcounter(""), want: []string{viewOfPage}},
	})
}
