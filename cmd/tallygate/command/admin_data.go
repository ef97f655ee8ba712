package command

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

type backupCommand struct {
	File string `arg:"" help:"The new file, which must not exist."`
}

// Run copies the database.
func (c *backupCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	if err := files.New(d).BackUp(ctx, c.File); err != nil {
		return err
	}
	fmt.Fprintf(term.out, "Copied to %s. Keep the application key elsewhere.\n", c.File)
	return nil
}

type restoreMonthCommand struct {
	Month string `arg:"" optional:"" placeholder:"YYYY-MM" help:"The month, for instance 2026-05."`
}

// Run attaches the month's partitions again. A worker with the same retention detaches them within
// an hour.
func (c *restoreMonthCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	if c.Month == "" {
		return listDetached(ctx, d, term)
	}

	start, err := time.Parse("2006-01", c.Month)
	if err != nil {
		return fmt.Errorf("%q is not a month such as 2026-05", c.Month)
	}

	n, err := retention.New(d).Reattach(ctx, model.At(start).Month())
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("nothing to restore for %s", c.Month)
	}

	fmt.Fprintf(term.out,
		"%s is restored. Workers with a --retention-months that does not cover it remove it again within an hour.\n",
		c.Month)
	return nil
}

func listDetached(ctx context.Context, d *db.DB, term terminal) error {
	months, err := retention.New(d).DetachedMonths(ctx)
	if err != nil {
		return err
	}

	for _, month := range months {
		fmt.Fprintln(term.out, month)
	}

	if len(months) == 0 {
		fmt.Fprintln(term.out, "Nothing to restore.")
	}

	return nil
}
