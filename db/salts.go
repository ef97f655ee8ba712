package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
)

// saltSize is the number of random bytes in a day's salt.
const saltSize = 32

// DaySalt returns the random salt of a UTC day, the same in every process: the first one to ask makes it.
func (d *DB) DaySalt(ctx context.Context, day model.Day) ([]byte, error) {
	salt, err := d.daySalt(ctx, day)
	if !errors.Is(err, sql.ErrNoRows) {
		return salt, err
	}
	fresh := make([]byte, saltSize)
	rand.Read(fresh)
	if _, err := d.dataWrite.ExecContext(ctx, "INSERT INTO day_salts (day, salt) VALUES (?, ?) ON CONFLICT DO NOTHING", day, fresh); err != nil {
		return nil, err
	}
	return d.daySalt(ctx, day)
}

func (d *DB) daySalt(ctx context.Context, day model.Day) (salt []byte, err error) {
	err = d.dataRead.NewSelect().Table("day_salts").Column("salt").Where("day = ?", day).Scan(ctx, &salt)
	return salt, err
}

// DestroyDaySalts destroys the salts of all days before the given one, and returns how many there were.
func (d *DB) DestroyDaySalts(ctx context.Context, before model.Day) (int64, error) {
	result, err := d.write.NewDelete().Table("day_salts").Where("day < ?", before).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("destroy day salts before %v: %w", before, err)
	}
	return result.RowsAffected()
}
