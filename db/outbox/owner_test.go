package outbox_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestRedeliveriesAreBounded checks the limit of manual redeliveries, and that the last attempts
// are listed.
func TestRedeliveriesAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		id := pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
		now := dbtest.Noon
		attempt := func() {
			t.Helper()
			leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, now, lease)
			if err != nil || leased == nil || leased.ID != id {
				t.Fatalf("leased %+v, %v", leased, err)
			}
			testkit.NoError(t, outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: model.AttemptGone}, now))

			now = now.Add(time.Second)
		}

		attempt()

		for n := range model.MaxRedeliveries {
			delivery, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, id, now)
			if err != nil || delivery.State != model.DeliveryPending || delivery.NextAttemptAt != now || int(delivery.Attempts) != n+1 {
				t.Fatalf("redelivery %d: %+v, %v", n+1, delivery, err)
			}

			attempt()
		}

		before, err := dbtest.Dump(d, "deliveries")
		testkit.NoError(t, err)

		_, err = outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, id, now)
		dbtest.WantCode(t, err, model.Conflict, "too_many_redeliveries", "deliveryId")

		if after, err := dbtest.Dump(d, "deliveries"); err != nil || after[0] != before[0] {
			t.Errorf("a refused redelivery leaves %s, was %s, %v", after, before, err)
		}

		// Another site's delivery can have the same id.
		testkit.NoError(t, dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body, tries)
VALUES (?, ?, 'conversion', 'purchase', 'failed', 1, 1, 1, '{}', 1)`, other.ID, id))

		testkit.NoError(t, dbtest.Exec(d, `INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer)
VALUES (?, ?, 1, false, 1, 5, 500, 'server_error', '')`, other.ID, id))

		mine, theirs := outbox.DeliveryKey{SiteID: site.ID, ID: id}, outbox.DeliveryKey{SiteID: other.ID, ID: id}
		none := outbox.DeliveryKey{SiteID: site.ID, ID: id + 1}
		shown, err := outbox.New(d).LastAttempts(t.Context(), []outbox.DeliveryKey{theirs, mine, none})
		if err != nil || len(shown) != 2 || len(shown[mine]) != model.ShownAttempts || len(shown[theirs]) != 1 || shown[theirs][0].Status != 500 {
			t.Fatalf("shown %+v, %v", shown, err)
		}

		for i, attempt := range shown[mine] {
			if want := model.MaxRedeliveries + 1 - model.ShownAttempts + i + 1; int(attempt.N) != want || !attempt.Manual {
				t.Errorf("attempt %d is %+v, want number %d", i, attempt, want)
			}
		}
	})
}

// TestTestWebhooksAreLimited checks that a site has one pending test at a time, however many
// requests run at once, and a limited number in an hour.
func TestTestWebhooksAreLimited(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		now := dbtest.Noon
		var made atomic.Int64

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := outbox.New(d).QueueTestWebhook(context.Background(), site.AccountID, site.ID, model.DeliveryConversion, now)
				if shown, ok := errors.AsType[*model.Error](err); err == nil {
					made.Add(1)
				} else if !ok || shown.Code != "delivery_in_progress" {
					t.Error(err)
				}
			})
		}

		wg.Wait()

		testkit.Equal(t, made.Load(), 1, "tests at once")

		end := func() {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, "UPDATE deliveries SET state = 'delivered'"))
		}

		end()

		for range model.MaxTestsPerHour - 1 {
			now = now.Add(time.Second)
			if _, err := outbox.New(d).QueueTestWebhook(t.Context(), site.AccountID, site.ID, model.DeliveryConversion, now); err != nil {
				t.Fatal(err)
			}

			end()
		}

		_, err := outbox.New(d).QueueTestWebhook(t.Context(), site.AccountID, site.ID, model.DeliveryConversion, now)
		dbtest.WantCode(t, err, model.Conflict, "too_many_tests", "siteId")

		if _, err := outbox.New(d).QueueTestWebhook(t.Context(), other.AccountID, other.ID, model.DeliveryConversion, now); err != nil {
			t.Errorf("another site: %v", err)
		}
		if _, err := outbox.New(d).QueueTestWebhook(t.Context(), other.AccountID, site.ID, model.DeliveryConversion, now); !errors.Is(err,
			model.ErrNotFound) {
			t.Errorf("of another account: %v", err)
		}
		if _, err := outbox.New(d).QueueTestWebhook(t.Context(), site.AccountID, site.ID, model.DeliveryConversion,
			dbtest.Noon.Add(time.Hour+time.Second)); err != nil {
			t.Errorf("an hour after the first: %v", err)
		}
		dbtest.HasRows(t, d, "deliveries", model.MaxTestsPerHour+2, "deliveries")
	})
}
