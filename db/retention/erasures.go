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

// Erasure of everything stored about one pseudonymous user id of a site. No index finds the visits
// of a user id: it would cost every identified hit, and erasures are rare. A job instead reads the
// site's visits page by page in the order of their keys, and the rows of those days on which it
// finds some.

const (
	erasurePage   = 5_000 // rows that one statement reads
	erasurePages  = 200   // pages of visits that one run reads before it continues with the next erasure
	erasureChunk  = 500   // rows that one transaction deletes
	erasurePasses = 10    // passes over a day whose visits still receive rows
	erasureWindow = time.Minute
)

// errStillActive is the result of a run that found a visitor who kept sending hits.
var errStillActive = errors.New("the visits to erase are still active")

// RequestErasure records a request to erase everything stored about a pseudonymous user id of the
// site until now. EraseUser and EraseUsers carry it out. Repeating the request restarts it with the
// current time. It returns model.ErrNotFound for another account's site, Invalid for a malformed
// id, and too_many_erasures beyond model.MaxErasures in progress.
func (s *Store) RequestErasure(
	ctx context.Context, accountID, siteID int64, userID string, now model.Instant,
) (*model.UserErasure, error) {
	// The browser script sends ids in lower case, too.
	userID = strings.ToLower(userID)
	if !model.IsUserID(userID) {
		return nil, model.InvalidField("userId", "invalid_user_id",
			"A user id has 64 hexadecimal digits, as the site's pages send it.")
	}

	key, err := s.keys.UserIDKey(ctx)
	if err != nil {
		return nil, err
	}

	e := &model.UserErasure{SiteID: siteID, Subject: model.UserIDKey(key).Of(siteID, userID), RequestedAt: now}
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Locking the account's row first makes the limit exact.
		if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
			return err
		}
		if own, err := tx.NewSelect().Table("sites").Where("id = ? AND account_id = ?", siteID, accountID).
			Exists(ctx); err != nil || !own {
			return notFoundUnless(own, err)
		}

		others, err := tx.NewSelect().Table("user_erasures").
			Where("finished_at = 0 AND NOT (site_id = ? AND subject = ?)", siteID, e.Subject).
			Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID).Count(ctx)
		if err != nil {
			return err
		}

		if others >= model.MaxErasures {
			return &model.Error{
				Kind: model.Conflict, Code: "too_many_erasures", Field: "userId",
				Message: fmt.Sprintf(
					"An account can have %d erasures in progress. Try again when some are finished.", model.MaxErasures,
				),
			}
		}

		return tx.NewRaw(`INSERT INTO user_erasures (site_id, subject, requested_at) VALUES (?, ?, ?)
ON CONFLICT (site_id, subject) DO UPDATE SET requested_at = excluded.requested_at, last_day = 0, last_visitor = 0, last_n = 0, finished_at = 0,
  visits = 0, pageviews = 0, events = 0, deliveries = 0 RETURNING *`, siteID, e.Subject, now).Scan(ctx, e)
	})
	if err != nil {
		return nil, db.Wrap(err, "request an erasure of site %d", siteID)
	}

	return e, nil
}

func notFoundUnless(found bool, err error) error {
	if err == nil && !found {
		err = model.ErrNotFound
	}
	return err
}

// Erasure returns an erasure of a site of the account, or model.ErrNotFound. A finished one is kept
// for 30 days.
func (s *Store) Erasure(ctx context.Context, accountID, id int64) (*model.UserErasure, error) {
	var e model.UserErasure
	err := s.db.Read.NewSelect().Model(&e).Where("id = ?", id).
		Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &e, nil
}

// EraseUsers continues all unfinished erasures, oldest first, each for a bounded time, until ctx
// ends. It returns the number of deleted rows.
func (s *Store) EraseUsers(ctx context.Context, now model.Instant) (int64, error) {
	var open []*model.UserErasure
	if err := s.db.Read.NewSelect().Model(&open).Where("finished_at = 0").Order("id").Scan(ctx); err != nil {
		return 0, fmt.Errorf("list erasures: %w", err)
	}

	var all int64
	for _, e := range open {
		n, err := s.EraseUser(ctx, e, now)
		all += n

		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// EraseUser continues an erasure, for at most a million visits of the site or until ctx ends, and
// returns the number of deleted rows. An error does not undo its progress.
func (s *Store) EraseUser(ctx context.Context, e *model.UserErasure, now model.Instant) (int64, error) {
	r := &eraser{db: s.db, erasure: *e, now: now}
	err := r.run(ctx)
	if errors.Is(err, errStillActive) {
		// The next run continues.
		err = nil
	}

	if err != nil {
		err = fmt.Errorf("erase a user of site %d: %w", e.SiteID, err)
	}

	return r.deleted, err
}

// eraser is one run of an erasure.
type eraser struct {
	db      *db.DB
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

		if err := r.advance(ctx, last); err != nil {
			return err
		}
	}

	return nil
}

// visits reads the next page of the site's visits. It returns the user's visits among them and the
// last visit, or nil after the last page. A visit that began before the request is erased completely.
func (r *eraser) visits(ctx context.Context) (own []ownVisit, last *ownVisit, err error) {
	var page []ownVisit
	e := &r.erasure
	err = r.db.Read.NewSelect().Table("visits").Column("day", "visitor", "n", "started_at", "user_id").
		Where("site_id = ?", e.SiteID).
		Where("day >= ? AND day <= ?", e.LastDay, e.RequestedAt.Day()).
		Where("(day, visitor, n) > (?, ?, ?)", e.LastDay, e.LastVisitor, e.LastN).
		Order("day", "visitor", "n").Limit(erasurePage).Scan(ctx, &page)
	if err != nil || len(page) == 0 {
		return nil, nil, err
	}

	end := page[len(page)-1]
	own = slices.DeleteFunc(page, func(v ownVisit) bool {
		return v.StartedAt > e.RequestedAt || !bytes.Equal(v.UserID, e.Subject)
	})

	return own, &end, nil
}

// eraseDay deletes visits of one day with all their rows. The rows lie between the first visit's
// start and the end of the day, at which every visit ends.
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

			// Rows committed late can be slightly older than those already seen.
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

// conversion holds the values, in addition to the time, by which an event and its delivery are
// matched.
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
		q := r.db.Read.NewSelect().Table(table).ColumnExpr(columns).
			Where("site_id = ? AND at >= ? AND at < ?", r.erasure.SiteID, from, end).OrderExpr("at, id").
			Limit(erasurePage)

		if after != nil {
			q.Where("(at, id) > (?, ?)", after.At, after.ID)
		}
		if err := q.Scan(ctx, &page); err != nil || len(page) == 0 {
			return seen, err
		}

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

	return r.excludingHits(ctx, func(ctx context.Context, tx *db.Tx) error {
		var keys strings.Builder
		for i, row := range rows {
			if i > 0 {
				keys.WriteByte(',')
			}

			fmt.Fprintf(&keys, "(%d, %d)", row.At, row.ID)
		}

		if table == "pageviews" {
			if err := r.deleteEngagement(ctx, tx, rows); err != nil {
				return err
			}
		}

		return r.delete(ctx, tx, table, "at >= ? AND at <= ? AND (at, id) IN (VALUES "+keys.String()+")", rows[0].At,
			rows[len(rows)-1].At)
	})
}

// deleteEngagement deletes what was reported on page views of one day.
func (r *eraser) deleteEngagement(ctx context.Context, tx *db.Tx, pageviews []ownRow) error {
	first := pageviews[0].At.Day()
	last := pageviews[0].At.Add(model.EngagementWindow).Day()
	ids := make([]int64, len(pageviews))
	for i, row := range pageviews {
		ids[i] = row.ID
	}

	for day := first; day <= last; day++ {
		if _, err := tx.ExecContext(ctx, "DELETE FROM engagement WHERE site_id = ? AND day = ? AND id IN ?",
			r.erasure.SiteID, day, bun.Tuple(ids)); err != nil {
			return err
		}
	}

	return nil
}

// deleteDeliveries deletes the deliveries, sent or pending, of events.
func (r *eraser) deleteDeliveries(ctx context.Context, events []ownRow) error {
	own := make(map[model.Instant][]conversion, len(events))
	for _, e := range events {
		own[e.At] = append(own[e.At], e.conversion)
	}

	var found []model.Delivery
	err := r.db.Read.NewSelect().Model(&found).Column("id", "created_at", "body").
		Where("site_id = ? AND kind = ?", r.erasure.SiteID, model.DeliveryConversion).
		Where("id >= ? AND id < ?", model.FirstTimeID(events[0].At), model.FirstTimeID(events[len(events)-1].At+1)).
		Scan(ctx)
	if err != nil {
		return err
	}

	var ids []int64
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

	for chunk := range slices.Chunk(ids, erasureChunk) {
		err := r.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
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

	err = r.excludingHits(ctx, func(ctx context.Context, tx *db.Tx) error {
		erased = false

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
func (r *eraser) excludingHits(ctx context.Context, change func(ctx context.Context, tx *db.Tx) error) error {
	return r.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// On SQLite the transaction excludes every other writer.
		if r.db.IsPostgres() {
			_, err := tx.ExecContext(
				ctx, "SELECT 1 FROM site_usage WHERE site_id = ? ORDER BY month FOR NO KEY UPDATE", r.erasure.SiteID,
			)
			if err != nil {
				return err
			}
		}

		return change(ctx, tx)
	})
}

// delete deletes rows of the site and adds their number to the erasure's column of the table's
// name.
func (r *eraser) delete(ctx context.Context, tx *db.Tx, table, condition string, args ...any) error {
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
	_, err := r.db.Write.ExecContext(ctx, `UPDATE user_erasures SET last_day = ?0, last_visitor = ?1, last_n = ?2
WHERE id = ?3 AND requested_at = ?4 AND (last_day, last_visitor, last_n) < (?0, ?1, ?2)`,
		e.LastDay, e.LastVisitor, e.LastN, e.ID, e.RequestedAt)
	return err
}

func (r *eraser) finish(ctx context.Context) error {
	_, err := r.db.Write.ExecContext(ctx,
		"UPDATE user_erasures SET finished_at = ? WHERE id = ? AND requested_at = ? AND finished_at = 0",
		r.now, r.erasure.ID, r.erasure.RequestedAt)
	return err
}
