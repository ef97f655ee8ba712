package keys

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db"
)

// errOtherKeyOfFile is returned for a file that none of the held keys decrypts.
var errOtherKeyOfFile = errors.New("it was not stored with this application key")

// OpenCertificateFile decrypts a file of the ACME library with any of the held keys.
func (s *Store) OpenCertificateFile(name string, sealed []byte) ([]byte, error) {
	ring, err := s.keyRing()
	if err != nil {
		return nil, err
	}
	for _, k := range ring {
		if value, err := open(k.secrets, sealed, certificateBytes(name)); err == nil {
			return value, nil
		}
	}
	return nil, errOtherKeyOfFile
}

// SealCertificateFile encrypts a file of the ACME library, bound to its name, with the key that the
// database uses. The caller has locked the file's row.
func (s *Store) SealCertificateFile(ctx context.Context, tx *db.Tx, name string, value []byte) ([]byte, error) {
	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.secrets, value, certificateBytes(name)), nil
}

// certificateBytes is the context that a file is bound to, apart from the secrets of sites.
func certificateBytes(name string) []byte { return []byte("certificate " + name) }

// resealCertificates encrypts the files of the ACME library with the new key, in the order of their
// names. A file that neither key decrypts stays: reading it fails.
func (r keyRing) resealCertificates(ctx context.Context, tx *db.Tx) error {
	type file struct {
		Name  string
		Value []byte
	}

	for after, last := "", false; !last; {
		var rows []file
		err := tx.NewSelect().Table("certificate_files").Column("name", "value").Where("name > ?", after).Order("name").
			Limit(resealPage).Scan(ctx, &rows)
		if err != nil {
			return err
		}

		for _, row := range rows {
			after = row.Name
			resealed, err := r.reseal(row.Value, certificateBytes(row.Name))
			if err != nil || resealed == nil {
				continue
			}
			_, err = tx.ExecContext(ctx, "UPDATE certificate_files SET value = ? WHERE name = ? AND value = ?", resealed,
				row.Name, row.Value)
			if err != nil {
				return err
			}
		}

		last = len(rows) < resealPage
	}

	return nil
}
