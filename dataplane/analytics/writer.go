package analytics

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// outcome is what became of a hit.
type outcome uint8

const (
	stored               outcome = iota // committed; for an engagement report also: nothing to add it to
	overQuota                           // the site's month is used up
	siteGone                            // the site was deleted since the snapshot
	duplicatePageview                   // a manual page view that repeats an automatic one
	duplicateTransaction                // a refund that is recorded already, or a purchase under any recorded id
	badTransaction                      // a refund under a purchase's id
)

// err is the error that the outcome is answered with, or nil.
func (o outcome) err() error {
	switch o {
	case overQuota:
		return errQuota
	case siteGone:
		return errUnknownSite
	case badTransaction:
		return event.ErrBad
	}

	return nil
}

// ignored is why a call is ignored, or empty.
func (o outcome) ignored() string {
	switch o {
	case duplicatePageview:
		return ignoredPageview
	case duplicateTransaction:
		return ignoredTransaction
	}
	return ""
}

const (
	// StoreTimeout bounds a request's waits for the database, all of them together: for the site,
	// for the day's key and for its hit to be stored. Then it is answered with 503 unavailable.
	StoreTimeout = 5 * time.Second
	// commitTimeout bounds the storing of one batch. A hit that waited so long for its turn that
	// less than this is left of its StoreTimeout is refused instead of stored: a request that is
	// told 503 may send its hit again.
	commitTimeout = StoreTimeout / 2
)

// writer stores hits in batches. Everything in it belongs to the queue's one goroutine.
type writer struct {
	queue  *batch.Queue[*hit, outcome]
	store  db.HitStore
	ring   func([]model.Delivery) // told what was committed; never waits
	lastAt model.Instant
}

func newWriter(store db.HitStore, ring func([]model.Delivery)) *writer {
	if ring == nil {
		ring = func([]model.Delivery) {}
	}
	w := &writer{store: store, ring: ring}
	w.queue = batch.New(w.commit, batch.Options{Timeout: commitTimeout, Isolate: db.IsBadData})
	return w
}

func (w *writer) stop(ctx context.Context) error {
	return errors.Join(w.queue.Stop(ctx), w.store.Close())
}

// commit stores a batch in one transaction.
func (w *writer) commit(ctx context.Context, hits []*hit) ([]outcome, error) {
	outcomes := make([]outcome, len(hits))
	var changes *db.HitChanges
	err := w.store.Update(ctx, keysOf(hits), func(state *db.HitState) *db.HitChanges {
		changes = decide(state, hits, outcomes, w.stamp)
		return changes
	})
	if err == nil && changes != nil && len(changes.Deliveries) > 0 {
		w.ring(changes.Deliveries)
	}

	return outcomes, err
}

const (
	// maxAhead is how far stored moments may run ahead of the clock to stay distinct, before the
	// clock is believed to have stepped back.
	maxAhead = time.Second
	// maxLate is how late a hit can come to the writer after it arrived, from when on the clock
	// must have been set back.
	maxLate = time.Minute
)

// stamp returns the moment under which a hit that arrived at the given one is stored: that moment,
// or one microsecond after the last, so that rows of this process share one only in a clock's step
// or a day's last microsecond. A hit never leaves its day: its visitor and its month's count belong
// to it.
func (w *writer) stamp(at model.Instant) model.Instant {
	switch behind := w.lastAt.Sub(at); {
	case behind >= maxLate:
		// else no two hits were kept apart until the wrong time is reached again
		w.lastAt = 0
	case behind >= 0 && behind < maxAhead:
		at = min(w.lastAt+1, (at.Day()+1).Start()-1)
	}

	w.lastAt = max(w.lastAt, at)
	return at
}

// keysOf lists what a batch has to lock and read, each key once and in order.
func keysOf(hits []*hit) db.HitKeys {
	keys := db.HitKeys{Since: hits[0].at, Until: hits[0].at}
	for _, h := range hits {
		keys.Since, keys.Until = min(keys.Since, h.at), max(keys.Until, h.at)
		keys.Usage = append(keys.Usage, h.usageKey())

		switch {
		case h.engagement != nil:
		case h.converts():
			keys.Converting = append(keys.Converting, h.visitorKey())
		default:
			keys.Visitors = append(keys.Visitors, h.visitorKey())
		}

		if key, ok := h.viewKey(); ok && h.event != nil {
			keys.Viewed = append(keys.Viewed, key)
		}
		if h.isManual() {
			keys.Manual = append(keys.Manual, h.visitorKey())
		}
		if key, ok := h.transactionKey(); ok {
			keys.Transactions = append(keys.Transactions, key)
		}
	}

	keys.Since, keys.Until = keys.Since.Day().Start(), (keys.Until.Day() + 1).Start()
	keys.Usage = sorted(keys.Usage, model.UsageKey.Compare)
	keys.Transactions = sorted(keys.Transactions, model.TransactionKey.Compare)
	keys.Viewed = sorted(keys.Viewed, model.ViewKey.Compare)
	keys.Manual = sorted(keys.Manual, model.VisitorKey.Compare)
	keys.Converting = sorted(keys.Converting, model.VisitorKey.Compare)
	keys.Visitors = slices.DeleteFunc(sorted(keys.Visitors, model.VisitorKey.Compare), func(key model.VisitorKey) bool {
		_, converts := slices.BinarySearchFunc(keys.Converting, key, model.VisitorKey.Compare)
		return converts
	})

	return keys
}

// sorted puts keys in order, each once.
func sorted[Key comparable](keys []Key, compare func(a, b Key) int) []Key {
	slices.SortFunc(keys, compare)
	return slices.Compact(keys)
}
