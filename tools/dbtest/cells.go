package dbtest

import (
	"context"
	"net/url"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Sites of tests can be in a second cell of PostgreSQL, which each store must find: package by
// package with RunWithCell, or in every test, on the cluster of citusVariable. All new sites are
// then in that cell, and the functions of this package that run a test's own statements run them
// there.

// withCell makes Each run tests with a second cell as well.
var withCell bool

// RunWithCell is Run for a package whose tests with Each also run with all sites in a second cell
// of PostgreSQL, as subtests named "cell".
func RunWithCell(m *testing.M) int {
	withCell = true
	return Run(m)
}

// CellURL is PostgresURL for a database with a second cell, which has all new sites.
func CellURL(tb testing.TB) string {
	tb.Helper()
	if onCitus() {
		return distributed.copyURL(tb, citus.connected(tb, citusAddress), "citus_")
	}
	return secondCell.copyURL(tb, plain.connected(tb, postgresServer), "cell_")
}

// CellNodes returns the addresses of all servers that have the tables of the second cell of a
// database from CellURL: those of the workers on Citus.
func CellNodes(t *testing.T, databaseURL string) []string {
	t.Helper()
	if !onCitus() {
		return []string{databaseURL}
	}

	u, err := url.Parse(databaseURL)
	testkit.NoError(t, err)
	var nodes []string
	for _, host := range PgStrings(t, databaseURL, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0") {
		u.Host = host
		nodes = append(nodes, u.String())
	}
	return nodes
}

// newest returns the last cell.
func newest(ctx context.Context, d *db.DB) (*db.Cell, error) {
	if !d.IsPostgres() || !onCitus() && !withCell {
		return d.DefaultCell(), nil
	}

	list, err := d.Cells(ctx)
	if err != nil {
		// A database that was never migrated.
		return d.DefaultCell(), nil //nolint:nilerr // the statement reports what is wrong
	}
	return d.Cell(ctx, list[len(list)-1].ID)
}

// SitesCell returns the cell that has all sites. Tests of a store of one cell need it, and those
// that give a data plane a store of their own.
func SitesCell(tb testing.TB, d *db.DB) *db.Cell {
	tb.Helper()
	in, err := newest(tb.Context(), d)
	testkit.NoError(tb, err)
	return in
}

// AddCell adds a cell that takes sites at once, and makes it the only one that takes new ones.
func AddCell(ctx context.Context, d *db.DB, now model.Instant) (celllist.Cell, error) {
	cell, err := cells.New(d).Add(ctx, now)
	if err != nil {
		return cell, err
	}

	// Every process of a test opens the database later, or reads the cells again.
	_, err = d.Write.ExecContext(ctx, "UPDATE cells SET created_at = 0, open = (id = ?)", cell.ID)
	if err == nil {
		// So are sites that a test inserts itself.
		_, err = d.Write.ExecContext(ctx, "ALTER TABLE sites ALTER COLUMN cell SET DEFAULT ?", cell.ID)
	}
	d.ForgetCells()
	return cell, err
}
