package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// The waits for a site whose rows are being moved to another cell.
const (
	moveWait = 5 * time.Second
	movePoll = 100 * time.Millisecond
)

// ErrSiteMoving is returned for changes of a site's rows while the last of them are being moved to
// another cell.
var ErrSiteMoving = &model.Error{
	Kind: model.Unavailable, Code: "unavailable", RetryAfter: moveWait,
	Message: "The site's data is being moved. Try again in a few seconds.",
}

// KnownCell is the condition on a row of cells that all processes know the cell, see CellDelay.
var KnownCell = fmt.Sprintf("created_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %d",
	CellDelay.Microseconds())

// ChooseCell returns the cell of a new row of sites or accounts: the open one with the fewest of them.
func (tx *Tx) ChooseCell(ctx context.Context, of string) (int64, error) {
	single, err := tx.db.isSingle(ctx)
	if single || err != nil {
		return DefaultCell, err
	}

	var ids []int64
	err = tx.NewSelect().Table("cells").Column("id").Where("open").Where(KnownCell).
		OrderExpr("(SELECT count(*) FROM ? WHERE cell = cells.id), id", bun.Ident(of)).Limit(1).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return DefaultCell, err
	}
	return ids[0], nil
}

// InSiteTx is InTx for a transaction that changes rows of one site's cell, which the tables' names
// then mean. No such transaction runs while the last of the site's rows are moved to another cell:
// it waits for up to five seconds, and then fails with ErrSiteMoving.
func (d *DB) InSiteTx(ctx context.Context, siteID int64, fn func(ctx context.Context, tx *Tx) error) error {
	for began := time.Now(); ; {
		err := d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			if err := tx.EnterSite(ctx, siteID); err != nil {
				return err
			}
			return fn(ctx, tx)
		})
		if !errors.Is(err, ErrSiteMoving) || time.Since(began) > moveWait {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(movePoll):
		}
	}
}

// EnterSite makes the names of tables mean those of a site's cell for the rest of the transaction, and
// keeps the site in its cell until the transaction ends. It fails with ErrSiteMoving, see InSiteTx.
func (tx *Tx) EnterSite(ctx context.Context, siteID int64) error {
	single, err := tx.db.isSingle(ctx)
	if single || err != nil {
		return err
	}

	shared, err := tx.shareCellOf(ctx, siteID)
	if err != nil {
		return err
	}
	if !shared {
		return ErrSiteMoving
	}

	// A statement after that of the lock reads what the last holder committed.
	var sites []struct {
		Cell   int64
		Closed bool `bun:"cell_closed"`
	}
	err = tx.NewSelect().Table("sites").Column("cell", "cell_closed").Where("id = ?", siteID).Scan(ctx, &sites)
	if err != nil || len(sites) == 0 {
		return err
	}
	if sites[0].Closed {
		return ErrSiteMoving
	}

	return tx.EnterCell(ctx, sites[0].Cell)
}

// StayPut fails with ErrSiteMoving while a site is being moved to another cell, from the beginning of
// the move. It is for changes of old rows, which are copied first. The transaction has entered the site.
func (tx *Tx) StayPut(ctx context.Context, siteID int64) error {
	single, err := tx.db.isSingle(ctx)
	if single || err != nil {
		return err
	}

	moving, err := tx.NewSelect().Table("site_moves").Where("site_id = ?", siteID).Where("state <> 'switched'").Exists(ctx)
	if err == nil && moving {
		err = ErrSiteMoving
	}
	return err
}

// HoldCell is the first statement of a transaction in a cell of Citus. It changes nothing, but from a
// statement that changes tables of the cell until the end of the transaction, Citus does not move the
// cell to another node. Rows that were locked before would not be locked on the new node.
const HoldCell = "UPDATE detached_partitions SET detached_at = 0 WHERE table_name = ''"

// holdCell runs HoldCell if the transaction is in a cell of Citus.
func (tx *Tx) holdCell(ctx context.Context) error {
	if tx.CellID() == DefaultCell {
		return nil
	}
	isCitus, err := tx.db.IsCitus(ctx)
	if err != nil || !isCitus {
		return err
	}
	_, err = tx.Tx.Tx.ExecContext(ctx, HoldCell)
	return err
}

// EnterCell makes the names of tables mean those of a cell for the rest of the transaction.
func (tx *Tx) EnterCell(ctx context.Context, id int64) error {
	if id == tx.CellID() {
		return nil
	}

	in, err := tx.db.InCell(ctx, id)
	if err != nil {
		return err
	}
	if _, err := tx.Tx.Tx.ExecContext(ctx, "SET LOCAL search_path = "+tx.db.cells.path(in.cell)); err != nil {
		return err
	}

	tx.cell = id
	return tx.holdCell(ctx)
}
