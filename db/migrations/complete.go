package migrations

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db"
)

// objectFiles list the tables, and what identifies their rows, that the migrations create: a file
// for each dialect, made by TestObjects.
//
//go:embed objects/*.txt
var objectFiles embed.FS

// IncompleteError is returned for a database that lacks what its migrations created, as after a
// restore that did not end or left tables out.
type IncompleteError struct {
	Missing []string // such as "table hits"; empty: the list of migrations itself is missing
}

// Error implements error.
func (e *IncompleteError) Error() string {
	const action = "; the restore of a backup did not end, or left tables out: restore it again into an empty database"
	if len(e.Missing) == 0 {
		return "the database has tables, but no list of the migrations that created them" + action
	}

	shown := e.Missing[:min(3, len(e.Missing))]
	text := fmt.Sprintf("the database lacks the %s", strings.Join(shown, ", the "))
	if more := len(e.Missing) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more tables or keys", more)
	}
	return text + action
}

// CheckComplete returns an IncompleteError for a database that lacks tables or keys of this
// program's migrations, although all of them were applied. A newer program may have removed some:
// then it returns nil.
func CheckComplete(ctx context.Context, d *db.DB) error {
	schema, err := ReadSchema(ctx, d)
	if err != nil || len(schema.Pending)+len(schema.Unknown) > 0 {
		return err
	}

	wanted, err := programObjects(d)
	if err != nil {
		return err
	}
	found, err := Objects(ctx, d)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}

	var missing []string
	for _, name := range wanted {
		if !slices.Contains(found, name) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return db.Refusef("%w", &IncompleteError{Missing: missing})
	}

	return nil
}

// programObjects lists the objects that the migrations create, in the form of Objects.
func programObjects(d *db.DB) ([]string, error) {
	text, err := objectFiles.ReadFile("objects/" + d.Dialect() + ".txt")
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// ProgramTables lists the tables that the migrations create on the database's engine.
func ProgramTables(d *db.DB) ([]string, error) {
	objects, err := programObjects(d)

	var tables []string
	for _, object := range objects {
		if name, ok := strings.CutPrefix(object, "table "); ok {
			tables = append(tables, name)
		}
	}
	return tables, err
}

// Objects lists the tables, the primary keys and the foreign keys, on SQLite the tables and the
// indexes, without partitions. A restore that leaves out the rows of a table cannot create the
// foreign keys of others to it.
func Objects(ctx context.Context, d *db.DB) (names []string, err error) {
	query := "SELECT type || ' ' || name FROM sqlite_master WHERE type IN ('table', 'index') " +
		"AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY 1"
	if d.IsPostgres() {
		query = `SELECT 'table ' || relname AS name FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
UNION ALL
SELECT 'primary key ' || k.relname FROM pg_index JOIN pg_class k ON k.oid = indexrelid
WHERE k.relnamespace = current_schema()::regnamespace AND indisprimary AND NOT k.relispartition
UNION ALL
SELECT 'foreign key ' || conname FROM pg_constraint JOIN pg_class t ON t.oid = conrelid
WHERE t.relnamespace = current_schema()::regnamespace AND contype = 'f' AND NOT t.relispartition
ORDER BY 1`
	}

	err = d.Read.NewRaw(query).Scan(ctx, &names)
	return names, err
}

// hasList reports whether the database has the list of applied migrations. Without entries in the
// list, it returns a ForeignError for tables of another program, and an IncompleteError for tables
// of this one.
func hasList(ctx context.Context, d *db.DB) (bool, error) {
	// The first migration creates this table, together with the list's first entry. It is looked
	// for first, because another process may be migrating.
	hasTables, err := hasTable(ctx, d, "settings")
	if err != nil {
		return false, err
	}

	exists, isFilled, err := readList(ctx, d)
	if err != nil || isFilled {
		return exists, err
	}

	if err := refuseForeign(ctx, d); err != nil {
		// Tables of a migration in between are in no list, if another process is migrating.
		if exists, isFilled, readErr := readList(ctx, d); readErr == nil && isFilled {
			return exists, nil
		}
		return exists, err
	}
	if hasTables {
		return exists, db.Refusef("%w", &IncompleteError{})
	}
	return exists, nil
}

// readList reports whether the list of applied migrations exists, and whether it has entries.
func readList(ctx context.Context, d *db.DB) (exists, isFilled bool, err error) {
	exists, err = hasTable(ctx, d, "schema_migrations")
	if err == nil && exists {
		isFilled, err = d.Read.NewSelect().Table("schema_migrations").Exists(ctx)
	}
	return exists, isFilled, err
}
