// Package planetest serves the data plane in the test's process, with the real handler and the real
// writers, on a test database.
//
//	p := planetest.New(t, d, planetest.Options{Hits: planetest.Default[analytics.Options]})
//	site := p.Site("shop.example", world.Quota(100))
//	p.View(site, "203.0.113.9", map[string]any{"p": "/cart"})
//	p.Clock.Add(time.Hour)
//	rows := p.Views(site)
//
// Each request and its response are compared with the OpenAPI document.
package planetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/web"
)

const (
	// Agent is the user agent of an ordinary browser.
	Agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

	// Difficulty is the base difficulty of challenges, in expected hashes.
	Difficulty = 2_048

	// Secret is the installation's secret.
	Secret = "a secret for tests, 32 bytes or more"
)

// Options describe a Plane. Hits and Captcha change the options of a product's service, which have
// defaults for all that tests need.
type Options struct {
	Clock   *testkit.Clock                  // default: a new one at dbtest.Noon
	Hits    func(*analytics.Options)        // nil: the service is not started
	Captcha func(*captcha.Options)          // nil: the captcha's endpoints do not exist
	Assets  http.Handler                    // the browser scripts; default: none
	Wrap    func(http.Handler) http.Handler // around the handler; default: nothing
}

// Default changes nothing.
func Default[Options any](*Options) {}

// Plane is a data plane on a listening socket of loopback. Its World creates sites and sitekeys.
type Plane struct {
	*world.World
	URL     string       // origin
	Handler http.Handler // what URL leads to
	HTTP    *http.Client

	// Stop stops the services, which store all hits and counters. The end of the test calls it too.
	Stop func()
}

// New starts a data plane. It trusts the header X-Forwarded-For of this machine.
func New(tb testing.TB, d *db.DB, o Options) *Plane {
	tb.Helper()

	p := &Plane{World: world.New(tb, d), HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	p.Clock = o.Clock
	if p.Clock == nil {
		p.Clock = testkit.NewClock(dbtest.Noon.Time())
	}
	if o.Assets == nil {
		o.Assets = http.NotFoundHandler()
	}

	server := httptest.NewUnstartedServer(nil)
	tb.Cleanup(server.Close)
	p.URL = "http://" + server.Listener.Addr().String()

	hits, challenges := p.services(o)
	p.Handler = openapitest.Handler(tb, dataplane.Handler(dataplane.Options{
		Analytics: hits, Captcha: challenges, Assets: o.Assets, Log: p.log(),
	}))
	if o.Wrap != nil {
		p.Handler = o.Wrap(p.Handler)
	}

	server.Config.Handler = p.Handler
	server.Start()
	return p
}

// UserIDKey hashes the user ids of the services, see analytics.Options.
var UserIDKey = model.ApplicationKey(Secret).Derive("user id")

// VisitorKey returns the secret of a day for the visitor ids of the services.
func VisitorKey(context.Context, model.Day) ([]byte, error) {
	return model.ApplicationKey(Secret).Derive("visitor id"), nil
}

func (p *Plane) log() *slog.Logger { return slog.New(slog.NewTextHandler(p.TB.Output(), nil)) }

// services returns the services of both products. Stop stops each service that was started.
func (p *Plane) services(o Options) (*analytics.Service, *captcha.Service) {
	p.TB.Helper()

	cell := dbtest.SitesCell(p.TB, p.DB)
	trusted := web.NewClients([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, p.log(), time.Now).Addr

	forHits := analytics.Options{Cell: cell, UserIDKey: UserIDKey, VisitorKey: VisitorKey, ClientAddr: trusted, Now: p.Clock.Now, Log: p.log()}
	if o.Hits != nil {
		o.Hits(&forHits)
	}
	if forHits.Store == nil {
		forHits.Store = ingest.NewHitStore(cell)
	}
	hits, err := analytics.New(forHits)
	testkit.NoError(p.TB, err)
	if o.Hits != nil {
		hits.Start()
	}

	stop := hits.Stop
	var challenges *captcha.Service
	if o.Captcha != nil {
		forCaptcha := captcha.Options{Cell: cell, Secret: []byte(Secret), ClientAddr: trusted, Difficulty: Difficulty,
			Now: p.Clock.Now, Log: p.log(), Origins: []string{p.URL}}
		o.Captcha(&forCaptcha)
		if forCaptcha.Store == nil {
			forCaptcha.Store = ingest.NewClaimStore(cell)
		}
		if challenges, err = captcha.New(forCaptcha); err != nil {
			p.TB.Fatal(err)
		}

		challenges.Start()
		stop = func(ctx context.Context) error { return errors.Join(challenges.Stop(ctx), hits.Stop(ctx)) }
	}

	p.Stop = sync.OnceFunc(func() {
		if err := stop(context.Background()); err != nil {
			p.TB.Errorf("stop the data plane: %v", err)
		}
	})
	p.TB.Cleanup(p.Stop)
	return hits, challenges
}

// Call is one request.
type Call struct {
	Method string      // default POST
	Path   string      // with a query; default /collect.php
	Body   any         // marshalled, unless it is a string or nil
	Type   string      // content type; default as of the script for /collect.php, else application/json
	Origin string      // header Origin, unless empty
	Header http.Header // further headers
	Client string      // client address; default 203.0.113.1
	Agent  string      // user agent; default Agent; "-": none
}

// Send sends a call and returns the response with its body, without the last line's end.
func (p *Plane) Send(c Call) (*http.Response, string) {
	p.TB.Helper()
	response, body, err := p.Try(c)
	testkit.NoError(p.TB, err)
	return response, body
}

// Try is Send for goroutines other than the test's own.
func (p *Plane) Try(c Call) (*http.Response, string, error) {
	request, err := p.request(c)
	if err != nil {
		return nil, "", err
	}

	response, err := p.HTTP.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	return response, strings.TrimSuffix(string(text), "\n"), err
}

func (p *Plane) request(c Call) (*http.Request, error) {
	body, ok := c.Body.(string)
	if !ok && c.Body != nil {
		text, err := json.Marshal(c.Body)
		if err != nil {
			return nil, err
		}

		body = string(text)
	}

	if c.Path == "" {
		c.Path = collectPath
	}
	if c.Type == "" && c.Path == collectPath {
		c.Type = "text/plain;charset=UTF-8"
	}

	request, err := http.NewRequest(or(c.Method, http.MethodPost), p.URL+c.Path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}

	request.Header.Set("Content-Type", or(c.Type, "application/json"))
	request.Header.Set("X-Forwarded-For", or(c.Client, "203.0.113.1"))
	request.Header.Set("User-Agent", or(c.Agent, Agent))
	if c.Agent == "-" {
		// A missing entry would be replaced by the one of package http.
		request.Header["User-Agent"] = nil
	}
	if c.Origin != "" {
		request.Header.Set("Origin", c.Origin)
	}

	for name, values := range c.Header {
		request.Header[name] = values
	}

	return request, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// patience is the longest wait for something that a quiet machine does at once.
const patience = 30 * time.Second

// Repeat passes a request with a body to the data plane, again for up to patience while the answer
// is 503, for which nothing was stored. It writes the last answer to w and returns it.
func Repeat(
	plane http.Handler, w http.ResponseWriter, r *http.Request, body []byte, patience time.Duration,
) (answer *httptest.ResponseRecorder) {
	for began := time.Now(); ; {
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer = httptest.NewRecorder()
		plane.ServeHTTP(answer, r)
		if answer.Code != http.StatusServiceUnavailable || time.Since(began) > patience {
			break
		}
	}

	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	return answer
}
