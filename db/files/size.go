package files

import "context"

// Size returns the bytes that the database takes on its disk: SQLite's file without its log, or on
// PostgreSQL the database with the common tables.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	query := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if s.db.IsPostgres() {
		query = "SELECT pg_database_size(current_database())"
	}

	err = s.db.Read.QueryRowContext(ctx, query).Scan(&bytes)
	return bytes, err
}
