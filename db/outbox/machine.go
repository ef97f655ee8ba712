package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The machine that sends each row at least once, whatever its table. A row is pending until it is
// delivered or failed, and due when next_attempt_at has passed. A lease counts an attempt and sets
// next_attempt_at to its own end, so that the row becomes due again without cleanup after its
// worker died. Only this file writes the columns of leases and counts, see TestOneMachine; package
// retention moves their times after a wrong clock.

// key is a table and the columns that identify its rows.
type key struct {
	table string
	owner string // Citus distributes deliveries by it, so each statement names it; "": the id is enough
	id    string
}

// of returns the beginning of a condition on an owner's rows.
func (k key) of(owner int64) string {
	if k.owner == "" {
		return ""
	}
	return fmt.Sprintf("%s = %d AND ", k.owner, owner)
}

// is returns the condition on one row.
func (k key) is(owner, id int64) string { return fmt.Sprintf("%s%s = %d", k.of(owner), k.id, id) }

// rows describes the rows of one kind.
type rows struct {
	key
	attempts key      // of deliveries and messages
	tries    string   // column that counts all attempts, by which a late result is recognized
	leased   []string // columns that a lease changes
	settled  string   // what the end of an attempt sets
	final    string   // what a final state sets, in addition
	resumed  string   // what a manual attempt sets, in addition
}

var (
	deliveryRows = rows{
		key: key{"deliveries", "site_id", "id"}, attempts: key{"delivery_attempts", "site_id", "delivery_id"},
		tries: "tries", leased: []string{"tries", "attempts", "claimed_until", "next_attempt_at", "url"},
		settled: "claimed_until = 0, fallback = ''",
	}
	messageRows = rows{
		key: key{"alert_messages", "channel_id", "id"}, attempts: key{"alert_attempts", "", "message_id"},
		tries: "tries", leased: []string{"tries", "attempts", "claimed_until", "next_attempt_at"},
		settled: "claimed_until = 0, fallback = ''", resumed: ", mail_id = NULL",
	}

	// The account is not part of a mail's key: the mail can go over to another account during an
	// attempt, see KeepPersonalMails.
	mailRows = rows{
		key: key{"mails", "", "id"}, tries: "attempts", leased: []string{"attempts", "next_attempt_at"},
		final: "data = '" + model.NoMailData + "'",
	}
)

// due returns a query that locks an owner's longest due row, and reads it into a slice. It skips
// the rows that another worker is leasing, and the ids in except.
func (r rows) due(tx *db.Tx, to any, owner int64, except []int64, now model.Instant) *bun.SelectQuery {
	q := tx.NewSelect().Model(to).Where(r.of(owner)+"state = 'pending' AND next_attempt_at <= ?", now).
		OrderExpr("next_attempt_at, id").Limit(1)
	if len(except) > 0 {
		q.Where("id NOT IN ?", bun.Tuple(except))
	}

	tx.Lock(q, "UPDATE SKIP LOCKED")
	return q
}

// end returns a statement that ends the attempts of rows, and gives the rows a state and, unless it
// is 0, the time at which they are due.
func (r rows) end(in bun.IDB, state string, next model.Instant) *bun.UpdateQuery {
	q := in.NewUpdate().Table(r.table).Set("state = ?", state)
	if next != 0 {
		q.Set("next_attempt_at = ?", next)
	}
	if r.settled != "" {
		q.Set(r.settled)
	}
	if r.final != "" && state != model.DeliveryPending {
		q.Set(r.final)
	}
	return q
}

// settle ends the attempt of one row, and sets when the next one is due. It reports whether it
// changed the row: it does not if the given attempt, unless that is 0, is no longer the last or has
// ended already.
func (r rows) settle(
	ctx context.Context, in bun.IDB, owner, id int64, attempt int32, state string, next model.Instant,
) (bool, error) {
	q := r.end(in, state, next).Where(r.is(owner, id))
	if attempt != 0 {
		q.Where("? = ? AND state = 'pending'", bun.Ident(r.tries), attempt)
	}

	result, err := q.Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// resume makes rows due at once for a manual attempt, and keeps the state that they have
// afterwards. Waiting rows become pending: their owner has an address, so they were about to be.
func (r rows) resume(ctx context.Context, tx *db.Tx, owner int64, ids []int64, now model.Instant) error {
	_, err := tx.NewUpdate().Table(r.table).
		Set("fallback = CASE state WHEN 'waiting' THEN 'pending' ELSE state END, state = 'pending'").
		Set("next_attempt_at = ?, claimed_until = 0"+r.resumed, now).
		Where(r.of(owner)+"id IN ?", bun.Tuple(ids)).Exec(ctx)
	return err
}

// giveUp ends rows that are not attempted any more, and records the reason as their last attempt.
func giveUp(ctx context.Context, tx *db.CellTx, deliveries []model.Delivery, class string, now model.Instant) error {
	attempts, keys := make([]model.DeliveryAttempt, len(deliveries)), make([]string, len(deliveries))
	for i, d := range deliveries {
		keys[i] = fmt.Sprintf("(%d, %d)", d.SiteID, d.ID)
		attempts[i] = model.DeliveryAttempt{SiteID: d.SiteID, DeliveryID: d.ID, N: d.Attempts + 1, At: now, Error: class}
	}

	_, err := deliveryRows.end(tx, model.DeliveryFailed, 0).Set("tries = tries + 1, attempts = attempts + 1").
		Where("(site_id, id) IN (VALUES " + strings.Join(keys, ",") + ")").Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(&attempts).Exec(ctx)
	return err
}

// source is a lane within a transaction: what the kinds of rows do differently around an attempt.
type source interface {
	at() *line

	// next locks and reads the next due row. It returns nil if nothing is due.
	next(ctx context.Context, except []int64, now model.Instant) (*Leased, error)
	// prepare reads what the attempt needs. It returns false if it has postponed or ended the row
	// instead.
	prepare(ctx context.Context, c *Leased, except []int64, now model.Instant) (bool, error)
	// failed follows a failed attempt that gave the row a state.
	failed(ctx context.Context, c *Leased, state, class string, now model.Instant) error
}

// line is what all sources have.
type line struct {
	rows
	tx    *db.Tx
	owner int64
}

func (l *line) at() *line { return l }

// take locks the next due row of a source and counts an attempt of it. It returns nil if nothing is
// due. again reports that it ended or postponed a row instead: the next one can be taken after a
// commit.
func take(
	ctx context.Context, from source, except []int64, now model.Instant,
) (_ *Leased, again bool, _ error) {
	c, err := from.next(ctx, except, now)
	if c == nil || err != nil {
		return nil, false, err
	}

	// A due row with a lease had a worker that died. Its attempt counts, so it can have been the
	// last one.
	if c.LeasedUntil != 0 && (c.ResumeState != "" || c.ScheduledAttempts >= model.AttemptsOf(c.Kind)) {
		return nil, true, fail(ctx, from, c, model.AttemptUnfinished, 0, now)
	}

	c.Manual = c.ResumeState != ""
	if ready, err := from.prepare(ctx, c, except, now); !ready || err != nil {
		return nil, err == nil, err
	}

	c.Attempts++
	if !c.Manual {
		c.ScheduledAttempts++
	}
	return c, false, nil
}

// leaseNext takes the next due row of a source, and keeps it from other workers until the lease
// ends.
func leaseNext(
	ctx context.Context, from source, except []int64, now model.Instant, lease time.Duration,
) (_ *Leased, again bool, _ error) {
	c, again, err := take(ctx, from, except, now)
	if c == nil || err != nil {
		return nil, again, err
	}

	c.LeasedUntil = now.Add(lease)
	c.NextAttemptAt, c.CalledURL = c.LeasedUntil, c.URL
	return c, false, begin(ctx, from, c, model.AttemptUnfinished, now)
}

// begin stores the counts and the lease of a row, and its new attempt.
func begin(ctx context.Context, from source, c *Leased, class string, now model.Instant) error {
	at := from.at()
	if err := at.save(ctx, at.tx, &c.Delivery, at.owner, c.ID); err != nil {
		return err
	}
	return at.addAttempt(ctx, at.tx, at.owner, &c.Delivery, c.Manual, class, now)
}

// save stores the columns that a lease changes, of a row with such columns.
func (r rows) save(ctx context.Context, tx *db.Tx, row any, owner, id int64) error {
	_, err := tx.NewUpdate().Model(row).ModelTableExpr(r.table).Column(r.leased...).Where(r.is(owner, id)).Exec(ctx)
	return err
}

// addAttempt stores the last attempt of a row.
func (r rows) addAttempt(
	ctx context.Context, tx *db.Tx, owner int64, d *model.Delivery, manual bool, class string, now model.Instant,
) error {
	columns, values := r.attempts.id, fmt.Sprint(d.ID)
	if r.attempts.owner != "" {
		columns, values = r.attempts.owner+", "+columns, fmt.Sprintf("%d, %s", owner, values)
	}

	_, err := tx.ExecContext(ctx, "INSERT INTO "+r.attempts.table+" ("+columns+
		", n, manual, at, duration_ms, status, error, answer) VALUES ("+values+", ?, ?, ?, 0, 0, ?, '')",
		d.Attempts, manual, now, class)
	return err
}

// lastAttempts returns the last model.ShownAttempts attempts of rows, in order.
func lastAttempts[OwnerID ~int64](
	ctx context.Context, read *bun.DB, r rows, owners []OwnerID, ids []int64,
) (list []*model.DeliveryAttempt, err error) {
	a := r.attempts
	q := read.NewSelect().TableExpr(a.table+" AS a").Join("JOIN "+r.table+" AS d ON d.id = a."+a.id).
		ColumnExpr("a."+a.id+" AS delivery_id, a.n, a.manual, a.at, a.duration_ms, a.status, a.error, a.answer").
		Where("a."+a.id+" IN ?", bun.Tuple(ids)).Where("a.n > d.tries - ?", model.ShownAttempts)
	if a.owner != "" {
		owner := "a." + a.owner
		q.ColumnExpr(owner).Where(owner+" = d."+r.owner).Where(owner+" IN ?", bun.Tuple(owners)).OrderExpr(owner)
	}

	err = q.OrderExpr("a."+a.id+", a.n").Scan(ctx, &list)
	return list, err
}

// finish records the outcome of an attempt, and the row's new state.
func finish(ctx context.Context, from source, c *Leased, r AttemptResult, now model.Instant) error {
	at := from.at()
	_, err := at.tx.NewUpdate().Table(at.attempts.table).
		Set("duration_ms = ?, status = ?, error = ?, answer = ?", r.Duration.Milliseconds(), r.Status, r.Error,
			model.Clean(r.Answer, model.MaxAnswer)).
		Where(at.attempts.is(at.owner, c.ID)).Where("n = ?", c.Attempts).Exec(ctx)
	if err != nil {
		return err
	}
	if class := c.class(r); class != "" {
		return fail(ctx, from, c, class, r.RetryAfter, now)
	}

	// No condition on the lease: the receiver has the message, even if another worker holds the
	// lease.
	_, err = at.settle(ctx, at.tx, at.owner, c.ID, 0, model.DeliveryDelivered, 0)
	return err
}

// fail records the failure of a row's last attempt, unless another attempt has begun since. The row
// is as it was when the attempt began.
func fail(
	ctx context.Context, from source, c *Leased, class string, retryAfter time.Duration, now model.Instant,
) error {
	state, next := c.AfterFailure(class, retryAfter, now)
	if state == model.DeliveryPending {
		next = c.afterQuiet(next)
	}

	at := from.at()
	changed, err := at.settle(ctx, at.tx, at.owner, c.ID, c.Attempts, state, next)
	if err != nil || !changed {
		return err
	}
	return from.failed(ctx, c, state, class, now)
}

// LeaseSlack exceeds every lease of a delivery. A lease that ends later was written by a process
// with a clock ahead.
const LeaseSlack = 24 * time.Hour

// mayRedeliver returns an error, for a field of an input, while an attempt of a row is in progress,
// and after too many manual ones.
func mayRedeliver(d *model.Delivery, field, noun string, now model.Instant) error {
	if d.ResumeState != "" || d.State == model.DeliveryPending && d.LeasedUntil > now &&
		d.LeasedUntil <= now.Add(LeaseSlack) {
		return inProgress(field, noun)
	}
	if d.Attempts-d.ScheduledAttempts >= model.MaxRedeliveries {
		return &model.Error{Kind: model.Conflict, Code: "too_many_redeliveries", Field: field,
			Message: fmt.Sprintf("This %s was sent again %d times already.", noun, model.MaxRedeliveries)}
	}
	return nil
}

func inProgress(field, noun string) error {
	return &model.Error{Kind: model.Conflict, Code: "delivery_in_progress", Field: field,
		Message: "This " + noun + " is being sent right now."}
}

// maxBacklog is how many rows a Backlog counts, first due first, so that a long backlog costs no
// more than some tens of milliseconds.
const maxBacklog = 100_000

// Backlog counts the pending deliveries at one time, at most 100,000 of them in each cell, first
// due first.
type Backlog struct {
	Pending int64
	Due     int64
	Oldest  model.Instant // when the longest due delivery became due, or 0
}

// addBacklog counts the pending rows of a table, without the owners that a query selects.
func (r rows) addBacklog(ctx context.Context, read *bun.DB, held string, now model.Instant, to *Backlog) error {
	var b Backlog
	err := read.NewRaw(`
SELECT count(*) AS pending, coalesce(sum(CASE WHEN next_attempt_at <= ?0 THEN 1 ELSE 0 END), 0) AS due,
coalesce(min(CASE WHEN next_attempt_at <= ?0 THEN next_attempt_at END), 0) AS oldest
FROM (SELECT `+r.owner+`, next_attempt_at FROM `+r.table+` WHERE state = 'pending' ORDER BY next_attempt_at LIMIT ?1) waiting
WHERE `+r.owner+` NOT IN (`+held+`)`, now, maxBacklog).Scan(ctx, &b)
	if err != nil {
		return fmt.Errorf("count pending %s: %w", r.table, err)
	}

	to.Pending, to.Due = to.Pending+b.Pending, to.Due+b.Due
	if b.Oldest != 0 && (to.Oldest == 0 || b.Oldest < to.Oldest) {
		to.Oldest = b.Oldest
	}
	return nil
}
