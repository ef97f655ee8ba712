package ingest

import (
	"iter"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

type usageKey = model.UsageKey

// HitKeys contains the keys that a batch of hits reads. Each list is sorted and has no duplicates,
// so that all writers lock in one order.
//
// For a site with an exhausted quota, a batch reads only the usage, Transactions, the visits of
// Manual, and Reported. They identify duplicates, which are ignored and not refused.
type HitKeys struct {
	Since, Until model.Instant // the batch's days, Until exclusive: no visit of its visitors lies outside
	Usage        []model.UsageKey
	Visitors     []model.VisitorKey     // the batch needs their newest visits
	Manual       []model.VisitorKey     // the Visitors with a manual page view
	Reported     []model.EngagementKey  // engagement reports add to these
	Transactions []model.TransactionKey // purchases and refunds that may be recorded already
}

// HitState holds the rows that a batch of hits read under its locks.
type HitState struct {
	Usage        map[model.UsageKey]Usage           // no entry: the site is in Moved, or deleted
	Moved        map[model.SiteID]bool              // sites that are in another cell, or are moved to one
	Visits       map[model.VisitorKey][]model.Visit // newest first
	Reported     map[model.EngagementKey]bool       // true if the key has a row
	Transactions map[model.TransactionKey]string    // purchase or refund, for recorded transactions
}

// Usage is how many page views and events a site had in a month, its quota, and how many rows of
// engagement the month's reports have added.
type Usage struct {
	Used, Quota, Reports int64
	Reached              int16 // the last of model.QuotaThresholds that a batch saw reached; or 0
}

// Exhausted reports whether the quota is used up.
func (u Usage) Exhausted() bool { return u.Used >= u.Quota }

// HitChanges are the writes of a batch of hits.
type HitChanges struct {
	NewVisits    []model.Visit
	Continued    []model.Visit // stored visits, with new values in tables.VisitChanging
	Pageviews    []model.Pageview
	Engagement   []model.Engagement // at most one per key; added to the stored row
	Events       []model.Event
	Transactions []model.Transaction
	Deliveries   []model.Delivery
	Used         map[model.UsageKey]int64 // new counts, never below the stored counts
	Reports      map[model.UsageKey]int64 // how many rows Engagement adds
	Reached      map[model.UsageKey]int16 // thresholds of the quota that the batch reaches, see decision.markQuotas
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

// without drops the visits of sites with an exhausted quota in every month of the batch, and keeps
// the visits of Manual.
func (k HitKeys) without(exhausted map[model.UsageKey]bool) HitKeys {
	if !slices.ContainsFunc(k.Usage, func(key model.UsageKey) bool { return exhausted[key] }) {
		return k
	}

	closed := make(map[model.SiteID]bool)
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

	return k
}

func newHitState(keys *HitKeys) *HitState {
	return &HitState{
		Usage:        make(map[model.UsageKey]Usage, len(keys.Usage)),
		Moved:        make(map[model.SiteID]bool),
		Visits:       make(map[model.VisitorKey][]model.Visit, len(keys.Visitors)),
		Reported:     make(map[model.EngagementKey]bool, len(keys.Reported)),
		Transactions: make(map[model.TransactionKey]string),
	}
}

// addVisit adds a visit that was read. A visitor's later visits have larger numbers.
func (s *HitState) addVisit(key *model.VisitorKey, found *model.Visit) {
	v := *found
	v.SiteID, v.Visitor = key.SiteID, key.Visitor

	visits := s.Visits[*key]
	i := 0
	for i < len(visits) && visits[i].N > v.N {
		i++
	}

	s.Visits[*key] = slices.Insert(visits, i, v)
}

// hits are the statements of a batch of hits.
type hits struct {
	cell      int64
	exhausted map[model.UsageKey]bool // months with the quota used up when they were last read
}

// maxExhausted bounds the months that a writer remembers as used up. After forgetting them, the
// next batch reads their visits once for nothing.
const maxExhausted = 10_000

func (*hits) needsCommon(HitKeys) bool { return false }

// read assumes that a quota that was used up still is, and leaves out the site's visits. So an
// exhausted site costs one lookup, in the same round trip.
func (h *hits) read(keys HitKeys) (*HitState, []step) {
	state := newHitState(&keys)
	lock := lockUsage.rows(keys.Usage, func(k *model.UsageKey, u *Usage) { state.Usage[*k] = *u }, h.cell)
	return state, append([]step{lock}, readHits(keys.without(h.exhausted), state)...)
}

func (h *hits) missing(keys HitKeys, state *HitState) bool { return len(state.Usage) < len(keys.Usage) }

func (h *hits) add(keys HitKeys) []step { return []step{addUsage.rows(keys.Usage, h.cell)} }

// complete reads everything if the quota of a month is no longer used up, after an upgrade. Of
// sites without usage it reads whether they are in another cell.
func (h *hits) complete(keys HitKeys, state *HitState) (steps []step) {
	if h.missing(keys, state) {
		steps = append(steps, readMoved.rows(keys.Usage, func(k *model.UsageKey, _ *struct{}) {
			state.Moved[k.SiteID] = true
		}, h.cell))
	}
	if !h.noteExhausted(state) {
		return steps
	}

	clear(state.Visits)
	return append(steps, readHits(keys, state)...)
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

// readHits reads the rows of the keys, except the usage.
func readHits(keys HitKeys, state *HitState) (steps []step) {
	first, last := keys.Since.Day(), (keys.Until - 1).Day()

	for day := range keys.days() {
		steps = append(steps, readVisits.rows(keys.Visitors, state.addVisit, int64(day)))
	}

	steps = append(steps, readReported.rows(keys.Reported, func(k *model.EngagementKey, _ *struct{}) {
		state.Reported[*k] = true
	}, int64(first), int64(last)))

	return append(steps, readTransactions.rows(keys.Transactions, func(k *model.TransactionKey, t *model.Transaction) {
		state.Transactions[*k] = t.Event
	}))
}

func (*hits) write(_ HitKeys, changes *HitChanges) []step {
	return []step{
		newVisits.rows(changes.NewVisits),
		continueVisits.rows(changes.Continued),
		newPageviews.rows(changes.Pageviews),
		addEngagement.rows(changes.Engagement),
		newEvents.rows(changes.Events),
		newTransactions.rows(changes.Transactions),
		newDeliveries.rows(changes.Deliveries),
		setUsage.rows(changes.usage()),
	}
}

// usage returns the usage rows that change.
func (c *HitChanges) usage() []siteUsed {
	rows := make([]siteUsed, 0, len(c.Used)+len(c.Reports))
	for key, n := range c.Used {
		rows = append(rows, siteUsed{key, n, c.Reports[key], c.Reached[key]})
	}

	// Each key has one row, because UPDATE … FROM changes a row only once.
	for key, n := range c.Reports {
		if _, counted := c.Used[key]; !counted {
			rows = append(rows, siteUsed{key, 0, n, c.Reached[key]})
		}
	}

	for key, percent := range c.Reached {
		_, counted := c.Used[key]
		if _, reported := c.Reports[key]; !counted && !reported {
			rows = append(rows, siteUsed{key, 0, 0, percent})
		}
	}

	return rows
}
