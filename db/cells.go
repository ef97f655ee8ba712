package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/db/model"
)

// A cell is a group of sites whose hits, deliveries and reports are in the tables of one schema of
// PostgreSQL, and a group of accounts whose captcha is. All other tables are common. The tables of the
// default cell are in the schema of the common tables; SQLite has no other cell.
//
// Statements name tables without a schema. A connection of another cell finds the cell's tables first
// and the common ones after them (search_path), so one statement serves every cell, and a transaction
// can change rows of a cell and common rows.

// DefaultCell is the id of the cell that every database has.
const DefaultCell = 1

const (
	// cellsFresh is the age up to which the list of cells is used. A process may need that time to
	// notice the second cell, see CellDelay.
	cellsFresh = 5 * time.Second

	// cellsRetry is the least time between two attempts to read the list.
	cellsRetry = 100 * time.Millisecond

	// CellDelay is how long a new cell gets no site. After it, every process has the cell in its list
	// and asks in which cell a site is.
	CellDelay = 2 * cellsFresh

	// cellPool is the most connections of a process to a cell other than the default one, in addition
	// to those of its writers of hits.
	cellPool = 6
)

// SiteTables are the tables of each cell with rows of sites, apart from their partitions.
var SiteTables = []string{
	"pageviews", "events", "engagement", "visits", "transactions", "delivery_attempts", "deliveries",
	"site_usage", "site_usage_days", "report_days", "report_segments",
}

// CellTables are the tables that each cell has, apart from their partitions.
var CellTables = slices.Concat(SiteTables, []string{"captcha_usage", "captcha_spent", "detached_partitions"})

// IsCellTable reports whether each cell has a table of the name.
func IsCellTable(name string) bool { return slices.Contains(CellTables, name) }

// Cell is a row of the table of cells.
type Cell struct {
	ID        int64
	Schema    string // empty: that of the common tables
	Open      bool   // takes new sites
	CreatedAt model.Instant

	denied bool // the role cannot use the schema, or it does not exist
}

// ErrCellDenied is returned for a cell whose schema the role cannot use. PostgreSQL leaves such a schema
// out of a search_path, so statements would change the tables of the default cell.
var ErrCellDenied = errors.New("the role needs USAGE of the cell's schema")

// cells are the known cells of a database, with their connections. All DBs of one Open share them.
type cells struct {
	home *DB

	// One caller at a time reads the list, and publishes it with the outcome. No lock is held meanwhile.
	reading   singleflight.Group
	known     atomic.Pointer[cellList]
	failure   atomic.Pointer[cellFailure]
	forgotten atomic.Pointer[time.Time] // of the last ForgetCells; nil: never

	mu     sync.Mutex // guards opened
	opened map[int64]*DB

	addresses cellAddresses // those of InCell's writers
}

// cellList is the list of cells as it was read. It never changes.
type cellList struct {
	cells   []Cell
	common  string // the schema of the common tables
	isCitus bool
	readAt  time.Time // the begin of reading
}

// cellFailure is a failed attempt to read the list.
type cellFailure struct {
	err error
	at  time.Time // its end
}

func newCells(home *DB) *cells {
	return &cells{home: home, opened: map[int64]*DB{DefaultCell: home}}
}

// list returns the known list, which is empty before the first one was read.
func (c *cells) list() *cellList { return cmp.Or(c.known.Load(), &cellList{}) }

// isFresh reports whether a list was read lately, and after the last ForgetCells.
func (c *cells) isFresh(list *cellList) bool {
	forgotten := c.forgotten.Load()
	return time.Since(list.readAt) < cellsFresh && (forgotten == nil || list.readAt.After(*forgotten))
}

// cell returns a cell of the list.
func (l *cellList) cell(id int64) (Cell, bool) {
	i := slices.IndexFunc(l.cells, func(cell Cell) bool { return cell.ID == id })
	if i < 0 {
		return Cell{}, false
	}
	return l.cells[i], true
}

// Cells returns all cells in the order of their ids, as they were a few seconds ago.
func (d *DB) Cells(ctx context.Context) ([]Cell, error) {
	if !d.IsPostgres() {
		return []Cell{{ID: DefaultCell, Open: true}}, nil
	}

	list, err := d.cells.fresh(ctx)
	if err != nil {
		return nil, err
	}
	return list.cells, nil
}

// fresh returns the list as it was a few seconds ago.
func (c *cells) fresh(ctx context.Context) (*cellList, error) {
	if list := c.list(); c.isFresh(list) {
		return list, nil
	}

	// Callers soon after a failed attempt share its error: otherwise each would make one of its own.
	if failed := c.failure.Load(); failed != nil && time.Since(failed.at) < cellsRetry {
		return nil, failed.err
	}

	return c.read(ctx)
}

// read reads the list and publishes it. Concurrent callers share one query. It does not end with the
// caller's context, since others wait for it.
func (c *cells) read(ctx context.Context) (*cellList, error) {
	read, err, _ := c.reading.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()

		list, err := c.readList(ctx)
		if err != nil {
			c.failure.Store(&cellFailure{err: err, at: time.Now()})
			return nil, err
		}

		c.failure.Store(nil)
		c.publish(list)
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	return read.(*cellList), nil
}

// publish makes the list the known one, unless a later one is known.
func (c *cells) publish(list *cellList) {
	for {
		known := c.known.Load()
		if known != nil && known.readAt.After(list.readAt) || c.known.CompareAndSwap(known, list) {
			return
		}
	}
}

func (c *cells) readList(ctx context.Context) (*cellList, error) {
	list := &cellList{readAt: time.Now()}

	// The data plane's pool, because the data plane waits for it. Without bun, whose hooks are for
	// statements of the product's subjects.
	rows, err := c.home.DataRead.DB.QueryContext(ctx, `
SELECT id, schema, open, created_at,
  schema <> '' AND NOT coalesce(has_schema_privilege(to_regnamespace(quote_ident(schema))::oid, 'USAGE'), false),
  current_schema(), EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')
FROM cells ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list the cells: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var cell Cell
		err := rows.Scan(&cell.ID, &cell.Schema, &cell.Open, &cell.CreatedAt, &cell.denied, &list.common, &list.isCitus)
		if err != nil {
			return nil, fmt.Errorf("list the cells: %w", err)
		}
		list.cells = append(list.cells, cell)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the cells: %w", err)
	}

	return list, nil
}

// ForgetCells makes the next call read the list of cells again.
func (d *DB) ForgetCells() {
	c := d.cells

	// A query that runs already may miss what the caller changed.
	c.reading.Forget("")
	now := time.Now()
	c.forgotten.Store(&now)
}

// isSingle reports whether the default cell is the only one.
func (d *DB) isSingle(ctx context.Context) (bool, error) {
	if !d.IsPostgres() {
		return true, nil
	}
	list, err := d.Cells(ctx)
	return len(list) == 1, err
}

// InCell returns the database with the tables of a cell. It shares everything with d but its
// connections, and d closes it. The id is one of Cells or of a site.
func (d *DB) InCell(ctx context.Context, id int64) (*DB, error) {
	c := d.cells
	if id == DefaultCell {
		return c.home, nil
	}

	if opened := c.openedCell(id); opened != nil {
		return opened, nil
	}

	list := c.list()
	cell, found := list.cell(id)
	if !found || cell.denied && !c.isFresh(list) {
		// Another process has just added it, or the role has the right now. A process that stores hits does
		// not list the cells otherwise.
		var err error
		if list, err = c.read(ctx); err != nil {
			return nil, err
		}
		if cell, found = list.cell(id); !found {
			return nil, fmt.Errorf("there is no cell %d", id)
		}
	}

	if cell.denied {
		return nil, fmt.Errorf("schema %s: %w", cell.Schema, ErrCellDenied)
	}

	return c.open(cell), nil
}

// openedCell returns the database of a cell that was opened before, or nil.
func (c *cells) openedCell(id int64) *DB {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened[id]
}

// open returns the database with the tables of a cell. Its connections bypass a pooler, which would
// give a session's search_path to other clients.
func (c *cells) open(cell Cell) *DB {
	c.mu.Lock()
	defer c.mu.Unlock()
	if opened := c.opened[cell.ID]; opened != nil {
		return opened
	}

	cfg := c.home.pg.Copy()
	cfg.RuntimeParams["search_path"] = c.path(cell)

	in := *c.home
	in.cell, in.pg, in.isPooled = cell, cfg, false
	in.Write = openPostgresPool(cfg, cellPool, false)
	in.Read, in.DataWrite, in.DataRead, in.sessions = in.Write, in.Write, in.Write, in.Write
	c.opened[cell.ID] = &in
	return &in
}

// path returns the search_path of a cell's connections.
func (c *cells) path(cell Cell) string {
	common := pgx.Identifier{c.list().common}.Sanitize()
	if cell.Schema == "" {
		return common
	}
	return pgx.Identifier{cell.Schema}.Sanitize() + ", " + common
}

// CellID returns the id of the cell whose tables d has.
func (d *DB) CellID() int64 { return cmp.Or(d.cell.ID, DefaultCell) }

// IsCitus reports whether the server is a Citus coordinator.
func (d *DB) IsCitus(ctx context.Context) (bool, error) {
	if !d.IsPostgres() {
		return false, nil
	}

	// It does not change, so that no transaction waits for the list of cells.
	if known := d.cells.known.Load(); known != nil {
		return known.isCitus, nil
	}

	list, err := d.cells.fresh(ctx)
	if err != nil {
		return false, err
	}
	return list.isCitus, nil
}

// CellID returns the id of the cell whose tables the transaction means.
func (tx *Tx) CellID() int64 { return cmp.Or(tx.cell, tx.db.CellID()) }

// OfSite returns the database with the tables of a site's cell; d for an unknown site. A site that is moved
// has its rows in both cells for a minute after that.
func (d *DB) OfSite(ctx context.Context, siteID int64) (*DB, error) {
	return d.cellOf(ctx, "sites", siteID)
}

// OfAccount returns the database with the captcha of an account; d for an unknown account. An account
// that is moved has its rows in both cells for a minute after that.
func (d *DB) OfAccount(ctx context.Context, accountID int64) (*DB, error) {
	return d.cellOf(ctx, "accounts", accountID)
}

func (d *DB) cellOf(ctx context.Context, table string, id int64) (*DB, error) {
	byID, err := d.cellsOf(ctx, table, []int64{id})
	if err != nil {
		return nil, err
	}
	return d.InCell(ctx, byID[id])
}

// cellsOf returns the ids of the cells of rows of sites or accounts.
func (d *DB) cellsOf(ctx context.Context, table string, ids []int64) (map[int64]int64, error) {
	byID := make(map[int64]int64, len(ids))
	for _, id := range ids {
		byID[id] = d.CellID()
	}

	single, err := d.isSingle(ctx)
	if single || err != nil {
		return byID, err
	}

	rows, err := d.cells.home.DataRead.DB.QueryContext(ctx, "SELECT id, cell FROM "+table+" WHERE id = ANY($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("look for the cells of %d %s: %w", len(ids), table, err)
	}
	defer rows.Close()

	for rows.Next() {
		var id, cell int64
		if err := rows.Scan(&id, &cell); err != nil {
			return nil, fmt.Errorf("look for the cells of %d %s: %w", len(ids), table, err)
		}
		byID[id] = cell
	}

	return byID, rows.Err()
}

// PerCell calls a function once for each cell that some of the sites are in, with these sites in
// their order.
func (d *DB) PerCell(ctx context.Context, siteIDs []int64, call func(in *DB, siteIDs []int64) error) error {
	bySite, err := d.cellsOf(ctx, "sites", siteIDs)
	if err != nil {
		return err
	}

	byCell := make(map[int64][]int64)
	for _, id := range siteIDs {
		byCell[bySite[id]] = append(byCell[bySite[id]], id)
	}

	for _, id := range slices.Sorted(maps.Keys(byCell)) {
		in, err := d.InCell(ctx, id)
		if err != nil {
			return err
		}
		if err := call(in, byCell[id]); err != nil {
			return inCell(id, err)
		}
	}

	return nil
}

// RowsPerCell returns the rows that a query finds in each cell of the sites, one cell after the other.
func RowsPerCell[Row any](
	ctx context.Context, d *DB, siteIDs []int64, query func(in *DB, siteIDs []int64, rows *[]Row) error,
) (all []Row, err error) {
	err = d.PerCell(ctx, siteIDs, func(in *DB, siteIDs []int64) error {
		var rows []Row
		err := query(in, siteIDs, &rows)
		all = append(all, rows...)
		return err
	})
	return all, err
}

// EachCell calls a function for each cell, in the order of their ids. An error does not keep it from
// the later cells.
func (d *DB) EachCell(ctx context.Context, call func(in *DB) error) error {
	list, err := d.Cells(ctx)
	if err != nil {
		return err
	}

	var failed []error
	for _, cell := range list {
		in, err := d.InCell(ctx, cell.ID)
		if err == nil {
			err = call(in)
		}
		failed = append(failed, inCell(cell.ID, err))
	}

	return errors.Join(failed...)
}

// EachCellOf is EachCell for a table: it calls the function once, with the default cell, for a common
// table.
func (d *DB) EachCellOf(ctx context.Context, table string, call func(in *DB) error) error {
	if !IsCellTable(table) {
		return call(d.cells.home)
	}
	return d.EachCell(ctx, call)
}

// inCell names the cell in an error, unless it is the default one.
func inCell(id int64, err error) error {
	if err == nil || id == DefaultCell {
		return err
	}
	return fmt.Errorf("cell %d: %w", id, err)
}

// close closes the connections of all cells but the default one.
func (c *cells) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	var failed []error
	for id, in := range c.opened {
		if id != DefaultCell {
			failed = append(failed, in.Write.Close())
		}
	}
	return errors.Join(failed...)
}

// CellSchema returns the schema of the tables of d's cell, quoted. The cells were read before.
func (d *DB) CellSchema() string {
	if d.cell.Schema == "" {
		return pgx.Identifier{d.cells.list().common}.Sanitize()
	}
	return pgx.Identifier{d.cell.Schema}.Sanitize()
}
