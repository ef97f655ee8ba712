package captcha

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// storeTimeout bounds a request's waits for the database, all of them together: for the sitekey
	// and for its claim to be committed. Then it is told 503. The storing of one batch is bounded
	// by half of that: a claim that waited so long for its turn that less is left is refused
	// instead of committed, since a token that is used up by a request that is told 503 would be
	// lost.
	storeTimeout = 5 * time.Second
	// claimSize is about what a claim takes in a batch, in bytes.
	claimSize = 64
)

// claim is a challenge or a token on its way to being used up.
type claim struct {
	key     model.SpentKey
	at      model.Instant
	counted bool // against the quota of the account
}

func (c *claim) usageKey() model.CaptchaUsageKey {
	return model.CaptchaUsageKey{AccountID: c.key.AccountID, Month: c.at.Month()}
}

// outcome is what became of a token or challenge.
type outcome uint8

const (
	notOurs            outcome = iota // no token, or another sitekey's; never reaches the writer
	claimed                           // used up by this request, by a committed transaction
	claimedFromReserve                // likewise, with the quota used up before
	duplicate                         // used up before, or too old
	overQuota                         // quota and reserve are used up; the token is not
	accountGone                       // the account was deleted since the snapshot
)

// claim waits until the claim is decided and committed. A request that leaves before the writer
// took its claim takes it back; after that, its challenge or token is used up.
func (s *Service) claim(ctx context.Context, deadline time.Time, c *claim) (outcome, error) {
	result, err := s.writer.queue.DoBefore(ctx, deadline, c, claimSize)
	if err != nil {
		return notOurs, errUnavailable(err)
	}
	return result, nil
}

// writer makes claims in batches. Everything in it belongs to the queue's one goroutine.
type writer struct {
	queue *batch.Queue[*claim, outcome]
	store db.CaptchaStore
}

// newWriter returns a writer for claims whose deadline is the timeout.
func newWriter(store db.CaptchaStore, timeout time.Duration) *writer {
	w := &writer{store: store}
	w.queue = batch.New(w.commit, batch.Options{Timeout: timeout / 2, Isolate: db.IsBadData})
	return w
}

func (w *writer) stop(ctx context.Context) error {
	return errors.Join(w.queue.Stop(ctx), w.store.Close())
}

// commit decides a batch in one transaction.
func (w *writer) commit(ctx context.Context, claims []*claim) ([]outcome, error) {
	outcomes := make([]outcome, len(claims))
	keys := keysOf(claims)
	err := w.store.Update(ctx, keys, func(state *db.CaptchaState) *db.CaptchaChanges {
		return decide(state, keys.Spent, claims, outcomes)
	})
	return outcomes, err
}

// keysOf lists what a batch has to lock and claim, each key once and in order.
func keysOf(claims []*claim) db.CaptchaKeys {
	keys := db.CaptchaKeys{Spent: make([]model.SpentKey, len(claims))}
	for i, c := range claims {
		keys.Spent[i] = c.key

		if c.counted {
			keys.Usage = append(keys.Usage, c.usageKey())
		}
	}

	slices.SortFunc(keys.Spent, model.SpentKey.Compare)
	keys.Spent = slices.Compact(keys.Spent)
	slices.SortFunc(keys.Usage, model.CaptchaUsageKey.Compare)
	keys.Usage = slices.Compact(keys.Usage)

	return keys
}

// decide applies the contract's tables of tokens and quota (captcha contract, section 3) to a
// batch, claim by claim in the order of arrival, and fills in the outcomes. It may run again on the
// same claims.
func decide(state *db.CaptchaState, spent []model.SpentKey, claims []*claim, outcomes []outcome) *db.CaptchaChanges {
	changes := &db.CaptchaChanges{Usage: make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(state.Usage))}
	for i, c := range claims {
		outcomes[i] = notOurs

		if !state.Claimed[c.key] {
			outcomes[i] = duplicate
			continue
		}

		if outcomes[i] = count(state, changes, c); outcomes[i] == claimed || outcomes[i] == claimedFromReserve {
			// used up: the next one in this batch is a duplicate
			delete(state.Claimed, c.key)
		}
	}

	for _, key := range spent {
		if state.Claimed[key] {
			changes.Release = append(changes.Release, key)
		}
	}

	return changes
}

// count counts a genuine, unused token against its account's quota, when there is room.
func count(state *db.CaptchaState, changes *db.CaptchaChanges, c *claim) outcome {
	if !c.counted {
		return claimed
	}

	key := c.usageKey()
	usage, ok := state.Usage[key]
	if !ok {
		return accountGone
	}

	result := claimed

	switch usage.Standing(c.at) {
	case model.Exhausted:
		return overQuota
	case model.InReserve:
		result = claimedFromReserve
	}

	if threshold := usage.Count(c.at); threshold > 0 {
		changes.Notices = append(changes.Notices, db.CaptchaNotice{CaptchaUsageKey: key, Threshold: threshold, CreatedAt: c.at})
	}

	state.Usage[key], changes.Usage[key] = usage, usage
	return result
}
