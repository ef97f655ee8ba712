package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
)

// applyOutside runs the statements of a migration one by one on a connection of its own, and then
// records it. It is for CREATE INDEX CONCURRENTLY of PostgreSQL, which takes hours on a large
// table, lets reads and writes pass, and cannot run in a transaction. Each statement must do
// nothing when it has run before (IF NOT EXISTS), because an interrupted migration begins again.
//
// What a script writes as one index of a partitioned table is built partition by partition: see
// indexPartitions.
func applyOutside(ctx context.Context, d *db.DB, m Migration) error {
	conn, err := d.SessionConn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	var locked bool
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", db.MigrationLock).Scan(&locked); err != nil {
		return err
	}
	if !locked {
		return errMigrating
	}

	defer func() {
		// The lock ends with the session. A connection that may still have it must not return to
		// the pool.
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", db.MigrationLock)
		if err != nil {
			discard(conn)
		}
	}()

	var applied bool
	err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM schema_migrations WHERE name = $1)", m.Name).
		Scan(&applied)
	if err != nil || applied {
		return err
	}

	if m.EachCell {
		d.ForgetCells()
		err = outsideInEachCell(ctx, d, conn, m.SQL)
	} else {
		err = runScript(ctx, d.DefaultCell(), conn, m.SQL)
	}
	if err != nil {
		return err
	}

	return recordMigration(ctx, conn, d, m)
}

// runScript runs the statements of a migration outside of a transaction.
func runScript(ctx context.Context, c *db.Cell, conn *sql.Conn, script string) error {
	for _, statement := range Statements(script) {
		if err := runOutside(ctx, c, conn, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// outsideInEachCell runs the statements of a migration in each cell, on a connection of the cell.
func outsideInEachCell(ctx context.Context, d *db.DB, conn *sql.Conn, script string) error {
	return d.EachCell(ctx, func(cell *db.Cell) error {
		if cell.ID == db.DefaultCell {
			return runScript(ctx, cell, conn, script)
		}

		conn, err := cell.Write.DB.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return runScript(ctx, cell, conn, script)
	})
}

// concurrentIndex matches CREATE INDEX CONCURRENTLY with the index, the table and the rest.
var concurrentIndex = regexp.MustCompile(
	`(?i)^CREATE( UNIQUE)? INDEX CONCURRENTLY IF NOT EXISTS (\w+) ON (\w+) (.+)$`)

// runOutside runs one statement of a migration outside of a transaction.
func runOutside(ctx context.Context, c *db.Cell, conn *sql.Conn, statement string) error {
	index := concurrentIndex.FindStringSubmatch(statement)
	if index == nil {
		_, err := conn.ExecContext(ctx, statement)
		return err
	}

	unique, name, table, columns := index[1], index[2], index[3], index[4]
	partitions, err := partitionsOf(ctx, conn, table)
	if err != nil {
		return err
	}
	if partitions == nil {
		return createIndex(ctx, conn, unique, name, table, columns)
	}

	return indexPartitions(ctx, c, conn, unique, name, table, columns, partitions)
}

// createIndex creates an index concurrently. It first drops an invalid one, which an interrupted
// creation leaves.
func createIndex(ctx context.Context, conn *sql.Conn, unique, name, table, columns string) error {
	var invalid bool
	err := conn.QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(quote_ident(current_schema()) || '.' || $1) "+
			"AND NOT indisvalid)", name).
		Scan(&invalid)
	if err != nil {
		return err
	}

	if invalid {
		if _, err := conn.ExecContext(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name); err != nil {
			return err
		}
	}

	_, err = conn.ExecContext(ctx,
		"CREATE"+unique+" INDEX CONCURRENTLY IF NOT EXISTS "+name+" ON "+table+" "+columns)
	return err
}

// partitionsOf returns the partitions of a table in the order of their names, or nil for a table
// that is not partitioned.
func partitionsOf(ctx context.Context, conn *sql.Conn, table string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, `
SELECT coalesce(c.relname, '') FROM pg_partitioned_table AS p
LEFT JOIN pg_inherits AS i ON i.inhparent = p.partrelid LEFT JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE p.partrelid = to_regclass($1) ORDER BY c.relname`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if names == nil {
			names = []string{}
		}
		if name != "" {
			names = append(names, name)
		}
	}

	return names, rows.Err()
}

// indexPartitions creates an index of a partitioned table. PostgreSQL cannot do that concurrently,
// so the table gets an index of itself only, which is invalid; each partition gets one
// concurrently; and when the last one is attached, the table's index becomes valid. A partition
// that is created meanwhile gets the index with the table's other properties.
func indexPartitions(
	ctx context.Context, c *db.Cell, conn *sql.Conn, unique, name, table, columns string, partitions []string,
) error {
	short := func(statement string) error {
		return patiently(ctx, func() error { return withLockTimeout(ctx, c, statement) })
	}

	err := short("CREATE" + unique + " INDEX IF NOT EXISTS " + name + " ON ONLY " + table + " " + columns)
	if err != nil {
		return err
	}

	for _, partition := range partitions {
		attached, err := hasIndex(ctx, conn, name, partition)
		if err != nil {
			return err
		}
		if attached {
			continue
		}

		own := name + strings.TrimPrefix(partition, table)
		if err := createIndex(ctx, conn, unique, own, partition, columns); err != nil {
			return err
		}
		if err := short("ALTER INDEX " + name + " ATTACH PARTITION " + own); err != nil {
			return err
		}
	}

	return nil
}

// hasIndex reports whether a partition has an index that is attached to the one of its table.
func hasIndex(ctx context.Context, conn *sql.Conn, index, partition string) (attached bool, err error) {
	err = conn.QueryRowContext(ctx, `
SELECT EXISTS (
  SELECT 1 FROM pg_inherits AS h JOIN pg_index AS i ON i.indexrelid = h.inhrelid
  WHERE h.inhparent = to_regclass($1) AND i.indrelid = to_regclass($2))`, index, partition).Scan(&attached)
	return attached, err
}

// withLockTimeout runs a statement that takes little time once it has its locks.
func withLockTimeout(ctx context.Context, c *db.Cell, statement string) error {
	return c.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
		_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", migrationLockWait.Milliseconds())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "?", bun.Safe(statement))
		return err
	})
}

// discard closes a connection for good, instead of returning it to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
