package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/acmetest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// patience is the longest wait for a certificate.
const patience = time.Minute

// front is a pair of listeners, as those of a process.
type front struct {
	http, tls net.Listener
	manager   *Manager
	stop      func()
}

func listenFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	for _, l := range []*net.Listener{&f.http, &f.tls} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*l).Close() })
	}
	return f
}

// authority prepares an authority that connects to the listeners.
func (f *front) authority(t *testing.T, o acmetest.Options) *acmetest.Authority {
	t.Helper()
	if o.HTTPPort == 0 {
		o.HTTPPort, o.TLSPort = portOf(f.http.Addr()), portOf(f.tls.Addr())
	}
	return acmetest.New(t, o)
}

// serve starts a manager behind the listeners.
func (f *front) serve(t *testing.T, d *db.DB, a *acmetest.Authority, o Options) {
	t.Helper()
	text, err := os.ReadFile(a.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	o.Roots = x509.NewCertPool()
	o.Roots.AppendCertsFromPEM(text)
	o.DB, o.Directory, o.HTTP, o.TLS, o.Now = d, a.Directory, f.http.Addr(), f.tls.Addr(), time.Now
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	o.RenewEvery, o.PollEvery = 100*time.Millisecond, 50*time.Millisecond
	if o.Pause == nil {
		o.Pause = func(int) time.Duration { return 100 * time.Millisecond }
	}
	f.manager = New(o)

	plain := &http.Server{Handler: f.manager.Challenges(http.NotFoundHandler())}
	secure := &http.Server{TLSConfig: f.manager.TLS(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto, " ", r.TLS.ServerName) })}
	go plain.Serve(f.http)
	go secure.ServeTLS(f.tls, "", "")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		f.manager.Run(ctx)
		close(done)
	}()
	f.stop = func() {
		cancel()
		<-done
		plain.Close()
		secure.Close()
	}
	t.Cleanup(f.stop)
}

// get requests a page of a host as a browser does.
func (f *front) get(host string, roots *x509.CertPool) (body string, leaf *x509.Certificate, err error) {
	transport := &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}}
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get("https://" + f.tls.Addr().String())
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), response.TLS.PeerCertificates[0], err
}

// await polls until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

func (f *front) awaitServed(t *testing.T, host string) *x509.Certificate {
	t.Helper()
	await(t, "certificate for "+host, func() bool { return f.manager.served(host) != nil })
	return f.manager.served(host)
}

func hostState(t *testing.T, d *db.DB, host string) certificates.Host {
	t.Helper()
	state, err := certificates.New(d).Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestObtain checks a certificate's life without a renewal, for each kind of challenge on each database: it is obtained and
// served over HTTP/2, unknown names cause no order, its key is encrypted, and a restart orders nothing.
func TestObtain(t *testing.T) {
	t.Parallel()
	const host = "stats.tallygate.test"

	for name, o := range map[string]Options{"http-01": {NoTLSALPN: true}, "tls-alpn-01": {NoHTTP: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				d := dbtest.Open(t, databaseURL)
				f := listenFront(t)
				a := f.authority(t, acmetest.Options{Validity: 90 * 24 * time.Hour})
				a.Start()
				o.Hosts = []string{host}
				f.serve(t, d, a, o)
				leaf := f.awaitServed(t, host)

				if body, _, err := f.get(host, a.Roots()); body != "HTTP/2.0 "+host || err != nil {
					t.Fatalf("%q, %v", body, err)
				}
				if checked := strings.Contains(a.Log(), "Attempting to validate w/ HTTP"); checked != (name == "http-01") {
					t.Errorf("the authority did not check by %s alone", name)
				}
				if warnings := f.manager.Warnings(); len(warnings) > 0 {
					t.Errorf("warnings %q", warnings)
				}

				// A certificate for another name is neither served nor ordered, nor is one without a name.
				for _, unknown := range []string{"other.tallygate.test", "", "127.0.0.1"} {
					conn, err := tls.Dial("tcp", f.tls.Addr().String(), &tls.Config{ServerName: unknown, InsecureSkipVerify: true})
					if err == nil {
						conn.Close()
						t.Errorf("a handshake for %q succeeded", unknown)
					}
				}

				await(t, "state", func() bool { return hostState(t, d, host).ExpiresAt == model.At(leaf.NotAfter) })
				checkSealed(t, d)

				f.stop()
				second := listenFront(t)
				second.serve(t, dbtest.Open(t, databaseURL), a, o)
				if again := second.awaitServed(t, host); !again.Equal(leaf) {
					t.Error("after a restart another certificate is served")
				}
				if orders := a.Orders(); orders != 1 {
					t.Errorf("%d orders, want 1", orders)
				}
			})
		})
	}
}

// checkSealed checks that the database has the files, and no part of them in plain text.
func checkSealed(t *testing.T, d *db.DB) {
	t.Helper()
	files, err := certificates.New(d).List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}

	var keys int
	for _, file := range files {
		if strings.HasSuffix(file.Name, ".key") {
			keys++
		}
		value, err := certificates.New(d).Get(t.Context(), file.Name)
		if err != nil {
			t.Fatal(err)
		}

		var sealed []byte
		if err := d.Read.QueryRowContext(t.Context(), "SELECT value FROM certificate_files WHERE name = ?", file.Name).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sealed, value) || bytes.Contains(sealed, []byte("BEGIN")) {
			t.Errorf("%s is stored in plain text", file.Name)
		}
	}
	if keys != 2 {
		t.Errorf("%d private keys, want the account's and the host's", keys)
	}
}

// TestRenew checks that a certificate is renewed before it expires, that an expired one is served while the authority is away,
// with a warning and failures, and that the first order succeeds once the authority is there.
func TestRenew(t *testing.T) {
	testkit.SkipLong(t, "certificates that expire")
	t.Parallel()
	const host = "renew.tallygate.test"

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := listenFront(t)
	a := f.authority(t, acmetest.Options{Validity: 20 * time.Second})
	f.serve(t, d, a, Options{Hosts: []string{host}})

	// The authority is away from the beginning.
	await(t, "failures", func() bool { return hostState(t, d, host).Failures >= 2 })
	if state := hostState(t, d, host); state.Failure != certificates.FailureAuthority || state.ExpiresAt != 0 {
		t.Errorf("state %+v", state)
	}
	await(t, "warning", func() bool {
		warnings := f.manager.Warnings()
		return len(warnings) == 1 && strings.HasPrefix(warnings[0], "no TLS certificate for "+host+" yet; the last order failed at ") &&
			strings.HasSuffix(warnings[0], ": authority")
	})
	if failures := gathered(t, f.manager, "tallygate_tls_certificate_failures"); failures < 2 {
		t.Errorf("%v failures in the metrics", failures)
	}

	a.Start()
	first := f.awaitServed(t, host)
	await(t, "no failures", func() bool { return hostState(t, d, host).Failures == 0 })
	if expires := gathered(t, f.manager, "tallygate_tls_certificate_expiry_timestamp_seconds"); expires != float64(first.NotAfter.Unix()) {
		t.Errorf("the metrics say %v, want %v", expires, first.NotAfter.Unix())
	}

	await(t, "renewal", func() bool { return !f.manager.served(host).Equal(first) })
	second := f.manager.served(host)
	if !second.NotAfter.After(first.NotAfter) {
		t.Errorf("renewed from %v to %v", first.NotAfter, second.NotAfter)
	}
	// On a busy machine the client comes after the end of the second certificate, which the third replaces.
	roots := a.Roots()
	await(t, "a client with a renewed certificate", func() bool {
		_, leaf, err := f.get(host, roots)
		return err == nil && !leaf.NotAfter.Before(second.NotAfter)
	})

	a.Stop()
	await(t, "expiry", func() bool { return time.Now().After(f.manager.served(host).NotAfter) })
	// Several within the wait: the pauses are the manager's, and not those of the library.
	await(t, "failed renewals", func() bool { return hostState(t, d, host).Failures >= 5 })
	_, _, err := f.get(host, roots)
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || invalid.Reason != x509.Expired {
		t.Errorf("a client gets %v, want the expired certificate", err)
	}
	await(t, "warning", func() bool {
		warnings := f.manager.Warnings()
		return len(warnings) == 1 && strings.HasPrefix(warnings[0], "the TLS certificate for "+host+" has expired; the last order failed")
	})
	if state := hostState(t, d, host); state.ExpiresAt != model.At(f.manager.served(host).NotAfter) {
		t.Errorf("state %+v", state)
	}
}

// gathered returns the value of a metric with one series.
func gathered(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestFailures checks the classes of what an authority reports.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		host    string
		options acmetest.Options
		want    certificates.Failure
	}{
		"blocked": {"blocked.tallygate.test", acmetest.Options{Blocked: []string{"blocked.tallygate.test"}}, certificates.FailureRefused},
		"closed ports": {"closed.tallygate.test", acmetest.Options{HTTPPort: closedPort(t), TLSPort: closedPort(t)},
			certificates.FailureConnection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Open(t, dbtest.SQLiteURL(t))
			f := listenFront(t)
			test.options.Validity = time.Hour
			a := f.authority(t, test.options)
			a.Start()
			// Pebble reports a closed port as "connection" for HTTP-01 only.
			f.serve(t, d, a, Options{Hosts: []string{test.host}, Pause: certificates.Pause, NoTLSALPN: true})

			await(t, "failure", func() bool { return hostState(t, d, test.host).Failures > 0 })
			if state := hostState(t, d, test.host); state.Failure != test.want || state.Failures != 1 {
				t.Errorf("state %+v, want %s\n%s", state, test.want, a.Log())
			}
		})
	}
}

func closedPort(t *testing.T) int {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", acmetest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port
}

// TestPausedOnAllNodes checks that a node waits after a failure of another one, also after a restart.
func TestPausedOnAllNodes(t *testing.T) {
	t.Parallel()
	const host = "paused.tallygate.test"

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	if err := certificates.New(d).Failed(t.Context(), host, certificates.FailureDNS, model.At(time.Now())); err != nil {
		t.Fatal(err)
	}
	f := listenFront(t)
	a := f.authority(t, acmetest.Options{Validity: time.Hour})
	a.Start()
	f.serve(t, d, a, Options{Hosts: []string{host}, Pause: func(int) time.Duration { return 2 * time.Second }})

	f.awaitServed(t, host)
	state := hostState(t, d, host)
	if waited := state.IssuedAt.Sub(state.FailedAt); waited < time.Second {
		t.Errorf("issued %v after the failure", waited)
	}
	if orders := a.Orders(); orders != 1 {
		t.Errorf("%d orders", orders)
	}
}

// TestClassify checks the classes of errors.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want certificates.Failure
	}{
		{errors.New("connection refused"), certificates.FailureAuthority},
		{fmt.Errorf("order: %w", acme.Problem{Type: problemPrefix + "rateLimited"}), certificates.FailureRateLimit},
		{fmt.Errorf("order: %w", acme.Problem{Type: problemPrefix + "dns"}), certificates.FailureDNS},
		{fmt.Errorf("order: %w", acme.Problem{Type: problemPrefix + "unauthorized"}), certificates.FailureResponse},
		{fmt.Errorf("order: %w", acme.Problem{Type: problemPrefix + "caa"}), certificates.FailureCAA},
		{fmt.Errorf("order: %w", acme.Problem{Type: problemPrefix + "malformed"}), certificates.FailureOther},
		{fmt.Errorf("%w: disk full", errStorage), certificates.FailureStorage},
	} {
		if got := classify(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}
