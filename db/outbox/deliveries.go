package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// The worker's view of deliveries, and of messages to alert channels, which are attempted as
// deliveries are. A delivery without an address waits, see waiting.go.

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

// fewDue is up to how many due deliveries DueLanes reads them in the order of time, whatever else
// is pending. Beyond, it asks each site with pending deliveries.
const fewDue = 2_000

// DueLanes returns at most limit lanes with due deliveries, of sites after the given one, ordered
// by site and kind. Lanes of held sites are left out. Its cost follows the due deliveries:
// deliveries that wait for a later attempt cost nothing until more than fewDue are due.
func (s *Store) DueLanes(ctx context.Context, now model.Instant, afterSite model.SiteID, limit int) ([]model.Lane, error) {
	var lanes []model.Lane
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		due, err := cell{in}.dueLanes(ctx, now, afterSite, limit)
		lanes = append(lanes, due...)
		return err
	})

	// A cell that cannot be read does not delay the others' deliveries, unless it hides all of
	// them.
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
func (c cell) dueLanes(ctx context.Context, now model.Instant, afterSite model.SiteID, limit int) ([]model.Lane, error) {
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

// lanesOfFewDue returns the lanes with due deliveries, ordered by site and kind. all is false, and
// the lanes are not complete, if more than fewDue are due.
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
	ctx context.Context, now model.Instant, afterSite model.SiteID, limit int,
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

// DueDeliveries returns the due deliveries of lanes with one statement for each cell: of each lane
// at most its limit, longest due first. At most 500 lanes.
func (s *Store) DueDeliveries(
	ctx context.Context, pages []LanePage, now model.Instant,
) (map[model.Lane][]DueDelivery, error) {
	if len(pages) == 0 {
		return nil, nil
	}

	sites := make([]model.SiteID, len(pages))
	for i, page := range pages {
		sites[i] = page.SiteID
	}

	slices.Sort(sites)
	due := make(map[model.Lane][]DueDelivery, len(pages))
	err := s.db.PerCell(ctx, slices.Compact(sites), func(in *db.Cell, sites []model.SiteID) error {
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

// lane returns the lane of the delivery or message.
func (c *Leased) lane() model.Lane {
	if c.Channel != nil {
		return model.Lane{Kind: model.DeliveryAlert, ChannelID: c.Channel.ID}
	}
	return model.Lane{SiteID: c.SiteID, Kind: c.Kind}
}

// inLane runs a function in a transaction with the source of a lane.
func (s *Store) inLane(ctx context.Context, lane model.Lane, do func(ctx context.Context, from source) error) error {
	if lane.ChannelID != 0 {
		return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			return do(ctx, &channelSource{line: line{messageRows, tx, lane.ChannelID}, store: s})
		})
	}

	return s.db.InSiteTx(ctx, lane.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		return do(ctx, &siteSource{line: line{deliveryRows, tx.Tx, int64(lane.SiteID)}, store: s, cell: tx, kind: lane.Kind})
	})
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

	var leased *Leased
	for again := true; again; {
		err := s.inLane(ctx, lane, func(ctx context.Context, from source) (err error) {
			leased, again, err = leaseNext(ctx, from, except, now, lease)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("lease a delivery of %+v: %w", lane, err)
		}
	}

	switch {
	case leased == nil:
	case leased.Channel != nil:
		leased.MessageID = ids.Of(nodeid.AlertMessage, leased.ID)
	default:
		leased.MessageID = ids.OfDelivery(leased.SiteID, leased.ID)
	}
	return leased, nil
}

// siteSource is the lane of a site's deliveries of one kind.
type siteSource struct {
	line
	store *Store
	cell  *db.CellTx
	kind  string
}

func (f *siteSource) next(ctx context.Context, except []int64, now model.Instant) (*Leased, error) {
	var due []model.Delivery
	err := f.due(f.cell.Tx, &due, f.owner, except, now).Where("kind = ?", f.kind).Where("NOT "+isHeld, f.owner).Scan(ctx)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	return &Leased{Delivery: due[0]}, nil
}

// prepare reads the site's address. Without one, the delivery waits, unless the site was deleted.
func (f *siteSource) prepare(ctx context.Context, c *Leased, except []int64, now model.Instant) (bool, error) {
	if err := f.store.readWebhook(ctx, f.cell, c, now); err != nil {
		return false, err
	}

	// A deleted site has no site key: nothing of it waits.
	if c.URL == "" && c.SiteKey != "" && c.MayWait(now) {
		return false, wait(ctx, f.cell, &c.Delivery, except, now)
	}
	return true, nil
}

// failed mails the end of a schedule, but neither of a manual attempt, a test nor for a missing
// address.
func (f *siteSource) failed(ctx context.Context, c *Leased, state, class string, now model.Instant) error {
	if state != model.DeliveryFailed || c.ResumeState != "" || c.Kind == model.DeliveryTest ||
		class == model.AttemptNoWebhook {
		return nil
	}
	return queueFailureMail(ctx, f.tx, &c.Delivery, class, now)
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
	c.Secret, c.Fault = s.keys.Open(keys.WebhookSecret(site.ID), site.ConversionWebhookSecret)

	if now < site.OldWebhookSecretUntil && c.Fault == nil {
		c.OldSecret, c.Fault = s.keys.Open(keys.WebhookSecret(site.ID), site.OldWebhookSecret)
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
	err := s.inLane(ctx, c.lane(), func(ctx context.Context, from source) error {
		if channel, ok := from.(*channelSource); ok {
			return channel.finish(ctx, c, r, now)
		}
		return finish(ctx, from, c, r, now)
	})
	if err != nil {
		return fmt.Errorf("record attempt %d of delivery %d of %+v: %w", c.Attempts, c.ID, c.lane(), err)
	}

	return nil
}

// DeliveryBacklog counts the pending deliveries of all sites that are not held, and the pending
// messages to alert channels that are not held.
func (s *Store) DeliveryBacklog(ctx context.Context, now model.Instant) (all Backlog, err error) {
	if err := messageRows.addBacklog(ctx, s.db.Read, heldChannels, now, &all); err != nil {
		return all, err
	}

	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		return deliveryRows.addBacklog(ctx, in.Read, heldSites, now, &all)
	})
	return all, err
}
