package test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// ask sends a request with a Host header, and returns the response with its body.
func ask(t *testing.T, method, url, host, origin, body string) (*http.Response, string) {
	t.Helper()
	header := map[string]string{"Host": host, "Content-Type": "application/json"}
	if origin != "" {
		header["Origin"] = origin
	}
	return exchange(t, stays, method, url, body, header)
}

// TestRebinding checks that a page whose name resolves to a new instance cannot sign up there
// first.
func TestRebinding(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	p := start(t, settings, []string{"control", "data"})
	_, port, _ := strings.Cut(p.addr["control"], ":")
	const signUp = `{"query":"mutation { signUp(input: {email: \"evil@evil.test\", password: \"a long password\", accountName: \"E\"}) { viewer { email } } }"}`
	response, body := ask(t, "POST", "http://"+p.addr["control"]+"/graphql", "evil.test:"+port,
		"http://evil.test:"+port, signUp)
	if response.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, "TALLYGATE_BASE_URL") ||
		!strings.Contains(body, `"code":"wrong_host"`) {
		t.Errorf("sign-up from evil.test: %s %s", response.Status, body)
	}

	p.kill()

	if n, err := dbtest.Count(dbtest.Open(t, "sqlite:"+settings["TALLYGATE_DATA_DIR"]+"/tallygate.sqlite"),
		"users"); err != nil || n != 0 {
		t.Errorf("%d users, %v", n, err)
	}
}

// TestHosts checks that the control plane accepts its own and this machine's names, the data plane
// any name, and health checks any address.
func TestHosts(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name, baseURL, addr string
		own, foreign        []string
	}{
		{"base URL", "https://App.Example.com", "127.0.0.1:0",
			[]string{"app.example.com", "APP.example.com:8443", "app.example.com.", "localhost", "localhost:1",
				"127.0.0.1:99", "127.9.9.9", "[::1]:8080"},
			[]string{"evil.test", "example.com", "app.example.com.evil.test", "127.0.0.1.evil.test",
				"localhost.evil.test", "10.0.0.1", "x.localhost", "[::2]"}},
		{"no base URL", "", "127.0.0.1:0", []string{"127.0.0.1:1", "localhost"},
			[]string{"evil.test", "192.0.2.1:8080"}},
		{"all addresses", "", "0.0.0.0:0", []string{"127.0.0.1:1", "localhost"},
			[]string{"evil.test", "192.0.2.1:8080"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings["TALLYGATE_CONTROL_ADDR"] = test.addr

			if test.baseURL != "" {
				settings["TALLYGATE_BASE_URL"] = test.baseURL
			}

			p := start(t, settings, []string{"control", "data"})
			control := strings.Replace(p.addr["control"], "[::]", "127.0.0.1", 1)
			status := func(path, host string) int {
				t.Helper()
				response, _ := ask(t, "GET", "http://"+control+path, host, "", "")
				return response.StatusCode
			}
			for _, host := range test.own {
				testkit.Equal(t, status("/", host), http.StatusOK, "%s", host)
			}

			for _, host := range test.foreign {
				for _, path := range []string{"/", "/graphql", "/products/analytics/api/export.php",
					"/reset-password"} {
					testkit.Equal(t, status(path, host), http.StatusMisdirectedRequest, "%s%s", host, path)
				}

				for _, path := range []string{"/healthz", "/readyz"} {
					testkit.Equal(t, status(path, host), http.StatusOK, "%s%s", host, path)
				}

				if response, _ := ask(t, "GET", "http://"+p.addr["data"]+"/svc.js", host, "",
					""); response.StatusCode != http.StatusOK {
					t.Errorf("data plane, %s: %s", host, response.Status)
				}
			}
		})
	}
}

// TestStrictTransport checks that with https both listeners send Strict-Transport-Security, and
// that with http neither does and the start warns.
func TestStrictTransport(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name, base, analytics, captcha string
		control, data                  bool
		warned                         []string
	}{
		{"https", "https://app.example.com", "https://stats.example.com", "https://stats.example.com", true, true, nil},
		{"http", "http://app.example.com", "http://stats.example.com", "http://127.0.0.1:1", false, false,
			[]string{"TALLYGATE_BASE_URL", "TALLYGATE_ANALYTICS_URL"}},
		{"a plain captcha", "https://app.example.com", "https://stats.example.com", "http://captcha.example.com", true,
			false, []string{"TALLYGATE_CAPTCHA_URL"}},
		{"loopback", "http://localhost:8080", "http://[::1]:8081", "http://captcha.localhost", false, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings["TALLYGATE_BASE_URL"], settings["TALLYGATE_ANALYTICS_URL"],
				settings["TALLYGATE_CAPTCHA_URL"] = test.base, test.analytics, test.captcha
			p := start(t, settings, []string{"control", "data"})
			for _, question := range []struct {
				role, path string
				want       bool
			}{{"control", "/graphql", test.control}, {"control", "/nowhere", test.control},
				{"data", "/svc.js", test.data}, {"data", "/collect.php", test.data}} {
				response, _ := ask(t, "GET", "http://"+p.addr[question.role]+question.path, "localhost", "", "")
				want := ""
				if question.want {
					want = "max-age=31536000"
				}
				testkit.Equal(t, response.Header.Get("Strict-Transport-Security"), want, "%s%s", question.role, question.path)
			}

			if n := strings.Count(p.logged(), "the public origin is http;"); n != len(test.warned) {
				t.Errorf("%d warnings, want %d:\n%s", n, len(test.warned), p.logged())
			}

			for _, setting := range test.warned {
				if !strings.Contains(p.logged(), `"setting":"`+setting+`"`) {
					t.Errorf("no warning of %s:\n%s", setting, p.logged())
				}
			}
		})
	}
}
