package dbtest

import (
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/testkit"
)

// PlanOf returns the plan of a statement in a pool of the database, as the database describes it.
func PlanOf(t testing.TB, d *db.DB, pool bun.IDB, statement string) string {
	t.Helper()

	explain := "EXPLAIN QUERY PLAN "
	if d.IsPostgres() {
		explain = "EXPLAIN "
	}
	rows, err := pool.QueryContext(t.Context(), explain+statement)
	testkit.NoError(t, err)
	defer rows.Close()

	var lines []string
	for rows.Next() {
		var line string
		var number int
		into := []any{&line}
		if !d.IsPostgres() {
			into = []any{&number, &number, &number, &line}
		}
		testkit.NoError(t, rows.Scan(into...))
		lines = append(lines, line)
	}
	testkit.NoError(t, rows.Err())

	return strings.Join(lines, "\n")
}
