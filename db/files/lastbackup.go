package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// lastBackupSetting is the time at which the newest backup was begun, in microseconds.
const lastBackupSetting = "last_backup"

// RecordBackup stores that a backup has the data of this time. An earlier time than the stored one
// changes nothing.
func (s *Store) RecordBackup(ctx context.Context, at model.Instant) error {
	return db.Retry(db.IsRetryable, func() error {
		last, err := s.LastBackup(ctx)
		if err != nil || last >= at {
			return err
		}

		_, err = s.db.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = excluded.value", lastBackupSetting, strconv.FormatInt(int64(at), 10))
		return err
	})
}

// LastBackup returns the time that RecordBackup stored; 0: none. A restored database has the time
// of the backup before it.
func (s *Store) LastBackup(ctx context.Context) (at model.Instant, err error) {
	var stored string
	err = s.db.Read.NewSelect().Table("settings").Column("value").Where("name = ?", lastBackupSetting).Scan(ctx, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the time of the last backup: %w", err)
	}

	micros, err := strconv.ParseInt(stored, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the setting %s is %q: %w", lastBackupSetting, stored, err)
	}
	return model.Instant(micros), nil
}
