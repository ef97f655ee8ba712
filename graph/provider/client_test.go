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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/graph/provider"
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
	if err != nil {
		t.Fatal(err)
	}
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

// TestPrivateAddressesAreNotCalled checks the guard at the time of the connection: no address that a provider names
// leads to a network that accounts must not call.
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
		if err := c.Check(t.Context(), trusted); err != nil {
			t.Errorf("the installation's issuer: %v", err)
		}
	})

	for _, field := range []string{"token_endpoint", "jwks_uri"} {
		t.Run(field, func(t *testing.T) {
			i, private := newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.2")
			i.metadata = func(m map[string]any) { m[field] = private.URL + "/" }
			i.set(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"access_token": "a", "token_type": "Bearer", "id_token": "eyJhbGciOiJSUzI1NiJ9.`+
						// {"iss":…} is compared before the signature, so the token needs the issuer.
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

// TestRedirectsAreNotFollowed checks that no call reaches the server to which a provider redirects it.
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
	if got := reason(finish(t.Context(), c, i.settings())); got != provider.Misconfigured {
		t.Errorf("a redirect of the token endpoint: %q", got)
	}

	moved := newIssuer(t, "127.0.0.1")
	c = newClient(time.Now, local, moved, other)
	moved.set(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
	})
	if got := reason(c.Check(t.Context(), moved.settings())); got != provider.Misconfigured {
		t.Errorf("a redirect of the metadata: %q", got)
	}
	if n := other.connections.Load(); n != 0 {
		t.Errorf("%d connections to the other server", n)
	}
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
	long := strings.Repeat("a line\n\x1b[31m", 30000)
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
		if text := err.Error(); len(text) > 400 || strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("%s: an error of %d bytes: %.400q", name, len(text), text)
		}
	}
	short("the token endpoint", finish(t.Context(), c, i.settings()))

	i.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, long, http.StatusInternalServerError) })
	short("the metadata", newClient(time.Now, local, i).Check(t.Context(), i.settings()))

	i.serve.Store(nil)
	i.metadata = func(m map[string]any) { m["jwks_uri"] = "http://" + long }
	short("an address", newClient(time.Now, local, i).Check(t.Context(), i.settings()))
}

// TestSlowIssuerLeavesCalls checks that an issuer without an answer takes 2 calls, and that other issuers, and the
// installation's provider, are called meanwhile.
func TestSlowIssuerLeavesCalls(t *testing.T) {
	t.Parallel()
	slow, other, own := newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.1"), newIssuer(t, "127.0.0.1")
	c := newClient(time.Now, local, slow, other, own)
	if err := c.Check(t.Context(), slow.settings()); err != nil {
		t.Fatal(err)
	}

	entered, release := make(chan struct{}, 20), make(chan struct{})
	slow.set(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})

	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 12 {
		wait.Go(func() { _ = finish(ctx, c, slow.settings()) })
	}
	<-entered
	<-entered

	trusted := own.settings()
	trusted.Trusted = true
	for _, s := range []provider.Settings{other.settings(), trusted} {
		if err := c.Check(t.Context(), s); err != nil {
			t.Errorf("another provider: %v", err)
		}
	}

	// The other ten end with their requests.
	cancel()
	wait.Wait()
	close(release)
	if n := len(entered); n != 0 {
		t.Errorf("%d calls of an issuer at once, want 2", n+2)
	}
}

// TestWaitEndsWithRequest checks that a request does not wait for the discovery of another one after its own end.
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
	if got := reason(c.Check(ctx, i.settings())); got != provider.Unavailable {
		t.Errorf("a request that has ended: %q", got)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the discovery: %v", err)
	}
}

// TestStaleMetadata checks that a failed refresh keeps the metadata for a day, and repeats no call for some seconds.
func TestStaleMetadata(t *testing.T) {
	t.Parallel()
	at := &clock{}
	at.add(time.Hour)
	i := newIssuer(t, "127.0.0.1")
	c := newClient(at.now, local, i)
	if err := c.Check(t.Context(), i.settings()); err != nil {
		t.Fatal(err)
	}

	var calls atomic.Int64
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	at.add(time.Hour)
	for range 3 {
		if err := c.Check(t.Context(), i.settings()); err != nil {
			t.Errorf("an hour old, and the provider is away: %v", err)
		}
	}
	at.add(10 * time.Second)
	_ = c.Check(t.Context(), i.settings())
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}

	at.add(24 * time.Hour)
	if got := reason(c.Check(t.Context(), i.settings())); got == "" {
		t.Error("metadata is used after a day of failures")
	}
}

// TestRefreshDuringSignIns refreshes the metadata, with and without success, while other requests use it. The race
// detector and a nil dereference would show a shared value.
func TestRefreshDuringSignIns(t *testing.T) {
	t.Parallel()
	at := &clock{}
	at.add(time.Hour)
	i := newIssuer(t, "127.0.0.1")
	c := newClient(at.now, local, i)
	if err := c.Check(t.Context(), i.settings()); err != nil {
		t.Fatal(err)
	}
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
