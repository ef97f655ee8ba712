package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// PostgreSQL's salts are unlogged tables, one per day: they are never in the write-ahead log, hence
// not in its archive, on a replica or in a base backup, and DROP TABLE removes their file. The
// server makes the salt itself, so that it is in no statement, and hence in no log of statements.
//
// The price: a crash of the server empties them. KeepDaySalt then brings the salt back from the
// memory of any process that has it. Only when no such process is left, the rest of the day has
// another salt, and its visitors are counted a second time.

const (
	saltTablePrefix = "day_salt_"
	saltTableLayout = "20060102"
)

func saltTable(day model.Day) string {
	return saltTablePrefix + day.Start().Time().Format(saltTableLayout)
}

func (d *DB) readPostgresSalt(ctx context.Context, day model.Day) ([]byte, error) {
	var salts [][]byte
	err := d.DataRead.NewSelect().Table(saltTable(day)).Column("salt").Scan(ctx, &salts)
	if isUndefinedTable(err) {
		return nil, nil
	}
	if err != nil || len(salts) == 0 {
		return nil, err
	}

	return salts[0], nil
}

func (d *DB) makePostgresSalt(ctx context.Context, day model.Day) (salt []byte, err error) {
	table := bun.Ident(saltTable(day))
	err = d.InDataTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.LockKey(ctx, SaltLock); err != nil {
			return err
		}

		_, err := tx.ExecContext(ctx, `CREATE UNLOGGED TABLE IF NOT EXISTS ? (one boolean PRIMARY KEY DEFAULT true CHECK (one), salt bytea NOT NULL)`, table)
		if err != nil {
			return err
		}

		// gen_random_uuid has 122 bits from the server's cryptographic generator, and needs no
		// extension.
		_, err = tx.ExecContext(ctx, `INSERT INTO ? (salt) VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) ON CONFLICT DO NOTHING`, table)
		if err != nil {
			return err
		}

		return tx.NewRaw("SELECT salt FROM ?", table).Scan(ctx, &salt)
	})

	return salt, err
}

// restorePostgresSalt stores a known salt in a day's empty table. It uses COPY, which keeps the
// salt out of logs of statements.
func (d *DB) restorePostgresSalt(ctx context.Context, day model.Day, salt []byte) error {
	conn, err := d.DataWrite.DB.Conn(ctx)
	if err != nil {
		return err
	}

	err = conn.Raw(func(c any) error {
		_, err := c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{saltTable(day)}, []string{"salt"}, pgx.CopyFromRows([][]any{{salt}}))
		return err
	})

	// destroyed meanwhile, or another process was faster
	if isUndefinedTable(err) || IsUnique(err) {
		err = nil
	}

	return errors.Join(err, conn.Close())
}

func (d *DB) listSaltTables(ctx context.Context) ([]model.Day, error) {
	var names []string
	err := d.Read.NewRaw("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname LIKE ?",
		strings.ReplaceAll(saltTablePrefix, "_", `\_`)+"%").Scan(ctx, &names)
	if err != nil {
		return nil, err
	}

	var days []model.Day
	for _, name := range names {
		if day, ok := saltDay(saltTableLayout, strings.TrimPrefix(name, saltTablePrefix)); ok {
			days = append(days, day)
		}
	}

	slices.Sort(days)
	return days, nil
}

func (d *DB) dropSaltTable(ctx context.Context, day model.Day) error {
	if _, err := d.Write.ExecContext(ctx, "DROP TABLE IF EXISTS ?", bun.Ident(saltTable(day))); err != nil {
		return fmt.Errorf("drop %s: %w", saltTable(day), err)
	}
	return nil
}

// isUndefinedTable reports that a statement names a table that does not exist.
func isUndefinedTable(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}
