package db

import "context"

// ClaimSetting stores value under name when the installation has none yet, and reports whether the stored value is now
// this one. Of several processes at once, the first one's value stays.
func (d *DB) ClaimSetting(ctx context.Context, name, value string) (bool, error) {
	if _, err := d.write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", name, value); err != nil {
		return false, err
	}
	var stored string
	err := d.read.NewSelect().Table("settings").Column("value").Where("name = ?", name).Scan(ctx, &stored)
	return stored == value, err
}
