package db

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/uptrace/bun"
)

// Snapshot runs reads that see one state of the cell and the common tables, as one of the long
// reads. settings are statements that PostgreSQL runs first, such as "SET LOCAL jit = off". conn is
// the connection of tx, for package rawrows.
func (c *Cell) Snapshot(
	ctx context.Context, settings []string, read func(ctx context.Context, tx bun.Tx, conn bun.Conn) error,
) error {
	hold, err := c.HoldPartitions(ctx)
	if err != nil {
		return err
	}
	first := strings.Join(slices.Concat(hold, settings), ";")

	options := &sql.TxOptions{ReadOnly: true}
	if c.Common.IsPostgres() {
		options.Isolation = sql.LevelRepeatableRead
	}

	return c.Common.LongRead(ctx, func() error {
		conn, err := c.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()

		return conn.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
			if c.Common.IsPostgres() {
				if _, err := tx.ExecContext(ctx, first); err != nil {
					return err
				}
			}
			return read(ctx, tx, conn)
		})
	})
}

// HoldPartitions returns the statements with which a transaction of PostgreSQL begins if all its
// reads see one state of the database. Until it ends, no row moves from a default partition into a
// new one. A moved row would be missing: the new partition has none of the earlier state, and the
// default partition is not read for that month any more.
func (c *Cell) HoldPartitions(ctx context.Context) ([]string, error) {
	// Unlike a query, LOCK decides only after its wait which state the transaction sees.
	const lock = "LOCK TABLE ONLY visits, ONLY pageviews, ONLY engagement, ONLY events IN ACCESS SHARE MODE"
	if !c.Common.IsPostgres() {
		return nil, nil
	}

	// Citus would lock the tables on all nodes, and fail without one of them. Partitions are
	// changed with locks on all nodes, so that one here is enough.
	isCitus, err := c.Common.IsCitus(ctx)
	if err != nil || !isCitus {
		return []string{lock}, err
	}
	return []string{"SET LOCAL citus.enable_ddl_propagation = off", lock}, nil
}

// LongConn lends a driver's connection for package rawrows, as one of the long reads.
func (c *Cell) LongConn(ctx context.Context, read func(driverConn any) error) error {
	return c.Common.LongRead(ctx, func() error {
		conn, err := c.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()

		return conn.Raw(read)
	})
}
