package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

type migrateCommand struct {
	Config `embed:""`
}

// Run migrates the database.
func (c *migrateCommand) Run(ctx context.Context, term terminal) error {
	d, hold, err := openDatabase(ctx, &c.Config, logger(&c.Config, term.log))
	if err != nil {
		return err
	}
	defer hold.release()

	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return errors.Join(fmt.Errorf("create partitions: %w", err), d.Close())
	}

	fmt.Fprintln(term.out, "The schema is up to date.")
	return d.Close()
}

// openDatabase locks the data folder if it is used, then opens and migrates the database. The
// caller closes the database and then releases the hold.
func openDatabase(ctx context.Context, c *Config, log *slog.Logger) (d *db.DB, hold *folderHold, err error) {
	if c.usesDataFolder() {
		if hold, err = holdFolder(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	if d, err = prepareDatabase(ctx, c, hold); err != nil {
		hold.release()
		return nil, nil, err
	}

	return d, hold, nil
}

func prepareDatabase(ctx context.Context, c *Config, hold *folderHold) (*db.DB, error) {
	d, err := db.Open(c.databaseURL())
	if err != nil {
		return nil, err
	}

	if hold != nil && hold.accepted {
		if err := files.New(d).QuickCheck(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the database is damaged without its log, restore a backup: %w",
				err), d.Close())
		}
	}

	if err := d.Migrate(ctx, time.Now); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the database: %w", err), d.Close())
	}

	return d, nil
}
