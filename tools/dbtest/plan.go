package dbtest

import (
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
)

// PlanOf returns the plan of a statement in a pool of the database, as the database describes it.
func PlanOf(t testing.TB, d *db.DB, pool bun.IDB, statement string) string {
	t.Helper()

	explain := "EXPLAIN QUERY PLAN "
	if d.IsPostgres() {
		explain = "EXPLAIN "
	}
	rows, err := pool.QueryContext(t.Context(), explain+statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()

	var lines []string
	for rows.Next() {
		var line string
		var number int
		into := []any{&line}
		if !d.IsPostgres() {
			into = []any{&number, &number, &number, &line}
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}

	return strings.Join(lines, "\n")
}
