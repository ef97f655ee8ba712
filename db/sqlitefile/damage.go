package sqlitefile

import (
	"errors"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tallygate/tallygate/db/damage"
)

// errUnwatched is the reason why SQLite would not pass on reports of damaged files; nil: it does.
// SQLite has one log of errors for a process and takes the log's receiver before the first
// connection only, so this happens when the program starts.
var errUnwatched = watchDamage()

// watchDamage makes SQLite pass on each report of a damaged file. It covers every statement, also
// those that do not use database/sql, and a statement without an error costs nothing.
func watchDamage() error {
	tls := libc.NewTLS()
	defer tls.Close()

	arguments := libc.Xmalloc(tls, types.Size_t(2*unsafe.Sizeof(uintptr(0))))
	if arguments == 0 {
		return errors.New("watch for damaged files: out of memory")
	}
	defer libc.Xfree(tls, arguments)

	receiver := receiveReport
	code := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_LOG,
		libc.VaList(arguments, *(*uintptr)(unsafe.Pointer(&receiver)), uintptr(0)))
	if code != sqlite3.SQLITE_OK {
		return errors.New("watch for damaged files: SQLite is in use already")
	}

	return nil
}

// receiveReport is called by SQLite with the extended result code and the text of an error.
func receiveReport(_ *libc.TLS, _ uintptr, code int32, text uintptr) {
	switch code & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		damage.Note(libc.GoString(text))
	}
}
