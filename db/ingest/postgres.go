package ingest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tallygate/tallygate/db"
)

// postgres is the engine of a writer on PostgreSQL. The writer needs a connection of its own for
// its session and its prepared plans. A batch takes two round trips: begin, lock and read; then
// write and commit.
type postgres struct {
	config  *pgx.ConnConfig
	isCitus func(context.Context) (bool, error)
	conn    *pgx.Conn // nil until needed and after a failure

	prepared map[string]bool // the statements that conn has prepared
	onCitus  bool            // as conn found
}

// closeTimeout bounds the closing of a connection.
const closeTimeout = 3 * time.Second

// pgSession has the connection's settings beyond the server's defaults. A statement sets it:
// poolers refuse it as a parameter of the connection.
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

// pgCitusSession follows pgSession on Citus, which cannot plan an INSERT of a distributed table
// without its parameters.
const pgCitusSession = "SET plan_cache_mode = auto"

// pgBegin names the isolation that the locks rely on; see Batches.
const (
	pgBegin  = "BEGIN ISOLATION LEVEL READ COMMITTED"
	pgCommit = "COMMIT"
)

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
	tx := &postgresTx{conn: p.conn, prepared: p.prepared, onCitus: p.onCitus}
	defer func() {
		if !tx.committed {
			dead = p.conn.IsClosed() && !tx.committing
			p.abandon()
		}
	}()

	return false, fn(tx)
}

func (p *postgres) connect(ctx context.Context) error {
	session := pgSession
	isCitus, err := p.isCitus(ctx)
	if err != nil {
		return err
	}
	if isCitus {
		session += "; " + pgCitusSession
	}

	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return err
	}

	p.conn, p.prepared, p.onCitus = conn, make(map[string]bool), isCitus
	if _, err := conn.PgConn().Exec(ctx, session).ReadAll(); err != nil {
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
	prepared   map[string]bool
	onCitus    bool
	committing bool // COMMIT was sent
	committed  bool
}

func (t *postgresTx) begin(ctx context.Context, steps []step) error {
	var b pgx.Batch
	b.Queue(pgBegin)
	if t.onCitus {
		b.Queue(db.HoldCell)
	}
	queue(&b, steps...)
	return t.send(ctx, &b)
}

func (t *postgresTx) run(ctx context.Context, steps []step) error {
	var b pgx.Batch
	queue(&b, steps...)
	return t.send(ctx, &b)
}

func (t *postgresTx) apart(ctx context.Context, steps []step) error {
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}

	// Outside of a transaction the statements of a round trip are one.
	return t.run(ctx, steps)
}

func (t *postgresTx) commit(ctx context.Context, steps []step) error {
	t.committing = true
	if err := t.write(ctx, steps); err != nil {
		return unknownOutcome{err}
	}
	t.committed = true
	return nil
}

// write runs the steps and commits. Large inserts are COPYs before the other statements, unless one
// of these is new to the connection: pgx then reads answers before the batch is sent, and does not
// expect the answer of a COPY. Citus gets no COPY, because its coordinator would commit it in two
// phases.
func (t *postgresTx) write(ctx context.Context, steps []step) error {
	var b pgx.Batch
	var copies []copier
	for _, s := range steps {
		if c, ok := s.(copier); ok && !t.onCitus && c.isLarge() {
			copies = append(copies, c)
			continue
		}
		queue(&b, s)
	}

	b.Queue(pgCommit)
	if len(copies) > 0 && t.arePrepared(&b) {
		return t.sendCopies(ctx, copies, &b)
	}

	var all pgx.Batch
	queue(&all, steps...)
	all.Queue(pgCommit)
	return t.send(ctx, &all)
}

// sendCopies sends COPYs and then the batch in one round trip. After a COPY that fails the server
// runs no statement of the batch. pgx has no COPY in a pipeline: the messages of COPY are put
// before its own messages, and their answers are read before it reads its own answers.
func (t *postgresTx) sendCopies(ctx context.Context, copies []copier, b *pgx.Batch) error {
	frontend := t.conn.PgConn().Frontend()
	for _, c := range copies {
		statement, rows := c.copyIn()
		frontend.Send(&pgproto3.Query{String: statement})
		frontend.Send(&pgproto3.CopyData{Data: rows})
		frontend.Send(&pgproto3.CopyDone{})
	}

	// A connection that is not busy afterwards has sent nothing, or is closed.
	results := t.conn.SendBatch(ctx, b)
	if !t.conn.PgConn().IsBusy() {
		return cmp.Or(results.Close(), errNotSent)
	}

	var refused error
	for range copies {
		err := receiveCopied(frontend)
		refused = cmp.Or(refused, err)
	}

	// A failed COPY makes the batch fail, too: return its error first.
	return cmp.Or(refused, results.Close())
}

// errNotSent is returned for a batch that pgx has neither sent nor failed to send.
var errNotSent = errors.New("ingest: the batch was not sent")

// receiveCopied reads the answers to a COPY, and returns the server's error. If the connection
// fails, the batch that follows returns the error.
func receiveCopied(frontend *pgproto3.Frontend) (refused error) {
	for {
		message, err := frontend.Receive()
		if err != nil {
			return refused
		}

		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			refused = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return refused
		}
	}
}

// arePrepared reports whether the connection has prepared all statements of a batch.
func (t *postgresTx) arePrepared(b *pgx.Batch) bool {
	return !slices.ContainsFunc(b.QueuedQueries, func(q *pgx.QueuedQuery) bool { return !t.prepared[q.SQL] })
}

func (t *postgresTx) send(ctx context.Context, b *pgx.Batch) error {
	err := t.conn.SendBatch(ctx, b).Close()
	if err == nil {
		for _, q := range b.QueuedQueries {
			t.prepared[q.SQL] = true
		}
	}
	return err
}

func queue(b *pgx.Batch, steps ...step) {
	for _, s := range steps {
		if s != nil {
			s.queue(b)
		}
	}
}
