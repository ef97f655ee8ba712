package captcha

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// StoreTimeout bounds all of a request's waits for the database together: for the sitekey and
	// for the commit of its claim. After it the request is answered with 503. Half of it bounds the
	// storing of one batch. A claim whose deadline is nearer than that when its turn comes is
	// refused instead of committed: a token consumed by a request that is answered with 503 would
	// be lost.
	StoreTimeout = 5 * time.Second
	// claimSize is the approximate size of a claim in a batch, in bytes.
	claimSize = 64
)

// claim is the request to consume a challenge or a token.
type claim struct {
	sitekey  *sitekey
	deadline time.Time
	isToken  bool

	key     model.ConsumedKey
	account model.AccountID // whose quota it counts against
	at      model.Instant
	counted bool // against the quota

	// The cell of the key, if it is not that of the batch.
	elsewhere int64
	schema    string
}

// setSitekey sets what depends on the sitekey.
func (c *claim) setSitekey(key *sitekey) {
	c.sitekey, c.key.AccountID, c.account = key, key.claims, key.accountID
	c.counted = c.isToken && key.isCounted()
}

// Cell returns the cell of the usage. Without usage it is a transaction of the claim's cell alone.
func (c *claim) Cell() int64 {
	if c.counted {
		return c.sitekey.cell
	}
	return c.sitekey.claimCell
}

// Deadline implements batch.Item.
func (c *claim) Deadline() time.Time { return c.deadline }

func (c *claim) usageKey() model.CaptchaUsageKey {
	return model.CaptchaUsageKey{AccountID: c.account, Month: c.at.Month()}
}

// outcome is the result of a claim.
type outcome uint8

const (
	notOurs            outcome = iota // no token; never reaches the writer
	foreign                           // another sitekey's token; never reaches the writer
	expired                           // a token that is too old; never reaches the writer
	claimed                           // consumed by this request, in a committed transaction
	claimedFromReserve                // likewise, with the quota used up before
	duplicate                         // consumed before
	overQuota                         // quota and reserve are used up; the token is not consumed
	accountSuspended                  // the account is suspended; the token is not consumed
	sitekeyDeleted                    // the sitekey was deleted after it was cached
	accountMoved                      // the account is in another cell than the sitekey says, is being moved, or is deleted
)

// claim consumes a challenge of the sitekey or, if counted, a token, and waits until that is
// committed. A request that ends before the writer took its claim withdraws it. After that, its
// challenge or token is consumed. While the account is moved to another cell, the claim waits until
// its deadline.
func (s *Service) claim(
	ctx context.Context, deadline time.Time, key *sitekey, id [16]byte, issued time.Time, now time.Time, isToken bool,
) (outcome, error) {
	c := &claim{
		deadline: deadline, isToken: isToken, at: model.At(now), key: model.ConsumedKey{IssuedAt: model.At(issued), ID: id},
	}
	c.setSitekey(key)

	result, err := s.writers.Do(ctx, c)
	switch {
	case errors.Is(err, errSitekey):
		return sitekeyDeleted, nil
	case errors.Is(err, errSuspended):
		return accountSuspended, nil
	case err != nil:
		return notOurs, unavailable(err)
	}
	return result, nil
}

// cellWriter is the writer of claims of a cell.
type cellWriter struct {
	*writer
	db *db.DB
}

// Do stores a claim. Its key can be in another cell than its usage.
func (l cellWriter) Do(ctx context.Context, c *claim) (outcome, error) {
	c.elsewhere, c.schema = 0, ""
	if c.Cell() != c.sitekey.claimCell {
		in, err := l.db.Cell(ctx, c.sitekey.claimCell)
		if err != nil {
			return notOurs, err
		}
		c.elsewhere, c.schema = in.ID, in.QuotedSchema()
	}

	return l.DoBefore(ctx, c.deadline, c, claimSize)
}

// ClaimStore claims challenges and tokens in batches; see ingest.Batches.
type ClaimStore = batch.Store[ingest.ClaimKeys, ingest.ClaimState, ingest.ClaimChanges]

// writer decides and commits claims in batches.
type writer = batch.Writer[*claim, ingest.ClaimKeys, ingest.ClaimState, ingest.ClaimChanges, outcome]

// newWriter returns a writer for claims whose deadline is the timeout. observer may be nil.
func newWriter(store ClaimStore, timeout time.Duration, observer *batch.Observer) *writer {
	return batch.NewWriter(store, batch.Rules[*claim, ingest.ClaimKeys, ingest.ClaimState, ingest.ClaimChanges, outcome]{
		Keys:   keysOf,
		Decide: decide,
	}, batch.Options{Timeout: timeout / 2, RolledBack: ingest.IsRolledBack, Isolate: db.IsBadData, Observer: observer})
}

// newWriters returns the writers of each cell; the store is for the own one.
func (s *Service) newWriters(own *db.Cell, store ClaimStore, timeout time.Duration, observer *batch.Observer) *cellWriters {
	open := func(ctx context.Context, id int64) (cellWriter, error) {
		cell, err := own.Common.Cell(ctx, id)
		if err != nil {
			return cellWriter{}, err
		}
		return cellWriter{newWriter(ingest.NewClaimStore(cell), timeout, observer), own.Common}, nil
	}
	return batch.NewCells(own.ID, cellWriter{newWriter(store, timeout, observer), own.Common},
		batch.CellRules[*claim, outcome, cellWriter]{Open: open, Moved: accountMoved, Find: s.findCell})
}

// cellWriters are the writers of each cell.
type cellWriters = batch.Cells[*claim, outcome, cellWriter]

// keysOf lists what a batch locks and claims, each key once and in order.
func keysOf(claims []*claim) ingest.ClaimKeys {
	keys := ingest.ClaimKeys{Consumed: make([]model.ConsumedKey, 0, len(claims))}
	for _, c := range claims {
		if c.elsewhere == 0 {
			keys.Consumed = append(keys.Consumed, c.key)
		} else {
			addElsewhere(&keys, c)
		}

		if c.counted {
			keys.Usage = append(keys.Usage, c.usageKey())
		}
	}

	keys.Consumed = sorted(keys.Consumed)
	for i := range keys.Elsewhere {
		keys.Elsewhere[i].Consumed = sorted(keys.Elsewhere[i].Consumed)
	}
	slices.SortFunc(keys.Usage, model.CaptchaUsageKey.Compare)
	keys.Usage = slices.Compact(keys.Usage)

	return keys
}

// addElsewhere adds the key of a claim to those of its cell, which are in the order of the cells.
func addElsewhere(keys *ingest.ClaimKeys, c *claim) {
	i, found := slices.BinarySearchFunc(keys.Elsewhere, c.elsewhere, func(in ingest.ClaimsInCell, cell int64) int {
		return cmp.Compare(in.Cell, cell)
	})
	if !found {
		keys.Elsewhere = slices.Insert(keys.Elsewhere, i, ingest.ClaimsInCell{Cell: c.elsewhere, Schema: c.schema})
	}
	keys.Elsewhere[i].Consumed = append(keys.Elsewhere[i].Consumed, c.key)
}

// sorted returns keys in order, each once.
func sorted(keys []model.ConsumedKey) []model.ConsumedKey {
	slices.SortFunc(keys, model.ConsumedKey.Compare)
	return slices.Compact(keys)
}

// decide applies the contract's tables of tokens and quota (captcha contract, section 3) to a
// batch, claim by claim in the order of arrival. It changes neither state nor claims, so it may run
// again.
func decide(state *ingest.ClaimState, claims []*claim) (*ingest.ClaimChanges, []outcome) {
	d := decision{
		state:    state,
		consumed: make(map[model.ConsumedKey]bool, len(claims)),
		changes:  ingest.ClaimChanges{Usage: make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(state.Usage))},
	}

	outcomes := make([]outcome, len(claims))
	for i, c := range claims {
		outcomes[i] = d.take(c)
	}

	d.listReleased()
	return &d.changes, outcomes
}

// decision is the work in progress of decide.
type decision struct {
	state    *ingest.ClaimState         // as it was read
	consumed map[model.ConsumedKey]bool // by a claim of the batch
	changes  ingest.ClaimChanges
}

// take decides one claim. After the first claim that consumes a key, the others of the batch are
// duplicates.
func (d *decision) take(c *claim) outcome {
	switch {
	case d.state.Astray[c.key]:
		return accountMoved
	case !d.state.Claimed[c.key] || d.consumed[c.key]:
		return duplicate
	}

	result := d.count(c)
	if result == claimed || result == claimedFromReserve {
		d.consumed[c.key] = true
	}

	return result
}

// count counts a genuine, unused token against its account's quota, if there is room.
func (d *decision) count(c *claim) outcome {
	if !c.counted {
		return claimed
	}

	key := c.usageKey()
	usage, ok := d.changes.Usage[key]
	if !ok {
		usage, ok = d.state.Usage[key]
		if !ok {
			return accountMoved
		}
	}

	result := claimed

	switch usage.Standing(c.at) {
	case model.Exhausted:
		return overQuota
	case model.InReserve:
		result = claimedFromReserve
	}

	if threshold := usage.Count(c.at); threshold > 0 {
		d.changes.Notices = append(d.changes.Notices, ingest.QuotaNotice{
			CaptchaUsageKey: key, Threshold: threshold, Quota: usage.Quota, CreatedAt: c.at,
		})
	}

	d.changes.Usage[key] = usage
	return result
}

// listReleased lists the claimed keys that no claim consumed.
func (d *decision) listReleased() {
	for key := range d.state.Claimed {
		if !d.consumed[key] {
			d.changes.Release = append(d.changes.Release, key)
		}
	}

	slices.SortFunc(d.changes.Release, model.ConsumedKey.Compare)
}
