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

// Refusal is an error that no further attempt cures: a person must first correct the database, its
// files or the application key.
type Refusal struct{ err error }

// Refusef returns a Refusal with the text of fmt.Errorf, which may wrap an error.
func Refusef(format string, args ...any) error { return &Refusal{fmt.Errorf(format, args...)} }

// Error implements error.
func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns the error inside.
func (r *Refusal) Unwrap() error { return r.err }

// Changed reports whether a statement changed any row.
func Changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// NeedRow returns model.ErrNotFound for a statement that succeeded and changed no row.
func NeedRow(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}
	return err
}

// OrNotFound turns the driver's "no rows" into model.ErrNotFound.
func OrNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return model.ErrNotFound
	}
	return err
}

// Wrap adds the failed operation to an error. It returns nil for nil, and a model.Error unchanged,
// because that is shown to the caller.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if _, shown := errors.AsType[*model.Error](err); shown {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// IsUnique reports whether err is a violation of a unique or primary key.
func IsUnique(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23505" || isCitusCopy(pg) && strings.HasPrefix(pg.Message, "duplicate key value violates ")
	}
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// IsBadData reports whether the database refused the values of a statement. The statement can never
// succeed with these values, but may with others: SQLSTATE classes 21, 22 and 23, SQLite's
// CONSTRAINT, MISMATCH, TOOBIG and RANGE.
func IsBadData(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pg.Code, "21") || strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") ||
			isCitusCopy(pg) && strings.Contains(pg.Message, " violates ")
	}

	switch sqliteCode(err) & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return true
	}

	return false
}

// isCitusCopy reports whether err can be of a COPY to a table of another node: Citus then returns
// the node's message without its SQLSTATE.
func isCitusCopy(err *pgconn.PgError) bool { return err.Code == "XX000" }

// IsRetryable reports whether a transaction lost a conflict with another one and can run again:
// serialization failure, deadlock, SQLite busy.
func IsRetryable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	return sqliteCode(err)&0xff == sqlite3.SQLITE_BUSY
}

// isDeadlock reports whether PostgreSQL ended a transaction because it and others waited for each
// other.
func isDeadlock(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "40P01"
}

// IsLockTimeout reports whether PostgreSQL's lock_timeout ended a wait for a lock.
func IsLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// IsUnavailable reports whether the database cannot answer for a while, for a reason outside of the
// statement. The server is down, restarts or has no connections left, the connection was lost,
// another process holds SQLite's lock, or the disk is full or broken. A commit that was in flight
// on a lost connection may be stored or not.
func IsUnavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// 25006: the server has become a standby. 25P03: this process was paused in the
		// transaction.
		for _, class := range []string{"08", "53", "57", "58", "25006", "25P03", "55P03"} {
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

// IsDamaged reports whether SQLite found a file that contradicts itself, or that is no database.
func IsDamaged(err error) bool {
	code := sqliteCode(err) & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// sqliteCode returns SQLite's extended result code, or 0 for another error.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
