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

// cellWriters are the writers of each cell.
type cellWriters = batch.Cells[*hit, outcome, writers]

// newCellWriters returns the writers of the own cell, for the given stores, and of the other cells.
func (s *Service) newCellWriters(
	own *db.Cell, stores []HitStore, notify func([]model.Delivery), observer *batch.Observer,
) *cellWriters {
	open := func(ctx context.Context, id int64) (writers, error) {
		cell, err := own.Common.Cell(ctx, id)
		if err != nil {
			return nil, err
		}

		// The stores connect with their first batch, so that those not needed have nothing to close.
		opened := make([]HitStore, len(stores))
		for i := range opened {
			opened[i] = ingest.NewHitStore(cell)
		}
		return newWriters(opened, notify, observer), nil
	}
	return batch.NewCells(own.ID, newWriters(stores, notify, observer),
		batch.CellRules[*hit, outcome, writers]{Open: open, Moved: siteMoved, Find: s.findSite})
}

// writers are the writers of hits. Each commits its own batches, so that several of them use several
// of PostgreSQL's processes. All hits of a site go through one writer: its visits and its quota need no
// lock that two writers would wait for.
type writers []*writer

// newWriters returns a writer for each store, see newWriter.
func newWriters(stores []HitStore, notify func([]model.Delivery), observer *batch.Observer) writers {
	l := make(writers, len(stores))
	for i, store := range stores {
		l[i] = newWriter(store, notify, observer)
	}
	return l
}

// Do stores a hit with the writer of its site.
func (l writers) Do(ctx context.Context, h *hit) (outcome, error) {
	return l.of(h.site.id).DoBefore(ctx, h.deadline, h, h.size)
}

// of returns the writer of a site. The product spreads consecutive ids evenly.
func (l writers) of(siteID int64) *writer {
	const golden = 0x9e37_79b9_7f4a_7c15 // 2^64 divided by the golden ratio
	return l[(uint64(siteID)*golden>>32)%uint64(len(l))]
}

// Len returns how many hits wait for a writer.
func (l writers) Len() int {
	n := 0
	for _, w := range l {
		n += w.Len()
	}
	return n
}

// Start starts all writers.
func (l writers) Start() {
	for _, w := range l {
		w.Start()
	}
}

// Stop stops all writers at the same time, since ctx bounds the stop of each.
func (l writers) Stop(ctx context.Context) error {
	failed := make([]error, len(l))
	var stopped sync.WaitGroup
	for i, w := range l {
		stopped.Go(func() { failed[i] = w.Stop(ctx) })
	}
	stopped.Wait()
	return errors.Join(failed...)
}
