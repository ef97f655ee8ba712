package graph_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

// start is the time at which every test begins.
var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// app is a control plane on a listening socket.
type app struct {
	t     testing.TB
	db    *db.DB
	auth  *auth.Auth
	url   string // of /graphql
	clock *testkit.Clock
	log   *testkit.Log
	ids   *nodeid.IDs

	deliveries int64 // inserted by insertDelivery
}

// setting changes one option of an app.
type setting func(*settings)

type settings struct {
	auth  auth.Options
	graph graph.Options
	https bool
	host  string // of the base URL; "": the address

	wrap func(http.Handler) http.Handler // around the whole handler; nil: none
}

// addressHeader is the request header that carries the client's address in tests.
const addressHeader = "Test-Address"

func newApp(t testing.TB, d *db.DB, change ...setting) *app {
	t.Helper()

	a := &app{t: t, db: d, clock: testkit.NewClock(start), log: &testkit.Log{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s := settings{
		auth: auth.Options{
			DB: d, Secret: bytes.Repeat([]byte("k"), 32), Signups: model.SignupsOpen, Now: a.clock.Now,
			PasswordCost: &cheapHash,
			ClientAddr: func(r *http.Request) netip.Addr {
				addr, _ := netip.ParseAddr(r.Header.Get(addressHeader))
				return addr
			},
		},
		graph: graph.Options{
			DB: d, AnalyticsURL: "https://stats.example.net/", CaptchaURL: "https://captcha.example.net/", DefaultSitePlan: model.PlanFree, Now: a.clock.Now,
			Log: slog.New(slog.NewJSONHandler(a.log, nil)), Introspection: true,

			// A busy machine must not end requests.
			RequestTimeout: 5 * time.Minute,
		},
	}

	s.graph.ClientAddr = s.auth.ClientAddr
	for _, c := range change {
		c(&s)
	}

	authority := server.Listener.Addr().String()
	if s.host != "" {
		authority = strings.Replace(authority, "127.0.0.1", s.host, 1)
	}

	base := "http://" + authority

	if s.https {
		base = "https://" + authority
	}

	s.auth.BaseURL, s.graph.BaseURL = base, base
	var err error
	if a.ids, err = keys.New(d).NodeIDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.auth, err = auth.New(s.auth); err != nil {
		t.Fatal(err)
	}

	s.graph.Auth = a.auth
	handler, err := graph.New(s.graph)
	testkit.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	a.auth.Providers.MountCallback(mux)
	handler = mux
	if s.wrap != nil {
		handler = s.wrap(handler)
	}

	server.Config.Handler = handler

	if s.https {
		server.StartTLS()
	} else {
		server.Start()
	}

	t.Cleanup(server.Close)
	a.url = base + "/graphql"
	return a
}

// client is a browser: it keeps cookies.
type client struct {
	t        testing.TB
	app      *app
	http     http.Client
	address  string
	language string // Accept-Language; "": none
}

func (a *app) client() *client {
	a.t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.NoError(a.t, err)

	transport := http.DefaultTransport.(*http.Transport).Clone()

	// Accept the test server's own certificate.
	transport.TLSClientConfig.InsecureSkipVerify = true
	a.t.Cleanup(transport.CloseIdleConnections)
	return &client{t: a.t, app: a, http: http.Client{Jar: jar, Transport: transport}, address: "192.0.2.1"}
}

// answer is a response to a query.
type answer struct {
	name   string // in messages of failed checks, see named
	Status int
	Header http.Header
	Body   string
	Data   map[string]any `json:"data"`
	Errors []struct {
		Message    string         `json:"message"`
		Path       []any          `json:"path"`
		Extensions map[string]any `json:"extensions"`
	} `json:"errors"`
}

// send posts any body with any headers, given in pairs.
func (c *client) send(method, contentType, body string, header ...string) *answer {
	c.t.Helper()

	req, err := http.NewRequest(method, c.app.url, strings.NewReader(body))
	testkit.NoError(c.t, err)

	req.Header.Set(addressHeader, c.address)
	if c.language != "" {
		req.Header.Set("Accept-Language", c.language)
	}

	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}

	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}

	res, err := c.http.Do(req)
	testkit.NoError(c.t, err)
	defer res.Body.Close()

	text, err := io.ReadAll(res.Body)
	testkit.NoError(c.t, err)

	a := &answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}

	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/") {
		if err := json.Unmarshal(text, a); err != nil {
			c.t.Fatalf("answer %s: %v", text, err)
		}
	}

	return a
}

// query runs one document with variables, given in pairs.
func (c *client) query(query string, variables ...any) *answer {
	c.t.Helper()
	vars := map[string]any{}
	for i := 0; i < len(variables); i += 2 {
		vars[variables[i].(string)] = variables[i+1]
	}

	body, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	testkit.NoError(c.t, err)

	return c.send(http.MethodPost, "application/json", string(body))
}

// at returns the value at a dotted path of the data, such as "sites.edges.0.node.id".
func (a *answer) at(path string) any {
	var v any = a.Data

	for _, step := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil
			}

			v = x[i]
		default:
			return nil
		}
	}

	return v
}

// codes returns the codes of the top-level errors.
func (a *answer) codes() string {
	var codes []string
	for _, e := range a.Errors {
		codes = append(codes, fmt.Sprint(e.Extensions["code"]))
	}
	return strings.Join(codes, " ")
}

// userErrors returns the mutation's userErrors as "field:code", in order. The field is the dotted
// path within the input; a path to no field of the input is returned unchanged.
func (a *answer) userErrors(mutation string) string {
	list, _ := a.at(mutation + ".userErrors").([]any)
	var codes []string
	for _, e := range list {
		m := e.(map[string]any)
		path, _ := m["field"].([]any)
		if len(path) > 1 && isInput(mutation, path) {
			path = path[1:]
		}

		codes = append(codes, fmt.Sprintf("%s:%v", strings.Trim(strings.ReplaceAll(fmt.Sprint(path), " ", "."), "[]"), m["code"]))
	}

	return strings.Join(codes, " ")
}

// isInput reports whether a path leads from a mutation's argument to a field of it, or to an
// element of a list there.
func isInput(mutation string, path []any) bool {
	arg := schema.Mutation.Fields.ForName(mutation).Arguments.ForName(fmt.Sprint(path[0]))
	if arg == nil {
		return false
	}
	field := schema.Types[arg.Type.Name()].Fields.ForName(fmt.Sprint(path[1]))
	isItem := len(path) == 3 && field != nil && field.Type.Elem != nil
	return field != nil && (len(path) == 2 || isItem)
}

// ok fails the test if the response has top-level errors or userErrors of the mutation.
func (a *answer) ok(t testing.TB, mutation string) *answer {
	t.Helper()
	if a.Status != http.StatusOK || len(a.Errors) > 0 || (mutation != "" && a.userErrors(mutation) != "") {
		t.Fatalf("status %d, answer %s", a.Status, a.Body)
	}
	return a
}

const (
	password = "correct horse battery"

	signUpMutation = `mutation($email: String!, $password: String!, $name: String!) {
		signUp(input: {email: $email, password: $password, accountName: $name}) {
			viewer { id email operator account { id name } } verificationSent userErrors { field code message } } }`
	confirmMutation = `mutation($secret: String!, $password: String!) {
		confirmSignUp(input: {secret: $secret, password: $password}) {
			viewer { id email operator account { id name } } userErrors { field code message } } }`
	signInMutation = `mutation($email: String!, $password: String!) {
		signIn(input: {email: $email, password: $password}) { viewer { email } userErrors { field code message } } }`
	createSiteMutation = `mutation($domain: String!, $name: String) {
		createSite(input: {domain: $domain, name: $name}) {
			site { id siteKey domain name plan scriptTag createdAt usage { period pageviews quota percent resetsAt } }
			userErrors { field code message } } }`
)

func (c *client) signUp(email string) *answer {
	c.t.Helper()
	return c.query(signUpMutation, "email", email, "password", password, "name", "Example")
}

func (c *client) confirm(secret, password string) *answer {
	c.t.Helper()
	return c.query(confirmMutation, "secret", secret, "password", password)
}

func (c *client) signIn(email, password string) *answer {
	c.t.Helper()
	return c.query(signInMutation, "email", email, "password", password)
}

func (c *client) signOut() *answer {
	c.t.Helper()
	return c.query(`mutation { signOut { userErrors { code } } }`)
}

func (c *client) createSite(domain string) *answer {
	c.t.Helper()
	return c.query(createSiteMutation, "domain", domain)
}

// viewer returns the address of the signed-in user, or "".
func (c *client) viewer() string {
	c.t.Helper()
	email, _ := c.query(`{ viewer { email } }`).ok(c.t, "").at("viewer.email").(string)
	return email
}

// cookies returns the cookies that the browser would send.
func (c *client) cookies() map[string]string {
	c.t.Helper()
	u, err := url.Parse(c.app.url)
	testkit.NoError(c.t, err)

	cookies := map[string]string{}
	for _, cookie := range c.http.Jar.Cookies(u) {
		cookies[cookie.Name] = cookie.Value
	}

	return cookies
}

// setCookie stores a cookie in the browser.
func (c *client) setCookie(name, value string) {
	c.t.Helper()
	u, err := url.Parse(c.app.url)
	testkit.NoError(c.t, err)
	c.http.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// owner signs up, follows the link in the mail if there is one, and returns the browser.
func (a *app) owner(email string) *client {
	a.t.Helper()
	c := a.client()
	if c.signUp(email).ok(a.t, "signUp").at("signUp.verificationSent") == true {
		c.confirm(a.mailedSecret(email), password).ok(a.t, "confirmSignUp")
	}
	return c
}

// cheapHash is a password cost that keeps the tests fast: at the product's cost, hashing took 60 %
// of their processor time.
var cheapHash = argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// productHash sets the product's password cost.
func productHash(s *settings) { s.auth.PasswordCost = nil }

// localhost gives the installation a host name, which passkeys need.
func localhost(s *settings) { s.host = "localhost" }

// noMail configures an installation without mail, where sign-ups create accounts immediately.
func noMail(s *settings) { s.auth.NoMail = true }
