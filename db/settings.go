package db

import "context"

// Setting returns the value stored under name. When there is none, it stores initial and returns
// that. Concurrent processes all get the value that was stored first.
func (d *DB) Setting(ctx context.Context, name, initial string) (stored string, err error) {
	_, err = d.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING",
		name, initial)
	if err != nil {
		return "", err
	}
	err = d.Read.NewSelect().Table("settings").Column("value").Where("name = ?", name).Scan(ctx, &stored)
	return stored, err
}
