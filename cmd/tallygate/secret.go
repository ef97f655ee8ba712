package main

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/tallygate/tallygate/db"
)

// secretFile is the application key's file in the data folder.
const secretFile = "secret"

// applicationKey returns the key that everything secret is derived from: the configured one, or the one in the data
// folder, made on the first start. Two processes with different keys on one database would count visitors twice and refuse
// each other's sessions, so the database remembers a fingerprint, and a process with another key does not start.
func applicationKey(ctx context.Context, c *Config, d *db.DB, log *slog.Logger) ([]byte, error) {
	key := []byte(c.Secret)
	if len(key) == 0 {
		var err error
		if key, err = readOrMakeSecret(c.DataDir); err != nil {
			return nil, fmt.Errorf("application key: %w", err)
		}
		if c.DatabaseURL != "" {
			log.WarnContext(ctx, "the application key is in the data folder only; keep it, and give it to every process on this database as TALLYGATE_SECRET", "folder", c.DataDir)
		}
	}
	fingerprint, err := hkdf.Key(sha256.New, key, nil, "fingerprint", 16)
	if err != nil {
		return nil, err
	}
	same, err := d.ClaimSetting(ctx, "secret_fingerprint", hex.EncodeToString(fingerprint))
	if err != nil {
		return nil, fmt.Errorf("compare the application key with the database's: %w", err)
	}
	if !same {
		return nil, errors.New("--secret: this database was first used with another application key; set TALLYGATE_SECRET to that one")
	}
	return key, nil
}

// readOrMakeSecret reads the key file, or writes a new one that only its owner can read. Several processes may start at
// once: the file appears complete or not at all, and the first one wins.
func readOrMakeSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	key, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	draft, err := os.CreateTemp(dir, secretFile+".*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(rand.Text() + rand.Text() + "\n")
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readSecret(path)
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
