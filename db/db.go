// Package db is the core of storage on SQLite and PostgreSQL: connections, transactions with their
// locks and retries, errors, notifications of changes, and the database's clock. It
// contains no subject of the product. Each subject has a package of its own, with a Store made from
// a DB:
//
//	copies         copies of a whole installation in another database
//	cells          the schemas that sites' hits are in, and moves between them
//	accounts       users, members, sessions, passwords, API tokens
//	retention      old, deleted and erased rows; partitions
//	sites          sites with their settings, captcha sitekeys
//	outbox         webhook deliveries, mails, daily exports, quota notices
//	ingest         batches of hits and captcha claims
//	exports        raw rows for owners
//	audit          who changed what, in the transactions of the stores above
//	idempotency    which object a call of a mutation with a key has created
//	keys           the application key and the key of ids
//	reports        column segments of finished days, and the reports counted from them
//	files          the files of an embedded database
//	inspect        how a PostgreSQL server is set up
//	migrations     the tables, and what is known about the schema of a database
//	db             this package
//	celllist       the list of cells, with their connections and addresses
//	pgpool         the connections to a PostgreSQL server
//	tables         columns of the tables that batches write
//	watch          notifications of changes, on both engines
//	damage         what the database reports about damaged data
//	sqlitefile     the connections of a SQLite file; saltfile is a leaf, too
//	model          entities and their rules, without SQL
//
// A package imports only packages below it; ingest, exports, audit, keys, reports, files and
// inspect do not import each other. SQL and bun are used only under db. The control plane, the data
// plane, the jobs and the command line make their stores from the one DB they are given. They keep
// the stores as concrete types: an interface would have one implementation and dozens of methods.
// Tests use real databases.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/pgpool"
	"github.com/tallygate/tallygate/db/sqlitefile"
	"github.com/tallygate/tallygate/db/watch"
)

// DB is a database of either dialect. Its connections are for the common tables: statements on
// tables of a cell need a Cell or a CellTx. It is safe for concurrent use.
type DB struct {
	Write *bun.DB // SQLite: the one writing connection; PostgreSQL: the same pool as Read
	Read  *bun.DB

	// The data plane has connections of its own, so that owners and workers cannot use them up. It
	// shares only SQLite's writing connection, at which it is served before Write. On PostgreSQL
	// both are the same pool.
	DataWrite *bun.DB
	DataRead  *bun.DB

	sqlite *sqlitefile.Writer // nil on PostgreSQL
	pg     *pgx.ConnConfig    // nil on SQLite

	SQLitePath string // path of the database file; empty on PostgreSQL

	// What needs a session of PostgreSQL uses sessions, the same pool as Write unless a pooler is
	// in between.
	sessions *bun.DB // nil on SQLite
	isPooled bool

	changes         *watch.SQLite          // nil on PostgreSQL, which notifies every process itself
	notifications   *watch.Postgres        // nil on SQLite
	applicationKeys []model.ApplicationKey // the current one first
	Clock           *Clock

	longReads chan struct{} // holds one value for each running LongRead

	*celllist.List // of the cells
}

// The connections of a process, and what bounds them. Writers of hits and claims on PostgreSQL have
// one more each, see package ingest.
const (
	sqliteReaders = 8                 // reading connections of the control plane and the worker
	postgresPool  = 16                // connections of the control plane and the worker, see Options
	dataPool      = 4                 // connections of the data plane for lookups, salts and counts, see Options
	maxLongReads  = sqliteReaders / 2 // see LongRead
)

const (
	sqliteScheme    = "sqlite:"
	defaultDatabase = "tallygate.sqlite" // file in the data folder
)

// Options are about the connections to a PostgreSQL server. SQLite ignores them.
type Options struct {
	// DirectURL is an address of the same database without a connection pooler in between. What
	// needs a session of its own uses it: batches of hits and claims, watching, and the migrations
	// that create indexes. Empty: there is no pooler.
	DirectURL string

	Connections     int // most of the control plane and the worker together; 0: 16
	DataConnections int // most of the data plane for lookups, salts and counts; 0: 4

	// CellURLs are addresses, by the ids of cells, at which the same tables are: on Citus that of a
	// worker. The writers of a cell's hits use it; a cell without one has DirectURL or the URL.
	CellURLs map[int64]string

	purpose string // added to the name of the connections, see ForCopy
}

// EmbeddedURL returns the URL used when none is configured: one SQLite file in the data directory.
func EmbeddedURL(dataDir string) string {
	return sqliteScheme + filepath.Join(dataDir, defaultDatabase)
}

// Open prepares a database from "sqlite:<path>" or "postgres://…". It does not connect to a server;
// see Ping.
func Open(rawURL string) (*DB, error) { return OpenWith(rawURL, Options{}) }

// OpenWith is Open with options.
func OpenWith(rawURL string, options Options) (*DB, error) {
	switch {
	case strings.HasPrefix(rawURL, sqliteScheme):
		return openSQLite(strings.TrimPrefix(rawURL, sqliteScheme))
	case strings.HasPrefix(rawURL, "postgres://"), strings.HasPrefix(rawURL, "postgresql://"):
		return openPostgres(rawURL, options)
	}
	return nil, errors.New("the database URL is neither a postgres nor a sqlite address")
}

// Written returns a channel of SQLite that receives after uses of this process's writing
// connection, for one receiver. It is nil on PostgreSQL.
func (d *DB) Written() <-chan struct{} {
	if d.sqlite == nil {
		return nil
	}
	return d.sqlite.Used()
}

// SQLiteFile returns the file of an embedded database. ok is false for any other database.
func SQLiteFile(rawURL string) (path string, ok bool) {
	return strings.CutPrefix(rawURL, sqliteScheme)
}

func openSQLite(path string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	if err := sqlitefile.Protect(path); err != nil {
		return nil, fmt.Errorf("protect the database file: %w", err)
	}

	writer, err := sqlitefile.NewWriter(path)
	if err != nil {
		return nil, err
	}

	read, err := sqlitefile.Readers(path, sqliteReaders)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}

	dataRead, err := sqlitefile.Readers(path, dataPool)
	if err != nil {
		return nil, errors.Join(err, read.Close(), writer.Close())
	}

	data := sqliteDB(dataRead)

	d := &DB{
		Write:     sqliteDB(writer.Pool(sqlitefile.Ordinary)),
		Read:      sqliteDB(read),
		DataWrite: sqliteDB(writer.Pool(sqlitefile.Urgent)),
		DataRead:  data,
		sqlite:    writer,

		SQLitePath: path,
		changes:    watch.NewSQLite(data, path),
		Clock:      newClock(),
		longReads:  make(chan struct{}, maxLongReads),
		List:       celllist.NewSQLite(),
	}
	return d, nil
}

// sqliteDB returns a pool for statements of bun. Columns of newer programs are ignored.
func sqliteDB(pool *sql.DB) *bun.DB {
	return bun.NewDB(pool, sqlitedialect.New(), bun.WithDiscardUnknownColumns())
}

// OpenCopy prepares a file of SQLite for reading, which no process may write meanwhile, such as a
// backup. It leaves no other files next to it, and does not read a log next to it.
func OpenCopy(path string) (*DB, error) { return openForReading(path, sqlitefile.ReadCopy) }

// OpenReadOnly prepares a file of SQLite for reading, which other processes may write meanwhile. It
// creates no file and changes none.
func OpenReadOnly(path string) (*DB, error) { return openForReading(path, sqlitefile.ReadOnly) }

func openForReading(path string, open func(path string) (*sql.DB, error)) (*DB, error) {
	pool, err := open(path)
	if err != nil {
		return nil, err
	}

	read := sqliteDB(pool)
	return &DB{
		Write: read, Read: read, DataWrite: read, DataRead: read, SQLitePath: path,
		Clock: newClock(), longReads: make(chan struct{}, 1), List: celllist.NewSQLite(),
	}, nil
}

func openPostgres(rawURL string, options Options) (*DB, error) {
	pool, err := pgpool.Parse(rawURL)
	if err != nil {
		return nil, err
	}

	isPooled := options.DirectURL != ""
	direct := pool
	if isPooled {
		if direct, err = pgpool.Parse(options.DirectURL); err != nil {
			return nil, fmt.Errorf("direct address: %w", err)
		}
	}
	if options.purpose != "" {
		pool.RuntimeParams["application_name"] += " " + options.purpose
		direct.RuntimeParams["application_name"] = pool.RuntimeParams["application_name"]
	}

	write := pgpool.Open(pool, cmp.Or(options.Connections, postgresPool), isPooled)
	data := pgpool.Open(pool, cmp.Or(options.DataConnections, dataPool), isPooled)
	sessions := write
	if isPooled {
		sessions = pgpool.Open(direct, 1, false)
	}

	notify := func(ctx context.Context, channel string) error {
		_, err := data.ExecContext(ctx, "SELECT pg_notify(?, '')", channel)
		return err
	}

	// The data plane's pool, because the data plane waits for the list.
	cells, err := celllist.NewPostgres(data, direct, options.CellURLs)
	if err != nil {
		return nil, err
	}

	return &DB{
		Write: write, Read: write, DataWrite: data, DataRead: data, sessions: sessions, isPooled: isPooled,
		pg: direct, notifications: watch.NewPostgres(direct.Copy, notify),
		Clock: newClock(), longReads: make(chan struct{}, maxLongReads), List: cells,
	}, nil
}

// IsPostgres reports whether the database is PostgreSQL; otherwise it is SQLite.
func (d *DB) IsPostgres() bool { return d.pg != nil }

// Postgres returns a copy of the configuration, for connections outside of the pools and without a
// pooler in between; nil on SQLite.
func (d *DB) Postgres() *pgx.ConnConfig {
	if d.pg == nil {
		return nil
	}
	return d.pg.Copy()
}

// Dialect returns "sqlite" or "postgres".
func (d *DB) Dialect() string {
	if d.IsPostgres() {
		return "postgres"
	}
	return "sqlite"
}

// UseApplicationKey sets the installation's application key, and the previous keys that may have
// sealed some of the stored secrets. It must be called once, before the database is used. Package
// keys seals and derives with them.
func (d *DB) UseApplicationKey(key model.ApplicationKey, previous ...model.ApplicationKey) {
	d.applicationKeys = append([]model.ApplicationKey{key}, previous...)
}

// ApplicationKeys returns the keys set by UseApplicationKey, the current one first.
func (d *DB) ApplicationKeys() []model.ApplicationKey { return d.applicationKeys }

// Setting returns the value stored under name. When there is none, it stores initial and returns
// that. Concurrent processes all get the value that was stored first.
func (d *DB) Setting(ctx context.Context, name, initial string) (stored string, err error) {
	_, err = d.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING",
		name, initial)
	if err != nil {
		return "", err
	}
	err = d.Read.NewSelect().Table("settings").Column("value").Where("name = ?", name).Scan(ctx, &stored)
	return stored, err
}

// SessionConn returns a connection of PostgreSQL with a session of its own, also if a pooler is in
// between: an advisory lock belongs to a session.
func (d *DB) SessionConn(ctx context.Context) (*sql.Conn, error) { return d.sessions.DB.Conn(ctx) }

// Ping reports whether the database answers.
func (d *DB) Ping(ctx context.Context) error { return d.Read.PingContext(ctx) }

// LongRead runs a read that may hold its connection for long, such as a page of an export. At most
// four run at once and further ones wait, so that connections are left for short reads.
func (d *DB) LongRead(ctx context.Context, read func() error) error {
	select {
	case d.longReads <- struct{}{}:
		defer func() { <-d.longReads }()
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SQLiteConn is the connection that WithSQLiteConn lends.
type SQLiteConn = sqlitefile.Conn

// Prepared returns the connection's set of prepared statements of type S, see sqlitefile.Prepared.
func Prepared[S io.Closer](conn *SQLiteConn, prepare func(*SQLiteConn) (S, error)) (S, error) {
	return sqlitefile.Prepared(conn, prepare)
}

// WithSQLiteConn runs fn with SQLite's writing connection, which no other caller uses until fn
// returns. It is served before InTx.
func (d *DB) WithSQLiteConn(ctx context.Context, fn func(*SQLiteConn) error) error {
	return sqlitefile.WithConn(ctx, d.DataWrite.DB, fn)
}

// Close closes all connections.
func (d *DB) Close() error {
	err := errors.Join(d.CloseCells(), d.Write.Close(), d.DataWrite.Close())
	// On PostgreSQL the pools for reading are the same ones.
	if d.sqlite != nil {
		err = errors.Join(err, d.Read.Close(), d.DataRead.Close(), d.sqlite.Close())
	}
	if d.isPooled {
		err = errors.Join(err, d.sessions.Close())
	}
	return err
}
