// Package acme obtains and renews the TLS certificates of the public hosts by ACME (RFC 8555), and
// answers the authority's challenges. The certificates, their keys and the account's key are in the
// database.
package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// orderTimeout bounds one order.
	orderTimeout = 3 * time.Minute

	// storeTimeout bounds a call of the database.
	storeTimeout = 10 * time.Second

	// seeEvery is the time between two records of a state that did not change.
	seeEvery = time.Hour

	// renewBefore is the longest time before its end at which a certificate is renewed.
	renewBefore = 30 * 24 * time.Hour
)

// Options are the settings of a Manager.
type Options struct {
	DB        *db.DB
	Hosts     []string       // lower case
	Directory string         // address of the authority's directory
	Email     string         // of a new account; may be empty
	Roots     *x509.CertPool // of the directory's certificate; nil: the system's
	Now       func() time.Time
	Log       *slog.Logger

	PollEvery time.Duration                    // between two looks at the certificates; 0: 10 seconds
	Pause     func(failures int) time.Duration // after failures in a row; nil: pause
}

// Manager obtains and renews the certificates of its hosts. It is safe for concurrent use.
type Manager struct {
	Options
	store  *certificates.Store
	hosts  map[string]*host
	client *acme.Client // of the account; nil before the first order
}

// host is the certificate of a host. Run alone changes the fields that are not atomic.
type host struct {
	name   string
	served atomic.Pointer[tls.Certificate] // nil: none yet
	answer atomic.Pointer[answer]          // to the challenge of the order in progress; nil: none

	isLoaded bool
	unsaved  []byte    // of a new certificate that could not be stored
	failures int       // of orders in a row
	next     time.Time // of the next order
	recorded certificates.Host
	seen     time.Time // of the last record
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
		m.hosts[name] = &host{name: name}
	}
	return m
}

// pause returns the time without an order after failures in a row. It keeps within 5 failed
// validations of a host in an hour, which is Let's Encrypt's limit: two orders, each with up to two
// validations.
func pause(failures int) time.Duration {
	pauses := []time.Duration{0, 5 * time.Minute, time.Hour}
	return pauses[min(failures, len(pauses)-1)]
}

// Run serves the stored certificates, and orders those that are missing or due, one after the
// other, until ctx ends. Without an authority or a database it tries again.
func (m *Manager) Run(ctx context.Context) {
	ticker := time.NewTicker(m.PollEvery)
	defer ticker.Stop()

	for {
		// An order can take minutes, so all stored certificates are served first.
		for _, name := range m.Hosts {
			m.load(ctx, m.hosts[name])
		}
		for _, name := range m.Hosts {
			m.tend(ctx, m.hosts[name])
		}

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// load serves the stored certificate of a host, also an expired one.
func (m *Manager) load(ctx context.Context, h *host) {
	if h.isLoaded {
		return
	}

	certificate, err := m.stored(ctx, h.name)
	if err != nil {
		m.Log.ErrorContext(ctx, "certificate not read", "host", h.name, "error", err)
		return
	}
	h.isLoaded = true
	h.served.Store(certificate)
}

// tend orders the certificate of a host if it is missing or due, and records the state.
func (m *Manager) tend(ctx context.Context, h *host) {
	now := m.Now()
	mayOrder := h.isLoaded && h.unsaved == nil && !now.Before(h.next) && ctx.Err() == nil
	if mayOrder && isDue(h.served.Load(), now) {
		m.renew(ctx, h)
	}
	if h.unsaved != nil {
		m.save(ctx, h)
	}
	m.see(ctx, h)
}

// isDue reports whether a certificate is missing, or a third of its lifetime is left, at most 30
// days.
func isDue(certificate *tls.Certificate, now time.Time) bool {
	if certificate == nil {
		return true
	}
	leaf := certificate.Leaf
	return leaf.NotAfter.Sub(now) <= min(leaf.NotAfter.Sub(leaf.NotBefore)/3, renewBefore)
}

// renew orders the certificate of a host once, and serves it.
func (m *Manager) renew(ctx context.Context, h *host) {
	order, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()

	certificate, text, err := m.order(order, h)
	if ctx.Err() != nil {
		return // The process ends, which is no failure of the order.
	}
	if err != nil {
		m.client = nil // The authority may have lost the account.
		h.failures++
		h.next = m.Now().Add(m.Pause(h.failures))
		m.Log.ErrorContext(ctx, "certificate not obtained", "host", h.name, "error", err)
		return
	}

	h.failures, h.unsaved = 0, text
	h.served.Store(certificate)
	m.Log.InfoContext(ctx, "certificate obtained", "host", h.name, "expires", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

// see records the state of a host when it has changed, and once an hour.
func (m *Manager) see(ctx context.Context, h *host) {
	now, state := m.Now(), h.state()
	if !h.isLoaded || h.recorded == state && now.Sub(h.seen).Abs() < seeEvery {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := m.store.See(ctx, state, model.At(now)); err != nil {
		m.Log.ErrorContext(ctx, "the state of a certificate was not recorded", "host", h.name, "error", err)
		return
	}
	h.recorded, h.seen = state, now
}

var (
	errUnknownHost   = errors.New("unknown host")
	errNoCertificate = errors.New("there is no certificate yet")
	errNoChallenge   = errors.New("no challenge is in progress")
)

// TLS returns the configuration of a listener for the hosts, with Go's versions and ciphers. A
// handshake orders nothing, and fails for another host and before the first certificate.
func (m *Manager) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", acme.ALPNProto},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			h := m.hosts[config.HostOf(hello.ServerName)]
			if h == nil {
				return nil, errUnknownHost
			}

			// The authority checks TLS-ALPN-01.
			if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
				if a := h.answer.Load(); a != nil && a.certificate != nil {
					return a.certificate, nil
				}
				return nil, errNoChallenge
			}

			if certificate := h.served.Load(); certificate != nil {
				return certificate, nil
			}
			return nil, errNoCertificate
		},
	}
}

// Challenges returns a handler that answers the HTTP-01 challenge of the order in progress, and
// calls next for other requests.
func (m *Manager) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := m.hosts[config.HostOf(r.Host)]; h != nil {
			if a := h.answer.Load(); a != nil && a.path != "" && a.path == r.URL.Path {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
