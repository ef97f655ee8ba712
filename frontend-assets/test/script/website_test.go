// Package script_test tests the browser script in real browsers. Tests named TestChromium… and
// TestFirefox… compare the messages that it sends to a stub (world); tests named TestStored…
// compare what the real data plane stores of them (shop).
package script_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
)

const siteKey = "0123456789abcdef0123456789abcdef"

// dataOrigin is the origin of the script and its endpoint, which always differs from the page's.
const dataOrigin = "http://data.example.test"

// tag returns the script element that site owners paste, with further attributes.
func tag(attributes string) string {
	return fmt.Sprintf(`<script defer src="%s/svc.js" data-site="%s" %s></script>`, dataOrigin, siteKey, attributes)
}

// website is served under several host names, with a stub of the data plane that records messages, and
// a browser that reaches only these servers.
type website struct {
	t       testing.TB
	browser *browsertest.Browser
	numeric string // the site's origin by address, which browsers treat as secure, unlike its names
	arrived chan hit
	reports chan string   // queries that pages sent by fetch("/report?…")
	release chan struct{} // closed or sent to by tests whose pages wait for fetch("/wait")

	mu      sync.Mutex // guards what follows
	pages   map[string]string
	headers http.Header // of every page
}

// hit is one request to /collect.php.
type hit struct {
	method string
	header http.Header
	raw    string
	body   map[string]any
}

// String shows a hit in failure messages.
func (h hit) String() string { return h.method + " " + h.raw }

// newWorld is startWorld for a test that runs in parallel with others.
func newWorld(t *testing.T, pages map[string]string) *website {
	t.Helper()
	t.Parallel()
	return startWorld(t, pages)
}

// startWorld starts servers and browser. Pages are given by path, the same under every host name.
func startWorld(t testing.TB, pages map[string]string) *website {
	t.Helper()

	w := &website{
		t: t, arrived: make(chan hit, 1000), reports: make(chan string, 1000), release: make(chan struct{}),
		pages: pages, headers: http.Header{},
	}
	data := http.NewServeMux()
	data.Handle("/svc.js", assets.Handler())
	data.HandleFunc("/collect.php", w.collect)
	dataServer := httptest.NewServer(data)
	t.Cleanup(dataServer.Close)
	site := httptest.NewServer(http.HandlerFunc(w.servePage))
	t.Cleanup(site.Close)
	w.numeric = site.URL
	w.browser = browsertest.New(t,
		browsertest.Host("data.example.test", dataServer.URL),
		browsertest.Host("shop.example.test", site.URL),
		browsertest.Host("*.shop.example.test", site.URL),
		browsertest.Host("other.example", site.URL),
	)

	return w
}

func (w *website) servePage(res http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/report":
		w.reports <- r.URL.RawQuery
		return
	case "/wait":
		select {
		case <-w.release:
		case <-r.Context().Done():
		}

		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	page, ok := w.pages[r.URL.Path]
	if !ok {
		http.NotFound(res, r)
		return
	}

	for name := range w.headers {
		res.Header().Set(name, w.headers.Get(name))
	}

	res.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(res, "<!doctype html><link rel=icon href=data:,>"+page)
}

func (w *website) collect(res http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	h := hit{method: r.Method, header: r.Header, raw: string(raw)}

	if err == nil {
		err = json.Unmarshal(raw, &h.body)
	}
	if err != nil {
		w.t.Errorf("collect.php received %s: %v", h, err)
	}

	res.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	res.WriteHeader(http.StatusNoContent)
	w.arrived <- h
}

// next waits for the next message that the data plane receives.
func (w *website) next() hit {
	w.t.Helper()
	select {
	case h := <-w.arrived:
		return h
	case <-time.After(browsertest.Timeout):
		w.t.Fatal("no message arrived")
		return hit{}
	}
}

// nextOf waits for one message of each type, and returns them in the order of the types. Messages
// sent together may arrive in any order, so the types must differ.
func (w *website) nextOf(types ...string) []hit {
	w.t.Helper()

	found := make([]hit, len(types))

	for range types {
		h := w.next()
		name, _ := h.body["t"].(string)
		if name == "event" {
			name, _ = h.body["e"].(string)
		}

		known := false
		for i := range types {
			if types[i] == name && found[i].raw == "" {
				found[i], known = h, true
				break
			}
		}

		if !known {
			w.t.Fatalf("received %s, expected one of %v", h, types)
		}
	}

	return found
}

// nothingBeyondRead checks that no message has arrived which the test has not read.
func (w *website) nothingBeyondRead(when string) {
	w.t.Helper()

	select {
	case h := <-w.arrived:
		w.t.Errorf("%s: unexpected message %s", when, h)
	default:
	}
}

// nothingBeyond checks that a page has sent the given number of messages, and that no message has
// arrived which the test has not read. The browser reports a request when the page makes it, so
// there is nothing to wait for.
func (w *website) nothingBeyond(page *browsertest.Page, sent int) {
	w.t.Helper()

	page.Eval("0", nil)
	var messages []string
	for _, r := range page.Requests() {
		if strings.HasSuffix(r.URL, "/collect.php") {
			messages = append(messages, r.Method+" "+r.URL)
		}
	}

	if len(messages) != sent {
		w.t.Errorf("the page has made %d requests to collect.php, want %d", len(messages), sent)
	}

	w.nothingBeyondRead("at the end")
}

var viewID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// expect compares a message with JSON. The JSON omits k, i, w and l, which all messages have in
// common and which are checked here, and may omit an empty u.
func (w *website) expect(page *browsertest.Page, h hit, want string) {
	w.t.Helper()

	var screen struct {
		W float64
		L string
	}

	page.Eval("({w: screen.width, l: navigator.language})", &screen)
	expected := map[string]any{"k": siteKey, "w": screen.W, "l": screen.L, "i": h.body["i"], "u": map[string]any{}}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		w.t.Fatalf("%s: %v", want, err)
	}
	if id, _ := h.body["i"].(string); !viewID.MatchString(id) {
		w.t.Errorf("page view id %v is not 16 hexadecimal characters", h.body["i"])
	}

	if !reflect.DeepEqual(h.body, expected) {
		b, _ := json.Marshal(expected)
		w.t.Errorf("received\n  %s, want\n  %s", h.raw, b)
	}

	if got := h.header.Get("Content-Type"); h.method != "POST" || got != "text/plain;charset=UTF-8" {
		w.t.Errorf("%s with Content-Type %q", h.method, got)
	}
	if screen.W < 1 || screen.L == "" {
		w.t.Errorf("screen width %v, language %q", screen.W, screen.L)
	}
}

// clock replaces the page's clock by one that only the test advances: later(1000) is a second.
const clock = `{ let now = 5; performance.now = () => now; window.later = (ms) => { now += ms } }`

// open opens a page whose clock only the test advances.
func (w *website) open(address string) *browsertest.Page {
	w.t.Helper()
	page := w.browser.NewPage()
	page.Before(clock)
	page.Goto(address)
	return page
}
