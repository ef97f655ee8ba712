package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db"
)

// ForeignError is returned for a database with tables of another program and no list of migrations
// of this one.
type ForeignError struct {
	Table string // the first one by name
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("the database belongs to another program: it has a table %s, and was never migrated by Tallygate; "+
		"use a database of its own", e.Table)
}

// refuseForeign returns a ForeignError if the database has a table that the migrations do not
// create. Tables of PostgreSQL's extensions do not count.
func refuseForeign(ctx context.Context, d *db.DB) error {
	query := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY 1"
	if d.IsPostgres() {
		query = `SELECT relname FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')
ORDER BY 1`
	}

	var names []string
	if err := d.Read.NewRaw(query).Scan(ctx, &names); err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	own, err := ProgramTables(d)
	if err != nil {
		return err
	}

	for _, name := range names {
		if !slices.Contains(own, name) {
			return db.Refusef("%w", &ForeignError{Table: name})
		}
	}
	return nil
}
