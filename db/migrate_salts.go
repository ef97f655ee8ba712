package db

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// moveSalts writes the salts of the last two days from the table of earlier releases to the files
// that SQLite's salts are kept in since, before a migration drops the table. On PostgreSQL the
// migration itself moves them.
func moveSalts(ctx context.Context, d *DB, tx *Tx) error {
	if d.IsPostgres() {
		return nil
	}

	var rows []struct {
		Day  int64 // since 1970-01-01
		Salt []byte
	}
	if err := tx.NewSelect().Table("day_salts").Column("day", "salt").OrderExpr("day DESC").Limit(2).Scan(ctx, &rows); err != nil {
		return err
	}

	folder := saltFolder(d.SQLitePath)
	for _, row := range rows {
		day := time.Unix(row.Day*24*60*60, 0).UTC().Format(time.DateOnly)
		if err := writeDurably(folder, day, row.Salt); err != nil {
			return err
		}
	}

	return nil
}

// writeDurably creates a file with this content, so that it is complete or absent after a power cut.
func writeDurably(folder, name string, content []byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	file := filepath.Join(folder, name)
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}

	// The names of the file and of its folder.
	for _, changed := range []string{folder, filepath.Dir(folder)} {
		dir, err := os.Open(changed)
		if err != nil {
			return err
		}
		if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
			return err
		}
	}

	return nil
}
