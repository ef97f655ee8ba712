package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

const lease = time.Minute

var nextPending atomic.Int64

// pending stores a delivery that is due at the given time.
func pending(t *testing.T, d *db.DB, siteID model.SiteID, kind string, at model.Instant) int64 {
	t.Helper()

	// A random id can exist already.
	id := model.FirstTimeID(at) + nextPending.Add(1)
	err := dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, ?, 'purchase', 'pending', 0, ?, ?, '{}')`, siteID, id, kind, at, at)
	testkit.NoError(t, err)

	return id
}

func conversions(site *model.Site) model.Lane {
	return model.Lane{SiteID: site.ID, Kind: model.DeliveryConversion}
}

// TestLeasesAreExact checks that exactly one of several concurrent workers leases an attempt.
func TestLeasesAreExact(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		const n = 20
		for range n {
			pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
		}

		var mu sync.Mutex
		counts := map[int64]int{}

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					leased, err := outbox.New(d).LeaseDelivery(context.Background(), conversions(site), nil, dbtest.Noon, lease)
					if err != nil {
						t.Error(err)
						return
					}

					if leased == nil {
						return
					}
					if leased.ScheduledAttempts != 1 || leased.URL != "https://shop.example/hook" || leased.Secret != "the secret of shop.example" ||
						leased.SiteKey != site.SiteKey {
						t.Errorf("leased %+v", leased)
					}

					mu.Lock()
					counts[leased.ID]++
					mu.Unlock()
				}
			})
		}

		wg.Wait()

		testkit.Equal(t, len(counts), n, "deliveries leased")

		for id, times := range counts {
			if times != 1 {
				t.Errorf("delivery %d leased %d times", id, times)
			}
		}
	})
}

// TestDeadWorkers checks that a lease without a result expires and counts as an
// attempt. After the fifth the delivery has failed, and the owner is mailed once a day.
func TestDeadWorkers(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		now := dbtest.Noon
		for range 2 {
			id := pending(t, d, site.ID, model.DeliveryConversion, now)
			for n := range int32(model.MaxAttempts) {
				leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, now, lease)
				if err != nil || leased == nil || leased.ID != id || leased.ScheduledAttempts != n+1 {
					t.Fatalf("attempt %d: %+v, %v", n+1, leased, err)
				}

				for _, early := range []model.Instant{now, now.Add(lease) - 1} {
					if leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, early, lease); leased != nil || err != nil {
						t.Fatalf("leased again before the lease is over: %+v, %v", leased, err)
					}
				}

				now = now.Add(lease)
				if leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), []int64{id}, now, lease); leased != nil || err != nil {
					t.Fatalf("leased although excepted: %+v, %v", leased, err)
				}
			}

			if leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, now, lease); leased != nil || err != nil {
				t.Fatalf("a sixth attempt: %+v, %v", leased, err)
			}

			logs, err := dbtest.Deliveries(d, site.ID, 0, 1)
			if err != nil || logs[0].State != model.DeliveryFailed || len(logs[0].Attempts) != model.MaxAttempts {
				t.Errorf("deliveries %+v, %v", logs, err)
			}
		}

		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails")
		if err != nil || len(mails) != 1 || mails[0].Kind != model.MailDeliveryFailed || mails[0].Recipient != "owner@shop.example" {
			t.Errorf("mails %+v, %v; want one", mails, err)
		}
	})
}

// TestLateResults checks that a result that arrives after its lease was taken over counts only if
// the delivery was made.
func TestLateResults(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		for _, test := range []struct {
			first, second string // classes; the first one's result comes last
			want          string
		}{
			{"", model.AttemptServerError, model.DeliveryDelivered},
			{model.AttemptServerError, "", model.DeliveryDelivered},
			{model.AttemptServerError, model.AttemptServerError, model.DeliveryPending},
		} {
			pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
			next := func(at model.Instant) *outbox.Leased {
				t.Helper()
				c, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, at, lease)
				if err != nil || c == nil {
					t.Fatalf("leased %+v, %v", c, err)
				}
				return c
			}

			first, second := next(dbtest.Noon), next(dbtest.Noon.Add(lease))
			for _, r := range []struct {
				leased *outbox.Leased
				class  string
			}{{second, test.second}, {first, test.first}} {
				testkit.NoError(t, outbox.New(d).FinishAttempt(t.Context(), r.leased, outbox.AttemptResult{Error: r.class}, dbtest.Noon.Add(2*lease)))
			}

			logs, err := dbtest.Deliveries(d, site.ID, 0, 1)
			if err != nil || logs[0].State != test.want || logs[0].Attempts[0].Error != test.first || logs[0].Attempts[1].Error != test.second {
				t.Errorf("%q after %q: %+v, want %s", test.first, test.second, logs[0], test.want)
			}

			if test.want == model.DeliveryPending {
				if wait := logs[0].NextAttemptAt.Sub(dbtest.Noon.Add(2 * lease)); wait < 270*time.Second || wait > 330*time.Second {
					t.Errorf("the third attempt comes after %v, want five minutes after the second", wait)
				}
			}

			testkit.NoError(t, dbtest.Exec(d, "DELETE FROM deliveries"))
		}
	})
}

// TestRedeliver checks that a manual redelivery is possible in every state except during an
// attempt. Its failure changes neither the state nor the schedule, and mails no owner.
func TestRedeliver(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		for _, test := range []struct {
			state, class string
			want         string
		}{
			{model.DeliveryFailed, "", model.DeliveryDelivered},
			{model.DeliveryFailed, model.AttemptServerError, model.DeliveryFailed},
			{model.DeliveryFailed, model.AttemptUnfinished, model.DeliveryFailed}, // the worker dies
			{model.DeliveryDelivered, model.AttemptServerError, model.DeliveryDelivered},
			{model.DeliveryPending, model.AttemptServerError, model.DeliveryPending},
			{model.DeliveryPending, "", model.DeliveryDelivered},
		} {
			id := pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
			testkit.NoError(t, dbtest.Exec(d, "UPDATE deliveries SET state = ?, attempts = 2, tries = 2, next_attempt_at = ? WHERE id = ?",
				test.state, dbtest.Noon.Add(time.Hour), id))
			if _, err := outbox.New(d).Redeliver(t.Context(), other.AccountID, site.ID, id, dbtest.Noon); !errors.Is(err, model.ErrNotFound) {
				t.Errorf("another account's: %v", err)
			}
			if _, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, id, dbtest.Noon); err != nil {
				t.Fatal(err)
			}

			inProgress := func() {
				t.Helper()
				if _, err := outbox.New(d).Redeliver(t.Context(), site.AccountID, site.ID, id, dbtest.Noon); model.KindOf(err) != model.Conflict {
					t.Errorf("asked for twice: %v, want a conflict", err)
				}
			}

			inProgress()
			leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, dbtest.Noon, lease)
			if err != nil || leased == nil || !leased.Manual || leased.ScheduledAttempts != 2 || leased.Attempts != 3 {
				t.Fatalf("leased %+v, %v", leased, err)
			}

			inProgress()

			if test.class == model.AttemptUnfinished {
				if leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, dbtest.Noon.Add(lease), lease); leased != nil || err != nil {
					t.Fatalf("leased after a worker died: %+v, %v", leased, err)
				}
			} else if err := outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: test.class}, dbtest.Noon); err != nil {
				t.Fatal(err)
			}

			logs, err := dbtest.Deliveries(d, site.ID, 0, 1)
			if err != nil || logs[0].State != test.want || logs[0].Delivery.ScheduledAttempts != 2 || len(logs[0].Attempts) != 1 ||
				!logs[0].Attempts[0].Manual {
				t.Errorf("%s, then %q: %+v, want %s", test.state, test.class, logs[0], test.want)
			}
			testkit.NoError(t, dbtest.Exec(d, "DELETE FROM deliveries"))
			testkit.NoError(t, dbtest.Exec(d, "DELETE FROM delivery_attempts"))
		}

		dbtest.HasRows(t, d, "mails", 0, "mails")
	})
}

// TestDueLanes checks that each lane with a due delivery is found, page by page, whatever else is
// pending.
func TestDueLanes(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner := world.New(t, d).User("owner@example.com")
		for site := model.SiteID(1); site <= 6; site++ {
			if got := world.New(t, d).Site(fmt.Sprintf("%d.example", site), world.Of(owner.AccountID)).ID; got != site {
				t.Fatalf("site %d has the id %d", site, got)
			}
		}
		for site := model.SiteID(1); site <= 5; site++ {
			pending(t, d, site, model.DeliveryConversion, dbtest.Noon)
			pending(t, d, site, model.DeliveryConversion, dbtest.Noon)

			// Deliveries are due up to site 3.
			pending(t, d, site, model.DeliveryDailyExport, dbtest.Noon.Add(time.Duration(site-3)*time.Second))
		}

		pending(t, d, 6, model.DeliveryTest, dbtest.Noon.Add(time.Second))
		var got []string

		for after := model.SiteID(0); ; {
			lanes, err := outbox.New(d).DueLanes(t.Context(), dbtest.Noon, after, 4)
			testkit.NoError(t, err)

			for _, lane := range lanes {
				if text := fmt.Sprintf("%d %s", lane.SiteID, lane.Kind); len(got) == 0 || got[len(got)-1] < text {
					got = append(got, text)
				}
			}

			if len(lanes) < 4 {
				break
			}

			after = lanes[3].SiteID - 1
		}

		want := "1 conversion, 1 daily_export, 2 conversion, 2 daily_export, 3 conversion, 3 daily_export, 4 conversion, 5 conversion"
		testkit.Equal(t, strings.Join(got, ", "), want, "due lanes %v", got)

		third, late := model.Lane{SiteID: 3, Kind: model.DeliveryConversion}, model.Lane{SiteID: 4, Kind: model.DeliveryDailyExport}
		first := model.Lane{SiteID: 1, Kind: model.DeliveryDailyExport}
		due, err := outbox.New(d).DueDeliveries(t.Context(), []outbox.LanePage{{third, 1}, {late, 1}, {first, 8}}, dbtest.Noon)
		if err != nil || len(due) != 2 || len(due[third]) != 1 || len(due[first]) != 1 || due[third][0].Lane != third {
			t.Errorf("due %+v, %v", due, err)
		}
		due, err = outbox.New(d).DueDeliveries(t.Context(), []outbox.LanePage{{third, 8}}, dbtest.Noon)
		if err != nil || len(due[third]) != 2 || due[third][0].ID >= due[third][1].ID {
			t.Errorf("both due ones of a lane: %+v, %v", due, err)
		}
		if due, err := outbox.New(d).DueDeliveries(t.Context(), nil, dbtest.Noon); err != nil || len(due) != 0 {
			t.Errorf("no lane: %+v, %v", due, err)
		}

		backlog, err := outbox.New(d).DeliveryBacklog(t.Context(), dbtest.Noon)
		if want := (outbox.Backlog{Pending: 16, Due: 13, Oldest: dbtest.Noon.Add(-2 * time.Second)}); err != nil || backlog != want {
			t.Errorf("backlog %+v, %v, want %+v", backlog, err, want)
		}
	})
}

// TestManyDueLanes checks that DueLanes finds the same lanes while more deliveries are due than it
// reads in the order of time.
func TestManyDueLanes(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		want := "1 conversion, 2 daily_export, 3 conversion, 3 daily_export"
		lanes := func() string {
			t.Helper()
			var all []string
			for after := model.SiteID(0); ; {
				page, err := outbox.New(d).DueLanes(t.Context(), dbtest.Noon, after, 3)
				testkit.NoError(t, err)
				for _, lane := range page {
					if text := fmt.Sprintf("%d %s", lane.SiteID, lane.Kind); !slices.Contains(all, text) {
						all = append(all, text)
					}
				}
				if len(page) < 3 {
					return strings.Join(all, ", ")
				}
				after = page[2].SiteID - 1
			}
		}

		pending(t, d, 1, model.DeliveryConversion, dbtest.Noon)
		pending(t, d, 2, model.DeliveryDailyExport, dbtest.Noon)
		pending(t, d, 3, model.DeliveryConversion, dbtest.Noon)
		pending(t, d, 3, model.DeliveryDailyExport, dbtest.Noon)
		pending(t, d, 4, model.DeliveryConversion, dbtest.Noon.Add(time.Second))
		testkit.Equal(t, lanes(), want, "few are due")

		// A receiver that does not answer.
		testkit.NoError(t, addPending(d, 1, 1, 3_000, dbtest.Noon.Add(-time.Hour)))
		testkit.Equal(t, lanes(), want, "many are due")
	})
}

// addPending adds n conversions to each site from one to another, due at a time.
func addPending(d *db.DB, first, last int64, n int, at model.Instant) error {
	return dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE site(id) AS (SELECT ? UNION ALL SELECT id + 1 FROM site WHERE id < ?),
number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?)
SELECT site.id, n, 'conversion', 'lead', 'pending', 0, 0, ?, '{}' FROM site, number`, first, last, n, at)
}

// TestDueLanesReadWhatIsDue stores deliveries of 200,000 sites that wait for a later attempt. It
// checks that the search for due deliveries reads the index by time and queries no other site.
func TestDueLanesReadWhatIsDue(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		testkit.NoError(t, addPending(d, 1, 200_000, 1, dbtest.Noon.Add(time.Hour)))
		testkit.NoError(t, addPending(d, 300_000, 300_001, 2, dbtest.Noon))
		testkit.NoError(t, dbtest.Exec(d, "ANALYZE"))

		statements := dbtest.WatchStatements(d)
		lanes, err := outbox.New(d).DueLanes(t.Context(), dbtest.Noon, 0, 100)
		if err != nil || len(lanes) != 2 || lanes[0].SiteID != 300_000 || lanes[1].SiteID != 300_001 {
			t.Errorf("due are %v, %v", lanes, err)
		}

		// The same one for each cell.
		sent := slices.Compact(statements.Take())
		if len(sent) != 1 {
			t.Fatalf("%d statements, want one: %q", len(sent), sent)
		}
		// Citus appends a number to the names, and calls the table by its own one after that.
		plan := shardNames.ReplaceAllString(dbtest.PlanOf(t, d, dbtest.SitesCell(t, d).Read, sent[0]), "")
		if !strings.Contains(plan, "deliveries_next") || strings.Count(plan, "deliveries") != 2*strings.Count(plan, "deliveries_next") {
			t.Errorf("the plan reads more than the index by time:\n%s", plan)
		}
	})
}

var shardNames = regexp.MustCompile(`_[0-9]{6,}( deliveries)?\b`)

// TestWebhookSecretAtRest checks that the secret is stored encrypted, and opens only with its site
// and key.
func TestWebhookSecretAtRest(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		sealed := func(id model.SiteID) []byte {
			t.Helper()
			rows, err := dbtest.Rows[model.Site](d, "SELECT * FROM sites WHERE id = ?", id)
			if err != nil || len(rows) != 1 {
				t.Fatal(rows, err)
			}
			return rows[0].ConversionWebhookSecret
		}

		before := sealed(site.ID)
		if len(before) == 0 || strings.Contains(string(before), "secret") {
			t.Errorf("stored as %q", before)
		}
		if err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, "https://shop.example/other", nil,
			model.ChangedBy{}); err != nil || !reflect.DeepEqual(sealed(site.ID), before) {
			t.Errorf("a new address changes the secret, %v", err)
		}

		next := func(d *db.DB) *outbox.Leased {
			t.Helper()
			pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
			leased, err := outbox.New(d).LeaseDelivery(t.Context(), conversions(site), nil, dbtest.Noon, lease)
			if err != nil || leased == nil || leased.ScheduledAttempts != 1 {
				t.Fatalf("leased %+v, %v", leased, err)
			}
			return leased
		}

		another, err := db.Open(databaseURL)
		testkit.NoError(t, err)
		defer another.Close()

		if c := next(another); c.Fault == nil || c.Secret != "" {
			t.Error("the secret opens without a key")
		}
		another.UseApplicationKey([]byte("another application key of 32 bytes"))
		if c := next(another); c.Fault == nil || c.Secret != "" {
			t.Error("the secret opens with another key")
		}
		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET conversion_webhook_secret = ? WHERE id = ?", sealed(other.ID), site.ID))
		if c := next(d); c.Fault == nil || c.Secret != "" {
			t.Error("one site's secret opens as another's")
		}

		empty := ""
		if err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, "https://shop.example/hook", &empty,
			model.ChangedBy{}); err != nil || sealed(site.ID) != nil {
			t.Errorf("an empty secret leaves %q, %v", sealed(site.ID), err)
		}
		if c := next(d); c.Fault != nil || c.Secret != "" {
			t.Errorf("leased %+v", c)
		}

		for _, secret := range []string{strings.Repeat("x", model.MaxWebhookSecret+1), strings.Repeat("x", model.MinWebhookSecret-1), "a\x00b"} {
			if err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, "", &secret,
				model.ChangedBy{}); model.KindOf(err) != model.Invalid {
				t.Errorf("secret %q: %v", secret, err)
			}
		}
	})
}
