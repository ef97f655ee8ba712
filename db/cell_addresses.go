package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// Cells can have addresses for the writers of their hits and claims: on Citus that of the worker that has
// the cell, so that a batch does not pass the coordinator. All other statements use the common address:
// reads of a cell join common tables that workers of Citus do not have. Workers do not have the tables of
// the default cell either, so a batch that also changes these uses the common address.

// Errors of CheckCellAddress.
var (
	ErrUnknownCell   = errors.New("there is no such cell")
	ErrOtherDatabase = errors.New("the address leads to another database")
	ErrNoCellTables  = errors.New("the database at the address does not have the cell's tables")
)

// cellAddresses are the addresses of cells for their writers.
type cellAddresses struct {
	configs map[int64]*pgx.ConnConfig

	mu    sync.Mutex
	nodes []string // identities of the servers that the common address leads to
}

// parseCellAddresses reads addresses by the cells' ids. Its errors do not contain them.
func parseCellAddresses(urls map[int64]string) (map[int64]*pgx.ConnConfig, error) {
	configs := make(map[int64]*pgx.ConnConfig, len(urls))
	for id, url := range urls {
		if id == DefaultCell {
			return nil, fmt.Errorf("cell %d is at the common address", id)
		}

		config, err := parsePostgres(url)
		if err != nil {
			return nil, fmt.Errorf("address of cell %d: %w", id, err)
		}
		configs[id] = config
	}
	return configs, nil
}

// BatchPostgres returns a copy of the configuration for connections that store batches of d's cell; nil
// on SQLite. It is that of Postgres, or of the cell's own address, where a connection fails that leads to
// another database.
func (d *DB) BatchPostgres() *pgx.ConnConfig {
	address := d.cells.addresses.configs[d.CellID()]
	if address == nil {
		return d.Postgres()
	}

	config := address.Copy()
	config.RuntimeParams["search_path"] = d.pg.RuntimeParams["search_path"]
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return d.cells.checkNode(ctx, conn, d.cell)
	}
	return config
}

// HasOwnAddress reports whether BatchPostgres leads to an address of d's cell.
func (d *DB) HasOwnAddress() bool { return d.cells.addresses.configs[d.CellID()] != nil }

// CheckCellAddresses checks all configured addresses of cells at the same time. The result has an entry
// for each address with a fault: ErrUnknownCell, ErrOtherDatabase, ErrNoCellTables, or why there is no
// connection.
func (d *DB) CheckCellAddresses(ctx context.Context) (faults map[int64]error, err error) {
	ids := slices.Sorted(maps.Keys(d.cells.addresses.configs))
	if len(ids) == 0 {
		return nil, nil
	}

	d.ForgetCells()
	list, err := d.Cells(ctx)
	if err != nil {
		return nil, err
	}

	failed := make([]error, len(ids))
	var checks errgroup.Group
	for i, id := range ids {
		if !slices.ContainsFunc(list, func(cell Cell) bool { return cell.ID == id }) {
			failed[i] = ErrUnknownCell
			continue
		}
		checks.Go(func() error {
			failed[i] = d.connectToCell(ctx, id)
			return nil
		})
	}
	_ = checks.Wait()

	faults = make(map[int64]error)
	for i, id := range ids {
		if failed[i] != nil {
			faults[id] = failed[i]
		}
	}
	return faults, nil
}

// HasCellAddresses reports whether a cell has an address of its own.
func (d *DB) HasCellAddresses() bool { return len(d.cells.addresses.configs) > 0 }

// WritesCell reports whether the writers of at least one cell with an address can connect to a server that
// accepts changes. It needs the common address only for servers that it has not connected to before.
func (d *DB) WritesCell(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	reached := make(chan bool, len(d.cells.addresses.configs))
	for id := range d.cells.addresses.configs {
		go func() { reached <- d.connectToCell(ctx, id) == nil }()
	}
	for range d.cells.addresses.configs {
		if <-reached {
			return true
		}
	}
	return false
}

// connectToCell connects as a writer of the cell does.
func (d *DB) connectToCell(ctx context.Context, id int64) error {
	in, err := d.InCell(ctx, id)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, in.BatchPostgres())
	if err != nil {
		return err
	}

	var writable bool
	err = conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'").Scan(&writable)
	if err == nil && !writable {
		err = errReadOnly
	}
	return errors.Join(err, conn.Close(ctx))
}

var errReadOnly = errors.New("the server of the cell accepts no changes")

// nodeIdentity distinguishes a database of a running server from all others, also from copies of it.
const nodeIdentity = "SELECT pg_postmaster_start_time()::text || ' ' || oid FROM pg_database WHERE datname = current_database()"

// checkNode checks that a connection leads to a server of this database that has the tables of a cell.
func (c *cells) checkNode(ctx context.Context, conn *pgconn.PgConn, cell Cell) error {
	table := pgx.Identifier{cell.Schema, "site_usage"}.Sanitize()
	results, err := conn.Exec(ctx, fmt.Sprintf("%s; SELECT to_regclass('%s') IS NULL", nodeIdentity, table)).ReadAll()
	if err != nil {
		return err
	}

	// The order of the checks: another database may have no such table.
	if err := c.checkIdentity(ctx, string(results[0].Rows[0][0])); err != nil {
		return err
	}
	if string(results[1].Rows[0][0]) == "t" {
		return ErrNoCellTables
	}
	return nil
}

// checkIdentity checks that a server is one of those that the common address leads to. A server that
// was restarted has a new identity, so an unknown one makes it read them again.
func (c *cells) checkIdentity(ctx context.Context, identity string) error {
	a := &c.addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.nodes, identity) {
		return nil
	}

	nodes, err := c.readNodes(ctx)
	if err != nil {
		return fmt.Errorf("compare with the common address: %w", err)
	}

	a.nodes = nodes
	if !slices.Contains(nodes, identity) {
		return ErrOtherDatabase
	}
	return nil
}

// readNodes reads the identities of the common address's server, and on Citus of all its nodes that
// respond.
func (c *cells) readNodes(ctx context.Context) (nodes []string, err error) {
	query := nodeIdentity
	isCitus, err := c.home.IsCitus(ctx)
	if err != nil {
		return nil, err
	}
	if isCitus {
		query = "SELECT result FROM run_command_on_all_nodes($$" + nodeIdentity + "$$, true, true) WHERE success"
	}

	rows, err := c.home.DataRead.DB.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	for rows.Next() {
		var identity string
		if err := rows.Scan(&identity); err != nil {
			return nil, err
		}
		nodes = append(nodes, identity)
	}
	return nodes, rows.Err()
}
