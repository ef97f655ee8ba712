package cells_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// now is the time of the tests' clock.
var now = dbtest.Noon

// open opens a database with two cells, whose clock stands still.
func open(t *testing.T, databaseURL string) *db.DB {
	t.Helper()
	d := dbtest.Open(t, databaseURL)
	dbtest.SetClock(d, now.Time)
	return d
}

// in returns a cell.
func in(t *testing.T, d *db.DB, id int64) *db.Cell {
	t.Helper()
	cell, err := d.Cell(t.Context(), id)
	testkit.NoError(t, err)
	return cell
}

// fill gives a site rows in each table of its cell: of today, and of earlier days.
func fill(t *testing.T, d *db.DB, site *model.Site) {
	t.Helper()
	cell := in(t, d, site.Cell)

	for _, daysAgo := range []model.Day{0, 1, 2, 40} {
		at := now - model.Instant(daysAgo)*model.Instant(24*time.Hour/time.Microsecond)
		statements := []string{
			`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (@site, 1, @day, 1, @at, @at, 1, 1)`,
			`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (@site, @at, 1, 1, 1, 0, false, '/'), (@site, @at, 2, 1, 1, 0, false, '/')`,
			`INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (@site, @at, 1, 1, 1, 'signup', '/')`,
			`INSERT INTO engagement (site_id, day, id, ms, scroll) VALUES (@site, @day, 1, 1, 1)`,
			`INSERT INTO transactions (site_id, transaction_id, event, at) VALUES (@site, 'T@day', 'purchase', @at)`,
			`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body) VALUES (@site, @day, 'conversion', 'purchase', 'pending', 0, @at, @at, '{}')`,
			`INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer) VALUES (@site, @day, 9, false, @at, 5, 500, 'server_error', '')`,
			`INSERT INTO report_days (site_id, day, state, version, built_at, visits, pageviews, events, checksum) VALUES (@site, @day, 1, 1, 1, 1, 1, 1, 1)`,
			`INSERT INTO report_segments (site_id, first_day, days, chunk, data) VALUES (@site, @day, 1, 0, 'x')`,
			`INSERT INTO site_usage_days (site_id, day, used) VALUES (@site, @day, 3)`,
			`INSERT INTO site_usage (site_id, month, used) VALUES (@site, @month, 9) ON CONFLICT DO NOTHING`,
		}
		replace := strings.NewReplacer("@site", fmt.Sprint(site.ID), "@day", fmt.Sprint(int64(at.Day())), "@at",
			fmt.Sprint(int64(at)), "@month", fmt.Sprint(int64(at.Month())))
		for _, statement := range statements {
			if _, err := cell.Write.ExecContext(t.Context(), replace.Replace(statement)); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

// rowsIn returns a site's rows in each table of a cell, without tables that have none.
func rowsIn(t *testing.T, cell *db.Cell, site *model.Site) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, table := range celllist.SiteTables {
		var rows []map[string]any
		testkit.NoError(t, cell.Read.NewSelect().Table(table).Where("site_id = ?", site.ID).Scan(t.Context(), &rows))
		for _, row := range rows {
			all[table] = append(all[table], fmt.Sprint(row))
		}
		slices.Sort(all[table])
	}
	return all
}

// TestMoveIsContinued moves a site by processes that stop: each step is rolled back at its last
// statement once, and each is done by another process. Afterwards the new cell has exactly the rows
// that the former one had.
func TestMoveIsContinued(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	d := open(t, databaseURL)
	moved, other := world.New(t, d).Site("moved.example"), world.New(t, d).Site("other.example")
	fill(t, d, moved)
	fill(t, d, other)
	before, others := rowsIn(t, in(t, d, moved.Cell), moved), rowsIn(t, in(t, d, other.Cell), other)
	if len(before) != len(celllist.SiteTables) {
		t.Fatalf("rows in %v, want some in each table", slices.Sorted(maps.Keys(before)))
	}

	// Migrations of the new cell may have given its tables another order of columns.
	_, err := in(t, d, db.DefaultCell).Write.ExecContext(t.Context(),
		"ALTER TABLE delivery_attempts DROP COLUMN duration_ms, ADD COLUMN duration_ms bigint NOT NULL DEFAULT 0")
	testkit.NoError(t, err)

	// What an abandoned move could have left.
	_, err = in(t, d, db.DefaultCell).Write.ExecContext(t.Context(),
		"INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 4)", moved.ID)
	testkit.NoError(t, err)

	testkit.NoError(t, cells.New(d).Begin(t.Context(), moved.ID, db.DefaultCell))
	steps := 0
	for done := false; !done; steps++ {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := open(t, databaseURL)
		dbtest.OnStatement(stopped, func(statement string) {
			if strings.HasPrefix(statement, "UPDATE \"site_moves\"") {
				cancel()
			}
		})
		interrupted, err := cells.New(stopped).Advance(ctx, moved.ID)
		if err == nil && !interrupted {
			t.Fatal("a step recorded no progress")
		}
		cancel()

		next := open(t, databaseURL)
		if done, err = cells.New(next).Advance(t.Context(), moved.ID); err != nil {
			t.Fatal(err)
		}
		if err := stopped.Close(); err != nil {
			t.Error(err)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	if steps < 15 {
		t.Errorf("%d steps, want one for each day and table", steps)
	}

	if got := rowsIn(t, in(t, d, db.DefaultCell), moved); !reflect.DeepEqual(got, before) {
		t.Errorf("the new cell has\n%v\nwant\n%v", got, before)
	}
	if got := rowsIn(t, in(t, d, moved.Cell), moved); !reflect.DeepEqual(got, before) {
		t.Errorf("the former cell has\n%v\nwant its rows for a minute", got)
	}

	// The worker deletes them later.
	if n, err := cells.New(d).Continue(t.Context()); n != 0 || err != nil {
		t.Errorf("%d moves finished at once, error %v; want none", n, err)
	}
	dbtest.SetClock(d, now.Add(2*time.Minute).Time)
	if n, err := cells.New(d).Continue(t.Context()); n != 1 || err != nil {
		t.Errorf("%d moves finished, error %v; want one", n, err)
	}
	if got := rowsIn(t, in(t, d, moved.Cell), moved); len(got) != 0 {
		t.Errorf("the former cell still has %v", got)
	}
	if got := rowsIn(t, in(t, d, db.DefaultCell), moved); !reflect.DeepEqual(got, before) {
		t.Errorf("after all the new cell has\n%v\nwant\n%v", got, before)
	}
	if got := rowsIn(t, in(t, d, other.Cell), other); !reflect.DeepEqual(got, others) {
		t.Errorf("another site has\n%v\nwant\n%v", got, others)
	}
}

// TestSiteComesBackDuringCleaning checks that a process that was about to delete a site's rows in
// its former cell leaves them, if another one has done so and the site has come back since.
func TestSiteComesBackDuringCleaning(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	d, other := open(t, databaseURL), open(t, databaseURL)
	site := world.New(t, d).Site("moved.example")
	fill(t, d, site)
	before := rowsIn(t, in(t, d, site.Cell), site)
	testkit.NoError(t, cells.New(d).Move(t.Context(), site.ID, db.DefaultCell))
	for _, process := range []*db.DB{d, other} {
		dbtest.SetClock(process, now.Add(2*time.Minute).Time)
	}

	clean := func() error {
		_, err := cells.New(d).Continue(t.Context())
		return err
	}
	cleanAndReturn := func() error {
		if _, err := cells.New(other).Continue(t.Context()); err != nil {
			return err
		}
		return cells.New(other).Move(t.Context(), site.ID, site.Cell)
	}
	if err, err2 := dbtest.Race(t, d, "(started_at = ", clean, cleanAndReturn); err != nil || err2 != nil {
		t.Errorf("errors %v and %v", err, err2)
	}
	if got := rowsIn(t, in(t, d, site.Cell), site); !reflect.DeepEqual(got, before) {
		t.Errorf("the site has\n%v\nwant\n%v", got, before)
	}
}

// TestMoveIsRefused checks moves that cannot begin.
func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, dbtest.CellURL(t))
	site := world.New(t, d).Site("example.com")
	store := cells.New(d)

	for _, c := range []struct {
		site model.SiteID
		to   int64
		want string
	}{
		{site.ID, 9, "there is no cell 9"},
		{site.ID, site.Cell, "is in cell 2 already"},
		{site.ID + 1, db.DefaultCell, model.ErrNotFound.Error()},
	} {
		if err := store.Move(t.Context(), c.site, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("move site %d to cell %d: %v, want %q", c.site, c.to, err, c.want)
		}
	}

	testkit.NoError(t, store.Begin(t.Context(), site.ID, db.DefaultCell))
	if _, err := store.Add(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = 0"))
	if err := store.Move(t.Context(), site.ID, 3); err == nil || !strings.Contains(err.Error(), "is not finished") {
		t.Errorf("a second move to another cell: %v", err)
	}

	// A deleted site needs no move.
	if _, err := sites.New(d).Sites.DeleteSite(t.Context(), site.AccountID, site.ID, site.Domain, now); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Continue(t.Context()); n != 1 || err != nil {
		t.Errorf("%d moves finished, error %v; want that of the deleted site", n, err)
	}

	sqlite := dbtest.Open(t, dbtest.SQLiteURL(t))
	if list, err := cells.New(sqlite).List(t.Context()); err != nil || len(list) != 1 || list[0].ID != db.DefaultCell {
		t.Errorf("cells of SQLite: %+v, %v", list, err)
	}
	if _, err := cells.New(sqlite).Add(t.Context(), now); !errors.Is(err, cells.ErrSQLite) {
		t.Errorf("add a cell to SQLite: %v", err)
	}
	testkit.ErrorIs(t, cells.New(sqlite).Move(t.Context(), 1, 2), cells.ErrSQLite, "move a site on SQLite")
}

// TestNewSites checks which cell a new site gets.
func TestNewSites(t *testing.T) {
	t.Parallel()
	d := open(t, dbtest.DefaultCellURL(t))
	store := cells.New(d)
	create := func(domain string, want int64) {
		t.Helper()
		if site := world.New(t, d).Site(domain); site.Cell != want {
			t.Errorf("%s is in cell %d, want %d", domain, site.Cell, want)
		}
	}

	create("one.example", 1)
	if _, err := store.Add(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, dbtest.Exec(d, keepNew))
	create("two.example", 1)
	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET created_at = 0"))
	create("three.example", 2)
	create("four.example", 2)
	create("five.example", 1)
	testkit.NoError(t, store.SetOpen(t.Context(), 1, false))
	create("six.example", 2)
	create("seven.example", 2)
	if err := store.SetOpen(t.Context(), 9, false); err == nil {
		t.Error("a cell that does not exist was closed")
	}

	list, err := store.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Sites != 3 || list[1].Sites != 4 || list[0].Open || !list[1].Open ||
		list[0].Bytes == 0 || list[1].Bytes == 0 || list[1].Schema != "cell_2" {
		t.Errorf("cells %+v, error %v", list, err)
	}
}

// TestStoresFindTheCell checks what the stores read and change of two sites in two cells.
func TestStoresFindTheCell(t *testing.T) {
	t.Parallel()
	d := open(t, dbtest.CellURL(t))
	second := world.New(t, d).Site("second.example", world.Webhook)
	testkit.NoError(t, cells.New(d).SetOpen(t.Context(), db.DefaultCell, true))
	first := world.New(t, d).Site("first.example", world.Webhook)
	if first.Cell != 1 || second.Cell != 2 {
		t.Fatalf("the sites are in cells %d and %d", first.Cell, second.Cell)
	}
	both := []model.SiteID{first.ID, second.ID}
	for _, site := range []*model.Site{first, second} {
		fill(t, d, site)
	}

	used, err := sites.New(d).Usage.MonthlyUsage(t.Context(), now.Month(), both)
	if err != nil || used[first.ID] != 9 || used[second.ID] != 9 {
		t.Errorf("usage %v, %v", used, err)
	}
	last, err := sites.New(d).Usage.LastHits(t.Context(), both)
	if err != nil || last[first.ID] != now || last[second.ID] != now {
		t.Errorf("last hits %v, %v", last, err)
	}
	days, err := sites.New(d).Usage.UsageByDay(t.Context(), both, now.Day()-1)
	if err != nil || len(days[first.ID]) != 2 || len(days[second.ID]) != 2 {
		t.Errorf("usage by day %v, %v", days, err)
	}

	box := outbox.New(d)
	lanes, err := box.DueLanes(t.Context(), now, 0, 10)
	if err != nil || len(lanes) != 2 {
		t.Errorf("due lanes %v, %v", lanes, err)
	}
	if backlog, err := box.DeliveryBacklog(t.Context(), now); err != nil || backlog.Pending != 8 {
		t.Errorf("backlog %+v, %v", backlog, err)
	}
	pages := []outbox.LanePage{{Lane: lanes[0], Limit: 9}, {Lane: lanes[1], Limit: 9}}
	if due, err := box.DueDeliveries(t.Context(), pages, now); err != nil || len(due[lanes[0]]) != 4 || len(due[lanes[1]]) != 4 {
		t.Errorf("due deliveries %v, %v", due, err)
	}
	for _, lane := range lanes {
		leased, err := box.LeaseDelivery(t.Context(), lane, nil, now, time.Minute)
		if err != nil || leased == nil || leased.URL == "" {
			t.Fatalf("leased of site %d: %+v, %v", lane.SiteID, leased, err)
		}
		testkit.NoError(t, box.FinishAttempt(t.Context(), leased, outbox.AttemptResult{Status: 200}, now))
	}
	counts, err := box.DeliveryCounts(t.Context(), both, outbox.DeliveryFilter{State: model.DeliveryDelivered})
	if err != nil || counts[first.ID] != 1 || counts[second.ID] != 1 {
		t.Errorf("delivered %v, %v", counts, err)
	}

	for _, site := range []*model.Site{first, second} {
		n := 0
		err := exports.New(d).ExportPageviews(t.Context(), exports.Range{SiteID: site.ID, To: 1 << 51, Limit: 100},
			func(*exports.Pageview) error { n++; return nil })
		if err != nil || n != 8 {
			t.Errorf("%s: %d page views exported, error %v; want 8", site.Domain, n, err)
		}
	}

	// A hit of a site in another cell is not stored.
	hits := ingest.NewHitStore(d.DefaultCell())
	defer hits.Close()
	key := model.UsageKey{SiteID: second.ID, Month: now.Month()}
	err = hits.Update(t.Context(), ingest.HitKeys{Since: now.Day().Start(), Until: (now.Day() + 1).Start(), Usage: []model.UsageKey{key}},
		func(state *ingest.HitState) *ingest.HitChanges {
			if _, has := state.Usage[key]; has || !state.Moved[second.ID] {
				t.Errorf("usage %v, moved %v; want the site to be elsewhere", state.Usage, state.Moved)
			}
			return &ingest.HitChanges{}
		})
	if err != nil {
		t.Error(err)
	}

	// Old months, and deleted sites.
	dropped, err := retention.New(d).DropOldData(t.Context(), now, 0)
	if err != nil || dropped.Partitions+dropped.Rows < 8 {
		t.Errorf("dropped %+v, %v", dropped, err)
	}
	if _, err := sites.New(d).Sites.DeleteSite(t.Context(), second.AccountID, second.ID, second.Domain, now); err != nil {
		t.Fatal(err)
	}
	if _, err := retention.New(d).PurgeDeletedSites(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if left := rowsIn(t, in(t, d, 2), second); len(left) != 0 {
		t.Errorf("the deleted site still has %v", left)
	}
	if left := rowsIn(t, in(t, d, 1), first); len(left) != len(celllist.SiteTables) {
		t.Errorf("the other site has rows in %v only", slices.Sorted(maps.Keys(left)))
	}
}
