package analytics_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEventKinds checks that each kind of the contract's section 6 is accepted.
func TestEventKinds(t *testing.T) {
	t.Parallel()
	sale := m{"transaction_id": "T", "value": 1, "currency": "EUR"}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site := p.shop("shop.example")
		for _, test := range []struct {
			kind string
			call call
		}{
			{"pageview", viewCall(site, "", m{"i": "0123456789abcdef"})},
			{"engagement", viewCall(site, "", m{"t": "engagement", "i": "0123456789abcdef", "ms": 1})},
			{"custom event", eventCall(site, "", "signup", nil, nil)},
			{"outbound_click", eventCall(site, "", "outbound_click", m{"host": "other.example"}, nil)},
			{"file_download", eventCall(site, "", "file_download", m{"file": "a.pdf", "ext": "pdf"}, nil)},
			{"scroll", eventCall(site, "", "scroll", m{"percent": 90}, nil)},
			{"site_search", eventCall(site, "", "site_search", m{"term": "tea"}, nil)},
			{"view_item", eventCall(site, "", "view_item", m{"item_id": "k"}, nil)},
			{"add_to_cart", eventCall(site, "", "add_to_cart", m{"item_id": "k"}, nil)},
			{"begin_checkout", eventCall(site, "", "begin_checkout", m{"value": 1, "currency": "EUR"}, nil)},
			{"purchase", eventCall(site, "", "purchase", sale, nil)},
			{"refund", eventCall(site, "", "refund", m{"transaction_id": "R", "value": 1, "currency": "EUR"}, nil)},
		} {
			if status, code := p.Collect(test.call); status != http.StatusNoContent {
				t.Errorf("%s: %d %s, want 204", test.kind, status, code)
			}
		}

		if rows, events := len(p.Views(site)), len(p.Events(site)); rows != 1 || events != 10 {
			t.Errorf("%d page views and %d events stored, want 1 and 10", rows, events)
		}
	})
}

// TestOwnLinkIsNotOutbound checks that a click to the site's domain, a subdomain or an extra domain
// is accepted and not stored.
func TestOwnLinkIsNotOutbound(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		testkit.NoError(t, sites.New(p.DB).Sites.AddSiteDomain(t.Context(), site.AccountID, site.ID, "checkout.example"))

		for _, host := range []string{"shop.example", "www.shop.example", "pay.checkout.example", "notshop.example"} {
			p.Collect(eventCall(site, "", "outbound_click", m{"host": host}, nil))
		}

		if events := p.Events(site); len(events) != 1 || events[0].Properties != `{"host":"notshop.example"}` {
			t.Errorf("stored %+v, want the click to notshop.example alone", events)
		}

		p.Rejected(site, map[string]int64{"collect own_link": 3})
	})
}

// TestLimits checks each limit of the contract's table (section 8), at the limit and one beyond.
func TestLimits(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		ctx, account := t.Context(), site.AccountID
		bearer := "Bearer " + p.secret(site)
		status := func(c call) int { status, _ := p.Collect(c); return status }
		padded := func(body m, size int) string {
			body["pad"] = ""
			body["pad"] = strings.Repeat("x", size-len(mustJSON(t, body)))
			return mustJSON(t, body)
		}

		serverBody := func(size int) int {
			status, _ := p.serverCall("POST", bearer, padded(m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome}, size))
			return status
		}

		collectBody := func(size int) int {
			return status(call{Body: padded(viewCall(site, "", nil).Body.(m), size), Origin: "https://shop.example"})
		}

		// kept returns the size of the stored properties of an event with properties of the given
		// size.
		kept := func(size int) int {
			p.Collect(eventCall(site, "", "signup", m{"x": strings.Repeat("x", size-len(`{"x":""}`))}, nil))
			events := p.Events(site)
			return len(events[len(events)-1].Properties)
		}

		// rule returns 204 for an accepted setting, and 400 for a refused one.
		rule := func(err error) int {
			if shown, ok := errors.AsType[*model.Error](err); ok && shown.Kind != model.Internal {
				return 400
			} else if err != nil {
				t.Fatal(err)
			}
			return 204
		}

		several := func(n int, add func(i int) error) int {
			last := 204
			for i := range n {
				last = rule(add(i))
			}
			return last
		}

		domains, names := p.site("domains.example", quota), p.site("names.example", quota)
		addDomain := func(i int) error {
			return sites.New(p.DB).Sites.AddSiteDomain(ctx, domains.AccountID, domains.ID, fmt.Sprintf("extra%d.example", i))
		}

		register := func(i int) error {
			return sites.New(p.DB).Sites.RegisterEvent(ctx, names.AccountID, names.ID, fmt.Sprintf("name-%d", i))
		}

		long := func(n int) string { return strings.Repeat("a", n) }
		term := func(n int) int {
			p.Collect(eventCall(site, "", "site_search", m{"term": strings.Repeat("ä", n)}, nil))
			events := p.Events(site)
			return strings.Count(events[len(events)-1].Properties, "ä")
		}

		month := p.site("month.example", 1)
		monthly := func(at time.Time) int {
			p.Clock.Set(at)
			defer p.Clock.Set(noon)
			return status(viewCall(month, "", nil))
		}
		for _, limit := range []struct {
			name      string
			got, want int
		}{
			{"collect body of 8 KB", collectBody(8192), 204},
			{"collect body beyond", collectBody(8193), 400},
			{"server body of 8 KB", serverBody(8192), 200},
			{"server body beyond", serverBody(8193), 400},
			{"event properties of 4 KB are kept", kept(4096), 4096},
			{"event properties beyond are dropped", kept(4097), 0},
			{"event name of 48 characters", rule(sites.New(p.DB).Sites.RegisterEvent(ctx, account, site.ID, long(48))), 204},
			{"event name beyond", rule(sites.New(p.DB).Sites.RegisterEvent(ctx, account, site.ID, long(49))), 400},
			{"50 registered names", several(50, register), 204},
			{"one more", rule(register(50)), 400},
			{"20 extra domains", several(20, addDomain), 204},
			{"one more", rule(addDomain(20)), 400},
			{"site_search term of 100 characters", term(100), 100},
			{"site_search term beyond is cut", term(101), 100},
			{"quota: the month's last", monthly(time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)), 204},
			{"quota: beyond", monthly(time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)), 429},
			{"quota: the next month's first", monthly(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)), 204},
		} {
			testkit.Equal(t, limit.got, limit.want, "%s", limit.name)
		}

		for plan, want := range map[model.Plan]int64{model.PlanFree: 10_000, model.PlanPro100K: 100_000, model.PlanPro500K: 500_000,
			model.PlanPro1M: 1_000_000, model.PlanPro2M: 2_000_000, model.PlanPro5M: 5_000_000,
			model.PlanEnterprise: model.MaxMonthlyPageviews} {
			if got, ok := plan.MonthlyPageviews(); !ok || got != want {
				t.Errorf("plan %s: %d, want %d", plan, got, want)
			}
		}

		if _, ok := model.Plan("GOLD").MonthlyPageviews(); ok {
			t.Error("an unknown plan has a volume")
		}
	})
}
