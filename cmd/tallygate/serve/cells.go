package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
)

// checkCells returns an error for an address of a cell that can never be right. A server that does
// not respond stops the hits and claims of its cell alone, and may return.
func (a *App) checkCells(ctx context.Context) error {
	faults, err := a.db.CheckCellAddresses(ctx)
	if err != nil {
		return fmt.Errorf("check the addresses of cells: %w", err)
	}

	for _, id := range slices.Sorted(maps.Keys(faults)) {
		fault := faults[id]
		for _, wrong := range []error{celllist.ErrUnknownCell, celllist.ErrOtherDatabase, celllist.ErrNoCellTables} {
			if errors.Is(fault, wrong) {
				return db.Refusef("--cell-addresses: cell %d: %w", id, wrong)
			}
		}
		a.log.WarnContext(ctx, "the address of a cell does not answer: its hits and its captcha are refused", "cell", id, "error", fault)
	}
	return nil
}
