// Package saltfile keeps the salts of days in files next to a SQLite database.
//
// A day's salt must be unreadable once it is destroyed. A row of a table stays in free pages, in
// the write-ahead log and in copies made with VACUUM INTO. A file of its own is in none of them,
// and it is overwritten before it is removed. Package ingest creates and destroys salts.
package saltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Size is the number of random bytes in a day's salt.
const Size = 32

// unfinished is the suffix of a salt's file until it is written.
const unfinished = ".new"

// Folder is the folder that holds the salts of one database.
type Folder struct {
	database string // file
}

// Of returns the folder of a database file. It is looked up at each use: the database may have been
// created, or its link changed, in between.
func Of(database string) Folder { return Folder{database: database} }

// path returns the same folder for every path that leads to the database.
func (f Folder) path() string {
	database := f.database
	if resolved, err := filepath.EvalSymlinks(database); err == nil {
		database = resolved
	}
	return database + "-salts"
}

func (f Folder) file(day model.Day) string { return filepath.Join(f.path(), day.String()) }

// Read returns a day's salt, nil when there is none.
func (f Folder) Read(_ context.Context, day model.Day) ([]byte, error) {
	salt, err := os.ReadFile(f.file(day))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(salt) != Size:
		return nil, fmt.Errorf("the file has %d bytes, not %d", len(salt), Size)
	}

	return salt, nil
}

// Write stores a salt so that the file has all of it or does not exist, also after a power cut. The
// caller holds the database's write lock.
func (f Folder) Write(day model.Day, salt []byte) error {
	if err := os.MkdirAll(f.path(), 0o700); err != nil {
		return err
	}

	file := f.file(day)
	if err := overwrite(file+unfinished, salt, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	if err := os.Rename(file+unfinished, file); err != nil {
		return err
	}

	return errors.Join(syncFolder(f.path()), syncFolder(filepath.Dir(f.path())))
}

// Days returns the days that have a salt, oldest first. An unfinished one counts.
func (f Folder) Days(context.Context) ([]model.Day, error) {
	entries, err := os.ReadDir(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var days []model.Day
	for _, entry := range entries {
		at, err := time.Parse(time.DateOnly, strings.TrimSuffix(entry.Name(), unfinished))
		if day := model.At(at).Day(); err == nil && (len(days) == 0 || days[len(days)-1] != day) {
			days = append(days, day)
		}
	}

	return days, err
}

// Destroy overwrites a day's salt and removes it. Another process may do the same at the same time.
func (f Folder) Destroy(_ context.Context, day model.Day) error {
	for _, file := range []string{f.file(day), f.file(day) + unfinished} {
		err := overwrite(file, make([]byte, Size), 0)
		if err == nil {
			err = os.Remove(file)
		}

		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return syncFolder(f.path())
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
