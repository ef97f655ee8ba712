package ingest

import (
	"context"
	"crypto/rand"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/saltfile"
)

// sqliteSalts keeps the salts in files next to a SQLite database.
type sqliteSalts struct {
	saltfile.Folder
	db *db.DB
}

// create holds the database's write lock, so that no other process creates a salt as well.
func (s sqliteSalts) create(ctx context.Context, day model.Day) (salt []byte, err error) {
	err = s.db.InDataTx(ctx, func(ctx context.Context, _ *db.Tx) error {
		if salt, err = s.Read(ctx, day); err != nil || salt != nil {
			return err
		}

		salt = make([]byte, saltfile.Size)

		// rand.Read never fails.
		rand.Read(salt)
		return s.Write(day, salt)
	})

	return salt, err
}

// restore does nothing: a file survives a crash, so a missing file was destroyed.
func (sqliteSalts) restore(context.Context, model.Day, []byte) error { return nil }

// adopt holds the database's write lock, as create does.
func (s sqliteSalts) adopt(ctx context.Context, day model.Day, salt []byte) error {
	return s.db.InDataTx(ctx, func(ctx context.Context, _ *db.Tx) error {
		if known, err := s.Read(ctx, day); err != nil || known != nil {
			return err
		}
		return s.Write(day, salt)
	})
}
