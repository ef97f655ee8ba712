// Package acme obtains and renews the TLS certificates of the public hosts by ACME (RFC 8555), and answers
// the authority's challenges. The certificates, their keys and the account are in the database.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// recordTimeout bounds the record of a host's state.
	recordTimeout = 10 * time.Second

	// seeEvery is the time between two records of a state that did not change.
	seeEvery = time.Hour
)

// Options are the settings of a Manager.
type Options struct {
	DB        *db.DB
	Hosts     []string       // lower case
	Directory string         // address of the authority's directory
	Email     string         // of the account; may be empty
	Roots     *x509.CertPool // of the directory's certificate; nil: the system's
	Now       func() time.Time
	Log       *slog.Logger

	PollEvery time.Duration                    // between two looks at a certificate; 0: 10 seconds
	Pause     func(failures int) time.Duration // after failures in a row; nil: pause
}

// Manager obtains and renews the certificates of its hosts. It is safe for concurrent use.
type Manager struct {
	Options
	store *certificates.Store
	hosts map[string]*host
}

// host is the certificate of a host. Only Run changes it.
type host struct {
	name string

	orders atomic.Pointer[orders]
	served atomic.Pointer[tls.Certificate] // nil: none yet

	failures int       // of first orders in a row
	next     time.Time // of the next look at the certificate
	seen     time.Time // of the last record
}

// orders is the library's manager of one host. A new one replaces it when the first order has failed: the
// library keeps a failure for a minute.
type orders struct {
	*autocert.Manager
	challenges http.Handler // answers HTTP-01
}

// New returns a Manager. It orders nothing before Run.
func New(o Options) *Manager {
	if o.PollEvery == 0 {
		o.PollEvery = 10 * time.Second
	}
	if o.Pause == nil {
		o.Pause = pause
	}

	m := &Manager{Options: o, store: certificates.New(o.DB), hosts: make(map[string]*host)}
	for _, name := range o.Hosts {
		h := &host{name: name}
		h.orders.Store(m.newOrders())
		m.hosts[name] = h
	}
	return m
}

// pause returns the time without an order after failures in a row. It keeps within 5 failed validations of a
// host in an hour, which is Let's Encrypt's limit: two orders, each with up to two validations.
func pause(failures int) time.Duration {
	pauses := []time.Duration{0, 5 * time.Minute, time.Hour}
	return pauses[min(failures, len(pauses)-1)]
}

func (m *Manager) newOrders() *orders {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: m.Roots, MinVersion: tls.VersionTLS12}

	library := &autocert.Manager{
		Prompt: autocert.AcceptTOS, // the setting says so
		Cache:  &cache{m.store, m.Directory, m.Log},
		Email:  m.Email,
		Client: &acme.Client{DirectoryURL: m.Directory, HTTPClient: &http.Client{Transport: transport}, UserAgent: "tallygate"},
	}
	// The library tries TLS-ALPN-01 first, and then HTTP-01.
	return &orders{library, library.HTTPHandler(http.NotFoundHandler())}
}

// Run obtains certificates, one after the other, until ctx ends. The library renews each when a third of its
// lifetime is left, at most 30 days. Without an authority both try again.
func (m *Manager) Run(ctx context.Context) {
	ticker := time.NewTicker(m.PollEvery)
	defer ticker.Stop()

	for {
		for _, name := range m.Hosts {
			if h := m.hosts[name]; !m.Now().Before(h.next) && !m.look(ctx, h) {
				return
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look reads the certificate of a host, or orders the first one. It returns false when ctx ends, and does not
// wait for the order in this case: the library has no way to end one.
func (m *Manager) look(ctx context.Context, h *host) bool {
	type result struct {
		certificate *tls.Certificate
		err         error
	}
	done := make(chan result, 1)
	go func() {
		certificate, err := h.orders.Load().GetCertificate(modernHello(h.name))
		done <- result{certificate, err}
	}()

	select {
	case <-ctx.Done():
		return false
	case r := <-done:
		if r.err != nil {
			m.failed(ctx, h, r.err)
		} else {
			m.found(ctx, h, r.certificate)
		}
		return true
	}
}

// modernHello is the handshake for which the library returns a certificate with an elliptic curve. It would
// order another one for clients that know RSA only.
func modernHello(host string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

// found serves the certificate of a host. The library returns another one after a renewal.
func (m *Manager) found(ctx context.Context, h *host, certificate *tls.Certificate) {
	h.failures, h.next = 0, m.Now()
	if before := h.served.Swap(certificate); before == nil || !before.Leaf.Equal(certificate.Leaf) {
		h.seen = time.Time{}
		m.Log.InfoContext(ctx, "certificate", "host", h.name, "expires", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	m.see(ctx, h)
}

// failed logs why there is no certificate of a host, and lets the next order wait.
func (m *Manager) failed(ctx context.Context, h *host, err error) {
	h.next = m.Now().Add(m.PollEvery)
	if !errors.Is(err, errStorage) {
		h.failures++
		h.next = m.Now().Add(m.Pause(h.failures))
		h.orders.Store(m.newOrders())
	}

	m.Log.ErrorContext(ctx, "certificate not obtained", "host", h.name, "error", err)
	m.see(ctx, h)
}

// see records the state of a host when it has changed, and once an hour.
func (m *Manager) see(ctx context.Context, h *host) {
	now := m.Now()
	if now.Sub(h.seen).Abs() < seeEvery {
		return
	}

	state := certificates.Host{Host: h.name}
	if served := h.served.Load(); served != nil {
		state.IssuedAt, state.ExpiresAt = model.At(served.Leaf.NotBefore), model.At(served.Leaf.NotAfter)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := m.store.See(ctx, state, model.At(now)); err == nil {
		h.seen = now
	}
}

var (
	errUnknownHost   = errors.New("unknown host")
	errNoCertificate = errors.New("there is no certificate yet")
)

// TLS returns the configuration of a listener for the hosts, with Go's versions and ciphers. A handshake
// orders nothing, and fails for another host and before the first certificate.
func (m *Manager) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", acme.ALPNProto},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			h := m.hosts[config.HostOf(hello.ServerName)]
			if h == nil {
				return nil, errUnknownHost
			}
			if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
				return h.orders.Load().GetCertificate(hello)
			}
			if certificate := h.served.Load(); certificate != nil {
				return certificate, nil
			}
			return nil, errNoCertificate
		},
	}
}

// challengePath begins the paths of HTTP-01 challenges (RFC 8555, section 8.3).
const challengePath = "/.well-known/acme-challenge/"

// Challenges returns a handler that answers the authority's HTTP-01 challenges for the hosts, and calls next
// for other requests.
func (m *Manager) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := m.hosts[config.HostOf(r.Host)]
		if h == nil || !strings.HasPrefix(r.URL.Path, challengePath) {
			next.ServeHTTP(w, r)
			return
		}

		h.orders.Load().challenges.ServeHTTP(w, r)
	})
}
