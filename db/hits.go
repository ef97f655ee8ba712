package db

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// HitStore stores batches of hits, one transaction each. It belongs to one writer: it is not safe
// for concurrent use.
type HitStore interface {
	// Update runs one transaction. It takes the usage rows that keys name as locks, so that writers
	// of one site take turns in every process, reads what keys name, lets decide turn that into
	// changes, stores them and commits. An error means that decide's changes are not stored, except
	// when the connection was lost, or ctx ended, during the commit itself.
	//
	// decide has no effects of its own and may run several times: a transaction that lost to
	// another one is repeated.
	Update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error

	Close() error
}

// HitKeys name what a batch reads. Each list is sorted and without duplicates, so that all writers
// lock in one order. Of a site whose quota is used up, only the usage is read, and what shows that
// a hit is a duplicate, which is ignored and not refused: Transactions, and the visits of Manual.
type HitKeys struct {
	Since, Until model.Instant // the days of the batch's hits, Until exclusive: no visit of their visitors lies outside
	Usage        []model.UsageKey
	Visitors     []model.VisitorKey     // whose newest visits are needed
	Converting   []model.VisitorKey     // likewise, with the visits' whole attribution; not in Visitors again
	Viewed       []model.ViewKey        // page views that events name, whose visits are needed
	Manual       []model.VisitorKey     // those of Visitors and Converting with a manual page view
	Transactions []model.TransactionKey // purchases and refunds that may be recorded already
}

// EngagementWindow is how long after a page view its engagement still counts.
const EngagementWindow = 48 * time.Hour

// HitState is what a batch read under its locks.
type HitState struct {
	Usage        map[model.UsageKey]Usage           // a key without entry belongs to a site that no longer exists
	Visits       map[model.VisitorKey][]model.Visit // the newest first; attribution beyond source and campaign only if Converting
	Viewed       map[model.ViewKey]model.Visit      // of each page view that is stored, with the whole attribution
	Transactions map[model.TransactionKey]string    // the event, purchase or refund, of those that are recorded
}

// latest is after all visits and page views that the batch can refer to. A clock that stepped back
// can have given one a moment, or an id, shortly after its time.
func (k *HitKeys) latest() model.Instant { return k.Until.Add(time.Minute) }

// visitIDs are bounds, the upper one exclusive, of the ids of all visits of the batch's visitors.
func (k *HitKeys) visitIDs() (first, end int64) {
	return model.FirstTimeID(k.Since), model.FirstTimeID(k.latest())
}

// days are those of the batch's hits, nearly always one.
func (k *HitKeys) days() iter.Seq[model.Day] {
	return func(yield func(model.Day) bool) {
		for day := k.Since.Day(); day.Start() < k.Until; day++ {
			if !yield(day) {
				return
			}
		}
	}
}

func newHitState(keys HitKeys) *HitState {
	return &HitState{
		Usage:        make(map[model.UsageKey]Usage, len(keys.Usage)),
		Visits:       make(map[model.VisitorKey][]model.Visit, len(keys.Visitors)+len(keys.Converting)),
		Viewed:       make(map[model.ViewKey]model.Visit, len(keys.Viewed)),
		Transactions: make(map[model.TransactionKey]string),
	}
}

// newestVisits is how many of a visitor's visits of a day are read, as text for the statements. The
// last one decides where a page view belongs; the others may await page views of pages that were
// opened together with it, whose events came first.
const newestVisits = "4"

// addVisit adds a visit that was read. Ids of one visitor's visits grow.
func (s *HitState) addVisit(v model.Visit) {
	key := model.VisitorKey{SiteID: v.SiteID, Visitor: v.Visitor}
	visits := s.Visits[key]
	i := 0
	for i < len(visits) && visits[i].ID > v.ID {
		i++
	}
	s.Visits[key] = slices.Insert(visits, i, v)
}

// open returns the keys without the visits of sites whose quota is used up in every month of the
// batch, apart from those of Manual.
func (k HitKeys) open(exhausted func(model.UsageKey) bool) HitKeys {
	if !slices.ContainsFunc(k.Usage, exhausted) {
		return k
	}

	closed := make(map[int64]bool)
	for _, key := range k.Usage {
		// another month of the same site, around midnight
		other, known := closed[key.SiteID]
		closed[key.SiteID] = exhausted(key) && (other || !known)
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
	k.Viewed = slices.DeleteFunc(slices.Clone(k.Viewed), func(key model.ViewKey) bool { return closed[key.Visitor.SiteID] })

	return k
}

// Usage is how many page views and events a site had in a month, and may have.
type Usage struct {
	Used, Quota int64
}

// Exhausted reports whether the quota is used up.
func (u Usage) Exhausted() bool { return u.Used >= u.Quota }

// HitChanges is what a batch writes.
type HitChanges struct {
	NewVisits    []model.Visit
	Continued    []model.Visit // visits with a new LastPageviewAt, Pageviews, Recent, Awaited or UserID
	Pageviews    []model.Pageview
	Engagement   []model.Engagement // at most one per page view id, for the newest page view with that id; without one it is dropped
	Events       []model.Event
	Transactions []model.Transaction
	Deliveries   []model.Delivery
	Used         map[model.UsageKey]int64
}

// HitStore returns a new store of hits. The caller closes it.
func (d *DB) HitStore() HitStore {
	if d.IsPostgres() {
		return newPostgresHits(d.pg)
	}
	return newSQLiteHits(d.DataWrite.DB)
}
