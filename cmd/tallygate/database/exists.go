package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
)

// CheckExists returns an error that names what to set if the database is missing or has no tables.
// It creates nothing.
func CheckExists(ctx context.Context, c *config.Config) error {
	if path, isFile := db.SQLiteFile(c.Database()); isFile {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no database at %s; set TALLYGATE_DATA_DIR to the service's folder, or "+
				"TALLYGATE_DATABASE_URL to its server, or run the command with tallygate-admin", path)
		}
		return nil
	}

	d, err := db.OpenWith(c.Database(), c.DatabaseOptions())
	if err != nil {
		return err
	}

	exists, err := migrations.HasSchema(ctx, d)
	if err == nil && !exists {
		err = errors.New("--database-url: this database has no tables of Tallygate; correct the address, or run " +
			"\"tallygate migrate\" first")
	}
	return errors.Join(err, d.Close())
}
