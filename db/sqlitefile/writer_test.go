package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// awaitTurns waits until the given numbers of ordinary and urgent callers wait for the connection.
func (w *Writer) awaitTurns(t *testing.T, ordinary, urgent int) {
	t.Helper()
	testkit.AwaitState(t, "waiting callers", func() (string, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		queued := [2]int{len(w.waiting[Ordinary]), len(w.waiting[Urgent])}
		return fmt.Sprintf("%v wait, want %d ordinary and %d urgent", queued, ordinary, urgent), queued == [2]int{ordinary, urgent}
	})
}

// testFile is a SQLite file with its pools.
type testFile struct {
	path                   string
	writer                 *Writer
	ordinary, urgent, read *sql.DB
}

func openFile(t *testing.T) *testFile {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "x.sqlite"))
}

func openAt(t *testing.T, path string) *testFile {
	t.Helper()

	writer, err := NewWriter(path)
	testkit.NoError(t, err)

	read, err := Readers(path, 1)
	testkit.NoError(t, err)

	file := &testFile{path: path, writer: writer, ordinary: writer.Pool(Ordinary), urgent: writer.Pool(Urgent), read: read}
	t.Cleanup(func() {
		if err := errors.Join(file.ordinary.Close(), file.urgent.Close(), read.Close(), writer.Close()); err != nil {
			t.Error(err)
		}
	})

	return file
}

// arrivals counts the rows of the table arrivals.
func (f *testFile) arrivals(t *testing.T) (n int, err error) {
	err = f.read.QueryRowContext(t.Context(), "SELECT count(*) FROM arrivals").Scan(&n)
	return n, err
}

// TestDurability checks that the writing connection waits for the disk at each commit. A test that
// kills processes cannot show this, because the kernel keeps their writes.
func TestDurability(t *testing.T) {
	file := openFile(t)

	// 2 is FULL.
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		for _, pool := range []*sql.DB{file.ordinary, file.urgent} {
			var got string
			err := pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got)
			if err != nil || got != want {
				t.Errorf("%s is %q, %v; want %s", pragma, got, err, want)
			}
		}
	}
}

// TestUrgentWritesAreServedFirst checks on a real database that a batch of hits, queued behind
// changes, is stored before them.
func TestUrgentWritesAreServedFirst(t *testing.T) {
	file := openFile(t)
	if _, err := file.ordinary.ExecContext(t.Context(), "CREATE TABLE arrivals (who TEXT)"); err != nil {
		t.Fatal(err)
	}

	holder, err := file.ordinary.Conn(t.Context())
	testkit.NoError(t, err)

	const changes = 20
	var writes sync.WaitGroup
	for range changes {
		writes.Go(func() {
			if _, err := file.ordinary.ExecContext(t.Context(), "INSERT INTO arrivals VALUES ('change')"); err != nil {
				t.Error(err)
			}
		})
	}

	file.writer.awaitTurns(t, changes, 0)

	ahead := -1
	writes.Go(func() {
		// A batch borrows the connection in the same way. Nothing else is stored in the meantime.
		err := WithConn(t.Context(), file.urgent, func(*Conn) (err error) {
			ahead, err = file.arrivals(t)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})

	file.writer.awaitTurns(t, changes, 1)

	// Reset the waiting times, so that on a slow machine no change exceeds maxYield.
	file.writer.mu.Lock()
	for _, turn := range file.writer.waiting[Ordinary] {
		turn.since = time.Now().Add(time.Hour)
	}

	file.writer.mu.Unlock()

	testkit.NoError(t, holder.Close())

	writes.Wait()

	if n, err := file.arrivals(t); err != nil || n != changes {
		t.Errorf("%d changes stored, %v; want %d", n, err, changes)
	}
	if ahead != 0 {
		t.Errorf("%d of %d changes were stored before the hits", ahead, changes)
	}
}

// TestOrdinaryWritesWaitBoundedly checks that urgent writes are served first, and that an ordinary
// one waits for them for a bounded time.
func TestOrdinaryWritesWaitBoundedly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Writer{}
		var order []string
		var uses sync.WaitGroup
		use := func(name string, urgency Urgency) {
			uses.Go(func() {
				if err := w.take(t.Context(), urgency); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				time.Sleep(40 * time.Millisecond)
				_ = w.giveBack(urgency, false)
			})

			// Queue the writes in this order.
			synctest.Wait()
		}

		use("first", Ordinary)

		for i := range 3 {
			use(fmt.Sprint("o", i), Ordinary)
		}

		for i := range 6 {
			use(fmt.Sprint("u", i), Urgent)
		}

		uses.Wait()

		// The three have waited for 120 ms when u1 ends, and go first from then on, one at a time.
		if want := strings.Fields("first u0 u1 o0 u2 o1 u3 o2 u4 u5"); !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// TestCancelledWriters checks that a waiting caller with an ended context does not block the
// others, and that Close refuses waiting callers.
func TestCancelledWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Writer{}
		testkit.NoError(t, w.take(t.Context(), Urgent))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		testkit.ErrorIs(t, w.take(ctx, Ordinary), context.DeadlineExceeded, "take")

		_ = w.giveBack(Urgent, false)

		testkit.Succeeds(t, w.take(t.Context(), Ordinary), "take after the others have left")

		refused := make(chan error)

		for urgency := range w.waiting {
			go func() { refused <- w.take(context.Background(), Urgency(urgency)) }()
		}

		synctest.Wait()

		if err := w.Close(); err != nil {
			t.Error(err)
		}

		for range w.waiting {
			testkit.ErrorIs(t, <-refused, errWriterClosed, "take")
		}

		_ = w.giveBack(Ordinary, false)

		testkit.ErrorIs(t, w.take(t.Context(), Urgent), errWriterClosed, "take")
	})
}
