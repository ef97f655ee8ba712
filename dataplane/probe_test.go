package dataplane

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// described returns the description of a request from an address.
func described(t *testing.T, key, from string, header http.Header) string {
	t.Helper()
	trusted := []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")}
	p := &Prober{Key: []byte(key), Clients: web.NewClients(trusted, slog.New(slog.DiscardHandler), time.Now)}
	r := httptest.NewRequest(http.MethodPost, "/collect.php", nil)
	r.RemoteAddr, r.Header = from, header
	w := httptest.NewRecorder()
	p.describe(w, r)
	if len(w.Header()) > 1 || w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("the description adds %v, status %d, body %q", w.Header(), w.Code, w.Body)
	}
	return w.Header().Get(web.ProbeHeader)
}

// TestProbedPaths checks which endpoints describe a request.
func TestProbedPaths(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	h := Handler(Options{Analytics: new(analytics.Service), Captcha: new(captcha.Service), Log: log, Assets: http.NotFoundHandler(),
		Prober: &Prober{Key: []byte("key"), Clients: web.NewClients(nil, log, time.Now)}})

	for path, want := range map[string]bool{
		"/collect.php": true, "/api/send": true, "/0123456789abcdef0123456789abcdef/api/event": true,
		"/0123456789abcdef0123456789abcdef/api/batch": false, "/api/v1/pow/config": true, "/api/v1/pow/verify": true,
		"/openapi.json": false, "/widget/api/v1/pow/config": false, "/svc.js": false,
	} {
		method := http.MethodOptions
		if path == "/openapi.json" {
			method = http.MethodGet
		}
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set(web.ProbeHeader, "0123456789abcdef-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		testkit.Equal(t, w.Header().Get(web.ProbeHeader) != "", want, "%s %s: described", method, path)
	}
}

// value returns a member of a description.
func value(description, name string) string {
	_, rest, _ := strings.Cut("; "+description, "; "+name+"=")
	got, _, _ := strings.Cut(rest, ";")
	return got
}

const asked = "0123456789abcdef-1"

func TestProbeOnlyAnswersItsOwnForm(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{
		nil, {""}, {"1"}, {"0123456789abcdef"}, {"0123456789ABCDEF-1"}, {"0123456789abcde-1"}, {"0123456789abcdef-"}, {"0123456789abcdef-1234"},
		{asked + "\n"}, {asked + "; client=x"}, {asked, asked},
	} {
		testkit.Equal(t, described(t, "key", "203.0.113.5:1", http.Header{web.ProbeHeader: values}), "", "%q is answered", values)
	}

	var none *Prober
	r := httptest.NewRequest(http.MethodPost, "/collect.php", nil)
	r.Header.Set(web.ProbeHeader, asked)
	w := httptest.NewRecorder()
	if none.describe(w, r); len(w.Header()) > 0 {
		t.Errorf("without a prober: %v", w.Header())
	}
}

// TestProbeHidesAddresses: the description has neither the address nor a hash that two
// installations share, and the same address has the same hash in one session only, whether the
// request came directly or through the proxy.
func TestProbeHidesAddresses(t *testing.T) {
	t.Parallel()
	header := func(id, forwarded string) http.Header {
		h := http.Header{web.ProbeHeader: {id}}
		if forwarded != "" {
			h.Set("X-Forwarded-For", forwarded)
		}
		return h
	}
	direct := described(t, "key", "203.0.113.5:1", header(asked, ""))
	if strings.Contains(direct, "203.0.113") || value(direct, "id") != asked || len(value(direct, "client")) != 16 {
		t.Errorf("description %q", direct)
	}
	client := value(direct, "client")

	for name, c := range map[string]struct {
		key, from, id, forwarded string
		same                     bool
	}{
		"again":               {"key", "203.0.113.5:2", asked, "", true},
		"the next question":   {"key", "203.0.113.5:1", "0123456789abcdef-2", "", true},
		"through the proxy":   {"key", "198.51.100.7:1", asked, "203.0.113.5", true},
		"a claimed address":   {"key", "198.51.100.7:1", asked, "192.0.2.1, 203.0.113.5", true},
		"another client":      {"key", "203.0.113.6:1", asked, "", false},
		"the proxy's":         {"key", "198.51.100.7:1", asked, "", false},
		"another session":     {"key", "203.0.113.5:1", "1123456789abcdef-1", "", false},
		"another application": {"other", "203.0.113.5:1", asked, "", false},
	} {
		if got := described(t, c.key, c.from, header(c.id, c.forwarded)); (value(got, "client") == client) != c.same {
			t.Errorf("%s: %q, directly %q", name, got, direct)
		}
	}
}

func TestProbeDescribesHeaders(t *testing.T) {
	t.Parallel()
	all := http.Header{web.ProbeHeader: {asked}, "Cookie": {"session=secret"}, "Authorization": {"Basic secret"},
		"Referer": {"https://shop.example/?secret"},
		"Origin":  {"https://shop.example"}, "User-Agent": {"secret"}}
	got := described(t, "key", "10.0.0.1:1", all)
	for _, name := range []string{"origin", "cookie", "authorization", "referer", "internal"} {
		testkit.Equal(t, value(got, name), "1", "%s in %q", name, got)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("description %q", got)
	}

	// A header that is missing or changed has another hash; the other headers keep theirs.
	for name, header := range BrowserHeaders {
		changed := described(t, "key", "10.0.0.1:1", http.Header{web.ProbeHeader: {asked}, header: {"secret"}})
		for other := range BrowserHeaders {
			if same := value(changed, other) == value(got, other); same != (other != name) || len(value(got, other)) != 16 {
				t.Errorf("with %s: %s=%q, without it %q", header, other, value(changed, other), value(got, other))
			}
		}
		if strings.Contains(changed, "secret") {
			t.Errorf("description %q", changed)
		}
	}

	got = described(t, "key", "203.0.113.5:1", http.Header{web.ProbeHeader: {asked}})
	for _, name := range []string{"origin", "cookie", "authorization", "referer", "internal"} {
		testkit.Equal(t, value(got, name), "0", "%s in %q", name, got)
	}

	for from, want := range map[string]string{"10.0.0.1:1": "unknown-proxy", "198.51.100.7:1": "hidden-clients", "203.0.113.5:1": "none"} {
		got := described(t, "key", from, http.Header{web.ProbeHeader: {asked}, "X-Forwarded-For": {"198.51.100.7"}})
		testkit.Equal(t, value(got, "shared"), want, "from %s: %q", from, got)
	}
}
