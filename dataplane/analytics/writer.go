package analytics

import (
	"slices"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// outcome is the result of a hit.
type outcome uint8

const (
	stored               outcome = iota // committed; an engagement report may also be dropped, see engage
	overQuota                           // the site's month is used up
	siteDeleted                         // the site was deleted after it was cached
	siteMoved                           // the site is moved to another cell, see batch.Cells.Do
	duplicatePageview                   // a manual page view that repeats an automatic one
	duplicateTransaction                // a refund that is recorded already, or a purchase under any recorded id
	badTransaction                      // a refund under a purchase's id
)

// err returns the error that the outcome is answered with, or nil.
func (o outcome) err() error {
	switch o {
	case overQuota:
		return errQuota
	case siteDeleted:
		return errUnknownSite
	case badTransaction:
		return event.ErrBad
	}

	return nil
}

// ignored returns why a call is ignored, or an empty text.
func (o outcome) ignored() string {
	switch o {
	case duplicatePageview:
		return ignoredPageview
	case duplicateTransaction:
		return ignoredTransaction
	}
	return ""
}

// StoreTimeout bounds all of a request's waits for the database together: for the site, for the
// day's key and for the commit of its hit. After it the request is answered with 503 unavailable.
const StoreTimeout = 5 * time.Second

// HitStore stores batches of hits; see ingest.Batches.
type HitStore = batch.Store[ingest.HitKeys, ingest.HitState, ingest.HitChanges]

// writer stores hits in batches.
type writer = batch.Writer[*hit, ingest.HitKeys, ingest.HitState, ingest.HitChanges, outcome]

// newWriter returns a writer of hits that wait for at most the timeout. One attempt to store a batch
// takes at most half of it, and ends before the deadlines of its hits, since the client of a
// 503 may send the hit again. A batch that a pause of the database has rolled back is tried again
// while its hits have time. The writer calls notify with the deliveries of each batch after their
// commit. notify must not wait; nil is none, as for observer.
func newWriter(store HitStore, timeout time.Duration, notify func([]model.Delivery), observer *batch.Observer) *writer {
	// Only the queue's goroutine uses last. Attempts that were rolled back advance it too, so that
	// a retry does not repeat their times, which are parts of keys.
	var last stamps

	return batch.NewWriter(store, batch.Rules[*hit, ingest.HitKeys, ingest.HitState, ingest.HitChanges, outcome]{
		Keys: keysOf,
		Decide: func(state *ingest.HitState, hits []*hit) (*ingest.HitChanges, []outcome) {
			d := decide(state, hits, last)
			last = d.stamps
			return &d.changes, d.outcomes
		},
		Committed: func(changes *ingest.HitChanges) {
			if notify != nil && len(changes.Deliveries) > 0 {
				notify(changes.Deliveries)
			}
		},
	}, batch.Options{Timeout: timeout / 2, RolledBack: ingest.IsRolledBack, Isolate: db.IsBadData, Observer: observer})
}

const (
	// maxAhead bounds how far stored times may run ahead of the clock to stay distinct. Beyond it,
	// the clock must have stepped back.
	maxAhead = time.Second
	// maxLate is the delay between a hit's arrival and its turn from which on the clock must have
	// been set back.
	maxLate = time.Minute
)

// stamps gives hits the times under which they are stored. Its value is the latest one.
type stamps model.Instant

// next returns the time for a hit that arrived at the given one: that time, or one microsecond
// after the last, so that rows of this process share a time only in a clock's step or in a day's
// last microsecond. A hit never leaves its day, to which its visitor and its month's count belong.
func (s *stamps) next(at model.Instant) model.Instant {
	last := model.Instant(*s)
	switch behind := last.Sub(at); {
	case behind >= maxLate:
		// Start again, or no two hits would be kept apart until the wrong time is reached again.
		last = 0
	case behind >= 0 && behind < maxAhead:
		at = min(last+1, (at.Day()+1).Start()-1)
	}

	*s = stamps(max(last, at))
	return at
}

// keysOf lists what a batch locks and reads, each key once and in order.
func keysOf(hits []*hit) ingest.HitKeys {
	keys := ingest.HitKeys{Since: hits[0].at, Until: hits[0].at}
	for _, h := range hits {
		keys.Since, keys.Until = min(keys.Since, h.at), max(keys.Until, h.at)
		keys.Usage = append(keys.Usage, h.usageKey())

		if h.engagement != nil {
			keys.Reported = append(keys.Reported, h.engagement.EngagementKey)
		} else {
			keys.Visitors = append(keys.Visitors, h.visitorKey())
		}

		if h.isManual() {
			keys.Manual = append(keys.Manual, h.visitorKey())
		}
		if key, ok := h.transactionKey(); ok {
			keys.Transactions = append(keys.Transactions, key)
		}
	}

	keys.Since, keys.Until = keys.Since.Day().Start(), (keys.Until.Day() + 1).Start()
	keys.Usage = sorted(keys.Usage)
	keys.Transactions = sorted(keys.Transactions)
	keys.Reported = sorted(keys.Reported)
	keys.Manual = sorted(keys.Manual)
	keys.Visitors = sorted(keys.Visitors)

	return keys
}

// sorted sorts keys and removes duplicates.
func sorted[Key interface {
	comparable
	Compare(other Key) int
}](keys []Key) []Key {
	slices.SortFunc(keys, Key.Compare)
	return slices.Compact(keys)
}
