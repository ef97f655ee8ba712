// Package sqlitefile opens a SQLite file: the one writing connection with its queue of callers, and
// the pools of readers. Package db opens every embedded database with it. It knows no table.
package sqlitefile

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// lockTimeout bounds a wait for a lock of another process.
const lockTimeout = 5 * time.Second

// Protect makes the database readable by its owner only: its files hold password hashes
// and visits. SQLite gives its log and index the mode of the database file, so the file is created
// here, independently of the umask.
func Protect(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return errors.Join(file.Chmod(0o600), file.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}

	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, info.Mode().Perm()&^0o077)
		}

		// Another user owns the file. Exposed of package files reports it.
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}

	return nil
}

// Readers returns a pool of connections for reading a database file. It does not connect yet.
func Readers(path string, connections int) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", dsn(path, "deferred", "", lockTimeout))
	if err != nil {
		return nil, err
	}

	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)

	return pool, nil
}

// ReadCopy returns a pool with one connection for reading a file that no process writes, such as a
// backup. Reading leaves no other files next to it. A log next to the file is not read.
func ReadCopy(path string) (*sql.DB, error) { return readOnly(path, "mode=ro&immutable=1") }

// ReadOnly is ReadCopy for a file that other processes may write, and reads its log. It leaves no
// other files, except for an index next to a log that has lost its own.
func ReadOnly(path string) (*sql.DB, error) {
	if _, err := os.Stat(path + "-wal"); err != nil {
		return ReadCopy(path)
	}
	if _, err := os.Stat(path + "-shm"); err != nil {
		return readOnly(path, "mode=ro")
	}

	// Otherwise the first process after a killed one rewrites the index, which shows lost commits.
	return readOnly(path, "mode=ro&readonly_shm=1")
}

func readOnly(path, options string) (*sql.DB, error) {
	if errUnwatched != nil {
		return nil, errUnwatched
	}

	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options)
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return pool, err
}

// dsn returns the address with every option, so that each pooled connection has them. Writers take
// the lock when they begin: a transaction that upgrades from reading to writing fails at once
// instead of waiting its turn. FULL makes a commit survive a power cut, not only a crash. A log of
// 16,000 pages, 64 MB, is more than WriteBack leaves to the writer. An empty vfs is SQLite's file
// system. SQLite waits for a lock of another process for the given time, see Conn.patiently.
func dsn(path, txlock, vfs string, wait time.Duration) string {
	q := url.Values{
		"_txlock": {txlock},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			"cache_size(-16000)", "wal_autocheckpoint(16000)",
		},
	}
	if vfs != "" {
		q.Set("vfs", vfs)
	}

	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}
