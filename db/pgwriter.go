package db

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// pgWriter is the PostgreSQL connection of one writer, which needs one of its own for its session
// and its prepared plans.
type pgWriter struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil until needed and after a failure
}

func newPGWriter(config *pgx.ConnConfig) pgWriter { return pgWriter{config: config.Copy()} }

// pgSession is what this connection needs beyond the server's defaults. It is set by a statement,
// not at connecting, where poolers refuse it.
//   - A commit is durable even where the server's default is not.
//   - Every statement looks up the keys of a few arrays by index. The planner must not decide otherwise for a table that was
//     small when the plan was made, nor plan anew for each batch.
//   - A process that is frozen inside its transaction must not hold its locks for long.
const pgSession = `
SET synchronous_commit = on;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_material = off;
SET idle_in_transaction_session_timeout = '10s'`

// pgBegin names the isolation that the locks rely on: what is read after a lock is what its last
// holder committed.
const pgBegin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// begin runs open, which opens a transaction and reads. A connection that turns out to be dead is
// replaced once: nothing was committed yet.
func (w *pgWriter) begin(ctx context.Context, open func() error) error {
	if w.conn != nil {
		if err := open(); err == nil || !w.conn.IsClosed() || ctx.Err() != nil {
			return err
		}
	}

	if err := w.connect(ctx); err != nil {
		return err
	}

	return open()
}

func (w *pgWriter) connect(ctx context.Context) error {
	w.abandon()
	conn, err := pgx.ConnectConfig(ctx, w.config)
	if err != nil {
		return err
	}

	w.conn = conn
	_, err = conn.PgConn().Exec(ctx, pgSession).ReadAll()
	return err
}

// abandon gives the connection up after a failure; closing it rolls back. Failures are rare enough
// for a new connection.
func (w *pgWriter) abandon() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = w.conn.Close(ctx)
	w.conn = nil
}

// Close closes the connection.
func (w *pgWriter) Close() error {
	w.abandon()
	return nil
}
