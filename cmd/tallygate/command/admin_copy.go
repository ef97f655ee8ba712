package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/copies"
	"github.com/tallygate/tallygate/db/reports"
)

// copyProgress is the time between two lines about the progress of a copy.
const copyProgress = 10 * time.Second

type copyCommand struct {
	To copyTarget `long:"to" required:"true" value-name:"URL_OR_FILE" unquote:"false"`
}

// copyTarget is the address of a database to copy to.
type copyTarget string

// UnmarshalFlag parses an address of PostgreSQL or the path of a file. Its errors do not contain an
// address, which may hold a password.
func (t *copyTarget) UnmarshalFlag(text string) error {
	if strings.HasPrefix(text, "postgres") && strings.Contains(text, "://") {
		*t = copyTarget(text)
		return new(config.DatabaseURL).UnmarshalFlag(text)
	}

	path := strings.TrimPrefix(text, "sqlite:")
	switch info, err := os.Stat(path); {
	case path == "" || strings.Contains(path, "://"):
		return errors.New("name a postgres:// address or a file")
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it, for instance %s", path, filepath.Join(path, "tallygate.sqlite"))
	}

	*t = copyTarget("sqlite:" + path)
	return nil
}

// Run copies the installation.
func (c *copyCommand) Run(ctx context.Context, s *session) error {
	if err := database.CheckExists(ctx, s.settings); err != nil {
		return err
	}

	var err error
	if s.db, s.hold, err = database.OpenToCopy(ctx, s.settings, s.settings.Logger(s.log)); err != nil {
		return err
	}
	to, err := db.Open(string(c.To))
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}

	err = errors.Join(c.copy(ctx, s, to), to.Close())
	if err != nil && ctx.Err() != nil {
		// A canceled command is not reported otherwise.
		err = errors.New("the copy was interrupted; empty the target and begin again")
	}
	return err
}

// copy copies the rows, compares them, and counts the reports of the copy.
func (c *copyCommand) copy(ctx context.Context, s *session, to *db.DB) error {
	began, shown := time.Now(), time.Now()
	work := copies.New(s.db, to, began, func(table string, rows, total int64) {
		if time.Since(shown) > copyProgress {
			shown = time.Now()
			fmt.Fprintf(s.log, "%s: %d of %d rows\n", table, rows, total)
		}
	})

	if err := work.Begin(ctx); err != nil {
		return err
	}
	if err := work.Run(ctx); err != nil {
		return err
	}

	check := &reportsCheck{store: reports.New(to), term: s.terminal}
	if err := check.sites(ctx); err != nil {
		return fmt.Errorf("check the reports of the copy: %w", err)
	}
	if err := work.Finish(ctx); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "Copied %d rows of %d tables in %.1f seconds, and compared each.\n",
		work.Rows(), work.Tables(), time.Since(began).Seconds())
	if err := check.summary(); err != nil {
		return fmt.Errorf("%w: the rows of the copy are those of the installation, whose reports differ as well; see "+
			"\"tallygate admin check-reports\"", err)
	}

	// The copy is complete, also of a source that accepts no writes.
	ofSource := "A start on the old database is refused from now on."
	if err := work.MarkSource(ctx); err != nil {
		ofSource = fmt.Sprintf("Do not start it on the old database again, which could not be marked as copied: %v.", err)
	}
	c.printNext(s, ofSource)
	return nil
}

// printNext prints what the service needs to start on the copy, and a sentence about the source.
func (c *copyCommand) printNext(s *session, ofSource string) {
	setting := "TALLYGATE_DATABASE_URL set to the new address"
	if path, isFile := db.SQLiteFile(string(c.To)); isFile {
		setting = "TALLYGATE_DATA_DIR set to " + filepath.Dir(path) + ", where the file must be named tallygate.sqlite"
	}

	key := "the same TALLYGATE_SECRET"
	if s.settings.Secret == "" {
		key = "the same application key, which is in " + filepath.Join(s.settings.DataDir, config.KeyFile)
	}

	fmt.Fprintf(s.out, "Start the service with %s, and with %s. %s\n", setting, key, ofSource)
}
