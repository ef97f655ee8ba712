package sqlitestmt

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// raw is a statement as SQLite's C interface sees it. The driver exports neither the statement's
// handle nor the thread state that each C call takes, so rawOf reads them from its fields. It
// checks the fields' types, and a test fails if an update of the driver changes them.
type raw struct {
	tls    *libc.TLS // the connection's; used by one goroutine at a time
	handle uintptr   // of the sqlite3_stmt, owned by the driver's statement
	params int

	// Bound texts and bytes, in C memory, because SQLite reads them until the reset. It grows and
	// is reused by each run.
	buffer uintptr
	size   int
}

// Error is an error of SQLite with its extended result code.
type Error struct {
	code    int
	message string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.message, e.code) }

// Code returns SQLite's extended result code.
func (e *Error) Code() int { return e.code }

// rawOf returns the handle of a prepared statement of modernc.org/sqlite.
func rawOf(prepared driver.Stmt) (r raw, err error) {
	statement := reflect.Indirect(reflect.ValueOf(prepared))
	if statement.Kind() != reflect.Struct {
		return raw{}, fmt.Errorf("the SQLite driver's statements are %T", prepared)
	}

	handle, conn := statement.FieldByName("pstmt"), reflect.Indirect(statement.FieldByName("c"))
	if !handle.IsValid() || handle.Kind() != reflect.Uintptr || handle.Uint() == 0 || conn.Kind() != reflect.Struct {
		return raw{}, fmt.Errorf("the SQLite driver's %T has no handle of one statement", prepared)
	}

	tls := conn.FieldByName("tls")
	if !tls.IsValid() || tls.Type() != reflect.TypeFor[*libc.TLS]() || tls.IsNil() {
		return raw{}, fmt.Errorf("the SQLite driver's %v has no thread state", conn.Type())
	}

	r = raw{tls: (*libc.TLS)(tls.UnsafePointer()), handle: uintptr(handle.Uint())}
	r.params = int(sqlite3.Xsqlite3_bind_parameter_count(r.tls, r.handle))

	// An empty text needs an address, too: the zero address would be NULL.
	return r, r.grow(minBuffer)
}

// minBuffer is the initial size of a statement's buffer in bytes, enough for most rows.
const minBuffer = 512

// grow makes room for size bytes. What was bound before is lost.
func (r *raw) grow(size int) error {
	if size <= r.size {
		return nil
	}

	// Doubling keeps the number of allocations small.
	size = max(size, 2*r.size)
	buffer := libc.Xmalloc(r.tls, types.Size_t(size))
	if buffer == 0 {
		return &Error{code: sqlite3.SQLITE_NOMEM, message: "out of memory"}
	}

	r.free()
	r.buffer, r.size = buffer, size

	return nil
}

// free frees the buffer. The statement must not run after that.
func (r *raw) free() {
	if r.buffer != 0 {
		libc.Xfree(r.tls, r.buffer)
		r.buffer, r.size = 0, 0
	}
}

// bind sets all parameters. More arguments than those are ignored.
func (r *raw) bind(args []driver.Value) error {
	if len(args) < r.params {
		return fmt.Errorf("sqlite: %d arguments for %d parameters", len(args), r.params)
	}

	args = args[:r.params]

	// All texts must fit before the first is bound, since growing moves the buffer.
	size := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}

	if err := r.grow(size); err != nil {
		return err
	}

	used := 0
	for i, arg := range args {
		var code int32
		index, to := int32(i+1), r.buffer+uintptr(used)

		switch v := arg.(type) {
		case nil:
			code = sqlite3.Xsqlite3_bind_null(r.tls, r.handle, index)
		case int64:
			code = sqlite3.Xsqlite3_bind_int64(r.tls, r.handle, index, v)
		case bool:
			var n int64
			if v {
				n = 1
			}
			code = sqlite3.Xsqlite3_bind_int64(r.tls, r.handle, index, n)
		case string:
			used += copy(memory(to, len(v)), v)
			code = sqlite3.Xsqlite3_bind_text(r.tls, r.handle, index, to, int32(len(v)), sqlite3.SQLITE_STATIC)
		case []byte:
			if v == nil {
				code = sqlite3.Xsqlite3_bind_null(r.tls, r.handle, index)
				break
			}
			used += copy(memory(to, len(v)), v)
			code = sqlite3.Xsqlite3_bind_blob(r.tls, r.handle, index, to, int32(len(v)), sqlite3.SQLITE_STATIC)
		default:
			return fmt.Errorf("sqlite: argument %d is a %T", index, arg)
		}

		if code != sqlite3.SQLITE_OK {
			return r.fault(code)
		}
	}

	return nil
}

// step runs the statement to its next row, and reports whether there is one.
func (r *raw) step() (more bool, err error) {
	switch code := sqlite3.Xsqlite3_step(r.tls, r.handle); code {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, r.fault(code)
	}
}

// reset ends a run. Its result is that of the last step.
func (r *raw) reset() { sqlite3.Xsqlite3_reset(r.tls, r.handle) }

func (r *raw) columns() int { return int(sqlite3.Xsqlite3_column_count(r.tls, r.handle)) }

// changes returns how many rows the last run changed.
func (r *raw) changes() int64 {
	return int64(sqlite3.Xsqlite3_changes(r.tls, sqlite3.Xsqlite3_db_handle(r.tls, r.handle)))
}

// read copies the current row.
func (r *raw) read(row []driver.Value) error {
	for i := range row {
		column := int32(i)

		switch kind := sqlite3.Xsqlite3_column_type(r.tls, r.handle, column); kind {
		case sqlite3.SQLITE_NULL:
			row[i] = nil
		case sqlite3.SQLITE_INTEGER:
			row[i] = sqlite3.Xsqlite3_column_int64(r.tls, r.handle, column)
		case sqlite3.SQLITE_TEXT:
			from := sqlite3.Xsqlite3_column_text(r.tls, r.handle, column)
			row[i] = string(memory(from, r.bytes(column)))
		case sqlite3.SQLITE_BLOB:
			from := sqlite3.Xsqlite3_column_blob(r.tls, r.handle, column)
			row[i] = append([]byte{}, memory(from, r.bytes(column))...)
		default:
			return fmt.Errorf("sqlite: column %d has a value of type %d", i, kind)
		}
	}

	return nil
}

// int64 returns a column of the current row as an integer.
func (r *raw) int64(column int32) int64 {
	return sqlite3.Xsqlite3_column_int64(r.tls, r.handle, column)
}

// isNull reports whether a column of the current row is NULL.
func (r *raw) isNull(column int32) bool {
	return sqlite3.Xsqlite3_column_type(r.tls, r.handle, column) == sqlite3.SQLITE_NULL
}

// borrow returns a column of the current row without copying it. SQLite would copy a text that is
// read as a text, to end it with a zero; read as a blob, it stays where it is.
func (r *raw) borrow(column int32) []byte {
	from := sqlite3.Xsqlite3_column_blob(r.tls, r.handle, column)
	return memory(from, r.bytes(column))
}

func (r *raw) bytes(column int32) int {
	return int(sqlite3.Xsqlite3_column_bytes(r.tls, r.handle, column))
}

// fault returns the error of a result code, with the connection's message about it.
func (r *raw) fault(code int32) error {
	db := sqlite3.Xsqlite3_db_handle(r.tls, r.handle)
	message := libc.GoString(sqlite3.Xsqlite3_errmsg(r.tls, db))
	return &Error{code: int(code), message: strings.ToValidUTF8(message, "\uFFFD")}
}

// memory returns n bytes of C memory, which Go's collector neither moves nor frees.
func memory(address uintptr, n int) []byte {
	if n == 0 {
		return nil
	}

	// The conversion goes through a pointer because vet cannot know that the address is C's.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}
