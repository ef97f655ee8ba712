package files_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// logLimit is the length of SQLite's log in bytes from which the writer must copy it, see
// sqliteDSN.
const logLimit = 16_000 * 4096

// TestLogRestarts checks that while rows are written, faster than any hits, the log restarts
// repeatedly before the writer must copy it, and that no row is lost. Rows arrive at 40 MB a
// second: at the rate of an idle disk no other goroutine could keep up.
func TestLogRestarts(t *testing.T) {
	const restarts, pause = 3, 10 * time.Millisecond
	d, file := openWithLog(t)
	written := writePages(t, d, 4096)
	last := readLog(t, file)

	for seen := 0; seen < restarts; {
		written += writePages(t, d, 4096)
		log := readLog(t, file)
		if log.size >= logLimit {
			t.Fatalf("the log is %d bytes long after %d restarts", log.size, seen)
		}
		if log.number != last.number {
			seen++
		}

		last = log
		time.Sleep(pause) // paces the rows
	}

	wantPages(t, d, written)
}

// TestLogWaitsForReaders checks that the log grows while a reader holds a snapshot, that the writer
// does not wait, and that the log restarts when the reader is done.
func TestLogWaitsForReaders(t *testing.T) {
	d, file := openWithLog(t)
	written := writePages(t, d, logLimit/16)

	readers, err := sql.Open("sqlite", file)
	testkit.NoError(t, err)
	defer readers.Close()

	snapshot, err := readers.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	testkit.NoError(t, err)

	count := func() (n int) {
		t.Helper()
		testkit.NoError(t, snapshot.QueryRowContext(t.Context(), "SELECT count(*) FROM pages").Scan(&n))
		return n
	}
	testkit.Require(t, count(), written, "rows of %d", written)

	// Write more than the log may grow without a reader.
	later := writePages(t, d, logLimit/2)
	held := readLog(t, file)
	if held.size < logLimit/2 {
		t.Errorf("the log is %d bytes long, and %d were written since the reader began", held.size, logLimit/2)
	}
	testkit.Equal(t, count(), written, "the reader sees %d rows, then", written)

	written += later

	testkit.NoError(t, snapshot.Rollback())

	for deadline := time.Now().Add(time.Minute); readLog(t, file).number == held.number; {
		if time.Now().After(deadline) {
			t.Fatal("the log did not restart")
		}

		written += writePages(t, d, 1)
	}

	wantPages(t, d, written)
}

// openWithLog returns a database with a table for writePages. WriteBack runs on it until the test
// ends.
func openWithLog(t *testing.T) (d *db.DB, file string) {
	t.Helper()
	url := dbtest.SQLiteURL(t)
	d = dbtest.Open(t, url)
	testkit.NoError(t, dbtest.Exec(d, "CREATE TABLE pages (bytes blob)"))

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { files.New(d).WriteBack(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })

	return d, strings.TrimPrefix(url, "sqlite:")
}

// writePages writes rows of a page or more each, a hundred per transaction, up to the given number
// of bytes.
func writePages(t *testing.T, d *db.DB, bytes int) (rows int) {
	t.Helper()
	for ; rows*4096 < bytes; rows += 100 {
		err := dbtest.Exec(d, `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100)
			INSERT INTO pages SELECT zeroblob(4096) FROM n`)
		testkit.NoError(t, err)
	}

	return rows
}

func wantPages(t *testing.T, d *db.DB, want int) {
	t.Helper()
	if got, err := dbtest.Count(d, "pages"); err != nil || got != want {
		t.Errorf("%d rows of %d, %v", got, want, err)
	}
}

// writeAheadLog is the state of a log file. Its number changes with each restart of the log.
type writeAheadLog struct {
	size   int64
	number uint32
}

func readLog(t *testing.T, database string) writeAheadLog {
	t.Helper()

	f, err := os.Open(database + "-wal")
	testkit.NoError(t, err)
	defer f.Close()

	var head [32]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		t.Fatal(err)
	}

	info, err := f.Stat()
	testkit.NoError(t, err)

	return writeAheadLog{size: info.Size(), number: binary.BigEndian.Uint32(head[12:])}
}
