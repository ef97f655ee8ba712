package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrBackUpElsewhere is returned by BackUp on PostgreSQL.
var ErrBackUpElsewhere = errors.New("PostgreSQL has programs for this: " +
	"pg_dump --no-unlogged-table-data --format=custom --file=FILE DATABASE_URL; see docs/operator/backup.md")

// partialMark is in the name of a copy that is not complete.
const partialMark = ".partial-"

// BackUp writes a consistent copy of a SQLite database to a new file that only its owner can read.
// The copy does not contain the salts of days. The service can run at the same time. The file
// appears under its name when the copy is complete, on the disk, and passes Verify; until then it
// is a file next to it with ".partial" in its name, which a killed process leaves behind.
func (s *Store) BackUp(ctx context.Context, file string) (err error) {
	if s.db.IsPostgres() {
		return ErrBackUpElsewhere
	}
	switch _, err := os.Lstat(file); {
	case err == nil:
		return fmt.Errorf("%s exists, and a backup must be a new file", file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the backup cannot be written: %w", err)
	}

	// VACUUM INTO accepts an empty file. Creating it first makes it private from the start.
	partial, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+partialMark+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial.Name()))
		}
	}()
	defer partial.Close()

	if _, err := s.db.Read.ExecContext(ctx, "VACUUM INTO ?", partial.Name()); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := partial.Sync(); err != nil {
		return err
	}
	if _, err := Verify(ctx, partial.Name()); err != nil {
		return fmt.Errorf("verify the copy: %w", err)
	}

	return publish(partial.Name(), file)
}

// publish gives a file its name, which must be free, and makes that durable.
func publish(partial, file string) error {
	// Unlike a rename, a link never replaces a file. Some file systems have no links.
	err := os.Link(partial, file)
	switch {
	case err == nil:
		err = os.Remove(partial)
	case !errors.Is(err, fs.ErrExist):
		err = os.Rename(partial, file)
	}
	if err != nil {
		return err
	}

	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
