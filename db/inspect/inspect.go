// Package inspect reads how a PostgreSQL server and its database are set up, for "tallygate doctor". It
// changes nothing.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/watch"
)

// Store inspects one database. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the inspection of a database.
func New(d *db.DB) *Store { return &Store{db: d} }

// Server is how a PostgreSQL server and its database are set up.
type Server struct {
	Version           int    // for instance 150004
	VersionText       string // for instance 15.4
	Encoding          string // of the database
	Fsync             string
	FullPageWrites    string
	SynchronousCommit string // of this role and database
	Autovacuum        string
	ReadOnly          string // default_transaction_read_only
	Recovering        bool   // a standby
	MayCreate         bool   // the role may create tables
	OwnsTables        bool   // the role may change and drop the service's tables
	Connections       int    // most that this role may have at once
}

// Server reads the state of the server. It must not be called on SQLite.
func (s *Store) Server(ctx context.Context) (Server, error) {
	var server Server
	err := s.db.Read.NewRaw(`
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_text,
  current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
  current_setting('default_transaction_read_only') AS read_only, pg_is_in_recovery() AS recovering,
  coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
  NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND NOT pg_has_role(relowner, 'USAGE')) AS owns_tables,
  (SELECT CASE WHEN rolsuper THEN current_setting('max_connections')::int
      ELSE least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true)::int, 0),
        nullif(rolconnlimit, -1), nullif(datconnlimit, -1)) END
    FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()) AS connections`).
		Scan(ctx, &server)
	if err != nil {
		return server, fmt.Errorf("read the server's settings: %w", err)
	}

	return server, nil
}

// DeniedTables returns the service's tables, without partitions, that the role cannot read and write.
func (s *Store) DeniedTables(ctx context.Context) ([]string, error) {
	var names []string
	err := s.db.Read.NewRaw(`
SELECT relname FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
  AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
ORDER BY relname`).Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("read the role's rights: %w", err)
	}

	return names, nil
}

// identity distinguishes a database of a server from all others.
type identity struct {
	Started time.Time
	Oid     int64
}

const identityQuery = "SELECT pg_postmaster_start_time() AS started, (SELECT oid FROM pg_database WHERE datname = current_database())::bigint AS oid"

// Addresses compares the two addresses of a database: that of the pools and the direct one.
type Addresses struct {
	IsDirectPooled bool // the direct address leads through a connection pooler
	IsOther        bool // the direct address leads to another database
}

// Addresses connects to the direct address, which is the only one where no other is configured.
func (s *Store) Addresses(ctx context.Context) (Addresses, error) {
	var pooled identity
	if err := s.db.Read.NewRaw(identityQuery).Scan(ctx, &pooled); err != nil {
		return Addresses{}, err
	}

	config := s.db.Postgres()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Addresses{}, fmt.Errorf("connect to the direct address: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	var direct identity
	var pid uint32
	err = conn.QueryRow(ctx, identityQuery).Scan(&direct.Started, &direct.Oid)
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	}

	// A pooler reports a process id of its own when the client connects.
	return Addresses{
		IsDirectPooled: pid != conn.PgConn().PID(),
		IsOther:        !direct.Started.Equal(pooled.Started) || direct.Oid != pooled.Oid,
	}, err
}

// Notifications waits until a process would learn of changes. It returns watch.ErrNoNotifications if the
// server confirms that it listens and a notification does not arrive.
func (s *Store) Notifications(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	outcome := make(chan error, 1)
	err := s.db.Watch(ctx, watch.Sites, func(int64) {}, func(err error) {
		select {
		case outcome <- err:
		default:
		}
		stop()
	})

	select {
	case err = <-outcome:
	default: // the caller's time is over
	}

	return err
}

// IsPooler reports whether an error of Notifications is what a connection pooler causes.
func IsPooler(err error) bool { return errors.Is(err, watch.ErrNoNotifications) }

// MissingPartitions returns the partitioned tables that have no partition for a month, in the form
// 202611.
func (s *Store) MissingPartitions(ctx context.Context, month string) ([]string, error) {
	var names []string
	err := s.db.Read.NewRaw(`
SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'p'
AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
  WHERE i.inhparent = c.oid AND p.relname = c.relname || '_' || ?)
ORDER BY c.relname`, month).Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}

	return names, nil
}
