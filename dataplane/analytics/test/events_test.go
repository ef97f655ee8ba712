package analytics_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// eventCall returns an event of the site from a browser on its domain.
func eventCall(site *model.Site, visitor, name string, properties any, fields map[string]any) call {
	body := map[string]any{"t": "event", "e": name}
	if properties != nil {
		body["m"] = properties
	}
	maps.Copy(body, fields)
	return viewCall(site, visitor, body)
}

type m = map[string]any

// TestCollectEvents goes through the contract's tables of events (section 2) and their errors
// (section 7). It checks the answer, and the columns of a stored event.
func TestCollectEvents(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		on, off := p.shop("shop.example"), p.site("plain.example", quota)
		large := strings.Repeat("x", 4_096)
		type row struct {
			value, currency, transaction, properties string
		}

		for _, test := range []struct {
			name       string
			site       *model.Site
			event      any
			properties any
			fields     m
			code       string // of a 400
			want       row
		}{
			{name: "custom event", event: "signup", want: row{}},
			{
				name: "custom event with properties", event: "signup", properties: m{"plan": "pro", "seats": 3},
				want: row{properties: `{"plan":"pro","seats":3}`},
			},
			{
				name: "properties of 4 KB", event: "signup", properties: m{"x": large[:4_096-len(`{"x":""}`)]},
				want: row{properties: `{"x":"` + large[:4_096-len(`{"x":""}`)] + `"}`},
			},
			{name: "properties over 4 KB are dropped", event: "signup", properties: m{"x": large[:4_097-len(`{"x":""}`)]}},
			{name: "properties that are no object are dropped", event: "signup", properties: []int{1}},
			{name: "name not registered", event: "login", code: "unknown_event"},
			{name: "name registered elsewhere", site: off, event: "signup", code: "unknown_event"},
			{name: "name of 48 characters, not registered", event: strings.Repeat("a", 48), code: "unknown_event"},
			{name: "name of 49 characters", event: strings.Repeat("a", 49), code: "unknown_event"},
			{name: "name in capitals", event: "Signup", code: "unknown_event"},
			{name: "name with a space", event: "sign up", code: "unknown_event"},
			{name: "name with a newline", event: "sig\nnup", code: "unknown_event"},
			{name: "name with a newline at its end", event: "signup\n", code: "unknown_event"},
			{name: "name with NUL", event: "signup\x00", code: "unknown_event"},
			{name: "empty name", event: "", code: "unknown_event"},
			{name: "no name", event: nil, code: "unknown_event"},
			{name: "a number for a name", event: 7, code: "unknown_event"},
			{name: "pageview is no event", event: "pageview", code: "unknown_event"},

			{
				name: "outbound_click", event: "outbound_click",
				properties: m{"host": "other.example", "url": "https://other.example/?secret"},
				want:       row{properties: `{"host":"other.example"}`},
			},
			{
				name: "outbound_click without measuring anything else", site: off, event: "outbound_click",
				properties: m{"host": "other.example"}, want: row{properties: `{"host":"other.example"}`},
			},
			{
				name: "file_download", event: "file_download", properties: m{"file": "a.pdf", "ext": "pdf", "x": 1},
				want: row{properties: `{"ext":"pdf","file":"a.pdf"}`},
			},
			{name: "scroll", event: "scroll", properties: m{"percent": 90, "x": 1}, want: row{properties: `{"percent":90}`}},
			{name: "site_search", event: "site_search", properties: m{"term": "tea"}, want: row{properties: `{"term":"tea"}`}},
			{
				name: "site_search is cut at 100 characters", event: "site_search",
				properties: m{"term": strings.Repeat("ä", 101)},
				want:       row{properties: `{"term":"` + strings.Repeat("ä", 100) + `"}`},
			},
			{name: "site_search where it is not measured", site: off, event: "site_search", properties: m{"term": "tea"}, code: "unknown_event"},
			{name: "automatic event under data-auto=off", event: "scroll", fields: m{"a": "off"}, code: "unknown_event"},
			{name: "custom event under data-auto=off", event: "signup", fields: m{"a": "off"}},

			{
				name: "view_item", event: "view_item",
				properties: m{"item_id": "k1", "item_name": "Kettle", "price": 19.9, "quantity": 1},
				want:       row{properties: `{"item_id":"k1","item_name":"Kettle","price":19.9,"quantity":1}`},
			},
			{name: "view_item without item_id", event: "view_item", properties: m{"item_name": "Kettle"}, code: "bad_event"},
			{name: "add_to_cart", event: "add_to_cart", properties: m{"item_id": "k1"}, want: row{properties: `{"item_id":"k1"}`}},
			{name: "add_to_cart without properties", event: "add_to_cart", code: "bad_event"},
			{name: "begin_checkout", event: "begin_checkout", properties: m{"value": 20, "currency": "eur"}, want: row{value: "20", currency: "EUR"}},
			{name: "begin_checkout without currency", event: "begin_checkout", properties: m{"value": 20}, code: "bad_event"},
			{name: "purchase", event: "purchase", properties: m{
				"transaction_id": "T1", "value": raw("19.90"), "currency": "EUR",
				"items": []any{m{"item_id": "k1", "color": "red"}},
			},
				want: row{value: "19.9", currency: "EUR", transaction: "T1", properties: `{"items":[{"item_id":"k1"}]}`}},
			{
				name: "purchase of an exact amount", event: "purchase",
				properties: m{"transaction_id": "T2", "value": raw("0.1"), "currency": "USD"},
				want:       row{value: "0.1", currency: "USD", transaction: "T2"},
			},
			{
				name: "purchase of the largest amount", event: "purchase",
				properties: m{"transaction_id": "T3", "value": raw("1e12"), "currency": "USD"},
				want:       row{value: "1000000000000", currency: "USD", transaction: "T3"},
			},
			{
				name: "purchase beyond the largest amount", event: "purchase",
				properties: m{"transaction_id": "T4", "value": raw("1000000000000.01"), "currency": "USD"},
				code:       "bad_event",
			},
			{
				name: "purchase of less than nothing", event: "purchase",
				properties: m{"transaction_id": "T4", "value": -1, "currency": "USD"}, code: "bad_event",
			},
			{name: "purchase without transaction_id", event: "purchase", properties: m{"value": 1, "currency": "USD"}, code: "bad_event"},
			{name: "purchase without value", event: "purchase", properties: m{"transaction_id": "T4", "currency": "USD"}, code: "bad_event"},
			{
				name: "purchase with a text for a value", event: "purchase",
				properties: m{"transaction_id": "T4", "value": "1", "currency": "USD"}, code: "bad_event",
			},
			{
				name: "purchase with a currency that is none", event: "purchase",
				properties: m{"transaction_id": "T4", "value": 1, "currency": "$"}, code: "bad_event",
			},
			{
				name: "purchase with items that are none", event: "purchase",
				properties: m{"transaction_id": "T5", "value": 1, "currency": "USD", "items": "x"},
				want:       row{value: "1", currency: "USD", transaction: "T5"},
			},
			{name: "purchase with numbers for ids and unreadable details", event: "purchase",
				properties: m{
					"transaction_id": 1001, "value": 1, "currency": "USD",
					"items": []any{m{"item_id": 5, "item_name": "a", "price": -5, "quantity": 1.5}},
				},
				want: row{value: "1", currency: "USD", transaction: "1001", properties: `{"items":[{"item_id":"5","item_name":"a"}]}`}},
			{
				name: "purchase with a key twice", event: "purchase",
				properties: raw(`{"transaction_id":"T6","value":1,"currency":"USD","value":2}`),
				want:       row{value: "2", currency: "USD", transaction: "T6"},
			},
			{name: "properties as sent", event: "signup", properties: raw(`{ "a\n\u0001" : "\t\r\n\u007f", "b\u0000": "\ud800", "n": 1e400 }`),
				want: row{properties: `{"a\n\u0001":"\t\r\n` + "\x7f" + `","b` + "\ufffd" + `":"` + "\ufffd" + `","n":"1e400"}`}},
			{name: "properties with a key twice", event: "signup", properties: raw(`{"a":1,"b":2,"a":3}`), want: row{properties: `{"b":2,"a":3}`}},
			{name: "properties over 4 KB until they are compact", event: "signup",
				properties: raw(`{"x":` + strings.Repeat(" ", 4_096) + `"` + strings.Repeat(`\u00e9`, 500) + `"}`),
				want:       row{properties: `{"x":"` + strings.Repeat("é", 500) + `"}`}},
			{
				name: "refund", event: "refund",
				properties: m{"transaction_id": "R1", "value": raw("5.50"), "currency": "EUR"},
				want:       row{value: "-5.5", currency: "EUR", transaction: "R1"},
			},
			{
				name: "refund under the purchase's id", event: "refund",
				properties: m{"transaction_id": "T1", "value": 5, "currency": "EUR"}, code: "bad_event",
			},
			{
				name: "e-commerce where it is not measured", site: off, event: "purchase",
				properties: m{"transaction_id": "T9", "value": 1, "currency": "USD"}, code: "unknown_event",
			},
		} {
			t.Run(test.name, func(t *testing.T) {
				if test.site == nil {
					test.site = on
				}

				before, used := p.Events(test.site), p.Used(test.site)
				c := eventCall(test.site, "", "", test.properties, test.fields)
				c.Body.(m)["e"] = test.event
				status, code := p.Collect(c)
				after := p.Events(test.site)

				if test.code != "" {
					if status != http.StatusBadRequest || code != test.code || len(after) != len(before) || p.Used(test.site) != used {
						t.Errorf("got %d %s, %d rows more, %d counted; want 400 %s and nothing", status, code, len(after)-len(before),
							p.Used(test.site)-used, test.code)
					}

					return
				}

				if status != http.StatusNoContent || len(after) != len(before)+1 || p.Used(test.site) != used+1 {
					t.Fatalf("got %d %s, %d rows more, %d counted; want 204 and one", status, code, len(after)-len(before), p.Used(test.site)-used)
				}

				e := after[len(after)-1]
				got := row{currency: e.Currency, transaction: e.TransactionID, properties: e.Properties}

				if e.Currency != "" {
					got.value = e.Value.String()
				}
				if e.Name != test.event || got != test.want {
					t.Errorf("stored %s %+v, want %s %+v", e.Name, got, test.event, test.want)
				}
			})
		}
	})
}

// TestTransactionsCountOnce checks that a purchase or refund that is recorded already is ignored,
// also for many concurrent calls (analytics contract, section 2).
func TestTransactionsCountOnce(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site, other := p.shop("shop.example"), p.shop("other.example")
		purchase := func(on *model.Site, visitor, event string) {
			t.Helper()
			status, code := p.CollectStored(eventCall(on, visitor, event, m{"transaction_id": event + "-1", "value": 5, "currency": "EUR"}, nil))
			testkit.Equal(t, status, http.StatusNoContent, "%s: %s", event, code)
		}

		var wg sync.WaitGroup

		for i := range 50 {
			for _, event := range []string{"purchase", "refund"} {
				wg.Go(func() { purchase(site, fmt.Sprintf("198.51.100.%d", i), event) })
			}
		}

		wg.Wait()
		purchase(site, "", "purchase")

		if status, code := p.Collect(eventCall(site, "", "purchase", m{"transaction_id": "refund-1", "value": 5, "currency": "EUR"},
			nil)); status != http.StatusNoContent {
			t.Errorf("purchase under a refund's id: %d %s, want 204: it is ignored", status, code)
		}

		// Transaction ids of different sites are independent.
		purchase(other, "", "purchase")

		if events, used := p.Events(site), p.Used(site); len(events) != 2 || used != 2 {
			t.Errorf("%d events stored, %d counted; want one purchase and one refund", len(events), used)
		}
		testkit.Equal(t, len(p.Events(other)), 1, "events of the other site")

		p.Rejected(site, map[string]int64{"collect duplicate_transaction": 100})
	})
}

// TestEventsJoinVisits checks that an event belongs to the visitor's latest visit of the day, and
// starts one if there is none.
func TestEventsJoinVisits(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		p.View(site, "", m{"u": m{"source": "newsletter", "medium": "email"}})

		// This event follows long after the gap.
		p.Clock.Set(noon.Add(3 * time.Hour))
		p.Event(site, "", "signup")
		event := p.Events(site)[0]

		view := p.Views(site)[0]
		if event.Visit.ID() != view.Visit.ID() || event.Channel != "email" || event.Pageviews != 1 || event.LastPageviewAt != view.At {
			t.Errorf("the event's visit %+v is not the page view's %+v", event, view)
		}

		// This visitor has no visit yet.
		p.Event(site, "198.51.100.2", "signup")
		opened := p.Events(site)[1]
		if opened.Visit.ID() == view.Visit.ID() || opened.Pageviews != 0 || opened.LastPageviewAt != 0 || opened.Channel != "direct" {
			t.Errorf("the visit that an event started: %+v", opened)
		}

		p.Event(site, "198.51.100.2", "signup")

		if again := p.Events(site)[2]; again.Visit.ID() != opened.Visit.ID() {
			t.Errorf("the visitor's second event is in visit %s, want %s", again.Visit.ID(), opened.Visit.ID())
		}

		// The first page view starts a visit with its own attribution.
		p.View(site, "198.51.100.2", nil)

		if row := p.Views(site)[1]; row.Visit.ID() == opened.Visit.ID() || row.Pageviews != 1 {
			t.Errorf("the page view joined a visit that events started: %+v", row)
		}
	})
}

// TestInventedPageviewIDs checks that an event with an id that belongs to no page view neither ends
// nor extends a visit of page views, and that an event that overtakes its page view is in its
// visit. Each step is a hit of one visitor. Visits are numbered in the order in which the steps
// reach them.
func TestInventedPageviewIDs(t *testing.T) {
	t.Parallel()
	type step struct {
		at     time.Duration // after 12:00 UTC
		event  bool          // or a page view
		on     int           // the page view id; 0 for none
		source string        // utm_source
		visit  int
	}
	const invented = 1_000 // and more: ids of no page view

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		for i, test := range []struct {
			name  string
			steps []step
		}{
			{"it does not extend a visit", []step{{on: 1, visit: 1}, {at: 20 * time.Minute, event: true, on: invented, visit: 1},
				{at: 30*time.Minute + 2*time.Second, on: 2, visit: 2}}},
			{"nor do many of them", []step{{on: 1, visit: 1}, {at: 20 * time.Minute, event: true, on: invented, visit: 1},
				{at: 29 * time.Minute, event: true, on: invented + 1, visit: 1}, {at: 31 * time.Minute, event: true, on: 1, visit: 1},
				{at: 32 * time.Minute, on: 2, visit: 2}}},
			{"its campaign does not end a visit", []step{{source: "newsletter", on: 1, visit: 1},
				{at: time.Minute, event: true, on: invented, source: "partner", visit: 2}, {at: 2 * time.Minute, on: 2, visit: 1},
				{at: 31 * time.Minute, on: 3, visit: 1}, {at: 32 * time.Minute, event: true, visit: 1}}},
			{"many ids and campaigns open one visit", []step{{source: "newsletter", on: 1, visit: 1},
				{at: time.Minute, event: true, on: invented, source: "partner", visit: 2},
				{at: 2 * time.Minute, event: true, on: invented + 1, source: "search", visit: 2},
				{at: 3 * time.Minute, event: true, on: invented + 2, source: "mail", visit: 2}, {at: 4 * time.Minute, on: 2, visit: 1}}},
			{"ids after the gap open one visit", []step{{on: 1, visit: 1}, {at: 31 * time.Minute, event: true, on: invented, visit: 2},
				{at: 32 * time.Minute, event: true, on: invented + 1, visit: 2}, {at: 3 * time.Hour, event: true, on: invented + 2, visit: 2},
				{at: 4 * time.Hour, event: true, on: invented + 3, visit: 2}, {at: 5 * time.Hour, on: 2, visit: 3}}},
			{"without a page view all are in one visit", []step{{event: true, on: invented, visit: 1},
				{at: time.Hour, event: true, on: invented + 1, visit: 1}, {at: 2 * time.Hour, event: true, on: invented + 2, source: "x", visit: 1},
				{at: 3 * time.Hour, on: 1, visit: 2}}},
			{"an event without an id joins the visit of page views", []step{{source: "newsletter", on: 1, visit: 1},
				{at: 40 * time.Minute, event: true, on: invented, visit: 2}, {at: 41 * time.Minute, event: true, visit: 1}}},
			{"the page view follows at once", []step{{event: true, on: 1, source: "partner", visit: 1}, {at: time.Second, on: 1, source: "partner", visit: 1},
				{at: 29 * time.Minute, on: 2, visit: 1}}},
			{"the page view follows late", []step{{on: 1, visit: 1}, {at: time.Minute, event: true, on: 2, source: "partner", visit: 2},
				{at: 2 * time.Minute, on: 2, source: "partner", visit: 2}, {at: 3 * time.Minute, on: 3, visit: 2}}},
			{"a page view of the visit follows", []step{{on: 1, visit: 1}, {at: 29 * time.Minute, event: true, on: 2, visit: 1},
				{at: 29*time.Minute + time.Second, on: 2, visit: 1}, {at: 58 * time.Minute, on: 3, visit: 1}}},
			{"after midnight a page view continues the only visit", []step{{event: true, on: invented, source: "partner", visit: 1},
				{at: 3 * time.Minute, on: 1, visit: 1}, {at: 4 * time.Minute, event: true, on: 1, visit: 1}}},
			{"the page view follows hours later", []step{{event: true, on: 1, visit: 1}, {at: 2 * time.Hour, on: 1, visit: 2}}},
			{"after the gap the page view follows", []step{{on: 1, visit: 1}, {at: 40 * time.Minute, event: true, on: 2, visit: 2},
				{at: 40*time.Minute + time.Second, on: 2, visit: 2}, {at: 41 * time.Minute, event: true, visit: 2}}},
		} {
			t.Run(test.name, func(t *testing.T) {
				site := p.shop(fmt.Sprintf("site%d.example", i))
				for n, s := range test.steps {
					p.Clock.Set(noon.Add(s.at))
					fields := m{"p": fmt.Sprint("/", n), "u": m{"source": s.source}}
					if s.on != 0 {
						fields["i"] = fmt.Sprintf("%016x", s.on)
					}

					if !s.event {
						p.View(site, "", fields)
						continue
					}
					if status, code := p.Collect(eventCall(site, "", "signup", nil, fields)); status != http.StatusNoContent {
						t.Fatalf("event of step %d: %d %s, want 204", n, status, code)
					}
				}

				visits := make(map[string]string) // of each path
				for _, row := range p.Views(site) {
					visits[row.Path] = row.Visit.ID()
				}
				for _, row := range p.Events(site) {
					visits[row.Path] = row.Visit.ID()
				}

				numbers := make(map[string]int)
				for n, s := range test.steps {
					id := visits[fmt.Sprint("/", n)]
					if numbers[id] == 0 {
						numbers[id] = len(numbers) + 1
					}
					testkit.Equal(t, numbers[id], s.visit, "step %d, %+v: visit", n, s)
				}
			})
		}
	})
}

// TestManualPageviews checks that a manual page view is ignored within a second of an automatic one
// on its path (section 3).
func TestManualPageviews(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		ignored := make(map[*model.Site]int64)
		for i, test := range []struct {
			name    string
			first   m
			between m // a page view half a second after the first one
			after   time.Duration
			visitor string
			path    string
			stored  bool
		}{
			{name: "at once", after: 0},
			{name: "0.999 s after", after: 999 * time.Millisecond},
			{name: "1 s after", after: time.Second},
			{name: "1.001 s after", after: 1001 * time.Millisecond, stored: true},
			{name: "on another path", path: "/other", stored: true},
			{name: "by another visitor", visitor: "198.51.100.9", stored: true},
			{name: "after another manual one", first: m{"x": 1}, stored: true},
			{name: "behind another page", between: m{"p": "/next"}, after: time.Second},
			{name: "behind a manual one on another path", between: m{"p": "/next", "x": 1}, after: time.Second},
			{name: "behind another visit", between: m{"p": "/next", "u": m{"source": "x"}}, after: time.Second},
			{name: "behind another page, too late", between: m{"p": "/next"}, after: 1001 * time.Millisecond, stored: true},
			{name: "while the clock steps back", after: -time.Second},
			{name: "while the clock steps back further", after: -1001 * time.Millisecond, stored: true},
		} {
			t.Run(test.name, func(t *testing.T) {
				site := p.site(fmt.Sprintf("site%d.example", i), quota)
				path := test.path
				if path == "" {
					path = "/app"
				}

				first := m{"p": "/app"}
				maps.Copy(first, test.first)
				p.Clock.Set(noon)
				p.View(site, "", first)
				want := 1

				if test.between != nil {
					p.Clock.Set(noon.Add(500 * time.Millisecond))
					p.View(site, "", test.between)
					want++
				}

				p.Clock.Set(noon.Add(test.after))

				// The answer is always 204.
				p.View(site, test.visitor, m{"p": path, "x": 1})

				if test.stored {
					want++
				}
				if rows, used := len(p.Views(site)), p.Used(site); rows != want || used != int64(want) {
					t.Errorf("%d stored, %d counted; want %d", rows, used, want)
				}
				if !test.stored {
					ignored[site] = 1
				}
			})
		}

		for site, n := range ignored {
			p.Rejected(site, map[string]int64{"collect duplicate_pageview": n})
		}
	})
}

// TestConversions checks that a key event stores a delivery with the contract's body (section 2).
func TestConversions(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site, silent := p.shop("shop.example"), p.site("plain.example", quota)
		p.View(site, "", m{"u": m{"source": "Partner", "campaign": "spring", "gclid": "Gx"}})
		p.Clock.Set(noon.Add(time.Minute))

		// The second call repeats the first.
		for range 2 {
			p.Collect(eventCall(site, "", "purchase", m{"transaction_id": "T1", "value": raw("19.90"), "currency": "EUR"}, m{"p": "/thanks?x"}))
		}

		// The owner has marked signup as a key event.
		p.Event(site, "", "signup")

		// This event is not a key event.
		p.Event(site, "", "scroll")

		// This event is refused.
		p.Collect(eventCall(site, "", "login", nil, nil))
		p.Event(silent, "", "scroll")

		deliveries := p.deliveries(site)
		if len(deliveries) != 2 {
			t.Fatalf("%d deliveries, want the purchase and the signup: %+v", len(deliveries), deliveries)
		}

		event := p.Events(site)[0]
		want := m{
			"type": "conversion", "event": "purchase", "site_key": site.SiteKey, "path": "/thanks", "value": 19.9, "currency": "EUR", "transaction_id": "T1",
			"occurred_at": event.At.Time().Format("2006-01-02T15:04:05.000000") + "+00:00",
			"attribution": m{"channel": event.Channel, "utm_source": "partner", "utm_medium": nil, "utm_campaign": "spring", "gclid": "Gx"},
		}

		var got m
		if err := json.Unmarshal([]byte(deliveries[0].Body), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("body %v, want %v; %v", got, want, err)
		}
		if !strings.Contains(deliveries[0].Body, `"value":19.9,`) {
			t.Errorf("the value is not the exact number: %s", deliveries[0].Body)
		}
		if b := deliveries[1].Body; strings.Contains(b, "value") || strings.Contains(b, "currency") || strings.Contains(b, "transaction_id") {
			t.Errorf("an event without value carries one: %s", b)
		}

		for _, d := range deliveries {
			if d.Kind != "conversion" || d.State != "pending" || d.ScheduledAttempts != 0 || d.NextAttemptAt != d.CreatedAt ||
				strings.Contains(d.Body, "203.0.113") || strings.Contains(d.Body, "Mozilla") {
				t.Errorf("delivery %+v", d)
			}
		}

		testkit.Equal(t, len(p.deliveries(silent)), 0, "deliveries for a site without webhook")
	})
}

// TestConversionOfAnOddPath checks that the webhook's body is valid JSON for a path with control
// characters, and contains the path as it was sent.
func TestConversionOfAnOddPath(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")

		const path = "/a\tb\nc\r\"d\"\x01\x7f"
		if status, code := p.Collect(eventCall(site, "", "signup", nil, m{"p": path})); status != http.StatusNoContent {
			t.Fatalf("%d %s, want 204", status, code)
		}

		var sent struct{ Path string }
		if err := json.Unmarshal([]byte(p.deliveries(site)[0].Body), &sent); err != nil || sent.Path != path {
			t.Errorf("path %q, %v; want %q", sent.Path, err, path)
		}
	})
}

// TestExcludedAddresses checks that hits from excluded addresses are accepted and not stored.
func TestExcludedAddresses(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		// The shop excludes 192.0.2.7 and 2001:db8::/32.
		site := p.shop("shop.example")
		for visitor, stored := range map[string]bool{
			"192.0.2.7": false, "192.0.2.8": true, "2001:db8:1::5": false, "2001:db9::5": true, "::ffff:192.0.2.7": false,
		} {
			before := len(p.Views(site))
			p.View(site, visitor, nil)

			testkit.Equal(t, len(p.Views(site)) > before, stored, "page view from %s: stored", visitor)
		}

		p.Rejected(site, map[string]int64{"collect excluded_address": 3})
	})
}

// TestPseudonymousUserID checks that user ids are stored as keyed hashes that are bound to the
// site, and only well-formed ones of sites that allow them.
func TestPseudonymousUserID(t *testing.T) {
	t.Parallel()
	id, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site, second, off := p.shop("shop.example"), p.shop("other.example"), p.site("plain.example", quota)
		userOf := func(on *model.Site, visitor string, ids ...any) string {
			t.Helper()
			for _, id := range ids {
				p.View(on, visitor, m{"d": id})
			}
			rows := p.Views(on)
			return string(rows[len(rows)-1].UserID)
		}

		first := userOf(site, "198.51.100.1", id)
		if len(first) != 16 || strings.Contains(first, "ab") {
			t.Errorf("stored user id %x, want 16 bytes of a hash", first)
		}
		testkit.Equal(t, userOf(site, "198.51.100.2", id), first, "one id of two visitors is stored in two ways")
		if elsewhere := userOf(second, "198.51.100.1", id); elsewhere == first || elsewhere == "" {
			t.Error("ids link across sites")
		}
		testkit.Equal(t, userOf(off, "198.51.100.1", id), "", "a site that does not allow ids stores one")

		testkit.Equal(t, userOf(site, "198.51.100.6", strings.ToUpper(id)), first, "an id in upper case is not the same id")

		for _, bad := range []any{id[:63], id + "a", id[:63] + "g", "owner@example.com", 7, nil} {
			testkit.Equal(t, userOf(site, "198.51.100.3", bad), "", "id %v is stored", bad)
		}

		testkit.Equal(t, userOf(site, "198.51.100.4", nil, id), first, "an id later in the visit is not stored")
		if got := userOf(site, "198.51.100.4", other); got == first {
			t.Error("the latest id does not count")
		}
		testkit.Equal(t, userOf(site, "198.51.100.5", id, nil), first, "a page view without id removes the visit's id")
	})
}

// TestRejectionsAreCounted checks that each refused or ignored call of a known site is counted, by
// day, endpoint and code (section 6).
func TestRejectionsAreCounted(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", 1)
		p.View(site, "", nil)

		for range 3 {
			// These calls exceed the quota.
			p.Collect(viewCall(site, "", nil))
		}

		foreign := viewCall(site, "", nil)
		foreign.Origin = "https://example.org"
		p.Collect(foreign)
		p.Collect(viewCall(site, "", m{"p": "x"}))
		p.Collect(eventCall(site, "", "login", nil, nil))
		robot := viewCall(site, "", nil)
		robot.Agent = "curl/8.5.0"
		p.Collect(robot)
		p.Rejected(site, map[string]int64{"collect quota_exceeded": 3, "collect domain_not_allowed": 1, "collect bad_path": 1,
			"collect unknown_event": 1, "collect bot": 1})
	})
}

// TestChangesTakeEffect checks that the owner's changes apply to the next hit.
func TestChangesTakeEffect(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)
		elsewhere := viewCall(site, "", nil)
		elsewhere.Origin = "https://www.example.org"
		if status, _ := p.Collect(elsewhere); status != http.StatusForbidden {
			t.Fatalf("an extra domain before it is added: %d", status)
		}
		testkit.NoError(t, sites.New(p.DB).Sites.AddSiteDomain(t.Context(), site.AccountID, site.ID, "example.org"))

		p.Await("the extra domain", func() bool { status, _ := p.Collect(elsewhere); return status == http.StatusNoContent })

		testkit.NoError(t, sites.New(p.DB).Sites.RemoveSiteDomain(t.Context(), site.AccountID, site.ID, "example.org"))

		p.Await("its removal", func() bool { status, _ := p.Collect(elsewhere); return status == http.StatusForbidden })
	})
}
