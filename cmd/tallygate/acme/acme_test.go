package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
		o.HTTPPort, o.TLSPort = portOf(t, f.http.Addr().String()), portOf(t, f.tls.Addr().String())
	}
	return acmetest.New(t, o)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", address)
	testkit.NoError(t, err)
	return addr.Port
}

// serve starts a manager behind the listeners.
func (f *front) serve(t *testing.T, d *db.DB, a *acmetest.Authority, o Options) {
	t.Helper()
	text, err := os.ReadFile(a.CAFile)
	testkit.NoError(t, err)
	o.Roots = x509.NewCertPool()
	o.Roots.AppendCertsFromPEM(text)
	o.DB, o.Directory, o.Now = d, a.Directory, time.Now
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	o.PollEvery = 50 * time.Millisecond
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
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + f.tls.Addr().String())
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), response.TLS.PeerCertificates[0], err
}

// leaf returns the certificate that a manager serves for a host, or nil.
func (m *Manager) leaf(name string) *x509.Certificate {
	if served := m.hosts[name].served.Load(); served != nil {
		return served.Leaf
	}
	return nil
}

func (f *front) awaitServed(t *testing.T, host string) *x509.Certificate {
	t.Helper()
	testkit.Await(t, "certificate for "+host, func() bool { return f.manager.leaf(host) != nil })
	return f.manager.leaf(host)
}

func hostState(t *testing.T, d *db.DB, host string) certificates.Host {
	t.Helper()
	hosts, err := certificates.New(d).Hosts(t.Context(), model.At(time.Now()))
	testkit.NoError(t, err)
	for _, state := range hosts {
		if state.Host == host {
			return state
		}
	}
	return certificates.Host{Host: host}
}

// TestObtain checks a certificate's life without a renewal, for each kind of challenge on each
// database: it is obtained and served over HTTP/2, unknown names cause no order, its key is
// encrypted, and a restart orders nothing. The authority reaches one of both ports alone, so that
// only one kind of challenge can succeed. On a busy machine its first order may fail.
func TestObtain(t *testing.T) {
	t.Parallel()
	const host = "stats.tallygate.test"

	for _, name := range []string{"tls-alpn-01", "http-01"} {
		t.Run(name, func(t *testing.T) {
			dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
				d := dbtest.Open(t, databaseURL)
				f := listenFront(t)
				ports := acmetest.Options{Validity: 90 * 24 * time.Hour}
				closed := portOf(t, dbtest.FreeAddress(t))
				if name == "http-01" {
					ports.HTTPPort, ports.TLSPort = portOf(t, f.http.Addr().String()), closed
				} else {
					ports.HTTPPort, ports.TLSPort = closed, portOf(t, f.tls.Addr().String())
				}
				a := f.authority(t, ports)
				a.Start()
				o := Options{Hosts: []string{host}}
				f.serve(t, d, a, o)
				leaf := f.awaitServed(t, host)

				if body, _, err := f.get(host, a.Roots()); body != "HTTP/2.0 "+host || err != nil {
					t.Fatalf("%q, %v", body, err)
				}
				testkit.Equal(t, f.manager.Problem(host), "", "problem")

				// A certificate for another name is neither served nor ordered, nor is one without
				// a name.
				for _, unknown := range []string{"other.tallygate.test", "", "127.0.0.1"} {
					conn, err := tls.Dial("tcp", f.tls.Addr().String(), &tls.Config{ServerName: unknown, InsecureSkipVerify: true})
					if err == nil {
						conn.Close()
						t.Errorf("a handshake for %q succeeded", unknown)
					}
				}

				testkit.Await(t, "state", func() bool { return hostState(t, d, host).ExpiresAt == model.At(leaf.NotAfter) })
				checkSealed(t, d, a.Directory, host)

				f.stop()
				orders := a.Orders()
				second := listenFront(t)
				second.serve(t, dbtest.Open(t, databaseURL), a, o)
				if again := second.awaitServed(t, host); !again.Equal(leaf) {
					t.Error("after a restart another certificate is served")
				}
				testkit.Equal(t, a.Orders(), orders, "orders after a restart, %d before", orders)
			})
		})
	}
}

// checkSealed checks that the database has the key of the account and the host's certificate with
// its key, and no part of them in plain text.
func checkSealed(t *testing.T, d *db.DB, directory, host string) {
	t.Helper()
	files, err := dbtest.Rows[string](d, "SELECT name FROM certificate_files ORDER BY name")
	if want := []string{directory + " account", directory + " " + host}; err != nil || !slices.Equal(files, want) {
		t.Errorf("files %q, %v, want %q", files, err, want)
	}

	for _, name := range files {
		value, err := certificates.New(d).Get(t.Context(), name)
		testkit.NoError(t, err)
		var sealed []byte
		testkit.NoError(t, d.Read.QueryRowContext(t.Context(), "SELECT value FROM certificate_files WHERE name = ?", name).Scan(&sealed))
		if !bytes.Contains(value, []byte("PRIVATE KEY")) || bytes.Contains(sealed, value) || bytes.Contains(sealed, []byte("BEGIN")) {
			t.Errorf("%s has no key, or is stored in plain text", name)
		}
	}
}

// TestRenew checks that a certificate is obtained once the authority is there, that it is renewed
// before it expires, that an expired one is served with a warning while the authority is away, and
// that another one follows.
func TestRenew(t *testing.T) {
	testkit.SkipLong(t, "certificates that expire")
	t.Parallel()
	const host = "renew.tallygate.test"

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := listenFront(t)
	a := f.authority(t, acmetest.Options{Validity: 20 * time.Second})
	f.serve(t, d, a, Options{Hosts: []string{host}})

	// The authority is away from the beginning.
	testkit.Await(t, "a record", func() bool {
		hosts, err := certificates.New(d).Hosts(t.Context(), model.At(time.Now()))
		return err == nil && slices.Equal(hosts, []certificates.Host{{Host: host}})
	})
	wantWarning := func(want string) {
		t.Helper()
		testkit.Await(t, want, func() bool { return f.manager.Problem(host) == want })
	}
	wantWarning("no TLS certificate for " + host + " yet")
	if expires := gathered(t, f.manager, "tallygate_tls_certificate_expiry_timestamp_seconds"); expires != 0 {
		t.Errorf("the metrics say %v without a certificate", expires)
	}

	a.Start()
	first := f.awaitServed(t, host)
	testkit.Await(t, "the metrics", func() bool {
		expires := gathered(t, f.manager, "tallygate_tls_certificate_expiry_timestamp_seconds")
		return expires >= float64(first.NotAfter.Unix())
	})

	testkit.Await(t, "renewal", func() bool { return f.manager.leaf(host).NotAfter.After(first.NotAfter) })
	second := f.manager.leaf(host)
	// On a busy machine the client comes after the end of the second certificate, which the third
	// replaces.
	roots := a.Roots()
	testkit.Await(t, "a client with a renewed certificate", func() bool {
		_, leaf, err := f.get(host, roots)
		return err == nil && !leaf.NotAfter.Before(second.NotAfter)
	})

	a.Stop()
	testkit.Await(t, "expiry", func() bool { return time.Now().After(f.manager.leaf(host).NotAfter) })
	_, _, err := f.get(host, roots)
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || invalid.Reason != x509.Expired {
		t.Errorf("a client gets %v, want the expired certificate", err)
	}
	wantWarning("the TLS certificate for " + host + " has expired")
	if state := hostState(t, d, host); state.ExpiresAt != model.At(f.manager.leaf(host).NotAfter) || !state.IsLate(time.Now()) {
		t.Errorf("state %+v", state)
	}

	expired := f.manager.leaf(host)
	a.Start()
	testkit.Await(t, "another certificate", func() bool { return f.manager.leaf(host).NotAfter.After(expired.NotAfter) })
	if keys := []any{first.PublicKey, second.PublicKey}; keys[0].(*ecdsa.PublicKey).Equal(keys[1]) {
		t.Error("a renewal keeps the key")
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
	testkit.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestHandshakesOrderNothing checks that clients before the first certificate cause no order, and
// that one follows a pause after one that failed.
func TestHandshakesOrderNothing(t *testing.T) {
	t.Parallel()
	const host = "blocked.tallygate.test"
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := listenFront(t)
	a := f.authority(t, acmetest.Options{Validity: time.Hour, Blocked: []string{host}})
	a.Start()

	failures := make(chan int, 100)
	f.serve(t, d, a, Options{Hosts: []string{host}, Pause: func(n int) time.Duration {
		failures <- n
		return time.Hour
	}})
	testkit.Equal(t, <-failures, 1, "failures after the first")

	for range 20 {
		if _, _, err := f.get(host, a.Roots()); err == nil {
			t.Fatal("a client got an answer without a certificate")
		}
		response, err := http.Get("http://" + f.http.Addr().String() + "/.well-known/acme-challenge/unknown")
		if err != nil || response.StatusCode != http.StatusNotFound {
			t.Fatalf("an unknown challenge: %v, %v", response, err)
		}
		response.Body.Close()
	}
	testkit.Equal(t, strings.Count(a.Log(), "POST /order-plz"), 1, "attempts to order")
}

// TestDatabaseAway checks that nothing is ordered while the database cannot say whether there is a
// certificate, that a new one that cannot be stored is served and stored later, and that a restart
// then orders nothing.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	const host = "away.tallygate.test"
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		rename := func(from, to string) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, "ALTER TABLE "+from+" RENAME TO "+to))
		}

		rename("certificate_files", "away")
		log := &logged{}
		f := listenFront(t)
		a := f.authority(t, acmetest.Options{Validity: 90 * 24 * time.Hour})
		a.Start()
		f.serve(t, d, a, Options{Hosts: []string{host}, Log: log.logger(), Pause: func(int) time.Duration {
			t.Error("a failed read counts as a failed order")
			return time.Hour
		}})
		testkit.Await(t, "two failed reads", func() bool { return log.count("certificate not read") > 1 })
		testkit.Equal(t, a.Orders(), 0, "orders without a read")

		// The account's key is stored, and then the certificate cannot be.
		testkit.NoError(t, dbtest.Exec(d, refuseCertificates(d)))
		rename("away", "certificate_files")
		leaf := f.awaitServed(t, host)
		testkit.Await(t, "two failed writes", func() bool { return log.count("certificate not stored") > 1 })
		testkit.NoError(t, dbtest.Exec(d, acceptCertificates(d)))
		testkit.Await(t, "the file", func() bool {
			_, err := certificates.New(d).Get(t.Context(), a.Directory+" "+host)
			return err == nil
		})

		f.stop()
		second := listenFront(t)
		second.serve(t, dbtest.Open(t, databaseURL), a, Options{Hosts: []string{host}})
		if again := second.awaitServed(t, host); !again.Equal(leaf) || a.Orders() != 1 {
			t.Errorf("%d orders, want 1; the same certificate: %v", a.Orders(), again.Equal(leaf))
		}
	})
}

// refuseCertificates lets the database refuse the files of hosts, and not the account's key.
func refuseCertificates(d *db.DB) string {
	if d.IsPostgres() {
		return "ALTER TABLE away ADD CONSTRAINT refuse CHECK (name LIKE '% account')"
	}
	return "CREATE TRIGGER refuse BEFORE INSERT ON away WHEN NEW.name NOT LIKE '% account' BEGIN SELECT RAISE(FAIL, 'refused'); END"
}

func acceptCertificates(d *db.DB) string {
	if d.IsPostgres() {
		return "ALTER TABLE certificate_files DROP CONSTRAINT refuse"
	}
	return "DROP TRIGGER refuse"
}

// logged is a log that is searched.
type logged struct{ testkit.Log }

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) count(text string) int { return strings.Count(l.String(), text) }

// TestReasons checks that the log has the authority's answer about a host that it cannot reach, in
// a first order and in a renewal.
func TestReasons(t *testing.T) {
	testkit.SkipLong(t, "certificates that expire")
	t.Parallel()
	const host = "closed.tallygate.test"
	for name, validity := range map[string]time.Duration{"a first order": time.Hour, "a renewal": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			d := dbtest.Open(t, dbtest.SQLiteURL(t))
			f := listenFront(t)
			ports := acmetest.Options{Validity: validity, HTTPPort: portOf(t, dbtest.FreeAddress(t)), TLSPort: portOf(t, f.tls.Addr().String())}
			if name == "a first order" {
				ports.TLSPort = portOf(t, dbtest.FreeAddress(t))
			}
			a := f.authority(t, ports)
			a.Start()
			f.serve(t, d, a, Options{Hosts: []string{host}, Log: log.logger()})

			if name == "a renewal" {
				f.awaitServed(t, host)
				f.tls.Close()
			}
			testkit.Await(t, "the reason in the log", func() bool {
				return log.count("certificate not obtained") > 0 && log.count("urn:ietf:params:acme:error:connection") > 0
			})
		})
	}
}

// TestDirectories checks that the certificates of two authorities are kept apart, and that a
// certificate of another host is refused.
func TestDirectories(t *testing.T) {
	t.Parallel()
	const host = "a.example"
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	of := func(directory string) *Manager {
		return New(Options{DB: d, Hosts: []string{host}, Directory: directory, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	}
	staging, real := of("https://staging.example/dir"), of("https://authority.example/dir")

	h := staging.hosts[host]
	h.unsaved = selfSigned(t, host)
	staging.save(t.Context(), h)
	if h.unsaved != nil {
		t.Fatal("the certificate was not stored")
	}
	if found, err := staging.stored(t.Context(), host); found == nil || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := real.stored(t.Context(), host); found != nil || err != nil {
		t.Errorf("of another directory: %v, %v", found, err)
	}
	if found, err := parse(selfSigned(t, host), "b.example"); err == nil {
		t.Errorf("of another host: %v", found)
	}
}

// selfSigned returns a certificate of a host with its key.
func selfSigned(t *testing.T, host string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.NoError(t, err)
	text, err := pemOfKey(key)
	testkit.NoError(t, err)
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

// TestIsDue checks from when on a certificate is renewed.
func TestIsDue(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for lifetime, left := range map[time.Duration]time.Duration{90 * day: 30 * day, 365 * day: 30 * day, 45 * day: 15 * day, 6 * day: 2 * day} {
		certificate := func(left time.Duration) *tls.Certificate {
			return &tls.Certificate{Leaf: &x509.Certificate{NotBefore: now.Add(left - lifetime), NotAfter: now.Add(left)}}
		}
		if isDue(certificate(left+time.Second), now) || !isDue(certificate(left), now) || !isDue(certificate(-day), now) {
			t.Errorf("a certificate of %v is not due with %v left", lifetime, left)
		}
	}
	if !isDue(nil, now) {
		t.Error("no certificate is not due")
	}
}

// TestPause checks that the pauses grow to an hour, and permit at most 5 failed validations in any
// hour.
func TestPause(t *testing.T) {
	t.Parallel()
	const validationsOfOrder = 2 // one for each kind of challenge

	var orders []time.Duration
	for at := time.Duration(0); len(orders) < 10; at += pause(len(orders)) {
		orders = append(orders, at)
	}
	for i, begin := range orders {
		validations := 0
		for _, at := range orders[i:] {
			if at < begin+time.Hour {
				validations += validationsOfOrder
			}
		}
		if validations > 5 {
			t.Errorf("%d failed validations in the hour from %v on", validations, begin)
		}
	}

	for failures, want := range map[int]time.Duration{0: 0, 1: 5 * time.Minute, 2: time.Hour, 1000: time.Hour} {
		testkit.Equal(t, pause(failures), want, "the pause after %d failures", failures)
	}
}
