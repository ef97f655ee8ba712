package ingest_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// relay forwards connections to a server, and counts them.
type relay struct {
	url         string // the address of the database through the relay
	connections atomic.Int64
}

func newRelay(t *testing.T, databaseURL string) *relay {
	t.Helper()
	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	t.Cleanup(func() { listener.Close() })

	server := u.Host
	u.Host = listener.Addr().String()
	r := &relay{url: u.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.connections.Add(1)
			go forward(client, server)
		}
	}()
	return r
}

func forward(client net.Conn, server string) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, client)
		conn.Close()
	}()
	_, _ = io.Copy(client, conn)
}

// TestCellAddress stores a batch through the address of a cell, as often as there are servers with
// its tables. All other statements use the common address.
func TestCellAddress(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	site := world.New(t, dbtest.Open(t, databaseURL)).Site("a.example")

	for i, node := range dbtest.CellNodes(t, databaseURL) {
		r := newRelay(t, node)
		home := openWith(t, databaseURL, map[int64]string{site.Cell: r.url})
		cell, err := home.Cell(t.Context(), site.Cell)
		testkit.NoError(t, err)
		if faults, err := home.CheckCellAddresses(t.Context()); err != nil || len(faults) > 0 {
			t.Errorf("faults %v, error %v", faults, err)
		}

		r.connections.Store(0)
		hits := ingest.NewHitStore(cell)
		defer hits.Close()
		count(t, hits, site, 7)
		if err := home.Ping(t.Context()); err != nil || used(t, home, site) != int64(i+1)*7 {
			t.Errorf("ping: %v, %d used", err, used(t, home, site))
		}
		if n := r.connections.Load(); n != 1 {
			t.Errorf("%d connections to the address of the cell, want the writer's", n)
		}
	}
}

func openWith(t *testing.T, databaseURL string, addresses map[int64]string) *db.DB {
	t.Helper()
	d, err := db.OpenWith(databaseURL, db.Options{CellURLs: addresses})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestClaimsAtCellAddress stores batches of claims through the address of a cell, unless a batch
// claims in the default cell, because a worker of Citus does not have its tables.
func TestClaimsAtCellAddress(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	home := dbtest.Open(t, databaseURL)
	account := world.New(t, home).Account("a")
	testkit.NoError(t, dbtest.Exec(home, "INSERT INTO accounts (id, name, created_at, cell) VALUES (100, '-', 0, 1)"))

	for i, node := range dbtest.CellNodes(t, databaseURL) {
		r := newRelay(t, node)
		in, err := openWith(t, databaseURL, map[int64]string{2: r.url}).Cell(t.Context(), 2)
		testkit.NoError(t, err)
		store := ingest.NewClaimStore(in)
		defer store.Close()

		at := model.Instant(i)
		both := ingest.ClaimKeys{
			Usage:     []model.CaptchaUsageKey{{AccountID: account, Month: 202611}},
			Consumed:  []model.ConsumedKey{consumed(account, at, 1)},
			Elsewhere: []ingest.ClaimsInCell{{Cell: 1, Schema: "public", Consumed: []model.ConsumedKey{consumed(100, at, 1)}}},
		}
		if found := update(t, store, both, nil); len(found.Claimed) != 2 || len(found.Usage) != 1 {
			t.Errorf("found %+v; want both claims and the usage", found)
		}
		testkit.Equal(t, r.connections.Load(), 0, "connections to the address of the cell for a batch with the default cell")

		own := ingest.ClaimKeys{Usage: both.Usage, Consumed: append(both.Consumed, consumed(account, at, 2))}
		if found := update(t, store, own, nil); len(found.Claimed) != 1 || !found.Claimed[own.Consumed[1]] || len(found.Usage) != 1 {
			t.Errorf("found %+v; want the second claim and the usage", found)
		}
		if found := update(t, store, both, nil); len(found.Claimed) != 0 {
			t.Errorf("%v can be claimed again", found.Claimed)
		}
		testkit.Equal(t, r.connections.Load(), 1, "connections to the address of the cell")
	}
}

// TestWrongCellAddress checks that no batch is stored in another database, and which fault is
// reported.
func TestWrongCellAddress(t *testing.T) {
	t.Parallel()
	databaseURL, otherURL := dbtest.CellURL(t), dbtest.CellURL(t)
	home, other := dbtest.Open(t, databaseURL), dbtest.Open(t, otherURL)
	site := world.New(t, home).Site("a.example")
	if twin := world.New(t, other).Site("a.example"); twin.ID != site.ID || twin.Cell != site.Cell {
		t.Fatalf("site %d in cell %d, want %d in %d", twin.ID, twin.Cell, site.ID, site.Cell)
	}
	for _, statement := range []string{
		"CREATE SCHEMA empty", "INSERT INTO cells (id, schema, open, created_at) VALUES (8, 'empty', false, 0)",
	} {
		testkit.NoError(t, dbtest.Exec(home, statement))
	}

	d := openWith(t, databaseURL, map[int64]string{
		site.Cell: dbtest.CellNodes(t, otherURL)[0], 8: dbtest.CellNodes(t, databaseURL)[0], 9: databaseURL,
	})
	faults, err := d.CheckCellAddresses(t.Context())
	if err != nil || len(faults) != 3 || !errors.Is(faults[site.Cell], celllist.ErrOtherDatabase) ||
		!errors.Is(faults[8], celllist.ErrNoCellTables) || !errors.Is(faults[9], celllist.ErrUnknownCell) {
		t.Errorf("faults %v, error %v", faults, err)
	}

	in, err := d.Cell(t.Context(), site.Cell)
	testkit.NoError(t, err)
	hits := ingest.NewHitStore(in)
	defer hits.Close()
	err = hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{keyOf(site)}},
		func(*ingest.HitState) *ingest.HitChanges { return new(ingest.HitChanges) })
	if !errors.Is(err, celllist.ErrOtherDatabase) {
		t.Errorf("the batch: %v, want %v", err, celllist.ErrOtherDatabase)
	}
}

// TestUnreachableCellAddress checks that an unresponsive server of a cell stops only its own sites.
func TestUnreachableCellAddress(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	d := openWith(t, databaseURL, map[int64]string{2: "postgres://tallygate:hunter2@127.0.0.1:1/x"})
	if faults, err := d.CheckCellAddresses(t.Context()); err != nil || faults[2] == nil ||
		strings.Contains(faults[2].Error(), "hunter2") {
		t.Errorf("faults %v, error %v", faults, err)
	}

	testkit.NoError(t, dbtest.Exec(d, "UPDATE cells SET open = (id = 1)"))
	site := world.New(t, d).Site("a.example")
	hits := ingest.NewHitStore(d.DefaultCell())
	defer hits.Close()
	count(t, hits, site, 7)

	var n int64
	if err := d.Read.NewSelect().Table("site_usage").ColumnExpr("sum(used)").Scan(t.Context(), &n); err != nil || n != 7 {
		t.Errorf("%d used, error %v; want 7", n, err)
	}
}
