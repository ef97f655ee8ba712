package jobs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()

	a := &authority{pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			1,
		), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}

	a.cert, a.key = a.sign(tb, template, nil)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(tb testing.TB, template, parent *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	tb.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(tb, err)

	signer := a.key

	if parent == nil {
		parent, signer = template, key
	}

	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	testkit.NoError(tb, err)

	cert, err := x509.ParseCertificate(der)
	testkit.NoError(tb, err)

	return cert, key
}

// certificate returns one for loopback and the names.
func (a *authority) certificate(tb testing.TB, names ...string) tls.Certificate {
	tb.Helper()
	cert, key := a.sign(tb, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert)

	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// received is a call that a receiver got.
type received struct {
	header http.Header
	body   string
	status int // of the response, if the receiver stored it
}

func (r received) id() string { return r.header.Get("webhook-id") }

// receiver is an owner's HTTPS server. It stores every call and then responds.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []received
}

// newReceiver starts a receiver on loopback. answer responds; n is the number of earlier calls.
func newReceiver(tb testing.TB, a *authority, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	tb.Helper()
	return newReceiverOn(tb, a, nil, answer)
}

// newReceiverOn is newReceiver with a given listener.
func newReceiverOn(
	tb testing.TB, a *authority, l net.Listener, answer func(n int, w http.ResponseWriter, r *http.Request),
) *receiver {
	tb.Helper()

	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}

		r.mu.Lock()
		n := len(r.calls)
		r.calls = append(r.calls, received{header: request.Header, body: string(body)})
		r.mu.Unlock()
		answer(n, w, request)
	}))

	if l != nil {
		r.Listener.Close()
		r.Listener = l
	}

	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.EnableHTTP2 = true
	r.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.certificate(tb, "hook.example", "rebind.example", "mixed.example")},
	}

	r.StartTLS()
	tb.Cleanup(r.Close)

	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.calls...)
}

// answered stores the status of the response to call number n.
func (r *receiver) answered(n, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[n].status = status
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// loopback is the network of the receivers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// fastClock is a clock that runs factor times as fast as the machine's, so that hours of retries
// pass in seconds.
type fastClock struct {
	start  time.Time
	began  time.Time
	factor int
	mu     sync.Mutex
	step   time.Duration
}

func newFastClock(factor int) *fastClock {
	return &fastClock{start: noon, began: time.Now(), factor: factor}
}

func (c *fastClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.Add(c.step + time.Since(c.began)*time.Duration(c.factor))
}

func (c *fastClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step += d
}

// newSite creates an account with a site. Its conversion webhook is url, signed with secret.
func newSite(tb testing.TB, d *db.DB, domain, url, secret string) *model.Site {
	tb.Helper()

	return world.New(tb, d).Site(domain, world.WebhookAt(url, &secret))
}

var nextDue atomic.Int64 // a counter, since random ids may collide

// due writes a conversion that is due at a time.
func due(tb testing.TB, d *db.DB, site *model.Site, at time.Time) *model.Delivery {
	tb.Helper()

	i := model.At(at)
	delivery := &model.Delivery{
		SiteID: site.ID,
		ID:     model.FirstTimeID(i) + nextDue.Add(1),
		Body:   fmt.Sprintf(`{"type":"conversion","n":%d}`, i),
	}

	err := dbtest.Exec(
		d,
		`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, 'conversion', 'purchase', 'pending', 0, ?, ?, ?)`,
		site.ID,
		delivery.ID,
		i,
		i,
		delivery.Body,
	)
	testkit.NoError(tb, err)

	return delivery
}

// logOf reads a delivery with its attempts.
func logOf(tb testing.TB, d *db.DB, site *model.Site, id int64) dbtest.DeliveryLog {
	tb.Helper()
	logs, err := dbtest.Deliveries(d, site.ID, id+1, 1)
	if err != nil || len(logs) != 1 || logs[0].ID != id {
		tb.Fatalf("delivery %d: %+v, %v", id, logs, err)
	}
	return logs[0]
}

// awaitLast is awaitEnd for a delivery that may take all attempts of its schedule: it sets the
// clock forward over the pauses of hours.
func awaitLast(t *testing.T, d *db.DB, clock *fastClock, site *model.Site, id int64) dbtest.DeliveryLog {
	t.Helper()
	var log dbtest.DeliveryLog
	awaitThat(t, func() (string, bool) {
		log = logOf(t, d, site, id)
		if pause := log.NextAttemptAt.Time().Sub(clock.Now()); log.State == model.DeliveryPending &&
			log.LeasedUntil == 0 && pause > 2*time.Hour {
			clock.Add(pause)
		}

		return fmt.Sprintf("delivery %+v is still pending", log.Delivery), log.State != model.DeliveryPending
	})
	return log
}

// awaitDelivered is awaitEnd for a delivery that must arrive.
func awaitDelivered(t *testing.T, d *db.DB, site *model.Site, id int64) {
	t.Helper()
	log := awaitEnd(t, d, site, id)
	testkit.Equal(t, log.State, model.DeliveryDelivered, "delivery %+v", log.Delivery)
}

// awaitEnd waits until the delivery is delivered or failed.
func awaitEnd(t *testing.T, d *db.DB, site *model.Site, id int64) dbtest.DeliveryLog {
	t.Helper()
	var log dbtest.DeliveryLog
	awaitThat(t, func() (string, bool) {
		log = logOf(t, d, site, id)
		return fmt.Sprintf("delivery %+v is still pending", log.Delivery), log.State != model.DeliveryPending
	})
	return log
}
