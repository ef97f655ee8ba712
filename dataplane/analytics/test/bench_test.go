package analytics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/tools/world/planetest"
	"github.com/tallygate/tallygate/web"
)

// outOfReach is a flood limit that no benchmark reaches. It costs as much as any other.
const outOfReach = 1_000_000_000

// BenchmarkCollect measures page views per second over real connections on this machine, client
// included, so that only the ratios between its cases mean something elsewhere:
//
//	empty     a handler that answers 204 and does nothing else
//	checked   collect with all its checks and rules, but nothing stored
//	sqlite, postgres   collect as it is: each 204 follows a commit
func BenchmarkCollect(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		drive(b, planetest.Empty, &model.Site{SiteKey: "0123456789abcdef0123456789abcdef", Domain: "example.com"})
	})

	b.Run("checked", func(b *testing.B) {
		d := dbtest.Open(b, dbtest.SQLiteURL(b))
		benchCollect(b, d, func(o *analytics.Options) { o.Store = discard{} })
	})
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) { benchCollect(b, d, func(*analytics.Options) {}) })
}

// BenchmarkCollectDetails is BenchmarkCollect for a site that keeps all details of visits, and
// leaves out hits by country, path and shields.
func BenchmarkCollectDetails(b *testing.B) {
	b.Run("checked", func(b *testing.B) {
		d := dbtest.Open(b, dbtest.SQLiteURL(b))
		benchDetails(b, d, func(o *analytics.Options) { o.Store = discard{} })
	})
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) { benchDetails(b, d, func(*analytics.Options) {}) })
}

func benchDetails(b *testing.B, d *db.DB, change func(*analytics.Options)) {
	files := openPlaces(b, manyCountries())
	p := plane{&planetest.Plane{World: world.New(b, d)}}
	site := p.site("details.example", 1<<40)
	details, shields := model.List[model.VisitDetail](model.VisitDetails), model.List[model.Shield](model.Shields)
	p.update(site, sites.SiteUpdate{VisitDetails: &details, Shields: &shields, ExcludedCountries: &model.List[string]{"AQ"},
		ExcludedPaths: &model.List[string]{"/admin/**", "/login"}})

	benchSite(b, d, site, func(o *analytics.Options) {
		files.use(o)
		change(o)
	})
}

// manyCountries returns as many networks as a small database of countries has.
func manyCountries() map[string]string {
	countries := make(map[string]string)
	for i := range 20_000 {
		countries[fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)] = model.Countries[i%len(model.Countries)]
	}
	return countries
}

func benchCollect(b *testing.B, d *db.DB, change func(*analytics.Options)) {
	p := plane{&planetest.Plane{World: world.New(b, d)}}
	benchSite(b, d, p.site("example.com", 1<<40), change)
}

func benchSite(b *testing.B, d *db.DB, site *model.Site, change func(*analytics.Options)) {
	drive(b, benchHandler(b, d, change), site)
}

// benchHandler returns the handler of a data plane that runs until the end of the benchmark.
func benchHandler(b *testing.B, d *db.DB, change func(*analytics.Options)) http.Handler {
	clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, slog.New(slog.DiscardHandler), time.Now)
	o := analytics.Options{
		Cell:       dbtest.SitesCell(b, d),
		UserIDKey:  planetest.UserIDKey,
		VisitorKey: planetest.VisitorKey,
		ClientAddr: clients.Addr,
		IsShared:   clients.Shared,
		FloodBurst: outOfReach,
		FloodRate:  10,
		Now:        time.Now,
		Store:      ingest.NewHitStore(dbtest.SitesCell(b, d)),
		Log:        slog.New(slog.DiscardHandler),
	}
	change(&o)

	service, err := analytics.New(o)
	testkit.NoError(b, err)
	service.Start()
	b.Cleanup(func() { testkit.NoError(b, service.Stop(context.Background())) })
	return dataplane.Handler(dataplane.Options{Analytics: service, Assets: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)})
}

// drive sends b.N page views of 20,000 visitors.
func drive(b *testing.B, handler http.Handler, site *model.Site) {
	planetest.Drive(b, handler, b.N, func(n int) string { return pageviewRequest(int64(n)+1, site) },
		func(answer string) bool { return strings.HasPrefix(answer, "HTTP/1.1 204 ") })
}

// pageviewRequest returns the n-th page view as a browser sends it.
func pageviewRequest(n int64, site *model.Site) string {
	body := fmt.Sprintf(`{"k":"%s","t":"pageview","p":"/products/%d","r":"https://www.google.com/","i":"%016x","w":1920,"l":"de-DE"}`,
		site.SiteKey, n%97, n)
	return fmt.Sprintf("POST /collect.php HTTP/1.1\r\nHost: stats.example\r\nOrigin: https://www.%s\r\n"+
		"Content-Type: text/plain;charset=UTF-8\r\nUser-Agent: %s\r\nAccept: */*\r\nAccept-Language: de-DE,de;q=0.9\r\n"+
		"X-Forwarded-For: 10.%d.%d.1\r\nContent-Length: %d\r\n\r\n%s", site.Domain, chrome, n%20_000/256, n%256, len(body), body)
}

// discard is a store that stores nothing.
type discard struct{}

func (discard) Update(_ context.Context, keys ingest.HitKeys, decide func(*ingest.HitState) *ingest.HitChanges) error {
	state := &ingest.HitState{Usage: make(map[model.UsageKey]ingest.Usage)}
	for _, key := range keys.Usage {
		state.Usage[key] = ingest.Usage{Quota: 1 << 40}
	}
	decide(state)
	return nil
}

func (discard) Close() error { return nil }

// BenchmarkHandler measures the handler alone, up to the writer and back, without network: the time
// and allocations of a hit in addition to net/http and the database. It includes the wait for the
// writer's goroutine. The bodies of other products are the same page view.
func BenchmarkHandler(b *testing.B) {
	d := dbtest.Open(b, dbtest.SQLiteURL(b))
	p := plane{&planetest.Plane{World: world.New(b, d)}}
	site := p.site("example.com", 1<<40)
	handler := benchHandler(b, d, func(o *analytics.Options) { o.Store = discard{} })
	_, ours, _ := strings.Cut(pageviewRequest(1, site), "\r\n\r\n")
	for _, test := range []struct {
		name, path, body string
		status           int
	}{
		{"collect", "/collect.php", ours, http.StatusNoContent},
		{"plausible", "/api/event", fmt.Sprintf(`{"n":"pageview","u":"https://www.example.com/products/1","d":"%s","r":"https://www.google.com/","w":1920}`,
			site.SiteKey), http.StatusAccepted},
		{"umami", "/api/send", fmt.Sprintf(`{"type":"event","payload":{"website":"%s","hostname":"www.example.com","language":"de-DE",`+
			`"referrer":"https://www.google.com/","screen":"1920x1080","title":"A product","url":"/products/1"}}`, site.SiteKey), http.StatusOK},
	} {
		header := http.Header{"Origin": {"https://www.example.com"}, "User-Agent": {chrome}}
		b.Run(test.name, func(b *testing.B) { callAlone(b, handler, test.path, header, test.body, test.status) })
	}
}

// callAlone calls a handler from many goroutines without a network.
func callAlone(b *testing.B, handler http.Handler, path string, header http.Header, body string, status int) {
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		request := httptest.NewRequest(http.MethodPost, path, nil)
		request.Header = header.Clone()
		reader := strings.NewReader(body)
		request.Body = io.NopCloser(reader)

		for pb.Next() {
			reader.Reset(body)
			w := nullWriter{header: http.Header{}}
			handler.ServeHTTP(&w, request)

			// A status of 200 is implicit.
			if max(w.status, http.StatusOK) != status {
				b.Errorf("status %d, want %d", w.status, status)
			}
		}
	})
}

// nullWriter is an http.ResponseWriter that discards the body.
type nullWriter struct {
	header http.Header
	status int
}

func (w *nullWriter) Header() http.Header         { return w.header }
func (w *nullWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *nullWriter) WriteHeader(status int)      { w.status = status }

// BenchmarkServerHandler is BenchmarkHandler for server-side events, without and with their limit.
func BenchmarkServerHandler(b *testing.B) {
	d := dbtest.Open(b, dbtest.SQLiteURL(b))
	p := plane{&planetest.Plane{World: world.New(b, d)}}
	bearer := "Bearer " + p.secret(p.shop("example.com"))

	body := fmt.Sprintf(`{"event":"signup","ip":"203.0.113.7","user_agent":"%s","path":"/welcome"}`, chrome)

	for name, burst := range map[string]int{"without": 0, "with": outOfReach} {
		b.Run(name, func(b *testing.B) {
			handler := benchHandler(b, d, func(o *analytics.Options) {
				o.Store, o.ServerFloodBurst, o.ServerFloodRate = discard{}, burst, 50
			})
			callAlone(b, handler, "/server.php", http.Header{"Authorization": {bearer}}, body, http.StatusOK)
		})
	}
}
