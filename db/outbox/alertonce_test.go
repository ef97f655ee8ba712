package outbox_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestQuotaAlerts checks that each notice of a quota is one alert, however often and concurrently
// the notices are mailed, and none for a stopped site or an account without a channel for it.
func TestQuotaAlerts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		wants := func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertQuota} }
		live, paused := world.New(t, d).Site("live.example", world.Webhook), world.New(t, d).Site("paused.example", world.Webhook)
		deleted, unwanted := world.New(t, d).Site("deleted.example", world.Webhook), world.New(t, d).Site("unwanted.example", world.Webhook)
		suspended := world.New(t, d).Site("suspended.example", world.Webhook)
		for _, site := range []*model.Site{live, paused, deleted, suspended} {
			insertChannel(t, d, site, wants)
		}
		insertChannel(t, d, unwanted, func(*model.AlertChannel) {})
		notice := func(site *model.Site, siteID model.SiteID, product string, percent int) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, `INSERT INTO quota_notices (account_id, site_id, product, month, threshold, created_at, quota)
VALUES (?, ?, ?, 202611, ?, 1, 155)`, site.AccountID, siteID, product, percent))
		}
		for _, site := range []*model.Site{live, paused, deleted, unwanted, suspended} {
			notice(site, site.ID, model.ProductAnalytics, 80)
		}
		notice(live, 0, model.ProductCaptcha, 100)
		notice(live, 999_999, model.ProductAnalytics, 100) // of a site that was deleted for good
		for _, statement := range []string{
			fmt.Sprintf("UPDATE sites SET paused_at = 1 WHERE id = %d", paused.ID),
			fmt.Sprintf("UPDATE sites SET deleted_at = 1 WHERE id = %d", deleted.ID),
			fmt.Sprintf("UPDATE accounts SET suspended_at = 1 WHERE id = %d", suspended.AccountID),
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if _, err := outbox.New(d).MailQuotaNotices(t.Context(), dbtest.Noon); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()

		var alerts []model.Alert
		testkit.NoError(t, d.Read.NewSelect().Model(&alerts).OrderExpr("subject").Scan(t.Context()))
		if len(alerts) != 2 {
			t.Fatalf("%d alerts, want 2: %+v", len(alerts), alerts)
		}
		for i, want := range []model.Alert{
			{SiteID: live.ID, Subject: "analytics 2026-11", Details: model.AlertFigures{Value: 124, Threshold: 155, Percent: 80}},
			{Subject: "captcha 2026-11", Details: model.AlertFigures{Value: 155, Threshold: 155, Percent: 100}},
		} {
			want.ID, want.AccountID, want.Event = alerts[i].ID, live.AccountID, model.AlertQuota
			want.BeganAt, want.SeenAt, want.EndedAt = dbtest.Noon, dbtest.Noon, dbtest.Noon
			testkit.Equal(t, alerts[i], want, "the alert")
		}
		dbtest.HasRows(t, d, "alert_messages", 2, "messages")
	})
}
