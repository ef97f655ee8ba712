package script_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/frontend-assets/browsertest"
)

// TestFirefoxOriginUnderEveryReferrerPolicy visits one page after another in a real Firefox, and leaves
// each page as soon as its page view has arrived. Both messages must carry the page's origin, also
// the one that is sent while the page unloads.
func TestFirefoxOriginUnderEveryReferrerPolicy(t *testing.T) {
	t.Parallel()

	policies := []string{"no-referrer", "same-origin", "strict-origin", "strict-origin-when-cross-origin", "unsafe-url"}
	w := &world{t: t, arrived: make(chan hit, 100)}
	leave := make(chan bool, len(policies))

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

	site.HandleFunc("/{policy}", func(res http.ResponseWriter, r *http.Request) {
		policy := r.PathValue("policy")
		next := append(policies[slices.Index(policies, policy)+1:], "end")[0]
		res.Header().Set("Content-Type", "text/html")
		res.Header().Set("Referrer-Policy", policy)
		_, _ = fmt.Fprintf(res, `<!doctype html><link rel=icon href=data:,>%s<script>fetch("/leave?%s").then(() => { location.href = "/%s" })</script>`,
			tag(""), policy, next)
	})

	site.HandleFunc("/end", func(res http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(res, "<!doctype html>") })
	siteServer := httptest.NewServer(site)
	t.Cleanup(siteServer.Close)

	browsertest.OpenFirefox(t, "http://shop.example.test/"+policies[0],
		browsertest.Host("shop.example.test", siteServer.URL), browsertest.Host("data.example.test", dataServer.URL))

	var want, got []string
	for _, policy := range policies {
		want = append(want, "/"+policy+" pageview", "/"+policy+" engagement")
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
