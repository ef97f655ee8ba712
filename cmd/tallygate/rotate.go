package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

type rotateSecretCommand struct {
	Config `embed:""`
}

// Run replaces the application key in the database by the configured one. If the key is a file in
// the data folder, it creates a new one.
func (c *rotateSecretCommand) Run(ctx context.Context, term terminal) error {
	log := logger(&c.Config, term.log)
	rotate := rotateConfigured

	if c.Secret == "" && c.SecretPrevious == "" {
		rotate = rotateFile
	}

	result, err := rotate(ctx, &c.Config, log)
	if err != nil {
		return err
	}

	if result.Already {
		fmt.Fprintln(term.out, "The database used this key already.")
	} else {
		fmt.Fprintln(term.out, "The application key is replaced.")
	}

	fmt.Fprintf(term.out, "Webhook secrets sealed with the new key: %d.\n", result.Resealed)

	if len(result.Unreadable) > 0 {
		fmt.Fprintf(term.out,
			"Neither key opens the webhook secrets of the sites %v. They are left as they are; their owners must set them again.\n", result.Unreadable)
	}

	fmt.Fprintln(term.out,
		"Keep the previous key (TALLYGATE_SECRET_PREVIOUS, or the file secret.previous) until the time that docs/operations.md names under \"Change the application key\".")
	return nil
}

// rotateConfigured rotates keys that are given as settings. Other processes may run.
func rotateConfigured(ctx context.Context, c *Config, log *slog.Logger) (keys.Rotation, error) {
	k, err := findApplicationKeys(c)
	if err != nil {
		return keys.Rotation{}, err
	}
	if k.previous == nil {
		return keys.Rotation{},
			errors.New("--secret-previous: set TALLYGATE_SECRET to the new application key, and TALLYGATE_SECRET_PREVIOUS to the one that the database uses")
	}

	d, hold, err := openDatabase(ctx, c, log)
	if err != nil {
		return keys.Rotation{}, err
	}
	defer hold.release()

	result, err := k.rotateDatabase(ctx, d)
	return result, errors.Join(err, d.Close())
}

// rotateDatabase replaces the previous key by the current one in the database.
func (k *applicationKeys) rotateDatabase(ctx context.Context, d *db.DB) (keys.Rotation, error) {
	state, err := keys.New(d).ApplicationKeyState(ctx)
	if err != nil {
		return keys.Rotation{}, err
	}
	if state.Current == k.current.Fingerprint() && state.Previous != k.previous.Fingerprint() {
		return keys.Rotation{},
			errors.New("the database already uses TALLYGATE_SECRET; to replace that key, set TALLYGATE_SECRET to a new one and TALLYGATE_SECRET_PREVIOUS to this one")
	}
	if err := k.match(state); err != nil {
		return keys.Rotation{}, err
	}

	current, previous := k.all()
	d.UseApplicationKey(current, previous...)

	return keys.New(d).RotateApplicationKey(ctx, model.At(time.Now()))
}

// rotateFile rotates a key that is a file in the data folder. No other process may run, since it
// would know only the previous key.
func rotateFile(ctx context.Context, c *Config, log *slog.Logger) (keys.Rotation, error) {
	hold, err := holdFolderAlone(ctx, c, log)
	if err != nil {
		return keys.Rotation{}, err
	}
	defer hold.release()

	d, err := prepareDatabase(ctx, c, hold)
	if err != nil {
		return keys.Rotation{}, err
	}

	r := fileRotation{dir: c.DataDir, db: d}
	for _, step := range r.steps() {
		if err = step(ctx); err != nil {
			break
		}
	}

	return r.result, errors.Join(err, d.Close())
}

// fileRotation replaces a key in the data folder. It may be interrupted between any steps: a
// process that starts then finds a key that the database uses, and running the steps again
// continues where they stopped.
type fileRotation struct {
	dir    string
	db     *db.DB
	result keys.Rotation

	resumed bool // an interrupted run wrote the files
}

func (r *fileRotation) steps() []func(context.Context) error {
	return []func(context.Context) error{r.begin, r.keepPrevious, r.writeNew, r.replace}
}

// begin compares the files with the database.
func (r *fileRotation) begin(ctx context.Context) error {
	state, err := keys.New(r.db).ApplicationKeyState(ctx)
	if err != nil {
		return err
	}

	current, err := readSecret(filepath.Join(r.dir, secretFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && state.Current == "" {
		return errors.New("there is no application key to replace yet: start tallygate once")
	}
	if err != nil {
		return err
	}

	previous, err := readSecret(filepath.Join(r.dir, previousSecretFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	k := newApplicationKeys(current, previous)
	if err := k.match(state); err != nil {
		return err
	}

	r.resumed = k.rotation.SignsWithPrevious()
	if k.previous != nil && !r.resumed {
		return fmt.Errorf("nothing was changed: the last rotation, of %s, is complete; to rotate again, first delete %s",
			state.RotatedAt.Time().Format(time.RFC3339), filepath.Join(r.dir, previousSecretFile))
	}

	return nil
}

// keepPrevious copies the key to its second file. A process that starts now ignores the copy.
func (r *fileRotation) keepPrevious(context.Context) error {
	if r.resumed {
		return nil
	}

	key, err := readSecret(filepath.Join(r.dir, secretFile))
	if err != nil {
		return err
	}

	return replaceSecret(r.dir, previousSecretFile, key)
}

// writeNew writes the new key. A process that starts now still uses the previous one, as the
// database does.
func (r *fileRotation) writeNew(context.Context) error {
	if r.resumed {
		return nil
	}
	return replaceSecret(r.dir, secretFile, newSecretKey())
}

// replace rotates the key in the database.
func (r *fileRotation) replace(ctx context.Context) error {
	k, err := findApplicationKeys(&Config{DataDir: r.dir})
	if err == nil {
		r.result, err = k.rotateDatabase(ctx, r.db)
	}
	return err
}
