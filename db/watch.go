package db

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

const (
	// A connection without notifications is checked after watchSilence: a host or firewall may have
	// dropped it without closing it.
	watchSilence = 3 * time.Second

	watchPauseMin = 100 * time.Millisecond
	watchPauseMax = 2 * time.Second
)

// Watch calls changed with the id of every row whose change was announced on the channel with
// Notify, by this or another process. It returns ctx's error when ctx ends. It calls synced(nil)
// when it reports every later change, and synced with an error when it loses the database.
// WatchSites of package sites describes the guarantees.
func (d *DB) Watch(ctx context.Context, channel Channel, changed func(id int64), synced func(error)) error {
	if !d.IsPostgres() {
		return d.watchSQLite(ctx, channel, changed, synced)
	}

	config := d.pg.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol

	// Show in the server's list of connections why this one is idle.
	config.RuntimeParams["application_name"] += " watch"

	pause, reported := watchPauseMin, false
	began := func() {
		pause, reported = watchPauseMin, false
		synced(nil)
	}

	failed := func(err error) {
		if !reported && ctx.Err() == nil {
			reported = true
			synced(err)
		}
	}
	for {
		failed(listen(ctx, config, channel, changed, began, failed))

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause/2)):
			// Many processes lose a database at the same time: spread their attempts.
			pause = min(2*pause, watchPauseMax)
		}
	}
}

// listen reports changes over one connection until that breaks or ctx ends. It calls began when it
// listens. After that it calls lost as soon as the connection breaks, because closing the
// connection can take a while.
func listen(
	ctx context.Context, config *pgx.ConnConfig, channel Channel, changed func(int64), began func(), lost func(error),
) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchAnswer)
		defer cancel()
		// The connection is usually broken already.
		_ = conn.Close(ctx)
	}()

	if _, err := conn.Exec(ctx, "LISTEN "+string(channel)); err != nil {
		return err
	}

	began()

	for {
		id, err := nextChange(ctx, conn)
		if err != nil {
			lost(err)
			return err
		}

		if id != 0 {
			changed(id)
		}
	}
}

// nextChange returns the id of the next changed row. It returns 0 when there was none for a while
// and the connection still works.
func nextChange(ctx context.Context, conn *pgx.Conn) (int64, error) {
	wait, cancel := context.WithTimeout(ctx, watchSilence)
	defer cancel()

	notification, err := conn.WaitForNotification(wait)
	if notification != nil {
		return strconv.ParseInt(notification.Payload, 10, 64)
	}
	if wait.Err() == nil || ctx.Err() != nil {
		return 0, err
	}

	answer, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()

	return 0, conn.Ping(answer)
}

// Notify announces changes of rows to every process that watches the channel, when tx commits.
func (tx *Tx) Notify(ctx context.Context, channel Channel, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}

	if tx.db.IsPostgres() {
		_, err := tx.ExecContext(ctx, "SELECT pg_notify(?, id::text) FROM unnest(ARRAY[?]::bigint[]) AS id",
			string(channel), bun.List(ids))
		return err
	}

	for _, id := range ids {
		tx.changes = append(tx.changes, notice{channel, id})
	}
	return tx.noteChanges(ctx, channel, ids)
}
