package alerts_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const hour = time.Hour

// addChannel stores a confirmed channel that wants events; siteID is 0 for a channel of the
// account.
func addChannel(t *testing.T, d *db.DB, accountID model.AccountID, siteID model.SiteID, events ...model.AlertEvent) int64 {
	t.Helper()
	channel := model.AlertChannel{
		AccountID: accountID, SiteID: siteID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English,
		Address: []byte{1}, Events: events, ConfirmedAt: 1, CreatedAt: 1,
	}
	if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return channel.ID
}

func exec(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	testkit.NoError(t, dbtest.Exec(d, statement, args...))
}

// state returns the alerts with their messages, as a text.
func state(t *testing.T, d *db.DB) (text string) {
	t.Helper()
	var rows []model.Alert
	testkit.NoError(t, d.Read.NewSelect().Model(&rows).Order("id").Scan(t.Context()))
	for _, a := range rows {
		var phases []string
		err := d.Read.NewSelect().Table("alert_messages").Column("phase").Where("alert_id = ?", a.ID).Order("id").
			Scan(t.Context(), &phases)
		testkit.NoError(t, err)
		is := "open"
		if a.EndedAt > 0 {
			is = "ended after " + a.EndedAt.Sub(a.BeganAt).String()
		}
		text += fmt.Sprintf("%s %q %s %v; ", a.Event, a.Subject, is, phases)
	}
	return text
}

func wantState(t *testing.T, d *db.DB, want string) {
	t.Helper()
	if got := state(t, d); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// together calls a function concurrently, and returns how often it returned true.
func together(t *testing.T, call func() (bool, error)) int64 {
	t.Helper()
	var group sync.WaitGroup
	var count atomic.Int64
	for range 6 {
		group.Go(func() {
			changed, err := call()
			if err != nil {
				t.Error(err)
			}
			if changed {
				count.Add(1)
			}
		})
	}
	group.Wait()
	return count.Load()
}

// TestOneAlertAtATime checks that concurrent workers begin and end an alert once, with one message
// each, and that alerts of other subjects are others.
func TestOneAlertAtATime(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		addChannel(t, d, site.AccountID, 0, model.AlertTrafficDrop, model.AlertDeliveriesFailed)
		store, now := alerts.New(d), dbtest.Noon
		drop := model.Alert{
			AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop,
			Details: model.AlertFigures{Value: 3, Usual: 400, Percent: 1},
		}

		if n := together(t, func() (bool, error) { return store.Begin(t.Context(), drop, now) }); n != 1 {
			t.Errorf("%d of the concurrent calls began the alert, want 1", n)
		}
		other := drop
		other.Event, other.Subject = model.AlertDeliveriesFailed, "conversion"
		if began, err := store.Begin(t.Context(), other, now); !began || err != nil {
			t.Errorf("another alert: %t, %v", began, err)
		}
		wantState(t, d, `traffic_drop "" open [begun]; deliveries_failed "conversion" open [begun]; `)

		open, err := store.OpenOfAccounts(t.Context(), []model.AccountID{site.AccountID})
		if err != nil || len(open) != 2 || open[0].Details != drop.Details {
			t.Fatalf("the open alerts are %v, %v", open, err)
		}
		testkit.NoError(t, store.See(t.Context(), []int64{open[1].ID, open[0].ID}, now.Add(hour)))
		if open, err = store.OpenOfAccounts(t.Context(), []model.AccountID{site.AccountID}); err != nil || open[0].SeenAt != now.Add(hour) {
			t.Errorf("the alert was seen at %v, %v", open[0].SeenAt, err)
		}

		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET state = 'delivered' WHERE alert_id = ?", open[0].ID))
		if n := together(t, func() (bool, error) { return store.End(t.Context(), open[0].ID, now.Add(hour)) }); n != 1 {
			t.Errorf("%d of the concurrent calls ended the alert, want 1", n)
		}
		if ended, err := store.End(t.Context(), open[1].ID, now.Add(-hour)); !ended || err != nil {
			t.Errorf("the end with a clock that was set back: %t, %v", ended, err)
		}
		wantState(t, d, `traffic_drop "" ended after 1h0m0s [begun ended]; deliveries_failed "conversion" ended after 0s [both]; `)

		// It can begin again.
		if began, err := store.Begin(t.Context(), drop, now.Add(2*hour)); !began || err != nil {
			t.Errorf("the second alert: %t, %v", began, err)
		}
		if ended, err := store.End(t.Context(), 999_999, now); ended || err != nil {
			t.Errorf("the end of an alert that does not exist: %t, %v", ended, err)
		}
	})
}

// TestAlertAndMessageTogether checks that an alert neither begins nor ends if its message cannot be
// stored.
func TestAlertAndMessageTogether(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		addChannel(t, d, site.AccountID, site.ID, model.AlertNoHits)
		store, now := alerts.New(d), dbtest.Noon
		silence := model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertNoHits}
		rename := func(from, to string) {
			t.Helper()
			if _, err := d.Write.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
				t.Fatal(err)
			}
		}

		rename("alert_messages", "lost_messages")
		if began, err := store.Begin(t.Context(), silence, now); began || err == nil {
			t.Errorf("without a table of messages: %t, %v", began, err)
		}
		rename("lost_messages", "alert_messages")
		wantState(t, d, "")

		if began, err := store.Begin(t.Context(), silence, now); !began || err != nil {
			t.Fatalf("after it: %t, %v", began, err)
		}
		open, err := store.OpenOfAccounts(t.Context(), []model.AccountID{site.AccountID})
		if err != nil || len(open) != 1 {
			t.Fatalf("the open alerts are %v, %v", open, err)
		}

		rename("alert_messages", "lost_messages")
		if ended, err := store.End(t.Context(), open[0].ID, now.Add(hour)); ended || err == nil {
			t.Errorf("the end without a table of messages: %t, %v", ended, err)
		}
		rename("lost_messages", "alert_messages")
		wantState(t, d, `no_hits "" open [begun]; `)
	})
}

// TestOnlyLiveSites checks that nothing begins for a stopped site or account, and what ends because
// of it.
func TestOnlyLiveSites(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		for _, stopped := range []struct{ name, stop, start string }{
			{"paused", "UPDATE sites SET paused_at = 1 WHERE id = ?0", "UPDATE sites SET paused_at = 0 WHERE id = ?0"},
			{"deleted", "UPDATE sites SET deleted_at = 1 WHERE id = ?0", "UPDATE sites SET deleted_at = 0 WHERE id = ?0"},
			{"suspended", "UPDATE accounts SET suspended_at = 1 WHERE id = ?1", "UPDATE accounts SET suspended_at = 0 WHERE id = ?1"},
			{"without a channel", "DELETE FROM alert_channels WHERE account_id = ?1", ""},
		} {
			site := world.New(t, d).Site(stopped.name[:4]+".example", world.Webhook)
			addChannel(t, d, site.AccountID, 0, model.AlertTrafficSpike)
			store, now := alerts.New(d), dbtest.Noon
			spike := model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficSpike}

			if began, err := store.Begin(t.Context(), spike, now); !began || err != nil {
				t.Fatalf("%s: %t, %v", stopped.name, began, err)
			}
			if n, err := store.EndOrphans(t.Context(), now); n != 0 || err != nil {
				t.Errorf("%s: before, %d alerts ended, %v", stopped.name, n, err)
			}
			exec(t, d, stopped.stop, site.ID, site.AccountID)
			if n, err := store.EndOrphans(t.Context(), now.Add(hour)); n != 1 || err != nil {
				t.Errorf("%s: %d alerts ended, want 1, %v", stopped.name, n, err)
			}
			if n, err := store.EndOrphans(t.Context(), now.Add(hour)); n != 0 || err != nil {
				t.Errorf("%s: %d alerts ended again, %v", stopped.name, n, err)
			}

			if stopped.start == "" {
				continue
			}
			if began, err := store.Begin(t.Context(), spike, now.Add(2*hour)); began || err != nil {
				t.Errorf("%s: an alert began: %t, %v", stopped.name, began, err)
			}
			exec(t, d, stopped.start, site.ID, site.AccountID)
			if began, err := store.Begin(t.Context(), spike, now.Add(3*hour)); !began || err != nil {
				t.Errorf("%s: live again: %t, %v", stopped.name, began, err)
			}
		}

		const spike = `traffic_spike "" ended after 1h0m0s [begun]; traffic_spike "" open [begun]; `
		wantState(t, d, spike+spike+spike+`traffic_spike "" ended after 1h0m0s []; `)

		// The site of another account.
		site, other := world.New(t, d).Site("one.example", world.Webhook), world.New(t, d).Site("two.example", world.Webhook)
		foreign := model.Alert{AccountID: other.AccountID, SiteID: site.ID, Event: model.AlertTrafficSpike}
		if began, err := alerts.New(d).Begin(t.Context(), foreign, dbtest.Noon); began || err != nil {
			t.Errorf("the site of another account: %t, %v", began, err)
		}
	})
}

// TestInstallation checks the alerts of operators.
func TestInstallation(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		store, now := alerts.New(d), dbtest.Noon
		failure := model.AlertFigures{Since: now.Add(-hour)}
		const event, name = model.AlertCertificateFailed, "www.example.com"

		begin := func(host string) (bool, error) {
			return store.Begin(t.Context(), model.Alert{Event: event, Subject: host, Details: failure}, now)
		}
		if n := together(t, func() (bool, error) { return begin(name) }); n != 1 {
			t.Errorf("%d of the concurrent calls began the alert, want 1", n)
		}
		if began, err := begin("other.example.com"); !began || err != nil {
			t.Errorf("another certificate: %t, %v", began, err)
		}
		lasting, err := store.OpenOfInstallation(t.Context())
		if err != nil || len(lasting) != 2 || lasting[0].Subject != name {
			t.Fatalf("the installation's alerts are %v, %v", lasting, err)
		}
		if n := together(t, func() (bool, error) { return store.End(t.Context(), lasting[0].ID, now) }); n != 1 {
			t.Errorf("%d of the concurrent calls ended the alert, want 1", n)
		}

		// The alerts of accounts are not the installation's.
		if _, err := store.Begin(t.Context(), model.Alert{
			AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficSpike,
		}, now); err != nil {
			t.Fatal(err)
		}
		open, err := store.OpenOfInstallation(t.Context())
		if err != nil || len(open) != 1 || open[0].Subject != "other.example.com" || open[0].Details != failure {
			t.Errorf("the installation's alerts are %v, %v", open, err)
		}
		if n, err := store.EndUnwanted(t.Context(), []int64{open[0].ID}, now.Add(-hour)); n != 1 || err != nil {
			t.Errorf("%d alerts ended, %v", n, err)
		}
	})
}

// TestTransferAndDeletion checks that alerts of a site end with its transfer to another account,
// which gets alerts of its own, and with the deletion of the site or account.
func TestTransferAndDeletion(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		before := addChannel(t, d, site.AccountID, 0, model.AlertNoHits)
		after := addChannel(t, d, other.AccountID, 0, model.AlertNoHits)
		store, now := alerts.New(d), dbtest.Noon
		silence := model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertNoHits}
		begin := func(account model.AccountID, want bool) {
			t.Helper()
			silence.AccountID = account
			if began, err := store.Begin(t.Context(), silence, now); began != want || err != nil {
				t.Errorf("the alert of account %d began: %t, want %t, %v", account, began, want, err)
			}
		}
		open := func() []*model.Alert {
			t.Helper()
			list, err := store.OpenOfAccounts(t.Context(), []model.AccountID{site.AccountID, other.AccountID})
			testkit.NoError(t, err)
			return list
		}
		sent := func(channelID int64) int64 {
			t.Helper()
			n, err := d.Read.NewSelect().Table("alert_messages").Where("channel_id = ?", channelID).Count(t.Context())
			testkit.NoError(t, err)
			return n
		}

		begin(site.AccountID, true)
		id := open()[0].ID
		if _, err := sites.New(d).Sites.TransferSite(t.Context(), site.ID, site.AccountID, other.AccountID, true); err != nil {
			t.Fatal(err)
		}
		if list := open(); len(list) != 0 {
			t.Errorf("after the transfer %d alerts are open", len(list))
		}
		if ended, err := store.End(t.Context(), id, now); ended || err != nil {
			t.Errorf("the alert before ended: %t, %v", ended, err)
		}
		begin(site.AccountID, false)
		begin(other.AccountID, true)
		if sent(before) != 1 || sent(after) != 1 {
			t.Errorf("the channels got %d and %d messages, want 1 and 1", sent(before), sent(after))
		}

		exec(t, d, "DELETE FROM sites WHERE id = ?", site.ID)
		if list := open(); len(list) != 0 {
			t.Errorf("after the site's deletion %d alerts are open", len(list))
		}
		begin(other.AccountID, false)
		silence.SiteID = other.ID
		begin(other.AccountID, true)
		exec(t, d, "DELETE FROM accounts WHERE id = ?", other.AccountID)
		if n, err := dbtest.Count(d, "alerts"); n != 0 || err != nil {
			t.Errorf("after the account's deletion %d alerts are left, %v", n, err)
		}
		begin(other.AccountID, false)
	})
}
