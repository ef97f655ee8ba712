package secret

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
)

// The application key's files in the data folder.
const (
	File         = config.KeyFile
	PreviousFile = "secret.previous"
)

// readOrCreate reads the key file, or creates it with mode 0600. Processes may start
// concurrently: the file appears complete or not at all, and the first one wins.
func readOrCreate(dir string) ([]byte, error) {
	path := filepath.Join(dir, File)
	key, err := readFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	draft, err := draftFile(dir, newKey())
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft)

	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}

	return readFile(path)
}

// newKey returns a new application key of 260 random bits.
func newKey() []byte { return []byte(rand.Text() + rand.Text()) }

// draftFile writes a key into a new file with a unique name and mode 0600, and returns its path.
func draftFile(dir string, key []byte) (path string, err error) {
	// CreateTemp uses mode 0600.
	draft, err := os.CreateTemp(dir, File+".*")
	if err != nil {
		return "", err
	}

	_, err = draft.WriteString(string(key) + "\n")
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return "", errors.Join(err, os.Remove(draft.Name()))
	}

	return draft.Name(), nil
}

// replaceFile replaces a key file atomically and durably.
func replaceFile(dir, name string, key []byte) error {
	draft, err := draftFile(dir, key)
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

// readFile returns the key in a file.
func readFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	var s config.Secret
	if err := s.UnmarshalFlag(strings.TrimSpace(string(text))); err != nil {
		return nil, db.Refusef("%s %w", path, err)
	}

	return []byte(s), nil
}
