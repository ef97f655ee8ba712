package graph_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/graph/provider"
	"github.com/tallygate/tallygate/tools/testkit"
)

// providerKey signs the ID tokens of all providers of the tests, and strangeKey those with an
// unknown key.
var providerKey, strangeKey = sync.OnceValue(newKey), sync.OnceValue(newKey)

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// fakeProvider is an OpenID Connect provider that can lie.
type fakeProvider struct {
	t       *testing.T
	server  *httptest.Server
	clock   func() time.Time
	subject string
	email   string
	calls   int // of the token endpoint

	registered string // the client's only redirect address; empty: each is accepted
	secret     string // the client's only secret; empty: each is accepted

	userinfo func(w http.ResponseWriter) // answers at the userinfo endpoint; nil: there is none

	discovery func(map[string]any)               // changes the metadata
	claims    func(map[string]any)               // changes the ID token's claims
	sign      func(header, claims string) string // nil: as it should
	wrap      func(http.ResponseWriter, *http.Request) bool

	pending map[string]url.Values // requests by code
}

func newFakeProvider(t *testing.T) *fakeProvider {
	p := &fakeProvider{t: t, clock: time.Now, subject: "person-1", email: "anna@corp.example", pending: map[string]url.Values{}}
	p.server = httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	return p
}

func (p *fakeProvider) issuer() string { return p.server.URL }

func (p *fakeProvider) serve(w http.ResponseWriter, r *http.Request) {
	if p.wrap != nil && p.wrap(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		data := map[string]any{
			"issuer": p.issuer(), "authorization_endpoint": p.issuer() + "/authorize", "token_endpoint": p.issuer() + "/token",
			"jwks_uri": p.issuer() + "/keys", "end_session_endpoint": p.issuer() + "/logout",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
			"code_challenge_methods_supported":      []string{"S256"},
		}
		if p.userinfo != nil {
			data["userinfo_endpoint"] = p.issuer() + "/userinfo"
		}
		if p.discovery != nil {
			p.discovery(data)
		}
		_ = json.NewEncoder(w).Encode(data)
	case "/authorize":
		// The person is signed in at the provider already.
		request := r.URL.Query()
		to := request.Get("redirect_uri")
		if p.registered != "" && to != p.registered {
			http.Error(w, "unknown redirect_uri", http.StatusBadRequest)
			return
		}
		code := rand.Text()
		p.pending[code] = request
		answer := url.Values{"code": {code}, "state": {request.Get("state")}}
		http.Redirect(w, r, to+"?"+answer.Encode(), http.StatusFound)
	case "/userinfo":
		if p.userinfo == nil || r.Header.Get("Authorization") != "Bearer access" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p.userinfo(w)
	case "/keys":
		public := providerKey().PublicKey
		encode := base64.RawURLEncoding.EncodeToString
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1",
			"n": encode(public.N.Bytes()), "e": encode(big.NewInt(int64(public.E)).Bytes()),
		}}})
	case "/token":
		p.calls++
		_ = r.ParseForm()
		if _, secret, _ := r.BasicAuth(); p.secret != "" && secret != url.QueryEscape(p.secret) && r.PostForm.Get("client_secret") != p.secret {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error": "invalid_client"}`))
			return
		}
		request, ok := p.pending[r.PostForm.Get("code")]
		challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if !ok || request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) ||
			request.Get("redirect_uri") != r.PostForm.Get("redirect_uri") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
			return
		}
		delete(p.pending, r.PostForm.Get("code"))
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "access", "token_type": "Bearer", "id_token": p.token(request),
		})
	default:
		http.NotFound(w, r)
	}
}

// token returns the ID token for a request.
func (p *fakeProvider) token(request url.Values) string {
	now := p.clock()
	claims := map[string]any{
		"iss": p.issuer(), "sub": p.subject, "aud": request.Get("client_id"), "nonce": request.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "email": p.email, "email_verified": true,
	}
	if p.claims != nil {
		p.claims(claims)
	}
	content, _ := json.Marshal(claims)
	sign := p.sign
	if sign == nil {
		sign = signRS256(providerKey)
	}
	return sign(`{"alg":"RS256","kid":"k1","typ":"JWT"}`, string(content))
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func signRS256(key func() *rsa.PrivateKey) func(header, claims string) string {
	return func(header, claims string) string {
		text := part(header) + "." + part(claims)
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, key(), crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return text + "." + part(string(signature))
	}
}

// unsigned is a token with the algorithm none.
func unsigned(_, claims string) string {
	return part(`{"alg":"none","typ":"JWT"}`) + "." + part(claims) + "."
}

// signHMAC takes the public key, or the client secret, as the key of an HMAC.
func signHMAC(key []byte) func(header, claims string) string {
	return func(_, claims string) string {
		text := part(`{"alg":"HS256","kid":"k1","typ":"JWT"}`) + "." + part(claims)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return text + "." + part(string(mac.Sum(nil)))
	}
}

func publicPEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(&providerKey().PublicKey)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// withProviders lets accounts of an app have providers on this machine.
func withProviders(p *fakeProvider, dns *testkit.DNS, change ...func(*provider.Options)) setting {
	return func(s *settings) {
		p.clock = s.auth.Now
		pool := x509.NewCertPool()
		pool.AddCert(p.server.Certificate())
		options := provider.Options{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Authorities: pool, Now: s.auth.Now}
		for _, c := range change {
			c(&options)
		}
		s.auth.Providers, s.auth.ProviderNets, s.auth.Resolver = provider.New(options), options.Allowed, dns.Resolver()
		s.auth.Log = s.graph.Log
	}
}

const (
	setProviderMutation = `mutation($input: SetAccountProviderInput!) { setAccountProvider(input: $input) {
		provider { issuer clientId domain domainVerifiedAt recordName recordText defaultRole trustsEmails roleClaim roles { value role } }
		userErrors { field code message } } }`
	finishProviderMutation = `mutation($input: FinishProviderSignInInput!) { finishProviderSignIn(input: $input) {
		viewer { email role operator account { id name } accounts { name } } email needsPassword secondFactorMethods userErrors { field code } } }`
)

// provide sets and verifies the provider of an owner's account.
func (c *client) provide(p *fakeProvider, dns *testkit.DNS, more map[string]any) {
	c.t.Helper()
	input := map[string]any{
		"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "the client secret", "domain": "corp.example",
	}
	required := more["required"]
	maps.Copy(input, more)
	delete(input, "required")
	set := c.query(setProviderMutation, "input", input).ok(c.t, "setAccountProvider")
	set.named("the answer has the client secret").hides(c.t, "the client secret")
	dns.Set(set.at("setAccountProvider.provider.recordName").(string), set.at("setAccountProvider.provider.recordText").(string))
	c.done("verifyProviderDomain")
	if required != nil {
		input["required"] = required
		c.query(setProviderMutation, "input", input).ok(c.t, "setAccountProvider")
	}
}

// started starts a sign-in, and returns the address of the provider with its query.
func (c *client) started(email any) *url.URL {
	c.t.Helper()
	started := c.done("startProviderSignIn", "email", email, "next", "/sites/new")
	target := value(url.Parse(started.at("startProviderSignIn.url").(string)))(c.t)
	return target
}

// callback starts a sign-in, lets the provider answer, and returns the query of the page that the
// browser is led to. change changes the answer's query.
func (c *client) callback(p *fakeProvider, email any, change func(url.Values)) url.Values {
	c.t.Helper()
	request := c.started(email).Query()
	p.pending["code-1"] = request
	answer := url.Values{"code": {"code-1"}, "state": {request.Get("state")}}
	if change != nil {
		change(answer)
	}
	return c.answer(request.Get("redirect_uri"), answer)
}

// answer opens the address to which a provider leads back, and returns the query of the page that
// follows.
func (c *client) answer(redirect string, query url.Values) url.Values {
	c.t.Helper()
	page, status := c.browse(redirect + "?" + query.Encode())
	if page.Path != "/sign-in/provider" || status != http.StatusSeeOther {
		c.t.Fatalf("the callback answers %d and leads to %v", status, page)
	}
	return page.Query()
}

// browse opens an address and follows the redirects to the page that ends a sign-in, or to an
// answer that is none. It returns that address with the status that led to it.
func (c *client) browse(address string) (page *url.URL, status int) {
	c.t.Helper()
	browser := c.http
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for range 10 {
		res := value(browser.Get(address))(c.t)
		res.Body.Close()
		to, err := res.Location()
		if err != nil {
			return res.Request.URL, res.StatusCode
		}
		if to.Path == "/sign-in/provider" {
			return to, res.StatusCode
		}
		address = to.String()
	}
	c.t.Fatalf("too many redirects, the last one to %s", address)
	return nil, 0
}

func (c *client) finish(input map[string]any) *answer {
	c.t.Helper()
	return c.query(finishProviderMutation, "input", input)
}
