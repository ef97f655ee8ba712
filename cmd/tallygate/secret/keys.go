// Package secret finds the application key, as a setting or as a file in the data folder, compares
// it with the database, and replaces it. It never logs a key.
package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Keys are the keys of this process.
type Keys struct {
	Current  model.ApplicationKey
	Previous model.ApplicationKey // nil: none
	Rotation *model.KeyRotation   // nil without a previous key
}

// all returns the keys, the current one first.
func (k *Keys) all() (current model.ApplicationKey, previous []model.ApplicationKey) {
	if k.Previous == nil {
		return k.Current, nil
	}
	return k.Current, []model.ApplicationKey{k.Previous}
}

// Open finds the keys from which all secrets are derived, and compares them with the
// database. Processes with unrelated keys on one database would count visitors twice and refuse
// each other's sessions, so a process whose keys do not match does not start.
func Open(ctx context.Context, c *config.Config, d *db.DB, log *slog.Logger) (*Keys, error) {
	k, err := findOrCreate(ctx, c, d)
	if err != nil {
		return nil, err
	}
	if c.Secret == "" && c.DatabaseURL != "" {
		log.WarnContext(ctx, "the application key is in the data folder only; keep it, and give it to every "+
			"process on this database as TALLYGATE_SECRET", "folder", c.DataDir)
	}

	state, err := keys.New(d).ClaimApplicationKey(ctx, k.Current)
	if err != nil {
		return nil, fmt.Errorf("compare the application key with the database's: %w", err)
	}
	if err := k.Match(state); err != nil {
		return nil, err
	}
	if k.Rotation.SignsWithPrevious() {
		log.InfoContext(ctx, "the database still uses the previous application key; when every process has both, "+
			"run: tallygate admin rotate-secret")
	}

	current, previous := k.all()
	d.UseApplicationKey(current, previous...)

	return k, nil
}

// ErrMissing means that the database was used with an application key and this configuration has
// none.
var ErrMissing = db.Refusef("the database was used with an application key, and this configuration has none: restore " +
	"the file " + File + " in the data folder, or set TALLYGATE_SECRET to that key")

// findOrCreate returns the configured keys, or those in the data folder, where it creates one for a
// database that was never used with a key.
func findOrCreate(ctx context.Context, c *config.Config, d *db.DB) (*Keys, error) {
	k, err := Existing(c)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}

	state, err := keys.New(d).ApplicationKeyState(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the state of the application key: %w", err)
	case state.Current == "":
		return find(c, true)
	}

	// Another process may have created the key meanwhile. It does that before it claims the
	// database.
	if k, err = Existing(c); errors.Is(err, fs.ErrNotExist) {
		err = ErrMissing
	}
	return k, err
}

// Existing returns the configured keys, or those in the data folder. It creates none: before the
// first start its error is fs.ErrNotExist.
func Existing(c *config.Config) (*Keys, error) {
	return find(c, false)
}

// find returns the configured keys, or those in the data folder, where it creates a current one if
// none is there and create is set.
func find(c *config.Config, create bool) (*Keys, error) {
	if c.Secret != "" {
		return newKeys([]byte(c.Secret), []byte(c.SecretPrevious)), nil
	}

	current, err := readFile(filepath.Join(c.DataDir, File))
	if create && errors.Is(err, fs.ErrNotExist) {
		current, err = readOrCreate(c.DataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("application key: %w", err)
	}

	previous := []byte(c.SecretPrevious)
	if len(previous) == 0 {
		previous, err = readFile(filepath.Join(c.DataDir, PreviousFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("previous application key: %w", err)
		}
	}

	return newKeys(current, previous), nil
}

// newKeys ignores a previous key that equals the current one: that is a rotation which
// stopped after its first step.
func newKeys(current, previous []byte) *Keys {
	k := &Keys{Current: current}
	if len(previous) > 0 && !bytes.Equal(current, previous) {
		k.Previous = previous
		k.Rotation = &model.KeyRotation{Previous: previous}
	}
	return k
}

// Match compares the keys with the database's, and records whether the database uses the current
// one.
func (k *Keys) Match(state keys.KeyState) error {
	var previous string
	if k.Previous != nil {
		previous = k.Previous.Fingerprint()
	}

	switch {
	case state.Current == k.Current.Fingerprint() && k.Previous == nil:
		return nil
	case state.Current == k.Current.Fingerprint() && state.Previous == previous:
		k.Rotation.Replaced(state.RotatedAt)
		return nil
	case state.Current == k.Current.Fingerprint():
		return db.Refusef("--secret-previous: this is not the key that this database used before; set " +
			"TALLYGATE_SECRET_PREVIOUS, or the file secret.previous, to that one, or remove it")
	case k.Previous != nil && state.Current == previous:
		return nil
	case k.Previous != nil:
		return db.Refusef("--secret, --secret-previous: this database uses neither of the two application keys; " +
			"set TALLYGATE_SECRET_PREVIOUS to the one it uses")
	}

	return db.Refusef(
		"--secret: this database was first used with another application key; set TALLYGATE_SECRET to that one",
	)
}
