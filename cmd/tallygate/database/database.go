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
	return openShared(ctx, c, log, schemaOf(c))
}

// Reclaim lets the service start again on a database that was copied.
func Reclaim(ctx context.Context, c *config.Config, log *slog.Logger) error {
	if err := CheckExists(ctx, c); err != nil {
		return err
	}

	d, hold, err := openShared(ctx, c, log, migrations.ForgetCopy)
	if err != nil {
		return err
	}
	defer hold.Release()
	return d.Close()
}

// openShared is Open with another step.
func openShared(ctx context.Context, c *config.Config, log *slog.Logger, schema step) (d *db.DB, hold *Hold, err error) {
	if c.UsesDataFolder() {
		if hold, err = holdFolder(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	if d, err = prepare(ctx, c, c.DatabaseOptions(), hold, schema); err != nil {
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

	d, err := prepare(ctx, c, c.DatabaseOptions(), hold, schemaOf(c))
	if err != nil {
		hold.Release()
		return nil, nil, err
	}

	return d, hold, nil
}

// OpenToCopy is OpenAlone for a command that copies the database: it migrates nothing, and locks
// the data folder only if it is used. Package copies checks the schema, and on PostgreSQL looks for
// other processes.
func OpenToCopy(ctx context.Context, c *config.Config, log *slog.Logger) (d *db.DB, hold *Hold, err error) {
	if c.UsesDataFolder() {
		if hold, err = holdFolderAlone(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	unchanged := func(context.Context, *db.DB) error { return nil }
	if d, err = prepare(ctx, c, c.DatabaseOptions().ForCopy(), hold, unchanged); err != nil {
		hold.Release()
		return nil, nil, err
	}

	return d, hold, nil
}

// step is what prepare does with the schema.
type step func(context.Context, *db.DB) error

// schemaOf returns the step for settings: migrate, or only check.
func schemaOf(c *config.Config) step {
	if c.NoMigrate {
		return checkSchema
	}
	return migrations.Apply
}

// prepare opens and checks the database, and runs a step on its schema.
func prepare(ctx context.Context, c *config.Config, options db.Options, hold *Hold, schema step) (*db.DB, error) {
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

	if err := Damaged(schema(ctx, d)); err != nil {
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
