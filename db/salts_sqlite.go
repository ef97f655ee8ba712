package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// SQLite's salts are files in a folder beside the database, so that they are never in the database
// file, its log or a copy made with VACUUM INTO. A file is overwritten before it is removed.

// saltFolder returns the folder of the salts of a database file, the same for every path that leads
// to it.
func saltFolder(database string) string {
	if real, err := filepath.EvalSymlinks(database); err == nil {
		database = real
	}
	return database + "-salts"
}

// unfinished is the suffix of a salt's file until it is written.
const unfinished = ".new"

func (d *DB) saltFile(day model.Day) string { return filepath.Join(d.saltDir(), day.String()) }

// saltDir is looked up each time: the database may have been made, or its link changed, after Open.
func (d *DB) saltDir() string { return saltFolder(d.SQLitePath) }

func (d *DB) readSaltFile(day model.Day) ([]byte, error) {
	salt, err := os.ReadFile(d.saltFile(day))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(salt) != saltSize:
		return nil, fmt.Errorf("the file has %d bytes, not %d", len(salt), saltSize)
	}

	return salt, nil
}

// makeSaltFile makes a day's salt with the database's write lock, which keeps other processes from
// making one as well.
func (d *DB) makeSaltFile(ctx context.Context, day model.Day) (salt []byte, err error) {
	err = d.InDataTx(ctx, func(context.Context, *Tx) error {
		if salt, err = d.readSaltFile(day); err != nil || salt != nil {
			return err
		}
		salt = make([]byte, saltSize)
		// never fails
		rand.Read(salt)
		return d.writeSaltFile(day, salt)
	})

	return salt, err
}

// writeSaltFile stores a salt so that the file has all of it or does not exist, also after a power
// cut. The caller has the database's write lock.
func (d *DB) writeSaltFile(day model.Day, salt []byte) error {
	if err := os.MkdirAll(d.saltDir(), 0o700); err != nil {
		return err
	}

	file := d.saltFile(day)
	if err := overwrite(file+unfinished, salt, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	if err := os.Rename(file+unfinished, file); err != nil {
		return err
	}

	return errors.Join(syncFolder(d.saltDir()), syncFolder(filepath.Dir(d.saltDir())))
}

func (d *DB) listSaltFiles(context.Context) ([]model.Day, error) {
	entries, err := os.ReadDir(d.saltDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var days []model.Day
	for _, entry := range entries {
		day, ok := saltDay(time.DateOnly, strings.TrimSuffix(entry.Name(), unfinished))
		if ok && (len(days) == 0 || days[len(days)-1] != day) {
			days = append(days, day)
		}
	}

	return days, err
}

// eraseSaltFile overwrites a day's salt and removes it.
func (d *DB) eraseSaltFile(day model.Day) error {
	for _, file := range []string{d.saltFile(day), d.saltFile(day) + unfinished} {
		err := overwrite(file, make([]byte, saltSize), 0)
		if err == nil {
			err = os.Remove(file)
		}

		// another process may have done it
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return syncFolder(d.saltDir())
}

// overwrite writes the first bytes of a file and waits until the disk has them.
func overwrite(file string, content []byte, flags int) error {
	f, err := os.OpenFile(file, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder waits until the disk has a folder's names.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
