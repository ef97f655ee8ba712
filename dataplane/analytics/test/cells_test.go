package analytics_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// traffic sends hits of sites until it is stopped. It counts those that were accepted.
type traffic struct {
	accepted [2]atomic.Int64 // of each site
	stop     func()
}

// send sends page views of two sites, through several data planes at once.
func send(t *testing.T, planes []*plane, of [2]*model.Site) *traffic {
	t.Helper()
	const callers = 6

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	tr := &traffic{}
	for caller := range callers {
		p, which := planes[caller%len(planes)], caller%2
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				visitor := fmt.Sprintf("198.51.%d.%d", caller, n%200)
				switch status, code := p.Collect(viewCall(of[which], visitor, nil)); status {
				case http.StatusNoContent:
					tr.accepted[which].Add(1)
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				default:
					t.Errorf("page view: %d %s", status, code)
				}
			}
		})
	}

	tr.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(tr.stop)
	return tr
}

// awaitMore waits until some more hits of a site were accepted.
func (tr *traffic) awaitMore(p *plane, which int) {
	p.TB.Helper()
	const more = 20
	since := tr.accepted[which].Load()
	p.Await("more hits", func() bool { return tr.accepted[which].Load() >= since+more })
}

// inCell returns a cell, for what the test itself reads.
func inCell(t *testing.T, d *db.DB, id int64) *db.Cell {
	t.Helper()
	in, err := d.Cell(t.Context(), id)
	testkit.NoError(t, err)
	return in
}

// countIn returns how many rows of a site a table of a cell has.
func countIn(t *testing.T, in *db.Cell, table string, site *model.Site) int {
	t.Helper()
	n, err := in.Read.NewSelect().Table(table).Where("site_id = ?", site.ID).Count(t.Context())
	testkit.NoError(t, err)
	return int(n)
}

// leave ends the minute for which the rows of a moved site stay in its former cell, and the move.
func leave(t *testing.T, d *db.DB) {
	t.Helper()
	if _, err := d.Write.ExecContext(t.Context(), "UPDATE site_moves SET switched_at = 0"); err != nil {
		t.Fatal(err)
	}
	if n, err := cells.New(d).Continue(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d moves finished, error %v; want 1", n, err)
	}
}

// checkUsage compares the hits of a site that were accepted with the stored and the counted ones.
func checkUsage(t *testing.T, p *plane, site *model.Site, accepted int64) {
	t.Helper()
	if rows, used := int64(len(p.Views(site))), p.Used(site); rows != accepted || used != accepted {
		t.Errorf("%s: %d accepted, %d stored, %d counted", site.Domain, accepted, rows, used)
	}
}

// TestMoveUnderLoad adds a cell while two processes store hits, and moves a site there and back.
// Every accepted hit is stored once, and the hits of the other site do not wait.
func TestMoveUnderLoad(t *testing.T) {
	testkit.SkipLong(t, "a move under load")
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	dbtest.SetClock(d, func() time.Time { return noon })
	planes := []*plane{newPlane(t, d), newPlane(t, dbtest.Open(t, databaseURL))}
	moved, other := planes[0].site("moved.example", 1_000_000), planes[0].site("other.example", 1_000_000)

	tr := send(t, planes, [2]*model.Site{moved, other})
	tr.awaitMore(planes[0], 0)
	cell, err := cells.New(d).Add(t.Context(), model.At(noon))
	testkit.NoError(t, err)
	tr.awaitMore(planes[0], 0)

	// Other processes learn of the cell within seconds, and moves wait for that. An hour outlasts a
	// busy machine.
	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = created_at + 3600000000 WHERE id = ?", cell.ID))
	if err := cells.New(d).Move(t.Context(), moved.ID, cell.ID); err == nil {
		t.Error("a site was moved to a cell that processes may not know")
	}
	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = 0"))

	home := moved.Cell
	for _, to := range []int64{cell.ID, home, cell.ID} {
		testkit.NoError(t, cells.New(d).Move(t.Context(), moved.ID, to))
		tr.awaitMore(planes[0], 0)
		tr.awaitMore(planes[0], 1)
		leave(t, d)
	}

	tr.stop()
	for i, site := range []*model.Site{moved, other} {
		checkUsage(t, planes[0], site, tr.accepted[i].Load())
	}
	for _, table := range celllist.SiteTables {
		testkit.Equal(t, countIn(t, inCell(t, d, home), table, moved), 0, "rows of the moved site are left in %s of its former cell", table)
	}
}

// TestQuotaOfAMovedSite moves a site back and forth while its quota is used up: exactly the quota
// is stored.
func TestQuotaOfAMovedSite(t *testing.T) {
	t.Parallel()
	const quota = 300
	databaseURL := dbtest.CellURL(t)
	d := dbtest.Open(t, databaseURL)
	dbtest.SetClock(d, func() time.Time { return noon })
	planes := []*plane{newPlane(t, d), newPlane(t, dbtest.Open(t, databaseURL))}
	site, other := planes[0].site("moved.example", quota), planes[0].site("other.example", 1_000_000)

	tr := send(t, planes, [2]*model.Site{site, other})
	tr.awaitMore(planes[0], 0)
	for _, to := range []int64{db.DefaultCell, site.Cell} {
		testkit.NoError(t, cells.New(d).Move(t.Context(), site.ID, to))
		tr.awaitMore(planes[0], 1)
		leave(t, d)
	}
	planes[0].Await("the end of the quota", func() bool { return tr.accepted[0].Load() >= quota })
	tr.awaitMore(planes[0], 1)
	tr.stop()

	if accepted, rows, used := tr.accepted[0].Load(), len(planes[0].Views(site)), planes[0].Used(site); accepted != quota ||
		rows != quota || used != quota {
		t.Errorf("%d accepted, %d stored, %d counted; want %d of each", accepted, rows, used, quota)
	}
}

// TestHitsWaitForAMove closes a site as a move does. Its hits wait and are stored when the site is
// opened in another cell; after their deadline they are answered with 503.
func TestHitsWaitForAMove(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.CellURL(t))
	p := newPlane(t, d)
	site := p.site("moved.example", 1_000_000)
	p.View(site, "198.51.100.1", nil)

	set := func(cell int64, closed bool) {
		t.Helper()
		_, err := d.Write.ExecContext(t.Context(), "UPDATE sites SET cell = ?, cell_closed = ? WHERE id = ?", cell, closed, site.ID)
		testkit.NoError(t, err)
	}

	set(site.Cell, true)
	impatient := newPlaneWith(t, d, func(o *analytics.Options) { o.Timeout = 300 * time.Millisecond })
	if status, code := impatient.Collect(viewCall(site, "198.51.100.2", nil)); status != http.StatusServiceUnavailable || code != "unavailable" {
		t.Errorf("a hit of a closed site: %d %s, want 503 unavailable", status, code)
	}

	answered := make(chan int)
	go func() {
		status, _ := p.Collect(viewCall(site, "198.51.100.3", nil))
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Fatalf("a hit of a closed site was answered with %d before the site was open", status)
	case <-time.After(300 * time.Millisecond):
	}

	set(db.DefaultCell, false)
	testkit.Equal(t, <-answered, http.StatusNoContent, "a hit that waited for a move")

	// A deleted site is not one that is moved.
	if _, err := sites.New(d).Sites.DeleteSite(t.Context(), site.AccountID, site.ID, site.Domain, model.At(noon)); err != nil {
		t.Fatal(err)
	}
	p.Await("the end of the site", func() bool {
		status, _ := p.Collect(viewCall(site, "198.51.100.4", nil))
		return status == http.StatusNotFound
	})
}
