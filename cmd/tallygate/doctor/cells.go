package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
)

// checkCells checks that the role can use each cell, and the addresses of cells as their writers
// use them. The schema is this program's.
func (e *examination) checkCells(ctx context.Context, d *db.DB) error {
	list, err := d.Cells(ctx)
	if err != nil {
		return err
	}
	for _, cell := range list {
		if _, err := d.Cell(ctx, cell.ID); errors.Is(err, celllist.ErrDenied) {
			e.fault("cell-schema", "Give the role the rights in docs/operator/scale.md, \"Cells\", or restore the schema.",
				"the role cannot use the schema %s, or it does not exist: the hits and the captcha of cell %d are refused", cell.Schema, cell.ID)
		}
	}

	faults, err := d.CheckCellAddresses(ctx)
	for _, id := range slices.Sorted(maps.Keys(faults)) {
		const correct = "Correct TALLYGATE_CELL_ADDRESSES; see docs/operator/scale.md, \"Addresses of cells\"."

		switch fault := faults[id]; {
		case errors.Is(fault, celllist.ErrDenied): // reported above
		case errors.Is(fault, celllist.ErrUnknownCell):
			e.fault("cell-unknown", correct, "TALLYGATE_CELL_ADDRESSES names cell %d, which does not exist", id)
		case errors.Is(fault, celllist.ErrOtherDatabase):
			e.fault("cell-other-database", correct, "the address of cell %d leads to another database: its hits and its captcha are refused", id)
		case errors.Is(fault, celllist.ErrNoCellTables):
			e.fault("cell-tables", "Name a server that has the tables. On Citus it must have the metadata.",
				"the server at the address of cell %d does not have its tables: its hits and its captcha are refused", id)
		default:
			e.fault("cell-unreachable", "Start the server at this address, or correct TALLYGATE_CELL_ADDRESSES. Until then the hits and the captcha of the cell are refused.",
				"the address of cell %d does not answer: %v", id, cause(fault))
		}
	}
	return err
}
