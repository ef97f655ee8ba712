package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownProxyIsReported checks that requests forwarded by a loopback peer cause one log line
// and a warning of /readyz, which stays 200, until the proxy is configured. No address is logged.
func TestUnknownProxyIsReported(t *testing.T) {
	t.Parallel()

	const setting = "TALLYGATE_TRUSTED_PROXIES"
	for _, trusted := range []string{"", "127.0.0.1"} {
		t.Run("trusted "+trusted, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings[setting] = trusted
			p := start(t, settings, []string{"control", "data"})
			site := newOwner(t, p).signUp("proxy.localhost")

			for range 3 {
				response, _ := exchange(t, http.DefaultClient, http.MethodPost, "http://"+p.addr["data"]+"/collect.php",
					fmt.Sprintf(`{"k":"%s","t":"pageview","p":"/"}`, site.SiteKey),
					map[string]string{"Origin": "https://proxy.localhost", "X-Forwarded-For": "203.0.113.9"})
				testkit.Require(t, response.StatusCode, http.StatusNoContent, "page view: %s", response.Status)
			}

			// Each process knows its own listener.
			exchange(t, http.DefaultClient, http.MethodPost, "http://"+p.addr["control"]+"/graphql", `{"query":"{ viewer { id } }"}`,
				map[string]string{"Content-Type": "application/json", "X-Forwarded-For": "203.0.113.9"})

			want := 1

			if trusted != "" {
				want = 0
			}

			for _, role := range []string{"control", "data"} {
				status, body := get(t, "http://"+p.addr[role]+"/readyz")
				if status != 200 || !strings.HasPrefix(body, "ok\n") || strings.Count(body, "\nwarning: ") != want ||
					strings.Count(body, setting) != want {
					t.Errorf("%s: %d %q, want %d warning", role, status, body, want)
				}
			}

			p.kill()
			log := p.logged()
			if strings.Count(log, "requests come through a proxy") != 2*want || strings.Contains(log, "203.0.113.9") {
				t.Errorf("want %d warnings without an address, one of each process, got:\n%s", 2*want, log)
			}
		})
	}
}
