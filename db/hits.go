package db

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// HitStore stores batches of hits, one transaction each. It belongs to one writer: it is not safe for concurrent use.
type HitStore interface {
	// Update runs one transaction. It takes the usage rows that keys name as locks, so that writers of one site take turns
	// in every process, reads what keys name, lets decide turn that into changes, stores them and commits. An error means
	// that decide's changes are not stored, except when the connection was lost, or ctx ended, during the commit itself.
	//
	// decide has no effects of its own and may run several times: a transaction that lost to another one is repeated.
	Update(ctx context.Context, keys HitKeys, decide func(*HitState) *HitChanges) error

	Close() error
}

// HitKeys name what a batch reads. Each list is sorted and without duplicates, so that all writers lock in one order.
type HitKeys struct {
	Since, Until model.Instant // the days of the batch's hits, Until exclusive: no visit of their visitors lies outside
	Usage        []model.UsageKey
	Visitors     []model.VisitorKey     // whose newest visit is needed
	Converting   []model.VisitorKey     // likewise, with the visit's whole attribution; not in Visitors again
	Transactions []model.TransactionKey // purchases and refunds that may be recorded already
	Manual       []ManualPageview       // page views sent by hand, which may repeat an automatic one
}

// ManualPageview asks for the visitor's newest automatic page view on a path within DuplicateWindow of a moment.
type ManualPageview struct {
	Visitor model.VisitorKey
	Path    string
	At      model.Instant
}

// DuplicateWindow is how close to an automatic page view on the same path a manual one is its repetition (analytics
// contract, section 8).
const DuplicateWindow = time.Second

// EngagementWindow is how long after a page view its engagement still counts.
const EngagementWindow = 48 * time.Hour

// HitState is what a batch read under its locks.
type HitState struct {
	Usage        map[model.UsageKey]Usage         // a key without entry belongs to a site that no longer exists
	Visits       map[model.VisitorKey]model.Visit // the newest visit; attribution beyond source and campaign only if Converting
	Transactions map[model.TransactionKey]string  // the event, purchase or refund, of those that are recorded
	Automatic    map[AutomaticKey][]model.Instant // automatic page views: the newest near each one that Manual asks for
}

// AutomaticKey names the page views of a visitor on a path.
type AutomaticKey struct {
	Visitor model.VisitorKey
	Path    string
}

// latest is after all visits and page views that the batch can refer to. A clock that stepped back can have given one a moment, or
// an id, shortly after its time.
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
		Visits:       make(map[model.VisitorKey]model.Visit, len(keys.Visitors)+len(keys.Converting)),
		Transactions: make(map[model.TransactionKey]string),
		Automatic:    make(map[AutomaticKey][]model.Instant),
	}
}

// keepNewest keeps the visit with the largest id of each visitor: ids of one visitor grow.
func (s *HitState) keepNewest(v model.Visit) {
	key := model.VisitorKey{SiteID: v.SiteID, Visitor: v.Visitor}
	if old, ok := s.Visits[key]; !ok || v.ID > old.ID {
		s.Visits[key] = v
	}
}

// AddAutomatic notes the moment of an automatic page view. One that comes again is noted once.
func (s *HitState) AddAutomatic(key AutomaticKey, at model.Instant) {
	known := s.Automatic[key]
	if n := len(known); n == 0 || known[n-1] != at {
		s.Automatic[key] = append(known, at)
	}
}

// Usage is how many page views and events a site had in a month, and may have.
type Usage struct {
	Used, Quota int64
}

// HitChanges is what a batch writes.
type HitChanges struct {
	NewVisits    []model.Visit
	Continued    []model.Visit // visits with a new LastPageviewAt, Pageviews or UserID
	Pageviews    []model.Pageview
	Engagement   []model.Engagement // at most one per page view id, for the newest page view with that id; without one it is dropped
	Events       []model.Event
	Transactions []model.Transaction
	Deliveries   []model.Delivery
	Used         map[model.UsageKey]int64
}

// updateAttempts bounds how often a transaction that lost to another one is repeated.
const updateAttempts = 4

// HitStore returns a new store of hits. The caller closes it.
func (d *DB) HitStore() HitStore {
	if d.pg != nil {
		return newPostgresHits(d.pg)
	}
	return newSQLiteHits(d.dataWrite.DB)
}

// repeat runs a transaction until it does not lose to another one. A unique violation counts as losing: ids are partly
// random, and decide makes new ones.
func repeat(transaction func() error) error {
	return repeatIf(func(err error) bool { return isRetryable(err) || IsUnique(err) }, transaction)
}

// repeatIf runs a transaction again as long as its error is that it lost to another one.
func repeatIf(lost func(error) bool, transaction func() error) error {
	var err error
	for range updateAttempts {
		if err = transaction(); err == nil || !lost(err) {
			return err
		}
	}
	return fmt.Errorf("after %d attempts: %w", updateAttempts, err)
}
