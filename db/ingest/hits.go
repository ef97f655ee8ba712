package ingest

import (
	"iter"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

type usageKey = model.UsageKey

// HitKeys names what a batch of hits reads. Each list is sorted and has no duplicates, so that all
// writers lock in one order.
//
// For a site whose quota is used up, a batch reads only the usage and what identifies duplicates:
// Transactions, and the visits of Manual. Duplicates are ignored and not refused.
type HitKeys struct {
	Since, Until model.Instant // the batch's days, Until exclusive: no visit of its visitors lies outside
	Usage        []model.UsageKey
	Visitors     []model.VisitorKey     // whose newest visits are needed
	Converting   []model.VisitorKey     // likewise, with the visits' whole attribution; not in Visitors again
	Viewed       []model.ViewKey        // page views that events name, whose visits are needed
	Manual       []model.VisitorKey     // those of Visitors and Converting with a manual page view
	Transactions []model.TransactionKey // purchases and refunds that may be recorded already
}

// EngagementWindow is how long after a page view its engagement still counts.
const EngagementWindow = 48 * time.Hour

// HitState is what a batch of hits read under its locks.
type HitState struct {
	Usage        map[model.UsageKey]Usage           // a key without an entry belongs to a deleted site
	Visits       map[model.VisitorKey][]model.Visit // newest first; attribution beyond source and campaign only if Converting
	Viewed       map[model.ViewKey]model.Visit      // of each stored page view, with the whole attribution
	Transactions map[model.TransactionKey]string    // the event, purchase or refund, of those that are recorded
}

// Usage is how many page views and events a site had in a month, and its quota.
type Usage struct {
	Used, Quota int64
}

// Exhausted reports whether the quota is used up.
func (u Usage) Exhausted() bool { return u.Used >= u.Quota }

// HitChanges is what a batch of hits writes.
type HitChanges struct {
	NewVisits    []model.Visit
	Continued    []model.Visit // visits with a new LastPageviewAt, Pageviews, Recent, Awaited or UserID
	Pageviews    []model.Pageview
	Engagement   []model.Engagement // at most one per page view id, for the newest page view with it; dropped without one
	Events       []model.Event
	Transactions []model.Transaction
	Deliveries   []model.Delivery
	Used         map[model.UsageKey]int64
}

// latest is an upper bound for the times of rows that the batch may reference, with a minute of
// slack for clock steps.
func (k *HitKeys) latest() model.Instant { return k.Until.Add(time.Minute) }

// visitIDs returns the range of the ids of all visits of the batch's visitors; end is exclusive.
func (k *HitKeys) visitIDs() (first, end int64) {
	return model.FirstTimeID(k.Since), model.FirstTimeID(k.latest())
}

// days yields the days of the batch's hits, nearly always one.
func (k *HitKeys) days() iter.Seq[model.Day] {
	return func(yield func(model.Day) bool) {
		for day := k.Since.Day(); day.Start() < k.Until; day++ {
			if !yield(day) {
				return
			}
		}
	}
}

// without returns the keys without the visits of sites whose quota is exhausted in every month of
// the batch, apart from those of Manual.
func (k HitKeys) without(exhausted map[model.UsageKey]bool) HitKeys {
	if !slices.ContainsFunc(k.Usage, func(key model.UsageKey) bool { return exhausted[key] }) {
		return k
	}

	closed := make(map[int64]bool)
	for _, key := range k.Usage {
		// Around midnight a site can have two months.
		other, known := closed[key.SiteID]
		closed[key.SiteID] = exhausted[key] && (other || !known)
	}

	needless := func(key model.VisitorKey) bool {
		if !closed[key.SiteID] {
			return false
		}
		_, manual := slices.BinarySearchFunc(k.Manual, key, model.VisitorKey.Compare)
		return !manual
	}

	k.Visitors = slices.DeleteFunc(slices.Clone(k.Visitors), needless)
	k.Converting = slices.DeleteFunc(slices.Clone(k.Converting), needless)
	k.Viewed = slices.DeleteFunc(slices.Clone(k.Viewed),
		func(key model.ViewKey) bool { return closed[key.Visitor.SiteID] })

	return k
}

func newHitState(keys *HitKeys) *HitState {
	return &HitState{
		Usage:        make(map[model.UsageKey]Usage, len(keys.Usage)),
		Visits:       make(map[model.VisitorKey][]model.Visit, len(keys.Visitors)+len(keys.Converting)),
		Viewed:       make(map[model.ViewKey]model.Visit, len(keys.Viewed)),
		Transactions: make(map[model.TransactionKey]string),
	}
}

// addVisit adds a visit that was read. A visitor's later visits have larger ids.
func (s *HitState) addVisit(key *model.VisitorKey, found *model.Visit) {
	v := *found
	v.SiteID, v.Visitor = key.SiteID, key.Visitor

	visits := s.Visits[*key]
	i := 0
	for i < len(visits) && visits[i].ID > v.ID {
		i++
	}

	s.Visits[*key] = slices.Insert(visits, i, v)
}

// hits are the statements of a batch of hits.
type hits struct {
	exhausted map[model.UsageKey]bool // months whose quota was used up when they were last read
}

// maxExhausted bounds the months that a writer remembers as used up. After forgetting them, the
// next batch reads their visits once for nothing.
const maxExhausted = 10_000

// read assumes that a quota that was used up still is, and leaves out the site's visits. So an
// exhausted site costs one lookup, in the same round trip.
func (h *hits) read(keys HitKeys) (*HitState, []step) {
	state := newHitState(&keys)
	lock := lockUsage.rows(keys.Usage, func(k *model.UsageKey, u *Usage) { state.Usage[*k] = *u })
	return state, append([]step{lock}, readHits(keys.without(h.exhausted), state)...)
}

func (h *hits) missing(keys HitKeys, state *HitState) bool { return len(state.Usage) < len(keys.Usage) }

func (h *hits) add(keys HitKeys) []step { return []step{addUsage.rows(keys.Usage)} }

// complete reads everything if the quota of a month is no longer used up, after an upgrade.
func (h *hits) complete(keys HitKeys, state *HitState) []step {
	if !h.noteExhausted(state) {
		return nil
	}

	clear(state.Visits)
	return readHits(keys, state)
}

// noteExhausted remembers which months are used up, and reports whether one no longer is.
func (h *hits) noteExhausted(state *HitState) (reopened bool) {
	for key, usage := range state.Usage {
		if usage.Exhausted() {
			h.exhausted[key] = true
			continue
		}

		reopened = reopened || h.exhausted[key]
		delete(h.exhausted, key)
	}

	if len(h.exhausted) > maxExhausted {
		clear(h.exhausted)
	}

	return reopened
}

// readHits reads what the keys name, except the usage.
func readHits(keys HitKeys, state *HitState) (steps []step) {
	first, end := keys.visitIDs()

	for day := range keys.days() {
		at, next := int64(day.Start()), int64((day + 1).Start())
		steps = append(steps,
			readVisits.rows(keys.Visitors, state.addVisit, int64(day), first, end),
			readAttribution.rows(keys.Converting, state.addVisit, int64(day), first, end),
			readViewed.rows(keys.Viewed, func(k *model.ViewKey, v *model.Visit) {
				v.SiteID, v.Visitor = k.Visitor.SiteID, k.Visitor.Visitor
				state.Viewed[*k] = *v
			}, int64(day), at, next, first, end))
	}

	return append(steps, readTransactions.rows(keys.Transactions, func(k *model.TransactionKey, t *model.Transaction) {
		state.Transactions[*k] = t.Event
	}))
}

func (h *hits) write(keys HitKeys, changes *HitChanges) []step {
	first, end := keys.visitIDs()
	since, until := keys.Since.Add(-EngagementWindow), keys.latest()

	used := make([]siteUsed, 0, len(changes.Used))
	for key, n := range changes.Used {
		used = append(used, siteUsed{key, n})
	}

	return []step{
		newVisits.rows(changes.NewVisits),
		continueVisits.rows(changes.Continued, first, end),
		newPageviews.rows(changes.Pageviews),
		addEngagement.rows(changes.Engagement, model.MaxEngagement.Milliseconds(), int64(since), int64(until.Day()),
			int64(until), int64(since.Day())),
		newEvents.rows(changes.Events),
		newTransactions.rows(changes.Transactions),
		newDeliveries.rows(changes.Deliveries),
		setUsage.rows(used),
	}
}
