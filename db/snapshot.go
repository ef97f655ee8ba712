package db

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// Snapshot runs reads that see one state of the database, as one of the long reads. settings are
// statements that PostgreSQL runs first, such as "SET LOCAL jit = off". conn is the connection of tx,
// for package rawrows.
func (d *DB) Snapshot(
	ctx context.Context, settings string, read func(ctx context.Context, tx bun.Tx, conn bun.Conn) error,
) error {
	options := &sql.TxOptions{ReadOnly: true}
	if d.IsPostgres() {
		options.Isolation = sql.LevelRepeatableRead
	}

	return d.LongRead(ctx, func() error {
		conn, err := d.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()

		return conn.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
			if d.IsPostgres() {
				if _, err := tx.ExecContext(ctx, settings); err != nil {
					return err
				}
			}
			return read(ctx, tx, conn)
		})
	})
}

// LongConn lends a driver's connection for package rawrows, as one of the long reads.
func (d *DB) LongConn(ctx context.Context, read func(driverConn any) error) error {
	return d.LongRead(ctx, func() error {
		conn, err := d.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()

		return conn.Raw(read)
	})
}
