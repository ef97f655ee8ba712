package analytics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newWritersPlane is newPlane with several writers.
func newWritersPlane(tb testing.TB, d *db.DB, writers int) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, func(o *analytics.Options) {
		for range writers {
			o.Stores = append(o.Stores, ingest.NewHitStore(dbtest.SitesCell(tb, d)))
		}
	})
}

// newLanesPlanes returns two data planes with connections of their own, as two processes have. addresses
// are those of cells.
func newLanesPlanes(t *testing.T, databaseURL string, addresses map[int64]string) []*plane {
	t.Helper()
	var planes []*plane
	for range 2 {
		d := openHome(t, databaseURL, addresses)
		planes = append(planes, newWritersPlane(t, d, 2))
	}
	return planes
}

// openHome opens a database as the product does: all stores find the cells of sites.
func openHome(t *testing.T, databaseURL string, addresses map[int64]string) *db.DB {
	t.Helper()
	d, err := db.OpenWith(databaseURL, db.Options{CellURLs: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.UseApplicationKey([]byte(dbtest.ApplicationKey))
	dbtest.SetClock(d, func() time.Time { return noon })
	return d
}

// setSlots divides the usage of a site.
func setSlots(t *testing.T, d *db.DB, site *model.Site, slots int) {
	t.Helper()
	if err := cells.New(d).SetSlots(t.Context(), site.ID, slots); err != nil {
		t.Fatal(err)
	}
}

// checkUsage compares the usage of a site with what was accepted and stored, and its rows with its
// number of slots. The leases of slots keep below the next threshold of the quota.
func checkUsage(t *testing.T, p *plane, site *model.Site, accepted int64, slots int) {
	t.Helper()
	if rows, used := int64(len(p.rows(site))), p.used(site); rows != accepted || used != accepted {
		t.Errorf("%s: %d accepted, %d stored, %d counted", site.Domain, accepted, rows, used)
	}

	var in []struct {
		Used, Lease, LeaseQuota, Quota int64
		Reached                        int16
	}
	cell, err := p.db.OfSite(t.Context(), site.ID)
	if err == nil {
		err = cell.Read.NewRaw(`SELECT u.used, u.lease, u.lease_quota, u.reached, s.monthly_pageviews AS quota
			FROM site_usage u JOIN sites s ON s.id = u.site_id WHERE u.site_id = ?`, site.ID).Scan(t.Context(), &in)
	}
	if err != nil || len(in) != slots {
		t.Fatalf("%s: %d usage rows, error %v; want %d", site.Domain, len(in), err, slots)
	}
	if slots == 1 {
		return
	}

	var limit int64
	var reached int16
	for _, row := range in {
		limit += row.Used
		if row.LeaseQuota == row.Quota && row.Lease > row.Used {
			limit += row.Lease - row.Used
		}
		reached = max(reached, row.Reached)
	}
	quota := in[0].Quota
	if next := model.NextThreshold(accepted, quota); accepted < quota && limit >= next || accepted >= quota && limit != accepted {
		t.Errorf("%s: %d of %d used, and leases up to %d", site.Domain, accepted, quota, limit)
	}
	if want := model.QuotaReached(accepted, quota); reached != want {
		t.Errorf("%s: %d of %d used, marked with %d %%, want %d", site.Domain, accepted, quota, reached, want)
	}
}

// TestMoveSlotsUnderLoad moves a site with 4 slots to another cell and back while two processes store
// its hits, by movers that stop after some of the steps. Meanwhile its number of slots changes. Every
// accepted hit is stored once, and the leases are those of the counts.
func TestMoveSlotsUnderLoad(t *testing.T) {
	testkit.SkipLong(t, "a move under load")
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	planes := newLanesPlanes(t, databaseURL, nil)
	d := planes[0].db
	moved, other := planes[0].site("moved.example", 1_000_000), planes[0].site("other.example", 1_000_000)
	setSlots(t, d, moved, 4)
	setSlots(t, d, other, 1)

	tr := send(t, planes, [2]*model.Site{moved, other})
	tr.awaitMore(planes[0], 0)

	away, slots := int64(db.DefaultCell), 4
	for i, to := range []int64{away, moved.Cell, away} {
		moveInPieces(t, databaseURL, moved, to, 5+i)
		tr.awaitMore(planes[0], 0)
		tr.awaitMore(planes[0], 1)
		leave(t, d)

		slots = []int{4, 2, 4}[i]
		setSlots(t, d, moved, slots)
		tr.awaitMore(planes[0], 0)
	}

	tr.stop()
	checkUsage(t, planes[0], moved, tr.accepted[0].Load(), slots)
	checkUsage(t, planes[1], other, tr.accepted[1].Load(), 1)
	for _, table := range celllist.SiteTables {
		if n := countIn(t, inCell(t, d, moved.Cell), table, moved); n != 0 {
			t.Errorf("%d rows of the moved site are left in %s of its former cell", n, table)
		}
	}
}

// moveInPieces moves a site by calls of Move on databases of their own. Each but the last one is cut
// off when it sends the nth statement that records a step, in turn before and after it is committed.
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

// TestMoveBetweenNodes moves a site with 4 slots between two cells, on Citus on two nodes, while two
// processes store its hits: through the common address, and at addresses of the cells.
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
		planes := newLanesPlanes(t, databaseURL, addresses)
		moved, other := planes[0].site(fmt.Sprintf("moved-%d.example", i), 1_000_000), planes[0].site(fmt.Sprintf("other-%d.example", i), 1_000_000)
		setSlots(t, d, moved, 4)
		setSlots(t, d, other, 1)

		tr := send(t, planes, [2]*model.Site{moved, other})
		for j, to := range []int64{3, 2, 3} {
			tr.awaitMore(planes[0], 0)
			moveInPieces(t, databaseURL, moved, to, 5+j)
			tr.awaitMore(planes[0], 0)
			tr.awaitMore(planes[0], 1)
			leave(t, d)
			setSlots(t, d, moved, []int{2, 3, 4}[j])
		}
		tr.awaitMore(planes[0], 0)
		tr.stop()
		checkUsage(t, planes[0], moved, tr.accepted[0].Load(), 4)
		checkUsage(t, planes[1], other, tr.accepted[1].Load(), 1)
		for _, table := range celllist.SiteTables {
			if n := countIn(t, inCell(t, d, 2), table, moved); n != 0 {
				t.Errorf("%d rows of the moved site are left in %s of its former cell", n, table)
			}
		}
	}
}

// addressesOf returns the addresses of all cells but the default one: on Citus those of different nodes.
func addressesOf(t *testing.T, d *db.DB, databaseURL string) map[int64]string {
	t.Helper()
	list, err := cells.New(d).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}

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

// TestQuotaOfMovedSlots moves a site with 4 slots back and forth while its quota is used up: exactly the
// quota is stored.
func TestQuotaOfMovedSlots(t *testing.T) {
	t.Parallel()
	const quota = 400
	databaseURL := dbtest.CellURL(t)
	planes := newLanesPlanes(t, databaseURL, nil)
	d := planes[0].db
	site, other := planes[0].site("moved.example", quota), planes[0].site("other.example", 1_000_000)
	setSlots(t, d, site, 4)

	tr := send(t, planes, [2]*model.Site{site, other})
	tr.awaitMore(planes[0], 0)
	for _, to := range []int64{db.DefaultCell, site.Cell} {
		if err := cells.New(d).Move(t.Context(), site.ID, to); err != nil {
			t.Fatal(err)
		}
		tr.awaitMore(planes[0], 1)
		leave(t, d)
	}
	planes[0].await("the end of the quota", func() bool { return tr.accepted[0].Load() >= quota })
	tr.awaitMore(planes[0], 1)
	tr.stop()

	if accepted := tr.accepted[0].Load(); accepted != quota {
		t.Errorf("%d accepted, want %d", accepted, quota)
	}
	checkUsage(t, planes[0], site, quota, 4)
}

// TestSlotsOfTwoProcesses changes the number of slots of a site while two processes store hits of the
// same visitors, whose rules have different ages, up to a quota. Exactly the quota is stored, and no
// visit is split.
func TestSlotsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const visitors = 40
	databaseURL := dbtest.PostgresURL(t)
	planes := newLanesPlanes(t, databaseURL, nil)
	site := planes[0].site("giant.example", 1_200)

	var mu sync.Mutex
	accepted := make(map[string]int)
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, views := range accepted {
			n += views
		}
		return n
	}

	// Each visitor alternates between the processes, as behind a load balancer, by two callers at once.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for n := caller; ctx.Err() == nil; n++ {
				visitor := fmt.Sprintf("198.51.100.%d", n*7%visitors)
				switch status, code := planes[n/3%2].collect(viewCall(site, visitor, nil)); status {
				case http.StatusNoContent:
					mu.Lock()
					accepted[visitor]++
					mu.Unlock()
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				default:
					t.Errorf("page view: %d %s", status, code)
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel()

	// The last change is made when the quota is almost used up.
	for i, slots := range []int{4, 2, 3, 1, 4, 2} {
		planes[0].await("more hits", func() bool { return count() >= 220*(i+1)-150 })
		setSlots(t, planes[i%2].db, site, slots)
	}
	planes[0].await("the end of the quota", func() bool { return count() >= 1_200 })

	// The quota is changed, and used up again.
	for i, quota := range []int64{1_500, 1_400, 1_700} {
		if err := dbtest.Exec(planes[0].db, "UPDATE sites SET monthly_pageviews = ? WHERE id = ?", quota, site.ID); err != nil {
			t.Fatal(err)
		}
		setSlots(t, planes[1].db, site, []int{4, 2, 4}[i])
		planes[0].await("the end of the quota", func() bool { return count() >= int(max(quota, 1_500)) })
	}
	cancel()
	wg.Wait()

	if n := count(); n != 1_700 {
		t.Errorf("%d hits were accepted, want 1,700", n)
	}
	checkUsage(t, planes[1], site, 1_700, 4)

	visits := make(map[string]int)
	for _, row := range planes[0].rows(site) {
		visits[row.Visit.ID()]++
	}
	if len(visits) != len(accepted) || len(visits) != visitors {
		t.Errorf("%d visits of %d visitors, want one of each of %d", len(visits), len(accepted), visitors)
	}
}
