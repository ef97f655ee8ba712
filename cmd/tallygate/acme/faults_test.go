package acme

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// idle returns a manager that does not run.
func idle(t *testing.T, d *db.DB, host string) *Manager {
	t.Helper()
	m := New(Options{DB: d, Hosts: []string{host}, Directory: certmagic.LetsEncryptProductionCA, Now: time.Now,
		HTTP: &net.TCPAddr{}, TLS: &net.TCPAddr{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(m.Close)
	return m
}

// TestDatabaseFaults checks that an order whose files cannot be stored fails by the database, and that a certificate that
// cannot be read is no failed order.
func TestDatabaseFaults(t *testing.T) {
	t.Parallel()
	const host = "faults.tallygate.test"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		m := idle(t, d, host)
		err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, "DROP TABLE certificate_files")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}

		if _, err := m.tryObtain(t.Context(), host); err == nil || hostState(t, d, host).Failures != 0 {
			t.Errorf("a read failed with %v, state %+v", err, hostState(t, d, host))
		}
		if _, err := m.order(t.Context(), host, m.magic.ObtainCertSync); err == nil {
			t.Error("an order succeeded without a table")
		}
		if state := hostState(t, d, host); state.Failures != 1 || state.Failure != certificates.FailureStorage {
			t.Errorf("state %+v", state)
		}
	})
}

// TestOrdersOfLibrary checks that the library's own renewals are refused, and that no order goes to another authority.
func TestOrdersOfLibrary(t *testing.T) {
	t.Parallel()
	const host = "library.tallygate.test"
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	m := idle(t, d, host)
	if err := m.magic.Issuers[0].(*issuer).PreCheck(t.Context(), []string{host}, false); !errors.Is(err, errPaused) {
		t.Errorf("a renewal of the library: %v", err)
	}
	if m.issuer.TestCA != m.issuer.CA {
		t.Errorf("orders go to %s", m.issuer.TestCA)
	}
}

// TestWaitForLock checks that an order that another process prevents is no failure.
func TestWaitForLock(t *testing.T) {
	t.Parallel()
	_, f := withFaults(t.Context())
	if err := f.explain(context.DeadlineExceeded); !errors.Is(err, errPaused) {
		t.Errorf("without the lock: %v", err)
	}
	f.locked.Store(true)
	if err := f.explain(context.DeadlineExceeded); errors.Is(err, errPaused) || classify(err) != certificates.FailureAuthority {
		t.Errorf("with the lock: %v", err)
	}
}

// TestRenewLockLease checks that a lock lasts longer after a renewal, and that an expired one cannot be renewed.
func TestRenewLockLease(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := certificates.New(d)
		s := newStorage(store, time.Now)
		if err := s.Lock(t.Context(), "issue_cert_x"); err != nil {
			t.Fatal(err)
		}
		if err := s.RenewLockLease(t.Context(), "issue_cert_x", time.Hour); err != nil {
			t.Errorf("the holder: %v", err)
		}
		if err := newStorage(store, time.Now).RenewLockLease(t.Context(), "issue_cert_x", time.Hour); err == nil {
			t.Error("another process has renewed the lock")
		}
		if held, err := store.Renew(t.Context(), "issue_cert_x", s.holders["issue_cert_x"], -time.Second); !held || err != nil {
			t.Errorf("shortened: %v, %v", held, err)
		}
		if err := s.RenewLockLease(t.Context(), "issue_cert_x", time.Hour); err == nil {
			t.Error("an expired lock was renewed")
		}
	})
}

// TestSharedReads checks that many requests for challenges cause one read in a second, and that each sees what was stored
// before it.
func TestSharedReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		var stored atomic.Bool
		s := newSharedReads(func(context.Context, string) ([]byte, error) {
			reads.Add(1)
			if !stored.Load() {
				return nil, model.ErrNotFound
			}
			return []byte("token"), nil
		})

		var group sync.WaitGroup
		for range 10_000 {
			group.Go(func() { _, _ = s.get(t.Context(), "a") })
			time.Sleep(time.Millisecond)
		}
		group.Wait()
		if n := reads.Load(); n < 10 || n > 12 {
			t.Errorf("%d reads in 10 seconds", n)
		}

		_, _ = s.get(t.Context(), "a")
		stored.Store(true)
		if value, err := s.get(t.Context(), "a"); string(value) != "token" || err != nil {
			t.Errorf("after the challenge was stored: %q, %v", value, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.get(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a request that ended: %v", err)
		}
		time.Sleep(2 * readEvery)
	})
}

// TestReadsOfChallenges checks that requests for challenges share the reads of the storage.
func TestReadsOfChallenges(t *testing.T) {
	t.Parallel()
	const host = "reads.tallygate.test"
	m := idle(t, dbtest.Open(t, dbtest.SQLiteURL(t)), host)
	s := m.magic.Storage.(*storage)
	var reads atomic.Int32
	read := s.challenges.read
	s.challenges.read = func(ctx context.Context, name string) ([]byte, error) {
		reads.Add(1)
		return read(ctx, name)
	}

	begin := time.Now()
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://%s/.well-known/acme-challenge/%d", host, i), nil)
			m.Challenges(http.NotFoundHandler()).ServeHTTP(w, r)
			if w.Code != http.StatusNotFound {
				t.Errorf("%d", w.Code)
			}
		})
	}
	group.Wait()
	if n, most := reads.Load(), int32(time.Since(begin)/readEvery)+2; n == 0 || n > most {
		t.Errorf("%d reads, want at most %d", n, most)
	}
}
