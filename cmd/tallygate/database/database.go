// Package database opens the configured database for the service and for each command. It migrates
// the schema, and locks the data folder, where it checks the log that a killed process left.
package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/migrations"
)

// Open locks the data folder if it is used, then opens and migrates the database. The
// caller closes the database and then releases the hold.
func Open(ctx context.Context, c *config.Config, log *slog.Logger) (d *db.DB, hold *Hold, err error) {
	if c.UsesDataFolder() {
		if hold, err = holdFolder(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	if d, err = prepare(ctx, c, c.DatabaseOptions(), hold); err != nil {
		hold.Release()
		return nil, nil, err
	}

	return d, hold, nil
}

// OpenAlone is Open for a command that must be the only process on the data folder, which it always
// locks.
func OpenAlone(ctx context.Context, c *config.Config, log *slog.Logger) (*db.DB, *Hold, error) {
	hold, err := holdFolderAlone(ctx, c, log)
	if err != nil {
		return nil, nil, err
	}

	d, err := prepare(ctx, c, c.DatabaseOptions(), hold)
	if err != nil {
		hold.Release()
		return nil, nil, err
	}

	return d, hold, nil
}

// OpenToCopy is OpenAlone for a command that copies the database: it migrates nothing, and locks
// the data folder only if it is used. On PostgreSQL, package copies looks for other processes.
func OpenToCopy(ctx context.Context, c *config.Config, log *slog.Logger) (d *db.DB, hold *Hold, err error) {
	if c.UsesDataFolder() {
		if hold, err = holdFolderAlone(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	unchanged := *c
	unchanged.NoMigrate = true
	if d, err = prepare(ctx, &unchanged, c.DatabaseOptions().ForCopy(), hold); err != nil {
		hold.Release()
		return nil, nil, err
	}

	return d, hold, nil
}

// prepare opens, checks and migrates the database.
func prepare(ctx context.Context, c *config.Config, options db.Options, hold *Hold) (*db.DB, error) {
	d, err := db.OpenWith(c.Database(), options)
	if err != nil {
		return nil, err
	}

	if hold != nil && hold.accepted {
		if err := files.New(d).QuickCheck(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the database is damaged without its log, restore a backup: %w",
				err), d.Close())
		}
	}

	migrate := func() error { return migrations.Apply(ctx, d) }
	if c.NoMigrate {
		migrate = func() error { return checkSchema(ctx, d) }
	}
	if err := Damaged(migrate()); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the database: %w%s", err, db.StartAdvice(err)), d.Close())
	}

	return d, nil
}

// checkSchema returns an error for a database whose schema this program cannot use as it is.
func checkSchema(ctx context.Context, d *db.DB) error {
	schema, err := migrations.ReadSchemaOrEmpty(ctx, d)
	switch {
	case err != nil:
		return fmt.Errorf("read the schema's state: %w", err)
	case schema.TooNew():
		return migrations.ErrProgramTooOld
	case len(schema.Pending) > 0:
		return fmt.Errorf("%d migrations are pending, the first is %s; run \"tallygate migrate\" with a role that may "+
			"create tables", len(schema.Pending), schema.Pending[0])
	}

	return nil
}
