package files

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrBackUpElsewhere is the error of BackUp on PostgreSQL.
var ErrBackUpElsewhere = errors.New("PostgreSQL has programs for this: pg_dump --no-unlogged-table-data --format=custom --file=FILE DATABASE_URL")

// BackUp writes a copy of a SQLite database as it is at one time into a new file that only its
// owner can read. Salts of days are not in it. The service may run meanwhile.
func (s *Store) BackUp(ctx context.Context, file string) error {
	if s.db.IsPostgres() {
		return ErrBackUpElsewhere
	}

	// VACUUM INTO accepts an empty file, and this one is private from the start.
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
