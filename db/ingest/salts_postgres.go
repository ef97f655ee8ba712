package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// PostgreSQL's salts are in four unlogged tables, which the days take in turn. An unlogged table is
// never in the write-ahead log, hence not in its archive, on a replica or in a base backup, and
// TRUNCATE removes its file. The server generates the salt itself, so that it is in no statement,
// and hence in no log of statements. The tables are part of the schema, so the service needs no
// right to create tables.
//
// The price: a crash of the server empties the tables. KeepDaySalt then restores the salt from the
// memory of any process that has it. Without such a process the rest of the day gets another salt,
// and its visitors are counted a second time. A setting, which survives a crash, names the days
// with destroyed salts, which are not restored.

// saltTables is the number of tables. At most three days have a salt at a time.
const saltTables = 4

// destroyedBefore is the setting with the first day after all destroyed salts.
const destroyedBefore = "salts_destroyed_before"

func saltTable(day model.Day) string { return fmt.Sprintf("day_salts_%d", day%saltTables) }

// postgresSalts keeps the salts in unlogged tables of PostgreSQL.
type postgresSalts struct {
	db *db.DB
}

func (s postgresSalts) Read(ctx context.Context, day model.Day) ([]byte, error) {
	return readSalt(ctx, s.db.DataRead, day)
}

// readSalt returns a day's salt, or nil.
func readSalt(ctx context.Context, idb bun.IDB, day model.Day) ([]byte, error) {
	var salts [][]byte
	err := idb.NewSelect().Table(saltTable(day)).Column("salt").Where("day = ?", day).Scan(ctx, &salts)
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

		// A salt of an earlier turn is left if no worker ran for days.
		left, err := tx.NewSelect().Table(saltTable(day)).Where("day < ?", day).Exists(ctx)
		if err == nil && left {
			_, err = tx.ExecContext(ctx, "TRUNCATE ?", table)
		}
		if err != nil {
			return err
		}

		// gen_random_uuid has 122 bits from the server's cryptographic generator, and needs no
		// extension.
		_, err = tx.ExecContext(ctx, `
INSERT INTO ? (day, salt) VALUES (?, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())))
ON CONFLICT DO NOTHING`, table, day)
		if err != nil {
			return err
		}

		salt, err = readSalt(ctx, tx, day)
		return err
	})

	return salt, err
}

// restore stores a known salt in a day's empty table, unless the salt was destroyed. It uses COPY,
// which keeps the salt out of logs of statements.
func (s postgresSalts) restore(ctx context.Context, day model.Day, salt []byte) error {
	conn, err := s.db.DataWrite.DB.Conn(ctx)
	if err != nil {
		return err
	}

	err = conn.Raw(func(c any) error {
		return pgx.BeginFunc(ctx, c.(*stdlib.Conn).Conn(), func(tx pgx.Tx) error {
			// The lock keeps Destroy from running between the check and the copy.
			if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", db.SaltLock)); err != nil {
				return err
			}

			var destroyed bool
			err := tx.QueryRow(ctx, fmt.Sprintf(
				"SELECT EXISTS (SELECT 1 FROM settings WHERE name = '%s' AND value::int > %d)", destroyedBefore, day)).
				Scan(&destroyed)
			if err != nil || destroyed {
				return err
			}

			_, err = tx.CopyFrom(ctx, pgx.Identifier{saltTable(day)}, []string{"day", "salt"},
				pgx.CopyFromRows([][]any{{int32(day), salt}}))
			return err
		})
	})

	// Another process was faster.
	if db.IsUnique(err) {
		err = nil
	}

	return errors.Join(err, conn.Close())
}

// adopt is restore: an empty table is all that both need.
func (s postgresSalts) adopt(ctx context.Context, day model.Day, salt []byte) error {
	return s.restore(ctx, day, salt)
}

func (s postgresSalts) Days(ctx context.Context) ([]model.Day, error) {
	var days []model.Day
	err := s.db.Read.NewRaw("SELECT day FROM day_salts_0 UNION SELECT day FROM day_salts_1 UNION "+
		"SELECT day FROM day_salts_2 UNION SELECT day FROM day_salts_3 ORDER BY day").Scan(ctx, &days)
	return days, err
}

func (s postgresSalts) Destroy(ctx context.Context, day model.Day) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockKey(ctx, db.SaltLock); err != nil {
			return err
		}

		// Record the day, so that no process restores its salt from memory.
		_, err := tx.ExecContext(ctx, `
INSERT INTO settings (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = greatest(settings.value::int, excluded.value::int)::text`,
			destroyedBefore, fmt.Sprint(int(day)+1))
		if err != nil {
			return err
		}

		salt, err := readSalt(ctx, tx, day)

		// Otherwise the table is empty, or has the salt of another day.
		if err == nil && salt != nil {
			_, err = tx.ExecContext(ctx, "TRUNCATE ?", bun.Ident(saltTable(day)))
		}

		return err
	})
	if err != nil {
		return fmt.Errorf("empty %s: %w", saltTable(day), err)
	}

	return nil
}
