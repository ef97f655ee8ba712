package analytics

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db/model"
)

// FuzzParsePayload checks that no body causes a panic, and that accepted texts can be stored and
// are within their limits.
func FuzzParsePayload(f *testing.F) {
	for _, seed := range []string{
		`{"k":"0123456789abcdef0123456789abcdef","t":"pageview","p":"/a?b#c","r":"https://x.test/","i":"0123456789abcdef","u":{"source":"S","gclid":"g"},"w":390,"l":"de-DE"}`,
		`{"t":"engagement","ms":1e999,"sc":-0.5,"p":"/\ud800"}`,
		`{"t":"event","e":"x","m":{"a":[1,{"b":null}]},"p":null}`,
		"{\"t\":\"pageview\",\"p\":\"/\xff\x00\"}",
		`{"t":"pageview","p":"/a\t\n\u0001\u007f","u":{"source":"a","source":"b"},"m":{"a":1,"a":2}}`, `{"k":"x\u0000","t":"event","e":"signup\n"}`,
		`{"t":"pageview","t":"event"}`, `[]`, `{`, ``, "\ufeff{}", `{"u":{"u":{"u":{}}}}`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := payload.Parse(body)
		if err != nil {
			if err != errBadJSON {
				t.Fatalf("error %v, want bad_json", err)
			}

			return
		}

		if p.Kind != payload.KindPageview && p.Kind != payload.KindEvent && p.Kind != payload.KindEngagement {
			t.Fatalf("accepted t = %q", p.Kind)
		}
		if path, ok := PagePath(p.Path); ok &&
			(!strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || !model.IsStorable(path) || utf8.RuneCountInString(path) > maxPath) {
			t.Errorf("path %q", path)
		}

		host, page := ReferringPage(p.Referrer, []string{"example.com"})
		if model.HostBelongs(host, []string{"example.com"}) || !strings.HasPrefix(page, host) || !storable(page, maxReferrer) ||
			strings.ContainsAny(page, "?#") {
			t.Errorf("referrer %q: host %q, page %q", p.Referrer, host, page)
		}
		if l := Language(p.Language); l != "" && (len(l) != 2 || l != strings.ToLower(l)) {
			t.Errorf("language %q", l)
		}

		for _, s := range []string{p.Campaign.Source, p.Campaign.Medium, p.Campaign.Name, p.Campaign.Content, p.Campaign.Term} {
			// Lower case can be longer than the text that was cut.
			if s != strings.ToLower(s) || !storable(s, 2*payload.MaxCampaign) {
				t.Errorf("campaign value %q", s)
			}
		}

		for _, s := range []string{p.Campaign.Gclid, p.Campaign.Gbraid, p.Campaign.Wbraid, p.Campaign.Fbclid, p.Campaign.Msclkid} {
			if !storable(s, payload.MaxClickID) {
				t.Errorf("click id %q", s)
			}
		}
	})
}

func storable(s string, limit int) bool {
	return model.IsClean(s) && utf8.RuneCountInString(s) <= limit
}

func BenchmarkParsePayload(b *testing.B) {
	body := []byte(`{"k":"0123456789abcdef0123456789abcdef","t":"pageview","p":"/products/kettles/42","r":"https://www.google.com/","i":"0123456789abcdef","u":{"source":"newsletter","medium":"email","campaign":"spring"},"w":1920,"l":"de-DE"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := payload.Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}
