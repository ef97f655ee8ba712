package copies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
)

// table is a table that is copied, with its columns in one order on both engines.
type table struct {
	name    string
	columns []column
}

// column is a column with the kind of values that it has on both engines.
type column struct {
	name string
	kind kind
}

// kind is a kind of values.
type kind string

const (
	integers kind = "integers"
	booleans kind = "booleans"
	texts    kind = "texts"
	blobs    kind = "blobs"
)

// kinds are the kinds of the types that migrations use, of both engines.
var kinds = map[string]kind{
	"bigint": integers, "integer": integers, "smallint": integers, "boolean": booleans, "text": texts,
	"blob": blobs, "bytea": blobs,
}

func (t table) isSeeded() bool { return slices.Contains(seeded, t.name) }

// names returns the quoted names of all columns, separated by commas.
func (t table) names() string {
	quoted := make([]string, len(t.columns))
	for i, column := range t.columns {
		quoted[i] = `"` + column.name + `"`
	}
	return strings.Join(quoted, ", ")
}

// condition returns the condition of the rows to copy: the mark of an earlier copy stays in its
// database.
func (t table) condition() string {
	if t.name == settingsTable {
		return " WHERE name <> '" + migrations.CopiedSetting + "'"
	}
	return ""
}

// list returns the tables to copy. It fails if the databases differ in tables or columns.
func (c *Copy) list(ctx context.Context) ([]table, error) {
	from, err := tablesOf(ctx, c.from)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	to, err := tablesOf(ctx, c.to)
	if err != nil {
		return nil, fmt.Errorf("read the target's catalog: %w", err)
	}

	if lacking := differences(from, to); lacking != "" {
		return nil, fmt.Errorf("the target lacks the %s", lacking)
	}
	if lacking := differences(to, from); lacking != "" {
		return nil, fmt.Errorf("the installation lacks the %s", lacking)
	}

	references, err := referencesOf(ctx, c.to)
	if err != nil {
		return nil, fmt.Errorf("read the target's foreign keys: %w", err)
	}
	return inOrder(from, references), nil
}

// differences returns the first table or column that other lacks.
func differences(tables, other []table) string {
	for _, t := range tables {
		i := slices.IndexFunc(other, func(o table) bool { return o.name == t.name })
		if i < 0 {
			return "table " + t.name
		}
		for _, column := range t.columns {
			if !slices.Contains(other[i].columns, column) {
				return fmt.Sprintf("column %s of %s, with %s", column.name, t.name, column.kind)
			}
		}
	}
	return ""
}

// catalogQuery lists the columns of all tables.
func catalogQuery(d *db.DB) string {
	if !d.IsPostgres() {
		return `SELECT m.name AS "table", c.name AS "column", lower(c.type) AS type
FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table' ORDER BY m.name, c.name`
	}

	return `SELECT c.relname AS "table", a.attname AS "column", format_type(a.atttypid, a.atttypmod) AS type
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY c.relname COLLATE "C", a.attname COLLATE "C"`
}

// tablesOf returns the tables of the program in a database, in the order of their names.
func tablesOf(ctx context.Context, d *db.DB) (tables []table, err error) {
	wanted, err := migrations.ProgramTables(d)
	if err != nil {
		return nil, err
	}

	var rows []struct{ Table, Column, Type string }
	if err := d.Read.NewRaw(catalogQuery(d)).Scan(ctx, &rows); err != nil {
		return nil, err
	}

	for _, row := range rows {
		if !slices.Contains(wanted, row.Table) || slices.Contains(notCopied, row.Table) {
			continue
		}
		if len(tables) == 0 || tables[len(tables)-1].name != row.Table {
			tables = append(tables, table{name: row.Table})
		}

		t := &tables[len(tables)-1]
		kind, known := kinds[row.Type]
		if !known {
			return nil, fmt.Errorf("the column %s of %s has the type %s, which is not copied", row.Column, row.Table, row.Type)
		}
		t.columns = append(t.columns, column{row.Column, kind})
	}
	return tables, nil
}

// reference is a foreign key.
type reference struct{ Table, Parent string }

// referencesOf returns the foreign keys between different tables.
func referencesOf(ctx context.Context, d *db.DB) (references []reference, err error) {
	query := `SELECT m.name AS "table", f."table" AS parent
FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table' AND m.name <> f."table"`
	if d.IsPostgres() {
		query = `SELECT t.relname AS "table", p.relname AS parent FROM pg_constraint AS f
JOIN pg_class AS t ON t.oid = f.conrelid JOIN pg_class AS p ON p.oid = f.confrelid
WHERE f.contype = 'f' AND t.relnamespace = current_schema()::regnamespace AND t.oid <> p.oid`
	}
	err = d.Read.NewRaw(query).Scan(ctx, &references)
	return references, err
}

// inOrder returns the tables, each after those that it refers to.
func inOrder(tables []table, references []reference) []table {
	var ordered []table
	placed := func(name string) bool {
		return slices.ContainsFunc(ordered, func(t table) bool { return t.name == name })
	}

	for len(ordered) < len(tables) {
		before := len(ordered)
		for _, t := range tables {
			waits := slices.ContainsFunc(references, func(r reference) bool { return r.Table == t.name && !placed(r.Parent) })
			if !placed(t.name) && !waits {
				ordered = append(ordered, t)
			}
		}

		if len(ordered) == before {
			// Tables that refer to each other: the database refuses their rows.
			return append(ordered, slices.DeleteFunc(slices.Clone(tables), func(t table) bool { return placed(t.name) })...)
		}
	}
	return ordered
}

// copySequences sets the last generated id of each table. The id of a deleted row must not come
// back.
func (c *Copy) copySequences(ctx context.Context) error {
	last, err := sequencesOf(ctx, c.from)
	if err != nil {
		return err
	}

	return c.to.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, s := range last {
			if err := setSequence(ctx, tx, c.to.IsPostgres(), s); err != nil {
				return fmt.Errorf("%s: %w", s.Table, err)
			}
		}
		return nil
	})
}

// sequence is the last generated id of a table.
type sequence struct {
	Table, Column string
	Last          int64
}

// sequencesOf returns the sequences of the tables that have generated an id.
func sequencesOf(ctx context.Context, d *db.DB) (all []sequence, err error) {
	query := `SELECT name AS "table", 'id' AS "column", seq AS last FROM sqlite_sequence WHERE seq > 0`
	if d.IsPostgres() {
		query = `SELECT * FROM (
  SELECT c.relname AS "table", a.attname AS "column",
    pg_sequence_last_value(pg_get_serial_sequence(quote_ident(c.relname), a.attname)::regclass) AS last
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
  WHERE c.relnamespace = current_schema()::regnamespace AND a.attidentity <> '' AND NOT c.relispartition) AS s
WHERE last > 0`
	}
	err = d.Read.NewRaw(query).Scan(ctx, &all)
	return all, err
}

// setSequence sets the last generated id of a table.
func setSequence(ctx context.Context, tx *db.Tx, isPostgres bool, s sequence) error {
	if isPostgres {
		_, err := tx.ExecContext(ctx, "SELECT setval(pg_get_serial_sequence(quote_ident(?), ?), ?)", s.Table, s.Column, s.Last)
		return err
	}

	// SQLite has set it to the largest copied id, if there is a row.
	changed, err := db.Changed(tx.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", s.Last, s.Table))
	if err != nil || changed {
		return err
	}
	_, err = tx.NewRaw("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", s.Table, s.Last).Exec(ctx)
	return err
}
