package provider_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/graph/provider"
	"github.com/tallygate/tallygate/tools/testkit"
)

// issuer is a provider with metadata and a token endpoint.
type issuer struct {
	*httptest.Server
	connections atomic.Int64
	metadata    func(map[string]any) // changes the metadata
	serve       atomic.Pointer[http.HandlerFunc]
}

// newIssuer starts a provider on an address of this machine.
func newIssuer(t *testing.T, address string) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if serve := i.serve.Load(); serve != nil {
			(*serve)(w, r)
			return
		}
		i.discovery(w)
	}))
	listener, err := net.Listen("tcp", address+":0")
	testkit.NoError(t, err)
	i.Listener.Close()
	i.Listener = listener
	i.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			i.connections.Add(1)
		}
	}
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

// discovery answers with the metadata.
func (i *issuer) discovery(w http.ResponseWriter) {
	data := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"jwks_uri": i.URL + "/keys", "end_session_endpoint": i.URL + "/logout",
	}
	if i.metadata != nil {
		i.metadata(data)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(data)
}

func (i *issuer) set(serve http.HandlerFunc) { i.serve.Store(&serve) }

func (i *issuer) settings() provider.Settings {
	return provider.Settings{Issuer: i.URL, ClientID: "tallygate", ClientSecret: "secret"}
}

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *clock) add(d time.Duration) { c.at.Add(int64(d)) }

// newClient returns a client that trusts the certificates of issuers and may call the networks.
func newClient(now func() time.Time, networks []string, issuers ...*issuer) *provider.Client {
	pool := x509.NewCertPool()
	for _, i := range issuers {
		pool.AddCert(i.Certificate())
	}
	options := provider.Options{Authorities: pool, Now: now, Timeout: time.Minute}
	for _, network := range networks {
		options.Allowed = append(options.Allowed, netip.MustParsePrefix(network))
	}
	return provider.New(options)
}

var local = []string{"127.0.0.0/8"}

// reason returns the reason of an error; "" for nil.
func reason(err error) provider.Reason {
	if failed, ok := errors.AsType[*provider.Error](err); ok {
		return failed.Reason
	}
	if err != nil {
		return "another error: " + provider.Reason(err.Error())
	}
	return ""
}

func finish(ctx context.Context, c *provider.Client, s provider.Settings) error {
	_, err := c.Finish(ctx, s, provider.Attempt{}, provider.Answer{Code: "code"}, "https://stats.example/callback")
	return err
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// TestPrivateAddressesAreNotCalled checks the guard at the time of the connection: no address that
// a provider names leads to a network that accounts must not call.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	t.Parallel()

	t.Run("issuer", func(t *testing.T) {
		i := newIssuer(t, "127.0.0.1")
		c := newClient(time.Now, nil, i)
		if got := reason(c.Check(t.Context(), i.settings())); got != provider.Unavailable || i.connections.Load() != 0 {
			t.Errorf("an account's issuer: %q, %d connections", got, i.connections.Load())
		}

		trusted := i.settings()
		trusted.Trusted = true
		testkit.Succeeds(t, c.Check(t.Context(), trusted), "the installation's issuer")
	})

	for _, field := range []string{"token_endpoint", "jwks_uri"} {
		t.Run(field, func(t *testing.T) {
			i, private := newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.2")
			i.metadata = func(m map[string]any) { m[field] = private.URL + "/" }
			i.set(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"access_token": "a", "token_type": "Bearer", "id_token": "eyJhbGciOiJSUzI1NiJ9.`+
						// {"iss":…} is compared before the signature, so the token needs the
						// issuer.
						encode(fmt.Sprintf(`{"iss":%q,"aud":"tallygate","exp":4102444800}`, i.URL))+`.AAAA"}`)
					return
				}
				i.discovery(w)
			})

			err := finish(t.Context(), newClient(time.Now, []string{"127.0.0.1/32"}, i), i.settings())
			if err == nil || private.connections.Load() != 0 || !strings.Contains(err.Error(), "must not be called") {
				t.Errorf("%v, %d connections", err, private.connections.Load())
			}

			// With the network allowed, the same calls connect.
			_ = finish(t.Context(), newClient(time.Now, local, i), i.settings())
			if private.connections.Load() == 0 {
				t.Errorf("nothing calls the %s", field)
			}
		})
	}
}

// TestRedirectsAreNotFollowed checks that no call reaches the server to which a provider redirects
// it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.1")
	c := newClient(time.Now, local, i, other)
	i.set(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			http.Redirect(w, r, other.URL+"/token", http.StatusTemporaryRedirect)
			return
		}
		i.discovery(w)
	})
	testkit.Equal(t, reason(finish(t.Context(), c, i.settings())), provider.Misconfigured, "a redirect of the token endpoint")

	moved := newIssuer(t, "127.0.0.1")
	c = newClient(time.Now, local, moved, other)
	moved.set(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
	})
	testkit.Equal(t, reason(c.Check(t.Context(), moved.settings())), provider.Misconfigured, "a redirect of the metadata")
	testkit.Equal(t, other.connections.Load(), 0, "connections to the other server")
}

// TestMetadataNeedsTLS checks each address of the metadata.
func TestMetadataNeedsTLS(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"} {
		i := newIssuer(t, "127.0.0.1")
		i.metadata = func(m map[string]any) { m[field] = "http://corp.example/" }
		if got := reason(newClient(time.Now, local, i).Check(t.Context(), i.settings())); got != provider.Misconfigured {
			t.Errorf("%s without TLS: %q", field, got)
		}
	}
}

// TestCausesAreShort checks that an answer of a provider is not kept or logged as a whole.
func TestCausesAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line\n\x1b[31m\u202e", 30000)
	i := newIssuer(t, "127.0.0.1")
	i.set(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			http.Error(w, long, http.StatusInternalServerError)
			return
		}
		i.discovery(w)
	})
	c := newClient(time.Now, local, i)
	short := func(name string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		text := err.Error()
		code, quoted, _ := strings.Cut(text, ": ")
		cause, unquoted := strconv.Unquote(quoted)
		if len(text) > 600 || strings.ContainsAny(text, "\n\x1b\u202e") || unquoted != nil || len([]rune(cause)) > 160 ||
			code != string(reason(err)) {
			t.Errorf("%s: an error of %d bytes: %.400q", name, len(text), text)
		}
	}
	short("the token endpoint", finish(t.Context(), c, i.settings()))

	// Of an OAuth error only the start of its code.
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"error": "invalid_grant" + long[:1000], "error_description": "described", "error_uri": "linked",
		})
	})
	err := finish(t.Context(), c, i.settings())
	short("an OAuth error", err)
	if text := err.Error(); !strings.Contains(text, "status 400") || !strings.Contains(text, "invalid_grant") ||
		strings.Contains(text, "described") || strings.Contains(text, "linked") {
		t.Errorf("an OAuth error: %s", text)
	}

	i.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, long, http.StatusInternalServerError) })
	short("the metadata", newClient(time.Now, local, i).Check(t.Context(), i.settings()))

	i.serve.Store(nil)
	i.metadata = func(m map[string]any) { m["jwks_uri"] = "http://" + long }
	short("an address", newClient(time.Now, local, i).Check(t.Context(), i.settings()))
}

// TestSlowIssuerLeavesCalls checks that an issuer without an answer takes 2 calls, and that other
// issuers, and the installation's provider, are called meanwhile.
func TestSlowIssuerLeavesCalls(t *testing.T) {
	t.Parallel()
	slow, other, own := newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.1")
	c := newClient(time.Now, local, slow, other, own)
	testkit.NoError(t, c.Check(t.Context(), slow.settings()))

	entered, release := make(chan struct{}, 20), make(chan struct{})
	slow.set(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 12)
	for range 12 {
		go func() { ended <- finish(ctx, c, slow.settings()) }()
	}
	<-entered
	<-entered

	trusted := own.settings()
	trusted.Trusted = true
	for _, s := range []provider.Settings{other.settings(), trusted} {
		testkit.Succeeds(t, c.Check(t.Context(), s), "another provider")
	}

	// The other ten end with their requests, or after the wait for a call. The two go on without
	// their requests.
	cancel()
	for range 10 {
		<-ended
	}
	if n := len(entered); n != 0 {
		t.Errorf("%d calls of an issuer at once, want 2", n+2)
	}
	close(release)
	<-ended
	<-ended
}

// hostileIssuers is a server whose paths are issuers. Those below /known/ answer until they hang,
// the others never do.
type hostileIssuers struct {
	*issuer
	hang    atomic.Bool
	entered chan string // paths of calls without an answer
}

func newHostileIssuers(t *testing.T) *hostileIssuers {
	h := &hostileIssuers{issuer: newIssuer(t, "127.0.0.1"), entered: make(chan string, 1000)}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	h.set(func(w http.ResponseWriter, r *http.Request) {
		if h.hang.Load() || !strings.HasPrefix(r.URL.Path, "/known/") {
			h.entered <- r.URL.Path
			<-release
			return
		}
		issuer := h.URL + strings.TrimSuffix(r.URL.Path, "/.well-known/openid-configuration")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": issuer, "authorization_endpoint": issuer, "token_endpoint": issuer, "jwks_uri": issuer,
		})
	})
	return h
}

func (h *hostileIssuers) settings(path string, n int) provider.Settings {
	return provider.Settings{Issuer: fmt.Sprint(h.URL, path, n), ClientID: "tallygate", ClientSecret: "secret"}
}

// isCalled fails unless the calls of an issuer that answers find a place.
func isCalled(t *testing.T, c *provider.Client, i *issuer, when string) {
	t.Helper()
	for range 10 {
		// The issuer has no tokens: its answer is wrong, but it answers.
		if err := finish(t.Context(), c, i.settings()); reason(err) != provider.Misconfigured {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// TestUnknownIssuersLeaveCalls checks that issuers that have never answered get two calls together,
// and so delay no issuer that is known to answer.
func TestUnknownIssuersLeaveCalls(t *testing.T) {
	t.Parallel()
	at := &clock{}
	at.add(24 * time.Hour)
	honest, hostile := newIssuer(t, "127.0.0.1"), newHostileIssuers(t)
	c := newClient(at.now, local, honest, hostile.issuer)
	isCalled(t, c, honest, "alone")

	ended := make(chan error, 30)
	for n := range 30 {
		go func() { ended <- c.Check(context.Background(), hostile.settings("/silent/", n)) }()
	}
	<-hostile.entered
	<-hostile.entered
	isCalled(t, c, honest, "next to issuers that have never answered")

	// The others wait in vain.
	for range 28 {
		if err := <-ended; reason(err) != provider.Unavailable {
			t.Errorf("an issuer that does not answer: %v", err)
		}
	}
	if n := len(hostile.entered); n > 0 {
		t.Errorf("%d calls at once of issuers that have never answered, want 2", n+2)
	}

	// After an hour without a call, the honest issuer is as unknown as they are.
	at.add(time.Hour)
	testkit.Equal(t, reason(finish(t.Context(), c, honest.settings())), provider.Unavailable, "an hour later")
}

// TestSlowIssuersLeaveCalls checks that issuers that have answered before get two calls together
// from their first slow call on, also if its request has ended before.
func TestSlowIssuersLeaveCalls(t *testing.T) {
	t.Parallel()
	honest, hostile := newIssuer(t, "127.0.0.1"), newHostileIssuers(t)
	pool := x509.NewCertPool()
	pool.AddCert(honest.Certificate())
	c := provider.New(provider.Options{
		Authorities: pool, Now: time.Now, Timeout: 3 * time.Second, Allowed: []netip.Prefix{netip.MustParsePrefix(local[0])},
	})
	isCalled(t, c, honest, "alone")
	for n := range 4 {
		testkit.NoError(t, c.Check(t.Context(), hostile.settings("/known/", n)))
	}

	// All places are theirs until the calls end.
	hostile.hang.Store(true)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 8)
	hang := func(ctx context.Context) {
		for n := range 8 {
			go func() { ended <- finish(ctx, c, hostile.settings("/known/", n%4)) }()
		}
	}
	hang(ctx)
	for range 8 {
		<-hostile.entered
	}
	leave()
	for range 8 {
		<-ended
	}

	hang(t.Context())
	for left := 8; left > 0; {
		isCalled(t, c, honest, "next to issuers that were slow")
		select {
		case <-ended:
			left--
		case <-time.After(20 * time.Millisecond):
			// The honest issuer must be called while they hang.
		}
	}
}

// TestLeavingBrowsers checks that requests that end during a call do not make an issuer look slow
// or unavailable.
func TestLeavingBrowsers(t *testing.T) {
	t.Parallel()
	honest, hostile := newIssuer(t, "127.0.0.1"), newHostileIssuers(t)
	c := newClient(time.Now, local, honest, hostile.issuer)
	isCalled(t, c, honest, "alone")

	ctx, leave := context.WithCancel(t.Context())
	honest.set(func(http.ResponseWriter, *http.Request) { leave() })
	testkit.Equal(t, reason(finish(ctx, c, honest.settings())), provider.Misconfigured, "a request that ends during the call")
	honest.serve.Store(nil)

	for n := range 2 {
		go func() { _ = c.Check(context.Background(), hostile.settings("/silent/", n)) }()
	}
	<-hostile.entered
	<-hostile.entered
	isCalled(t, c, honest, "after a request that has ended")
}

// TestWaitEndsWithRequest checks that a request does not wait for the discovery of another one
// after its own end.
func TestWaitEndsWithRequest(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, "127.0.0.1")
	entered, release := make(chan struct{}), make(chan struct{})
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		i.discovery(w)
	})
	c := newClient(time.Now, local, i)
	first := make(chan error, 1)
	go func() { first <- c.Check(context.Background(), i.settings()) }()
	<-entered

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Equal(t, reason(c.Check(ctx, i.settings())), provider.Unavailable, "a request that has ended")
	close(release)
	testkit.Succeeds(t, <-first, "the discovery")
}

// TestStaleMetadata checks that a failed refresh keeps the metadata for a day, and repeats no call
// for some seconds.
func TestStaleMetadata(t *testing.T) {
	t.Parallel()
	at := &clock{}
	at.add(time.Hour)
	i := newIssuer(t, "127.0.0.1")
	c := newClient(at.now, local, i)
	testkit.NoError(t, c.Check(t.Context(), i.settings()))

	var calls atomic.Int64
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	at.add(time.Hour)
	for range 3 {
		testkit.Succeeds(t, c.Check(t.Context(), i.settings()), "an hour old, and the provider is away")
	}
	at.add(10 * time.Second)
	_ = c.Check(t.Context(), i.settings())
	testkit.Equal(t, calls.Load(), 2, "calls")

	at.add(24 * time.Hour)
	if got := reason(c.Check(t.Context(), i.settings())); got == "" {
		t.Error("metadata is used after a day of failures")
	}
}

// TestRefreshDuringSignIns refreshes the metadata, with and without success, while other requests
// use it. The race detector and a nil dereference would show a shared value.
func TestRefreshDuringSignIns(t *testing.T) {
	t.Parallel()
	at := &clock{}
	at.add(time.Hour)
	i := newIssuer(t, "127.0.0.1")
	c := newClient(at.now, local, i)
	testkit.NoError(t, c.Check(t.Context(), i.settings()))
	var calls atomic.Int64
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		i.discovery(w)
	})

	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for range 100 {
				if worker == 0 {
					at.add(10 * time.Minute)
				}
				if address := c.SignOut(t.Context(), i.settings(), "https://stats.example/"); !strings.HasPrefix(address, i.URL) {
					t.Errorf("the address of the sign-out is %q", address)
				}
				if _, err := c.Start(t.Context(), i.settings(), provider.Attempt{}, "https://stats.example/", ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
