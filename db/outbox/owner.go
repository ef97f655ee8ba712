package outbox

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The owner's view of deliveries, and the owner's manual requests.

// Redeliver schedules one manual attempt of a delivery at once, whatever its state, and returns the
// changed delivery. The attempt has the same message id and body and does not count among the five.
// A delivery that is still pending continues its schedule afterwards. It returns the Conflict
// delivery_in_progress while an attempt is in progress, and too_many_redeliveries after
// model.MaxRedeliveries manual attempts.
func (s *Store) Redeliver(
	ctx context.Context, accountID, siteID, id int64, now model.Instant,
) (*model.Delivery, error) {
	var delivery model.Delivery
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		q := tx.NewSelect().Model(&delivery).ExcludeColumn("body").Where("site_id = ? AND id = ?", siteID, id).
			Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID)

		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		if delivery.ResumeState != "" || delivery.State == model.DeliveryPending && delivery.ClaimedUntil > now &&
			delivery.ClaimedUntil <= now.Add(LeaseSlack) {
			return &model.Error{Kind: model.Conflict, Code: "delivery_in_progress", Field: "deliveryId",
				Message: "This delivery is being sent right now."}
		}

		if delivery.Attempts-delivery.ScheduledAttempts >= model.MaxRedeliveries {
			return &model.Error{Kind: model.Conflict, Code: "too_many_redeliveries", Field: "deliveryId",
				Message: fmt.Sprintf("This delivery was sent again %d times already.", model.MaxRedeliveries)}
		}

		delivery.ResumeState, delivery.State = delivery.State, model.DeliveryPending
		delivery.NextAttemptAt, delivery.ClaimedUntil = now, 0
		_, err := tx.NewUpdate().Model(&delivery).Column("state", "fallback", "next_attempt_at", "claimed_until").
			Where("site_id = ? AND id = ?", siteID, id).Exec(ctx)

		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "redeliver %d of site %d", id, siteID)
	}

	return &delivery, nil
}

// QueueTestWebhook queues a delivery that only tests the site's conversion webhook. It has one
// attempt. It returns the Conflict delivery_in_progress while a test is pending, and too_many_tests
// after model.MaxTestsPerHour in an hour.
func (s *Store) QueueTestWebhook(
	ctx context.Context, accountID, siteID int64, now model.Instant,
) (*model.Delivery, error) {
	delivery := &model.Delivery{
		SiteID: siteID, ID: model.NewTimeID(now), Kind: model.DeliveryTest, Event: "test", State: model.DeliveryPending,
		CreatedAt: now, NextAttemptAt: now,
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockRow(ctx, "sites", siteID); err != nil {
			return err
		}

		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ? AND account_id = ?", siteID, accountID).
			Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if site.ConversionWebhookURL == "" {
			return model.InvalidField("siteId", "no_webhook", "Set a conversion webhook first.")
		}
		if err := mayTest(ctx, tx, siteID, now); err != nil {
			return err
		}

		delivery.Body = model.TestWebhookBody(site.SiteKey, now)
		_, err := tx.NewInsert().Model(delivery).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "queue a test for site %d", siteID)
	}

	return delivery, nil
}

// mayTest returns an error while a test of the site is pending, and after too many tests in an
// hour.
func mayTest(ctx context.Context, tx *db.Tx, siteID int64, now model.Instant) error {
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

// shownColumns are all columns except the body, which can be long and is read only by the worker.
const shownColumns = "site_id, id, kind, event, state, attempts, created_at, next_attempt_at, tries, claimed_until, " +
	"fallback"

// DeliveriesOfSites returns at most limit deliveries of each site, newest first, with ids below
// before (0 for the first page), without their bodies. It runs one statement. It does not check
// permissions: the caller must have loaded the sites.
func (s *Store) DeliveriesOfSites(
	ctx context.Context, siteIDs []int64, before int64, limit int,
) (map[int64][]*model.Delivery, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}
	if before == 0 {
		before = math.MaxInt64
	}

	var newest []string
	var args []any
	for i, id := range siteIDs {
		newest = append(newest, fmt.Sprintf(
			"SELECT * FROM (SELECT %s FROM deliveries WHERE site_id = ? AND id < ? ORDER BY id DESC LIMIT ?) AS of_site_%d",
			shownColumns, i,
		))

		args = append(args, id, before, limit)
	}

	var deliveries []*model.Delivery
	err := s.db.Read.NewRaw(strings.Join(newest, " UNION ALL ")+" ORDER BY id DESC", args...).Scan(ctx, &deliveries)
	if err != nil {
		return nil, fmt.Errorf("list deliveries of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[int64][]*model.Delivery, len(siteIDs))
	for _, delivery := range deliveries {
		bySite[delivery.SiteID] = append(bySite[delivery.SiteID], delivery)
	}

	return bySite, nil
}

// DeliveryByID returns a delivery of a site of the account, without its body, or model.ErrNotFound.
func (s *Store) DeliveryByID(ctx context.Context, accountID, siteID, id int64) (*model.Delivery, error) {
	var delivery model.Delivery
	err := s.db.Read.NewSelect().Model(&delivery).ExcludeColumn("body").Where("site_id = ?", siteID).
		Where("id = ?", id).
		Where("EXISTS (SELECT 1 FROM sites WHERE id = ? AND account_id = ?)", siteID, accountID).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &delivery, nil
}

// DeliveryKey identifies a delivery.
type DeliveryKey struct{ SiteID, ID int64 }

// LastAttempts returns the last model.ShownAttempts attempts of each delivery, in order. It runs
// one statement. It does not check permissions: the caller must have loaded the deliveries.
func (s *Store) LastAttempts(
	ctx context.Context, deliveries []DeliveryKey,
) (map[DeliveryKey][]*model.DeliveryAttempt, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}

	wanted := make(map[DeliveryKey]bool, len(deliveries))
	sites, ids := make([]int64, len(deliveries)), make([]int64, len(deliveries))
	for i, key := range deliveries {
		wanted[key], sites[i], ids[i] = true, key.SiteID, key.ID
	}

	slices.Sort(sites)
	var rows []*model.DeliveryAttempt
	err := s.db.Read.NewSelect().Model(&rows).ModelTableExpr("delivery_attempts AS a").ColumnExpr("a.*").
		Join("JOIN deliveries AS d ON d.site_id = a.site_id AND d.id = a.delivery_id").
		Where("a.site_id IN ?", bun.Tuple(slices.Compact(sites))).Where("a.delivery_id IN ?", bun.Tuple(ids)).
		Where("a.n > d.tries - ?", model.ShownAttempts).
		OrderExpr("a.site_id, a.delivery_id, a.n").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list attempts of %d deliveries: %w", len(deliveries), err)
	}

	attempts := make(map[DeliveryKey][]*model.DeliveryAttempt, len(deliveries))
	for _, row := range rows {
		// A delivery of another site can have the same id.
		if key := (DeliveryKey{row.SiteID, row.DeliveryID}); wanted[key] {
			attempts[key] = append(attempts[key], row)
		}
	}

	return attempts, nil
}
