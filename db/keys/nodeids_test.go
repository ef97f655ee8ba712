package keys_test

import (
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNodeIDsAreShared checks that processes that start at the same time return the same ids, and
// so does a process that starts later with any application key.
func TestNodeIDsAreShared(t *testing.T) {
	t.Parallel()
	const processes = 8
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		first := dbtest.Open(t, databaseURL)
		var wg sync.WaitGroup
		var ids [processes]string

		begin := make(chan struct{})
		for i := range processes {
			d := dbtest.Open(t, databaseURL)
			wg.Go(func() {
				<-begin
				nodes, err := keys.New(d).NodeIDs(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = nodes.Of(nodeid.Site, 1)
			})
		}

		close(begin)
		wg.Wait()

		// This process has no application key.
		later, err := db.Open(databaseURL)
		testkit.NoError(t, err)
		defer later.Close()

		nodes, err := keys.New(later).NodeIDs(t.Context())
		testkit.NoError(t, err)

		for i, id := range ids {
			if want := nodes.Of(nodeid.Site, 1); id != want {
				t.Errorf("process %d writes %s, a later one %s", i, id, want)
			}
		}

		testkit.NoError(t, dbtest.Exec(first, "UPDATE settings SET value = ? WHERE name = 'node_id_key'", "00"))
		if _, err := keys.New(dbtest.Open(t, databaseURL)).NodeIDs(t.Context()); err == nil {
			t.Error("a damaged key is accepted")
		}
	})
}
