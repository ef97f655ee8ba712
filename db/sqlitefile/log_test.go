package sqlitefile

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tallygate/tallygate/tools/testkit"
)

// openTestLog opens a log through the file system of the writing connection, and closes it with the
// test.
func openTestLog(t *testing.T, path string) (tls *libc.TLS, file uintptr) {
	t.Helper()

	testkit.NoError(t, registerLogVFS())

	// A log gets the mode of its database.
	testkit.NoError(t, os.WriteFile(strings.TrimSuffix(path, "-wal"), nil, 0o600))

	tls = libc.NewTLS()
	name, err := libc.CString(path)
	testkit.NoError(t, err)

	size := at[sqlite3.Tsqlite3_vfs](defaultVFS).FszOsFile
	file = libc.Xcalloc(tls, 1, types.Size_t(size))

	const flags = sqlite3.SQLITE_OPEN_WAL | sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
	testkit.Require(t, openLog(tls, 0, name, file, flags, 0), sqlite3.SQLITE_OK, "opening the log")

	t.Cleanup(func() {
		if logOf(file) != nil {
			closeLog(tls, file)
		}
		libc.Xfree(tls, file)
		libc.Xfree(tls, name)
		tls.Close()
	})

	return tls, file
}

// failingMethods are methods of a file that find the disk full at each write.
func failingMethods(t *testing.T, base uintptr) uintptr {
	t.Helper()

	tls := libc.NewTLS()
	table := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	t.Cleanup(func() {
		libc.Xfree(tls, table)
		tls.Close()
	})

	methods := at[sqlite3.Tsqlite3_io_methods](table)
	*methods = *at[sqlite3.Tsqlite3_io_methods](base)
	methods.FxWrite = addressOf[transferFunc](diskFull)

	return table
}

func diskFull(*libc.TLS, uintptr, uintptr, int32, int64) int32 { return sqlite3.SQLITE_FULL }

// TestLogMatchesModel writes, reads, syncs and truncates a log at random, with a disk that is full
// at times, and compares it with a slice of bytes. Synced bytes must be in the file.
func TestLogMatchesModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareLog(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func compareLog(t *testing.T, random *rand.Rand) {
	path := filepath.Join(t.TempDir(), "x-wal")
	tls, file := openTestLog(t, path)
	l := logOf(file)
	base, failing := l.base, failingMethods(t, l.base)

	const largest = 3 * logBuffer
	memory := libc.Xmalloc(tls, largest)
	defer libc.Xfree(tls, memory)

	var model []byte
	end := 0
	for range 400 {
		l.base = base
		if random.IntN(10) == 0 {
			l.base = failing
		}

		var code int32
		switch action := random.IntN(20); {
		case action < 14:
			// Most writes continue the last one, as SQLite's do.
			offset := end
			if random.IntN(8) == 0 {
				offset = random.IntN(len(model) + 1)
			}
			n := 1 + random.IntN(5_000)
			if random.IntN(20) == 0 {
				n = 1 + random.IntN(largest)
			}

			data := bytesAt(memory, n)
			for i := range data {
				data[i] = byte(random.Uint32())
			}

			if code = writeLog(tls, file, memory, int32(n), int64(offset)); code == sqlite3.SQLITE_OK {
				model = append(model, make([]byte, max(0, offset+n-len(model)))...)
				copy(model[offset:], data)
				end = offset + n
			}
		case action < 16:
			code = compareRead(t, tls, file, memory, model, random)
		case action < 17 && len(model) > 0:
			size := random.IntN(len(model))
			if code = truncateLog(tls, file, int64(size)); code == sqlite3.SQLITE_OK {
				model, end = model[:size], size
			}
		default:
			if code = syncLog(tls, file, sqlite3.SQLITE_SYNC_NORMAL); code == sqlite3.SQLITE_OK {
				wantFile(t, path, model)
			}
		}

		if code == sqlite3.SQLITE_OK {
			continue
		}
		if code != sqlite3.SQLITE_FULL || l.base != failing {
			t.Fatalf("the result is %d, while the disk is full: %t", code, l.base == failing)
		}

		// Only the gathered bytes are lost.
		kept, err := os.ReadFile(path)
		testkit.NoError(t, err)
		testkit.Require(t, l.used, 0, "bytes are gathered after an error")
		model, end = kept, len(kept)
	}

	l.base = base
	testkit.Require(t, syncLog(tls, file, sqlite3.SQLITE_SYNC_NORMAL), sqlite3.SQLITE_OK, "the last sync")
	wantFile(t, path, model)
}

// compareRead reads a part of the log and its size.
func compareRead(
	t *testing.T, tls *libc.TLS, file, memory uintptr, model []byte, random *rand.Rand,
) (code int32) {
	t.Helper()

	size := libc.Xmalloc(tls, 8)
	defer libc.Xfree(tls, size)

	if code = sizeOfLog(tls, file, size); code != sqlite3.SQLITE_OK {
		return code
	}
	if got := *at[int64](size); got != int64(len(model)) {
		t.Fatalf("the log has %d bytes, want %d", got, len(model))
	}

	if len(model) == 0 {
		return code
	}

	from := random.IntN(len(model))
	n := min(len(model)-from, 10_000)
	if code = readLog(tls, file, memory, int32(n), int64(from)); code == sqlite3.SQLITE_OK &&
		!bytes.Equal(bytesAt(memory, n), model[from:from+n]) {
		t.Fatalf("%d bytes from %d on differ", n, from)
	}

	return code
}

func wantFile(t *testing.T, path string, want []byte) {
	t.Helper()

	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the file has %d bytes, %v; want the %d that were synced", len(got), err, len(want))
	}
}

// TestCommitsAreInTheFiles copies the database's files after each commit. The copy must have the
// rows of all commits: a process that is killed leaves no more behind.
func TestCommitsAreInTheFiles(t *testing.T) {
	file := openFile(t)
	rows := 0
	commit := func(name string, n, size int) {
		t.Helper()
		if _, err := file.urgent.ExecContext(t.Context(), insertPages, n, size); err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		rows += n
		wantCopiedRows(t, file, name, rows)
	}

	if _, err := file.ordinary.ExecContext(t.Context(), "CREATE TABLE pages (bytes BLOB)"); err != nil {
		t.Fatal(err)
	}

	commit("a small commit", 1, 10)
	commit("a batch", 100, 1_000)
	commit("more than the buffer", 100, 4_096)
	// The cache has 16 MB. Pages that do not fit are written before the commit, and read again.
	commit("more than the cache", 6_000, 4_096)

	rollBackPages(t, file)
	commit("after a rollback", 50, 4_096)

	if _, err := file.read.ExecContext(t.Context(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		t.Fatal(err)
	}
	commit("in a new log", 70, 4_096)

	if _, err := file.ordinary.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	commit("in an empty log", 70, 4_096)
}

const insertPages = `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
	INSERT INTO pages SELECT randomblob(?2) FROM n`

// rollBackPages writes more than the cache holds, and rolls it back.
func rollBackPages(t *testing.T, file *testFile) {
	t.Helper()

	tx, err := file.urgent.BeginTx(t.Context(), nil)
	testkit.NoError(t, err)
	if _, err := tx.ExecContext(t.Context(), insertPages, 6_000, 4_096); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, tx.Rollback())
}

// wantCopiedRows opens a copy of the database's files.
func wantCopiedRows(t *testing.T, file *testFile, name string, want int) {
	t.Helper()

	path := filepath.Join(t.TempDir(), "copy.sqlite")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(file.path + suffix)
		testkit.NoError(t, err)
		testkit.NoError(t, os.WriteFile(path+suffix, data, 0o600))
	}

	db, err := sql.Open("sqlite", path)
	testkit.NoError(t, err)
	defer db.Close()

	var rows int
	var check string
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pages").Scan(&rows); err != nil || rows != want {
		t.Errorf("%s: the files have %d rows, %v; want %d", name, rows, err, want)
	}
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("%s: the files' check is %q, %v", name, check, err)
	}
}

// TestFullDiskFailsTheCommit checks that a commit fails when the disk is full, that it changes
// nothing, and that the next commit succeeds.
func TestFullDiskFailsTheCommit(t *testing.T) {
	file := openFile(t)
	if _, err := file.ordinary.ExecContext(t.Context(), "CREATE TABLE pages (bytes BLOB)"); err != nil {
		t.Fatal(err)
	}

	l := onlyLog(t)
	base := l.base
	l.base = failingMethods(t, base)

	_, err := file.urgent.ExecContext(t.Context(), insertPages, 100, 4_096)
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("a commit on a full disk: %v", err)
	}

	l.base = base
	wantCopiedRows(t, file, "after the failed commit", 0)

	if _, err := file.urgent.ExecContext(t.Context(), insertPages, 30, 4_096); err != nil {
		t.Error(err)
	}
	wantCopiedRows(t, file, "after the next commit", 30)
}

// onlyLog returns the log of the one writing connection that is open.
func onlyLog(t *testing.T) *log {
	t.Helper()

	openLogs.RLock()
	defer openLogs.RUnlock()

	testkit.Require(t, len(openLogs.byFile), 1, "logs are open")

	var only *log
	for _, l := range openLogs.byFile {
		only = l
	}

	return only
}

// BenchmarkCommitPages measures commits of as many pages as a batch of hits changes.
func BenchmarkCommitPages(b *testing.B) {
	for _, vfs := range []string{"", logVFS} {
		b.Run("vfs="+vfs, func(b *testing.B) {
			testkit.NoError(b, registerLogVFS())
			db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "x.sqlite"), "immediate", vfs, lockTimeout))
			testkit.NoError(b, err)
			defer db.Close()

			conn, err := db.Conn(context.Background())
			testkit.NoError(b, err)
			defer conn.Close()

			if _, err := conn.ExecContext(b.Context(), "CREATE TABLE pages (bytes BLOB)"); err != nil {
				b.Fatal(err)
			}
			if _, err := conn.ExecContext(b.Context(), insertPages, 100, 3_900); err != nil {
				b.Fatal(err)
			}

			for b.Loop() {
				if _, err := conn.ExecContext(b.Context(), "UPDATE pages SET bytes = zeroblob(3900 + (length(bytes) = 3900))"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
