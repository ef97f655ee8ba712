package analytics_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// The flood limit's defaults.
const (
	floodBurst = 1_000
	floodRate  = 10
)

// newFloodPlane is newPlane with a flood limit.
func newFloodPlane(tb testing.TB, d *db.DB, burst, rate int) *plane {
	return newPlaneWith(tb, d, func(o *analytics.Options) { o.FloodBurst, o.FloodRate = burst, rate })
}

// handle answers a call without a network and returns the status. It is safe for concurrent use.
func (p *plane) handle(c call) int {
	request := httptest.NewRequest(http.MethodPost, "/collect.php", strings.NewReader(mustJSON(p.TB, c.Body)))
	request.RemoteAddr = "127.0.0.1:5000"
	request.Header.Set("Origin", c.Origin)
	request.Header.Set("User-Agent", c.Agent)
	request.Header.Set("X-Forwarded-For", c.Client)
	recorder := httptest.NewRecorder()
	p.Handler.ServeHTTP(recorder, request)

	return recorder.Code
}

// office simulates people behind one address who browse a site.
type office struct {
	p       *plane
	site    *model.Site
	views   atomic.Int64
	events  atomic.Int64
	refused atomic.Int64
}

// msInView is the time in view that each page view reports.
const msInView = 1_000

func newOffice(p *plane) *office {
	o := &office{p: p, site: p.site("shop.example", 100_000)}
	testkit.NoError(p.TB, sites.New(p.DB).Sites.RegisterEvent(p.TB.Context(), o.site.AccountID, o.site.ID, "signup"))
	return o
}

// visit sends a page view of a person, with events and a report of the time in view.
func (o *office) visit(person, events int) {
	id := fmt.Sprintf("%016x", o.views.Add(1))
	send := func(kind string, fields m) {
		c := viewCall(o.site, "198.51.100.7", fields)
		c.Body.(m)["t"] = kind
		c.Agent = fmt.Sprintf("%s Person/%d", chrome, person)
		if o.p.handle(c) != http.StatusNoContent {
			o.refused.Add(1)
		}
	}

	send("pageview", m{"i": id})

	for range events {
		send("event", m{"e": "signup"})
		o.events.Add(1)
	}

	send("engagement", m{"i": id, "ms": msInView})
}

// concurrently sends the visits of all people, 16 at a time: on a busy machine, larger batches
// could miss their hits' deadlines.
func (o *office) concurrently(visits func(yield func(person, events int) bool)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	visits(func(person, events int) bool {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			o.visit(person, events)
		})
		return true
	})
	wg.Wait()
}

// check compares the stored rows with the hits that were sent.
func (o *office) check(t *testing.T) {
	t.Helper()

	rows, engaged := o.p.Views(o.site), int64(0)
	for _, row := range rows {
		engaged += int64(row.EngagedMS)
	}

	views, events := o.views.Load(), o.events.Load()
	if got := int64(len(rows)); got != views {
		t.Errorf("%d of %d page views are stored", got, views)
	}
	if got := int64(len(o.p.Events(o.site))); got != events {
		t.Errorf("%d of %d events are stored", got, events)
	}
	if engaged != views*msInView {
		t.Errorf("%d of %d ms in view are stored", engaged, views*msInView)
	}
	if n := o.refused.Load(); n > 0 {
		t.Errorf("%d hits are not answered 204", n)
	}
	testkit.Equal(t, o.p.Used(o.site), views+events, "counted")

	o.p.Rejected(o.site, map[string]int64{})
}

// TestOfficeLosesNothing checks that all hits of 200 people behind one address are stored who use
// one site for a working day. On Monday at 9:00 all of them open it within five seconds, and after
// lunch within a minute. The test sends the ten minutes after these; TestFloodSparesABusyOffice has
// the whole day.
func TestOfficeLosesNothing(t *testing.T) {
	t.Parallel()
	const people = 200
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newFloodPlane(t, d, floodBurst, floodRate)
		o := newOffice(p)
		random := rand.New(rand.NewPCG(1, 2))
		monday := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

		// Each person sends five hits, which makes 1,000.
		for second := range 5 {
			p.Clock.Set(monday.Add(time.Duration(second) * time.Second))
			o.concurrently(func(yield func(person, events int) bool) {
				for person := second * people / 5; person < (second+1)*people/5; person++ {
					yield(person, 3)
				}
			})
		}

		// A person views 50 pages a day. The hits of 30 seconds are sent at once.
		const slice, sent, lunch = 30 * time.Second, 10 * time.Minute, 4 * time.Hour
		for at := slice; at < lunch+sent; at += slice {
			if at == sent {
				at = lunch
			}

			p.Clock.Set(monday.Add(at))
			afterLunch := at == lunch || at == lunch+slice
			o.concurrently(func(yield func(person, events int) bool) {
				for person := range people {
					if (afterLunch && person%2 == int(at/slice)%2) || random.IntN(960) < 50 {
						yield(person, random.IntN(2))
					}
				}
			})
		}

		o.check(t)
	})
}

// TestBusyPageLosesNothing checks that all hits of a page that sends 60 within 5 seconds are
// stored.
func TestBusyPageLosesNothing(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newFloodPlane(t, d, floodBurst, floodRate)
		o := newOffice(p)
		for i := range 5 {
			p.Clock.Set(noon.Add(time.Duration(i) * time.Second))
			o.visit(1, 10)
		}
		o.check(t)
	})
}

// TestFlood checks that as many forged page views from one network as a site's quota do not use it
// up. The next visitor from another network is stored, and the owner sees the reason for the
// ignored hits. TestFloodLeavesAMonth has the default limit and the smallest quota.
func TestFlood(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const burst, forged = 200, 600
		p := newFloodPlane(t, d, burst, floodRate)
		site, other := p.site("free.example", forged), p.site("other.example", forged)
		var next atomic.Int64

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := next.Add(1); i <= forged; i = next.Add(1) {
					c := viewCall(site, fmt.Sprintf("203.0.113.%d", i%256), m{"u": m{"source": fmt.Sprint("s", i)}})
					c.Agent = fmt.Sprintf("%s Forged/%d", chrome, i)
					testkit.Equal(t, p.handle(c), http.StatusNoContent, "forged page view %d", i)
				}
			})
		}

		wg.Wait()

		p.View(site, "198.51.100.9", nil)
		p.View(other, "203.0.113.1", nil)

		if rows, used := len(p.Views(site)), p.Used(site); rows != burst+1 || used != burst+1 {
			t.Errorf("%d page views stored, %d counted, want %d", rows, used, burst+1)
		}
		testkit.Equal(t, len(p.Views(other)), 1, "page views of another site are stored")

		p.Rejected(site, map[string]int64{"collect flood": forged - burst})
	})
}

// TestFloodLimitsAllKinds checks that page views, events and engagement reports share the limit,
// that it refills with time, and that calls refused or ignored for other reasons do not count.
func TestFloodLimitsAllKinds(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newFloodPlane(t, d, 3, 1)
		site := p.shop("shop.example")
		send := func(want int, calls ...call) {
			t.Helper()
			for _, c := range calls {
				if status, code := p.Collect(c); status != want {
					t.Errorf("%v: %d %s, want %d", c.Body, status, code, want)
				}
			}
		}

		foreign := viewCall(site, "", nil)
		foreign.Origin = "https://foreign.example"
		bot := viewCall(site, "", nil)
		bot.Agent = "Googlebot/2.1 (+http://www.google.com/bot.html)"
		const id = "0123456789abcdef"

		for range 5 {
			send(http.StatusForbidden, foreign)
			send(http.StatusBadRequest, viewCall(site, "", m{"p": "x"}), eventCall(site, "", "login", nil, nil))
			send(http.StatusNoContent, bot, viewCall(site, "", m{"t": "engagement"}))
		}

		all := []call{viewCall(site, "", m{"i": id}), eventCall(site, "", "signup", nil, nil),
			viewCall(site, "", m{"t": "engagement", "i": id, "ms": 7})}

		send(http.StatusNoContent, all...)

		// This hit exceeds the limit.
		send(http.StatusNoContent, all...)
		p.Clock.Set(noon.Add(2 * time.Second))
		send(http.StatusNoContent, all[1], all[2], all[0])

		rows, events := p.Views(site), p.Events(site)
		if len(rows) != 1 || len(events) != 2 || rows[0].EngagedMS != 14 {
			t.Errorf("stored: %+v and %d events, want one page view with 14 ms and 2 events", rows, len(events))
		}

		p.Rejected(site, map[string]int64{"collect flood": 4, "collect domain_not_allowed": 5, "collect bad_path": 5,
			"collect unknown_event": 5, "collect bot": 5})
	})
}

// TestServerFlood checks that the server-side events of a site share one limit, whichever of its
// secrets and whichever visitor they name: those above it are answered "ignored", neither stored
// nor counted, and shown to the owner. Other sites, and the hits of browsers, have limits of their
// own.
func TestServerFlood(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const burst = 5
		p := newPlaneWith(t, d, func(o *analytics.Options) {
			o.FloodBurst, o.FloodRate = 1, 1
			o.ServerFloodBurst, o.ServerFloodRate = burst, 1
		})
		site, other := p.shop("shop.example"), p.shop("other.example")
		secret, newer := p.secret(site), model.NewSecret("svcs_")
		if _, err := sites.New(d).Sites.ReplaceServerSecret(t.Context(), site.AccountID, site.ID, model.HashToken(newer),
			model.SecretHint(newer), model.At(noon.Add(24*time.Hour))); err != nil {
			t.Fatal(err)
		}

		n := 0
		send := func(want, secret string, fields m) {
			t.Helper()
			n++
			body := m{"event": "signup", "ip": fmt.Sprintf("203.0.%d.1", n), "user_agent": chrome}
			maps.Copy(body, fields)
			status, got := p.serverCall("POST", "Bearer "+secret, mustJSON(t, body))
			if got != want || (status == http.StatusOK) != strings.Contains(want, "status") {
				t.Errorf("call %d: %d %s, want %s", n, status, got, want)
			}
		}
		const recorded, flooded = `{"status":"recorded"}`, `{"status":"ignored","reason":"server_flood"}`

		// Refused and ignored calls use up no allowance.
		for range 2 * burst {
			send(`{"error":"unknown_event"}`, secret, m{"event": "login"})
			send(`{"status":"ignored","reason":"bot"}`, secret, m{"user_agent": "Googlebot/2.1 (+http://www.google.com/bot.html)"})
			send(`{"status":"ignored","reason":"excluded_address"}`, secret, m{"ip": "192.0.2.7"})
		}

		for i := range burst {
			send(recorded, []string{secret, newer}[i%2], nil)
		}
		for i := range burst {
			send(flooded, []string{secret, newer}[i%2], nil)
		}

		send(recorded, p.secret(other), nil)
		p.View(site, "", nil)

		p.Clock.Set(noon.Add(2 * time.Second))
		for _, want := range []string{recorded, recorded, flooded} {
			send(want, newer, nil)
		}

		const stored = burst + 2
		if events, used := len(p.Events(site)), p.Used(site); events != stored || used != stored+1 {
			t.Errorf("%d events stored, %d hits counted, want %d and %d", events, used, stored, stored+1)
		}

		p.Rejected(site, map[string]int64{"server server_flood": burst + 1, "server unknown_event": 2 * burst, "server bot": 2 * burst,
			"server excluded_address": 2 * burst})
	})
}

// TestServerFloodInParallel checks that exactly the burst is stored of calls that arrive at once,
// and that each of two processes grants a burst of its own.
func TestServerFloodInParallel(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		const burst, sent = 50, 120
		limited := func(o *analytics.Options) { o.ServerFloodBurst, o.ServerFloodRate = burst, 1 }
		planes := []*plane{newPlaneWith(t, dbtest.Open(t, databaseURL), limited), newPlaneWith(t, dbtest.Open(t, databaseURL), limited)}
		site := planes[0].shop("shop.example")
		bearer := "Bearer " + planes[0].secret(site)
		planes[1].Await("the secret", func() bool {
			status, _ := planes[1].serverCall("POST", bearer, "{}")
			return status == http.StatusBadRequest // known, and the body names no visitor
		})

		var recorded, flooded [2]atomic.Int64
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 2 * sent / 8 {
					n := (worker + i) % 2
					body := fmt.Sprintf(`{"event":"signup","ip":"203.0.113.%d","user_agent":"%s"}`, i, chrome)
					switch status, got := planes[n].serverCall("POST", bearer, body); {
					case status == http.StatusOK && strings.Contains(got, "recorded"):
						recorded[n].Add(1)
					case status == http.StatusOK && strings.Contains(got, "server_flood"):
						flooded[n].Add(1)
					default:
						t.Errorf("%d %s", status, got)
					}
				}
			})
		}
		wg.Wait()

		for n := range planes {
			if r, f := recorded[n].Load(), flooded[n].Load(); r != burst || f != sent-burst {
				t.Errorf("process %d: %d recorded and %d ignored, want %d and %d", n, r, f, burst, sent-burst)
			}
		}
		testkit.Equal(t, len(planes[0].Events(site)), 2*burst, "events stored")
	})
}

// TestServersHaveNoNetworkLimit checks that the flood limit of client networks does not apply to
// server-side events, which all come from the network of the shop, and that a burst of 0 turns
// their own limit off.
func TestServersHaveNoNetworkLimit(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newFloodPlane(t, d, 1, 1)
		site := p.shop("shop.example")
		bearer := "Bearer " + p.secret(site)
		for range 10 {
			if status, body := p.serverCall("POST", bearer, mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
		}

		testkit.Equal(t, len(p.Events(site)), 10, "events stored")

		p.Rejected(site, map[string]int64{})
	})
}

// TestNoFloodLimitBehindAnUnknownProxy checks that a loopback peer that forwards other addresses is
// not limited, and one that does not is.
func TestNoFloodLimitBehindAnUnknownProxy(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, slog.New(slog.DiscardHandler), time.Now)
		p := newPlaneWith(t, d, func(o *analytics.Options) {
			o.ClientAddr, o.IsShared = clients.Addr, clients.Shared
			o.FloodBurst, o.FloodRate = 2, 1
		})

		site := p.site("example.com", quota)
		for range 5 {
			p.View(site, "", nil)
		}

		direct := viewCall(site, "", nil)
		direct.Header = http.Header{"X-Forwarded-For": nil}
		for range 5 {
			if status, code := p.Collect(direct); status != http.StatusNoContent {
				t.Errorf("%d %s, want 204", status, code)
			}
		}

		testkit.Equal(t, len(p.Views(site)), 7, "page views stored")

		p.Rejected(site, map[string]int64{"collect flood": 3})
	})
}

// TestNoFloodLimitForHiddenClients checks that no hit is lost where a hop in front of the trusted
// proxy hides the clients, so that X-Forwarded-For has its address for all of them. A client that
// claims the address of that hop has its limit.
func TestNoFloodLimitForHiddenClients(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const sent = floodBurst + 100
		trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
		clients := web.NewClients(trusted, slog.New(slog.DiscardHandler), time.Now)
		p := newPlaneWith(t, d, func(o *analytics.Options) {
			o.ClientAddr, o.IsShared = clients.Addr, clients.Shared
			o.FloodBurst, o.FloodRate = floodBurst, floodRate
		})
		site, forged := p.site("example.com", 100_000), p.site("forged.example", 100_000)

		view := func(site *model.Site, forwarded string) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range sent / 8 {
						if status, code := p.CollectStored(viewCall(site, forwarded, nil)); status != http.StatusNoContent {
							t.Errorf("%d %s, want 204", status, code)
						}
					}
				})
			}
			wg.Wait()
		}
		view(site, "10.0.0.5")
		view(forged, "10.0.0.5, 198.51.100.9")

		const all = sent / 8 * 8
		if n := len(p.Views(site)); n != all || clients.HiddenWarning() == "" {
			t.Errorf("%d of %d page views of hidden clients are stored, warning %q", n, all, clients.HiddenWarning())
		}
		testkit.Equal(t, len(p.Views(forged)), floodBurst, "page views of one client are stored")

		p.Rejected(site, map[string]int64{})
		p.Rejected(forged, map[string]int64{"collect flood": all - floodBurst})
	})
}
