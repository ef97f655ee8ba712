package foreign_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tallygate/tallygate/dataplane/analytics/foreign"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

var decoders = []foreign.Decoder{foreign.Plausible, foreign.Umami, foreign.UmamiBatch}

// FuzzDecoders checks that no body causes a panic, and that collect accepts the form of each
// message.
func FuzzDecoders(f *testing.F) {
	for i, body := range []string{
		`{"n":"pageview","u":"https://shop.example/a?utm_source=%zz#/b","d":"shop.example","r":null,"w":1e9,"h":1}`,
		`{"name":"File Download","url":"/","props":"{\"url\":\"https://x.test/a.pdf?b\"}","revenue":{"amount":"1e400","currency":"\ud800"}}`,
		`{"type":"event","payload":{"website":"` + uuid + `","url":"/a?b#c","name":"Ünï","data":{"a":[1,{"b":null}]},"screen":"99999999999999999999x1"}}`,
		`[{"type":"event","payload":{"url":"/a"}},{"type":"identify"},7]`,
		`{"n":"x","$":"{}","p":"{\"a\":1,\"a\":2}","m":[]}`, "{\"n\":\"\xff\",\"u\":\"/\xff\x00\"}", `[`, `{`, ``, "\ufeff{}",
	} {
		f.Add(uint8(i), body)
	}

	f.Fuzz(func(t *testing.T, n uint8, body string) {
		for _, item := range decoders[int(n)%len(decoders)]([]byte(body)) {
			if item.Err != nil {
				testkit.Require(t, item.Err, error(payload.ErrBadJSON), "error")
				continue
			}
			checkForm(t, item.Payload)
		}
	})
}

// checkForm checks a message that was read without an error.
func checkForm(t *testing.T, p *payload.Payload) {
	t.Helper()

	switch p.Kind {
	case payload.KindPageview, payload.KindEvent, payload.KindEngagement:
	default:
		t.Errorf("kind %q", p.Kind)
	}

	if p.Path != "" && p.Path[0] != '/' || strings.ContainsAny(p.Path+p.Referrer, "?#") {
		t.Errorf("path %q, referrer %q", p.Path, p.Referrer)
	}
	if p.SiteKey != "" && !model.IsSiteKey(p.SiteKey) || p.UserID != "" && !model.IsUserID(p.UserID) {
		t.Errorf("site key %q, user id %q", p.SiteKey, p.UserID)
	}
	isOurs := model.IsAutomaticEvent(p.Event)
	if p.Event != "" && !model.IsEventName(strings.TrimPrefix(p.Event, "own_")) ||
		isOurs && len(p.Properties) > 0 && !json.Valid(p.Properties) {
		t.Errorf("event %q with %s", p.Event, p.Properties)
	}
	if utf8.ValidString(string(p.Properties)) && p.Properties != nil && !json.Valid(p.Properties) {
		t.Errorf("properties %q", p.Properties)
	}

	c := p.Campaign
	for _, s := range []string{c.Source, c.Medium, c.Name, c.Content, c.Term, c.Gclid, c.Gbraid, c.Wbraid, c.Fbclid, c.Msclkid} {
		if !model.IsClean(s) || utf8.RuneCountInString(s) > payload.MaxClickID {
			t.Errorf("campaign value %q", s)
		}
	}
}

// FuzzSecrets checks that nothing after the question mark or number sign of an address, and no title,
// gets into a message.
func FuzzSecrets(f *testing.F) {
	const secret = "zq7secret"
	f.Add("https://shop.example/a", "utm_source=x", "Sign Up", "https://x.test/y", 1)
	f.Add("/a", "", "", "", 0)
	f.Add("", "/b?c", "File Download", "android-app://x", 2)
	f.Add("https://shop.example/#!/a", "!/x", "Outbound Link: Click", "https://x.test", 0)

	f.Fuzz(func(t *testing.T, page, rest, name, referrer string, hash int) {
		cut := func(s string) string { s, _, _ = strings.Cut(s, "?"); s, _, _ = strings.Cut(s, "#"); return s }
		if strings.Contains(strings.ToLower(page+rest+name+referrer), "zq7") {
			t.Skip()
		}

		// The secret precedes text that could make it the value of a campaign parameter.
		address := cut(page) + "?token=" + secret + "&" + rest
		referrer = cut(referrer) + "?" + secret + rest + "#" + secret
		fragments := []string{"#" + secret, "#token=" + secret + "/", "#/route?" + secret, "#!/route#" + secret}
		if hash&1 == 0 {
			fragments = append(fragments, "#/"+secret, "#!/"+secret)
		}

		for _, fragment := range fragments {
			link := map[string]any{"url": address + fragment}
			if name != "File Download" && name != "Outbound Link: Click" {
				link = nil
			}
			plausible := marshal(map[string]any{"n": name, "u": address + fragment, "r": referrer, "h": hash & 1, "title": secret, "p": link, "d": secret})
			umami := marshal(map[string]any{"type": "event", "payload": map[string]any{"name": name, "url": address + fragment, "referrer": referrer,
				"title": secret, "hostname": secret, "tag": secret, "id": secret, "website": secret, "screen": secret, "data": link}})

			for i, body := range []string{plausible, umami, "[" + umami + "]"} {
				for _, item := range decoders[i]([]byte(body)) {
					if text := strings.ToLower(marshal(item.Payload) + string(item.Payload.Properties)); strings.Contains(text, secret) {
						t.Errorf("%s is read as %s", body, text)
					}
				}
			}
		}
	})
}

func marshal(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// BenchmarkDecoders compares the decoders with payload.Parse. The bodies are the same page view.
func BenchmarkDecoders(b *testing.B) {
	for name, test := range map[string]struct {
		decode func([]byte)
		body   string
	}{
		"collect": {func(text []byte) { _, _ = payload.Parse(text) },
			`{"k":"` + siteKey +
				`","t":"pageview","p":"/products/42","r":"https://www.google.com/","i":"0123456789abcdef","u":{"source":"news"},"w":1920,"l":"de-DE"}`},
		"plausible": {func(text []byte) { foreign.Plausible(text) },
			`{"n":"pageview","u":"https://shop.example/products/42?utm_source=news","d":"` + siteKey + `","r":"https://www.google.com/","w":1920}`},
		"umami": {func(text []byte) { foreign.Umami(text) },
			`{"type":"event","payload":{"website":"` + uuid + `","hostname":"shop.example","language":"de-DE",` +
				`"referrer":"https://www.google.com/","screen":"1920x1080","title":"A product","url":"/products/42?utm_source=news"}}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				test.decode([]byte(test.body))
			}
		})
	}
}
