package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Deliveries of sites without an address wait: the worker does not look at them until an address is
// set, or until they are too old (ADR 032).

// waitingChunk is how many waiting deliveries one transaction changes. Other writers run between
// two transactions.
const waitingChunk = 1000

// wait makes a due delivery wait for an address, together with others of its lane, so that a long
// backlog takes few transactions. It skips leased deliveries and the deliveries in except. A
// manual request for the delivery ends.
func wait(ctx context.Context, tx *db.CellTx, delivery *model.Delivery, except []int64, now model.Instant) error {
	_, err := deliveryRows.settle(ctx, tx, int64(delivery.SiteID), delivery.ID, 0, model.DeliveryWaiting, 0)
	if err != nil {
		return err
	}

	others := tx.NewSelect().Table("deliveries").Column("id").
		Where("site_id = ? AND kind = ? AND state = 'pending'", delivery.SiteID, delivery.Kind).
		Where("next_attempt_at <= ? AND created_at > ?", now, now.Add(-model.MaxAddressWait)).
		Where("claimed_until = 0 AND fallback = ''").OrderExpr("next_attempt_at, id").Limit(waitingChunk)
	if len(except) > 0 {
		others.Where("id NOT IN ?", bun.Tuple(except))
	}

	tx.Lock(others, "UPDATE SKIP LOCKED")
	var ids []int64
	if err := others.Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return err
	}

	_, err = deliveryRows.end(tx, model.DeliveryWaiting, 0).
		Where("site_id = ? AND id IN ?", delivery.SiteID, bun.Tuple(ids)).Exec(ctx)
	return err
}

// ResumeWaiting makes up to 1,000 waiting deliveries of a lane due, in the transaction that sets
// the site's address. TendWaiting resumes the others, and all of a site that is being moved.
func ResumeWaiting(ctx context.Context, tx *db.Tx, lane model.Lane, now model.Instant) error {
	in, err := tx.EnterSite(ctx, lane.SiteID)
	if errors.Is(err, db.ErrSiteMoving) {
		return nil
	}
	if err != nil {
		return err
	}

	_, err = resumeWaiting(ctx, in, lane, now)
	return err
}

// resumeWaiting is ResumeWaiting and returns the number of deliveries.
func resumeWaiting(ctx context.Context, tx *db.CellTx, lane model.Lane, now model.Instant) (int64, error) {
	q := tx.NewSelect().Table("deliveries").Column("id").
		Where("site_id = ? AND kind = ? AND state = 'waiting'", lane.SiteID, lane.Kind).
		OrderExpr("created_at, id").Limit(waitingChunk)

	tx.Lock(q, "UPDATE")
	var ids []int64
	if err := q.Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return 0, err
	}

	_, err := deliveryRows.end(tx, model.DeliveryPending, now).
		Where("site_id = ? AND id IN ?", lane.SiteID, bun.Tuple(ids)).Where("state = 'waiting'").Exec(ctx)
	return int64(len(ids)), err
}

// TendWaiting resumes the waiting deliveries of sites that have an address, and ends the deliveries
// that have waited for model.MaxAddressWait. It returns both numbers.
func (s *Store) TendWaiting(ctx context.Context, now model.Instant) (resumed, ended int64, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		again, over, err := cell{in}.tendWaiting(ctx, now)
		resumed, ended = resumed+again, ended+over
		return err
	})
	return resumed, ended, err
}

// tendWaiting is TendWaiting for one cell.
func (c cell) tendWaiting(ctx context.Context, now model.Instant) (resumed, ended int64, err error) {
	var lanes []model.Lane
	err = c.Read.NewRaw(`
SELECT w.site_id, w.kind FROM (SELECT DISTINCT site_id, kind FROM deliveries WHERE state = 'waiting') AS w
JOIN sites s ON s.id = w.site_id
WHERE CASE w.kind WHEN ? THEN s.daily_export_url ELSE s.conversion_webhook_url END IS NOT NULL
ORDER BY w.site_id, w.kind`, model.DeliveryDailyExport).Scan(ctx, &lanes)
	if err != nil {
		return 0, 0, fmt.Errorf("look for waiting deliveries: %w", err)
	}

	for _, lane := range lanes {
		n, err := c.inWaitingChunks(ctx, func(ctx context.Context, tx *db.CellTx) (int64, error) {
			return resumeWaiting(ctx, tx, lane, now)
		})
		resumed += n
		if err != nil {
			return resumed, 0, fmt.Errorf("resume waiting deliveries of site %d: %w", lane.SiteID, err)
		}
	}

	ended, err = c.endWaiting(ctx, now)
	return resumed, ended, err
}

// endWaiting fails the deliveries that have waited for too long. Their last attempt names the
// reason.
func (c cell) endWaiting(ctx context.Context, now model.Instant) (int64, error) {
	const old = "state = 'waiting' AND created_at <= ?"
	bound := now.Add(-model.MaxAddressWait)

	// Even a write of nothing makes SQLite's writers wait.
	some, err := c.Read.NewSelect().Table("deliveries").Where(old, bound).Exists(ctx)
	if err != nil || !some {
		return 0, err
	}

	n, err := c.inWaitingChunks(ctx, func(ctx context.Context, tx *db.CellTx) (int64, error) {
		var deliveries []model.Delivery
		q := tx.NewSelect().Model(&deliveries).ExcludeColumn("body").Where(old, bound).
			OrderExpr("site_id, id").Limit(waitingChunk)

		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil || len(deliveries) == 0 {
			return 0, err
		}

		err := giveUp(ctx, tx, deliveries, model.AttemptNoWebhook, now)
		return int64(len(deliveries)), err
	})
	if err != nil {
		return n, fmt.Errorf("end waiting deliveries: %w", err)
	}

	return n, nil
}

// inWaitingChunks repeats a change of up to waitingChunk rows until it changes fewer, and returns
// the number of changed rows.
func (c cell) inWaitingChunks(
	ctx context.Context, change func(ctx context.Context, tx *db.CellTx) (int64, error),
) (int64, error) {
	var all int64
	for {
		var n int64
		err := c.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
			var err error
			n, err = change(ctx, tx)
			return err
		})
		if err != nil {
			return all, err
		}

		if all += n; n < waitingChunk {
			return all, nil
		}
	}
}
