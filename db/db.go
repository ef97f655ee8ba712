// Package db is the only place with SQL: one file per aggregate, both dialects side by side. The
// control plane, the data plane and the jobs call it; it calls nobody but db/model.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/tallygate/tallygate/db/model"
)

// DB is a database of either dialect. It is safe for concurrent use.
type DB struct {
	Write *bun.DB // SQLite: the one writing connection; PostgreSQL: the same pool as Read
	Read  *bun.DB

	// The data plane has pools of its own, so that owners and workers cannot use up its connections.
	DataWrite *bun.DB // SQLite: the one writing connection, ahead of Write; PostgreSQL: the same pool as DataRead
	DataRead  *bun.DB

	sqlite *sqliteWriter   // nil on PostgreSQL
	pg     *pgx.ConnConfig // nil on SQLite

	SQLitePath string // of the database file; empty on PostgreSQL

	watchers watchers   // of SQLite; PostgreSQL notifies every process itself
	source   int64      // of changes in SQLite: random, to recognise this DB's own
	keys     []*heldKey // the current key, then a previous one; none before UseApplicationKey
	clock    *clock

	exportReads chan struct{} // one for each export that is reading, see maxExportReads

	nodeIDs atomic.Pointer[model.NodeIDs] // nil before the first NodeIDs

	newSignInFailures atomic.Int64 // rows since this process last looked at their bound
}

const (
	connectTimeout  = 3 * time.Second
	sqliteReaders   = 8
	postgresPool    = 16
	dataPool        = 4 // connections with which the data plane looks up sites, sitekeys and salts, and stores counts
	pingAfter       = 50 * time.Millisecond
	sqliteScheme    = "sqlite:"
	defaultDatabase = "tallygate.sqlite"
)

// EmbeddedURL is the database used when none is configured: one SQLite file in the data directory.
func EmbeddedURL(dataDir string) string {
	return sqliteScheme + filepath.Join(dataDir, defaultDatabase)
}

// Open prepares a database from "sqlite:<path>" or "postgres://…". It does not wait for a server to
// answer: see Ping.
func Open(rawURL string) (*DB, error) {
	switch {
	case strings.HasPrefix(rawURL, sqliteScheme):
		return openSQLite(strings.TrimPrefix(rawURL, sqliteScheme))
	case strings.HasPrefix(rawURL, "postgres://"), strings.HasPrefix(rawURL, "postgresql://"):
		return openPostgres(rawURL)
	}
	return nil, errors.New("the database URL is neither a postgres nor a sqlite address")
}

// sqlitePath returns the file of an embedded database; ok is false for another one.
func sqlitePath(rawURL string) (path string, ok bool) {
	return strings.CutPrefix(rawURL, sqliteScheme)
}

func openSQLite(path string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	if err := protectSQLiteFiles(path); err != nil {
		return nil, fmt.Errorf("protect the database file: %w", err)
	}

	writer, err := newSQLiteWriter(sqliteDSN(path, "immediate"))
	if err != nil {
		return nil, err
	}

	read, err := openSQLiteReaders(path, sqliteReaders)
	if err != nil {
		return nil, err
	}

	dataRead, err := openSQLiteReaders(path, dataPool)
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}

	return &DB{
		Write:     bun.NewDB(writer.pool(ordinaryWrite), sqlitedialect.New()),
		Read:      read,
		DataWrite: bun.NewDB(writer.pool(urgentWrite), sqlitedialect.New()),
		DataRead:  dataRead,
		sqlite:    writer,

		SQLitePath:  path,
		source:      rand.Int64(),
		clock:       newClock(),
		exportReads: make(chan struct{}, maxExportReads),
	}, nil
}

func openSQLiteReaders(path string, connections int) (*bun.DB, error) {
	read, err := sql.Open("sqlite", sqliteDSN(path, "deferred"))
	if err != nil {
		return nil, err
	}
	read.SetMaxOpenConns(connections)
	read.SetMaxIdleConns(connections)
	return bun.NewDB(read, sqlitedialect.New()), nil
}

// protectSQLiteFiles sees to it that only the owner can read the database: its files hold password
// hashes and visits. SQLite gives its log and index the mode of the database file, so that is made
// here, whatever the umask.
func protectSQLiteFiles(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return errors.Join(file.Chmod(0o600), file.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}

	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, info.Mode().Perm()&^0o077)
		}

		// another user's file: Exposed reports it
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}

	return nil
}

// Exposed lists the files of an embedded database, and its folder, that other users of the machine
// can read. On PostgreSQL there are none.
func Exposed(databaseURL string) []string {
	path, ok := sqlitePath(databaseURL)
	if !ok {
		return nil
	}

	var exposed []string
	for _, name := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o055 != 0 {
			exposed = append(exposed, name)
		}
	}

	return exposed
}

// sqliteDSN carries every option in the address, so that each pooled connection has them. Writers
// take the lock when they begin: a transaction that upgrades from reading to writing fails at once
// instead of waiting its turn. FULL makes a commit survive a power cut, not only a crash. A log of
// 16,000 pages, 64 MB, is more than WriteBack leaves to the writer.
func sqliteDSN(path, txlock string) string {
	q := url.Values{
		"_txlock": {txlock},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-16000)", "wal_autocheckpoint(16000)"},
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func openPostgres(rawURL string) (*DB, error) {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		// pgx's own error could repeat the password
		return nil, errors.New("the database URL cannot be read")
	}

	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "tallygate"
	}

	pool := cfg.Copy()

	// bun writes values into the statement text, so preparing each distinct text would only fill
	// caches.
	pool.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	write, data := openPostgresPool(pool, postgresPool), openPostgresPool(pool, dataPool)
	return &DB{Write: write, Read: write, DataWrite: data, DataRead: data, pg: cfg, clock: newClock(), exportReads: make(chan struct{}, maxExportReads)}, nil
}

func openPostgresPool(cfg *pgx.ConnConfig, connections int) *bun.DB {
	// A connection that rested may have lost its server. pgx tells database/sql so, which then
	// takes another one, only where it asks first: without that, a restarted server would cost one
	// failed statement for each resting connection.
	sqlDB := stdlib.OpenDB(*cfg, stdlib.OptionShouldPing(func(_ context.Context, p stdlib.ShouldPingParams) bool {
		return p.IdleDuration > pingAfter
	}))

	sqlDB.SetMaxOpenConns(connections)
	sqlDB.SetMaxIdleConns(connections)
	sqlDB.SetConnMaxIdleTime(5 * time.Minute)

	return bun.NewDB(sqlDB, pgdialect.New())
}

// IsPostgres reports whether the database is PostgreSQL; otherwise it is SQLite.
func (d *DB) IsPostgres() bool { return d.pg != nil }

// Postgres returns the configuration for a connection of the caller's own, which the caller may
// change; nil on SQLite.
func (d *DB) Postgres() *pgx.ConnConfig {
	if d.pg == nil {
		return nil
	}
	return d.pg.Copy()
}

// Dialect is "sqlite" or "postgres".
func (d *DB) Dialect() string {
	if d.IsPostgres() {
		return "postgres"
	}
	return "sqlite"
}

// Ping reports whether the database answers.
func (d *DB) Ping(ctx context.Context) error { return d.Read.PingContext(ctx) }

// Close closes all connections.
func (d *DB) Close() error {
	err := errors.Join(d.Write.Close(), d.DataWrite.Close())
	// else the pools for reading are the same
	if d.sqlite != nil {
		err = errors.Join(err, d.Read.Close(), d.DataRead.Close(), d.sqlite.close())
	}
	return err
}
