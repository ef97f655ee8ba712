package files

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// leastFree is the free space in bytes below which an embedded database's disk counts as full.
// SQLite can still write for a while after that, because its log file reuses the space it has.
const leastFree = 1 << 20

var errDiskFull = errors.New("the database's disk is full")

// ProbeWrite commits one small row, as every acknowledged request does. It returns an error on a
// full disk, a read-only database and a server in recovery.
func (s *Store) ProbeWrite(ctx context.Context) error {
	_, err := s.db.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES ('write_probe', ?) "+
		"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value", strconv.FormatInt(time.Now().UnixMicro(), 10))
	if err != nil || s.db.SQLitePath == "" {
		return err
	}

	if free, known := FreeBytes(s.db.SQLitePath); known && free < leastFree {
		return errDiskFull
	}

	return nil
}
