package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// setAddress sets or removes the conversion webhook of a site.
func setAddress(t *testing.T, d *db.DB, site *model.Site, address string, now model.Instant) {
	t.Helper()
	testkit.NoError(t, sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, address, nil, model.ChangedBy{At: now}))
}

// statesOf counts a site's deliveries by state.
func statesOf(t *testing.T, d *db.DB, site *model.Site) string {
	t.Helper()
	rows, err := dbtest.Rows[struct {
		State string
		N     int
	}](d, "SELECT state, count(*) AS n FROM deliveries WHERE site_id = ? GROUP BY state ORDER BY state", site.ID)
	testkit.NoError(t, err)

	text := ""
	for _, row := range rows {
		text += fmt.Sprintf("%s %d ", row.State, row.N)
	}

	return text
}

// TestWaitForAddress checks that deliveries of a site without an address wait without an attempt,
// all of a lane at once, and continue their schedule when the site gets an address.
func TestWaitForAddress(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		store, now := outbox.New(d), dbtest.Noon
		next := func(now model.Instant) *outbox.Leased {
			t.Helper()
			leased, err := store.LeaseDelivery(t.Context(), conversions(site), nil, now, lease)
			testkit.NoError(t, err)
			return leased
		}

		// One failed attempt, then the address is removed.
		tried := pending(t, d, site.ID, model.DeliveryConversion, now)
		testkit.NoError(t, store.FinishAttempt(t.Context(), next(now), outbox.AttemptResult{Error: model.AttemptTimeout}, now))

		setAddress(t, d, site, "", now)
		for range 3 {
			pending(t, d, site.ID, model.DeliveryConversion, now)
		}

		pending(t, d, other.ID, model.DeliveryConversion, now)
		now = now.Add(time.Hour)

		if c := next(now); c != nil {
			t.Errorf("leased %+v without an address", c)
		}
		testkit.Equal(t, statesOf(t, d, site), "waiting 4 ", "without an address")

		lanes, err := store.DueLanes(t.Context(), now, 0, 10)
		if err != nil || len(lanes) != 1 || lanes[0].SiteID != other.ID {
			t.Errorf("due lanes %v, %v; want the other site's", lanes, err)
		}

		// Nothing happens while there is no address.
		if resumed, ended, err := store.TendWaiting(t.Context(), now); resumed != 0 || ended != 0 || err != nil {
			t.Errorf("%d resumed, %d ended, %v", resumed, ended, err)
		}

		now = now.Add(time.Hour)
		setAddress(t, d, site, "https://shop.example/new", now)

		logs, err := dbtest.Deliveries(d, site.ID, 0, 10)
		testkit.NoError(t, err)

		for _, log := range logs {
			attempts := int32(0)
			if log.ID == tried {
				attempts = 1
			}
			if log.State != model.DeliveryPending || log.NextAttemptAt != now || log.ScheduledAttempts != attempts ||
				log.Delivery.Attempts != attempts || len(log.Attempts) != int(attempts) {
				t.Errorf("with an address again: %+v with %d attempts", log.Delivery, len(log.Attempts))
			}
		}

		if c := next(now); c == nil || c.URL != "https://shop.example/new" || c.CalledURL != c.URL {
			t.Errorf("leased %+v", c)
		}
	})
}

// TestWaitIsBounded checks that a delivery that waited for a week fails without a mail, and that a
// delivery of that age does not wait at all. Tests do not wait either.
func TestWaitIsBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		store, now := outbox.New(d), dbtest.Noon
		setAddress(t, d, site, "", now)
		waits := pending(t, d, site.ID, model.DeliveryConversion, now)
		old := pending(t, d, site.ID, model.DeliveryConversion, now.Add(-model.MaxAddressWait))
		test := pending(t, d, site.ID, model.DeliveryTest, now)

		for _, lane := range []model.Lane{conversions(site), {SiteID: site.ID, Kind: model.DeliveryTest}} {
			for {
				leased, err := store.LeaseDelivery(t.Context(), lane, nil, now, lease)
				testkit.NoError(t, err)
				if leased == nil {
					break
				}

				if leased.URL != "" || leased.ID != old && leased.ID != test {
					t.Errorf("leased %+v", leased)
				}
				testkit.NoError(t, store.FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: model.AttemptNoWebhook}, now))
			}
		}

		testkit.Equal(t, statesOf(t, d, site), "failed 2 waiting 1 ", "at first")

		for _, step := range []struct {
			at    model.Instant
			ended int64
		}{{now.Add(model.MaxAddressWait) - 1, 0}, {now.Add(model.MaxAddressWait), 1}, {now.Add(model.MaxAddressWait), 0}} {
			if resumed, ended, err := store.TendWaiting(t.Context(), step.at); resumed != 0 || ended != step.ended || err != nil {
				t.Errorf("at %v: %d resumed, %d ended, %v", step.at.Time(), resumed, ended, err)
			}
		}

		logs, err := dbtest.Deliveries(d, site.ID, waits+1, 1)
		if err != nil || logs[0].ID != waits || logs[0].State != model.DeliveryFailed || len(logs[0].Attempts) != 1 ||
			logs[0].Attempts[0].Error != model.AttemptNoWebhook || logs[0].ScheduledAttempts != 1 {
			t.Errorf("after a week: %+v, %v", logs[0], err)
		}
		dbtest.HasRows(t, d, "mails", 0, "mails")
	})
}

// TestLongBacklogsWait checks that a long backlog starts and ends to wait in few transactions, and
// that the job resumes the deliveries that the change of the address left waiting.
func TestLongBacklogsWait(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		store, now := outbox.New(d), dbtest.Noon
		setAddress(t, d, site, "", now)

		const backlog = 2500
		testkit.NoError(t, dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT ?, ? + n, 'conversion', 'lead', 'pending', 0, ?, ?, '{}' FROM numbers`, backlog, site.ID, model.FirstTimeID(now), now, now))

		statements := dbtest.WatchStatements(d)
		if leased, err := store.LeaseDelivery(t.Context(), conversions(site), nil, now, lease); leased != nil || err != nil {
			t.Fatalf("%+v, %v", leased, err)
		}
		// Each transaction about a site in another cell begins with two more.
		if n := len(statements.Take()); n > 40 {
			t.Errorf("%d statements", n)
		}
		testkit.Equal(t, statesOf(t, d, site), fmt.Sprintf("waiting %d ", backlog), "without an address")

		setAddress(t, d, site, "https://shop.example/new", now)
		testkit.Equal(t, statesOf(t, d, site), "pending 1000 waiting 1500 ", "after the change")
		if resumed, ended, err := store.TendWaiting(t.Context(), now); resumed != 1500 || ended != 0 || err != nil {
			t.Errorf("%d resumed, %d ended, %v", resumed, ended, err)
		}
	})
}

// TestRepeatedDeliveriesDoNotWait removes the address between a manual request and its attempt, and
// checks that an ended delivery fails and a pending delivery waits.
func TestRepeatedDeliveriesDoNotWait(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		store, now := outbox.New(d), dbtest.Noon
		ended, open := pending(t, d, site.ID, model.DeliveryConversion, now), pending(t, d, site.ID, model.DeliveryConversion, now)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE deliveries SET state = 'failed' WHERE id = ?", ended))

		for _, id := range []int64{ended, open} {
			if _, err := store.Redeliver(t.Context(), site.AccountID, site.ID, id, now); err != nil {
				t.Fatal(err)
			}
		}

		setAddress(t, d, site, "", now)
		leased, err := store.LeaseDelivery(t.Context(), conversions(site), nil, now, lease)
		if err != nil || leased == nil || leased.ID != ended || leased.URL != "" {
			t.Fatalf("%+v, %v", leased, err)
		}
		testkit.NoError(t, store.FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: model.AttemptNoWebhook}, now))
		if leased, err := store.LeaseDelivery(t.Context(), conversions(site), nil, now, lease); leased != nil || err != nil {
			t.Fatalf("%+v, %v", leased, err)
		}
		testkit.Equal(t, statesOf(t, d, site), "failed 1 waiting 1 ", "afterwards")

		_, err = store.Redeliver(t.Context(), site.AccountID, site.ID, open, now)
		dbtest.WantCode(t, err, model.Invalid, "no_webhook", "deliveryId")
	})
}
