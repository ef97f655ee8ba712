// Package certificates stores what the program needs to obtain TLS certificates by ACME: the
// account's key, the certificates with their keys, and the state of each host.
package certificates

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
)

// Store reads and writes the tables. It is safe for concurrent use.
type Store struct {
	db   *db.DB
	keys *keys.Store
}

// New returns the certificates of a database.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d)} }

// Put stores a file, encrypted with the application key.
func (s *Store) Put(ctx context.Context, name string, value []byte) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// A rotation of the application key locks the rows before the key's setting.
		var locked []string
		q := tx.NewSelect().Table("certificate_files").Column("name").Where("name = ?", name)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx, &locked); err != nil {
			return err
		}

		sealed, err := s.keys.Seal(ctx, tx, keys.CertificateFile(name), string(value))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO certificate_files (name, value) VALUES (?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value", name, sealed)
		return err
	})
}

// Get returns a file, or model.ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	var sealed []byte
	err := s.db.Read.NewSelect().Table("certificate_files").Column("value").Where("name = ?", name).Scan(ctx, &sealed)
	if err != nil {
		return nil, db.OrNotFound(err)
	}

	value, err := s.keys.Open(keys.CertificateFile(name), sealed)
	return []byte(value), err
}
