package db

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/saltfile"
)

// moveSalts copies the salts of the last two days out of the table of earlier releases, before a
// migration drops that table. It does nothing on PostgreSQL, where the migration itself copies
// them.
func moveSalts(ctx context.Context, d *DB, tx *Tx) error {
	if d.IsPostgres() {
		return nil
	}

	var rows []struct {
		Day  model.Day
		Salt []byte
	}
	if err := tx.NewSelect().Table("day_salts").Column("day", "salt").OrderExpr("day DESC").Limit(2).
		Scan(ctx, &rows); err != nil {
		return err
	}

	for _, row := range rows {
		if err := saltfile.Of(d.SQLitePath).Write(row.Day, row.Salt); err != nil {
			return err
		}
	}

	return nil
}
