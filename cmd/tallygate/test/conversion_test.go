package test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// shop is a running service, in one process or several, with a site whose purchases are sent to a
// webhook receiver.
type shop struct {
	tb       testing.TB
	dataURL  string
	siteKey  string
	worker   *serve.App
	received chan conversion
}

type conversion struct {
	TransactionID string `json:"transaction_id"`
	Type          string
	Event         string
	at            time.Time
}

// openShop serves all roles in one process, or data and worker in two processes that share only the
// database and optionally Redis.
func openShop(tb testing.TB, databaseURL string, dataRedis, workerRedis string, apart bool) *shop {
	tb.Helper()

	s := &shop{tb: tb, received: make(chan conversion, 1000)}
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c := conversion{at: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&c); err == nil {
			s.received <- c
		}
	}))

	tb.Cleanup(receiver.Close)
	dir := tb.TempDir()
	ca := certificateFile(tb, receiver)

	settings := func(redisURL string, roles ...config.Role) *config.Config {
		return &config.Config{
			DataDir: dir, DatabaseURL: config.DatabaseURL(databaseURL), RedisURL: config.RedisURL(redisURL), Roles: roles,
			DefaultSitePlan: model.PlanFree,
			ControlAddr:     "127.0.0.1:0", DataAddr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0",
			WebhookCAFile: ca, WebhookAllowNets: []config.Network{{Prefix: netip.MustParsePrefix("127.0.0.1/32")}},
			MailFrom: "x@example.com",
		}
	}

	if apart {
		s.worker = serveApp(tb, settings(workerRedis, config.RoleWorker))
		s.dataURL = "http://" + serveApp(tb, settings(dataRedis, config.RoleData)).Addr("data")
	} else {
		s.worker = serveApp(tb, settings(workerRedis, config.RoleData, config.RoleWorker))
		s.dataURL = "http://" + s.worker.Addr("data")
	}

	s.siteKey = makeSite(tb, s.worker.DB(), receiver.URL)
	return s
}

// serveApp runs an app until the test ends.
func serveApp(tb testing.TB, c *config.Config) *serve.App {
	tb.Helper()

	a, err := serve.Open(tb.Context(), c, slog.New(slog.DiscardHandler))
	testkit.NoError(tb, err)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("end: %v", err)
		}
	})

	return a
}

func makeSite(tb testing.TB, d *db.DB, url string) (siteKey string) {
	tb.Helper()

	at, secret, on := model.At(time.Now()), "a secret of the site", true
	user, err := accounts.New(d).SignUp(tb.Context(), model.SignupsOpen, model.Account{Name: "a", CreatedAt: at},
		model.User{Email: "owner@shop.example", PasswordHash: "-", CreatedAt: at})
	testkit.NoError(tb, err)

	site, err := sites.New(d).Sites.CreateSite(tb.Context(), model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(),
		Domain: "shop.example", Name: "shop",
		Plan: model.PlanPro5M, MonthlyPageviews: 5_000_000, CreatedAt: at})
	if err == nil {
		err = sites.New(d).Sites.UpdateSite(tb.Context(), user.AccountID, site.ID, sites.SiteUpdate{MeasureEcommerce: &on})
	}
	if err == nil {
		err = sites.New(d).Sites.SetConversionWebhook(tb.Context(), user.AccountID, site.ID, url, &secret, model.ChangedBy{})
	}
	testkit.NoError(tb, err)

	return site.SiteKey
}

// purchase posts one purchase as a browser does, and again while the machine is too busy to store
// it in time. The transaction id makes it count once.
func (s *shop) purchase(id string) {
	s.tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, text := s.sendPurchase(id)
		if status == http.StatusNoContent {
			return
		}
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			s.tb.Fatalf("a purchase is answered %d %s", status, text)
		}
	}
}

func (s *shop) sendPurchase(id string) (status int, text string) {
	s.tb.Helper()

	body := fmt.Sprintf(`{"k":%q,"t":"event","p":"/thanks","i":"0123456789abcdef","u":{},"w":1000,"l":"en","e":"purchase","m":{"transaction_id":%q,"value":19.9,"currency":"EUR"}}`, s.siteKey, id)
	response, text := exchange(s.tb, http.DefaultClient, http.MethodPost, s.dataURL+"/collect.php", body,
		map[string]string{"Content-Type": "text/plain", "Origin": "https://shop.example", "User-Agent": firefox})
	return response.StatusCode, text
}

func (s *shop) await(id string) conversion {
	s.tb.Helper()

	select {
	case c := <-s.received:
		if c.TransactionID != id || c.Type != "conversion" || c.Event != "purchase" {
			s.tb.Errorf("the receiver got %+v, want %s", c, id)
		}

		return c
	case <-time.After(patience):
		s.tb.Fatalf("the receiver did not get %s", id)
		return conversion{}
	}
}

// nowhere is the address of an unreachable Redis.
const nowhere = "redis://127.0.0.1:1"

// TestConversion checks that a browser's purchase reaches the owner's receiver with any
// distribution of roles, even while the data role's Redis is unreachable, and that the worker's
// metrics report it.
func TestConversion(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, databaseURL string) *shop{
		"together":            func(t *testing.T, u string) *shop { return openShop(t, u, "", "", false) },
		"apart without Redis": func(t *testing.T, u string) *shop { return openShop(t, u, "", "", true) },
		"apart, Redis away":   func(t *testing.T, u string) *shop { return openShop(t, u, nowhere, "", true) },
		"together with RealRedis": func(t *testing.T, u string) *shop {
			redis := redistest.URL(t)
			return openShop(t, u, redis, redis, false)
		},
		"apart with one RealRedis": func(t *testing.T, u string) *shop {
			redis := redistest.URL(t)
			return openShop(t, u, redis, redis, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, dialect := range []string{"sqlite", "postgres"} {
				t.Run(dialect, func(t *testing.T) {
					databaseURL := ""

					if dialect == "postgres" {
						databaseURL = dbtest.PostgresURL(t)
					}

					s := open(t, databaseURL)
					for i := range 3 {
						id := fmt.Sprintf("T-%d", i)
						s.purchase(id)
						s.await(id)
					}

					awaitMetrics(t, "http://"+s.worker.Addr("metrics"),
						`tallygate_delivery_attempts_total{error="",kind="conversion"} 3`,
						`tallygate_deliveries{state="due"} `, "tallygate_oldest_due_delivery_seconds ",
						`tallygate_queue_tasks{queue="deliveries",state="archived"} 0`)
				})
			}
		})
	}
}

// awaitMetrics waits until the metrics have all lines. An attempt is recorded after its response,
// and the queue's metrics are missing while Redis answers too slowly.
func awaitMetrics(t *testing.T, url string, lines ...string) {
	t.Helper()
	testkit.AwaitState(t, fmt.Sprintf("metrics with %q", lines), func() (string, bool) {
		status, text := get(t, url+"/metrics")
		lacks := func(line string) bool { return !strings.Contains(text, line) }
		return text, status == http.StatusOK && !slices.ContainsFunc(lines, lacks)
	})
}

// BenchmarkConversion measures the time from a purchase posted to /collect.php until its webhook
// arrives, with an idle worker.
func BenchmarkConversion(b *testing.B) {
	for _, bench := range []struct {
		name  string
		pg    bool
		redis bool
		apart bool
	}{{"sqlite/together/memory", false, false, false}, {"postgres/together/redis", true, true, false},
		{"postgres/apart/redis", true, true, true}, {"postgres/apart/none", true, false, true}} {
		b.Run(bench.name, func(b *testing.B) {
			databaseURL, redisURL := "", ""

			if bench.pg {
				databaseURL = dbtest.PostgresURL(b)
			}
			if bench.redis {
				redisURL = redistest.URL(b)
			}

			s := openShop(b, databaseURL, redisURL, redisURL, bench.apart)
			s.purchase("warm-up")
			s.await("warm-up")
			var took []time.Duration

			for b.Loop() {
				// The worker is idle, at any point between two of its sweeps.
				time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
				id := fmt.Sprintf("T-%d", len(took))
				began := time.Now()
				s.purchase(id)
				took = append(took, s.await(id).at.Sub(began))
			}

			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
