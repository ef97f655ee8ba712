package retention

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

const (
	erasurePage   = 5_000 // rows that one statement reads
	erasurePages  = 200   // pages of visits that one run reads before it continues with the next erasure
	erasureChunk  = 500   // rows that one transaction deletes
	erasureBodies = 200   // bodies of deliveries that one statement reads
	erasurePasses = 10    // passes over a day while its visits still receive rows

	// erasureWindow is how much older than rows already seen a row can be that is committed later.
	erasureWindow = time.Minute
)

// errStillActive is the result of a run that found a visitor who kept sending hits.
var errStillActive = errors.New("the visits to erase are still active")

// eraser is one run of an erasure.
type eraser struct {
	cell    *db.Cell
	erasure model.UserErasure
	now     model.Instant
	deleted int64
}

// visitKey is the key of a visit within its site and day.
type visitKey struct {
	Visitor int64 // as it is stored
	N       int16
}

// ownVisit is a visit of the user.
type ownVisit struct {
	Day       model.Day
	visitKey  `bun:",extend"`
	StartedAt model.Instant
	UserID    []byte
}

// run erases page by page until the last visit or the limit of one run.
func (r *eraser) run(ctx context.Context) error {
	for range erasurePages {
		own, last, err := r.visits(ctx)
		if err != nil {
			return err
		}
		if last == nil {
			return r.finish(ctx)
		}

		if err := r.erasePage(ctx, own); err != nil {
			return err
		}
		if err := r.advance(ctx, last); err != nil {
			return err
		}
	}

	return nil
}

// erasePage erases visits of a page, day by day.
func (r *eraser) erasePage(ctx context.Context, own []ownVisit) error {
	for len(own) > 0 {
		day := own[0].Day
		n := slices.IndexFunc(own, func(v ownVisit) bool { return v.Day != day })
		if n < 0 {
			n = len(own)
		}

		n = min(n, erasureChunk)
		if err := r.eraseDay(ctx, day, own[:n]); err != nil {
			return err
		}
		own = own[n:]
	}

	return nil
}

// visits reads the next page of the site's visits. It returns the user's visits among them and the
// last visit, or nil after the last page. A visit that began before the request is erased
// completely.
func (r *eraser) visits(ctx context.Context) (own []ownVisit, last *ownVisit, err error) {
	var page []ownVisit
	e := &r.erasure
	err = r.cell.Read.NewSelect().Table("visits").Column("day", "visitor", "n", "started_at", "user_id").
		Where("site_id = ?", e.SiteID).
		Where("day >= ? AND day <= ?", e.LastDay, e.RequestedAt.Day()).
		Where("(day, visitor, n) > (?, ?, ?)", e.LastDay, e.LastVisitor, e.LastN).
		Order("day", "visitor", "n").Limit(erasurePage).Scan(ctx, &page)
	if err != nil || len(page) == 0 {
		return nil, nil, err
	}

	// DeleteFunc overwrites page, so copy its end first.
	end := page[len(page)-1]
	own = slices.DeleteFunc(page, func(v ownVisit) bool {
		return v.StartedAt > e.RequestedAt || !bytes.Equal(v.UserID, e.Subject)
	})

	return own, &end, nil
}

// eraseDay deletes visits of one day with all their rows. The rows lie between the first visit's
// start and the end of the day, because every visit ends with its day.
func (r *eraser) eraseDay(ctx context.Context, day model.Day, visits []ownVisit) error {
	keys := make(map[visitKey]bool, len(visits))
	first := visits[0].StartedAt
	for _, v := range visits {
		keys[v.visitKey], first = true, min(first, v.StartedAt)
	}

	end := (day + 1).Start()
	from := map[string]model.Instant{"pageviews": first, "events": first}
	for range erasurePasses {
		for table := range from {
			seen, err := r.eraseRows(ctx, table, keys, from[table], end)
			if err != nil {
				return err
			}

			from[table] = max(from[table], seen.Add(-erasureWindow))
		}

		if erased, err := r.eraseVisits(ctx, day, keys, from); err != nil || erased {
			return err
		}
	}

	return errStillActive
}

// ownRow is a page view or event.
type ownRow struct {
	At         model.Instant
	ID         int64
	visitKey   `bun:",extend"`
	conversion `bun:",extend"` // of an event
}

// conversion holds the values that, in addition to the time, match an event with its delivery.
type conversion struct {
	Event         string `json:"event"`
	Path          string `json:"path"`
	TransactionID string `json:"transaction_id"`
}

// eraseRows deletes the rows of the visits in a table, and returns the time of the last row that it
// read.
func (r *eraser) eraseRows(
	ctx context.Context, table string, visits map[visitKey]bool, from, end model.Instant,
) (seen model.Instant, err error) {
	columns := "at, id, visitor, n"
	if table == "events" {
		columns += ", name AS event, path, transaction_id"
	}

	var after *ownRow

	for {
		var page []ownRow
		q := r.cell.Read.NewSelect().Table(table).ColumnExpr(columns).
			Where("site_id = ? AND at >= ? AND at < ?", r.erasure.SiteID, from, end).OrderExpr("at, id").
			Limit(erasurePage)

		if after != nil {
			q.Where("(at, id) > (?, ?)", after.At, after.ID)
		}
		if err := q.Scan(ctx, &page); err != nil || len(page) == 0 {
			return seen, err
		}

		// DeleteFunc overwrites page, so read its end and length first.
		last := page[len(page)-1]
		full := len(page) == erasurePage

		own := slices.DeleteFunc(page, func(row ownRow) bool { return !visits[row.visitKey] })
		for chunk := range slices.Chunk(own, erasureChunk) {
			if err := r.deleteRows(ctx, table, chunk); err != nil {
				return seen, err
			}
		}

		if seen = last.At; !full {
			return seen, nil
		}

		// PostgreSQL does not derive from (at, id) which partitions to skip, so move from, too.
		after, from = &last, last.At
	}
}

// deleteRows deletes rows of a table. It deletes the deliveries of events first: they could not be
// found without the events. The engagement of page views is deleted with them.
func (r *eraser) deleteRows(ctx context.Context, table string, rows []ownRow) error {
	if table == "events" {
		if err := r.deleteDeliveries(ctx, rows); err != nil {
			return err
		}
	}

	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = fmt.Sprintf("(%d, %d)", row.At, row.ID)
	}
	condition := "at >= ? AND at <= ? AND (at, id) IN (VALUES " + strings.Join(keys, ",") + ")"

	return r.excludingHits(ctx, func(ctx context.Context, tx *db.CellTx) error {
		if table == "pageviews" {
			if err := r.deleteEngagement(ctx, tx, rows); err != nil {
				return err
			}
		}

		return r.delete(ctx, tx, table, condition, rows[0].At, rows[len(rows)-1].At)
	})
}

// deleteEngagement deletes the engagement of page views of one day.
func (r *eraser) deleteEngagement(ctx context.Context, tx *db.CellTx, pageviews []ownRow) error {
	first := pageviews[0].At.Day()
	last := pageviews[0].At.Add(model.EngagementWindow).Day()
	ids := make([]int64, len(pageviews))
	for i, row := range pageviews {
		ids[i] = row.ID
	}

	for day := first; day <= last; day++ {
		_, err := tx.ExecContext(ctx, "DELETE FROM engagement WHERE site_id = ? AND day = ? AND id IN ?",
			r.erasure.SiteID, day, bun.Tuple(ids))
		if err != nil {
			return err
		}
	}

	return nil
}

// deleteDeliveries deletes the deliveries, sent or pending, of events with their attempts.
func (r *eraser) deleteDeliveries(ctx context.Context, events []ownRow) error {
	ids, err := r.deliveriesOf(ctx, events)
	if err != nil {
		return err
	}

	for chunk := range slices.Chunk(ids, erasureChunk) {
		err := r.inTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM delivery_attempts WHERE site_id = ? AND delivery_id IN ?",
				r.erasure.SiteID, bun.Tuple(chunk))
			if err != nil {
				return err
			}
			return r.delete(ctx, tx, "deliveries", "id IN ?", bun.Tuple(chunk))
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// deliveriesOf returns the ids of the deliveries of events, which are in the order of time. A
// delivery does not name its event: they have the same time and values.
func (r *eraser) deliveriesOf(ctx context.Context, events []ownRow) ([]int64, error) {
	own := make(map[model.Instant][]conversion, len(events))
	for _, e := range events {
		own[e.At] = append(own[e.At], e.conversion)
	}

	// Between two events of the user there can be deliveries of a whole day.
	var ids []int64
	first, end := model.FirstTimeID(events[0].At), model.FirstTimeID(events[len(events)-1].At+1)
	for {
		var found []model.Delivery
		err := r.cell.Read.NewSelect().Model(&found).Column("id", "created_at", "body").
			Where("site_id = ? AND kind = ?", r.erasure.SiteID, model.DeliveryConversion).
			Where("id >= ? AND id < ?", first, end).Order("id").Limit(erasureBodies).Scan(ctx)
		if err != nil {
			return nil, err
		}

		for _, delivery := range found {
			var about conversion
			if err := json.Unmarshal([]byte(delivery.Body), &about); err != nil {
				// No event has such a body.
				continue
			}

			if slices.Contains(own[delivery.CreatedAt], about) {
				ids = append(ids, delivery.ID)
			}
		}

		if len(found) < erasureBodies {
			return ids, nil
		}
		first = found[len(found)-1].ID + 1
	}
}

// eraseVisits deletes the visits of a day and returns true, unless a table has received rows of
// theirs since from.
func (r *eraser) eraseVisits(
	ctx context.Context, day model.Day, visits map[visitKey]bool, from map[string]model.Instant,
) (erased bool, err error) {
	keys := make([]string, 0, len(visits))
	for key := range visits {
		keys = append(keys, fmt.Sprintf("(%d, %d)", key.Visitor, key.N))
	}

	slices.Sort(keys)
	own := "(visitor, n) IN (VALUES " + strings.Join(keys, ",") + ")"

	err = r.excludingHits(ctx, func(ctx context.Context, tx *db.CellTx) error {
		erased = false

		// A hit may have added rows since the last pass. Their visit must stay until they are
		// deleted.
		for table, since := range from {
			more, err := tx.NewSelect().Table(table).
				Where("site_id = ? AND at >= ? AND at < ?", r.erasure.SiteID, since, (day + 1).Start()).
				Where(own).Exists(ctx)
			if err != nil || more {
				return err
			}
		}

		erased = true
		if err := r.delete(ctx, tx, "visits", "day = ? AND "+own, day); err != nil {
			return err
		}
		return reports.Invalidate(ctx, tx, r.erasure.SiteID, r.now, day)
	})

	return erased && err == nil, err
}

// excludingHits runs a transaction while no hit of the site is stored: it takes the locks that
// writers of hits take first. Otherwise a writer could add to a visit, or write a page view again,
// that is being deleted.
func (r *eraser) excludingHits(ctx context.Context, change func(ctx context.Context, tx *db.CellTx) error) error {
	return r.inTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
		// On SQLite the transaction excludes every other writer.
		if r.cell.Common.IsPostgres() {
			_, err := tx.ExecContext(ctx,
				"SELECT 1 FROM site_usage WHERE site_id = ? ORDER BY month FOR NO KEY UPDATE", r.erasure.SiteID)
			if err != nil {
				return err
			}
		}

		return change(ctx, tx)
	})
}

// inTx runs a change of the site's rows. It fails with db.ErrSiteMoving while they are moved to
// another cell, and afterwards: this run read the rows of the former cell.
func (r *eraser) inTx(ctx context.Context, change func(ctx context.Context, tx *db.CellTx) error) error {
	return r.cell.InSiteTx(ctx, r.erasure.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		if tx.CellID != r.cell.ID {
			return db.ErrSiteMoving
		}
		if err := tx.StayPut(ctx, r.erasure.SiteID); err != nil {
			return err
		}
		return change(ctx, tx)
	})
}

// delete deletes rows of the site and adds their number to the erasure's column of the table's
// name.
func (r *eraser) delete(ctx context.Context, tx *db.CellTx, table, condition string, args ...any) error {
	result, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ? AND "+condition,
		append([]any{bun.Ident(table), r.erasure.SiteID}, args...)...)
	if err != nil {
		return err
	}

	n, err := result.RowsAffected()
	if err != nil || n == 0 {
		return err
	}

	r.deleted += n
	_, err = tx.ExecContext(ctx, "UPDATE user_erasures SET ? = ? + ? WHERE id = ?", bun.Ident(table),
		bun.Ident(table), n, r.erasure.ID)
	return err
}

// advance stores the progress of the run, unless the erasure was requested again since or another
// process is further.
func (r *eraser) advance(ctx context.Context, last *ownVisit) error {
	e := &r.erasure
	e.LastDay, e.LastVisitor, e.LastN = last.Day, last.Visitor, last.N
	_, err := r.cell.Write.ExecContext(ctx, `UPDATE user_erasures SET last_day = ?0, last_visitor = ?1, last_n = ?2
WHERE id = ?3 AND requested_at = ?4 AND (last_day, last_visitor, last_n) < (?0, ?1, ?2)`,
		e.LastDay, e.LastVisitor, e.LastN, e.ID, e.RequestedAt)
	return err
}

// finish records that the erasure is complete, unless it was requested again since.
func (r *eraser) finish(ctx context.Context) error {
	_, err := r.cell.Write.ExecContext(ctx,
		"UPDATE user_erasures SET finished_at = ? WHERE id = ? AND requested_at = ? AND finished_at = 0",
		r.now, r.erasure.ID, r.erasure.RequestedAt)
	return err
}
