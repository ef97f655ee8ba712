package db

import (
	"context"
	"strconv"
	"time"
)

// ProbeWrite commits one small row, as every acknowledged request does. It fails on a full disk, a read-only database and a
// server in recovery.
func (d *DB) ProbeWrite(ctx context.Context) error {
	_, err := d.write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES ('write_probe', ?) "+
		"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value", strconv.FormatInt(time.Now().UnixMicro(), 10))
	return err
}
