package db

import "context"

// ClaimSetting stores value under name when the installation has none yet, and reports whether the
// stored value is now this one. Of several processes at once, the first one's value stays.
func (d *DB) ClaimSetting(ctx context.Context, name, value string) (bool, error) {
	stored, err := d.settingOr(ctx, name, value)
	return stored == value, err
}

// settingOr returns the value stored under name; the given one, then stored, when the installation
// has none yet. All of several processes at once get the first one's value.
func (d *DB) settingOr(ctx context.Context, name, value string) (stored string, err error) {
	if _, err := d.write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", name, value); err != nil {
		return "", err
	}
	err = d.read.NewSelect().Table("settings").Column("value").Where("name = ?", name).Scan(ctx, &stored)
	return stored, err
}
