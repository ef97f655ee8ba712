package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

// backupRetry is the longest time from a failed copy to the next attempt.
const backupRetry = time.Hour

type backupCommand struct {
	Args struct {
		Target string `positional-arg-name:"<file>" description:"The new file, which must not exist; with --keep an existing folder."`
	} `positional-args:"yes" required:"yes"`
	Keep  *int          `long:"keep" value-name:"N"`
	Every time.Duration `long:"every" value-name:"TIME"`
}

// check refuses numbers that would remove all copies, a repetition into one file, and a folder in the
// place of a file.
func (c *backupCommand) check(*session) error {
	info, err := os.Stat(c.Args.Target)
	isFolder := err == nil && info.IsDir()

	switch {
	case c.Keep != nil && *c.Keep < 1:
		return errors.New("--keep: at least 1 copy is kept")
	case c.Every < 0 || c.Every > 0 && c.Every < time.Minute:
		return errors.New("--every: at least 1m")
	case c.Every > 0 && c.Keep == nil:
		return errors.New("--every requires --keep and a folder")
	case c.Keep == nil && isFolder:
		return fmt.Errorf("<file>: %s is a folder; name a new file in it, or give --keep", c.Args.Target)
	case c.Keep != nil && err != nil:
		return fmt.Errorf("<file>: --keep requires an existing folder: %w", err)
	case c.Keep != nil && !isFolder:
		return fmt.Errorf("<file>: --keep requires a folder, and %s is a file", c.Args.Target)
	}
	return nil
}

// Run copies the database, with --every until ctx ends.
func (c *backupCommand) Run(ctx context.Context, s *session) error {
	if c.Every == 0 {
		return c.backUp(ctx, s)
	}

	// A restart makes no further copy, which would replace one of an earlier day.
	newest, err := files.NewestCopy(c.Args.Target)
	if err != nil {
		return err
	}
	wait := min(time.Until(newest.Add(c.Every)), c.Every)

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}

		// In between, the database is closed, so that commands that need it alone can run.
		err := s.close(c.backUp(ctx, s))
		s.db = nil

		wait = c.Every
		if err != nil && ctx.Err() == nil {
			wait = min(c.Every, backupRetry)
			reportFailure(s.log, false, s.parser.NameVariables(err.Error()))
		}
	}
}

// backUp makes one copy and records it.
func (c *backupCommand) backUp(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	begun, err := d.Now(ctx)
	if err != nil {
		return err
	}
	store := files.New(d)
	if size, err := store.Size(ctx); err == nil && !d.IsPostgres() {
		s.progress(fmt.Sprintf("Copying and verifying %.1f MB, about a minute for each gigabyte …", float64(size)/1e6))
	}

	file := c.Args.Target
	if c.Keep != nil {
		file = files.CopyIn(file, begun.Time())
	}
	err = store.BackUp(ctx, file)
	if err != nil && ctx.Err() != nil {
		// A canceled command is not reported otherwise, and a job would take it for a success.
		return errors.New("the backup was interrupted, and nothing was kept")
	}
	if err != nil {
		return err
	}

	// The copy is good also where the database cannot be written, for instance on a full disk.
	if err := store.RecordBackup(ctx, begun); err != nil {
		fmt.Fprintf(s.log, "the time of this backup is not recorded for the metrics: %v\n", err)
	}
	fmt.Fprintf(s.out, "Copied to %s, and verified. Keep the application key elsewhere.\n", file)
	if c.Keep == nil {
		return nil
	}

	removed, err := files.RemoveOldCopies(file, *c.Keep)
	for _, name := range removed {
		fmt.Fprintf(s.out, "Removed %s.\n", name)
	}
	return err
}

type recordBackupCommand struct{}

// Run stores the time.
func (c *recordBackupCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err == nil {
		err = files.New(d).RecordBackup(ctx, now)
	}
	return err
}

type verifyBackupCommand struct {
	Args struct {
		File string `positional-arg-name:"<file>" description:"A file that \"admin backup\" wrote."`
	} `positional-args:"yes" required:"yes"`
}

// Run reads the file.
func (c *verifyBackupCommand) Run(ctx context.Context, s *session) error {
	held, err := files.Verify(ctx, c.Args.File)
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", c.Args.File, err)
	}

	newest := "none"
	if held.Newest != 0 {
		newest = held.Newest.Time().UTC().Format(time.DateTime) + " UTC"
	}
	fmt.Fprintf(s.out, "%s is complete and without a fault.\naccounts: %d\nsites: %d\npage views: %d\nevents: %d\n"+
		"newest page view or event: %s\nschema: %s\n",
		c.Args.File, held.Accounts, held.Sites, held.Pageviews, held.Events, newest, held.Migration)
	return nil
}

type restoreMonthCommand struct {
	Args struct {
		Month string `positional-arg-name:"<month>" description:"The month, for instance 2026-05."`
	} `positional-args:"yes"`
}

// Run attaches the month's partitions again. A worker with the same retention detaches them within
// an hour.
func (c *restoreMonthCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	if c.Args.Month == "" {
		return listDetached(ctx, d, s.terminal)
	}

	start, err := time.Parse("2006-01", c.Args.Month)
	if err != nil {
		return fmt.Errorf("%q is not a month such as 2026-05", c.Args.Month)
	}

	n, err := retention.New(d).Reattach(ctx, model.At(start).Month())
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("nothing to restore for %s", c.Args.Month)
	}

	fmt.Fprintf(s.out,
		"%s is restored. Workers with a --retention-months that does not cover it remove it again within an hour.\n",
		c.Args.Month)
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
