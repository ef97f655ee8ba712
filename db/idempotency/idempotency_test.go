package idempotency_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var (
	now    = model.At(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	call   = idempotency.Call{AccountID: 1, UserID: 2, TokenID: 0, Key: []byte("key"), Input: []byte("input"), At: now}
	object = idempotency.Object{Kind: nodeid.Site, ID: 7}
)

// record records an object of a call in a transaction of its own.
func record(ctx context.Context, d *db.DB, c idempotency.Call, o idempotency.Object) error {
	return d.InTx(idempotency.WithCall(ctx, c), func(ctx context.Context, tx *db.Tx) error {
		return idempotency.Record(ctx, tx, o)
	})
}

// TestRecord stores a call, and looks it up with each part changed.
func TestRecord(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := idempotency.New(d)
		if found, err := store.Find(t.Context(), call); found != nil || err != nil {
			t.Fatalf("before: %+v, %v", found, err)
		}
		testkit.NoError(t, record(t.Context(), d, call, object))

		for name, test := range map[string]struct {
			change func(*idempotency.Call)
			found  bool
			err    error
		}{
			"the same":          {func(*idempotency.Call) {}, true, nil},
			"another account":   {func(c *idempotency.Call) { c.AccountID = 3 }, false, nil},
			"another user":      {func(c *idempotency.Call) { c.UserID = 3 }, false, nil},
			"an API token":      {func(c *idempotency.Call) { c.TokenID = 3 }, false, nil},
			"another key":       {func(c *idempotency.Call) { c.Key = []byte("kez") }, false, nil},
			"another input":     {func(c *idempotency.Call) { c.Input = []byte("output") }, false, idempotency.ErrReused},
			"just in time":      {func(c *idempotency.Call) { c.At = now.Add(idempotency.Lifetime - time.Microsecond) }, true, nil},
			"expired":           {func(c *idempotency.Call) { c.At = now.Add(idempotency.Lifetime) }, false, nil},
			"a clock that lags": {func(c *idempotency.Call) { c.At = now.Add(-time.Minute) }, true, nil},
		} {
			changed := call
			test.change(&changed)
			found, err := store.Find(t.Context(), changed)
			if (found != nil) != test.found || !errors.Is(err, test.err) || found != nil && *found != object {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}

		// The key is taken until it expires, also with another input.
		other := call
		other.Input = []byte("output")
		for _, c := range []idempotency.Call{call, other} {
			testkit.ErrorIs(t, record(t.Context(), d, c, object), idempotency.ErrTaken, "a second record")
		}
		other.At = now.Add(idempotency.Lifetime)
		delivery := idempotency.Object{Kind: nodeid.Delivery, ID: 8, SiteID: 9}
		testkit.Succeeds(t, record(t.Context(), d, other, delivery), "a record after the end")
		if found, err := store.Find(t.Context(), other); found == nil || *found != delivery || err != nil {
			t.Errorf("after the second record: %+v, %v", found, err)
		}
	})
}

// TestRecordWithoutCall writes nothing.
func TestRecordWithoutCall(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return idempotency.Record(ctx, tx, object) })
		rows, read := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM idempotency_keys")
		if err != nil || read != nil || rows[0].N != 0 {
			t.Errorf("%v, %v, %v", rows, err, read)
		}
	})
}

// TestConcurrentTransactions records the same call in a transaction that begins while another one
// is open: it fails if the first one commits, and succeeds if that is rolled back.
func TestConcurrentTransactions(t *testing.T) {
	t.Parallel()
	planted := errors.New("planted")
	for name, outcome := range map[string]error{"commit": nil, "rollback": planted} {
		t.Run(name, func(t *testing.T) {
			dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
				second := make(chan error, 1)
				err := d.InTx(idempotency.WithCall(t.Context(), call), func(ctx context.Context, tx *db.Tx) error {
					if err := idempotency.Record(ctx, tx, object); err != nil {
						return err
					}
					go func() { second <- record(t.Context(), d, call, object) }()
					return outcome
				})
				if !errors.Is(err, outcome) {
					t.Fatal(err)
				}

				want := idempotency.ErrTaken
				if outcome != nil {
					want = nil
				}
				if err := <-second; (want == nil) != (err == nil) || want != nil && !errors.Is(err, want) {
					t.Errorf("the second transaction: %v, want %v", err, want)
				}
			})
		})
	}
}
