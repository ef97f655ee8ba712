package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

type migrateCommand struct {
	config.Config `embed:""`
}

// Run migrates the database.
func (c *migrateCommand) Run(ctx context.Context, term terminal) error {
	d, hold, err := database.Open(ctx, &c.Config, c.Logger(term.log))
	if err != nil {
		return err
	}
	defer hold.Release()

	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return errors.Join(fmt.Errorf("create partitions: %w", err), d.Close())
	}

	fmt.Fprintln(term.out, "The schema is up to date.")
	return d.Close()
}
