package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// personal is what a request contains that must not be in the access log. All values are made up
// and occur nowhere else.
var personal = []string{"198.51.100.77", "Firefox/145.77", "personal-page", "personal-query", "personal-campaign",
	"personal-referrer", "personal-user", "personal-header", "shop.example", "4bf92f3577b34da6a3ce929d0e0e4736", "order-77"}

// sendPersonal sends calls with everything that could identify a visitor.
func sendPersonal(t *testing.T, p *process, siteKey string) {
	t.Helper()

	calls := []struct {
		method, url, body string
		status            int
	}{
		{"POST", "http://" + p.addr["data"] + "/collect.php?personal-query=1", `{"k":"` + siteKey + `","t":"pageview",
			"p":"/personal-page","r":"https://personal-referrer.example/","u":{"utm_campaign":"personal-campaign"}}`, 204},
		{"POST", "http://" + p.addr["data"] + "/collect.php", `{"k":"` + siteKey + `","t":"event","p":"/personal-page",
			"e":"purchase","m":{"transaction_id":"order-77","value":19.9,"currency":"EUR"}}`, 204},
		{"GET", "http://" + p.addr["data"] + "/personal-page?personal-query=1", "", 404},
		{"GET", "http://" + p.addr["control"] + "/personal-page?personal-query=1", "", 404},
		{"POST", "http://" + p.addr["control"] + "/graphql", `{"query":"{ viewer { id } } # personal-query"}`, 403},
	}
	for _, call := range calls {
		response, text := exchange(t, http.DefaultClient, call.method, call.url, call.body, map[string]string{
			"Origin": "https://shop.example", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.77",
			"X-Forwarded-For": "198.51.100.77", "Referer": "https://personal-referrer.example/", "Cookie": "x=personal-header",
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tracestate": "x=personal-header",
			"Baggage": "user=personal-user", "Content-Type": "application/json",
		})
		testkit.Require(t, response.StatusCode, call.status, "%s %s: %s", call.method, call.url, text)
	}
}

// startPersonal starts a process on SQLite with an access log and a site that has a webhook.
func startPersonal(t *testing.T) (p *process, siteKey string) {
	t.Helper()

	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)

	dir := t.TempDir()
	p = start(t, map[string]string{
		"TALLYGATE_DATA_DIR": dir, "TALLYGATE_SECRET": dbtest.ApplicationKey, "TALLYGATE_TRUSTED_PROXIES": "127.0.0.1",
		"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.1", "TALLYGATE_WEBHOOK_CA_FILE": certificateFile(t, receiver), "TALLYGATE_ACCESS_LOG": "true",
	}, []string{"control", "data"})
	return p, makeSite(t, dbtest.Open(t, db.EmbeddedURL(dir)), receiver.URL)
}

// TestAccessLog checks the lines of the access log, and that they contain nothing personal.
func TestAccessLog(t *testing.T) {
	t.Parallel()

	p, siteKey := startPersonal(t)
	sendPersonal(t, p, siteKey)
	p.signal(syscall.SIGTERM)

	type line struct {
		Time                            time.Time
		Level, Msg, Role, Method, Route string
		Status                          int
		Bytes                           int64
		Seconds                         float64
	}

	var lines []line
	decoder := json.NewDecoder(bytes.NewReader(p.Out.Bytes()))
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var l line
		if err := decoder.Decode(&l); err != nil {
			t.Fatalf("%v in\n%s", err, p.Out)
		}
		lines = append(lines, l)
	}

	want := []string{"data POST /collect.php 204", "data POST /collect.php 204", "data GET scripts 404", "control GET other 404",
		"control POST /graphql 403"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), p.Out)
	}
	for i, l := range lines {
		if got := fmt.Sprint(l.Role, " ", l.Method, " ", l.Route, " ", l.Status); got != want[i] || l.Msg != "request" ||
			l.Time.IsZero() || l.Seconds <= 0 || (l.Bytes > 0) != (l.Status != 204) {
			t.Errorf("line %d: %+v, want %s", i+1, l, want[i])
		}
	}

	for _, secret := range append(personal, siteKey, "127.0.0.1") {
		if strings.Contains(p.Out.String(), secret) || strings.Contains(p.logged(), secret) && secret != "127.0.0.1" {
			t.Errorf("a log contains %q:\n%s\n%s", secret, p.Out, p.logged())
		}
	}
}
