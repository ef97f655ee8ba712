package analytics

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// cellWriters are the writers of each cell.
type cellWriters = batch.Cells[*hit, outcome, cellWriter]

// newCellWriters returns the writer of the own cell, for the store, and of the other cells.
func (s *Service) newCellWriters(
	own *db.Cell, store HitStore, timeout time.Duration, notify func([]model.Delivery), observer *batch.Observer,
) *cellWriters {
	open := func(ctx context.Context, id int64) (cellWriter, error) {
		cell, err := own.Common.Cell(ctx, id)
		if err != nil {
			return cellWriter{}, err
		}

		// A store connects with its first batch, so that one that is not needed has nothing to
		// close.
		return cellWriter{newWriter(ingest.NewHitStore(cell), timeout, notify, observer)}, nil
	}
	return batch.NewCells(own.ID, cellWriter{newWriter(store, timeout, notify, observer)},
		batch.CellRules[*hit, outcome, cellWriter]{Open: open, Moved: siteMoved, Find: s.findSite})
}

// cellWriter is the writer of a cell's hits.
type cellWriter struct{ *writer }

// Do stores a hit.
func (w cellWriter) Do(ctx context.Context, h *hit) (outcome, error) {
	return w.DoBefore(ctx, h.deadline, h, h.size)
}
