package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
)

// The waits for a site or account that is being moved to another cell.
const (
	moveWait = 5 * time.Second

	// MovePoll is the pause before an attempt to change rows of a site or account that is being
	// moved.
	MovePoll = 100 * time.Millisecond
)

// ErrSiteMoving is returned for changes of a site's rows while the last of them are being moved to
// another cell.
var ErrSiteMoving = &model.Error{
	Kind: model.Unavailable, Code: "unavailable", RetryAfter: moveWait,
	Message: "The site's data is being moved. Try again in a few seconds.",
}

// CellTx is a transaction in a cell: its statements find the tables of the cell and the common
// ones.
type CellTx struct {
	*Tx

	CellID int64
}

// InTx is DB.InTx for a transaction in the cell.
func (c *Cell) InTx(ctx context.Context, fn func(ctx context.Context, tx *CellTx) error) error {
	// Connections of other cells than the default one bypass the pooler.
	isPooled := c.connections == nil && c.Common.isPooled
	return c.Common.inTx(ctx, c.Write, isPooled, func(ctx context.Context, tx *Tx) error {
		tx.cell = c.ID
		in := &CellTx{Tx: tx, CellID: c.ID}
		if err := in.hold(ctx); err != nil {
			return err
		}
		return fn(ctx, in)
	})
}

// InSiteTx is InTx for a transaction that changes rows of one site, in its cell. No such
// transaction runs while the last of the site's rows are moved to another cell: it waits for up to
// five seconds, and then fails with ErrSiteMoving.
func (d *DB) InSiteTx(ctx context.Context, siteID model.SiteID, fn func(ctx context.Context, tx *CellTx) error) error {
	return d.DefaultCell().InSiteTx(ctx, siteID, fn)
}

// InSiteTx is DB.InSiteTx with the connections of the cell. It saves a statement if the site is in
// it; fn checks tx.CellID if it must be.
func (c *Cell) InSiteTx(ctx context.Context, siteID model.SiteID, fn func(ctx context.Context, tx *CellTx) error) error {
	for began := time.Now(); ; {
		err := c.InTx(ctx, func(ctx context.Context, tx *CellTx) error {
			in, err := tx.EnterSite(ctx, siteID)
			if err != nil {
				return err
			}
			return fn(ctx, in)
		})
		if !errors.Is(err, ErrSiteMoving) || time.Since(began) > moveWait {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(MovePoll):
		}
	}
}

// EnterSite enters the cell of a site, as EnterCell does, and keeps the site there until the
// transaction ends. It fails with ErrSiteMoving, see InSiteTx.
func (tx *Tx) EnterSite(ctx context.Context, siteID model.SiteID) (*CellTx, error) {
	single, err := tx.db.IsSingle(ctx)
	if err != nil {
		return nil, err
	}
	if single {
		return tx.EnterCell(ctx, DefaultCell)
	}

	shared, err := tx.shareCellOf(ctx, siteID)
	if err != nil {
		return nil, err
	}
	if !shared {
		return nil, ErrSiteMoving
	}

	// A statement after that of the lock reads what the last holder committed.
	var sites []struct {
		Cell   int64
		Closed bool `bun:"cell_closed"`
	}
	err = tx.NewSelect().Table("sites").Column("cell", "cell_closed").Where("id = ?", siteID).Scan(ctx, &sites)
	switch {
	case err != nil:
		return nil, err
	case len(sites) == 0:
		return tx.EnterCell(ctx, DefaultCell)
	case sites[0].Closed:
		return nil, ErrSiteMoving
	}

	return tx.EnterCell(ctx, sites[0].Cell)
}

// shareCellOf shares the lock of LockCellOf until the transaction ends. It does not wait, because
// the caller may have the site's row, which a move locks later: it reports whether it has the lock.
func (tx *Tx) shareCellOf(ctx context.Context, siteID model.SiteID) (shared bool, err error) {
	err = tx.NewRaw("SELECT pg_try_advisory_xact_lock_shared(?)", siteLocks+siteID).Scan(ctx, &shared)
	return shared, err
}

// EnterCell returns the transaction in a cell. Until it enters another one, the names of cells'
// tables mean the tables of this one.
func (tx *Tx) EnterCell(ctx context.Context, id int64) (*CellTx, error) {
	in := &CellTx{Tx: tx, CellID: id}
	if id == cmp.Or(tx.cell, DefaultCell) {
		return in, nil
	}

	path := tx.db.CommonSchema()
	if id != DefaultCell {
		c, err := tx.db.Connect(ctx, id)
		if err != nil {
			return nil, err
		}
		path = c.Path
	}
	if _, err := tx.Tx.Tx.ExecContext(ctx, "SET LOCAL search_path = "+path); err != nil {
		return nil, err
	}

	tx.cell = id
	return in, in.hold(ctx)
}

// StayPut fails with ErrSiteMoving while a site is being moved to another cell, from the beginning
// of the move. It is for changes of old rows, which are copied first.
func (tx *CellTx) StayPut(ctx context.Context, siteID model.SiteID) error {
	single, err := tx.db.IsSingle(ctx)
	if single || err != nil {
		return err
	}

	moving, err := tx.NewSelect().Table("site_moves").Where("site_id = ?", siteID).Where("state <> 'switched'").Exists(ctx)
	if err == nil && moving {
		err = ErrSiteMoving
	}
	return err
}

// HoldCell is the first statement of a transaction in a cell of Citus. It changes nothing, but from
// a statement that changes tables of the cell until the end of the transaction, Citus does not move
// the cell to another node. Rows that were locked before would not be locked on the new node.
const HoldCell = "UPDATE detached_partitions SET detached_at = 0 WHERE table_name = ''"

// hold runs HoldCell if the cell is one of Citus.
func (tx *CellTx) hold(ctx context.Context) error {
	if tx.CellID == DefaultCell {
		return nil
	}
	isCitus, err := tx.db.IsCitus(ctx)
	if err != nil || !isCitus {
		return err
	}
	_, err = tx.Tx.Tx.Tx.ExecContext(ctx, HoldCell)
	return err
}

// KnownCell is the condition on a row of cells that all processes know the cell, see
// celllist.Delay.
var KnownCell = fmt.Sprintf("created_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %d",
	celllist.Delay.Microseconds())

// ChooseCell returns the cell of a new row of sites or accounts: the open one with the fewest of
// them.
func (tx *Tx) ChooseCell(ctx context.Context, of string) (int64, error) {
	single, err := tx.db.IsSingle(ctx)
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
