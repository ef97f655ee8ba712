package db

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// awaitTurns waits until the given numbers of ordinary and urgent callers wait for the connection.
func (w *sqliteWriter) awaitTurns(t *testing.T, ordinary, urgent int) {
	t.Helper()

	for deadline := time.Now().Add(time.Minute); ; {
		w.mu.Lock()
		queued := [2]int{len(w.waiting[ordinaryWrite]), len(w.waiting[urgentWrite])}
		w.mu.Unlock()

		if queued == [2]int{ordinary, urgent} {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v callers wait, want %d ordinary and %d urgent", queued, ordinary, urgent)
		}

		time.Sleep(time.Millisecond)
	}
}

// TestUrgentWritesAreServedFirst checks on a real database that a batch of hits, queued behind
// changes, is stored before them.
func TestUrgentWritesAreServedFirst(t *testing.T) {
	d, err := Open(sqliteScheme + filepath.Join(t.TempDir(), "x.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	if err := d.Migrate(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write.ExecContext(t.Context(), "CREATE TABLE arrivals (who TEXT)"); err != nil {
		t.Fatal(err)
	}

	holder, err := d.Write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	const changes = 20
	var writes sync.WaitGroup
	for range changes {
		writes.Go(func() {
			if _, err := d.Write.ExecContext(t.Context(), "INSERT INTO arrivals VALUES ('change')"); err != nil {
				t.Error(err)
			}
		})
	}

	d.sqlite.awaitTurns(t, changes, 0)

	ahead := int64(-1)
	writes.Go(func() {
		// A batch borrows the connection in the same way. Nothing else is stored in the meantime.
		err := d.WithSQLiteConn(t.Context(), func(*SQLiteConn) error {
			n, err := d.Read.NewSelect().Table("arrivals").Count(t.Context())
			ahead = n
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})

	d.sqlite.awaitTurns(t, changes, 1)

	// Reset the waiting times, so that on a slow machine no change exceeds maxYield.
	d.sqlite.mu.Lock()
	for _, turn := range d.sqlite.waiting[ordinaryWrite] {
		turn.since = time.Now().Add(time.Hour)
	}

	d.sqlite.mu.Unlock()

	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}

	writes.Wait()

	if n, err := d.Read.NewSelect().Table("arrivals").Count(t.Context()); err != nil || n != changes {
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
		w := &sqliteWriter{}
		var order []string
		var uses sync.WaitGroup
		use := func(name string, urgency int) {
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

		use("first", ordinaryWrite)

		for i := range 3 {
			use(fmt.Sprint("o", i), ordinaryWrite)
		}

		for i := range 6 {
			use(fmt.Sprint("u", i), urgentWrite)
		}

		uses.Wait()

		// The three have waited for 120 ms when u1 ends, and go first from then on, one at a time.
		if want := strings.Fields("first u0 u1 o0 u2 o1 u3 o2 u4 u5"); !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// TestCancelledWriters checks that a caller whose context ends while it waits does not block the
// others, and that close refuses waiting callers.
func TestCancelledWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &sqliteWriter{}
		if err := w.take(t.Context(), urgentWrite); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		if err := w.take(ctx, ordinaryWrite); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("take = %v, want the deadline exceeded", err)
		}

		_ = w.giveBack(urgentWrite, false)

		if err := w.take(t.Context(), ordinaryWrite); err != nil {
			t.Errorf("take after the others have left: %v", err)
		}

		refused := make(chan error)

		for urgency := range w.waiting {
			go func() { refused <- w.take(context.Background(), urgency) }()
		}

		synctest.Wait()

		if err := w.close(); err != nil {
			t.Error(err)
		}

		for range w.waiting {
			if err := <-refused; !errors.Is(err, errWriterClosed) {
				t.Errorf("take = %v, want the error of a closed database", err)
			}
		}

		_ = w.giveBack(ordinaryWrite, false)

		if err := w.take(t.Context(), urgentWrite); !errors.Is(err, errWriterClosed) {
			t.Errorf("take = %v, want the error of a closed database", err)
		}
	})
}
