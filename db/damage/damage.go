// Package damage notices damaged data: it keeps the first report of a database to this process that
// a file or an index contradicts itself. Package sqlitefile passes on what SQLite reports, package
// pgpool what a PostgreSQL server answers, for every statement. The damage lasts until a restore,
// so the report stays until the process ends.
package damage

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Report is a database's report of damaged data.
type Report struct {
	At      time.Time
	Message string // of the database
}

// first is the process's, because SQLite has one log of errors for all connections of a process.
var first atomic.Pointer[Report]

// First returns the first report of this process, or nil.
func First() *Report { return first.Load() }

// Note keeps a report, unless there is one already.
func Note(message string) { first.CompareAndSwap(nil, &Report{At: time.Now(), Message: message}) }

// NotePostgres keeps an answer of a PostgreSQL server that reports damaged data: data_corrupted,
// index_corrupted, or a missing file of a table.
func NotePostgres(err *pgconn.PgError) {
	isMissing := err.Code == "58P01" && strings.HasPrefix(err.Message, "could not open file")
	if err.Code == "XX001" || err.Code == "XX002" || isMissing {
		Note(err.Error())
	}
}
