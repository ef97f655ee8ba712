package ingest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is the engine of a writer on PostgreSQL. The writer needs a connection of its own for
// its session and its prepared plans. A batch takes two round trips: begin, lock and read; then
// write and commit.
type postgres struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil until needed and after a failure
}

// closeTimeout bounds the closing of a connection.
const closeTimeout = 3 * time.Second

// pgSession is what the connection needs beyond the server's defaults. A statement sets it: poolers
// refuse it as a parameter of the connection.
//   - A commit is durable even where the server's default is not.
//   - Every statement looks up the keys of a few arrays by index. The planner must not choose
//     another plan for a table that was small when it made the plan, nor plan again for each batch.
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

// pgBegin names the isolation that the locks rely on; see Batches.
const pgBegin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// inTx runs fn again with a new connection if the old one was found closed before COMMIT was sent.
func (p *postgres) inTx(ctx context.Context, fn func(transaction) error) error {
	if p.conn != nil {
		dead, err := p.try(fn)
		if err == nil || !dead || ctx.Err() != nil {
			return err
		}
	}

	if err := p.connect(ctx); err != nil {
		return err
	}

	_, err := p.try(fn)
	return err
}

// try calls fn with a transaction on the connection. After a failure, including a panic, it
// abandons the connection. dead reports a connection that was closed before COMMIT was sent.
func (p *postgres) try(fn func(transaction) error) (dead bool, err error) {
	tx := &postgresTx{conn: p.conn}
	defer func() {
		if !tx.committed {
			dead = p.conn.IsClosed() && !tx.committing
			p.abandon()
		}
	}()

	return false, fn(tx)
}

func (p *postgres) connect(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return err
	}

	p.conn = conn
	if _, err := conn.PgConn().Exec(ctx, pgSession).ReadAll(); err != nil {
		p.abandon()
		return err
	}

	return nil
}

// abandon closes the connection, which rolls back. Failures are too rare to reuse it.
func (p *postgres) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()

	_ = p.conn.Close(ctx)
	p.conn = nil
}

func (p *postgres) close() error {
	if p.conn != nil {
		p.abandon()
	}
	return nil
}

// postgresTx is one transaction. Each call is one pipelined round trip.
type postgresTx struct {
	conn       *pgx.Conn
	committing bool // COMMIT was sent
	committed  bool
}

func (t *postgresTx) begin(ctx context.Context, steps []step) error {
	var b pgx.Batch
	b.Queue(pgBegin)
	return t.send(ctx, &b, steps)
}

func (t *postgresTx) run(ctx context.Context, steps []step) error {
	return t.send(ctx, &pgx.Batch{}, steps)
}

func (t *postgresTx) apart(ctx context.Context, steps []step) error {
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}

	// Outside of a transaction the statements of a round trip are one.
	return t.run(ctx, steps)
}

func (t *postgresTx) commit(ctx context.Context, steps []step) error {
	var b pgx.Batch
	queue(&b, steps)
	b.Queue("COMMIT")

	t.committing = true
	err := t.conn.SendBatch(ctx, &b).Close()
	t.committed = err == nil

	return err
}

func (t *postgresTx) send(ctx context.Context, b *pgx.Batch, steps []step) error {
	queue(b, steps)
	return t.conn.SendBatch(ctx, b).Close()
}

func queue(b *pgx.Batch, steps []step) {
	for _, s := range steps {
		if s != nil {
			s.queue(b)
		}
	}
}
