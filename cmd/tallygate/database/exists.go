package database

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
)

// CheckExists returns an error that names what to set if the database is missing or has no tables.
// It creates nothing.
func CheckExists(ctx context.Context, c *config.Config) error {
	if _, isFile := db.SQLiteFile(c.Database()); isFile {
		return checkFile(c)
	}

	d, err := db.OpenWith(c.Database(), c.DatabaseOptions())
	if err != nil {
		return err
	}

	exists, err := migrations.HasSchema(ctx, d)
	if err == nil && !exists {
		err = db.Refusef("--database-url: this database has no tables of Tallygate; correct the address, or run " +
			"\"tallygate migrate\" first")
	}
	return errors.Join(err, d.Close())
}

// checkFile returns an error for an embedded database that is missing.
func checkFile(c *config.Config) error {
	path, isFile := db.SQLiteFile(c.Database())
	if _, err := os.Stat(path); !isFile || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err := refuseEmpty(c); err != nil {
		return err
	}
	return db.Refusef("there is no database at %s; set TALLYGATE_DATA_DIR to the service's folder, or "+
		"TALLYGATE_DATABASE_URL to its server, or run the command with tallygate-admin", path)
}

// OpenToRead opens the database for a command that reads the schema. It creates and changes nothing,
// and fails for an embedded database that is missing or that a start would refuse as empty.
func OpenToRead(c *config.Config) (*db.DB, error) {
	path, isFile := db.SQLiteFile(c.Database())
	if !isFile {
		return db.OpenWith(c.Database(), c.DatabaseOptions())
	}

	if err := cmp.Or(checkFile(c), refuseEmpty(c)); err != nil {
		return nil, err
	}
	return db.OpenReadOnly(path)
}
