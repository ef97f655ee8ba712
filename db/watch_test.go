package db_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/watch"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestChangesAreKnownAtOnce checks on SQLite that the watchers of a process know a change when its
// transaction has ended, and that the watchers of another process do when that process is notified.
func TestChangesAreKnownAtOnce(t *testing.T) {
	t.Parallel()
	address := dbtest.SQLiteURL(t)
	own := dbtest.Open(t, address)
	other, err := db.Open(address)
	testkit.NoError(t, err)
	defer other.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := func(d *db.DB) *atomic.Int64 {
		var last atomic.Int64
		synced := make(chan struct{}, 1)
		go func() {
			_ = d.Watch(ctx, watch.Sites, last.Store, func(error) {
				select {
				case synced <- struct{}{}:
				default:
				}
			})
		}()
		<-synced
		return &last
	}
	here, there := watching(own), watching(other)
	notified := 0
	own.AfterNotify(func() { notified++; other.ReadChanges() })

	for id := int64(1); id <= 50; id++ {
		err := own.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return tx.NotifySites(ctx, model.SiteID(id)) })
		testkit.NoError(t, err)
		if here.Load() != id || there.Load() != id || notified != int(id) {
			t.Fatalf("after %d: this process knows %d, the other one %d, which was notified %d times", id, here.Load(), there.Load(), notified)
		}
	}

	// A transaction without changes notifies no process.
	if err := own.InTx(ctx, func(context.Context, *db.Tx) error { return nil }); err != nil || notified != 50 {
		t.Errorf("%v, notified %d times", err, notified)
	}
}
