package analytics

import (
	"context"
	"errors"
	"sync"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// cellLanes are the lanes of each cell.
type cellLanes = batch.Cells[*hit, outcome, lanes]

// newCellLanes returns the lanes of the own cell, whose stores are given, and of the others.
func (s *Service) newCellLanes(
	own *db.Cell, stores []HitStore, notify func([]model.Delivery), observer *batch.Observer,
) *cellLanes {
	open := func(ctx context.Context, id int64) (lanes, error) {
		cell, err := own.Common.Cell(ctx, id)
		if err != nil {
			return nil, err
		}

		// The stores connect with their first batch, so that those not needed have nothing to close.
		opened := make([]HitStore, len(stores))
		for i := range opened {
			opened[i] = ingest.NewHitStore(cell)
		}
		return newLanes(opened, notify, observer), nil
	}
	return batch.NewCells(own.ID, newLanes(stores, notify, observer),
		batch.CellRules[*hit, outcome, lanes]{Open: open, Moved: siteMoved, Find: s.findSite})
}

// lanes are the writers of hits. Each commits its own batches, so that several of them use several
// of PostgreSQL's processes. All hits of a site's slot go through one lane: its visits and its quota need
// no lock that two lanes would wait for.
type lanes []*writer

// newLanes returns a lane for each store, see newWriter.
func newLanes(stores []HitStore, notify func([]model.Delivery), observer *batch.Observer) lanes {
	l := make(lanes, len(stores))
	for i, store := range stores {
		l[i] = newWriter(store, notify, observer)
	}
	return l
}

// Do stores a hit with the lane of its site's slot.
func (l lanes) Do(ctx context.Context, h *hit) (outcome, error) {
	return l.of(h.site.id, h.slot()).DoBefore(ctx, h.deadline, h, h.size)
}

// of returns the lane of a site's slot. Consecutive ids are spread evenly, and the slots of a site have
// lanes in turn.
func (l lanes) of(siteID int64, slot int16) *writer {
	return l[(model.Spread(uint64(siteID))+uint64(slot))%uint64(len(l))]
}

// Len returns how many hits wait for a writer.
func (l lanes) Len() int {
	n := 0
	for _, w := range l {
		n += w.Len()
	}
	return n
}

// Start starts all lanes.
func (l lanes) Start() {
	for _, w := range l {
		w.Start()
	}
}

// Stop stops all lanes at the same time, since ctx bounds the stop of each.
func (l lanes) Stop(ctx context.Context) error {
	failed := make([]error, len(l))
	var stopped sync.WaitGroup
	for i, w := range l {
		stopped.Go(func() { failed[i] = w.Stop(ctx) })
	}
	stopped.Wait()
	return errors.Join(failed...)
}
