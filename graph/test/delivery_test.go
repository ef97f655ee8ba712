package graph_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const deliveryFields = `{ id kind event state nextAttemptAt createdAt attempts { at manual durationMs status error answer } }`

func TestDeliveries(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var notifier notifier
		a := newApp(t, d, func(s *settings) { s.graph.Notify = notifier.notify })
		c := a.owner("owner@example.com")
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		send := func() *answer {
			return c.query(`mutation($id: ID!) { sendTestWebhook(input: {siteId: $id}) { delivery `+deliveryFields+` userErrors { field code } } }`, "id", id)
		}
		send().named("without a webhook").fails(t, "sendTestWebhook", "siteId:NO_WEBHOOK")

		c.change("setConversionWebhook", id, `url: "https://example.com/hook", secret: "whisper whisper whisper"`).ok(t, "setConversionWebhook")
		var made []string
		sent := func() {
			t.Helper()
			a.clock.Add(time.Second)
			made = append(made, send().ok(t, "sendTestWebhook").at("sendTestWebhook.delivery.id").(string))
			if notified := notifier.take(a); fmt.Sprint(notified) != fmt.Sprint(made[len(made)-1:]) {
				t.Errorf("the workers are notified of %v", notified)
			}
		}

		sent()

		if got := send(); got.userErrors("sendTestWebhook") != "siteId:DELIVERY_IN_PROGRESS" || got.at("sendTestWebhook.delivery") != nil {
			t.Errorf("another test at once: %s", got.Body)
		}

		first := `{"id":"` + made[0] +
			`","kind":"TEST","event":"test","state":"PENDING","nextAttemptAt":"2026-11-20T09:30:01Z","createdAt":"2026-11-20T09:30:01Z","attempts":[]}`

		read := func(id string) string {
			return c.query(`query($id: ID!) { node(id: $id) { ... on Delivery `+deliveryFields+` } }`, "id", id).ok(t, "").Body
		}
		equal(t, read(made[0]), `{"data":{"node":`+first+`}}`, "by its id")

		// Make one attempt that fails, as the worker does.
		lane, now := model.Lane{SiteID: 1, Kind: model.DeliveryTest}, model.At(a.clock.Now())
		leased, err := outbox.New(d).LeaseDelivery(t.Context(), lane, nil, now, time.Minute)
		testkit.NoError(t, err)
		if leased.MessageID != made[0] || leased.URL != "https://example.com/hook" || leased.Secret != "whisper whisper whisper" {
			t.Errorf("the worker has %+v", leased)
		}

		redeliver := func() *answer {
			return c.query(`mutation($id: ID!) { redeliver(input: {deliveryId: $id}) { delivery `+deliveryFields+
				` userErrors { field code } } }`, "id", made[0])
		}
		redeliver().named("in progress").fails(t, "redeliver", "deliveryId:DELIVERY_IN_PROGRESS")

		result := outbox.AttemptResult{Duration: 7 * time.Millisecond, Status: 500, Error: model.AttemptServerError, Answer: "sorry"}
		must(t, outbox.New(d).FinishAttempt(t.Context(), leased, result, now))

		attempt := `{"at":"2026-11-20T09:30:01Z","manual":false,"durationMs":7,"status":500,"error":"server_error","answer":"sorry"}`
		if got := read(made[0]); !strings.Contains(got, `"state":"FAILED","nextAttemptAt":null`) || !strings.Contains(got, `"attempts":[`+attempt+`]`) {
			t.Errorf("after a failure: %s", got)
		}

		a.clock.Add(time.Second)

		if got := redeliver().ok(t, "redeliver"); got.at("redeliver.delivery.state") != "PENDING" ||
			got.at("redeliver.delivery.nextAttemptAt") != "2026-11-20T09:30:02Z" || got.at("redeliver.delivery.attempts.0.error") != "server_error" {
			t.Errorf("a second time: %s", got.Body)
		}
		if notified := notifier.take(a); fmt.Sprint(notified) != fmt.Sprint(made) {
			t.Errorf("the workers are notified of %v", notified)
		}
		if leased, err = outbox.New(d).LeaseDelivery(t.Context(), lane, []int64{}, model.At(a.clock.Now()), time.Minute); err != nil {
			t.Fatal(err)
		}
		must(t, outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Status: 204}, now))

		for range 2 {
			sent()

			must(t, dbtest.Exec(d, "UPDATE deliveries SET state = 'failed'"))
		}

		must(t, dbtest.Exec(d, "UPDATE deliveries SET attempts = 1, tries = 21"))
		if got := redeliver(); got.userErrors("redeliver") != "deliveryId:TOO_MANY_REDELIVERIES" || got.at("redeliver.delivery") != nil ||
			len(notifier.take(a)) > 0 {
			t.Errorf("after 20 manual attempts: %s", got.Body)
		}

		// Read the list page by page, newest first.
		var listed []string
		after, pages := any(nil), 0
		for {
			got := c.query(`query($id: ID!, $after: String) { site(id: $id) { deliveries(first: 2, after: $after) {
				edges { cursor node { id kind } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }`, "id", id, "after", after).ok(t, "")

			pages++

			for _, edge := range got.at("site.deliveries.edges").([]any) {
				listed = append(listed, edge.(map[string]any)["node"].(map[string]any)["id"].(string))
			}

			got.named("page %d", pages).has(t, "site.deliveries.pageInfo.hasPreviousPage", (pages > 1))

			after = got.at("site.deliveries.pageInfo.endCursor")

			if got.at("site.deliveries.pageInfo.hasNextPage") != true {
				break
			}
		}

		if want := fmt.Sprint([]string{made[2], made[1], made[0]}); pages != 2 || fmt.Sprint(listed) != want {
			t.Errorf("%d pages list %v, want %s", pages, listed, want)
		}

		for _, arguments := range []string{"first: 0", "first: 101", `after: "x"`} {
			c.site(id, `deliveries(`+arguments+`) { edges { cursor } }`).named("%s", arguments).code(t, "INVALID_ARGUMENT")
		}

		equal(t, a.log.String(), "", "logged")
	})
}

// notifier collects the deliveries of which the workers are notified.
type notifier struct {
	mu   sync.Mutex
	rung []model.Delivery
}

func (b *notifier) notify(deliveries []model.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = append(b.rung, deliveries...)
}

// take returns the ids of the deliveries since the last call.
func (b *notifier) take(a *app) (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, delivery := range b.rung {
		ids = append(ids, a.ids.OfDelivery(delivery.SiteID, delivery.ID))
	}
	b.rung = nil
	return ids
}

// A URL in a private network that the operator allows can be set.
func TestWebhookNets(t *testing.T) {
	eachAppWith(t, func(s *settings) { s.graph.WebhookNets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		c.change("setConversionWebhook", id, `url: "https://10.0.0.1:9000/"`).ok(t, "setConversionWebhook")
		c.change("setConversionWebhook", id, `url: "https://127.0.0.1/"`).
			named("of another network").fails(t, "setConversionWebhook", "url:INVALID_URL")
	})
}
