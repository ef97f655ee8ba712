package captcha_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// BenchmarkEndpoints measures calls per second over real connections on this machine, clients
// included, so that only the ratios between its cases mean something elsewhere:
//
//	empty     a handler that answers 204 and does nothing else
//	checked   the endpoint with all its checks, but nothing stored
//	sqlite, postgres   the endpoint as it is: each answer follows a committed transaction
//
// Each verify has a solved challenge of its own, each siteverify a token of its own, made before
// the clock starts.
func BenchmarkEndpoints(b *testing.B) {
	for _, endpoint := range benchEndpoints {
		b.Run(endpoint.name, func(b *testing.B) {
			b.Run("empty", func(b *testing.B) {
				plane := benchPlane{sitekey: model.NewSitekey(), secret: model.NewSecret(model.CaptchaSecretPrefix)}
				drive(b, planetest.Empty, endpoint.requests(&plane, b))
			})

			b.Run("checked", func(b *testing.B) {
				benchEndpoint(b, dbtest.Open(b, dbtest.SQLiteURL(b)), discardStore{}, endpoint.requests)
			})

			dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
				benchEndpoint(b, d, ingest.NewClaimStore(dbtest.SitesCell(b, d)), endpoint.requests)
			})
		})
	}
}

// benchPlane holds the sitekey and tokens of a benchmark's requests.
type benchPlane struct {
	sitekey, secret string
}

var benchEndpoints = []struct {
	name     string
	requests func(*benchPlane, *testing.B) []string // b.N of them
}{
	{"config", func(p *benchPlane, b *testing.B) []string {
		return many(b, func(n int) string { return jsonRequest(configPath, n, `{"sitekey":"`+p.sitekey+`"}`) })
	}},
	{"verify", func(p *benchPlane, b *testing.B) []string {
		keys, err := pow.New(rand.Reader, pow.Key{ID: 1, Secret: secret})
		testkit.NoError(b, err)

		return many(b, func(n int) string {
			c := keys.Issue(p.sitekey, pow.MinDifficulty, time.Now())
			nonce, err := pow.Solve(c)
			testkit.NoError(b, err)
			return jsonRequest(verifyPath, n, fmt.Sprintf(`{"sitekey":"%s","challenge":"%s","nonce":%d}`, p.sitekey, c.Challenge, nonce))
		})
	}},
	{"siteverify", func(p *benchPlane, b *testing.B) []string {
		return manyTokens(p, b, func(n int, token string) string {
			return jsonRequest(siteverifyPath, n, `{"sitekey":"`+p.sitekey+`","secret":"`+p.secret+`","token":"`+token+`"}`)
		})
	}},
	{"compat", func(p *benchPlane, b *testing.B) []string {
		return manyTokens(p, b, func(_ int, token string) string {
			return request(compatPath, formType, "", "secret="+p.secret+"&response="+token+"&remoteip=203.0.113.1")
		})
	}},
}

func manyTokens(p *benchPlane, b *testing.B, request func(n int, token string) string) []string {
	keys, err := token.New(token.Key{ID: 1, Secret: secret})
	testkit.NoError(b, err)

	return many(b, func(n int) string {
		t := token.Token{Sitekey: token.SitekeyOf(p.sitekey), Issued: time.Now(), Hostname: "www.example.com"}
		rand.Read(t.ID[:])
		return request(n, keys.Sign(&t))
	})
}

func many(b *testing.B, request func(n int) string) []string {
	requests := make([]string, b.N)
	for n := range requests {
		requests[n] = request(n)
	}
	return requests
}

func jsonRequest(path string, n int, body string) string {
	return request(path, "application/json", fmt.Sprintf("Origin: https://www.example.com\r\nX-Forwarded-For: 10.%d.%d.1\r\n", n>>8&255, n&255), body)
}

func request(path, kind, header, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: captcha.example\r\nContent-Type: %s\r\n%sAccept: */*\r\nContent-Length: %d\r\n\r\n%s",
		path, kind, header, len(body), body)
}

func benchEndpoint(b *testing.B, d *db.DB, store captcha.ClaimStore, requests func(*benchPlane, *testing.B) []string) {
	p := newBenchPlane(b, d, store)
	key := p.Sitekey(p.Account("a", model.CaptchaPlanEnterprise), "example.com")
	drive(b, p.Handler, requests(&benchPlane{sitekey: key.Sitekey.Sitekey, secret: key.Secret}, b))
}

// newBenchPlane returns a plane whose clock stands at the current time.
func newBenchPlane(b *testing.B, d *db.DB, store captcha.ClaimStore) *plane {
	c := testkit.NewClock(time.Time{})
	c.Set(time.Now())
	return newPlaneOn(b, d, store, c)
}

// drive sends each request once.
func drive(b *testing.B, handler http.Handler, requests []string) {
	planetest.Drive(b, handler, len(requests), func(n int) string { return requests[n] }, func(answer string) bool {
		return strings.HasPrefix(answer, "HTTP/1.1 20") && !strings.Contains(answer, "false,\"error")
	})
}

// discardStore is a store that stores nothing: every claim is the first one, and no account has a
// quota.
type discardStore struct{}

func (discardStore) Update(_ context.Context, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges) error {
	state := &ingest.ClaimState{
		Usage:   make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(keys.Usage)),
		Claimed: make(map[model.ConsumedKey]bool, len(keys.Consumed)),
	}
	for _, key := range keys.Usage {
		state.Usage[key] = model.CaptchaUsage{Quota: model.Unlimited}
	}

	for _, key := range keys.Consumed {
		state.Claimed[key] = true
	}

	decide(state)
	return nil
}

func (discardStore) Close() error { return nil }

// BenchmarkHandler measures siteverify alone, up to the writer and back, without network and
// storage: the time and allocations of a call. It includes the wait for the writer's goroutine.
func BenchmarkHandler(b *testing.B) {
	p := newBenchPlane(b, dbtest.Open(b, dbtest.SQLiteURL(b)), discardStore{})
	key := p.Sitekey(p.Account("a", model.CaptchaPlanEnterprise), "example.com")
	body := `{"sitekey":"` + key.Sitekey.Sitekey + `","secret":"` + key.Secret + `","token":"` + p.Token(key, siteOrigin) + `"}`
	b.ReportAllocs()
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		request := httptest.NewRequest(http.MethodPost, siteverifyPath, nil)
		reader := strings.NewReader(body)
		request.Body = io.NopCloser(reader)
		for pb.Next() {
			reader.Reset(body)
			p.Handler.ServeHTTP(&discardWriter{header: http.Header{}}, request)
		}
	})
}
