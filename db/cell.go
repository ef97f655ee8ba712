package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
)

// DefaultCell is the id of the cell that every database has.
const DefaultCell = celllist.Default

// Cell is a database with the tables of one cell, in addition to the common ones. It shares
// everything with Common but its connections. It is safe for concurrent use.
type Cell struct {
	ID     int64
	Common *DB

	Write    *bun.DB
	Read     *bun.DB
	DataRead *bun.DB

	connections *celllist.Connections // nil: the connections of Common
}

// DefaultCell returns the default cell.
func (d *DB) DefaultCell() *Cell {
	return &Cell{ID: DefaultCell, Common: d, Write: d.Write, Read: d.Read, DataRead: d.DataRead}
}

// Cell returns a cell. The id is one of Cells or of a site.
func (d *DB) Cell(ctx context.Context, id int64) (*Cell, error) {
	if id == DefaultCell {
		return d.DefaultCell(), nil
	}

	c, err := d.Connect(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Cell{ID: id, Common: d, Write: c.Pool, Read: c.Pool, DataRead: c.Pool, connections: c}, nil
}

// OfSite returns the cell of a site; the default one for an unknown site. A site that is moved has
// its rows in both cells for a minute after that.
func (d *DB) OfSite(ctx context.Context, siteID model.SiteID) (*Cell, error) {
	return cellOf(ctx, d, "sites", siteID)
}

// OfAccount returns the cell with the captcha of an account; the default one for an unknown
// account. An account that is moved has its rows in both cells for a minute after that.
func (d *DB) OfAccount(ctx context.Context, accountID model.AccountID) (*Cell, error) {
	return cellOf(ctx, d, "accounts", accountID)
}

func cellOf[ID ~int64](ctx context.Context, d *DB, table string, id ID) (*Cell, error) {
	byID, err := cellsOf(ctx, d, table, []ID{id})
	if err != nil {
		return nil, err
	}
	return d.Cell(ctx, byID[id])
}

// cellsOf returns the ids of the cells of rows of sites or accounts.
func cellsOf[ID ~int64](ctx context.Context, d *DB, table string, ids []ID) (map[ID]int64, error) {
	byID, numbers := make(map[ID]int64, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		byID[id], numbers[i] = DefaultCell, int64(id)
	}

	single, err := d.IsSingle(ctx)
	if single || err != nil {
		return byID, err
	}

	rows, err := d.DataRead.DB.QueryContext(ctx, "SELECT id, cell FROM "+table+" WHERE id = ANY($1)", numbers)
	if err != nil {
		return nil, fmt.Errorf("look for the cells of %d %s: %w", len(ids), table, err)
	}
	defer rows.Close()

	for rows.Next() {
		var id ID
		var cell int64
		if err := rows.Scan(&id, &cell); err != nil {
			return nil, fmt.Errorf("look for the cells of %d %s: %w", len(ids), table, err)
		}
		byID[id] = cell
	}

	return byID, rows.Err()
}

// PerCell calls a function once for each cell that some of the sites are in, with these sites in
// their order.
func (d *DB) PerCell(ctx context.Context, siteIDs []model.SiteID, call func(cell *Cell, siteIDs []model.SiteID) error) error {
	bySite, err := cellsOf(ctx, d, "sites", siteIDs)
	if err != nil {
		return err
	}

	byCell := make(map[int64][]model.SiteID)
	for _, id := range siteIDs {
		byCell[bySite[id]] = append(byCell[bySite[id]], id)
	}

	for _, id := range slices.Sorted(maps.Keys(byCell)) {
		cell, err := d.Cell(ctx, id)
		if err != nil {
			return err
		}
		if err := call(cell, byCell[id]); err != nil {
			return InCell(id, err)
		}
	}

	return nil
}

// RowsPerCell returns the rows that a query finds in each cell of the sites, one cell after the
// other.
func RowsPerCell[Row any](
	ctx context.Context, d *DB, siteIDs []model.SiteID, query func(cell *Cell, siteIDs []model.SiteID, rows *[]Row) error,
) (all []Row, err error) {
	err = d.PerCell(ctx, siteIDs, func(cell *Cell, siteIDs []model.SiteID) error {
		var rows []Row
		err := query(cell, siteIDs, &rows)
		all = append(all, rows...)
		return err
	})
	return all, err
}

// EachCell calls a function for each cell, in the order of their ids. An error does not keep it
// from the later cells.
func (d *DB) EachCell(ctx context.Context, call func(cell *Cell) error) error {
	list, err := d.Cells(ctx)
	if err != nil {
		return err
	}

	var failed []error
	for _, one := range list {
		cell, err := d.Cell(ctx, one.ID)
		if err == nil {
			err = call(cell)
		}
		failed = append(failed, InCell(one.ID, err))
	}

	return errors.Join(failed...)
}

// EachCellOf is EachCell for a table: it calls the function once, with the default cell, for a
// common table.
func (d *DB) EachCellOf(ctx context.Context, table string, call func(cell *Cell) error) error {
	if !celllist.HasTable(table) {
		return call(d.DefaultCell())
	}
	return d.EachCell(ctx, call)
}

// InCell names the cell in an error, unless it is the default one.
func InCell(id int64, err error) error {
	if err == nil || id == DefaultCell {
		return err
	}
	return fmt.Errorf("cell %d: %w", id, err)
}

// QuotedSchema returns the schema of the cell's tables. The cells were listed before.
func (c *Cell) QuotedSchema() string {
	if c.connections == nil {
		return c.Common.CommonSchema()
	}
	return c.connections.QuotedSchema()
}

// BatchPostgres returns a copy of the configuration for connections that store batches of the cell,
// which can lead to an address of its own; nil on SQLite.
func (c *Cell) BatchPostgres() *pgx.ConnConfig {
	if c.connections == nil {
		return c.Common.Postgres()
	}
	return c.Common.BatchConfig(c.connections)
}

// Postgres is BatchPostgres at the common address.
func (c *Cell) Postgres() *pgx.ConnConfig {
	if c.connections == nil {
		return c.Common.Postgres()
	}
	return c.connections.Config.Copy()
}

// HasOwnAddress reports whether BatchPostgres leads to an address of the cell.
func (c *Cell) HasOwnAddress() bool { return c.Common.HasAddress(c.ID) }
