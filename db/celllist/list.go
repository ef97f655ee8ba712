// Package celllist knows the cells of a database: the list of them, their connections, and the
// addresses of their writers. Package db makes cells of these, and transactions in them; package
// cells adds cells and moves sites.
//
// A cell is a schema of PostgreSQL with the hits, deliveries and reports of a group of sites, and
// with the captcha of a group of accounts. All other tables are common. The tables of the default
// cell are in the schema of the common tables; SQLite has no other cell.
package celllist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/pgpool"
)

// Default is the id of the cell that every database has.
const Default = 1

const (
	// fresh is the age up to which the list is used. A process may need that time to notice the
	// second cell, see Delay.
	fresh = 5 * time.Second

	// retryAfter is the least time between two attempts to read the list.
	retryAfter = 100 * time.Millisecond

	// Delay is how long a new cell gets no site. After it, every process has the cell in its list
	// and asks in which cell a site is.
	Delay = 2 * fresh
)

// Cell is a row of the table of cells.
type Cell struct {
	ID        int64
	Schema    string // empty: the schema of the common tables
	Open      bool   // takes new sites
	CreatedAt model.Instant

	denied bool // the role cannot use the schema, or it does not exist
}

// ErrDenied is returned for a cell with a schema that the role cannot use. PostgreSQL leaves such a
// schema out of a search_path, so statements would change the tables of the default cell.
var ErrDenied = errors.New("the role needs USAGE of the cell's schema")

// List is the list of cells of a database, with their connections. It is safe for concurrent use.
type List struct {
	common *bun.DB         // reads the list; nil on SQLite
	config *pgx.ConnConfig // of the common tables, without a pooler in between

	// One caller at a time reads the list, and publishes it with the outcome. No lock is held
	// meanwhile.
	reading   singleflight.Group
	known     atomic.Pointer[snapshot]
	failed    atomic.Pointer[failure]
	forgotten atomic.Pointer[time.Time] // of the last ForgetCells; nil: never

	mu     sync.Mutex // guards opened
	opened map[int64]*Connections

	addresses addresses
}

// snapshot is the list of cells as it was read. It never changes.
type snapshot struct {
	cells   []Cell
	common  string // the schema of the common tables
	isCitus bool
	readAt  time.Time // the begin of reading
}

// failure is a failed attempt to read the list.
type failure struct {
	err error
	at  time.Time // its end
}

// NewSQLite returns the list of a SQLite database, which has the default cell only.
func NewSQLite() *List { return new(List) }

// NewPostgres returns the list of a PostgreSQL database. common is the pool that reads it; config
// is for connections without a pooler in between. addresses has the addresses of cells for their
// writers.
func NewPostgres(common *bun.DB, config *pgx.ConnConfig, urls map[int64]string) (*List, error) {
	configs, err := parseAddresses(urls)
	if err != nil {
		return nil, err
	}
	return &List{
		common: common, config: config, opened: make(map[int64]*Connections), addresses: addresses{configs: configs},
	}, nil
}

// last returns the known list, which is empty before the first one was read.
func (l *List) last() *snapshot { return cmp.Or(l.known.Load(), &snapshot{}) }

// isFresh reports whether a list was read lately, and after the last ForgetCells.
func (l *List) isFresh(s *snapshot) bool {
	forgotten := l.forgotten.Load()
	return time.Since(s.readAt) < fresh && (forgotten == nil || s.readAt.After(*forgotten))
}

// cell returns a cell of the list.
func (s *snapshot) cell(id int64) (Cell, bool) {
	i := slices.IndexFunc(s.cells, func(cell Cell) bool { return cell.ID == id })
	if i < 0 {
		return Cell{}, false
	}
	return s.cells[i], true
}

// Cells returns all cells in the order of their ids, as they were a few seconds ago.
func (l *List) Cells(ctx context.Context) ([]Cell, error) {
	if l.common == nil {
		return []Cell{{ID: Default, Open: true}}, nil
	}

	s, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	return s.cells, nil
}

// IsSingle reports whether the default cell is the only one.
func (l *List) IsSingle(ctx context.Context) (bool, error) {
	if l.common == nil {
		return true, nil
	}
	s, err := l.fresh(ctx)
	return err == nil && len(s.cells) == 1, err
}

// IsCitus reports whether the server is a Citus coordinator.
func (l *List) IsCitus(ctx context.Context) (bool, error) {
	if l.common == nil {
		return false, nil
	}

	// It does not change, so that no transaction waits for the list of cells.
	if known := l.known.Load(); known != nil {
		return known.isCitus, nil
	}

	s, err := l.fresh(ctx)
	return err == nil && s.isCitus, err
}

// fresh returns the list as it was a few seconds ago.
func (l *List) fresh(ctx context.Context) (*snapshot, error) {
	if s := l.last(); l.isFresh(s) {
		return s, nil
	}

	// Callers soon after a failed attempt share its error: otherwise each would make one of its
	// own.
	if failed := l.failed.Load(); failed != nil && time.Since(failed.at) < retryAfter {
		return nil, failed.err
	}

	return l.read(ctx)
}

// read reads the list and publishes it. Concurrent callers share one query. It does not end with
// the caller's context, since others wait for it.
func (l *List) read(ctx context.Context) (*snapshot, error) {
	read, err, _ := l.reading.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pgpool.ConnectTimeout)
		defer cancel()

		s, err := l.query(ctx)
		if err != nil {
			l.failed.Store(&failure{err: err, at: time.Now()})
			return nil, err
		}

		l.failed.Store(nil)
		l.publish(s)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return read.(*snapshot), nil
}

// publish makes the list the known one, unless a later one is known.
func (l *List) publish(s *snapshot) {
	for {
		known := l.known.Load()
		if known != nil && known.readAt.After(s.readAt) || l.known.CompareAndSwap(known, s) {
			return
		}
	}
}

func (l *List) query(ctx context.Context) (*snapshot, error) {
	s := &snapshot{readAt: time.Now()}

	// Without bun: its hooks are for statements of the product's subjects.
	rows, err := l.common.DB.QueryContext(ctx, `
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
		err := rows.Scan(&cell.ID, &cell.Schema, &cell.Open, &cell.CreatedAt, &cell.denied, &s.common, &s.isCitus)
		if err != nil {
			return nil, fmt.Errorf("list the cells: %w", err)
		}
		s.cells = append(s.cells, cell)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the cells: %w", err)
	}

	return s, nil
}

// ForgetCells makes the next call read the list of cells again.
func (l *List) ForgetCells() {
	// A query that runs already may miss what the caller changed.
	l.reading.Forget("")
	now := time.Now()
	l.forgotten.Store(&now)
}
