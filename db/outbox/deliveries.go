package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// This file is the outbox as the worker uses it. A delivery is pending until it is delivered or
// failed. It is due when its next_attempt_at has come; an attempt under way has moved that to the
// end of its claim, so that a delivery whose worker died is due again by itself.

// DueDelivery is a delivery that is due, as a bell names it.
type DueDelivery struct {
	model.Lane `bun:",extend"`

	ID            int64
	Tries         int32
	NextAttemptAt model.Instant
}

// DueLanes returns the lanes that have something due, at most limit, of sites after the given one
// and in their order.
func (s *Store) DueLanes(ctx context.Context, now model.Instant, afterSite int64, limit int) ([]model.Lane, error) {
	// One step per site with anything pending, and one look into the index for each of its kinds:
	// the number of deliveries does not matter. A LIMIT keeps PostgreSQL from joining, which would
	// read them all.
	const text = `
WITH RECURSIVE pending(site_id) AS (
  SELECT min(site_id) FROM deliveries WHERE state = 'pending' AND site_id > ?
  UNION ALL
  SELECT (SELECT min(d.site_id) FROM deliveries d WHERE d.state = 'pending' AND d.site_id > pending.site_id)
  FROM pending WHERE pending.site_id IS NOT NULL
), kinds(kind) AS (VALUES (?), (?), (?))
SELECT p.site_id, k.kind FROM pending p CROSS JOIN kinds k
WHERE p.site_id IS NOT NULL AND (
  SELECT d.id FROM deliveries d WHERE d.site_id = p.site_id AND d.kind = k.kind AND d.state = 'pending' AND d.next_attempt_at <= ?
  LIMIT 1) IS NOT NULL
ORDER BY p.site_id, k.kind LIMIT ?`

	var lanes []model.Lane
	err := s.db.Read.NewRaw(text, afterSite, model.DeliveryConversion, model.DeliveryDailyExport, model.DeliveryTest, now, limit).Scan(ctx, &lanes)
	if err != nil {
		return nil, fmt.Errorf("look for due deliveries: %w", err)
	}

	return lanes, nil
}

// DueDeliveries returns at most limit due deliveries of a lane, the longest due first.
func (s *Store) DueDeliveries(ctx context.Context, lane model.Lane, now model.Instant, limit int) ([]DueDelivery, error) {
	var due []DueDelivery
	err := s.db.Read.NewSelect().Table("deliveries").Column("site_id", "kind", "id", "tries", "next_attempt_at").
		Where("site_id = ? AND kind = ? AND state = 'pending' AND next_attempt_at <= ?", lane.SiteID, lane.Kind, now).
		OrderExpr("next_attempt_at, id").Limit(int64(limit)).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("list due deliveries of site %d: %w", lane.SiteID, err)
	}

	return due, nil
}

// LeaseSlack is longer than any lease of a delivery: one that ends later is of a clock that was
// ahead.
const LeaseSlack = 24 * time.Hour

// Claim is an attempt that is under way, with what it needs to know of the site as it is now.
type Claim struct {
	model.Delivery
	MessageID string // names the delivery to its receiver: the same at each attempt, and no other delivery's
	Manual    bool   // asked for by an owner
	SiteKey   string
	URL       string // empty: the site has none any more
	Secret    string // empty: nothing is signed
	Fault     error  // why the delivery cannot be sent as it should, which is our own fault; nil: it can
}

// ClaimDelivery begins an attempt of the lane's longest due delivery: it counts the attempt and
// records it as unfinished. Nobody else can begin one of the same delivery before lease has passed.
// It returns nil when nothing is due. Deliveries in except are left alone, also when the clock says
// that their claim is over.
//
// A due delivery that is claimed still had a worker that died. Its attempt was made, so when it was
// the last one, the delivery has failed; ClaimDelivery notes that and looks on.
func (s *Store) ClaimDelivery(ctx context.Context, lane model.Lane, except []int64, now model.Instant, lease time.Duration) (*Claim, error) {
	ids, err := s.keys.NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	for {
		var claim *Claim
		again := false
		err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			var err error
			claim, again, err = s.claimDelivery(ctx, tx, lane, except, now, lease)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("claim a delivery of site %d: %w", lane.SiteID, err)
		}

		if claim != nil {
			claim.MessageID = ids.OfDelivery(claim.SiteID, claim.ID)
		}
		if !again {
			return claim, nil
		}
	}
}

func (s *Store) claimDelivery(ctx context.Context, tx *db.Tx, lane model.Lane, except []int64, now model.Instant, lease time.Duration) (_ *Claim, again bool, _ error) {
	var due []model.Delivery
	q := tx.NewSelect().Model(&due).
		Where("site_id = ? AND kind = ? AND state = 'pending' AND next_attempt_at <= ?", lane.SiteID, lane.Kind, now).
		OrderExpr("next_attempt_at, id").Limit(1)

	if len(except) > 0 {
		q.Where("id NOT IN ?", bun.Tuple(except))
	}

	tx.Lock(q, "UPDATE SKIP LOCKED")
	if err := q.Scan(ctx); err != nil || len(due) == 0 {
		return nil, false, err
	}

	delivery := &due[0]
	if died := delivery.ClaimedUntil != 0; died && (delivery.Fallback != "" || delivery.Attempts >= model.AttemptsOf(delivery.Kind)) {
		return nil, true, s.fail(ctx, tx, delivery, delivery.Tries, model.AttemptUnfinished, 0, now)
	}

	claim := &Claim{Delivery: *delivery, Manual: delivery.Fallback != ""}
	claim.Tries++
	if !claim.Manual {
		claim.Attempts++
	}

	claim.ClaimedUntil = now.Add(lease)
	claim.NextAttemptAt = claim.ClaimedUntil
	if _, err := tx.NewUpdate().Model(&claim.Delivery).Column("tries", "attempts", "claimed_until", "next_attempt_at").
		Where("site_id = ? AND id = ?", claim.SiteID, claim.ID).Exec(ctx); err != nil {
		return nil, false, err
	}

	attempt := model.DeliveryAttempt{
		SiteID: claim.SiteID, DeliveryID: claim.ID, N: claim.Tries, Manual: claim.Manual, At: now, Error: model.AttemptUnfinished,
	}
	if _, err := tx.NewInsert().Model(&attempt).Exec(ctx); err != nil {
		return nil, false, err
	}

	return claim, false, s.readWebhook(ctx, tx, claim)
}

// readWebhook reads where the claim's delivery goes, and the secret it is signed with.
func (s *Store) readWebhook(ctx context.Context, tx *db.Tx, c *Claim) error {
	var site model.Site
	err := tx.NewSelect().Model(&site).Where("id = ?", c.SiteID).Scan(ctx)
	if errors.Is(db.OrNotFound(err), model.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}

	c.SiteKey, c.URL = site.SiteKey, site.ConversionWebhookURL
	if c.Kind == model.DeliveryDailyExport {
		c.URL = site.DailyExportURL
	}

	c.Secret, c.Fault = s.keys.OpenSecret(site.ID, site.ConversionWebhookSecret)

	// the attempt counts: a secret that never opens must not hold up what is behind it for ever
	return nil
}

// AttemptResult is how an attempt ended.
type AttemptResult struct {
	Duration   time.Duration
	Status     int           // of HTTP; 0: no answer
	Error      string        // a class of model.DeliveryAttempt; empty: delivered
	Reason     string        // more exact than Error, for metrics; not stored; empty: the same
	Answer     string        // how the answer's body begins
	RetryAfter time.Duration // what the receiver asked for; 0: nothing
}

// FinishAttempt records how an attempt ended, and what becomes of its delivery. The site's owners
// are told of a delivery's last failure by mail, once a day. A late result, of an attempt whose
// claim had passed to another one, counts only if the delivery was made.
func (s *Store) FinishAttempt(ctx context.Context, c *Claim, r AttemptResult, now model.Instant) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.NewUpdate().Table("delivery_attempts").
			Set("duration_ms = ?, status = ?, error = ?, answer = ?", r.Duration.Milliseconds(), r.Status, r.Error, model.Clean(r.Answer, model.MaxAnswer)).
			Where("site_id = ? AND delivery_id = ? AND n = ?", c.SiteID, c.ID, c.Tries).Exec(ctx)
		if err != nil {
			return err
		}
		if r.Error != "" {
			return s.fail(ctx, tx, &c.Delivery, c.Tries, r.Error, r.RetryAfter, now)
		}

		_, err = tx.NewUpdate().Table("deliveries").Set("state = ?, claimed_until = 0, fallback = ''", model.DeliveryDelivered).
			Where("site_id = ? AND id = ?", c.SiteID, c.ID).Exec(ctx)

		return err
	})
	if err != nil {
		return fmt.Errorf("record attempt %d of delivery %d of site %d: %w", c.Tries, c.ID, c.SiteID, err)
	}

	return nil
}

// fail records a failure of a delivery, as it was when its try number tries began, unless another
// one has begun since.
func (s *Store) fail(ctx context.Context, tx *db.Tx, delivery *model.Delivery, tries int32, class string, retryAfter time.Duration, now model.Instant) error {
	state, next := delivery.AfterFailure(class, retryAfter, now)
	result, err := tx.NewUpdate().Table("deliveries").Set("state = ?, next_attempt_at = ?, claimed_until = 0, fallback = ''", state, next).
		Where("site_id = ? AND id = ? AND tries = ? AND state = 'pending'", delivery.SiteID, delivery.ID, tries).Exec(ctx)
	if err != nil || state != model.DeliveryFailed || delivery.Fallback != "" || delivery.Kind == model.DeliveryTest || class == model.AttemptNoWebhook {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}

	return queueFailureMail(ctx, tx, delivery, class, now)
}

// Backlog is what the outbox holds at a moment.
type Backlog struct {
	Pending int64
	Due     int64
	Oldest  model.Instant // when the longest due delivery became due; 0: none is
}

// DeliveryBacklog counts what is pending. It reads the index of all of that, so it is for a look
// now and then.
func (s *Store) DeliveryBacklog(ctx context.Context, now model.Instant) (Backlog, error) {
	var rows []Backlog
	err := s.db.Read.NewRaw(`SELECT count(*) AS pending, coalesce(sum(CASE WHEN next_attempt_at <= ?0 THEN 1 ELSE 0 END), 0) AS due,
coalesce(min(CASE WHEN next_attempt_at <= ?0 THEN next_attempt_at END), 0) AS oldest FROM deliveries WHERE state = 'pending'`, now).Scan(ctx, &rows)
	if err != nil {
		return Backlog{}, fmt.Errorf("count pending deliveries: %w", err)
	}
	return slices.Concat(rows, []Backlog{{}})[0], nil
}
