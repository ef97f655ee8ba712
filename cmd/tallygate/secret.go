package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// The application key's files in the data folder.
const (
	secretFile         = "secret"
	previousSecretFile = "secret.previous"
)

// applicationKeys are the keys of this process.
type applicationKeys struct {
	current  model.ApplicationKey
	previous model.ApplicationKey // nil: none
	rotation *model.KeyRotation   // nil without a previous key
}

// all returns the keys, the current one first.
func (k *applicationKeys) all() (current model.ApplicationKey, previous []model.ApplicationKey) {
	if k.previous == nil {
		return k.current, nil
	}
	return k.current, []model.ApplicationKey{k.previous}
}

// openApplicationKeys finds the keys from which all secrets are derived, and compares them with the
// database. Processes with unrelated keys on one database would count visitors twice and refuse
// each other's sessions, so a process whose keys do not match does not start.
func openApplicationKeys(ctx context.Context, c *Config, d *db.DB, log *slog.Logger) (*applicationKeys, error) {
	k, err := findApplicationKeys(c)
	if err != nil {
		return nil, err
	}
	if c.Secret == "" && c.DatabaseURL != "" {
		log.WarnContext(ctx, "the application key is in the data folder only; keep it, and give it to every process on this database as TALLYGATE_SECRET", "folder", c.DataDir)
	}

	state, err := keys.New(d).ClaimApplicationKey(ctx, k.current)
	if err != nil {
		return nil, fmt.Errorf("compare the application key with the database's: %w", err)
	}
	if err := k.match(state); err != nil {
		return nil, err
	}
	if k.rotation.SignsWithPrevious() {
		log.InfoContext(ctx, "the database still uses the previous application key; when every process has both, run: tallygate admin rotate-secret")
	}

	current, previous := k.all()
	d.UseApplicationKey(current, previous...)

	return k, nil
}

// findApplicationKeys returns the configured keys, or those in the data folder. The current key is
// created there on the first start.
func findApplicationKeys(c *Config) (*applicationKeys, error) {
	if c.Secret != "" {
		return newApplicationKeys([]byte(c.Secret), []byte(c.SecretPrevious)), nil
	}

	current, err := readOrMakeSecret(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("application key: %w", err)
	}

	previous := []byte(c.SecretPrevious)
	if len(previous) == 0 {
		previous, err = readSecret(filepath.Join(c.DataDir, previousSecretFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("previous application key: %w", err)
		}
	}

	return newApplicationKeys(current, previous), nil
}

// newApplicationKeys ignores a previous key that equals the current one: that is a rotation which
// stopped after its first step.
func newApplicationKeys(current, previous []byte) *applicationKeys {
	k := &applicationKeys{current: current}
	if len(previous) > 0 && !bytes.Equal(current, previous) {
		k.previous = previous
		k.rotation = &model.KeyRotation{Previous: previous}
	}
	return k
}

// match compares the keys with the database's, and records whether the database uses the current
// one.
func (k *applicationKeys) match(state keys.KeyState) error {
	var previous string
	if k.previous != nil {
		previous = k.previous.Fingerprint()
	}

	switch {
	case state.Current == k.current.Fingerprint() && k.previous == nil:
		return nil
	case state.Current == k.current.Fingerprint() && state.Previous == previous:
		k.rotation.Replaced(state.RotatedAt)
		return nil
	case state.Current == k.current.Fingerprint():
		return errors.New("--secret-previous: this is not the key that this database used before; set TALLYGATE_SECRET_PREVIOUS, or the file secret.previous, to that one, or remove it")
	case k.previous != nil && state.Current == previous:
		return nil
	case k.previous != nil:
		return errors.New("--secret, --secret-previous: this database uses neither of the two application keys; set TALLYGATE_SECRET_PREVIOUS to the one it uses")
	}

	return errors.New("--secret: this database was first used with another application key; set TALLYGATE_SECRET to that one")
}

// keyCheckEvery is the interval at which a process checks the application key of the database.
const keyCheckEvery = 5 * time.Second

// watchKeys follows a rotation of the application key until ctx ends.
func (a *app) watchKeys(ctx context.Context) {
	ticker := time.NewTicker(keyCheckEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.checkKeys(ctx)
		}
	}
}

// checkKeys switches to the new key once the database uses it. Database errors are ignored, because
// readiness reports them.
func (a *app) checkKeys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	state, err := keys.New(a.db).ApplicationKeyState(ctx)
	if err != nil {
		return
	}

	signsWithPrevious := a.keys.rotation.SignsWithPrevious()
	replaced := a.keys.match(state) != nil
	if replaced && !a.keyReplaced.Swap(true) {
		a.log.Error(keyReplacedMessage)
	}

	a.keyReplaced.Store(replaced)

	if signsWithPrevious && !a.keys.rotation.SignsWithPrevious() {
		a.log.Info("the application key was rotated; this process signs with the new one from now on")
	}
}

const keyReplacedMessage = "the database uses an application key that this process does not have; restart it with TALLYGATE_SECRET and TALLYGATE_SECRET_PREVIOUS as the other processes have them"

// readOrMakeSecret reads the key file, or creates it with mode 0600. Processes may start
// concurrently: the file appears complete or not at all, and the first one wins.
func readOrMakeSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	key, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	draft, err := draftSecret(dir, newSecretKey())
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft)

	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}

	return readSecret(path)
}

// newSecretKey returns a new application key of 260 random bits.
func newSecretKey() []byte { return []byte(rand.Text() + rand.Text()) }

// draftSecret writes a key into a new file with a unique name and mode 0600, and returns its path.
func draftSecret(dir string, key []byte) (path string, err error) {
	// CreateTemp uses mode 0600.
	draft, err := os.CreateTemp(dir, secretFile+".*")
	if err != nil {
		return "", err
	}

	_, err = draft.WriteString(string(key) + "\n")
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return "", errors.Join(err, os.Remove(draft.Name()))
	}

	return draft.Name(), nil
}

// replaceSecret replaces a key file atomically and durably.
func replaceSecret(dir, name string, key []byte) error {
	draft, err := draftSecret(dir, key)
	if err != nil {
		return err
	}
	if err := os.Rename(draft, filepath.Join(dir, name)); err != nil {
		return errors.Join(err, os.Remove(draft))
	}

	folder, err := os.Open(dir)
	if err != nil {
		return err
	}

	return errors.Join(folder.Sync(), folder.Close())
}

func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	var s Secret
	if err := s.UnmarshalText([]byte(strings.TrimSpace(string(text)))); err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}

	return []byte(s), nil
}
