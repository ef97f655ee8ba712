// Package cells adds and lists cells, the schemas of PostgreSQL that sites' hits and accounts'
// captchas are in, and moves sites and accounts between them. The operator's commands call it, and
// the worker continues what a command left. Package db has what every store needs of cells.
package cells

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

// Store changes cells. It is safe for concurrent use.
type Store struct {
	db        *db.DB
	retention *retention.Store
}

// New returns the cells of a database.
func New(d *db.DB) *Store { return &Store{db: d, retention: retention.New(d)} }

// ErrSQLite is returned for changes of cells on SQLite.
var ErrSQLite = errors.New("SQLite has one cell; more of them need PostgreSQL")

// Info describes a cell.
type Info struct {
	celllist.Cell
	Node     string // of Citus that has the tables; empty: the server itself
	Sites    int64
	Accounts int64 // whose captcha is in the cell
	Bytes    int64 // of tables and indexes on disk; 0 on SQLite
}

// List returns all cells in the order of their ids.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	s.db.ForgetCells()
	list, err := s.db.Cells(ctx)
	if err != nil {
		return nil, err
	}

	infos := make([]Info, len(list))
	for i, cell := range list {
		infos[i].Cell = cell
		for table, count := range map[string]*int64{"sites": &infos[i].Sites, "accounts": &infos[i].Accounts} {
			if *count, err = s.count(ctx, table, cell.ID); err != nil {
				return nil, err
			}
		}
		if !s.db.IsPostgres() {
			continue
		}
		if err := s.measure(ctx, &infos[i]); err != nil {
			return nil, fmt.Errorf("measure cell %d: %w", cell.ID, err)
		}
	}

	return infos, nil
}

// count returns the number of sites or accounts in a cell.
func (s *Store) count(ctx context.Context, table string, cell int64) (int64, error) {
	n, err := s.db.Read.NewSelect().Table(table).Where("cell = ?", cell).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count the %s of cell %d: %w", table, cell, err)
	}
	return n, nil
}

// measure reads the size of a cell on PostgreSQL, and its node on Citus.
func (s *Store) measure(ctx context.Context, info *Info) error {
	isCitus, err := s.db.IsCitus(ctx)
	if err != nil {
		return err
	}
	if isCitus && info.Schema != "" {
		return s.db.Read.NewRaw(`
SELECT coalesce(min(nodename || ':' || nodeport), '') AS node, coalesce(sum(shard_size), 0)::bigint AS bytes
FROM citus_shards JOIN pg_class ON pg_class.oid = table_name::oid
WHERE relnamespace = to_regnamespace(?)`, info.Schema).Scan(ctx, &info.Node, &info.Bytes)
	}

	// A partition has the name of its table as a prefix, also when it is detached.
	return s.db.Read.NewRaw(`
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = coalesce(to_regnamespace(nullif(?, '')), current_schema()::regnamespace)
AND EXISTS (SELECT 1 FROM unnest(ARRAY[?]) AS t (name)
  WHERE c.relname = t.name OR c.relname ~ ('^(detached_)?' || t.name || '_([0-9]{6}|default)$'))`,
		info.Schema, bun.List(celllist.Tables)).Scan(ctx, &info.Bytes)
}

// layout creates the tables of a cell in the first schema of the search_path.
//
//go:embed layout.sql
var layout string

// Add creates a cell and returns it. It takes new sites after celllist.Delay, when all processes
// know it. On Citus it becomes a distributed schema on the node with the fewest of them.
func (s *Store) Add(ctx context.Context, now model.Instant) (celllist.Cell, error) {
	if !s.db.IsPostgres() {
		return celllist.Cell{}, ErrSQLite
	}

	isCitus, err := s.db.IsCitus(ctx)
	if err != nil {
		return celllist.Cell{}, err
	}
	if isCitus {
		if err := s.distributeCommon(ctx); err != nil {
			return celllist.Cell{}, err
		}
	}

	var cell celllist.Cell
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		cell, err = s.create(ctx, tx, isCitus)
		return err
	})
	if err != nil {
		return celllist.Cell{}, fmt.Errorf("add a cell: %w", err)
	}

	s.db.ForgetCells()
	if err := s.retention.EnsurePartitions(ctx, now); err != nil {
		return cell, fmt.Errorf("create the partitions of cell %d: %w", cell.ID, err)
	}
	return cell, nil
}

// create creates the schema of a cell with its tables.
func (s *Store) create(ctx context.Context, tx *db.Tx, isCitus bool) (cell celllist.Cell, err error) {
	// No migration runs between the check of the schema and the creation.
	if err := tx.LockKey(ctx, db.MigrationLock); err != nil {
		return cell, err
	}
	schema, err := migrations.ReadSchema(ctx, s.db)
	if err != nil {
		return cell, err
	}
	if len(schema.Pending) > 0 || len(schema.Unknown) > 0 {
		return cell, errors.New(`the schema is not that of this program, see "tallygate migrate --check"`)
	}

	if err := tx.NewRaw("SELECT max(id) + 1 FROM cells").Scan(ctx, &cell.ID); err != nil {
		return cell, err
	}
	cell.Schema, cell.Open = fmt.Sprintf("cell_%d", cell.ID), true

	if isCitus {
		if _, err := tx.ExecContext(ctx, "SET LOCAL citus.enable_schema_based_sharding = on"); err != nil {
			return cell, err
		}
	}
	if _, err := tx.ExecContext(ctx, "CREATE SCHEMA ?", bun.Ident(cell.Schema)); err != nil {
		return cell, err
	}

	err = tx.NewRaw(`
INSERT INTO cells (id, schema, created_at) VALUES (?, ?, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING created_at`, cell.ID, cell.Schema).Scan(ctx, &cell.CreatedAt)
	if err != nil {
		return cell, err
	}

	_, err = tx.ExecContext(ctx, "SET LOCAL search_path = ?, ?", bun.Ident(cell.Schema), bun.Safe(s.db.CommonSchema()))
	if err != nil {
		return cell, err
	}

	// Citus takes one statement at a time.
	for _, statement := range migrations.Statements(layout) {
		if _, err := tx.ExecContext(ctx, "?", bun.Safe(statement)); err != nil {
			return cell, fmt.Errorf("%s: %w", statement, err)
		}
	}

	return cell, nil
}

// SetOpen sets whether a cell takes new sites and accounts. If no cell does, the default one gets
// them.
func (s *Store) SetOpen(ctx context.Context, id int64, open bool) error {
	if !s.db.IsPostgres() {
		return ErrSQLite
	}

	err := db.NeedRow(s.db.Write.ExecContext(ctx, "UPDATE cells SET open = ? WHERE id = ?", open, id))
	if errors.Is(err, model.ErrNotFound) {
		return fmt.Errorf("there is no cell %d", id)
	}
	return err
}
