package db

import "context"

// ExecForTest runs one statement. Only package dbtest calls it, for tests that need a state which the product itself does
// not make.
func ExecForTest(ctx context.Context, d *DB, statement string, args ...any) error {
	_, err := d.write.ExecContext(ctx, statement, args...)
	return err
}

// CountForTest returns the number of rows of a table. Only package dbtest calls it.
func CountForTest(d *DB, table string) (int, error) {
	n, err := d.read.NewSelect().Table(table).Count(context.Background())
	return int(n), err
}

// RowsForTest reads rows into a slice. Only package dbtest calls it.
func RowsForTest(d *DB, rows any, query string, args ...any) error {
	return d.read.NewRaw(query, args...).Scan(context.Background(), rows)
}

// IsBusyForTest reports whether all pooled connections are in use. Only package dbtest calls it.
func IsBusyForTest(d *DB) bool {
	stats := d.write.Stats()
	return stats.InUse == stats.MaxOpenConnections
}
