package sqlitefile

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite writes each page of a commit to its log with two system calls: 200 for a batch of a
// hundred pages, a third of the batch's processor time. The writing connection uses a file system
// of its own, logVFS. It is SQLite's, except that writes to the log are gathered, and go to the
// file before the log is synced or read: few system calls for each commit. A commit is visible to
// readers only after its sync, so no other connection needs the bytes in the buffer.
//
// This holds for synchronous=FULL only. A lower setting would publish commits without a sync.
const logVFS = "tallygate-log"

// logBuffer is the size of the buffer in bytes. SQLite's file system for Unix cuts a write of 128
// KiB or more.
const logBuffer = 120 << 10

// The functions of SQLite's file systems and files, by parameters and results.
type (
	openFunc     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	transferFunc = func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc     = func(tls *libc.TLS, file uintptr, flags int32) int32
	sizeFunc     = func(tls *libc.TLS, file, size uintptr) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
)

// log is an open log. One goroutine at a time uses it, as it does the connection.
type log struct {
	base    uintptr // SQLite's methods of this file
	methods uintptr // ours, in C memory
	buffer  uintptr // logBuffer bytes of C memory
	start   int64   // the buffer's offset in the file, in bytes
	used    int     // bytes in the buffer
	synced  bool    // by SQLite's own method, which also syncs the directory of a new file
}

// openLogs has the open logs by the address of SQLite's file.
var openLogs struct {
	sync.RWMutex
	byFile map[uintptr]*log
}

// defaultVFS is the address of the file system that logVFS is made of.
var defaultVFS uintptr

// registerLogVFS makes logVFS known to SQLite, once.
var registerLogVFS = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()

	defaultVFS = sqlite3.Xsqlite3_vfs_find(tls, 0)
	if defaultVFS == 0 {
		return errors.New("SQLite has no file system")
	}

	name, err := libc.CString(logVFS)
	if err != nil {
		return err
	}
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if own == 0 {
		return errors.New("no memory for a file system of SQLite")
	}

	vfs := at[sqlite3.Tsqlite3_vfs](own)
	*vfs = *at[sqlite3.Tsqlite3_vfs](defaultVFS)
	vfs.FzName, vfs.FpNext, vfs.FxOpen = name, 0, addressOf[openFunc](openLog)

	if code := sqlite3.Xsqlite3_vfs_register(tls, own, 0); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("SQLite refuses a file system with %d", code)
	}

	return nil
})

// openLog opens a file, and takes over the methods of a log.
func openLog(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[openFunc](at[sqlite3.Tsqlite3_vfs](defaultVFS).FxOpen)
	code := open(tls, defaultVFS, name, file, flags, outFlags)
	if code != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return code
	}

	if !gather(tls, file) {
		closeFile := function[closeFunc](methodsOf(file).FxClose)
		_ = closeFile(tls, file)
		at[sqlite3.Tsqlite3_file](file).FpMethods = 0

		return sqlite3.SQLITE_NOMEM
	}

	return sqlite3.SQLITE_OK
}

// gather replaces the methods of an open file. It is false without memory.
func gather(tls *libc.TLS, file uintptr) bool {
	const size = unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})

	// SQLite holds the address as an integer, which Go's garbage collector does not see.
	memory := libc.Xmalloc(tls, types.Size_t(size+logBuffer))
	if memory == 0 {
		return false
	}

	own := at[sqlite3.Tsqlite3_io_methods](memory)
	*own = *methodsOf(file)
	own.FxWrite = addressOf[transferFunc](writeLog)
	own.FxRead = addressOf[transferFunc](readLog)
	own.FxTruncate = addressOf[truncateFunc](truncateLog)
	own.FxSync = addressOf[syncFunc](syncLog)
	own.FxFileSize = addressOf[sizeFunc](sizeOfLog)
	own.FxClose = addressOf[closeFunc](closeLog)

	handle := at[sqlite3.Tsqlite3_file](file)

	openLogs.Lock()
	defer openLogs.Unlock()

	if openLogs.byFile == nil {
		openLogs.byFile = make(map[uintptr]*log)
	}
	openLogs.byFile[file] = &log{base: handle.FpMethods, methods: memory, buffer: memory + size}
	handle.FpMethods = memory

	return true
}

func writeLog(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logOf(file)

	// Only adjacent writes can be gathered.
	if offset != l.start+int64(l.used) {
		if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
			return code
		}
		l.start = offset
	}

	for from := bytesAt(data, int(n)); len(from) > 0; {
		if l.used == logBuffer {
			if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
				return code
			}
		}

		copied := copy(bytesAt(l.buffer, logBuffer)[l.used:], from)
		from = from[copied:]
		l.used += copied
	}

	return sqlite3.SQLITE_OK
}

func readLog(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[transferFunc](l.inBase().FxRead)(tls, file, data, n, offset)
}

func truncateLog(tls *libc.TLS, file uintptr, size int64) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[truncateFunc](l.inBase().FxTruncate)(tls, file, size)
}

// syncLog waits until the log is on the disk. The first sync is SQLite's. Later syncs leave out the
// file's time of change.
func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}

	if l.synced && canSyncData {
		if err := syncData(file); err != nil {
			return sqlite3.SQLITE_IOERR_FSYNC
		}
		return sqlite3.SQLITE_OK
	}

	code := function[syncFunc](l.inBase().FxSync)(tls, file, flags)
	l.synced = code == sqlite3.SQLITE_OK

	return code
}

func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	l := logOf(file)
	if code := l.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[sizeFunc](l.inBase().FxFileSize)(tls, file, size)
}

// closeLog closes the file. The bytes left in the buffer belong to no commit.
func closeLog(tls *libc.TLS, file uintptr) int32 {
	l := logOf(file)

	openLogs.Lock()
	delete(openLogs.byFile, file)
	openLogs.Unlock()

	at[sqlite3.Tsqlite3_file](file).FpMethods = l.base
	libc.Xfree(tls, l.methods)

	return function[closeFunc](l.inBase().FxClose)(tls, file)
}

// flush writes the buffer to the file. After an error it is empty, too: SQLite rolls the
// transaction back and writes its pages again.
func (l *log) flush(tls *libc.TLS, file uintptr) int32 {
	if l.used == 0 {
		return sqlite3.SQLITE_OK
	}

	code := function[transferFunc](l.inBase().FxWrite)(tls, file, l.buffer, int32(l.used), l.start)
	l.start += int64(l.used)
	l.used = 0

	return code
}

// inBase returns SQLite's methods of the file.
func (l *log) inBase() *sqlite3.Tsqlite3_io_methods { return at[sqlite3.Tsqlite3_io_methods](l.base) }

func logOf(file uintptr) *log {
	openLogs.RLock()
	defer openLogs.RUnlock()
	return openLogs.byFile[file]
}

func methodsOf(file uintptr) *sqlite3.Tsqlite3_io_methods {
	return at[sqlite3.Tsqlite3_io_methods](at[sqlite3.Tsqlite3_file](file).FpMethods)
}

// at returns the object of C at an address, which Go's collector neither moves nor frees. The
// conversion goes through a pointer because vet cannot know that the address is C's.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// bytesAt returns n bytes of C memory.
func bytesAt(address uintptr, n int) []byte { return unsafe.Slice(at[byte](address), n) }

// function returns the function at an address in a table of C. SQLite's translated code keeps its
// own in the same form.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

// addressOf is the reverse of function. Call it for declared functions only: a closure could be
// freed, because Go's collector does not see the table.
func addressOf[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
