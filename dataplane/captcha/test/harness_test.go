package captcha_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var (
	noon   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	secret = []byte("a secret for tests, 32 bytes or more")
)

// difficulty is the base difficulty of challenges in tests.
const difficulty = 2_048

type m = map[string]any

// plane is a data plane on a test database: the real handler and the real writer.
type plane struct {
	tb    testing.TB
	db    *db.DB
	clock *testkit.Clock
	url   string
	http  *http.Client

	handler http.Handler // what url leads to
	stop    func()
}

// newPlane returns a plane with a request's timeout for busy machines.
func newPlane(tb testing.TB, d *db.DB) *plane {
	tb.Helper()
	return newPlaneWithin(tb, d, ingest.NewClaimStore(dbtest.SitesCell(tb, d)), testkit.NewClock(noon), hang)
}

// newPlaneOn is newPlane with a given store and clock, and the usual timeout.
func newPlaneOn(tb testing.TB, d *db.DB, store captcha.ClaimStore, c *testkit.Clock) *plane {
	tb.Helper()
	return newPlaneWithin(tb, d, store, c, captcha.StoreTimeout)
}

// newPlaneWithin is newPlaneOn with another timeout for requests.
func newPlaneWithin(tb testing.TB, d *db.DB, store captcha.ClaimStore, c *testkit.Clock, timeout time.Duration) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, c, timeout, func(o *captcha.Options) { o.Store = store })
}

// newPlaneWith is newPlaneWithin with other options.
func newPlaneWith(tb testing.TB, d *db.DB, c *testkit.Clock, timeout time.Duration, change func(*captcha.Options)) *plane {
	tb.Helper()

	p := &plane{tb: tb, db: d, clock: c}
	clientAddr := web.ClientAddr([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	log := slog.New(slog.NewTextHandler(tb.Output(), nil))
	options := captcha.Options{Cell: dbtest.SitesCell(tb, d), Secret: secret, ClientAddr: clientAddr, Difficulty: difficulty, Now: c.Now, Log: log}
	options.Timeout = timeout
	server := httptest.NewUnstartedServer(nil)
	tb.Cleanup(server.Close)
	options.Origins = []string{"http://" + server.Listener.Addr().String()}
	change(&options)

	if options.Store == nil {
		options.Store = ingest.NewClaimStore(dbtest.SitesCell(tb, d))
	}

	service, err := captcha.New(options)
	if err != nil {
		tb.Fatal(err)
	}

	service.Start()
	p.stop = sync.OnceFunc(func() {
		if err := service.Stop(context.Background()); err != nil {
			tb.Errorf("stop the service: %v", err)
		}
	})

	tb.Cleanup(p.stop)
	hits, err := analytics.New(analytics.Options{Cell: dbtest.SitesCell(tb, d), Secret: secret, ClientAddr: clientAddr, Now: c.Now, Store: ingest.NewHitStore(dbtest.SitesCell(tb, d)), Log: log})
	if err != nil {
		tb.Fatal(err)
	}

	// The analytics service is never started.
	tb.Cleanup(func() { _ = hits.Stop(context.Background()) })
	p.handler = openapitest.Handler(tb, dataplane.Handler(dataplane.Options{Analytics: hits, Captcha: service, Assets: http.NotFoundHandler(), Log: log}))
	server.Config.Handler = p.handler
	server.Start()
	p.url = server.URL
	p.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

	return p
}

// account creates an account on a plan.
func (p *plane) account(name string, plan model.CaptchaPlan) model.AccountID {
	p.tb.Helper()
	at := model.At(p.clock.Now())
	user, err := accounts.New(p.db).SignUp(p.tb.Context(), model.SignupsOpen, model.Account{Name: name, CaptchaPlan: plan, CreatedAt: at},
		model.User{Email: name + "@example.com", PasswordHash: "-", CreatedAt: at})
	if err != nil {
		p.tb.Fatal(err)
	}

	return user.AccountID
}

// pair is a sitekey with its secret.
type pair struct {
	*model.Sitekey
	secret string
}

// pair creates a sitekey of the account.
func (p *plane) pair(accountID model.AccountID, domains ...string) pair {
	p.tb.Helper()
	key, secret, err := sites.New(p.db).Sitekeys.CreateSitekey(p.tb.Context(), accountID, "Form", domains, model.At(p.clock.Now()))
	if err != nil {
		p.tb.Fatal(err)
	}
	return pair{key, secret}
}

// testPair is the pair of test credentials.
var testPair = pair{&model.Sitekey{Sitekey: model.TestSitekey}, model.TestSitekeySecret}

// call is one request.
type call struct {
	method string      // default POST
	path   string      // with a query
	body   any         // marshalled, unless it is a string
	kind   string      // content type; default application/json
	origin string      // header Origin, unless empty
	header http.Header // further headers
	client string      // client address; default 203.0.113.1
}

// send sends a call and returns the answer with its body.
func (p *plane) send(c call) (*http.Response, string) {
	p.tb.Helper()
	response, body, err := p.try(c)
	if err != nil {
		p.tb.Fatal(err)
	}
	return response, body
}

// try is send for goroutines other than the test's own.
func (p *plane) try(c call) (*http.Response, string, error) {
	body, ok := c.body.(string)
	if !ok && c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return nil, "", err
		}

		body = string(text)
	}

	if c.method == "" {
		c.method = http.MethodPost
	}

	request, err := http.NewRequest(c.method, p.url+c.path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}

	for name, value := range map[string]string{"Content-Type": c.kind, "Origin": c.origin, "X-Forwarded-For": c.client} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}

	if c.kind == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.client == "" {
		request.Header.Set("X-Forwarded-For", "203.0.113.1")
	}

	request.Header.Set("User-Agent", browserAgent)
	for name, values := range c.header {
		request.Header[name] = values
	}

	response, err := p.http.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	return response, strings.TrimSuffix(string(text), "\n"), err
}

// browserAgent is the user agent of calls that state no other one.
const browserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

const (
	configPath     = "/api/v1/pow/config"
	verifyPath     = "/api/v1/pow/verify"
	siteverifyPath = "/api/v1/pow/siteverify"
	compatPath     = "/siteverify"
)

// config requests a challenge from a new client, so that the difficulty does not rise.
func (p *plane) config(key pair, origin string) pow.Challenge {
	p.tb.Helper()
	response, body := p.send(call{path: configPath, body: m{"sitekey": key.Sitekey.Sitekey}, origin: origin, client: nextClient()})
	var c pow.Challenge
	if err := json.Unmarshal([]byte(body), &c); err != nil || response.StatusCode != http.StatusOK {
		p.tb.Fatalf("config: %d %s, %v", response.StatusCode, body, err)
	}
	return c
}

var clients struct {
	sync.Mutex
	n int
}

// nextClient returns an address in a network that no request has used before.
func nextClient() string {
	clients.Lock()
	defer clients.Unlock()
	clients.n++
	return netip.AddrFrom4([4]byte{10, byte(clients.n >> 8), byte(clients.n), 1}).String()
}

// solved returns the body of a verify call with a solved challenge.
func (p *plane) solved(key pair, origin string) m {
	p.tb.Helper()
	c := p.config(key, origin)
	nonce, err := pow.Solve(c)
	if err != nil {
		p.tb.Fatal(err)
	}
	return m{"sitekey": key.Sitekey.Sitekey, "challenge": c.Challenge, "nonce": nonce}
}

// token returns a new token, as the widget gets it.
func (p *plane) token(key pair, origin string) string {
	p.tb.Helper()
	response, body := p.send(call{path: verifyPath, body: p.solved(key, origin), origin: origin})
	var answer struct{ Token string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || response.StatusCode != http.StatusOK || answer.Token == "" {
		p.tb.Fatalf("verify: %d %s, %v", response.StatusCode, body, err)
	}
	return answer.Token
}

// siteverify redeems a token at the native endpoint and returns the answer as text.
func (p *plane) siteverify(key pair, token string) string {
	p.tb.Helper()
	response, body := p.send(call{path: siteverifyPath, body: m{"sitekey": key.Sitekey.Sitekey, "secret": key.secret, "token": token}})
	if response.StatusCode != http.StatusOK {
		p.tb.Fatalf("siteverify: %d %s", response.StatusCode, body)
	}
	return body
}

// compat redeems a token at the compatible endpoint and returns the answer as text.
func (p *plane) compat(key pair, token string) string {
	p.tb.Helper()
	response, body := p.send(call{path: compatPath, kind: formType, body: "secret=" + key.secret + "&response=" + token})
	if response.StatusCode != http.StatusOK {
		p.tb.Fatalf("compat: %d %s", response.StatusCode, body)
	}
	return body
}

const formType = "application/x-www-form-urlencoded"

// The answers of siteverify.
const (
	valid       = `{"valid":true,"over_limit":false,"reserve":false,"quota_exceeded":false}`
	fromReserve = `{"valid":true,"over_limit":true,"reserve":true,"quota_exceeded":false}`
	exceeded    = `{"valid":false,"over_limit":true,"reserve":false,"quota_exceeded":true}`
	invalid     = `{"valid":false,"over_limit":false,"reserve":false,"quota_exceeded":false}`
)

func refused(code string) string { return `{"success":false,"error-codes":["` + code + `"]}` }

// usage returns the usage of the account in the month of the clock.
func (p *plane) usage(accountID model.AccountID) model.CaptchaUsage {
	p.tb.Helper()
	usage, err := accounts.New(p.db).CaptchaUsage(p.tb.Context(), accountID, model.At(p.clock.Now()).Month())
	if err != nil {
		p.tb.Fatal(err)
	}
	return *usage
}
