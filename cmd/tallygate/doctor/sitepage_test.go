package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	pageKey  = "0123456789abcdef0123456789abcdef"
	otherKey = "fedcba9876543210fedcba9876543210"
)

// newPageCheck returns a check of the page http://shop.example/about/.
func newPageCheck(t *testing.T) *siteCheck {
	t.Helper()
	page, err := ParseSite("http://shop.example/about/")
	testkit.NoError(t, err)
	s := newSiteCheck(page)
	s.c = &config.Config{AnalyticsURL: "http://stats.example"}
	s.server = "http://stats.example"
	return s
}

// TestReadPage finds the tags of all trackers in the markup of pages, and the site key of each.
func TestReadPage(t *testing.T) {
	t.Parallel()

	const (
		server  = "http://stats.example"
		below   = server + "/" + pageKey
		withIDs = "01234567-89ab-cdef-0123-456789abcdef" // pageKey in the shape of a UUID
	)
	for name, test := range map[string]struct{ page, script, key, calls string }{
		"our tag": {`<script defer src="` + server + `/svc.js" data-site="` + pageKey + `"></script>`, server + "/svc.js", pageKey, ""},
		"a version": {
			page:   `<script src=` + server + `/svc.0123456789ab.js data-site=` + pageKey + `></script>`,
			script: server + "/svc.0123456789ab.js", key: pageKey,
		},
		"of the website": {`<SCRIPT SRC="/x/app.js" DATA-SITE="` + pageKey + `"></SCRIPT>`, "http://shop.example/x/app.js", pageKey, ""},
		"a folder's hash": {
			page:   `<script src="/` + otherKey + `/app.js" data-site="` + pageKey + `"></script>`,
			script: "http://shop.example/" + otherKey + "/app.js", key: pageKey,
		},
		"without protocol": {`<script src="//stats.example/svc.js" data-site='` + pageKey + `'></script>`, server + "/svc.js", pageKey, ""},
		"in a tag manager": {
			page:   `<script>s.src = '` + server + `/svc.js'; s.setAttribute('data-site', '` + pageKey + `');</script>`,
			script: server + "/svc.js", key: pageKey,
		},
		"Umami": {
			page:   `<script defer src="` + server + `/script.js" data-website-id="` + pageKey + `"></script>`,
			script: server + "/script.js", key: pageKey,
		},
		"Umami, a UUID": {`<script src="` + server + `/umami.js" data-website-id="` + withIDs + `"></script>`, server + "/umami.js", pageKey, ""},
		"Umami, no key": {`<script src="` + server + `/script.js" data-website-id="shop"></script>`, server + "/script.js", "", ""},
		"Umami, old id": {
			page:   `<script src="` + below + `/script.js" data-website-id="` + otherKey + `"></script>`,
			script: below + "/script.js", key: pageKey,
		},
		"Umami, another": {
			page:   `<script src="/u.js" data-website-id="` + pageKey + `" data-host-url="/x/"></script>`,
			script: "http://shop.example/u.js", key: pageKey, calls: "/x/api/send",
		},
		"Plausible": {
			page:   `<script defer data-domain="shop.example" src="` + below + `/js/script.js"></script>`,
			script: below + "/js/script.js", key: pageKey,
		},
		"Plausible, list": {
			page:   `<script data-domain="shop.example,` + pageKey + `" src="` + server + `/js/script.hash.js"></script>`,
			script: server + "/js/script.hash.js", key: pageKey,
		},
		"Plausible, pa": {
			page:   `<script async src="` + server + `/js/pa-` + pageKey + `.js"></script>`,
			script: server + "/js/pa-" + pageKey + ".js", key: pageKey,
		},
		"Plausible, no key": {
			page:   `<script data-domain="shop.example" src="` + server + `/js/plausible.js"></script>`,
			script: server + "/js/plausible.js", key: "",
		},
		"Plausible, calls": {
			`<script data-domain="shop.example" data-api="` + below + `/api/event" src="/js/script.js"></script>`,
			"http://shop.example/js/script.js", pageKey, below + "/api/event",
		},
		"GoatCounter": {
			`<script data-goatcounter="` + below + `/count" async src="` + below + `/count.js"></script>`, below + "/count.js", pageKey, below + "/count",
		},
		"Matomo, our snippet": {
			`<script>_paq.push(['setTrackerUrl', "` + below + `/matomo.php"], ['setSiteId', '1']); script.src = "` + below + `/matomo.js";</script>`,
			below + "/matomo.js", pageKey, "",
		},
		"Matomo, the usual snippet": {
			`<script>var u="//stats.example/"; _paq.push(['setTrackerUrl', u+'matomo.php']); _paq.push(['setSiteId', '` + pageKey +
				`']); g.src=u+'matomo.js';</script>`,
			server + "/matomo.js", pageKey, "",
		},
		"Matomo, no key": {
			`<script>var u="//stats.example/"; _paq.push(['setSiteId', 1]); g.src=u+'matomo.js';</script>`, server + "/matomo.js", "", "",
		},
		"Matomo, of the website": {
			`<script>var shop = "https://shop.example/about", u="//shop.example/x/"; _paq.push(['setSiteId', 1]); g.src=u+'matomo.js';</script>`,
			"http://shop.example/x/matomo.js", "", "",
		},
		"after others": {
			`<script>var text = "</scrip";</script><script src="https://cdn.example/script.js"></script><script src="` + server + `/captcha.js"></script>` +
				`<!-- <script src="` + server + `/umami.js"> --><script src="` + server + `/script.js" data-website-id="` + pageKey + `">`,
			server + "/script.js", pageKey, "",
		},
		"other products' servers": {
			page: `<script data-domain="shop.example" src="https://plausible.io/js/script.js"></script><script src="/script.js"></script>` +
				`<script data-goatcounter="https://shop.goatcounter.com/count" src="//gc.zgo.at/count.js"></script>`,
		},
		"a nonce": {`<script nonce="` + otherKey + `" src="` + server + `/script.js"></script>`, server + "/script.js", "", ""},
		"nothing": {page: "<p>Shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPageCheck(t)
			found := s.readPage([]byte("<!doctype html><title>Shop</title>" + test.page))
			script := ""
			if found {
				script = s.script.String()
			}
			if script != test.script || s.key != test.key || s.calls != test.calls {
				t.Errorf("script %q, key %q, calls %q; want %q, %q, %q", script, s.key, s.calls, test.script, test.key, test.calls)
			}
			if found == (len(s.report.Findings) > 0) {
				t.Errorf("findings %+v", s.report.Findings)
			}
		})
	}
}

// TestCheckPage checks what is called for the tag of a page, and what the answers mean. The site of
// pageKey accepts shop.example only.
func TestCheckPage(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		tag  string
		want string // call, and checks of the findings
	}{
		"svc.js":        {`<script src="//stats.example/svc.js" data-site="` + pageKey + `"></script>`, "/collect.php"},
		"Umami":         {`<script src="//stats.example/script.js" data-website-id="` + pageKey + `"></script>`, "/api/send"},
		"in the path":   {`<script src="//stats.example/` + pageKey + `/umami.js" data-website-id="1"></script>`, "/" + pageKey + "/api/send"},
		"no key":        {`<script src="//stats.example/script.js" data-website-id="1"></script>`, "/api/send site-key"},
		"unknown key":   {`<script src="//stats.example/svc.js" data-site="` + otherKey + `"></script>`, "/collect.php site-key"},
		"not a tracker": {`<script src="/jquery.js" data-site="` + pageKey + `"></script>`, " site-script-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			call := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch body, _ := io.ReadAll(r.Body); {
				case r.Host == "shop.example" && r.URL.Path == "/about/":
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					_, _ = io.WriteString(w, test.tag)
				case r.Host == "shop.example":
					_, _ = io.WriteString(w, "/* jQuery */")
				case r.Method == http.MethodGet:
					assets.Handler().ServeHTTP(w, r)
				default:
					call = r.URL.Path
					if r.Header.Get("Origin") == "http://shop.example" && strings.Contains(call+string(body), pageKey) {
						w.WriteHeader(http.StatusNoContent)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"error":"unknown_site_key"}`)
				}
			}))
			t.Cleanup(server.Close)

			s := newPageCheck(t)
			s.direct.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(server.URL, "http://"))
			}}
			s.check(t.Context())

			got := []string{call}
			for _, f := range s.report.Findings {
				got = append(got, f.Check)
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("%q, want %q; %+v", text, test.want, s.report)
			}
			if isFace := strings.Contains(test.want, "/api/send"); slices.Contains(s.report.Checked, "script for Umami") != isFace {
				t.Errorf("checked %q", s.report.Checked)
			}
		})
	}
}

// TestAddressOfCalls compares the addresses of calls with those that the scripts build.
func TestAddressOfCalls(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ script, calls, want string }{
		{"https://shop.example/x/app.js?v=1", "", "https://shop.example/x/collect.php"},
		{"https://shop.example/x/u.js", "", "https://shop.example/x/api/send"},
		{"https://shop.example/x/u.js", "/y/api/send", "https://shop.example/y/api/send"},
		{"https://stats.example/js/script.js", "", "https://stats.example/api/event"},
		{"https://shop.example/x/" + pageKey + "/js/script.js", "", "https://shop.example/x/" + pageKey + "/api/event"},
		{"https://shop.example/x/count.js", "", "https://shop.example/x/count"},
		{"https://shop.example/x/matomo.js", "", "https://shop.example/x/matomo.php"},
	} {
		s := &siteCheck{page: &url.URL{Scheme: "https", Host: "shop.example", Path: "/"}, calls: test.calls}
		s.script, _ = url.Parse(test.script)
		for _, tracker := range trackers {
			if strings.HasSuffix(test.want, "/"+tracker.calls) {
				s.tracker = tracker
			}
		}
		testkit.Equal(t, s.addressOf(collectEndpoint(s.tracker.calls, "")), test.want, "%s calls", test.script)
	}
}

// TestRecognise compares all trackers that the server has with the files that the checks compare
// them with.
func TestRecognise(t *testing.T) {
	t.Parallel()

	file := func(path string) string {
		w := httptest.NewRecorder()
		assets.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	for _, path := range assets.Paths() {
		path = strings.Replace(path, "{key}", pageKey, 1)
		s := newPageCheck(t)
		isTracker := trackerNames.MatchString(path)
		if s.recognise([]byte(file(path))) != isTracker || isTracker && file(path) != file("/"+s.tracker.file) {
			t.Errorf("%s is recognised as %+v", path, s.tracker)
		}
	}
}
