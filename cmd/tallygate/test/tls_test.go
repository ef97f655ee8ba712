package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/acmetest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The hosts of the tests. The DNS server of acmetest resolves them to this machine.
const appHost, statsHost = "app.tallygate.test", "stats.tallygate.test"

// tlsSettings are the settings of a process that terminates TLS. Its public addresses have the port
// of its listener.
func tlsSettings(t *testing.T, databaseURL string) map[string]string {
	settings := settingsFor(t, databaseURL)
	secure := dbtest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(secure)
	maps.Copy(settings, map[string]string{
		"TALLYGATE_TLS": "auto", "TALLYGATE_TLS_ADDR": secure, "TALLYGATE_TLS_HTTP_ADDR": dbtest.FreeAddress(t),
		"TALLYGATE_BASE_URL": "https://" + appHost + ":" + port, "TALLYGATE_ANALYTICS_URL": "https://" + statsHost + ":" + port,
	})
	if settings["TALLYGATE_DATABASE_URL"] != "" {
		settings["TALLYGATE_SECRET"] = dbtest.ApplicationKey
	}
	return settings
}

// useAuthority makes a process order from an authority.
func useAuthority(settings map[string]string, a *acmetest.Authority) {
	settings["TALLYGATE_TLS_ACME_DIRECTORY"], settings["TALLYGATE_TLS_ACME_CA_FILE"] = a.Directory, a.CAFile
}

func portNumber(t *testing.T, address string) int {
	t.Helper()
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	testkit.NoError(t, err)
	return port
}

// authorityFor returns an authority that runs and connects to the listeners of these settings.
func authorityFor(t *testing.T, settings map[string]string) *acmetest.Authority {
	t.Helper()
	a := acmetest.New(t, acmetest.Options{HTTPPort: portNumber(t, settings["TALLYGATE_TLS_HTTP_ADDR"]),
		TLSPort: portNumber(t, settings["TALLYGATE_TLS_ADDR"]), Validity: 90 * 24 * time.Hour})
	a.Start()
	return a
}

// tlsClient is a browser that finds each host on one process, and follows no redirects.
func tlsClient(p *process, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{
		Timeout:       patience,
		CheckRedirect: noRedirect,
		Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, p.addr["tls"])
			},
		},
	}
}

// awaitCertificate waits until a process serves a host, and returns its certificate.
func awaitCertificate(t *testing.T, p *process, roots *x509.CertPool, host string) *x509.Certificate {
	t.Helper()
	var certificate *x509.Certificate
	testkit.AwaitState(t, "the certificate of "+host, func() (string, bool) {
		conn, err := tls.Dial("tcp", p.addr["tls"], &tls.Config{RootCAs: roots, ServerName: host})
		if err != nil {
			return err.Error() + "\n" + p.logged(), false
		}
		defer conn.Close()
		certificate = conn.ConnectionState().PeerCertificates[0]
		return "", true
	})
	return certificate
}

// answer is what the tests read of an answer.
type answer struct {
	status                      int
	proto, hsts, location, body string
}

func request(t *testing.T, client *http.Client, method, url, host string, header map[string]string, body string) answer {
	t.Helper()
	sends := map[string]string{"Host": host}
	maps.Copy(sends, header)
	r, text := exchange(t, client, method, url, body, sends)
	return answer{r.StatusCode, r.Proto, r.Header.Get("Strict-Transport-Security"), r.Header.Get("Location"), text}
}

// TestTLS lets a process obtain certificates for its hosts and serve both planes to clients over
// HTTP/2. A restart orders nothing, and a backup has the certificates, encrypted.
func TestTLS(t *testing.T) {
	t.Parallel()
	settings := tlsSettings(t, "sqlite:")
	a := authorityFor(t, settings)
	useAuthority(settings, a)
	roles := []string{"control", "data", "tls", "tls-http"}
	p := start(t, settings, roles)
	roots := a.Roots()
	leaf := awaitCertificate(t, p, roots, statsHost)
	awaitCertificate(t, p, roots, appHost)
	client := tlsClient(p, roots)
	app, stats := settings["TALLYGATE_BASE_URL"], settings["TALLYGATE_ANALYTICS_URL"]

	// The child of the control plane can be ready later than the certificates.
	testkit.Await(t, "the control plane", func() bool { return request(t, client, http.MethodGet, app+"/", "", nil, "").status == 200 })

	const year = "max-age=31536000"
	for _, url := range []string{app + "/", stats + "/svc.js"} {
		if got := request(t, client, http.MethodGet, url, "", nil, ""); got.status != 200 || got.proto != "HTTP/2.0" || got.hsts != year {
			t.Errorf("%s: %d %s %q", url, got.status, got.proto, got.hsts)
		}
	}
	if got := request(t, client, http.MethodGet, app+"/svc.js", "", nil, ""); got.status == 200 && strings.Contains(got.body, "collect.php") {
		t.Error("the control plane's host serves the script")
	}
	if got := request(t, client, http.MethodGet, stats+"/", "other.tallygate.test", nil, ""); got.status != http.StatusMisdirectedRequest {
		t.Errorf("another host over a known name: %d", got.status)
	}

	plain := "http://" + p.addr["tls-http"]
	for _, test := range []struct {
		method, host, path, want string
		status                   int
	}{
		{http.MethodGet, appHost, "/a?b=c%20d", app + "/a?b=c%20d", 308},
		{http.MethodPost, strings.ToUpper(statsHost) + ":80", "/collect.php", stats + "/collect.php", 308},
		{http.MethodGet, statsHost, "//other.test/", stats + "//other.test/", 308},
		{http.MethodGet, appHost, "/.well-known/acme-challenge/none", app + "/.well-known/acme-challenge/none", 308},
		{http.MethodGet, "other.tallygate.test", "/", "", 421},
		{http.MethodGet, "other.tallygate.test", "/.well-known/acme-challenge/none", "", 421},
	} {
		got := request(t, &http.Client{CheckRedirect: noRedirect, Transport: &http.Transport{}}, test.method, plain+test.path, test.host, nil, "")
		if got.status != test.status || got.location != test.want {
			t.Errorf("%s %s%s: %d %q", test.method, test.host, test.path, got.status, got.location)
		}
	}

	// A hit of a client in a private network that claims another address counts as the client's.
	site := newOwner(t, p).signUp("tls.localhost")
	hit := request(t, client, http.MethodPost, stats+"/collect.php", "",
		map[string]string{"Origin": "https://tls.localhost", "X-Forwarded-For": "203.0.113.9"},
		fmt.Sprintf(`{"k":"%s","t":"pageview","p":"/"}`, site.SiteKey))
	testkit.Equal(t, hit.status, http.StatusNoContent, "page view: %s", hit.body)
	if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != 200 || body != "ok\n" {
		t.Errorf("readiness: %d %q", status, body)
	}

	backup := filepath.Join(t.TempDir(), "backup.sqlite")
	if out, err := newCommand(settings, "admin", "backup", backup).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(backup)
	if err != nil || !bytes.Contains(text, []byte(a.Directory+" "+statsHost)) || bytes.Contains(text, []byte("PRIVATE KEY")) {
		t.Errorf("the backup has no keys, or in plain text: %v", err)
	}

	p.signal(syscall.SIGTERM)
	if !strings.Contains(p.logged(), `"clean":true`) {
		t.Errorf("the stop was not clean:\n%s", p.logged())
	}

	// The restored backup serves the same certificate with its key, and does not start with another
	// one.
	restored := maps.Clone(settings)
	restored["TALLYGATE_DATA_DIR"] = t.TempDir()
	writeFile(t, restored["TALLYGATE_DATA_DIR"], "tallygate.sqlite", string(text))
	writeFile(t, restored["TALLYGATE_DATA_DIR"], "secret", readFile(t, filepath.Join(settings["TALLYGATE_DATA_DIR"], "secret")))
	wrong := maps.Clone(restored)
	wrong["TALLYGATE_SECRET"] = strings.Repeat("another key ", 4)
	if out, err := newCommand(wrong).CombinedOutput(); err == nil || !strings.Contains(string(out), "first used with another application key") {
		t.Errorf("with another key: %v\n%s", err, out)
	}

	again := start(t, restored, roles)
	if got := awaitCertificate(t, again, roots, statsHost); !got.Equal(leaf) {
		t.Error("another certificate after the restore")
	}
	awaitCertificate(t, again, roots, appHost)
	testkit.Equal(t, a.Orders(), 2, "orders for two hosts")
}

// TestTLSAuthorityAway checks that a process starts and is ready without its authority, and that it
// and the doctor report that.
func TestTLSAuthorityAway(t *testing.T) {
	t.Parallel()
	settings := tlsSettings(t, "sqlite:")
	settings["TALLYGATE_TLS_ACME_DIRECTORY"] = "https://" + dbtest.FreeAddress(t) + "/directory"
	settings["TALLYGATE_CONTROL_ADDR"], settings["TALLYGATE_DATA_ADDR"] = dbtest.FreeAddress(t), dbtest.FreeAddress(t)
	p := start(t, settings, []string{"control", "data", "tls", "tls-http"})

	awaitLog(t, p, `"msg":"certificate not obtained","host":"`+statsHost+`"`)
	testkit.AwaitState(t, "warnings", func() (string, bool) {
		status, body := get(t, "http://"+p.addr["data"]+"/readyz")
		return body, status == 200 && strings.Contains(body, "warning: no TLS certificate for "+appHost+" yet\n") &&
			strings.Contains(body, "warning: no TLS certificate for "+statsHost+" yet\n")
	})
	if conn, err := tls.Dial("tcp", p.addr["tls"], &tls.Config{ServerName: statsHost, InsecureSkipVerify: true}); err == nil {
		conn.Close()
		t.Error("a handshake without a certificate succeeded")
	}

	out, err := newCommand(settings, "doctor", "--json").CombinedOutput()
	for _, check := range []string{"tls-directory", "tls-certificate"} {
		if !strings.Contains(string(out), `"`+check+`"`) {
			t.Errorf("the doctor does not report %s: %v\n%s", check, err, out)
		}
	}
	for _, check := range []string{"proxies-none", "listener-taken", "tls-port-rights"} {
		if strings.Contains(string(out), `"`+check+`"`) {
			t.Errorf("the doctor reports %s:\n%s", check, out)
		}
	}
}
