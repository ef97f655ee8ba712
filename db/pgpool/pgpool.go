// Package pgpool opens pools of connections to a PostgreSQL server.
package pgpool

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/tallygate/tallygate/db/damage"
)

const (
	// ConnectTimeout bounds connecting to a server, unless the URL sets another timeout.
	ConnectTimeout = 3 * time.Second

	pingAfter = 50 * time.Millisecond // idle time after which a connection is checked before its use
)

// The server ends a transaction of a process that is paused, or whose machine is, so that its locks
// do not stop every other process. No transaction waits for anything but the database. A statement
// sets the timeout: poolers refuse it as a parameter of the connection. Through a pooler each
// transaction sets it for itself (Local), because another process gets the connection to the server
// afterwards.
const (
	session = "SET idle_in_transaction_session_timeout = '30s'"

	// Local is the first statement of a transaction through a pooler.
	Local = "SET LOCAL idle_in_transaction_session_timeout = '30s'"
)

// Parse reads an address, and adds what it leaves out.
func Parse(rawURL string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		// Drop pgx's own error: it could repeat the password.
		return nil, errors.New("the database URL cannot be read")
	}

	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = ConnectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "tallygate"
	}
	watchDamage(cfg)

	return cfg, nil
}

// watchDamage makes each connection pass on the server's reports of damaged data.
func watchDamage(cfg *pgx.ConnConfig) {
	keeps := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) (keep bool) {
		damage.NotePostgres(err)
		return keeps(conn, err)
	}
}

// Open returns a pool of at most so many connections. It opens none yet.
func Open(cfg *pgx.ConnConfig, connections int, isPooled bool) *bun.DB {
	cfg = cfg.Copy()

	// bun writes values into the statement text, so preparing each distinct text would only fill
	// caches.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol

	// The server of an idle connection may have been restarted. database/sql then takes another
	// connection, but only if the driver checks the old one first. Without this check, a restart
	// would cost one failed statement for each idle connection.
	ping := stdlib.OptionShouldPing(func(_ context.Context, p stdlib.ShouldPingParams) bool {
		return p.IdleDuration > pingAfter
	})
	start := stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if isPooled {
			return nil
		}
		return conn.PgConn().Exec(ctx, session).Close()
	})
	sqlDB := stdlib.OpenDB(*cfg, ping, start)

	sqlDB.SetMaxOpenConns(connections)
	sqlDB.SetMaxIdleConns(connections)
	sqlDB.SetConnMaxIdleTime(5 * time.Minute)

	// Columns of newer programs are ignored.
	return bun.NewDB(sqlDB, pgdialect.New(), bun.WithDiscardUnknownColumns())
}
