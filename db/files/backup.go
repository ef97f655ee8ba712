package files

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrBackUpElsewhere is returned by BackUp on PostgreSQL.
var ErrBackUpElsewhere = errors.New("PostgreSQL has programs for this: " +
	"pg_dump --no-unlogged-table-data --format=custom --file=FILE DATABASE_URL")

// BackUp writes a consistent copy of a SQLite database to a new file that only its owner can read.
// The copy does not contain the salts of days. The service can run at the same time.
func (s *Store) BackUp(ctx context.Context, file string) error {
	if s.db.IsPostgres() {
		return ErrBackUpElsewhere
	}

	// VACUUM INTO accepts an empty file. Creating it first makes it private from the start.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := s.db.Read.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return errors.Join(fmt.Errorf("copy the database: %w", err), os.Remove(file))
	}

	f, err = os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}
