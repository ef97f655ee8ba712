// Package provider speaks OpenID Connect with the providers that sign users in: it finds their
// addresses, makes the address of a sign-in, redeems the code that comes back, and checks the ID
// token. It decides neither who the person is here, nor what the person may do; package auth does.
package provider

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/tallygate/tallygate/db/model"
)

// Limits of all calls to providers.
const (
	callTimeout  = 5 * time.Second // of one call, with its body; less than a request has
	dialTimeout  = 5 * time.Second
	maxBody      = 512 << 10 // bytes of an answer
	maxHeader    = 16 << 10
	maxCalls     = 8               // discoveries and exchanges at once for accounts, of a process
	maxStrange   = 2               // of maxCalls for providers that have not answered, or were slow, in the last hour
	maxOwnCalls  = 4               // likewise for the installation's provider, in addition
	maxProbes    = 2               // providers that are asked whether their settings are right, in addition
	maxIssuer    = 2               // of maxCalls for one issuer, so that a slow one leaves calls to others
	callWait     = 2 * time.Second // for a free call; a call that takes longer is slow
	knownFor     = time.Hour       // how long an answer, or a slow call, counts for its provider
	metadataFor  = time.Hour
	staleFor     = 24 * time.Hour   // how long metadata is used while its refresh fails
	failureFor   = 10 * time.Second // how long a failed discovery is not repeated
	probeTimeout = 6 * time.Second  // of all calls of a probe; less than a request has
	maxProviders = 200              // whose metadata is kept
)

// Options configures a Client.
type Options struct {
	Allowed     []netip.Prefix // private networks in which accounts may name an issuer
	Authorities *x509.CertPool // trusted for TLS; nil: the system's
	Now         func() time.Time
	Timeout     time.Duration // of a call; 0: callTimeout
}

// Client calls providers. It is safe for concurrent use.
type Client struct {
	trusted, guarded *http.Client
	now              func() time.Time
	timeout          time.Duration
	calls, ownCalls  chan struct{}
	strange          chan struct{} // of calls, for providers that are not known to answer
	probes           chan struct{}

	mu      sync.Mutex
	entries map[knownKey]*entry
}

// knownKey names kept metadata. The installation's provider and an account's are fetched by
// different clients, so they are kept apart.
type knownKey struct {
	issuer  string
	trusted bool
}

// entry is the place of one provider.
type entry struct {
	turn  chan struct{} // of the discovery: one runs at a time
	calls chan struct{} // in progress or waiting
	known atomic.Pointer[known]

	// The ends of the last call with an answer and of the last slow call, in nanoseconds of Unix
	// time.
	answeredAt, slowAt atomic.Int64
}

// answers reports whether the provider has answered in the last hour, and no call of that hour was
// slow.
func (e *entry) answers(now time.Time) bool {
	since := now.Add(-knownFor).UnixNano()
	return e.answeredAt.Load() > since && e.slowAt.Load() <= since
}

// note records how a call has ended.
func (e *entry) note(now time.Time, took time.Duration, err error) {
	failed, ok := errors.AsType[*Error](err)
	switch {
	case took > callWait:
		e.slowAt.Store(now.UnixNano())
	case !ok || failed.Reason != Unavailable:
		e.answeredAt.Store(now.UnixNano())
	}
}

// known is the outcome of discoveries. It is immutable, so that a refresh does not change it under
// a sign-in.
type known struct {
	provider *oidc.Provider // nil: never found
	metadata metadata
	foundAt  time.Time
	err      error     // of the last discovery; nil: it succeeded
	triedAt  time.Time // when the last discovery ended
}

// answer returns the known metadata or the kept failure. It reports false if a discovery is due.
func (k *known) answer(now time.Time) (*known, error, bool) {
	if k == nil {
		return nil, nil, false
	}

	age, tried := now.Sub(k.foundAt), now.Sub(k.triedAt)
	switch {
	case k.provider != nil && age >= 0 && age < metadataFor:
		return k, nil, true
	case k.err == nil || tried < 0 || tried >= failureFor:
		return nil, nil, false
	case k.usable(now):
		return k, nil, true
	}
	return nil, k.err, true
}

// usable reports whether the metadata can serve while it cannot be refreshed.
func (k *known) usable(now time.Time) bool {
	age := now.Sub(k.foundAt)
	return k.provider != nil && age >= 0 && age < staleFor
}

// metadata is what go-oidc does not read.
type metadata struct {
	Issuer      string   `json:"issuer"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	EndSession  string   `json:"end_session_endpoint"`
	Keys        string   `json:"jwks_uri"`
	SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	Challenges  []string `json:"code_challenge_methods_supported"`
	Methods     []string `json:"token_endpoint_auth_methods_supported"` // nil: not known
}

// errBlocked is returned instead of connecting to an address that must not be called.
var errBlocked = errors.New("the address must not be called")

// New returns a Client.
func New(o Options) *Client {
	timeout := cmp.Or(o.Timeout, callTimeout)
	guard := func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !model.MayCall(to, o.Allowed) {
			return errBlocked
		}
		return nil
	}

	return &Client{
		trusted: newHTTP(o, timeout, nil), guarded: newHTTP(o, timeout, guard),
		now: o.Now, timeout: timeout,
		calls: make(chan struct{}, maxCalls), strange: make(chan struct{}, maxStrange), ownCalls: make(chan struct{}, maxOwnCalls),
		probes:  make(chan struct{}, maxProbes),
		entries: make(map[knownKey]*entry),
	}
}

// newHTTP returns the client of all calls. It follows no redirect, uses no proxy, and reads at most
// maxBody. guard checks the address after the name is resolved, as for webhooks: a name may lead
// elsewhere than when it was set.
func newHTTP(
	o Options, timeout time.Duration, guard func(context.Context, string, string, syscall.RawConn) error,
) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: guard}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{&http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSClientConfig:        &tls.Config{RootCAs: o.Authorities, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
			MaxIdleConns:           20,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
		}},
	}
}

// bounded fails to read more than maxBody of an answer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}

// enter waits for a free call, so that slow providers do not gather requests without bound.
// Accounts' providers share their calls, and providers that are not known to answer get few of
// these, so they do not delay the others. The installation's provider has calls of its own.
func (c *Client) enter(ctx context.Context, s Settings) (leave func(), err error) {
	timer := time.NewTimer(callWait)
	defer timer.Stop()

	e := c.entry(s)
	places := []chan struct{}{e.calls, c.calls}
	switch {
	case s.Trusted:
		places = []chan struct{}{c.ownCalls}
	case !e.answers(c.now()):
		places = []chan struct{}{e.calls, c.strange, c.calls}
	}

	var taken []func()
	leave = func() {
		for _, leave := range taken {
			leave()
		}
	}
	for _, place := range places {
		leaveOne, err := take(ctx, timer.C, place)
		if err != nil {
			leave()
			return nil, err
		}
		taken = append(taken, leaveOne)
	}
	return leave, nil
}

// take takes a place, or fails when the time or the request ends.
func take(ctx context.Context, late <-chan time.Time, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-late:
		return nil, newError(Unavailable, errors.New("too many calls to providers at once"))
	case <-ctx.Done():
		return nil, newError(Unavailable, ctx.Err())
	}
}

// http returns the client for the calls to a provider.
func (c *Client) http(s Settings) *http.Client {
	if s.Trusted {
		return c.trusted
	}
	return c.guarded
}

// find returns the metadata of a provider: kept for an hour, and a failure for some seconds. While
// a refresh fails, it returns the metadata of the last day.
func (c *Client) find(ctx context.Context, s Settings) (*known, error) {
	e := c.entry(s)
	if k, err, ok := e.known.Load().answer(c.now()); ok {
		return k, err
	}

	end, err := take(ctx, nil, e.turn)
	if err != nil {
		return nil, err
	}
	defer end()

	// Another request may have found it during the wait.
	before := e.known.Load()
	if k, err, ok := before.answer(c.now()); ok {
		return k, err
	}

	leave, err := c.enter(ctx, s)
	switch {
	case err != nil && before != nil && before.usable(c.now()):
		return before, nil
	case err != nil:
		return nil, err
	}
	defer leave()

	// The answer is kept for other requests, so this request's end does not end the call.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()

	began := time.Now()
	found, data, err := c.discover(ctx, s)
	now := c.now()
	e.note(now, time.Since(began), err)
	after := &known{provider: found, metadata: data, foundAt: now, err: err, triedAt: now}
	if err != nil && before != nil {
		after.provider, after.metadata, after.foundAt = before.provider, before.metadata, before.foundAt
	}
	e.known.Store(after)

	k, err, _ := after.answer(now)
	return k, err
}

// entry returns the place of a provider. When there are too many, it drops any other without a call
// in progress.
func (c *Client) entry(s Settings) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()

	key := knownKey{s.Issuer, s.Trusted}
	if e := c.entries[key]; e != nil {
		return e
	}
	for other, e := range c.entries {
		if len(c.entries) < maxProviders {
			break
		}
		if len(e.turn) == 0 && len(e.calls) == 0 {
			delete(c.entries, other)
		}
	}

	e := &entry{turn: make(chan struct{}, 1), calls: make(chan struct{}, maxIssuer)}
	c.entries[key] = e
	return e
}
