package db

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/watch"
)

// Notify announces changes of rows to every process that watches the channel, when tx commits.
func (tx *Tx) Notify(ctx context.Context, channel watch.Channel, ids ...int64) error {
	if len(ids) == 0 {
		return nil
	}

	if tx.db.IsPostgres() {
		_, err := tx.ExecContext(ctx, "SELECT pg_notify(?, id::text) FROM unnest(ARRAY[?]::bigint[]) AS id",
			string(channel), bun.List(ids))
		return err
	}

	for _, id := range ids {
		tx.changes = append(tx.changes, watch.Notice{Channel: channel, ID: id})
	}

	return tx.db.changes.Store(ctx, tx, channel, ids)
}

// Watch calls changed with the id of every row whose change was announced on the channel with
// Notify, by this or another process. It returns ctx's error when ctx ends. It calls synced(nil)
// when it reports every later change, and synced with an error when it loses the database.
// WatchSites of package sites describes the guarantees.
func (d *DB) Watch(ctx context.Context, channel watch.Channel, changed func(id int64), synced func(error)) error {
	if d.IsPostgres() {
		return watch.Postgres(ctx, d.Postgres(), channel, changed, synced)
	}
	return d.changes.Watch(ctx, channel, changed, synced)
}
