package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
)

// MaxDailyCatchUp is how many days of daily exports are sent late after a downtime. Earlier days
// are skipped.
const MaxDailyCatchUp = 30

// planTimeout bounds the planning of one site's day, which takes most of its time to count the
// events.
const planTimeout = 2 * time.Minute

// PlanDailyExports writes the deliveries of all unsent days before the given one, for each site
// with a daily export URL that is not held. It divides a day's events into parts of
// model.DailyPartRows and returns the number of parts. Several processes can call it at once: a day
// is planned once. Memory does not grow with the number of events.
//
// It passes a site that cannot be planned to failed, with the reason, and skips it: the next call
// tries again. The returned error concerns all sites, for example a lost database connection.
func (s *Store) PlanDailyExports(
	ctx context.Context, before model.Day, now model.Instant, failed func(siteID model.SiteID, err error),
) (int, error) {
	parts := 0
	var last dueExport
	for {
		next, err := s.nextDueExport(ctx, before, last)
		if next == nil || err != nil {
			return parts, err
		}

		n, err := s.planInTime(ctx, model.SiteID(next.ID), before, now)
		parts += n

		if ctx.Err() != nil {
			return parts, ctx.Err()
		}
		if err != nil {
			failed(model.SiteID(next.ID), err)
		}

		last = *next
	}
}

// dueExport is a site and the next day of its daily export.
type dueExport struct {
	DailyExportDay model.Day
	ID             int64
}

// nextDueExport returns the first due export after last, ordered by day and site, or nil. A planned
// site is due again after last if more of its days are over; a failed site is not.
func (s *Store) nextDueExport(ctx context.Context, before model.Day, last dueExport) (*dueExport, error) {
	var due []dueExport
	err := s.db.Read.NewSelect().Table("sites").Column("daily_export_day", "id").
		Where("daily_export_url IS NOT NULL AND daily_export_day < ?", before).
		Where("id NOT IN ("+heldSites+")").
		Where("(daily_export_day, id) > (?, ?)", last.DailyExportDay, last.ID).
		OrderExpr("daily_export_day, id").Limit(1).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("look for daily exports: %w", err)
	}
	if len(due) == 0 {
		return nil, nil
	}

	return &due[0], nil
}

// planInTime calls planDailyExport with planTimeout, so that a site with a huge day leaves time for
// others.
func (s *Store) planInTime(
	ctx context.Context, siteID model.SiteID, before model.Day, now model.Instant,
) (parts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()

	// The deliveries' ids are partly random and can collide.
	err = db.RetryNewIDs(func() error {
		var err error
		parts, err = s.planDailyExport(ctx, siteID, before, now)
		return err
	})

	return parts, err
}

// planDailyExport plans the site's next day and returns the number of parts. The day is over, so
// its events can be counted before the site's row is locked.
func (s *Store) planDailyExport(ctx context.Context, siteID model.SiteID, before model.Day, now model.Instant) (int, error) {
	var site model.Site
	err := db.OrNotFound(s.db.Read.NewSelect().Model(&site).Where("id = ?", siteID).Scan(ctx))
	if errors.Is(err, model.ErrNotFound) {
		return 0, nil
	}

	// Another process may have planned the day already.
	if err != nil || site.DailyExportDay >= before {
		return 0, err
	}

	day := max(site.DailyExportDay, before-MaxDailyCatchUp)

	// Ids of days that are planned at the same time follow the order of the days: there is room for
	// ten thousand parts of each.
	idsAt := now + model.Instant(day-before+MaxDailyCatchUp)*10_000
	deliveries, err := s.dailyDeliveries(ctx, siteID, day, idsAt, now)
	if err != nil {
		return 0, err
	}

	parts := 0
	err = s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		result, err := tx.NewUpdate().Table("sites").Set("daily_export_day = ?", day+1).
			Where("id = ? AND daily_export_day = ? AND daily_export_url IS NOT NULL", siteID, site.DailyExportDay).
			Where("deleted_at = 0").
			Exec(ctx)
		if err != nil {
			return err
		}

		if n, err := result.RowsAffected(); err != nil || n == 0 {
			// Another process has planned the day.
			return err
		}

		parts = len(deliveries)
		_, err = tx.NewInsert().Model(&deliveries).Exec(ctx)
		return err
	})

	return parts, err
}

// ResendDailyExport writes the deliveries of a day again, from the rows that are stored now, and
// returns them. The regular plan must have passed the day. They are new messages: their receiver
// gets other message ids. The regular plan does not change. It fails with no_webhook, with
// invalid_day for a day that is not planned yet or has no stored rows, with the Conflict
// delivery_in_progress while a part of the day is pending or waiting, and with
// too_many_redeliveries after model.MaxExportParts in an hour.
func (s *Store) ResendDailyExport(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, day model.Day, now model.Instant,
) ([]model.Delivery, error) {
	var site model.Site
	err := s.db.Read.NewSelect().Model(&site).Where("id = ? AND account_id = ? AND deleted_at = 0", siteID, accountID).
		Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	if site.DailyExportURL == "" {
		return nil, model.InvalidField("siteId", "no_webhook", "The site has no address for this webhook. Set one first.")
	}
	if err := s.checkResent(ctx, &site, day, now); err != nil {
		return nil, err
	}

	var deliveries []model.Delivery
	err = db.RetryNewIDs(func() error {
		// The day is over, so its events can be counted before the site's row is locked.
		deliveries, err = s.dailyDeliveries(ctx, siteID, day, now, now)
		if err != nil {
			return err
		}

		return s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
			if err := mayResend(ctx, tx, siteID, day, now); err != nil {
				return err
			}
			if _, err := tx.NewInsert().Model(&deliveries).Exec(ctx); err != nil {
				return err
			}

			return auditRequest(ctx, tx, &site, audit.Values{"date": day.String(), "parts": len(deliveries)})
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "send the day %s of site %d again", day, siteID)
	}

	return deliveries, nil
}

// checkResent checks that the regular plan has passed a day and that some of its rows may be
// stored.
func (s *Store) checkResent(ctx context.Context, site *model.Site, day model.Day, now model.Instant) error {
	if day >= site.DailyExportDay || day >= now.Day() {
		return model.InvalidField("date", "invalid_day", "The regular export of this day is still to come.")
	}

	in, err := s.db.OfSite(ctx, site.ID)
	if err != nil {
		return err
	}

	// Retention deletes whole months, oldest first: nothing is stored before the first row.
	var first []model.Instant
	err = in.Read.NewRaw(`
SELECT min(at) AS at FROM (
  SELECT * FROM (SELECT at FROM pageviews WHERE site_id = ?0 ORDER BY at LIMIT 1) AS pageview
  UNION ALL SELECT * FROM (SELECT at FROM events WHERE site_id = ?0 ORDER BY at LIMIT 1) AS event) AS rows
WHERE at IS NOT NULL HAVING count(*) > 0`, site.ID).Scan(ctx, &first)
	if err != nil {
		return fmt.Errorf("look for the first row of site %d: %w", site.ID, err)
	}
	if len(first) == 0 || day < first[0].Day() {
		return model.InvalidField("date", "invalid_day", "Nothing is stored of this day.")
	}

	return nil
}

// mayResend locks the site and returns an error while a part of the day is in progress, and after
// too many parts in an hour.
func mayResend(ctx context.Context, tx *db.CellTx, siteID model.SiteID, day model.Day, now model.Instant) error {
	if err := tx.LockSite(ctx, siteID); err != nil {
		return err
	}

	parts := func() *bun.SelectQuery {
		return tx.NewSelect().Table("deliveries").Where("site_id = ? AND kind = ?", siteID, model.DeliveryDailyExport)
	}

	open := []string{model.DeliveryPending, model.DeliveryWaiting}
	pending, err := parts().Where("event = ?", day.String()).Where("state IN ?", bun.Tuple(open)).Exists(ctx)
	if err != nil {
		return err
	}
	if pending {
		return &model.Error{Kind: model.Conflict, Code: "delivery_in_progress", Field: "date",
			Message: "This day is being sent right now."}
	}

	// The index has the state before the id.
	recent, err := parts().Where("state IN ?", bun.Tuple(deliveryStates)).
		Where("id >= ?", model.FirstTimeID(now.Add(-time.Hour))).
		Where("id < ?", model.FirstTimeID(now.Add(time.Hour))).Count(ctx)
	if err == nil && recent >= model.MaxExportParts {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_redeliveries", Field: "siteId",
			Message: fmt.Sprintf("The site had %d parts of daily exports within an hour. Try again later.", recent)}
	}

	return err
}

// dailyDeliveries divides a day's events into parts. Their ids are made from idsAt and the
// microseconds after it.
func (s *Store) dailyDeliveries(
	ctx context.Context, siteID model.SiteID, day model.Day, idsAt, now model.Instant,
) ([]model.Delivery, error) {
	ends, err := s.dailyPartEnds(ctx, siteID, day)
	if err != nil {
		return nil, err
	}

	// A day without events is one part without rows.
	deliveries := make([]model.Delivery, max(1, len(ends)))
	for i := range deliveries {
		part := model.DailyPart{Day: day, Part: i + 1, Parts: len(deliveries)}

		if i > 0 {
			part.After = &ends[i-1]
		}
		if i < len(ends) {
			part.Last = &ends[i]
		}

		body, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}

		deliveries[i] = model.Delivery{
			SiteID: siteID, ID: model.NewTimeID(idsAt + model.Instant(i)), Kind: model.DeliveryDailyExport, Event: day.String(),
			State: model.DeliveryPending, CreatedAt: now, NextAttemptAt: now, Body: string(body),
		}
	}

	return deliveries, nil
}

// dailyPartEnds returns the last event of each part of a day.
func (s *Store) dailyPartEnds(ctx context.Context, siteID model.SiteID, day model.Day) ([]model.EventCursor, error) {
	in, err := s.db.OfSite(ctx, siteID)
	if err != nil {
		return nil, err
	}

	from, to := day.Start(), (day + 1).Start()
	var ends, last []model.EventCursor
	err = in.Read.NewRaw(`
SELECT at, id FROM (
  SELECT at, id, row_number() OVER (ORDER BY at, id) AS n FROM events WHERE site_id = ? AND at >= ? AND at < ?) AS numbered
WHERE n % ? = 0 ORDER BY at, id`, siteID, from, to, model.DailyPartRows).Scan(ctx, &ends)
	if err != nil {
		return nil, err
	}

	err = in.Read.NewRaw(
		"SELECT at, id FROM events WHERE site_id = ? AND at >= ? AND at < ? ORDER BY at DESC, id DESC LIMIT 1",
		siteID, from, to,
	).Scan(ctx, &last)
	if err == nil && len(last) > 0 && (len(ends) == 0 || ends[len(ends)-1] != last[0]) {
		ends = append(ends, last[0])
	}

	return ends, err
}

// DailyPartEvents calls each with the rows of one part of a daily export, in order.
func (s *Store) DailyPartEvents(
	ctx context.Context, siteID model.SiteID, part *model.DailyPart, each func(*exports.Event) error,
) error {
	if part.Last == nil {
		return nil
	}

	r := exports.Range{SiteID: siteID, From: part.Day.Start(), To: part.Last.At + 1, Limit: model.DailyPartRows}

	if part.After != nil {
		r.After = &exports.Cursor{At: part.After.At, ID: part.After.ID}
	}

	last := *part.Last
	return s.exports.ExportEvents(ctx, r, func(e *exports.Event) error {
		if e.At > last.At || e.At == last.At && e.ID > last.ID {
			// This event was stored after the parts were planned.
			return nil
		}
		return each(e)
	})
}
