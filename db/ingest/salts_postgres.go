package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// PostgreSQL's salts are unlogged tables, one per day. An unlogged table is never in the
// write-ahead log, hence not in its archive, on a replica or in a base backup, and DROP TABLE
// removes its file. The server generates the salt itself, so that it is in no statement, and hence
// in no log of statements.
//
// The price: a crash of the server empties the tables. KeepDaySalt then restores the salt from the
// memory of any process that has it. Without such a process the rest of the day gets another salt,
// and its visitors are counted a second time.

const (
	saltTablePrefix = "day_salt_"
	saltTableLayout = "20060102"
)

func saltTable(day model.Day) string {
	return saltTablePrefix + day.Start().Time().Format(saltTableLayout)
}

// postgresSalts keeps the salts in unlogged tables of PostgreSQL.
type postgresSalts struct {
	db *db.DB
}

func (s postgresSalts) Read(ctx context.Context, day model.Day) ([]byte, error) {
	var salts [][]byte
	err := s.db.DataRead.NewSelect().Table(saltTable(day)).Column("salt").Scan(ctx, &salts)
	if isUndefinedTable(err) {
		return nil, nil
	}
	if err != nil || len(salts) == 0 {
		return nil, err
	}

	return salts[0], nil
}

func (s postgresSalts) create(ctx context.Context, day model.Day) (salt []byte, err error) {
	table := bun.Ident(saltTable(day))
	err = s.db.InDataTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockKey(ctx, db.SaltLock); err != nil {
			return err
		}

		_, err := tx.ExecContext(ctx, `
CREATE UNLOGGED TABLE IF NOT EXISTS ? (one boolean PRIMARY KEY DEFAULT true CHECK (one), salt bytea NOT NULL)`, table)
		if err != nil {
			return err
		}

		// gen_random_uuid has 122 bits from the server's cryptographic generator, and needs no
		// extension.
		_, err = tx.ExecContext(ctx, `
INSERT INTO ? (salt) VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
ON CONFLICT DO NOTHING`, table)
		if err != nil {
			return err
		}

		return tx.NewRaw("SELECT salt FROM ?", table).Scan(ctx, &salt)
	})

	return salt, err
}

// restore stores a known salt in a day's empty table. It uses COPY, which keeps the
// salt out of logs of statements.
func (s postgresSalts) restore(ctx context.Context, day model.Day, salt []byte) error {
	conn, err := s.db.DataWrite.DB.Conn(ctx)
	if err != nil {
		return err
	}

	err = conn.Raw(func(c any) error {
		_, err := c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{saltTable(day)}, []string{"salt"},
			pgx.CopyFromRows([][]any{{salt}}))
		return err
	})

	// The salt was destroyed, or another process was faster.
	if isUndefinedTable(err) || db.IsUnique(err) {
		err = nil
	}

	return errors.Join(err, conn.Close())
}

func (s postgresSalts) Days(ctx context.Context) ([]model.Day, error) {
	var names []string
	err := s.db.Read.NewRaw(`
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname LIKE ?`,
		strings.ReplaceAll(saltTablePrefix, "_", `\_`)+"%").Scan(ctx, &names)
	if err != nil {
		return nil, err
	}

	var days []model.Day
	for _, name := range names {
		if at, err := time.Parse(saltTableLayout, strings.TrimPrefix(name, saltTablePrefix)); err == nil {
			days = append(days, model.At(at).Day())
		}
	}

	slices.Sort(days)
	return days, nil
}

func (s postgresSalts) Destroy(ctx context.Context, day model.Day) error {
	if _, err := s.db.Write.ExecContext(ctx, "DROP TABLE IF EXISTS ?", bun.Ident(saltTable(day))); err != nil {
		return fmt.Errorf("drop %s: %w", saltTable(day), err)
	}
	return nil
}

// isUndefinedTable reports whether a statement names a table that does not exist.
func isUndefinedTable(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01"
}
