package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/saltfile"
)

// A day's salt must be unreadable once it is destroyed: in the database's log, in free pages, in
// backups and on replicas too. A row of an ordinary table stays in all of these. So both engines
// keep salts apart from everything else: SQLite in one small file per day (package saltfile),
// PostgreSQL in unlogged tables (salts_postgres.go).
type salts interface {
	// Read returns a day's salt, or nil.
	Read(context.Context, model.Day) ([]byte, error)

	// create returns a day's salt, and creates it unless another process was faster.
	create(context.Context, model.Day) ([]byte, error)

	// restore stores a salt again if a crash of the engine can have lost it.
	restore(ctx context.Context, day model.Day, salt []byte) error

	// adopt stores the salt of another database, unless the day has one.
	adopt(ctx context.Context, day model.Day, salt []byte) error

	// Days returns the days that have a salt, oldest first.
	Days(context.Context) ([]model.Day, error)

	// Destroy destroys a day's salt.
	Destroy(context.Context, model.Day) error
}

func (s *Store) salts() salts {
	if s.db.IsPostgres() {
		return postgresSalts{s.db}
	}
	return sqliteSalts{Folder: saltfile.Of(s.db.SQLitePath), db: s.db}
}

// DaySalt returns the random salt of a UTC day, the same in every process: the first caller creates
// it.
func (s *Store) DaySalt(ctx context.Context, day model.Day) ([]byte, error) {
	salt, err := s.salts().Read(ctx, day)
	if err == nil && salt == nil {
		if salt, err = s.salts().create(ctx, day); err == nil && len(salt) != saltfile.Size {
			err = fmt.Errorf("it has %d bytes, not %d", len(salt), saltfile.Size)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("salt of %v: %w", day, err)
	}

	return salt, nil
}

// KeepDaySalt returns the valid salt of a day, for a process that has one in memory. Usually it is
// the same. A crash of PostgreSQL empties unlogged tables: then the given salt is stored again,
// unless another process was faster with its own. A destroyed salt is not stored again.
func (s *Store) KeepDaySalt(ctx context.Context, day model.Day, known []byte) ([]byte, error) {
	salt, err := s.salts().Read(ctx, day)
	if err == nil && salt == nil {
		if err = s.salts().restore(ctx, day, known); err == nil {
			salt, err = s.salts().Read(ctx, day)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("salt of %v: %w", day, err)
	}
	if salt == nil {
		return known, nil
	}

	return salt, nil
}

// CopyDaySalts copies the salts since a day to another database, so that a visitor of today stays
// one visitor there. It fails if a day has another salt there.
func (s *Store) CopyDaySalts(ctx context.Context, since model.Day, to *Store) error {
	days, err := s.SaltDays(ctx)
	if err != nil {
		return err
	}

	for _, day := range days {
		salt, err := s.salts().Read(ctx, day)
		if err == nil && (salt == nil || day < since) {
			continue
		}

		var copied []byte
		if err == nil {
			err = to.salts().adopt(ctx, day, salt)
		}
		if err == nil {
			copied, err = to.salts().Read(ctx, day)
		}
		if err == nil && !bytes.Equal(copied, salt) {
			err = errors.New("the day has another salt there")
		}
		if err != nil {
			return fmt.Errorf("copy the salt of %v: %w", day, err)
		}
	}

	return nil
}

// DestroyDaySalts destroys the salts of all days before the given one, and returns their number.
func (s *Store) DestroyDaySalts(ctx context.Context, before model.Day) (int64, error) {
	days, err := s.SaltDays(ctx)
	if err != nil {
		return 0, err
	}

	var n int64
	for _, day := range days {
		if day >= before {
			continue
		}
		if err := s.salts().Destroy(ctx, day); err != nil {
			return n, fmt.Errorf("destroy the salt of %v: %w", day, err)
		}

		n++
	}

	return n, nil
}

// SaltDays returns the days that have a salt, oldest first.
func (s *Store) SaltDays(ctx context.Context) ([]model.Day, error) {
	days, err := s.salts().Days(ctx)
	if err != nil {
		return nil, fmt.Errorf("list day salts: %w", err)
	}
	return days, nil
}
