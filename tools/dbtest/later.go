package dbtest

import (
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/migrations"
)

// LaterColumn is a column that no statement of the program names.
const LaterColumn = "later_column"

// addLaterColumns adds LaterColumn to each table, as a newer program may do while the program under
// test runs. So every test shows that its statements do not depend on the list of columns. On
// PostgreSQL the tables of cells stay as they are: a newer program changes all cells at once, and
// cells that the tests add lack the column.
func addLaterColumns(ctx context.Context, d *db.DB) error {
	objects, err := migrations.Objects(ctx, d)
	if err != nil {
		return err
	}

	for _, object := range objects {
		table, ok := strings.CutPrefix(object, "table ")
		if !ok || d.IsPostgres() && celllist.HasTable(table) {
			continue
		}
		_, err := d.Write.NewRaw("ALTER TABLE ? ADD COLUMN ? text DEFAULT 'of a newer program'",
			bun.Ident(table), bun.Ident(LaterColumn)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("add a column to %s: %w", table, err)
		}
	}

	return nil
}
