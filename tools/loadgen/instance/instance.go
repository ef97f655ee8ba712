// Package instance starts private servers for measurements: tallygate, the empty handler,
// PostgreSQL and Redis. It never touches servers that it did not start.
package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/pgserver"
)

// Instance is a private tallygate on this machine: a folder, a database and a server.
type Instance struct {
	Dir      string
	Postgres *pgserver.Server // nil on SQLite
	Database string           // address, as db.Open takes it
	Server   *Server
}

// New creates an empty database of an engine, sqlite or postgres, and prepares a server that is not
// started yet.
func New(program, engine string) (_ *Instance, err error) {
	b := &Instance{}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()

	if b.Dir, err = os.MkdirTemp("", "tallygate-load-"); err != nil {
		return nil, err
	}

	serverURL := ""

	if engine == "postgres" {
		bin, err := pgserver.Bin()
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL's server programs are not installed: %w", err)
		}
		if b.Postgres, err = pgserver.Start(bin, pgserver.Options{Durable: true}); err != nil {
			return nil, err
		}

		serverURL = b.Postgres.URL()
	}

	b.Database = serverURL
	data := filepath.Join(b.Dir, "data")

	if b.Database == "" {
		b.Database = db.EmbeddedURL(data)
	}

	b.Server, err = NewServer(program, data, serverURL)
	return b, err
}

// Second prepares a second server on the instance's folder and database, for instance of another
// program. The caller kills it before Close.
func (b *Instance) Second(program string) (*Server, error) {
	serverURL := ""
	if b.Postgres != nil {
		serverURL = b.Postgres.URL()
	}
	return NewServer(program, filepath.Join(b.Dir, "data"), serverURL)
}

// WithDatabase opens the instance's database for one function.
func (b *Instance) WithDatabase(do func(*db.DB) error) error {
	d, err := db.Open(b.Database)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// Close stops the server and the database, and removes the folder.
func (b *Instance) Close() {
	if b.Server != nil {
		b.Server.Kill()
	}
	if b.Postgres != nil {
		b.Postgres.Stop()
	}
	_ = os.RemoveAll(b.Dir)
}
