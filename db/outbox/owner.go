package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Owners' requests to send deliveries again and to test a webhook.

// Redeliver schedules one manual attempt of a delivery at once, whatever its state, and returns the
// changed delivery. The attempt has the same message id and body and does not count among the five.
// A delivery that is still pending continues its schedule afterwards. It returns the Conflict
// delivery_in_progress while an attempt is in progress, too_many_redeliveries after
// model.MaxRedeliveries manual attempts, and no_webhook while the site has no address.
func (s *Store) Redeliver(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, id int64, now model.Instant,
) (*model.Delivery, error) {
	var delivery model.Delivery
	err := s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		q := tx.NewSelect().Model(&delivery).ExcludeColumn("body").Where("site_id = ? AND id = ?", siteID, id).
			Where("site_id IN (SELECT id FROM sites WHERE account_id = ? AND deleted_at = 0)", accountID)

		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		if err := mayRedeliver(&delivery, "deliveryId", "delivery", now); err != nil {
			return err
		}

		if err := needAddress(ctx, tx, siteID, "deliveryId", delivery.Webhook()); err != nil {
			return err
		}

		if err := deliveryRows.resume(ctx, tx.Tx, int64(siteID), []int64{id}, now); err != nil {
			return err
		}
		delivery.State, delivery.NextAttemptAt = model.DeliveryPending, now
		return auditDelivery(ctx, tx, accountID, &delivery)
	})
	if err != nil {
		return nil, db.Wrap(err, "redeliver %d of site %d", id, siteID)
	}

	return &delivery, nil
}

// auditDelivery records that a caller requested a delivery.
func auditDelivery(ctx context.Context, tx *db.CellTx, accountID model.AccountID, delivery *model.Delivery) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: accountID,
		Object: audit.Object{
			Kind: nodeid.Delivery, SiteID: delivery.SiteID, ID: delivery.ID, Name: delivery.Event,
		},
		After: audit.Values{"kind": delivery.Kind, "event": delivery.Event},
	})
}

// auditRequest records that a caller requested several deliveries of a site.
func auditRequest(ctx context.Context, tx *db.CellTx, site *model.Site, what audit.Values) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: site.AccountID, Object: audit.Object{Kind: nodeid.Site, ID: int64(site.ID), Name: site.Domain}, After: what,
	})
}

// needAddress fails with no_webhook if the site has no address for any of the webhooks.
func needAddress(ctx context.Context, tx *db.CellTx, siteID model.SiteID, field string, webhooks ...string) error {
	var site model.Site
	if err := tx.NewSelect().Model(&site).Where("id = ?", siteID).Scan(ctx); err != nil {
		return db.OrNotFound(err)
	}

	for _, webhook := range webhooks {
		if site.WebhookURL(webhook) != "" {
			return nil
		}
	}

	return model.InvalidField(field, "no_webhook", "The site has no address for this webhook. Set one first.")
}

// Redelivered is the outcome of RedeliverFailed.
type Redelivered struct {
	Count int
	More  bool             // further failed deliveries remain
	First []model.Delivery // the first delivery of each lane, without its body
}

// RedeliverFailed schedules one manual attempt of each failed delivery of a site since a time, as
// Redeliver does, oldest first and at most model.MaxRedeliveredAtOnce. A repeated call finds only
// the remaining deliveries. It leaves out deliveries of a webhook without an address, and
// deliveries that had model.MaxRedeliveries manual attempts. It fails with no_webhook if the site
// has no webhook at all.
func (s *Store) RedeliverFailed(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, since, now model.Instant,
) (*Redelivered, error) {
	var result *Redelivered
	err := s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		result = &Redelivered{}

		var site model.Site
		err := tx.NewSelect().Model(&site).Where("id = ? AND account_id = ? AND deleted_at = 0", siteID, accountID).
			Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}

		webhooks := []string{model.DeliveryConversion, model.DeliveryDailyExport}
		if err := needAddress(ctx, tx, siteID, "siteId", webhooks...); err != nil {
			return err
		}

		var tests []string
		for _, webhook := range webhooks {
			if site.WebhookURL(webhook) == "" {
				continue
			}

			tests = append(tests, testEvents[webhook])
			if err := redeliverLane(ctx, tx, model.Lane{SiteID: siteID, Kind: webhook}, nil, since, now, result); err != nil {
				return err
			}
		}

		err = redeliverLane(ctx, tx, model.Lane{SiteID: siteID, Kind: model.DeliveryTest}, tests, since, now, result)
		if err != nil {
			return err
		}

		return auditRequest(ctx, tx, &site, audit.Values{"since": since.Time(), "redelivered": result.Count})
	})
	if err != nil {
		return nil, db.Wrap(err, "redeliver failed deliveries of site %d", siteID)
	}

	return result, nil
}

// testEvents are the events of the tests of each webhook.
var testEvents = map[string]string{
	model.DeliveryConversion: model.TestEvent, model.DeliveryDailyExport: model.TestExportEvent,
}

// redeliverLane is RedeliverFailed for one lane, and for some events if these are given. It adds to
// the result.
func redeliverLane(
	ctx context.Context, tx *db.CellTx, lane model.Lane, events []string, since, now model.Instant, result *Redelivered,
) error {
	// One row beyond the limit shows that more remain.
	most := model.MaxRedeliveredAtOnce - result.Count
	var failed []model.Delivery
	q := tx.NewSelect().Model(&failed).ExcludeColumn("body").
		Where("site_id = ? AND kind = ? AND state = 'failed'", lane.SiteID, lane.Kind).
		Where("id >= ? AND created_at >= ?", firstIDSince(since), since).
		Where("tries - attempts < ?", model.MaxRedeliveries).Order("id").Limit(int64(most) + 1)

	if len(events) > 0 {
		q.Where("event IN ?", bun.Tuple(events))
	}

	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil {
		return err
	}

	if len(failed) > most {
		failed, result.More = failed[:most], true
	}
	if len(failed) == 0 {
		return nil
	}

	ids := make([]int64, len(failed))
	for i, delivery := range failed {
		ids[i] = delivery.ID
	}

	if err := deliveryRows.resume(ctx, tx.Tx, int64(lane.SiteID), ids, now); err != nil {
		return err
	}

	result.Count += len(failed)
	first := failed[0]
	first.State, first.NextAttemptAt = model.DeliveryPending, now
	result.First = append(result.First, first)

	return nil
}

// QueueTestWebhook queues a delivery that only tests one of the site's webhooks,
// model.DeliveryConversion or model.DeliveryDailyExport. It has one attempt. It returns no_webhook
// if the webhook has no address, the Conflict delivery_in_progress while a test is pending, and
// too_many_tests after model.MaxTestsPerHour in an hour.
func (s *Store) QueueTestWebhook(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, webhook string, now model.Instant,
) (*model.Delivery, error) {
	delivery := &model.Delivery{
		SiteID: siteID, ID: model.NewTimeID(now), Kind: model.DeliveryTest, Event: testEvents[webhook],
		State: model.DeliveryPending, CreatedAt: now, NextAttemptAt: now,
	}

	err := s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		if err := tx.LockSite(ctx, siteID); err != nil {
			return err
		}

		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ? AND account_id = ? AND deleted_at = 0", siteID, accountID).
			Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if site.WebhookURL(webhook) == "" {
			return model.InvalidField("siteId", "no_webhook", "The site has no address for this webhook. Set one first.")
		}

		// The lock on the site makes concurrent tests keep the limit.
		if err := mayTest(ctx, tx, siteID, now); err != nil {
			return err
		}

		delivery.Body = model.TestWebhookBody(webhook, site.SiteKey, now)
		if _, err := tx.NewInsert().Model(delivery).Exec(ctx); err != nil {
			return err
		}

		return auditDelivery(ctx, tx, accountID, delivery)
	})
	if err != nil {
		return nil, db.Wrap(err, "queue a test for site %d", siteID)
	}

	return delivery, nil
}

// mayTest returns an error while a test of the site is pending, and after too many tests in an
// hour.
func mayTest(ctx context.Context, tx *db.CellTx, siteID model.SiteID, now model.Instant) error {
	tests := func() *bun.SelectQuery {
		return tx.NewSelect().Table("deliveries").Where("site_id = ? AND kind = ?", siteID, model.DeliveryTest)
	}

	pending, err := tests().Where("state = 'pending'").Exists(ctx)
	if err != nil {
		return err
	}
	if pending {
		return &model.Error{
			Kind: model.Conflict, Code: "delivery_in_progress", Field: "siteId",
			Message: "A test of this site is being sent right now.",
		}
	}

	// Ids increase with time. Ids from the future come from a clock that was ahead and must not
	// count before their time.
	recent, err := tests().Where("id >= ?", model.FirstTimeID(now.Add(-time.Hour))).
		Where("id < ?", model.FirstTimeID(now.Add(time.Hour))).Count(ctx)
	if err == nil && recent >= model.MaxTestsPerHour {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_tests", Field: "siteId",
			Message: fmt.Sprintf("A site can have %d tests in an hour.", model.MaxTestsPerHour)}
	}

	return err
}
