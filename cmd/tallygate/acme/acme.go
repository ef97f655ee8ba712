// Package acme obtains and renews the TLS certificates of the public hosts by ACME (RFC 8555), and answers
// the authority's challenges. Its files, locks and states are in the database, so all nodes share them.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// orderTimeout bounds one order.
	orderTimeout = 3 * time.Minute

	// recordTimeout bounds the record of an order's result.
	recordTimeout = 10 * time.Second

	// seeEvery is the time between two records that this process is configured with its hosts.
	seeEvery = time.Hour
)

// Options are the settings of a Manager.
type Options struct {
	DB        *db.DB
	Hosts     []string       // lower case
	Directory string         // address of the authority's directory
	Email     string         // of the account; may be empty
	Roots     *x509.CertPool // of the directory's certificate; nil: the system's
	HTTP      net.Addr       // where this process answers HTTP-01
	TLS       net.Addr       // where this process answers TLS-ALPN-01
	Now       func() time.Time
	Log       *slog.Logger

	RenewEvery time.Duration                    // between two checks of the remaining time; 0: 10 minutes
	PollEvery  time.Duration                    // between two looks at what other nodes have done; 0: 10 seconds
	Pause      func(failures int) time.Duration // after failures in a row; nil: certificates.Pause

	NoHTTP, NoTLSALPN bool // leave out a kind of challenge
}

// Manager obtains and renews the certificates of its hosts. It is safe for concurrent use.
type Manager struct {
	Options
	store  *certificates.Store
	cache  *certmagic.Cache
	magic  *certmagic.Config
	issuer *certmagic.ACMEIssuer
	hosts  map[string]bool
	close  sync.Once

	states atomic.Pointer[map[string]certificates.Host] // as last read; nil: not yet
}

// New returns a Manager. It orders nothing before Run. Close releases it.
func New(o Options) *Manager {
	if o.RenewEvery == 0 {
		o.RenewEvery = certmagic.DefaultRenewCheckInterval
	}
	if o.PollEvery == 0 {
		o.PollEvery = 10 * time.Second
	}
	if o.Pause == nil {
		o.Pause = certificates.Pause
	}

	m := &Manager{Options: o, store: certificates.New(o.DB), hosts: make(map[string]bool)}
	for _, host := range o.Hosts {
		m.hosts[host] = true
	}

	// The library's log lines have addresses of clients, so its logger writes nothing. Orders return their
	// errors.
	silent := zap.NewNop()
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.magic, nil },
		RenewCheckInterval: o.RenewEvery,
		Logger:             silent,
	})
	m.magic = certmagic.New(m.cache, certmagic.Config{
		Storage: newStorage(m.store, o.Now),
		OCSP:    certmagic.OCSPConfig{DisableStapling: true}, // Let's Encrypt has no responders any more
		OnEvent: m.onEvent,
		Logger:  silent,
	})
	m.issuer = certmagic.NewACMEIssuer(m.magic, certmagic.ACMEIssuer{
		CA:                o.Directory,
		TestCA:            o.Directory, // the default is another authority
		Email:             o.Email,
		Agreed:            true, // the setting says so
		TrustedRoots:      o.Roots,
		CertObtainTimeout: orderTimeout,
		ListenHost:        hostOf(o.HTTP),
		AltHTTPPort:       portOf(o.HTTP),
		AltTLSALPNPort:    portOf(o.TLS),
		Logger:            silent,

		DisableHTTPChallenge: o.NoHTTP, DisableTLSALPNChallenge: o.NoTLSALPN,
	})
	m.magic.Issuers = []certmagic.Issuer{&issuer{m.issuer, m}}

	return m
}

// hostOf returns the host of a listener's address. The library opens a listener of its own if none listens
// there.
func hostOf(addr net.Addr) string {
	host, _, _ := net.SplitHostPort(addr.String())
	return host
}

func portOf(addr net.Addr) int { return addr.(*net.TCPAddr).Port }

// issuer is certmagic's issuer with the pause that all nodes share.
type issuer struct {
	*certmagic.ACMEIssuer
	manager *Manager
}

// errPaused means that an order must wait, because the last one failed on this or another node.
var errPaused = errors.New("the last order failed a short time ago")

// errStorage means that the database failed.
var errStorage = errors.New("the database failed")

// PreCheck runs in the lock of an order. It never asks for an address on the terminal. It refuses the library's
// own renewals, because their pauses are of one process: renew orders.
func (i *issuer) PreCheck(ctx context.Context, names []string, _ bool) error {
	if faultsOf(ctx) == nil {
		return errPaused
	}
	for _, name := range names {
		state, err := i.manager.store.Host(ctx, name)
		if err != nil {
			return fmt.Errorf("%w: %w", errStorage, err)
		}
		if i.manager.wait(state) > 0 {
			return errPaused
		}
	}
	return i.ACMEIssuer.PreCheck(ctx, names, false)
}

// wait returns how long to wait before the next order of a host.
func (m *Manager) wait(state certificates.Host) time.Duration {
	return state.FailedAt.Time().Add(m.Pause(state.Failures)).Sub(m.Now())
}

// Run obtains and renews certificates until ctx ends. Without an authority it continues to try.
func (m *Manager) Run(ctx context.Context) {
	defer m.Close()
	var group sync.WaitGroup
	defer group.Wait()

	for _, host := range m.Options.Hosts {
		group.Go(func() {
			m.obtain(ctx, host)
			m.renew(ctx, host)
		})
	}

	ticker := time.NewTicker(m.PollEvery)
	defer ticker.Stop()
	var seen time.Time
	for {
		if now := m.Now(); now.Sub(seen).Abs() >= seeEvery {
			if err := m.store.See(ctx, m.Options.Hosts, model.At(now)); err == nil {
				seen = now
			}
		}
		m.readStates(ctx)

		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Close ends the renewals, as Run does at its end. Handshakes still get certificates.
func (m *Manager) Close() { m.close.Do(m.cache.Stop) }

// obtain loads the certificate of a host, or orders it.
func (m *Manager) obtain(ctx context.Context, host string) {
	for ctx.Err() == nil {
		pause, err := m.tryObtain(ctx, host)
		if err == nil {
			return
		}
		sleep(ctx, pause)
	}
}

// renew renews the certificate of a host whenever the library says that it is due, until ctx ends.
func (m *Manager) renew(ctx context.Context, host string) {
	for ctx.Err() == nil {
		pause := m.PollEvery
		if m.isDue(host) {
			var err error
			pause, err = m.order(ctx, host, func(ctx context.Context, host string) error {
				return m.magic.RenewCertSync(ctx, host, false)
			})
			if err == nil {
				// Load the certificate, which another node may have renewed.
				_ = m.cache.RenewManagedCertificates(ctx)
				pause = m.RenewEvery
			}
		}
		sleep(ctx, pause)
	}
}

// isDue reports whether the certificate that this process serves for a host must be renewed.
func (m *Manager) isDue(host string) bool {
	certs := m.cache.AllMatchingCertificates(host)
	for i := range certs {
		if !certs[i].NeedsRenewal(m.magic) {
			return false
		}
	}
	return len(certs) > 0
}

// sleep waits until ctx ends or d has passed.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// tryObtain loads the certificate of a host, or orders it once. It returns the time until the next attempt.
func (m *Manager) tryObtain(ctx context.Context, host string) (pause time.Duration, err error) {
	if _, err = m.magic.CacheManagedCertificate(ctx, host); err == nil {
		return 0, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		// No order has failed, so the next one need not wait.
		m.Log.ErrorContext(ctx, "certificate not read", "host", host, "error", err)
		return m.PollEvery, err
	}

	if pause, err = m.order(ctx, host, m.magic.ObtainCertSync); err == nil {
		_, err = m.magic.CacheManagedCertificate(ctx, host)
	}
	return pause, err
}

// order lets the library order once, unless the pause that all nodes share is not over. It returns the time
// until the next attempt. The lock of the order is held for less than its lease.
func (m *Manager) order(
	ctx context.Context, host string, run func(context.Context, string) error,
) (pause time.Duration, err error) {
	state, err := m.store.Host(ctx, host)
	if err != nil {
		return m.PollEvery, err
	}
	if wait := m.wait(state); wait > 0 {
		// Another node may obtain the certificate meanwhile.
		return min(wait, m.PollEvery), errPaused
	}

	order, found := withFaults(ctx)
	order, cancel := context.WithTimeout(order, lockLease)
	defer cancel()
	if err = run(order, host); err != nil && ctx.Err() == nil {
		m.failed(ctx, host, found.explain(err))
	}
	return m.PollEvery, err
}

// onEvent records new certificates. The library calls it.
func (m *Manager) onEvent(ctx context.Context, event string, data map[string]any) error {
	if event == "cert_obtained" {
		host, _ := data["identifier"].(string)
		file, _ := data["certificate_path"].(string)
		m.obtained(ctx, host, file)
	}
	return nil
}

// obtained records a new certificate.
func (m *Manager) obtained(ctx context.Context, host, file string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()

	text, err := m.magic.Storage.Load(ctx, file)
	if err == nil {
		var chain []*x509.Certificate
		if chain, err = parseChain(text); err == nil {
			m.Log.InfoContext(ctx, "certificate obtained", "host", host, "expires", chain[0].NotAfter.UTC().Format(time.RFC3339))
			err = m.store.Obtained(ctx, host, model.At(chain[0].NotBefore), model.At(chain[0].NotAfter), model.At(m.Now()))
		}
	}
	if err != nil {
		m.Log.ErrorContext(ctx, "the new certificate was not recorded", "host", host, "error", err)
	}
	m.readStates(ctx)
}

// failed logs and records an order that failed.
func (m *Manager) failed(ctx context.Context, host string, err error) {
	if errors.Is(err, errPaused) {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()

	class := classify(err)
	m.Log.ErrorContext(ctx, "certificate not obtained", "host", host, "class", class, "error", err)
	if err := m.store.Failed(ctx, host, class, model.At(m.Now())); err != nil {
		m.Log.ErrorContext(ctx, "the failure of a certificate was not recorded", "host", host, "error", err)
	}
	m.readStates(ctx)
}

// readStates reads the states of the hosts. Without the database the last ones stay.
func (m *Manager) readStates(ctx context.Context) {
	list, err := m.store.Hosts(ctx, model.At(m.Now()))
	if err != nil {
		return
	}

	states := make(map[string]certificates.Host, len(list))
	for _, state := range list {
		states[state.Host] = state
	}
	m.states.Store(&states)
}

// errUnknownHost is the error of a handshake for another host.
var errUnknownHost = errors.New("unknown host")

// TLS returns the configuration of a listener for the hosts, with Go's versions and ciphers. A handshake
// for another host fails, and reads and orders nothing.
func (m *Manager) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1", "acme-tls/1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !m.hosts[config.HostOf(hello.ServerName)] {
				return nil, errUnknownHost
			}
			return m.magic.GetCertificate(hello)
		},
	}
}

// Challenges returns a handler that answers the authority's HTTP-01 challenges for the hosts, also for orders
// of other nodes, and calls next for other requests.
func (m *Manager) Challenges(next http.Handler) http.Handler {
	challenges := m.issuer.HTTPChallengeHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.hosts[config.HostOf(r.Host)] {
			challenges.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
