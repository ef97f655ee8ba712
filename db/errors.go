package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tallygate/tallygate/db/model"
)

// OrNotFound turns the driver's "no rows" into model.ErrNotFound.
func OrNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return model.ErrNotFound
	}
	return err
}

// Wrap adds the failed operation to an error. A model.Error stays as it is: it is shown to the
// caller.
func Wrap(err error, format string, args ...any) error {
	if _, shown := errors.AsType[*model.Error](err); shown {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// IsUnique reports whether err is a violated unique or primary key.
func IsUnique(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23505"
	}
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// IsBadData reports whether the database refused the values themselves, so that the same statement
// can never succeed with them while it may without: SQLSTATE classes 21, 22 and 23, SQLite's
// CONSTRAINT, MISMATCH, TOOBIG and RANGE.
func IsBadData(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pg.Code, "21") || strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23")
	}

	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return true
	}

	return false
}

// IsRetryable reports a transaction that lost to another one and may simply run again:
// serialization failure, deadlock, SQLite busy.
func IsRetryable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	return sqliteCode(err)&0xff == sqlite3.SQLITE_BUSY
}

// IsUnavailable reports whether the database cannot answer for a while, through no fault of the
// statement: the server is away, restarts or has no connections left, the connection was lost,
// another process holds SQLite's lock, or the disk is full or broken. What a lost connection was
// committing may be stored or not.
func IsUnavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// 25006: a standby took over
		for _, class := range []string{"08", "53", "57", "58", "25006", "55P03"} {
			if strings.HasPrefix(pg.Code, class) {
				return true
			}
		}

		return IsRetryable(err)
	}

	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL:
		return true
	}

	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
