package script_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
)

// TestFirefoxOriginUnderEveryReferrerPolicy checks that Firefox sends the page's origin under every
// policy.
func TestFirefoxOriginUnderEveryReferrerPolicy(t *testing.T) {
	t.Parallel()

	var stops []stop
	for _, policy := range []string{"no-referrer", "same-origin", "strict-origin", "strict-origin-when-cross-origin", "unsafe-url"} {
		stops = append(stops, stop{name: policy, policy: policy})
	}
	visitInFirefox(t, stops)
}

// TestFirefoxReplacedFetch checks that pages with a replaced fetch send each message once.
func TestFirefoxReplacedFetch(t *testing.T) {
	t.Parallel()

	var stops []stop
	for _, what := range slices.Sorted(maps.Keys(browsertest.ReplacedFetch)) {
		stops = append(stops, stop{name: strings.ReplaceAll(what, " ", "-"), policy: "strict-origin", script: browsertest.ReplacedFetch[what]})
	}
	visitInFirefox(t, stops)
}

// stop is a page of a visit in Firefox.
type stop struct {
	name   string // its path, without the slash
	policy string // its Referrer-Policy
	script string // runs before the browser script
}

// visitInFirefox visits one page after another in a real Firefox, and leaves each page as soon as
// its page view has arrived. Each page must send its page view and its engagement, which leaves
// while the page unloads, once and with the page's origin.
func visitInFirefox(t *testing.T, stops []stop) {
	t.Helper()

	w := &website{t: t, arrived: make(chan hit, 100)}
	leave := make(chan bool, len(stops))

	data := http.NewServeMux()
	data.Handle("/svc.js", assets.Handler())
	data.HandleFunc("/collect.php", w.collect)
	dataServer := httptest.NewServer(data)
	t.Cleanup(dataServer.Close)

	site := http.NewServeMux()
	site.HandleFunc("/leave", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})

	for i, s := range stops {
		next := "end"
		if i+1 < len(stops) {
			next = stops[i+1].name
		}
		site.HandleFunc("/"+s.name, func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set("Content-Type", "text/html")
			res.Header().Set("Referrer-Policy", s.policy)
			_, _ = fmt.Fprintf(res, `<!doctype html><link rel=icon href=data:,><script>%s</script>%s<script>{
				const call = new XMLHttpRequest(); call.onload = () => { location.href = "/%s" }
				call.open("GET", "/leave?%s"); call.send() }</script>`, s.script, tag(""), next, s.name)
		})
	}

	site.HandleFunc("/end", func(res http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(res, "<!doctype html>") })
	siteServer := httptest.NewServer(site)
	t.Cleanup(siteServer.Close)

	browsertest.OpenFirefox(t, "http://shop.example.test/"+stops[0].name,
		browsertest.Host("shop.example.test", siteServer.URL), browsertest.Host("data.example.test", dataServer.URL))

	var want, got []string
	for _, s := range stops {
		want = append(want, "/"+s.name+" pageview", "/"+s.name+" engagement")
	}

	// The last message of a page may arrive after the first one of the next page.
	for range want {
		select {
		case h := <-w.arrived:
			name := fmt.Sprint(h.body["p"], " ", h.body["t"])
			got = append(got, name)

			if origin := h.header.Get("Origin"); h.method != http.MethodPost || origin != "http://shop.example.test" {
				t.Errorf("%s: %s with the Origin %q", name, h.method, origin)
			}
			if kind, cookie := h.header.Get("Content-Type"), h.header.Get("Cookie"); kind != "text/plain;charset=UTF-8" || cookie != "" {
				t.Errorf("%s: Content-Type %q, Cookie %q", name, kind, cookie)
			}
			if h.body["t"] == "pageview" {
				leave <- true
			}
		case <-time.After(browsertest.Timeout):
			t.Fatalf("arrived: %q, want %q", got, want)
		}
	}

	slices.Sort(want)

	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("arrived: %q, want %q", got, want)
	}
}
