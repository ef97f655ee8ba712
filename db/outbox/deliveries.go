package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The worker's view of deliveries. A delivery is pending until it is delivered or failed, and due
// when next_attempt_at has passed. A lease sets next_attempt_at to the end of its lease, so that a
// delivery becomes due again without cleanup after its worker died. Without an address it waits,
// see waiting.go.

// DueDelivery is a due delivery as passed to the queue of its lane.
type DueDelivery struct {
	model.Lane `bun:",extend"`

	ID            int64
	Attempts      int32 `bun:"tries"`
	NextAttemptAt model.Instant
}

// heldSites selects the sites with held deliveries: deleted sites that can be restored, and sites
// of suspended accounts. The first part has an index of its own, and suspended accounts are few.
const heldSites = `SELECT id FROM sites WHERE deleted_at > 0
UNION ALL SELECT s.id FROM accounts a JOIN sites s ON s.account_id = a.id WHERE a.suspended_at > 0`

// isHeld is a condition on a site, by its id.
const isHeld = `EXISTS (SELECT 1 FROM sites s JOIN accounts a ON a.id = s.account_id
WHERE s.id = ? AND (s.deleted_at > 0 OR a.suspended_at > 0))`

// fewDue is up to how many due deliveries DueLanes reads them in the order of time, whatever else is
// pending. Beyond, it asks each site with pending deliveries.
const fewDue = 2_000

// DueLanes returns at most limit lanes with due deliveries, of sites after the given one, ordered
// by site and kind. Lanes of held sites are left out. Its cost follows the due deliveries:
// deliveries that wait for a later attempt cost nothing until more than fewDue are due.
func (s *Store) DueLanes(ctx context.Context, now model.Instant, afterSite int64, limit int) ([]model.Lane, error) {
	var lanes []model.Lane
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		due, err := cell{in}.dueLanes(ctx, now, afterSite, limit)
		lanes = append(lanes, due...)
		return err
	})

	// A cell that cannot be read does not delay the others' deliveries, unless it hides all of them.
	if err != nil && len(lanes) == 0 {
		return nil, err
	}

	slices.SortFunc(lanes, func(a, b model.Lane) int {
		return cmp.Or(cmp.Compare(a.SiteID, b.SiteID), cmp.Compare(a.Kind, b.Kind))
	})
	lanes = slices.Compact(lanes)
	return lanes[:min(len(lanes), limit)], nil
}

// dueLanes is DueLanes for one cell.
func (c cell) dueLanes(ctx context.Context, now model.Instant, afterSite int64, limit int) ([]model.Lane, error) {
	lanes, all, err := c.lanesOfFewDue(ctx, now)
	if err == nil && !all {
		lanes, err = c.lanesOfSites(ctx, now, afterSite, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("look for due deliveries: %w", err)
	}

	if all {
		lanes = slices.DeleteFunc(lanes, func(lane model.Lane) bool { return lane.SiteID <= afterSite })
	}
	return lanes[:min(len(lanes), limit)], nil
}

// lanesOfFewDue returns the lanes with due deliveries, ordered by site and kind. all is false, and the
// lanes are not complete, if more than fewDue are due.
func (c cell) lanesOfFewDue(ctx context.Context, now model.Instant) (lanes []model.Lane, all bool, err error) {
	const text = `
SELECT due.site_id, due.kind, count(*) AS deliveries, due.site_id IN (` + heldSites + `) AS held
FROM (SELECT site_id, kind FROM deliveries WHERE state = 'pending' AND next_attempt_at <= ?
  ORDER BY next_attempt_at LIMIT ?) due
GROUP BY due.site_id, due.kind ORDER BY due.site_id, due.kind`

	var rows []struct {
		model.Lane `bun:",extend"`

		Deliveries int
		Held       bool
	}
	if err := c.Read.NewRaw(text, now, fewDue+1).Scan(ctx, &rows); err != nil {
		return nil, false, err
	}

	// The query reads one row beyond fewDue, which shows that more are due.
	read := 0
	for _, row := range rows {
		read += row.Deliveries
		if !row.Held {
			lanes = append(lanes, row.Lane)
		}
	}

	return lanes, read <= fewDue, nil
}

// lanesOfSites is DueLanes if many deliveries are due.
func (c cell) lanesOfSites(
	ctx context.Context, now model.Instant, afterSite int64, limit int,
) (lanes []model.Lane, err error) {
	// The recursion takes one step per site with pending deliveries, and one index lookup for each
	// kind, whatever the number of deliveries. LIMIT keeps PostgreSQL from a join that would read
	// them all.
	const text = `
WITH RECURSIVE pending(site_id) AS (
  SELECT min(site_id) FROM deliveries WHERE state = 'pending' AND site_id > ?
  UNION ALL
  SELECT (SELECT min(d.site_id) FROM deliveries d WHERE d.state = 'pending' AND d.site_id > pending.site_id)
  FROM pending WHERE pending.site_id IS NOT NULL
), kinds(kind) AS (VALUES (?), (?), (?))
SELECT p.site_id, k.kind FROM pending p CROSS JOIN kinds k
WHERE p.site_id IS NOT NULL AND (
  SELECT d.id FROM deliveries d
  WHERE d.site_id = p.site_id AND d.kind = k.kind AND d.state = 'pending' AND d.next_attempt_at <= ?
  LIMIT 1) IS NOT NULL AND p.site_id NOT IN (` + heldSites + `)
ORDER BY p.site_id, k.kind LIMIT ?`

	err = c.Read.NewRaw(text, afterSite, model.DeliveryConversion, model.DeliveryDailyExport, model.DeliveryTest,
		now, limit).Scan(ctx, &lanes)
	return lanes, err
}

// LanePage names how many due deliveries of a lane a caller wants, at least one.
type LanePage struct {
	model.Lane
	Limit int
}

// DueDeliveries returns the due deliveries of lanes with one statement for each cell: of each lane at
// most its limit, longest due first. At most 500 lanes.
func (s *Store) DueDeliveries(
	ctx context.Context, pages []LanePage, now model.Instant,
) (map[model.Lane][]DueDelivery, error) {
	if len(pages) == 0 {
		return nil, nil
	}

	sites := make([]int64, len(pages))
	for i, page := range pages {
		sites[i] = page.SiteID
	}

	slices.Sort(sites)
	due := make(map[model.Lane][]DueDelivery, len(pages))
	err := s.db.PerCell(ctx, slices.Compact(sites), func(in *db.Cell, sites []int64) error {
		ofCell := slices.DeleteFunc(slices.Clone(pages), func(page LanePage) bool {
			_, has := slices.BinarySearch(sites, page.SiteID)
			return !has
		})
		return cell{in}.addDue(ctx, ofCell, now, due)
	})
	return due, err
}

// addDue adds the due deliveries of the lanes of one cell.
func (c cell) addDue(
	ctx context.Context, pages []LanePage, now model.Instant, due map[model.Lane][]DueDelivery,
) error {
	selects := make([]string, len(pages))
	args := make([]any, 0, 4*len(pages))
	for i, page := range pages {
		selects[i] = fmt.Sprintf(`SELECT * FROM (SELECT site_id, kind, id, tries, next_attempt_at FROM deliveries
WHERE site_id = ? AND kind = ? AND state = 'pending' AND next_attempt_at <= ?
ORDER BY next_attempt_at, id LIMIT ?) AS of_lane_%d`, i)
		args = append(args, page.SiteID, page.Kind, now, page.Limit)
	}

	var rows []DueDelivery
	err := c.Read.NewRaw(strings.Join(selects, " UNION ALL ")+" ORDER BY next_attempt_at, id", args...).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("list due deliveries of %d lanes: %w", len(pages), err)
	}

	for _, row := range rows {
		due[row.Lane] = append(due[row.Lane], row)
	}

	return nil
}

// LeaseSlack exceeds every lease of a delivery. A lease that ends later was written by a process
// with a clock ahead.
const LeaseSlack = 24 * time.Hour

// Leased is an attempt in progress, with the site's current webhook settings.
type Leased struct {
	model.Delivery
	MessageID string // identifies the delivery to its receiver; the same for each attempt
	Manual    bool   // requested by an owner
	SiteKey   string
	URL       string // empty: the site no longer has one
	Secret    string // empty: the call is not signed
	OldSecret string // signs in addition to Secret, in an overlap; otherwise empty
	Fault     error  // internal error that prevents a correct call, or nil

	// Of a message to an alert channel; otherwise nil.
	Channel *model.AlertChannel
	Message *model.AlertMessage
}

// LeaseDelivery begins an attempt of the lane's longest due delivery: it counts the attempt and
// records it as unfinished. No other process can begin an attempt of the same delivery until the
// lease ends. It returns nil if nothing is due. It ignores the deliveries in except even if the
// clock says that their leases have ended.
//
// A due delivery with a lease had a worker that died. Its attempt counts: if it was the last one,
// LeaseDelivery marks the delivery as failed and continues with the next.
func (s *Store) LeaseDelivery(
	ctx context.Context, lane model.Lane, except []int64, now model.Instant, lease time.Duration,
) (*Leased, error) {
	ids, err := s.keys.NodeIDs(ctx)
	if err != nil {
		return nil, err
	}
	if lane.ChannelID != 0 {
		return s.leaseMessage(ctx, ids, lane.ChannelID, except, now, lease)
	}

	for {
		var leased *Leased
		again := false
		err := s.db.InSiteTx(ctx, lane.SiteID, func(ctx context.Context, tx *db.CellTx) error {
			var err error
			leased, again, err = s.leaseDelivery(ctx, tx, lane, except, now, lease)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("lease a delivery of site %d: %w", lane.SiteID, err)
		}

		if leased != nil {
			leased.MessageID = ids.OfDelivery(leased.SiteID, leased.ID)
		}
		if !again {
			return leased, nil
		}
	}
}

// leaseDelivery leases a due delivery of a lane, or returns nil. again reports that it ended a
// delivery instead, which must not be tried again.
func (s *Store) leaseDelivery(
	ctx context.Context, tx *db.CellTx, lane model.Lane, except []int64, now model.Instant, lease time.Duration,
) (_ *Leased, again bool, _ error) {
	var due []model.Delivery
	q := tx.NewSelect().Model(&due).
		Where("site_id = ? AND kind = ? AND state = 'pending' AND next_attempt_at <= ?", lane.SiteID, lane.Kind, now).
		Where("NOT "+isHeld, lane.SiteID).
		OrderExpr("next_attempt_at, id").Limit(1)

	if len(except) > 0 {
		q.Where("id NOT IN ?", bun.Tuple(except))
	}

	tx.Lock(q, "UPDATE SKIP LOCKED")
	if err := q.Scan(ctx); err != nil || len(due) == 0 {
		return nil, false, err
	}

	delivery := &due[0]
	if died := delivery.LeasedUntil != 0; died &&
		(delivery.ResumeState != "" || delivery.ScheduledAttempts >= model.AttemptsOf(delivery.Kind)) {
		return nil, true, s.fail(ctx, tx, delivery, delivery.Attempts, model.AttemptUnfinished, 0, now)
	}

	leased := &Leased{Delivery: *delivery, Manual: delivery.ResumeState != ""}
	if err := s.readWebhook(ctx, tx, leased, now); err != nil {
		return nil, false, err
	}

	// A deleted site has no site key: nothing of it waits.
	if leased.URL == "" && leased.SiteKey != "" && delivery.MayWait(now) {
		return nil, true, wait(ctx, tx, delivery, except, now)
	}

	leased.Attempts++
	if !leased.Manual {
		leased.ScheduledAttempts++
	}

	leased.LeasedUntil = now.Add(lease)
	leased.NextAttemptAt, leased.CalledURL = leased.LeasedUntil, leased.URL
	_, err := tx.NewUpdate().Model(&leased.Delivery).
		Column("tries", "attempts", "claimed_until", "next_attempt_at", "url").
		Where("site_id = ? AND id = ?", leased.SiteID, leased.ID).Exec(ctx)
	if err != nil {
		return nil, false, err
	}

	attempt := model.DeliveryAttempt{
		SiteID: leased.SiteID, DeliveryID: leased.ID, N: leased.Attempts, Manual: leased.Manual, At: now,
		Error: model.AttemptUnfinished,
	}
	if _, err := tx.NewInsert().Model(&attempt).Exec(ctx); err != nil {
		return nil, false, err
	}

	return leased, false, nil
}

// readWebhook reads the URL of the delivery, and the secrets that sign it now.
func (s *Store) readWebhook(ctx context.Context, tx *db.CellTx, c *Leased, now model.Instant) error {
	var site model.Site
	err := tx.NewSelect().Model(&site).Where("id = ?", c.SiteID).Scan(ctx)
	if errors.Is(db.OrNotFound(err), model.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}

	c.SiteKey, c.URL = site.SiteKey, site.WebhookURL(c.Webhook())
	c.Secret, c.Fault = s.keys.OpenSecret(site.ID, site.ConversionWebhookSecret)

	if now < site.OldWebhookSecretUntil && c.Fault == nil {
		c.OldSecret, c.Fault = s.keys.OpenSecret(site.ID, site.OldWebhookSecret)
	}

	// A secret that cannot be opened is not an error here: the attempt counts, so that the delivery
	// does not block later deliveries forever.
	return nil
}

// AttemptResult is the outcome of an attempt.
type AttemptResult struct {
	Duration   time.Duration
	Status     int           // HTTP status; 0: no answer
	Error      string        // a class of model.DeliveryAttempt; empty: delivered
	Reason     string        // more specific than Error, for metrics only; empty: the same
	Answer     string        // beginning of the response body
	RetryAfter time.Duration // the receiver's Retry-After, or 0
}

// FinishAttempt records the outcome of an attempt and the new state of its delivery. It mails the
// site's owners about the final failure of a delivery, once a day. A late result, after another
// attempt has taken over the lease, counts only if the delivery was made.
func (s *Store) FinishAttempt(ctx context.Context, c *Leased, r AttemptResult, now model.Instant) error {
	if c.Channel != nil {
		return s.finishMessage(ctx, c, r, now)
	}

	err := s.db.InSiteTx(ctx, c.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		_, err := tx.NewUpdate().Table("delivery_attempts").
			Set("duration_ms = ?, status = ?, error = ?, answer = ?", r.Duration.Milliseconds(), r.Status, r.Error,
				model.Clean(r.Answer, model.MaxAnswer)).
			Where("site_id = ? AND delivery_id = ? AND n = ?", c.SiteID, c.ID, c.Attempts).Exec(ctx)
		if err != nil {
			return err
		}
		if r.Error != "" {
			return s.fail(ctx, tx, &c.Delivery, c.Attempts, r.Error, r.RetryAfter, now)
		}

		// No condition on the lease: the receiver has the message, even if another worker holds the
		// lease.
		_, err = tx.NewUpdate().Table("deliveries").
			Set("state = ?, claimed_until = 0, fallback = ''", model.DeliveryDelivered).
			Where("site_id = ? AND id = ?", c.SiteID, c.ID).Exec(ctx)

		return err
	})
	if err != nil {
		return fmt.Errorf("record attempt %d of delivery %d of site %d: %w", c.Attempts, c.ID, c.SiteID, err)
	}

	return nil
}

// fail records the failure of a delivery's given attempt, unless another attempt has begun since.
// The delivery is as it was when the attempt began.
func (s *Store) fail(
	ctx context.Context, tx *db.CellTx, delivery *model.Delivery, attempt int32, class string,
	retryAfter time.Duration, now model.Instant,
) error {
	state, next := delivery.AfterFailure(class, retryAfter, now)
	result, err := tx.NewUpdate().Table("deliveries").
		Set("state = ?, next_attempt_at = ?, claimed_until = 0, fallback = ''", state, next).
		Where("site_id = ? AND id = ? AND tries = ? AND state = 'pending'", delivery.SiteID, delivery.ID, attempt).
		Exec(ctx)

	// Only the end of a schedule is mailed, and neither a manual attempt, a test nor a missing
	// address.
	if err != nil || state != model.DeliveryFailed || delivery.ResumeState != "" ||
		delivery.Kind == model.DeliveryTest || class == model.AttemptNoWebhook {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}

	return queueFailureMail(ctx, tx.Tx, delivery, class, now)
}

// maxBacklog is how many deliveries a Backlog counts, first due first, so that a long backlog costs
// no more than some tens of milliseconds.
const maxBacklog = 100_000

// Backlog counts the pending deliveries at one time, at most 100,000 of them in each cell, first
// due first.
type Backlog struct {
	Pending int64
	Due     int64
	Oldest  model.Instant // when the longest due delivery became due, or 0
}

// DeliveryBacklog counts the pending deliveries of all sites that are not held, and the pending messages to alert
// channels that are not held.
func (s *Store) DeliveryBacklog(ctx context.Context, now model.Instant) (Backlog, error) {
	all, err := s.messageBacklog(ctx, now)
	if err != nil {
		return Backlog{}, err
	}

	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		backlog, err := cell{in}.backlog(ctx, now)
		all.Pending, all.Due = all.Pending+backlog.Pending, all.Due+backlog.Due
		if backlog.Oldest != 0 && (all.Oldest == 0 || backlog.Oldest < all.Oldest) {
			all.Oldest = backlog.Oldest
		}
		return err
	})
	return all, err
}

// backlog is DeliveryBacklog for one cell.
func (c cell) backlog(ctx context.Context, now model.Instant) (Backlog, error) {
	var backlog Backlog
	err := c.Read.NewRaw(`
SELECT count(*) AS pending, coalesce(sum(CASE WHEN next_attempt_at <= ?0 THEN 1 ELSE 0 END), 0) AS due,
coalesce(min(CASE WHEN next_attempt_at <= ?0 THEN next_attempt_at END), 0) AS oldest
FROM (SELECT site_id, next_attempt_at FROM deliveries WHERE state = 'pending' ORDER BY next_attempt_at LIMIT ?1) waiting
WHERE site_id NOT IN (`+heldSites+`)`, now, maxBacklog).Scan(ctx, &backlog)
	if err != nil {
		return Backlog{}, fmt.Errorf("count pending deliveries: %w", err)
	}

	return backlog, nil
}
