package db

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// A day's salt must be unreadable once it is destroyed: also in the database's log, in free pages,
// in backups and on replicas. A row of an ordinary table stays in all of these. So the engines keep
// salts apart from everything else: SQLite in one small file per day beside the database
// (salts_sqlite.go), PostgreSQL in one unlogged table per day (salts_postgres.go).

// saltSize is the number of random bytes in a day's salt.
const saltSize = 32

// DaySalt returns the random salt of a UTC day, the same in every process: the first one to ask
// makes it.
func (d *DB) DaySalt(ctx context.Context, day model.Day) ([]byte, error) {
	salt, err := d.readSalt(ctx, day)
	if err == nil && salt == nil {
		if salt, err = d.makeSalt(ctx, day); err == nil && len(salt) != saltSize {
			err = fmt.Errorf("it has %d bytes, not %d", len(salt), saltSize)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("salt of %v: %w", day, err)
	}

	return salt, nil
}

// KeepDaySalt returns the salt that counts for a day, for a process that has one in memory. Usually
// it is the same. A crash of PostgreSQL empties unlogged tables: then the given salt is stored
// again, unless another process was faster with its own. A salt that was destroyed is not stored
// again.
func (d *DB) KeepDaySalt(ctx context.Context, day model.Day, known []byte) ([]byte, error) {
	salt, err := d.readSalt(ctx, day)
	if err == nil && salt == nil && d.IsPostgres() {
		if err = d.restorePostgresSalt(ctx, day, known); err == nil {
			salt, err = d.readSalt(ctx, day)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("salt of %v: %w", day, err)
	}
	if salt == nil {
		return known, nil
	}

	return salt, nil
}

// DestroyDaySalts destroys the salts of all days before the given one, and returns how many there
// were.
func (d *DB) DestroyDaySalts(ctx context.Context, before model.Day) (int64, error) {
	days, err := d.SaltDays(ctx)
	if err != nil {
		return 0, err
	}

	var n int64
	for _, day := range days {
		if day >= before {
			continue
		}
		if err := d.destroySalt(ctx, day); err != nil {
			return n, fmt.Errorf("destroy the salt of %v: %w", day, err)
		}

		n++
	}

	return n, nil
}

// SaltDays returns the days that have a salt, the oldest one first.
func (d *DB) SaltDays(ctx context.Context) ([]model.Day, error) {
	list := d.listSaltFiles

	if d.IsPostgres() {
		list = d.listSaltTables
	}

	days, err := list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list day salts: %w", err)
	}

	return days, nil
}

// readSalt returns a day's salt, nil when there is none.
func (d *DB) readSalt(ctx context.Context, day model.Day) ([]byte, error) {
	if d.IsPostgres() {
		return d.readPostgresSalt(ctx, day)
	}
	return d.readSaltFile(day)
}

// makeSalt makes a day's salt, unless another process was faster, and returns it.
func (d *DB) makeSalt(ctx context.Context, day model.Day) ([]byte, error) {
	if d.IsPostgres() {
		return d.makePostgresSalt(ctx, day)
	}
	return d.makeSaltFile(ctx, day)
}

func (d *DB) destroySalt(ctx context.Context, day model.Day) error {
	if d.IsPostgres() {
		return d.dropSaltTable(ctx, day)
	}
	return d.eraseSaltFile(day)
}

// saltDay reads the day in the name of a salt's table or file, and reports whether there is one.
func saltDay(layout, text string) (model.Day, bool) {
	at, err := time.Parse(layout, text)
	return model.At(at).Day(), err == nil
}
