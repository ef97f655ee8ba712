package celllist

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

	"github.com/tallygate/tallygate/db/pgpool"
)

// Cells can have addresses for the writers of their hits and claims: on Citus that of the worker
// that has the cell, so that a batch does not pass the coordinator. All other statements use the
// common address: reads of a cell join common tables that workers of Citus do not have. Workers do
// not have the tables of the default cell either, so a batch that also changes these uses the
// common address.

// Errors of CheckCellAddress.
var (
	ErrUnknownCell   = errors.New("there is no such cell")
	ErrOtherDatabase = errors.New("the address leads to another database")
	ErrNoCellTables  = errors.New("the database at the address does not have the cell's tables")
)

// addresses are the addresses of cells for their writers.
type addresses struct {
	configs map[int64]*pgx.ConnConfig

	mu    sync.Mutex
	nodes []string // identities of the servers that the common address leads to
}

// parseAddresses reads addresses by the cells' ids. Its errors do not contain them.
func parseAddresses(urls map[int64]string) (map[int64]*pgx.ConnConfig, error) {
	configs := make(map[int64]*pgx.ConnConfig, len(urls))
	for id, url := range urls {
		if id == Default {
			return nil, fmt.Errorf("cell %d is at the common address", id)
		}

		config, err := pgpool.Parse(url)
		if err != nil {
			return nil, fmt.Errorf("address of cell %d: %w", id, err)
		}
		configs[id] = config
	}
	return configs, nil
}

// BatchConfig returns a copy of the configuration for connections that store batches of the cell:
// of Config, or of the cell's own address, where a connection fails that leads to another database.
func (l *List) BatchConfig(c *Connections) *pgx.ConnConfig {
	address := l.addresses.configs[c.ID]
	if address == nil {
		return c.Config.Copy()
	}

	config := address.Copy()
	config.RuntimeParams["search_path"] = c.Path
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return l.checkNode(ctx, conn, c.Cell)
	}
	return config
}

// HasAddress reports whether a cell has an address of its own.
func (l *List) HasAddress(id int64) bool { return l.addresses.configs[id] != nil }

// CheckCellAddresses checks all configured addresses of cells at the same time. The result has an
// entry for each address with a fault: ErrUnknownCell, ErrOtherDatabase, ErrNoCellTables, or why
// there is no connection.
func (l *List) CheckCellAddresses(ctx context.Context) (faults map[int64]error, err error) {
	ids := slices.Sorted(maps.Keys(l.addresses.configs))
	if len(ids) == 0 {
		return nil, nil
	}

	l.ForgetCells()
	list, err := l.Cells(ctx)
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
			failed[i] = l.connectAsWriter(ctx, id)
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
func (l *List) HasCellAddresses() bool { return len(l.addresses.configs) > 0 }

// WritesCell reports whether the writers of at least one cell with an address can connect to a
// server that accepts changes. It needs the common address only for servers that it has not
// connected to before.
func (l *List) WritesCell(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	reached := make(chan bool, len(l.addresses.configs))
	for id := range l.addresses.configs {
		go func() { reached <- l.connectAsWriter(ctx, id) == nil }()
	}
	for range l.addresses.configs {
		if <-reached {
			return true
		}
	}
	return false
}

// connectAsWriter connects as a writer of the cell does.
func (l *List) connectAsWriter(ctx context.Context, id int64) error {
	in, err := l.Connect(ctx, id)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, l.BatchConfig(in))
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

// nodeIdentity distinguishes a database of a running server from all others, also from copies of
// it.
const nodeIdentity = "SELECT pg_postmaster_start_time()::text || ' ' || oid FROM pg_database WHERE datname = current_database()"

// checkNode checks that a connection leads to a server of this database that has the tables of a
// cell.
func (l *List) checkNode(ctx context.Context, conn *pgconn.PgConn, cell Cell) error {
	table := pgx.Identifier{cell.Schema, "site_usage"}.Sanitize()
	results, err := conn.Exec(ctx, fmt.Sprintf("%s; SELECT to_regclass('%s') IS NULL", nodeIdentity, table)).ReadAll()
	if err != nil {
		return err
	}

	// The order of the checks: another database may have no such table.
	if err := l.checkIdentity(ctx, string(results[0].Rows[0][0])); err != nil {
		return err
	}
	if string(results[1].Rows[0][0]) == "t" {
		return ErrNoCellTables
	}
	return nil
}

// checkIdentity checks that a server is one of those that the common address leads to. A server
// that was restarted has a new identity, so an unknown one makes it read them again.
func (l *List) checkIdentity(ctx context.Context, identity string) error {
	a := &l.addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.nodes, identity) {
		return nil
	}

	nodes, err := l.readNodes(ctx)
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
func (l *List) readNodes(ctx context.Context) (nodes []string, err error) {
	query := nodeIdentity
	isCitus, err := l.IsCitus(ctx)
	if err != nil {
		return nil, err
	}
	if isCitus {
		query = "SELECT result FROM run_command_on_all_nodes($$" + nodeIdentity + "$$, true, true) WHERE success"
	}

	rows, err := l.common.DB.QueryContext(ctx, query)
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
