package foreign_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics/foreign"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

const siteKey = "2ee2986960484f0fa1e2d3c4b5a69788"

// uuid is the site key in the form of a UUID.
const uuid = "2ee29869-6048-4f0f-a1e2-d3c4b5a69788"

var hash = strings.Repeat("ab", 32)

// translated is a payload as tests compare it.
type translated struct {
	key, kind, path, referrer, event, properties, language, user string
	width                                                        int
	campaign                                                     model.Campaign
}

func of(p *payload.Payload) translated {
	return translated{
		key: p.SiteKey, kind: p.Kind, path: p.Path, referrer: p.Referrer, event: p.Event, properties: string(p.Properties),
		language: p.Language, user: p.UserID, width: p.Width, campaign: p.Campaign,
	}
}

// decode returns the only message of a body.
func decode(t *testing.T, decoder foreign.Decoder, body string) (translated, error) {
	t.Helper()
	items := decoder([]byte(body))
	testkit.Require(t, len(items), 1, "%s: messages", body)
	return of(items[0].Payload), items[0].Err
}

type bodyTest struct {
	name, body string
	want       translated
}

func checkBodies(t *testing.T, decoder foreign.Decoder, tests []bodyTest) {
	t.Helper()
	for _, test := range tests {
		got, err := decode(t, decoder, test.body)
		if err != nil || got != test.want {
			t.Errorf("%s: %s\nis %+v, %v\nwant %+v", test.name, test.body, got, err, test.want)
		}
	}
}

// checkMalformed checks that bodies are bad_json, and which of them still name the site.
func checkMalformed(t *testing.T, decoder foreign.Decoder, bodies map[string]bool) {
	t.Helper()
	for body, namesSite := range bodies {
		items := decoder([]byte(body))
		if len(items) != 1 || items[0].Err != error(payload.ErrBadJSON) || (items[0].Payload.SiteKey == siteKey) != namesSite {
			t.Errorf("%.60s: %+v, want bad_json, with the site %v", body, items, namesSite)
		}
	}
}

// with returns a page view of /a of the site with changes.
func with(change func(*translated)) translated {
	want := translated{key: siteKey, kind: payload.KindPageview, path: "/a"}
	change(&want)
	return want
}

func same(*translated) {}

// event changes a message to an event.
func event(name, properties string) func(*translated) {
	return func(m *translated) { m.kind, m.event, m.properties = payload.KindEvent, name, properties }
}

func TestPlausible(t *testing.T) {
	checkBodies(t, foreign.Plausible, []bodyTest{
		{"short names", `{"n":"pageview","u":"https://shop.example/a","d":"` + siteKey + `","r":null,"w":1440}`,
			with(func(m *translated) { m.width = 1440 })},
		{"long names", `{"name":"pageview","url":"https://shop.example/a","domain":"` + siteKey + `","referrer":"https://x.test/y?z#q","screen_width":390}`,
			with(func(m *translated) { m.width, m.referrer = 390, "https://x.test/y" })},
		{"one of several domains", `{"n":"pageview","u":"https://shop.example/a","d":"shop.example, ` + uuid + `,other.example"}`, with(same)},
		{"no site", `{"n":"pageview","u":"https://shop.example/a","d":"shop.example"}`, with(func(m *translated) { m.key = "" })},
		{"further members", `{"n":"pageview","u":"https://shop.example/a","d":"` + siteKey +
			`","v":24,"i":false,"e":1,"sd":40,"title":"Secret"}`, with(same)},
		{"wrong types", `{"n":"pageview","u":["x"],"d":"` + siteKey + `","r":7,"w":"390","h":{},"p":[1],"$":true}`,
			with(func(m *translated) { m.path = "" })},
		{"no address", `{"n":"pageview","d":"` + siteKey + `"}`, with(func(m *translated) { m.path = "" })},

		{"hash route", `{"n":"pageview","u":"https://shop.example/?k=1#/a?x=1#y","d":"` + siteKey + `","h":1}`, with(same)},
		{"hash bang route", `{"n":"pageview","u":"https://shop.example/#!/a?x=1","d":"` + siteKey + `","hashMode":true}`, with(same)},
		{"another fragment", `{"n":"pageview","u":"https://shop.example/a#token=/x","d":"` + siteKey + `","h":1}`, with(same)},
		{"a route without hash mode", `{"n":"pageview","u":"https://shop.example/a#/b","d":"` + siteKey + `","h":0}`, with(same)},

		{"event", `{"n":"Signup Button!","u":"https://shop.example/a","d":"` + siteKey + `","p":{"plan": "pro", "n":1}}`,
			with(event("signup_button", `{"plan": "pro", "n":1}`))},
		{"properties as a text", `{"n":"x","u":"https://shop.example/a","d":"` + siteKey + `","m":"{\"a\":1}"}`, with(event("x", `{"a":1}`))},
		{"properties as another text", `{"n":"x","u":"https://shop.example/a","d":"` + siteKey + `","props":"a=1"}`, with(event("x", ""))},
		{"properties as a list", `{"n":"x","u":"https://shop.example/a","d":"` + siteKey + `","meta":"[1]"}`, with(event("x", ""))},
		{"properties as half a text", `{"n":"x","u":"https://shop.example/a","d":"` + siteKey + `","meta":"{\"a\":"}`, with(event("x", ""))},
		{"nested properties", `{"n":"x","u":"https://shop.example/a","d":"` + siteKey + `","props":{"a":{"u":"v"}}}`, with(event("x", `{"a":{"u":"v"}}`))},
		{"properties of a page view", `{"n":"pageview","u":"https://shop.example/a","d":"` + siteKey + `","props":{"a":1}}`, with(same)},

		{"revenue", `{"n":"Order","u":"https://shop.example/a","d":"` + siteKey + `","p":{"a":1, "value":2},"$":{"amount":19.90,"currency":"EUR"}}`,
			with(event("order", `{"a":1, "value":2,"value":19.90,"currency":"EUR"}`))},
		{"revenue as texts", `{"n":"Order","u":"https://shop.example/a","d":"` + siteKey +
			`","p":{},"revenue":"{\"amount\":\"19.90\",\"currency\":\"E\\\"\"}"}`,
			with(event("order", `{"value":19.90,"currency":"E\""}`))},
		{"revenue alone", `{"n":"Order","u":"https://shop.example/a","d":"` + siteKey + `","$":{"currency":"EUR","amount":"1"}}`,
			with(event("order", `{"value":1,"currency":"EUR"}`))},
		{"revenue without currency", `{"n":"Order","u":"https://shop.example/a","d":"` + siteKey + `","p":{"a":1},"$":{"amount":1}}`,
			with(event("order", `{"a":1}`))},
		{"revenue that is no number", `{"n":"Order","u":"https://shop.example/a","d":"` + siteKey + `","$":{"amount":"1,50","currency":"EUR"}}`,
			with(event("order", ""))},
		{"purchase", `{"n":"Purchase","u":"https://shop.example/a","d":"` + siteKey + `","p":{"transaction_id":"T"},"$":{"amount":1,"currency":"EUR"}}`,
			with(event("purchase", `{"transaction_id":"T","value":1,"currency":"EUR"}`))},
		{"purchase without transaction", `{"n":"purchase","u":"https://shop.example/a","d":"` + siteKey + `","$":{"amount":1,"currency":"EUR"}}`,
			with(event("own_purchase", `{"value":1,"currency":"EUR"}`))},

		{"outbound link", `{"n":"Outbound Link: Click","u":"https://shop.example/a","d":"` + siteKey + `","p":{"url":"https://Other.Example/x?token=1#y"}}`,
			with(event("outbound_click", `{"host":"other.example"}`))},
		{"download", `{"n":"File Download","u":"https://shop.example/a","d":"` + siteKey +
			`","p":{"url":"https://other.example/x/Price%20List.PDF?token=1#y"}}`,
			with(event("file_download", `{"ext":"pdf","file":"Price%20List.PDF"}`))},
		{"download of nothing", `{"n":"File Download","u":"https://shop.example/a","d":"` + siteKey + `"}`, with(event("file_download", ""))},
		{"outbound link to nothing", `{"n":"Outbound Link: Click","u":"https://shop.example/a","d":"` + siteKey + `","p":{"url":"mailto:a@b.example"}}`,
			with(event("outbound_click", ""))},

		{"engagement", `{"n":"engagement","u":"https://shop.example/b?x","d":"` + siteKey + `","sd":50,"e":3000}`,
			with(func(m *translated) { m.kind, m.path = payload.KindEngagement, "/" })},
		{"campaign", `{"n":"pageview","u":"https://shop.example/a?utm_source=News+Letter&utm_medium=E%2DMail&q=secret` +
			`&utm_campaign=%zz&utm_source=second&gclid=Ab&x=utm_term","d":"` + siteKey + `"}`,
			with(func(m *translated) {
				m.campaign = model.Campaign{Source: "news letter", Medium: "e-mail", Name: "%zz", Gclid: "Ab"}
			})},
		{"no campaign", `{"n":"pageview","u":"https://shop.example/a?source=x&utm_gclid=y&utm_=z","d":"` + siteKey + `"}`, with(same)},
		{"campaign by click id", `{"n":"pageview","u":"https://shop.example/a?msclkid=M#utm_source=x","d":"` + siteKey + `"}`,
			with(func(m *translated) { m.campaign = model.Campaign{Source: "bing", Medium: "cpc", Msclkid: "M"} })},
	})

	checkMalformed(t, foreign.Plausible, map[string]bool{
		``: false, `null`: false, `[]`: false, `"x"`: false, `{}`: false, `{"u":"https://shop.example/"}`: false,
		`{"d":"` + siteKey + `","n":7}`: true, `{"d":"` + siteKey + `","n":""}`: true, `{"d":"` + siteKey + `","n":"pagev`: true,
		`{"d":"` + siteKey + `","n":"x","n":"x"}`: true, `{"d":"` + siteKey + `","n":"x"} x`: true,
	})
}

func TestUmami(t *testing.T) {
	body := func(members string) string {
		return `{"type":"event","payload":{"website":"` + uuid + `",` + members + `}}`
	}
	checkBodies(t, foreign.Umami, []bodyTest{
		{"page view", body(`"hostname":"shop.example","language":"de-DE","referrer":"https://x.test/y?z","screen":"1920x1080",` +
			`"title":"Secret","url":"/a?x=1#y"`),
			with(func(m *translated) { m.language, m.referrer, m.width = "de-DE", "https://x.test/y", 1920 })},
		{"whole address", body(`"url":"https://shop.example/a?utm_source=S"`),
			with(func(m *translated) { m.campaign.Source = "s" })},
		{"the site last, the type after the payload", `{"payload":{"url":"/a","website":"` + siteKey + `"},"type":"event"}`, with(same)},
		{"hash routes are Plausible's alone", body(`"url":"/a#/b","h":1`), with(same)},
		{"event", body(`"url":"/a","name":"Sign Up","data":{"plan":"pro","revenue":5,"currency":"EUR"}`),
			with(event("sign_up", `{"plan":"pro","revenue":5,"currency":"EUR"}`))},
		{"own scroll", body(`"url":"/a","name":"scroll","data":{"percent":90}`), with(event("own_scroll", `{"percent":90}`))},
		{"view_item", body(`"url":"/a","name":"view_item","data":{"item_id":7}`), with(event("view_item", `{"item_id":7}`))},
		{"view_item of nothing", body(`"url":"/a","name":"View Item"`), with(event("own_view_item", ""))},
		{"an unreadable name", body(`"url":"/a","name":"日本"`), with(event("", ""))},
		{"id", body(`"url":"/a","id":"` + strings.ToUpper(hash) + `"`), with(func(m *translated) { m.user = hash })},
		{"another id", body(`"url":"/a","id":"ann@example.com"`), with(same)},
		{"wrong types", body(`"url":"/a","referrer":{},"screen":1920,"language":["de"],"name":7,"data":"x","id":{},"title":{"a":1}`), with(same)},
		{"a screen in words", body(`"url":"/a","screen":"wide"`), with(same)},
		{"no address", body(`"title":"Secret"`), with(func(m *translated) { m.path = "" })},
		{"no payload", `{"type":"event","payload":7}`, translated{kind: payload.KindPageview}},
		{"identify", `{"type":"identify","payload":{"website":"` + uuid + `","url":"/x?y","data":{"mail":"ann@example.com"}}}`,
			with(func(m *translated) { m.kind, m.path = payload.KindEngagement, "/" })},
		{"performance", `{"type":"performance","payload":{"website":"` + uuid + `","lcp":7}}`,
			with(func(m *translated) { m.kind, m.path = payload.KindEngagement, "/" })},
	})

	checkMalformed(t, foreign.Umami, map[string]bool{
		``: false, `{}`: false, `[]`: false, `{"type":"pageview"}`: false, `{"type":7,"payload":{"website":"` + uuid + `"}}`: true,
		`{"payload":{"website":"` + uuid + `"}}`: true, `{"type":"event","payload":{"website":"` + uuid + `","url":"/a`: true,
	})
}

func TestUmamiBatch(t *testing.T) {
	view := `{"type":"event","payload":{"website":"` + uuid + `","url":"/a"}}`
	items := foreign.UmamiBatch([]byte(` [` + view + `, 7 ,{"type":"nope"}, ` + view + `] `))
	testkit.Require(t, len(items), 4, "messages")
	for i, item := range items {
		isBad := i == 1 || i == 2
		if (item.Err != nil) != isBad || !isBad && of(item.Payload) != with(same) {
			t.Errorf("message %d: %+v, %v", i, item.Payload, item.Err)
		}
	}

	checkMalformed(t, foreign.UmamiBatch, map[string]bool{
		``: false, `[]`: false, view: false, `[` + view: true, `[` + view + `,`: true, `[` + view + `] x`: true, `[` + view + `,]`: true,
	})
}

// TestPaths checks the paths of addresses.
func TestPaths(t *testing.T) {
	for address, want := range map[string]string{
		"https://shop.example": "/", "https://shop.example?x=/y": "/", "https://shop.example#/y": "/", "HTTP://shop.example/A": "/A",
		"https://ann:secret@shop.example:8443/a": "/a", "/a": "/a", "/a?b": "/a", "//a": "//a", "/?": "/", "/caf%C3%A9": "/caf%C3%A9",
		"/café b\"": "/caf%C3%A9%20b%22", "/a\nb\x00": "/a%0Ab%00", "/a://b": "/a://b", "/[id]|x": "/[id]|x",
		"": "", "?x": "", "#x": "", "a": "", "a/b": "", "mailto:ann@example.com": "", "about:blank": "", "file:///home/ann/a.html": "",
		"data:text/html,secret": "", "javascript://x/y": "", "https://": "", "https:///": "/",
	} {
		body, _ := json.Marshal(map[string]any{"type": "event", "payload": map[string]string{"url": address}})
		if got, _ := decode(t, foreign.Umami, string(body)); got.path != want {
			t.Errorf("the path of %q is %q, want %q", address, got.path, want)
		}
	}
}

// TestNames checks the names of events. Faces in the browser make the same ones.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"signup": "signup", "Signup Button!": "signup_button", "sign_up": "sign_up", "Sign Up": "sign_up", "ext-example.com": "ext-example_com",
		"404": "404", "Form: Submission": "form_submission", "__a__": "a", " a ": "a", "a__b": "a__b", "a_ b": "a__b", "Ünï": "n",
		"!": "", "日本": "", "\x00": "", strings.Repeat("a", 60): strings.Repeat("a", 48), strings.Repeat("a", 47) + " b": strings.Repeat("a", 47),
		"scroll": "own_scroll", "Site Search": "own_site_search", "refund": "own_refund", "Pageview": "pageview",
		"outbound link: click": "outbound_link_click",
	} {
		body, _ := json.Marshal(map[string]any{"n": name, "u": "/"})
		if got, err := decode(t, foreign.Plausible, string(body)); err != nil || got.event != want || got.kind != payload.KindEvent {
			t.Errorf("%q is %s %q, %v, want %q", name, got.kind, got.event, err, want)
		}
	}
}
