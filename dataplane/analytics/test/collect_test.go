package analytics_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const quota = 1_000

// TestCollectErrors goes through the contract's table of errors (analytics contract, section 7),
// and the order of the checks. A refused call must neither store a row nor be counted.
func TestCollectErrors(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		body := func(fields map[string]any) string {
			all := map[string]any{"k": site.SiteKey, "t": "pageview", "p": "/"}
			maps.Copy(all, fields)
			return mustJSON(t, all)
		}

		// padding returns a page view of exactly n bytes.
		padding := func(n int) string {
			empty := body(map[string]any{"x": ""})
			return body(map[string]any{"x": strings.Repeat("x", n-len(empty))})
		}

		own, foreign := "https://example.com", "https://example.org"
		for _, test := range []struct {
			name   string
			call   call
			status int
			code   string
		}{
			{"GET", call{Method: "GET", Body: "", Origin: own}, 405, "method_not_allowed"},
			{"PUT", call{Method: "PUT", Body: body(nil), Origin: own}, 405, "method_not_allowed"},
			{"PUT comes before an empty body", call{Method: "PUT", Body: "", Origin: own}, 405, "method_not_allowed"},
			{"empty body", call{Body: "", Origin: own}, 400, "bad_body"},
			{"8 KB and a byte", call{Body: padding(8193), Origin: own}, 400, "bad_body"},
			{"8 KB and a byte of anything", call{Body: strings.Repeat("x", 8193), Origin: own}, 400, "bad_body"},
			{"white space", call{Body: " \n", Origin: own}, 400, "bad_json"},
			{"no JSON", call{Body: "hello", Origin: own}, 400, "bad_json"},
			{"null", call{Body: "null", Origin: own}, 400, "bad_json"},
			{"array", call{Body: "[" + body(nil) + "]", Origin: own}, 400, "bad_json"},
			{"cut off", call{Body: body(nil)[:20], Origin: own}, 400, "bad_json"},
			{"something after the object", call{Body: body(nil) + "{}", Origin: own}, 400, "bad_json"},
			{"a key twice", call{Body: `{"k":"a","k":"` + site.SiteKey + `","t":"pageview","p":"/"}`, Origin: own}, 400, "bad_json"},
			{"another key twice", call{Body: strings.TrimSuffix(body(nil), "}") + `,"x":1,"x":2}`, Origin: own}, 400, "bad_json"},
			{
				name:   "a key twice behind many others",
				call:   call{Body: strings.TrimSuffix(body(nil), "}") + manyKeys(40) + `,"key20":1}`, Origin: own},
				status: 400, code: "bad_json",
			},
			{
				name:   "a key twice behind all others",
				call:   call{Body: strings.TrimSuffix(body(nil), "}") + manyKeys(40) + `,"key39":1}`, Origin: own},
				status: 400, code: "bad_json",
			},
			{"a byte order mark", call{Body: "\ufeff" + body(nil), Origin: own}, 400, "bad_json"},
			{"no t", call{Body: body(map[string]any{"t": nil}), Origin: own}, 400, "bad_json"},
			{"another t", call{Body: body(map[string]any{"t": "click"}), Origin: own}, 400, "bad_json"},
			{"t in capitals", call{Body: body(map[string]any{"t": "Pageview"}), Origin: own}, 400, "bad_json"},
			{"keys in capitals", call{Body: `{"K":"` + site.SiteKey + `","T":"pageview","P":"/"}`, Origin: own}, 400, "bad_json"},
			{"t comes before the key", call{Body: body(map[string]any{"t": "x", "k": "x"}), Origin: foreign}, 400, "bad_json"},
			{"no key", call{Body: body(map[string]any{"k": nil}), Origin: own}, 404, "unknown_site_key"},
			{"a number for a key", call{Body: body(map[string]any{"k": 7}), Origin: own}, 404, "unknown_site_key"},
			{"unknown key", call{Body: body(map[string]any{"k": model.NewSiteKey()}), Origin: own}, 404, "unknown_site_key"},
			{"the key and a character", call{Body: body(map[string]any{"k": site.SiteKey + "0"}), Origin: own}, 404, "unknown_site_key"},
			{"the key in capitals", call{Body: body(map[string]any{"k": "ABCDEF" + site.SiteKey[6:]}), Origin: own}, 404, "unknown_site_key"},
			{"the key and NUL", call{Body: body(map[string]any{"k": site.SiteKey + "\x00"}), Origin: own}, 404, "unknown_site_key"},
			{"the key and a newline", call{Body: body(map[string]any{"k": site.SiteKey + "\n"}), Origin: own}, 404, "unknown_site_key"},
			{"a newline within the kind", call{Body: body(map[string]any{"t": "page\nview"}), Origin: own}, 400, "bad_json"},
			{"the key comes before the domain", call{Body: body(map[string]any{"k": "x"}), Origin: foreign}, 404, "unknown_site_key"},
			{"another domain", call{Body: body(nil), Origin: foreign}, 403, "domain_not_allowed"},
			{"the domain comes before a bot", call{Body: body(nil), Origin: foreign, Agent: "curl/8.5.0"}, 403, "domain_not_allowed"},
			{"the domain comes before the path", call{Body: body(map[string]any{"p": "x"}), Origin: foreign}, 403, "domain_not_allowed"},
			{"no path", call{Body: body(map[string]any{"p": nil}), Origin: own}, 400, "bad_path"},
			{"a number for a path", call{Body: body(map[string]any{"p": 7}), Origin: own}, 400, "bad_path"},
			{"an empty path", call{Body: body(map[string]any{"p": ""}), Origin: own}, 400, "bad_path"},
			{"a path without slash", call{Body: body(map[string]any{"p": "about"}), Origin: own}, 400, "bad_path"},
			{"an address as a path", call{Body: body(map[string]any{"p": "https://example.com/"}), Origin: own}, 400, "bad_path"},
			{"engagement without path", call{Body: body(map[string]any{"t": "engagement", "p": nil}), Origin: own}, 400, "bad_path"},
			{"an event that is not registered", call{Body: body(map[string]any{"t": "event", "e": "signup"}), Origin: own}, 400, "unknown_event"},
			{"the path comes before the event", call{Body: body(map[string]any{"t": "event", "p": "x"}), Origin: own}, 400, "bad_path"},
			{"a bot comes before the path", call{Body: body(map[string]any{"p": "x"}), Origin: own, Agent: "curl/8.5.0"}, 204, ""},
		} {
			t.Run(test.name, func(t *testing.T) {
				if status, code := p.Collect(test.call); status != test.status || code != test.code {
					t.Errorf("got %d %s, want %d %s", status, code, test.status, test.code)
				}
			})
		}

		if rows, used := p.Views(site), p.Used(site); len(rows) != 0 || used != 0 {
			t.Errorf("refused calls left %d rows and a count of %d", len(rows), used)
		}

		t.Run("8 KB exactly is fine", func(t *testing.T) {
			if status, code := p.Collect(call{Body: padding(8192), Origin: own}); status != 204 {
				t.Errorf("got %d %s, want 204", status, code)
			}
		})
	})
}

// manyKeys returns n members of an object.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"key%d":1`, i)
	}
	return b.String()
}

// TestUnreadableBodiesAreCounted checks that a call whose body cannot be read counts for the site
// that the body names, if one of the site's pages sent it (analytics contract, section 6).
func TestUnreadableBodiesAreCounted(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		large := `,"x":"` + strings.Repeat("x", 9_000) + `"}`

		counted := make(map[*model.Site]map[string]int64)
		for i, test := range []struct {
			name   string
			body   string // KEY is replaced by the site's key
			origin string // default the site's own
			code   string // of the answer
			counts bool
		}{
			{name: "another t", body: `{"k":"KEY","t":"nope","p":"/"}`, code: "bad_json", counts: true},
			{name: "no t", body: `{"k":"KEY","p":"/"}`, code: "bad_json", counts: true},
			{name: "t before the key", body: `{"t":"nope","k":"KEY"}`, code: "bad_json", counts: true},
			{name: "a key twice", body: `{"k":"KEY","t":"pageview","p":"/","p":"/"}`, code: "bad_json", counts: true},
			{name: "cut off", body: `{"k":"KEY","t":"pagev`, code: "bad_json", counts: true},
			{name: "something after the object", body: `{"k":"KEY","t":"pageview","p":"/"}1`, code: "bad_json", counts: true},
			{name: "too large", body: `{"k":"KEY","t":"pageview","p":"/"` + large, code: "bad_body", counts: true},
			{name: "on a subdomain", body: `{"k":"KEY"}`, origin: "https://www.site7.example", code: "bad_json", counts: true},

			{name: "on another domain", body: `{"k":"KEY"}`, origin: "https://other.example", code: "bad_json"},
			{name: "on no domain", body: `{"k":"KEY"}`, origin: "null", code: "bad_json"},
			{name: "too large on another domain", body: `{"k":"KEY"` + large, origin: "https://other.example", code: "bad_body"},
			{name: "the key behind the fault", body: `{"t":"pageview","t":"pageview","k":"KEY"}`, code: "bad_json"},
			{name: "the key beyond 8 KB", body: `{"x":"` + strings.Repeat("x", 9_000) + `","k":"KEY"}`, code: "bad_body"},
			{name: "the key below", body: `{"m":{"k":"KEY"}}`, code: "bad_json"},
			{name: "the key in a list", body: `[{"k":"KEY"}]`, code: "bad_json"},
			{name: "the key and NUL", body: `{"k":"KEY\u0000"}`, code: "bad_json"},
			{name: "an unknown key", body: `{"k":"` + model.NewSiteKey() + `"}`, code: "bad_json"},
			{name: "empty", body: "", code: "bad_body"},
		} {
			domain := fmt.Sprintf("site%d.example", i)
			site := p.site(domain, quota)

			if test.origin == "" {
				test.origin = "https://" + domain
			}

			status, code := p.Collect(call{Body: strings.ReplaceAll(test.body, "KEY", site.SiteKey), Origin: test.origin})
			if status != http.StatusBadRequest || code != test.code {
				t.Errorf("%s: %d %s, want 400 %s", test.name, status, code, test.code)
			}

			counted[site] = map[string]int64{}

			if test.counts {
				counted[site]["collect "+test.code] = 1
			}
		}

		for site, want := range counted {
			p.Rejected(site, want)
		}
	})
}

// TestBrokenBodyIsNotCounted checks that a body that is cut off does not count, such as that of a
// phone that loses its network.
func TestBrokenBodyIsNotCounted(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		whole := mustJSON(t, viewCall(site, "", nil).Body)
		for _, test := range []struct {
			name string
			rest io.Reader
			want string
		}{
			{"whole", strings.NewReader("}"), ""},
			{"broken", iotest.ErrReader(io.ErrUnexpectedEOF), "bad_body"},
		} {
			request := httptest.NewRequest(http.MethodPost, "/collect.php", io.MultiReader(strings.NewReader(strings.TrimSuffix(whole, "}")), test.rest))
			request.Header = http.Header{"Origin": {"https://example.com"}, "User-Agent": {chrome}}
			response := httptest.NewRecorder()
			p.Handler.ServeHTTP(response, request)

			if got := response.Body.String(); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("%s: %d %q, want %q", test.name, response.Code, got, test.want)
			}
		}

		p.Rejected(site, map[string]int64{})
	})
}

// TestDomainBinding goes through the rules of the contract's section 5. The site is on example.com.
func TestDomainBinding(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		umlaut := p.site("xn--bcher-kva.example", quota)

		referer := func(s string) http.Header { return http.Header{"Referer": {s}} }
		for _, test := range []struct {
			name   string
			site   *model.Site
			origin string
			header http.Header
			want   bool
		}{
			{name: "the domain", origin: "https://example.com", want: true},
			{name: "plain http", origin: "http://example.com", want: true},
			{name: "a port", origin: "https://example.com:8443", want: true},
			{name: "www", origin: "https://www.example.com", want: true},
			{name: "a deep subdomain", origin: "https://a.b.c.example.com", want: true},
			{name: "capitals", origin: "https://WWW.Example.COM", want: true},
			{name: "a trailing dot", origin: "https://example.com.", want: true},
			{name: "an internationalised domain", site: umlaut, origin: "https://xn--bcher-kva.example", want: true},
			{name: "an internationalised domain in letters", site: umlaut, origin: "https://Bücher.example", want: true},
			{name: "Referer when Origin is missing", header: referer("https://www.example.com/page?x=1"), want: true},
			{name: "same ending", origin: "https://notexample.com"},
			{name: "the domain in front", origin: "https://example.com.evil.test"},
			{name: "a parent", origin: "https://com"},
			{name: "another domain", origin: "https://example.org"},
			{name: "null", origin: "null"},
			{name: "null is not replaced by Referer", origin: "null", header: referer("https://example.com/")},
			{name: "a foreign Origin is not replaced by Referer", origin: "https://example.org", header: referer("https://example.com/")},
			{name: "no header"},
			{name: "two Origins", header: http.Header{"Origin": {"https://example.com", "https://example.com"}}},
			{name: "two Origins in one", origin: "https://example.com https://example.com"},
			{name: "a foreign Referer", header: referer("https://example.org/?u=https://example.com")},
			{name: "another scheme", origin: "chrome-extension://example.com"},
			{name: "user information", origin: "https://example.com@example.org"},
			{name: "localhost", origin: "http://localhost:3000"},
			{name: "IPv4", origin: "http://127.0.0.1"},
			{name: "IPv6", origin: "http://[::1]:8080"},
			{name: "a decimal address", origin: "http://2130706433"},
			{name: "garbage", origin: "%%"},
		} {
			t.Run(test.name, func(t *testing.T) {
				if test.site == nil {
					test.site = site
				}

				c := viewCall(test.site, "", nil)
				c.Origin, c.Header = test.origin, test.header
				response, _ := p.Send(c)

				want := http.StatusForbidden
				if test.want {
					want = http.StatusNoContent
				}
				if response.StatusCode != want {
					t.Errorf("status %d, want %d", response.StatusCode, want)
				}
				// A page may read a refusal, too.
				testkit.Equal(t, response.Header.Get("Access-Control-Allow-Origin"), test.origin, "Access-Control-Allow-Origin")
				testkit.Equal(t, response.Header.Get("Vary"), "Origin", "Vary")
				testkit.Equal(t, response.Header.Get("Access-Control-Allow-Credentials"), "", "Access-Control-Allow-Credentials")
			})
		}
	})
}

func TestPreflight(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		response, _ := p.Send(call{Method: http.MethodOptions, Body: "", Origin: "https://example.com",
			Header: http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"}}})

		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":      "https://example.com",
			"Access-Control-Allow-Methods":     "POST, OPTIONS",
			"Access-Control-Allow-Headers":     "Content-Type",
			"Access-Control-Allow-Credentials": "",
		} {
			testkit.Equal(t, response.Header.Get(name), want, "%s", name)
		}

		if response.StatusCode != http.StatusNoContent {
			t.Errorf("status %d, want 204", response.StatusCode)
		}
	})
}

// TestStoredPageview goes through the rules of the payload's keys (analytics contract, section 2).
func TestStoredPageview(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)

		long := strings.Repeat("ä", 2_047)
		for i, test := range []struct {
			name   string
			fields map[string]any
			check  func(row exports.Pageview) string // what is wrong with the row
		}{
			{"path is cut at the query", map[string]any{"p": "/shop?card=4111"}, is("/shop", path)},
			{"path is cut at the fragment", map[string]any{"p": "/shop#a?b"}, is("/shop", path)},
			{"path may be all of 2,048 characters", map[string]any{"p": "/" + long}, is("/"+long, path)},
			{"path is cut at 2,048 characters", map[string]any{"p": "/" + long + "ö"}, is("/"+long, path)},
			{"path with control characters as sent", map[string]any{"p": "/a\nb\tc\r\x01\x7f"}, is("/a\nb\tc\r\x01\x7f", path)},
			{"path with NUL", map[string]any{"p": "/a\x00b"}, is("/a\ufffdb", path)},
			{"path with a lone surrogate", map[string]any{"p": raw(`"/a\ud800b"`)}, is("/a\ufffdb", path)},
			{"path with capitals and escapes as sent", map[string]any{"p": "/A%20b/"}, is("/A%20b/", path)},
			{"page view id", map[string]any{"i": "00000000000000ff"}, is(int64(255), func(r exports.Pageview) int64 { return r.ID })},
			{"largest page view id", map[string]any{"i": "ffffffffffffffff"}, is(int64(-1), func(r exports.Pageview) int64 { return r.ID })},
			{"language", map[string]any{"l": "de-CH"}, is("de", lang)},
			{"language in capitals", map[string]any{"l": "EN"}, is("en", lang)},
			{"language of three letters", map[string]any{"l": "gsw-CH"}, is("", lang)},
			{"language that is none", map[string]any{"l": "1!"}, is("", lang)},
			{"no language", nil, is("", lang)},
			{"width 1", map[string]any{"w": 1}, is("0-575", width)},
			{"width 575", map[string]any{"w": 575}, is("0-575", width)},
			{"width 576", map[string]any{"w": 576}, is("576-767", width)},
			{"width 991", map[string]any{"w": 991}, is("768-991", width)},
			{"width 992", map[string]any{"w": 992}, is("992-1199", width)},
			{"width 1439.5", map[string]any{"w": 1439.5}, is("1200-1439", width)},
			{"width 1919", map[string]any{"w": 1919}, is("1440-1919", width)},
			{"width 1920", map[string]any{"w": 1920}, is("1920+", width)},
			{"width beyond numbers", map[string]any{"w": raw("1e999")}, is("1920+", width)},
			{"width 0", map[string]any{"w": 0}, is("", width)},
			{"width as text", map[string]any{"w": "1024"}, is("", width)},
			{"no width", nil, is("", width)},
			{"referrer without query", map[string]any{"r": "https://news.test/a/b?q=secret#x"}, is("news.test/a/b", referrer)},
			{"referrer of a front page", map[string]any{"r": "https://News.Test/"}, is("news.test", referrer)},
			{"own referrer", map[string]any{"r": "https://www.example.com/a"}, is("", referrer)},
			{"referrer with the same ending", map[string]any{"r": "https://notexample.com/"}, is("notexample.com", referrer)},
			{"null referrer", map[string]any{"r": nil}, is("", referrer)},
			{"unreadable referrer", map[string]any{"r": "::::"}, is("", referrer)},
			{"referrer of another scheme", map[string]any{"r": "file:///home/me/secret.html"}, is("", referrer)},
			{"referring app", map[string]any{"r": "android-app://com.google.android.gm/"}, is("com.google.android.gm", referrer)},
			{"utm values in lower case", map[string]any{"u": map[string]any{"source": "NewsLetter ", "medium": "EMAIL", "campaign": "Spring",
				"content": "Top", "term": "Tea"}}, is(model.Campaign{
				Source: "newsletter", Medium: "email", Name: "spring", Content: "top", Term: "tea",
			}, campaign)},
			{"click ids as sent, source and medium set", map[string]any{"u": map[string]any{"gclid": "AbC"}},
				is(model.Campaign{Source: "google", Medium: "cpc", Gclid: "AbC"}, campaign)},
			{"click id with a source", map[string]any{"u": map[string]any{"source": "partner", "fbclid": "F"}},
				is(model.Campaign{Source: "partner", Fbclid: "F"}, campaign)},
			{"campaign that is no object", map[string]any{"u": []string{"source"}}, is(model.Campaign{}, campaign)},
			{"campaign of other types", map[string]any{"u": map[string]any{"source": 7, "medium": []int{1}}}, is(model.Campaign{}, campaign)},
			{"unknown keys of any type", map[string]any{"zz": map[string]any{"p": "/x"}, "m": 1}, is("/", path)},
			{"channel from a search engine", map[string]any{"r": "https://www.google.com/"}, is("organic search", channelOf)},
			{"channel of a campaign", map[string]any{"u": map[string]any{"source": "newsletter", "medium": "email"}}, is("email", channelOf)},
			{"channel of nothing", nil, is("direct", channelOf)},
			{"channel of an own referrer", map[string]any{"r": "https://example.com/a"}, is("direct", channelOf)},
		} {
			t.Run(test.name, func(t *testing.T) {
				before := len(p.Views(site))

				// Each page view has another visitor, and so starts a visit.
				p.View(site, fmt.Sprintf("198.51.100.%d", i), test.fields)
				rows := p.Views(site)
				testkit.Require(t, len(rows), before+1, "%d rows more", len(rows)-before)
				if wrong := test.check(rows[before]); wrong != "" {
					t.Error(wrong)
				}
			})
		}
	})
}

func TestPageviewIDIsMadeWhenMissing(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		for _, id := range []any{nil, "", "abc", "00000000000000fff", "000000000000000g", 7} {
			p.View(site, "", map[string]any{"i": id})
		}

		ids := make(map[int64]bool)
		for _, row := range p.Views(site) {
			ids[row.ID] = true
		}

		testkit.Equal(t, len(ids), 6, "different ids for 6 page views")
	})
}

// TestVisits goes through the visit rules (analytics contract, section 3) with a fixed clock. Each
// step is a page view of one visitor. Visits are numbered in the order of their start.
func TestVisits(t *testing.T) {
	t.Parallel()
	type step struct {
		at     time.Duration // after 12:00 UTC
		source string        // utm_source
		name   string        // utm_campaign
		gclid  string
		visit  int
	}

	newsletter, spring := "newsletter", "spring"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		for i, test := range []struct {
			name  string
			steps []step
		}{
			{"29:59.999 is the same visit", []step{{visit: 1}, {at: 30*time.Minute - time.Millisecond, visit: 1}}},
			{"30:00.000 is a new one", []step{{visit: 1}, {at: 30 * time.Minute, visit: 2}}},
			{
				name:  "the gap counts from the previous page view",
				steps: []step{{visit: 1}, {at: 29 * time.Minute, visit: 1}, {at: 58 * time.Minute, visit: 1}, {at: 88 * time.Minute, visit: 2}},
			},
			{"the hour is no boundary", []step{{at: -time.Minute, visit: 1}, {at: time.Minute, visit: 1}}},
			{"midnight UTC is one", []step{{at: 12*time.Hour - time.Millisecond, visit: 1}, {at: 12 * time.Hour, visit: 2}}},
			{"campaign carried", []step{{source: newsletter, name: spring, visit: 1}, {at: time.Minute, source: newsletter, name: spring, visit: 1}}},
			{"source changed", []step{{source: newsletter, visit: 1}, {at: time.Minute, source: "partner", visit: 2}}},
			{
				name:  "campaign name changed",
				steps: []step{{source: newsletter, name: spring, visit: 1}, {at: time.Minute, source: newsletter, name: "summer", visit: 2}},
			},
			{"campaign absent later", []step{{source: newsletter, name: spring, visit: 1}, {at: time.Minute, visit: 1}}},
			{"campaign appears", []step{{visit: 1}, {at: time.Minute, source: newsletter, visit: 2}, {at: 2 * time.Minute, visit: 2}}},
			{
				name:  "click id, which is a source",
				steps: []step{{source: newsletter, visit: 1}, {at: time.Minute, gclid: "x", visit: 2}, {at: 2 * time.Minute, visit: 2}},
			},
			{
				name:  "another click id of one source",
				steps: []step{{gclid: "x", visit: 1}, {at: time.Minute, gclid: "y", visit: 1}, {at: 2 * time.Minute, source: "google", visit: 1}},
			},
			{"click id with the source", []step{{source: newsletter, visit: 1}, {at: time.Minute, source: newsletter, gclid: "x", visit: 1}}},
			{
				name: "back to the first campaign",
				steps: []step{{source: newsletter, visit: 1}, {at: time.Minute, source: "partner", visit: 2},
					{at: 2 * time.Minute, source: newsletter, visit: 3}},
			},
			{"clock stepped back a little", []step{{visit: 1}, {at: -time.Second, visit: 1}}},
			{"clock stepped back an hour", []step{{visit: 1}, {at: -time.Hour, visit: 1}}},
			{"clock stepped back and forth", []step{{visit: 1}, {at: -time.Hour, visit: 1}, {at: time.Minute, visit: 1}}},
			{
				name:  "clock stepped back, then a new campaign",
				steps: []step{{visit: 1}, {at: -time.Hour, source: newsletter, visit: 2}, {at: -time.Hour + time.Minute, visit: 2}},
			},
		} {
			t.Run(test.name, func(t *testing.T) {
				site := p.site(fmt.Sprintf("site%d.example", i), quota)
				for n, s := range test.steps {
					p.Clock.Set(noon.Add(s.at))
					p.View(site, "", map[string]any{
						"p": fmt.Sprintf("/%d", n),
						"u": map[string]any{"source": s.source, "campaign": s.name, "gclid": s.gclid},
					})
				}

				numbers, got := make(map[string]int), make(map[string]int)
				rows := p.Views(site)
				slices.SortFunc(rows, func(a, b exports.Pageview) int { return strings.Compare(a.Path, b.Path) })

				for _, row := range rows {
					if numbers[row.Visit.ID()] == 0 {
						numbers[row.Visit.ID()] = len(numbers) + 1
					}

					got[row.Path] = numbers[row.Visit.ID()]
				}

				for n, s := range test.steps {
					if path := fmt.Sprintf("/%d", n); got[path] != s.visit {
						t.Errorf("page view %d, %v after noon, source %q, campaign %q, gclid %q: visit %d, want %d", n, s.at, s.source, s.name, s.gclid,
							got[path], s.visit)
					}
				}
			})
		}
	})
}

// TestVisitKeepsItsAttribution checks that referrer, campaign and channel of a visit are those of
// its first page view.
func TestVisitKeepsItsAttribution(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		p.View(site, "", map[string]any{"r": "https://www.google.com/", "u": map[string]any{"term": "tea"}})
		p.Clock.Set(noon.Add(time.Minute))
		p.View(site, "", map[string]any{"r": "https://www.paypal.com/checkout", "u": map[string]any{"medium": "email", "term": "coffee"}})

		for _, row := range p.Views(site) {
			if row.Referrer != "www.google.com" || row.Channel != "organic search" || row.Term != "tea" || row.Medium != "" || row.Pageviews != 2 {
				t.Errorf("%s: referrer %q, channel %q, campaign %+v, %d page views; want those of the first page view, 2 in all",
					row.Path, row.Referrer, row.Channel, row.Campaign, row.Pageviews)
			}
		}
	})
}

// TestVisitorsAreApart checks that another address, user agent or site means another visitor.
func TestVisitorsAreApart(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site, other := p.site("example.com", quota), p.site("example.org", quota)
		p.View(site, "203.0.113.1", nil)
		p.View(site, "203.0.113.1", nil)
		p.View(site, "203.0.113.2", nil)
		firefox := viewCall(site, "203.0.113.1", nil)
		firefox.Agent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
		p.Collect(firefox)
		p.View(other, "203.0.113.1", nil)

		visitors := make(map[string]int)
		for _, row := range append(p.Views(site), p.Views(other)...) {
			visitors[string(row.Visitor[:])]++
		}

		testkit.Equal(t, len(visitors), 4, "visitors")
	})
}

func TestEngagement(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site, other := p.site("example.com", quota), p.site("example.org", quota)
		const id = "0123456789abcdef"
		p.View(site, "", map[string]any{"i": id})

		report := func(on *model.Site, fields map[string]any) {
			t.Helper()
			all := map[string]any{"t": "engagement", "i": id}
			maps.Copy(all, fields)
			p.View(on, "", all)
		}
		for _, test := range []struct {
			name   string
			fields map[string]any
			ms     int32
			scroll int16
		}{
			{"time and scroll", map[string]any{"ms": 1500, "sc": 40}, 1500, 40},
			{"time adds up, scroll keeps its maximum", map[string]any{"ms": 500, "sc": 30}, 2000, 40},
			{"a fraction is cut", map[string]any{"ms": 1.9, "sc": 41.9}, 2001, 41},
			{"negative counts nothing", map[string]any{"ms": -5, "sc": -1}, 2001, 41},
			{"other types count nothing", map[string]any{"ms": "9", "sc": nil}, 2001, 41},
			{"scroll is at most 100", map[string]any{"sc": 250}, 2001, 100},
			{"time is at most 24 h", map[string]any{"ms": 1e12}, 86_400_000, 100},
			{"an unknown page view is dropped", map[string]any{"i": "ffffffffffffffff", "ms": 5}, 86_400_000, 100},
			{"no page view id is dropped", map[string]any{"i": nil, "ms": 5}, 86_400_000, 100},
		} {
			report(site, test.fields)

			if row := p.Views(site)[0]; row.EngagedMS != test.ms || row.Scroll != test.scroll {
				t.Errorf("%s: %d ms and %d %%, want %d and %d", test.name, row.EngagedMS, row.Scroll, test.ms, test.scroll)
			}
		}

		if n := p.Used(site); n != 1 {
			t.Errorf("count %d after one page view and its reports, want 1", n)
		}

		p.View(other, "", nil)

		// This report names a page view of another site.
		report(other, map[string]any{"ms": 5})

		if row := p.Views(other)[0]; row.EngagedMS != 0 {
			t.Errorf("a report reached a page view of another site: %d ms", row.EngagedMS)
		}
	})
}

// TestEngagementOfLaterDays checks that reports count until the end of the second UTC day after a
// page view, also those that arrive before it, and add up within their bounds.
func TestEngagementOfLaterDays(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		const id = "fedcba9876543210"
		report := func(at time.Time, ms, scroll int) {
			t.Helper()
			p.Clock.Set(at)
			p.View(site, "", m{"t": "engagement", "i": id, "ms": ms, "sc": scroll})
		}

		midnight := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
		report(midnight.Add(-time.Microsecond), 1, 100) // of the day before: not for this page view
		report(midnight, 2, 10)
		p.Clock.Set(midnight.Add(time.Hour))
		p.View(site, "", m{"i": id})
		report(midnight.Add(23*time.Hour), 4, 40)
		report(midnight.Add(25*time.Hour), 8, 30)
		report(midnight.Add(72*time.Hour-time.Microsecond), 16, 20)
		report(midnight.Add(72*time.Hour), 32, 90)

		if row := p.Views(site)[0]; row.EngagedMS != 2+4+8+16 || row.Scroll != 40 {
			t.Errorf("%d ms and %d %%, want 30 and 40", row.EngagedMS, row.Scroll)
		}

		report(midnight.Add(26*time.Hour), 86_399_990, 0)

		if row := p.Views(site)[0]; row.EngagedMS != 86_400_000 {
			t.Errorf("%d ms, want 24 hours", row.EngagedMS)
		}
	})
}

// TestEngagementOfARepeatedID checks that the newest of a visitor's page views with one id has what
// was reported on it, and that each page view has its own row.
func TestEngagementOfARepeatedID(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		report := func(ms int) { p.View(site, "", m{"t": "engagement", "i": "0123456789abcdef", "ms": ms}) }
		view := func(after time.Duration, path string) {
			p.Clock.Set(noon.Add(after))
			p.View(site, "", m{"i": "0123456789abcdef", "p": path})
		}

		view(0, "/first")
		report(1)
		view(time.Minute, "/second")
		report(2)
		view(2*time.Hour, "/third") // in another visit
		p.Clock.Set(noon.Add(20 * time.Hour))
		report(4)

		got := make(map[string]int32)
		for _, row := range p.Views(site) {
			got[row.Path] = row.EngagedMS
		}

		if want := map[string]int32{"/first": 0, "/second": 0, "/third": 7}; !maps.Equal(got, want) {
			t.Errorf("time in view %v, want %v", got, want)
		}
	})
}

// TestReportsWithoutPageviewsAreBounded checks that a client which makes up page view ids fills a
// bounded number of rows, that reports which need no new row still count, and that each page view
// brings room for its own.
func TestReportsWithoutPageviewsAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const most = 1_000 // of a site without page views
		p := newPlane(t, d)
		site := p.site("example.com", quota)
		report := func(id int) {
			p.View(site, fmt.Sprintf("198.18.%d.%d", id>>8, id&0xff), m{"t": "engagement", "i": fmt.Sprintf("%016x", id), "ms": 5})
		}

		var group errgroup.Group
		group.SetLimit(32)
		for id := range most + 200 {
			group.Go(func() error { report(id); return nil })
		}

		_ = group.Wait()
		dbtest.HasRows(t, d, "engagement", most, "rows")

		p.View(site, "", m{"i": "ffffffffffffffff"})
		p.View(site, "", m{"t": "engagement", "i": "ffffffffffffffff", "ms": 5})
		if row := p.Views(site)[0]; row.EngagedMS != 5 {
			t.Errorf("a page view has %d ms, want 5", row.EngagedMS)
		}
	})
}

func TestBotsAreIgnored(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		for _, agent := range []string{
			"-",
			"curl/8.5.0",
			"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36",
		} {
			c := viewCall(site, "", nil)
			c.Agent = agent
			if status, code := p.Collect(c); status != http.StatusNoContent {
				t.Errorf("%s: %d %s, want 204", agent, status, code)
			}
		}

		testkit.Equal(t, len(p.Views(site)), 0, "page views of bots are stored")
	})
}

// TestQuotaIsExact checks that a hundred concurrent page views do not exceed the quota (analytics
// contract, section 8).
func TestQuotaIsExact(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", 5)
		for range 4 {
			p.View(site, "", nil)
		}

		var mu sync.Mutex
		answers := make(map[string]int)

		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				status, code := p.CollectStored(viewCall(site, fmt.Sprintf("198.51.100.%d", i), map[string]any{"i": "0123456789abcdef"}))
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(status, " ", code)]++
			})
		}

		wg.Wait()

		if want := map[string]int{"204 ": 1, "429 quota_exceeded": 99}; !maps.Equal(answers, want) {
			t.Errorf("answers %v, want %v", answers, want)
		}
		if rows, used := len(p.Views(site)), p.Used(site); rows != 5 || used != 5 {
			t.Errorf("%d rows stored and %d counted, want 5 of both", rows, used)
		}

		// Reports are not counted, and so are accepted.
		p.View(site, "", map[string]any{"t": "engagement", "i": "0123456789abcdef"})

		p.Clock.Set(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))

		// The next month starts with a new count.
		p.View(site, "", nil)

		if used := p.Used(site); used != 1 {
			t.Errorf("count %d in the new month, want 1", used)
		}
	})
}

// TestTwoProcesses checks that two data planes on one PostgreSQL share quotas, visits and purchases
// exactly.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		databaseURL := dbtest.PostgresURL(t)
		planes := [2]*plane{newPlane(t, dbtest.Open(t, databaseURL)), newPlane(t, dbtest.Open(t, databaseURL))}
		small, large, shop := planes[0].site("small.example", 20), planes[0].site("large.example", quota), planes[0].shop("shop.example")
		var accepted sync.Map

		var wg sync.WaitGroup
		for i := range 100 {
			p := planes[i%2]
			wg.Go(func() {
				if status, _ := p.CollectStored(viewCall(small, fmt.Sprintf("198.51.100.%d", i), nil)); status == http.StatusNoContent {
					accepted.Store(i, true)
				}
			})

			wg.Go(func() {
				if status, code := p.CollectStored(viewCall(large, "203.0.113.7", nil)); status != http.StatusNoContent {
					t.Errorf("page view: %d %s", status, code)
				}
			})
			wg.Go(func() {
				purchase := m{"transaction_id": fmt.Sprint(i / 10), "value": 1, "currency": "EUR"}
				if status, code := p.CollectStored(eventCall(shop, "203.0.113.7", "purchase", purchase, nil)); status != http.StatusNoContent {
					t.Errorf("purchase: %d %s", status, code)
				}
			})
		}

		wg.Wait()

		if events, deliveries, used := len(planes[0].Events(shop)), len(planes[0].deliveries(shop)), planes[0].Used(shop); events != 10 ||
			deliveries != 10 || used != 10 {
			t.Errorf("100 calls for 10 purchases: %d events, %d deliveries, %d counted; want 10 of each", events, deliveries, used)
		}

		n := 0
		accepted.Range(func(any, any) bool { n++; return true })

		if rows, used := len(planes[0].Views(small)), planes[0].Used(small); n != 20 || rows != 20 || used != 20 {
			t.Errorf("%d accepted, %d stored, %d counted; want 20 of each", n, rows, used)
		}

		rows := planes[0].Views(large)
		for _, row := range rows {
			if row.Visit.ID() != rows[0].Visit.ID() || row.Pageviews != 100 {
				t.Fatalf("one visitor's 100 page views at once: visit %s of %d page views and also visit %s; want one visit of 100",
					row.Visit.ID(), row.Pageviews, rows[0].Visit.ID())
			}
		}

		testkit.Equal(t, len(rows), 100, "page views stored")
	})
}

// TestUnavailable checks that collect answers 503 without its database.
func TestUnavailable(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		p.View(site, "", nil)

		testkit.NoError(t, p.DB.Close())

		// The site's cache entry has expired.
		p.Clock.Set(noon.Add(time.Hour))
		status, code := p.Collect(viewCall(site, "", nil))
		if status != http.StatusServiceUnavailable || code != "unavailable" {
			t.Errorf("got %d %s, want 503 unavailable", status, code)
		}
	})
}

// TestDeletedSite: a site that is deleted after both endpoints have cached it is refused by each
// with its own error.
func TestDeletedSite(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("example.com")
		bearer := "Bearer " + p.secret(site)
		event := mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})

		// The site is cached now.
		p.View(site, "", nil)
		if status, body := p.serverCall(http.MethodPost, bearer, event); status != http.StatusOK {
			t.Fatalf("before the deletion: %d %s", status, body)
		}

		testkit.NoError(t, dbtest.Exec(p.DB, "DELETE FROM sites WHERE id = ?", site.ID))
		if status, code := p.Collect(viewCall(site, "", nil)); status != http.StatusNotFound || code != "unknown_site_key" {
			t.Errorf("got %d %s, want 404 unknown_site_key", status, code)
		}
		if status, body := p.serverCall(http.MethodPost, bearer, event); status != http.StatusUnauthorized || body != `{"error":"invalid_secret"}` {
			t.Errorf("got %d %s, want 401 invalid_secret", status, body)
		}
	})
}
