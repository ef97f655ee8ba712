// Package provider speaks OpenID Connect with the providers that sign users in: it finds their addresses, makes
// the address of a sign-in, redeems the code that comes back, and checks the ID token. It decides neither who
// the person is here, nor what the person may do; package auth does.
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
	maxCalls     = 8 // discoveries and exchanges at once, of a process
	callWait     = 2 * time.Second
	metadataFor  = time.Hour
	failureFor   = 10 * time.Second // how long a failed discovery is not repeated
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
	calls            chan struct{}

	mu    sync.Mutex
	known map[knownKey]*known
}

// knownKey names kept metadata. The installation's provider and an account's are fetched by different
// clients, so they are kept apart.
type knownKey struct {
	issuer  string
	trusted bool
}

// known is the metadata of a provider, or the failure of its discovery.
type known struct {
	mu       sync.Mutex // of the discovery: one runs at a time for an issuer
	provider *oidc.Provider
	metadata metadata
	err      error
	at       time.Time // when it was found
}

// metadata is what go-oidc does not read.
type metadata struct {
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	EndSession  string   `json:"end_session_endpoint"`
	SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	Challenges  []string `json:"code_challenge_methods_supported"`
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
		calls: make(chan struct{}, maxCalls), known: make(map[knownKey]*known),
	}
}

// newHTTP returns the client of all calls. It follows no redirect, uses no proxy, and reads at most maxBody. guard checks
// the address after the name is resolved, as for webhooks: a name may lead elsewhere than when it was set.
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
func (c *Client) enter(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(callWait)
	defer timer.Stop()

	select {
	case c.calls <- struct{}{}:
		return func() { <-c.calls }, nil
	case <-timer.C:
		return nil, &Error{Reason: Unavailable, Cause: errors.New("too many calls to providers at once")}
	case <-ctx.Done():
		return nil, &Error{Reason: Unavailable, Cause: ctx.Err()}
	}
}

// http returns the client for the calls to a provider.
func (c *Client) http(s Settings) *http.Client {
	if s.Trusted {
		return c.trusted
	}
	return c.guarded
}

// find returns the metadata of a provider: kept for an hour, and a failure for some seconds.
func (c *Client) find(ctx context.Context, s Settings) (*known, error) {
	k := c.entry(knownKey{s.Issuer, s.Trusted})
	k.mu.Lock()
	defer k.mu.Unlock()

	age := c.now().Sub(k.at)
	if k.provider != nil && age >= 0 && age < metadataFor {
		return k, nil
	}
	if k.err != nil && age >= 0 && age < failureFor {
		return nil, k.err
	}

	leave, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()

	// The answer is kept for other requests, so this request's end does not end the call.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()

	found, data, err := c.discover(ctx, s)
	k.provider, k.metadata, k.err, k.at = found, data, err, c.now()
	return k, err
}

// entry returns the place of a provider's metadata. When there are too many, it drops any other.
func (c *Client) entry(key knownKey) *known {
	c.mu.Lock()
	defer c.mu.Unlock()

	if k := c.known[key]; k != nil {
		return k
	}
	for other := range c.known {
		if len(c.known) < maxProviders {
			break
		}
		delete(c.known, other)
	}

	k := &known{}
	c.known[key] = k
	return k
}
