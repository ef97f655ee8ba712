// Package certificates stores what the program needs to obtain TLS certificates by ACME: the files of the
// ACME library, its locks, and the state of each host. All nodes on one database share them.
package certificates

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Store reads and writes the tables. It is safe for concurrent use.
type Store struct {
	db   *db.DB
	keys *keys.Store
}

// New returns the certificates of a database.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d)} }

// File is a file of the ACME library without its contents.
type File struct {
	Name       string
	ModifiedAt model.Instant
	Size       int64 // bytes, encrypted
}

// Put stores a file, encrypted with the application key.
func (s *Store) Put(ctx context.Context, name string, value []byte, now model.Instant) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// A rotation of the application key locks the rows before the key's setting.
		var locked []string
		q := tx.NewSelect().Table("certificate_files").Column("name").Where("name = ?", name)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx, &locked); err != nil {
			return err
		}

		sealed, err := s.keys.SealCertificateFile(ctx, tx, name, value)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO certificate_files (name, value, modified_at) VALUES (?, ?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, modified_at = EXCLUDED.modified_at", name, sealed, now)
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

	value, err := s.keys.OpenCertificateFile(name, sealed)
	if err != nil {
		return nil, fmt.Errorf("the file %s of the certificates cannot be decrypted: %w", name, err)
	}
	return value, nil
}

// Delete deletes a file, or the files of a folder.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		folder := name + "/"
		_, err := tx.ExecContext(ctx, "DELETE FROM certificate_files WHERE name = ? OR substr(name, 1, ?) = ?", name,
			len(folder), folder)
		return err
	})
}

// List returns the file of this name, or the files of the folder of this name, in no order.
func (s *Store) List(ctx context.Context, name string) ([]File, error) {
	var files []File
	q := s.db.Read.NewSelect().Table("certificate_files").Column("name", "modified_at").ColumnExpr("length(value) AS size")
	if err := q.Scan(ctx, &files); err != nil {
		return nil, err
	}

	// There are few files: some for each host and account.
	kept := files[:0]
	for _, f := range files {
		if f.Name == name || name == "" || strings.HasPrefix(f.Name, name+"/") {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// Lock takes a lock for a holder until it expires, and reports whether it was free or expired.
func (s *Store) Lock(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return false, err
	}

	var taken bool
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		result, err := tx.ExecContext(ctx, "INSERT INTO certificate_locks (name, holder, expires_at) VALUES (?, ?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, expires_at = EXCLUDED.expires_at "+
			"WHERE certificate_locks.expires_at <= ?", name, holder, now.Add(lease), now)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		taken = rows == 1
		return err
	})
	return taken, err
}

// Renew extends a lock by a lease from now on, and reports whether the holder still has it.
func (s *Store) Renew(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return false, err
	}

	var held bool
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE certificate_locks SET expires_at = ? WHERE name = ? AND holder = ? AND expires_at > ?",
			now.Add(lease), name, holder, now)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		held = rows == 1
		return err
	})
	return held, err
}

// Unlock releases a lock unless another holder has taken it meanwhile.
func (s *Store) Unlock(ctx context.Context, name, holder string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM certificate_locks WHERE name = ? AND holder = ?", name, holder)
		return err
	})
}
