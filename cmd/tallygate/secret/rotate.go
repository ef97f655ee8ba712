package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Rotate replaces the application key in the database by the configured one. If the key is a file
// in the data folder, it creates a new one, and no other process may run on the folder.
func Rotate(ctx context.Context, c *config.Config, log *slog.Logger) (keys.Rotation, error) {
	if c.Secret == "" && c.SecretPrevious == "" {
		return rotateFile(ctx, c, log)
	}
	return rotateConfigured(ctx, c, log)
}

// rotateConfigured rotates keys that are given as settings. Other processes may run.
func rotateConfigured(ctx context.Context, c *config.Config, log *slog.Logger) (keys.Rotation, error) {
	k, err := find(c, true)
	if err != nil {
		return keys.Rotation{}, err
	}
	if k.Previous == nil {
		return keys.Rotation{},
			errors.New("--secret-previous: set TALLYGATE_SECRET to the new application key, and " +
				"TALLYGATE_SECRET_PREVIOUS to the one that the database uses")
	}

	d, hold, err := database.Open(ctx, c, log)
	if err != nil {
		return keys.Rotation{}, err
	}
	defer hold.Release()

	result, err := k.rotateDatabase(ctx, d)
	return result, errors.Join(err, d.Close())
}

// rotateDatabase replaces the previous key by the current one in the database.
func (k *Keys) rotateDatabase(ctx context.Context, d *db.DB) (keys.Rotation, error) {
	state, err := keys.New(d).ApplicationKeyState(ctx)
	if err != nil {
		return keys.Rotation{}, err
	}
	if state.Current == k.Current.Fingerprint() && state.Previous != k.Previous.Fingerprint() {
		return keys.Rotation{},
			errors.New("the database already uses TALLYGATE_SECRET; to replace that key, set TALLYGATE_SECRET to a " +
				"new one and TALLYGATE_SECRET_PREVIOUS to this one")
	}
	if err := k.Match(state); err != nil {
		return keys.Rotation{}, err
	}

	current, previous := k.all()
	d.UseApplicationKey(current, previous...)

	return keys.New(d).RotateApplicationKey(ctx, model.At(time.Now()))
}

// rotateFile rotates a key that is a file in the data folder. No other process may run, since it
// would know only the previous key.
func rotateFile(ctx context.Context, c *config.Config, log *slog.Logger) (keys.Rotation, error) {
	d, hold, err := database.OpenAlone(ctx, c, log)
	if err != nil {
		return keys.Rotation{}, err
	}
	defer hold.Release()

	r := NewFileRotation(c.DataDir, d)
	for _, step := range r.Steps() {
		if err = step(ctx); err != nil {
			break
		}
	}

	return r.result, errors.Join(err, d.Close())
}

// FileRotation replaces a key in the data folder. It may be interrupted between any steps: a
// process that starts then finds a key that the database uses, and running the steps again
// continues where they stopped.
type FileRotation struct {
	dir    string
	db     *db.DB
	result keys.Rotation

	resumed bool // an interrupted run wrote the files
}

// NewFileRotation returns a rotation of the key in the data folder dir, which the caller has
// locked.
func NewFileRotation(dir string, d *db.DB) *FileRotation { return &FileRotation{dir: dir, db: d} }

// Steps returns the steps in their order. The first one only checks.
func (r *FileRotation) Steps() []func(context.Context) error {
	return []func(context.Context) error{r.begin, r.keepPrevious, r.writeNew, r.replace}
}

// begin compares the files with the database.
func (r *FileRotation) begin(ctx context.Context) error {
	state, err := keys.New(r.db).ApplicationKeyState(ctx)
	if err != nil {
		return err
	}

	current, err := readFile(filepath.Join(r.dir, File))
	if errors.Is(err, fs.ErrNotExist) || err == nil && state.Current == "" {
		return errors.New("there is no application key to replace yet: start tallygate once")
	}
	if err != nil {
		return err
	}

	previous, err := readFile(filepath.Join(r.dir, PreviousFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	k := newKeys(current, previous)
	if err := k.Match(state); err != nil {
		return err
	}

	r.resumed = k.Rotation.SignsWithPrevious()
	if k.Previous != nil && !r.resumed {
		return fmt.Errorf("nothing was changed: the last rotation, of %s, is complete; to rotate again, first delete %s",
			state.RotatedAt.Time().Format(time.RFC3339), filepath.Join(r.dir, PreviousFile))
	}

	return nil
}

// keepPrevious copies the key to its second file. A process that starts now ignores the copy.
func (r *FileRotation) keepPrevious(context.Context) error {
	if r.resumed {
		return nil
	}

	key, err := readFile(filepath.Join(r.dir, File))
	if err != nil {
		return err
	}

	return replaceFile(r.dir, PreviousFile, key)
}

// writeNew writes the new key. A process that starts now still uses the previous one, as the
// database does.
func (r *FileRotation) writeNew(context.Context) error {
	if r.resumed {
		return nil
	}
	return replaceFile(r.dir, File, newKey())
}

// replace rotates the key in the database.
func (r *FileRotation) replace(ctx context.Context) error {
	k, err := find(&config.Config{DataDir: r.dir}, true)
	if err == nil {
		r.result, err = k.rotateDatabase(ctx, r.db)
	}
	return err
}
