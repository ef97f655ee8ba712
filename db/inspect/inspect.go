// Package inspect reads how a PostgreSQL server and its database are set up, for "tallygate
// doctor". It changes nothing.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/watch"
)

// OldestPostgres is the oldest major version of PostgreSQL that the service supports.
const OldestPostgres = 15

// SQLiteVersion is the version of SQLite in the program.
const SQLiteVersion = sqlite3.SQLITE_VERSION

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
	MayCreate         bool   // the role may create tables in the schemas of all cells
	OwnsTables        bool   // the role may change and drop the service's tables, of all cells
	Connections       int    // most that this role may have at once
}

// Server reads the state of the server. It must not be called on SQLite.
func (s *Store) Server(ctx context.Context) (Server, error) {
	schemas, err := s.schemas(ctx)
	if err != nil {
		return Server{}, err
	}

	var server Server
	err = s.db.Read.NewRaw(`
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_text,
  current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('autovacuum') AS autovacuum,
  current_setting('default_transaction_read_only') AS read_only, pg_is_in_recovery() AS recovering,
  coalesce((SELECT bool_and(has_schema_privilege(oid, 'CREATE')) FROM pg_namespace WHERE nspname IN ?0), false) AS may_create,
  NOT EXISTS (SELECT FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ?0)
    AND relkind IN ('r', 'p') AND NOT pg_has_role(relowner, 'USAGE')) AS owns_tables,
  (SELECT CASE WHEN rolsuper THEN current_setting('max_connections')::int
      ELSE least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true)::int, 0),
        nullif(rolconnlimit, -1), nullif(datconnlimit, -1)) END
    FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()) AS connections`,
		bun.Tuple(schemas)).Scan(ctx, &server)
	if err != nil {
		return server, fmt.Errorf("read the server's settings: %w", err)
	}

	return server, nil
}

// schemas returns the schema of the common tables and the schemas of further cells, if the database
// was migrated. It does not use the list of cells of package db, because another program may have
// made the schema.
func (s *Store) schemas(ctx context.Context) ([]string, error) {
	var common string
	var isListed bool
	err := s.db.Read.NewRaw(`SELECT coalesce(current_schema(), ''),
coalesce(has_table_privilege(to_regclass('cells'), 'SELECT'), false)`).Scan(ctx, &common, &isListed)
	schemas := []string{common}
	if err == nil && isListed {
		var cells []string
		err = s.db.Read.NewRaw("SELECT schema FROM cells WHERE schema <> '' ORDER BY id").Scan(ctx, &cells)
		schemas = append(schemas, cells...)
	}
	if err != nil {
		return nil, fmt.Errorf("list the schemas: %w", err)
	}
	return schemas, nil
}

// inSchema is the name of a table of the catalog, with the schema of another cell.
const inSchema = "CASE n.nspname WHEN current_schema() THEN '' ELSE n.nspname || '.' END || c.relname"

// DeniedTables returns the service's tables, without partitions, that the role cannot read and
// write. Without USAGE of a cell's schema all its table names resolve to tables of the default
// cell.
func (s *Store) DeniedTables(ctx context.Context) ([]string, error) {
	schemas, err := s.schemas(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	err = s.db.Read.NewRaw(`
SELECT `+inSchema+` FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname IN ? AND c.relkind IN ('r', 'p') AND NOT c.relispartition
AND NOT (has_schema_privilege(n.oid, 'USAGE')
  AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
  AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
ORDER BY n.nspname <> current_schema(), n.oid, c.relname`, bun.Tuple(schemas)).Scan(ctx, &names)
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

// Addresses compares the address of the pools with the direct address of a database.
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

// Notifications waits until a process would learn of changes. It returns watch.ErrNoNotifications
// if the server confirms that it listens and a notification does not arrive.
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

// IsPooler reports whether a connection pooler may have caused an error of Notifications.
func IsPooler(err error) bool { return errors.Is(err, watch.ErrNoNotifications) }

// MissingPartitions returns the partitioned tables, of all cells, that have no partition for a
// month, in the form 202611.
func (s *Store) MissingPartitions(ctx context.Context, month string) ([]string, error) {
	schemas, err := s.schemas(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	err = s.db.Read.NewRaw(`
SELECT `+inSchema+` FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname IN ? AND c.relkind = 'p'
AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
  WHERE i.inhparent = c.oid AND p.relname = c.relname || '_' || ?)
ORDER BY n.nspname <> current_schema(), n.oid, c.relname`, bun.Tuple(schemas), month).Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}

	return names, nil
}
