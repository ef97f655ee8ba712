package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// insertDelivery stores a delivery of a site as an earlier time would have left it.
func (a *app) insertDelivery(siteID model.SiteID, d model.Delivery) int64 {
	a.t.Helper()
	if d.ID == 0 {
		d.ID = model.FirstTimeID(d.CreatedAt) + a.deliveries
		a.deliveries++
	}
	must(a.t, dbtest.Exec(a.db, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, tries, created_at, next_attempt_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, siteID, d.ID, d.Kind, d.Event, d.State, d.ScheduledAttempts, d.Attempts, d.CreatedAt, d.CreatedAt, d.Body))
	return d.ID
}

// TestDeliveryFilters lists the deliveries that meet each combination of conditions, and counts
// them.
func TestDeliveryFilters(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		id, other := c.siteOf("example.com"), c.siteOf("other.example.com")
		site := a.siteNumber(id)

		// Two of each combination, in the order of their times.
		var all []model.Delivery
		for range 2 {
			for kind, events := range map[string][]string{
				"conversion": {"signup", "test"}, "daily_export": {"2026-11-19"}, "test": {"test"},
			} {
				for _, event := range events {
					for _, state := range []string{"pending", "waiting", "delivered", "failed"} {
						at := model.At(start).Add(time.Duration(len(all)) * time.Minute)
						delivery := model.Delivery{Kind: kind, Event: event, State: state, CreatedAt: at, Body: "{}"}
						delivery.ID = a.insertDelivery(site, delivery)
						a.insertDelivery(a.siteNumber(other), delivery)
						all = append(all, delivery)
					}
				}
			}
		}

		since, until := all[5].CreatedAt, all[20].CreatedAt
		for _, kind := range []string{"", "CONVERSION", "DAILY_EXPORT", "TEST"} {
			for _, state := range []string{"", "PENDING", "WAITING", "DELIVERED", "FAILED"} {
				for _, event := range []string{"", "test", "signup", "nothing"} {
					for _, period := range []bool{false, true} {
						filter := map[string]any{}
						var want []string
						for _, delivery := range all {
							if (kind == "" || delivery.Kind == strings.ToLower(kind)) && (state == "" || delivery.State == strings.ToLower(state)) &&
								(event == "" || delivery.Event == event) && (!period || delivery.CreatedAt >= since && delivery.CreatedAt < until) {
								want = append(want, a.ids.OfDelivery(site, delivery.ID))
							}
						}

						for name, value := range map[string]string{"kind": kind, "state": state, "event": event} {
							if value != "" {
								filter[name] = value
							}
						}

						if period {
							filter["since"], filter["until"] = since.Time(), until.Time()
						}

						got := c.query(`query($id: ID!, $filter: DeliveryFilter) { site(id: $id) {
							all: deliveries(first: 50, orderBy: OLDEST, filter: $filter) { totalCount nodes { id } }
							newest: deliveries(first: 2, filter: $filter) { nodes { id } pageInfo { hasNextPage } }
							oldest: deliveries(last: 2, filter: $filter) { nodes { id } pageInfo { hasPreviousPage } } } }`, "id", id, "filter", filter).ok(t, "")
						list := func(name string) (ids []string) {
							for _, node := range got.at("site." + name + ".nodes").([]any) {
								ids = append(ids, node.(map[string]any)["id"].(string))
							}
							return ids
						}

						newest := slices.Clone(want)
						slices.Reverse(newest)
						n := len(want)
						if !slices.Equal(list("all"), want) || got.at("site.all.totalCount") != float64(n) ||
							!slices.Equal(list("newest"), newest[:min(n, 2)]) || !slices.Equal(list("oldest"), newest[max(0, n-2):]) ||
							got.at("site.newest.pageInfo.hasNextPage") != (n > 2) || got.at("site.oldest.pageInfo.hasPreviousPage") != (n > 2) {
							t.Errorf("%v: %s, want %v", filter, got.Body, want)
						}
					}
				}
			}
		}

		// Times far away select nothing or all.
		got := c.query(`query($id: ID!) { site(id: $id) {
			a: deliveries(filter: {since: "9999-01-01T00:00:00Z"}) { totalCount } b: deliveries(filter: {until: "9999-01-01T00:00:00Z"}) { totalCount }
			c: deliveries(filter: {since: "1970-01-02T00:00:00Z"}) { totalCount } d: deliveries(filter: {until: "1970-01-02T00:00:00Z"}) { totalCount } } }`, "id", id).ok(t, "")
		got.named("times far away").is(t,
			`{"data":{"site":{"a":{"totalCount":0},"b":{"totalCount":32},"c":{"totalCount":32},"d":{"totalCount":0}}}}`)

		// A statement has the event for each site, so that a long one would multiply.
		long := `query($id: ID!, $event: String!) { site(id: $id) { deliveries(filter: {event: $event}) { totalCount } } }`
		for event, code := range map[string]string{
			strings.Repeat("e", 48): "", strings.Repeat("e", 49): "INVALID_ARGUMENT",
			strings.Repeat("e", 60_000): "INVALID_ARGUMENT",
		} {
			c.query(long, "id", id, "event", event).named("an event of %d characters", len(event)).code(t, code)
		}
	})
}

// TestDeliveryContent: a delivery names its message, site, address, body and part. A token without
// the scope EXPORT cannot read the body.
func TestDeliveryContent(t *testing.T) {
	const fields = `{ id messageId kind webhook event url body part parts site { id domain } }`
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.siteOf("example.com")
		site := a.siteNumber(id)
		c.change("setConversionWebhook", id, `url: "https://example.com/a?key=1"`).ok(t, "setConversionWebhook")
		c.change("setDailyExportWebhook", id, `url: "https://example.com/day"`).ok(t, "setDailyExportWebhook")

		now := model.At(start)
		conversion := a.insertDelivery(site, model.Delivery{
			Kind: "conversion", Event: "lead", State: "pending", CreatedAt: now, Body: `{"type":"conversion"}`,
		})
		export := a.insertDelivery(site, model.Delivery{
			Kind: "daily_export", Event: "2026-11-19", State: "pending", CreatedAt: now.Add(time.Second),
			Body: `{"day":20776,"part":2,"parts":3}`,
		})
		tested := c.query(`mutation($id: ID!) { sendTestWebhook(input: {siteId: $id, kind: DAILY_EXPORT}) { delivery `+fields+
			` userErrors { code } } }`, "id", id).ok(t, "sendTestWebhook")

		ofSite := fmt.Sprintf(`"site":{"id":%q,"domain":"example.com"}`, id)
		expect := func(id, rest string) string {
			return fmt.Sprintf(`{"id":%q,"messageId":%[1]q,%s,%s}`, id, rest, ofSite)
		}

		testID := tested.at("sendTestWebhook.delivery.id").(string)
		siteKey := c.site(id, `siteKey`).at("site.siteKey").(string)
		test := expect(testID, `"kind":"TEST","webhook":"DAILY_EXPORT","event":"test_daily_export","url":"https://example.com/day","body":"{\"type\":\"test\",\"webhook\":\"daily_export\",\"site_key\":\"`+
			siteKey+`\",\"sent_at\":\"2026-11-20T09:30:00Z\"}","part":null,"parts":null`)
		if want := `{"data":{"sendTestWebhook":{"delivery":` + test + `,"userErrors":[]}}}`; tested.Body != want {
			t.Errorf("the test: %s\nwant %s", tested.Body, want)
		}

		lead := func(url string) string {
			return expect(a.ids.OfDelivery(site, conversion),
				`"kind":"CONVERSION","webhook":"CONVERSION","event":"lead","url":"`+url+`","body":"{\"type\":\"conversion\"}","part":null,"parts":null`)
		}

		read := func(id int64) string {
			return c.query(`query($id: ID!) { node(id: $id) { ... on Delivery `+fields+` } }`, "id", a.ids.OfDelivery(site, id)).ok(t, "").Body
		}
		if got, want := read(conversion), `{"data":{"node":`+lead("https://example.com/a?key=1")+`}}`; got != want {
			t.Errorf("before its attempt: %s\nwant %s", got, want)
		}

		want := expect(a.ids.OfDelivery(site, export),
			`"kind":"DAILY_EXPORT","webhook":"DAILY_EXPORT","event":"2026-11-19","url":"https://example.com/day","body":null,"part":2,"parts":3`)
		if got := read(export); got != `{"data":{"node":`+want+`}}` {
			t.Errorf("a part: %s\nwant %s", got, want)
		}

		// The address stays that of the last attempt.
		leased, err := outbox.New(a.db).LeaseDelivery(t.Context(), model.Lane{SiteID: site, Kind: "conversion"}, nil, now, time.Minute)
		if err != nil || leased.MessageID != a.ids.OfDelivery(site, conversion) {
			t.Fatalf("%+v, %v", leased, err)
		}

		c.change("setConversionWebhook", id, `url: "https://example.com/b"`).ok(t, "setConversionWebhook")
		if got, want := read(conversion), `{"data":{"node":`+lead("https://example.com/a?key=1")+`}}`; got != want {
			t.Errorf("after its attempt: %s\nwant %s", got, want)
		}

		// Bodies are rows: a token needs the scope that downloads need.
		const document = `{ sites { nodes { deliveries(filter: {kind: CONVERSION}) { nodes { event body } } } } }`
		if got := a.with(c.createToken("READ").secret, document); got.codes() != "FORBIDDEN" ||
			got.at("sites.nodes.0.deliveries.nodes.0.event") != "lead" || got.at("sites.nodes.0.deliveries.nodes.0.body") != nil {
			t.Errorf("to a token that cannot export: %s", got.Body)
		}
		if got := a.with(c.createToken("READ", "EXPORT").secret, document); got.codes() != "" ||
			got.at("sites.nodes.0.deliveries.nodes.0.body") != `{"type":"conversion"}` {
			t.Errorf("to a token that can export: %s", got.Body)
		}

		viewer := a.join(c, "viewer@example.com", model.RoleViewer)
		viewer.query(document).named("to a viewer").code(t, "").set(t, "sites.nodes.0.deliveries.nodes.0.body")
	})
}

// TestDeliveryPagesTakeAsManyStatementsAsOne reads all fields of many deliveries of many sites.
func TestDeliveryPagesTakeAsManyStatementsAsOne(t *testing.T) {
	t.Parallel()
	const query = `query($first: Int!, $each: Int!) { sites(first: $first) { nodes { deliveries(first: $each, filter: {state: FAILED}) {
		totalCount nodes { url body part site { domain } attempts { status } } } annotations { totalCount nodes { text } } } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		makeSites(t, d, 10)
		for site := range model.SiteID(10) {
			for i := range int64(3) {
				a.insertDelivery(site+1, model.Delivery{
					ID: i + 1, Kind: "conversion", Event: "lead", State: "failed", CreatedAt: 1,
					Body: fmt.Sprint("of ", site+1),
				})
			}
		}

		var taken []int
		for _, n := range []int{1, 10} {
			statements.Take()
			got := c.query(query, "first", n, "each", min(n, 3)).ok(t, "")
			taken = append(taken, len(statements.Take()))
			last := fmt.Sprintf("sites.nodes.%d.deliveries.", n-1)
			if got.at(last+"totalCount") != 3.0 || got.at(last+"nodes.0.body") != fmt.Sprint("of ", n) ||
				got.at(last+"nodes.0.site.domain") != fmt.Sprintf("s%d.example.com", n-1) {
				t.Errorf("%d sites: %s", n, got.Body)
			}
		}

		equal(t, taken[0], taken[1], "statements")
	})
}

// TestRedeliverFailed sends the failed deliveries since a time again, a bounded number at once and
// each only once.
func TestRedeliverFailed(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var notifier notifier
		a := newApp(t, d, func(s *settings) { s.graph.Notify = notifier.notify })
		c := a.owner("owner@example.com")
		id, other := c.siteOf("example.com"), c.siteOf("other.example.com")
		site := a.siteNumber(id)
		since := model.At(start)
		redeliver := func() *answer {
			a.clock.Add(time.Second)
			return c.do("redeliverFailed", "siteId", id, "since", since.Time())
		}

		redeliver().
			named("without an address").fails(t, "redeliverFailed", "siteId:NO_WEBHOOK").has(t, "redeliverFailed.site", nil)

		c.change("setConversionWebhook", id, `url: "https://example.com/hook"`).ok(t, "setConversionWebhook")
		c.change("setConversionWebhook", other, `url: "https://example.com/hook"`).ok(t, "setConversionWebhook")

		insert := func(site model.SiteID, kind, state string, at model.Instant, manual int32) int64 {
			return a.insertDelivery(site, model.Delivery{
				Kind: kind, Event: "lead", State: state, CreatedAt: at, ScheduledAttempts: 5, Attempts: 5 + manual,
				Body: "{}",
			})
		}

		// None of these is sent again while there is no address for daily exports.
		insert(site, "conversion", "failed", since-1, 0)
		insert(site, "conversion", "delivered", since, 0)
		insert(site, "conversion", "waiting", since, 0)
		insert(site, "conversion", "failed", since, model.MaxRedeliveries)
		a.insertDelivery(site, model.Delivery{Kind: "test", Event: "test_daily_export", State: "failed", CreatedAt: since, Body: "{}"})
		insert(a.siteNumber(other), "conversion", "failed", since, 0)
		export := insert(site, "daily_export", "failed", since, 0)

		const failed = model.MaxRedeliveredAtOnce + 3
		var ids []int64
		for i := range model.Instant(failed) {
			ids = append(ids, insert(site, "conversion", "failed", since+i, 0))
		}

		pending := func() int {
			rows := value(dbtest.Rows[struct{ ID int64 }](d,
				"SELECT id FROM deliveries WHERE state = 'pending' AND fallback = 'failed' AND kind = 'conversion'"))(t)
			return len(rows)
		}

		notifier.take(a)

		for _, want := range []struct {
			sent, all int
			more      bool
		}{{1000, 1000, true}, {3, failed, false}, {0, failed, false}} {
			got := redeliver().ok(t, "redeliverFailed")
			if got.at("redeliverFailed.redelivered") != float64(want.sent) || got.at("redeliverFailed.hasMore") != want.more ||
				got.at("redeliverFailed.site.id") != id || pending() != want.all {
				t.Errorf("%s, %d pending, want %+v", got.Body, pending(), want)
			}
			equal(t, len(notifier.take(a)), min(want.sent, 1), "the workers are notified of")
		}

		// The attempts are manual: afterwards the deliveries are as they were.
		leased, err := outbox.New(d).LeaseDelivery(t.Context(), model.Lane{SiteID: site, Kind: "conversion"}, nil, model.At(a.clock.Now()), time.Minute)
		if err != nil || leased.ID != ids[0] || !leased.Manual || leased.ScheduledAttempts != 5 {
			t.Fatalf("%+v, %v, want %d", leased, err, ids[0])
		}
		must(t, outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: model.AttemptTimeout}, model.At(a.clock.Now())))
		redeliver().ok(t, "redeliverFailed").named("after a failed attempt").has(t, "redeliverFailed.redelivered", 1.0)

		// Daily exports follow when they have an address.
		c.change("setDailyExportWebhook", id, `url: "https://example.com/day"`).ok(t, "setDailyExportWebhook")
		redeliver().ok(t, "redeliverFailed").named("with an address for daily exports").has(t, "redeliverFailed.redelivered", 2.0)
		if leased, err := outbox.New(d).LeaseDelivery(t.Context(), model.Lane{SiteID: site, Kind: "daily_export"}, nil, model.At(a.clock.Now()),
			time.Minute); err != nil || leased == nil || leased.ID != export {
			t.Errorf("%+v, %v", leased, err)
		}

		// One delivery is refused without an address, as all are.
		c.change("setConversionWebhook", id, `url: ""`).ok(t, "setConversionWebhook")
		again := c.do("redeliver", "deliveryId", a.ids.OfDelivery(site, ids[0]+0))
		if got := again.userErrors("redeliver"); got != "deliveryId:NO_WEBHOOK" && got != "deliveryId:DELIVERY_IN_PROGRESS" {
			t.Errorf("without an address: %s", again.Body)
		}
	})
}

// TestResendDailyExport sends the parts of a past day again, as new messages and without effect on
// the regular plan.
func TestResendDailyExport(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var notifier notifier
		a := newApp(t, d, func(s *settings) { s.graph.Notify = notifier.notify })
		c := a.owner("owner@example.com")
		id := c.siteOf("example.com")
		site := a.siteNumber(id)
		today := model.At(start).Day()
		resend := func(day model.Day) *answer {
			a.clock.Add(time.Second)
			return c.do("resendDailyExport", "siteId", id, "date", day.String())
		}

		resend(today-1).named("without an address").fails(t, "resendDailyExport", "siteId:NO_WEBHOOK")

		c.change("setDailyExportWebhook", id, `url: "https://example.com/day"`).ok(t, "setDailyExportWebhook")

		events := func(day model.Day, n int) {
			t.Helper()
			must(t, dbtest.Exec(d, `INSERT INTO events (site_id, at, id, visitor, n, name, path)
				WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
				SELECT ?, ? + n, n, 1, 1, 'signup', '/' FROM numbers`, n-1, site, day.Start()))
		}

		resend(today-1).named("a site without rows").fails(t, "resendDailyExport", "date:INVALID_DAY")

		events(today-3, model.DailyPartRows+1)
		events(today-1, 1)

		for day, want := range map[model.Day]string{
			today: "date:INVALID_DAY", today + 1: "date:INVALID_DAY", today - 4: "date:INVALID_DAY", today - 300: "date:INVALID_DAY",
		} {
			resend(day).named("%s", day).fails(t, "resendDailyExport", want).has(t, "resendDailyExport.site", nil)
		}

		// Days before the address was set, one of them without events.
		got := resend(today-3).ok(t, "resendDailyExport")
		got.named("a day with two parts").has(t, "resendDailyExport.parts", 2.0).has(t, "resendDailyExport.site.id", id)
		equal(t, len(notifier.take(a)), 1, "a day with two parts")
		resend(today-2).ok(t, "resendDailyExport").named("a day without events").has(t, "resendDailyExport.parts", 1.0)
		resend(today-3).named("again at once").fails(t, "resendDailyExport", "date:DELIVERY_IN_PROGRESS")

		listed := c.query(`query($id: ID!, $event: String!) { site(id: $id) { deliveries(orderBy: OLDEST, filter: {event: $event}) { nodes { kind event part parts state } } } }`,
			"id", id, "event", (today-3).String()).ok(t, "")
		want := fmt.Sprintf(`[{"kind":"DAILY_EXPORT","event":%q,"part":1,"parts":2,"state":"PENDING"},{"kind":"DAILY_EXPORT","event":%[1]q,"part":2,"parts":2,"state":"PENDING"}]`, (today - 3).String())
		if listed.Body != `{"data":{"site":{"deliveries":{"nodes":`+want+`}}}}` {
			t.Errorf("the parts: %s, want %s", listed.Body, want)
		}

		// The day that is next in the regular plan stays that.
		rows, err := dbtest.Rows[struct{ DailyExportDay model.Day }](d, "SELECT daily_export_day FROM sites WHERE id = ?", site)
		if err != nil || rows[0].DailyExportDay != today {
			t.Errorf("the next day is %v, %v; want %s", rows, err, today)
		}

		must(t, dbtest.Exec(d, "UPDATE deliveries SET state = 'delivered'"))
		resend(today-3).ok(t, "resendDailyExport")
		equal(t, value(dbtest.Count(d, "deliveries"))(t), 5, "rows of deliveries")

		// An hour has room for a number of parts.
		for i := range model.MaxExportParts {
			a.insertDelivery(site, model.Delivery{
				Kind: "daily_export", Event: "2026-01-01", State: "delivered",
				CreatedAt: model.At(start) + model.Instant(i), Body: "{}",
			})
		}
		resend(today-2).named("after many parts").fails(t, "resendDailyExport", "siteId:TOO_MANY_REDELIVERIES")

		a.clock.Add(time.Hour)
		resend(today-2).ok(t, "resendDailyExport")
	})
}
