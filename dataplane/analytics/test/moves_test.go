package analytics_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newPlanes returns two data planes with connections of their own, as two processes have. addresses
// are the addresses of cells.
func newPlanes(t *testing.T, databaseURL string, addresses map[int64]string) []*plane {
	t.Helper()
	var planes []*plane
	for range 2 {
		planes = append(planes, newPlane(t, openHome(t, databaseURL, addresses)))
	}
	return planes
}

// openHome opens a database as the product does: all stores find the cells of sites.
func openHome(t *testing.T, databaseURL string, addresses map[int64]string) *db.DB {
	t.Helper()
	d, err := db.OpenWith(databaseURL, db.Options{CellURLs: addresses})
	testkit.NoError(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.UseApplicationKey([]byte(dbtest.ApplicationKey))
	dbtest.SetClock(d, func() time.Time { return noon })
	return d
}

// moveInPieces moves a site by calls of Move on databases of their own. Each but the last one is
// cut off when it sends the nth statement that records a step, in turn before and after it is
// committed.
func moveInPieces(t *testing.T, databaseURL string, site *model.Site, to int64, n int) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		mover, steps := openHome(t, databaseURL, nil), 0
		dbtest.OnStatement(mover, func(statement string) {
			switch {
			case strings.HasPrefix(statement, `UPDATE "site_moves"`):
				if steps++; steps == n && attempt%2 == 0 {
					cancel()
				}
			case steps == n && attempt%2 == 1:
				cancel()
			}
		})

		err := cells.New(mover).Move(ctx, site.ID, to)
		cutOff := ctx.Err() != nil
		cancel()
		if err == nil {
			if attempt < 2 {
				t.Errorf("the move was cut off %d times, want 2 or more", attempt)
			}
			return
		}
		if !cutOff {
			t.Fatal(err)
		}
	}
}

// TestMoveBetweenNodes moves a site between two cells, on Citus on two nodes, by movers that stop
// after some of the steps, while two processes store its hits: through the common address, and at
// addresses of the cells. Every accepted hit is stored once.
func TestMoveBetweenNodes(t *testing.T) {
	testkit.SkipLong(t, "a move under load")
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	d := openHome(t, databaseURL, nil)
	if _, err := cells.New(d).Add(t.Context(), model.At(noon)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write.ExecContext(t.Context(), "UPDATE cells SET created_at = 0, open = (id = 2)"); err != nil {
		t.Fatal(err)
	}

	addresses := addressesOf(t, d, databaseURL)
	for i, addresses := range []map[int64]string{nil, addresses} {
		planes := newPlanes(t, databaseURL, addresses)
		moved, other := planes[0].site(fmt.Sprintf("moved-%d.example", i), 1_000_000), planes[0].site(fmt.Sprintf("other-%d.example", i), 1_000_000)

		tr := send(t, planes, [2]*model.Site{moved, other})
		for j, to := range []int64{3, 2, 3} {
			tr.awaitMore(planes[0], 0)
			moveInPieces(t, databaseURL, moved, to, 5+j)
			tr.awaitMore(planes[0], 0)
			tr.awaitMore(planes[0], 1)
			leave(t, d)
		}
		tr.awaitMore(planes[0], 0)
		tr.stop()
		checkUsage(t, planes[0], moved, tr.accepted[0].Load())
		checkUsage(t, planes[1], other, tr.accepted[1].Load())
		for _, table := range celllist.SiteTables {
			if n := countIn(t, inCell(t, d, 2), table, moved); n != 0 {
				t.Errorf("%d rows of the moved site are left in %s of its former cell", n, table)
			}
		}
	}
}

// addressesOf returns the addresses of all cells but the default cell: on Citus, addresses of
// different nodes.
func addressesOf(t *testing.T, d *db.DB, databaseURL string) map[int64]string {
	t.Helper()
	list, err := cells.New(d).List(t.Context())
	testkit.NoError(t, err)
	address, err := url.Parse(databaseURL)
	testkit.NoError(t, err)

	addresses, nodes := make(map[int64]string), make(map[string]bool)
	for _, cell := range list {
		if cell.ID == db.DefaultCell {
			continue
		}
		if cell.Node != "" {
			address.Host = cell.Node
		}
		addresses[cell.ID] = address.String()
		nodes[cell.Node] = true
	}
	if isCitus, err := d.IsCitus(t.Context()); err != nil || isCitus != (len(nodes) == 2) || len(addresses) != 2 {
		t.Fatalf("cells %v on %v, error %v; want two, on Citus on two nodes", addresses, nodes, err)
	}
	return addresses
}
