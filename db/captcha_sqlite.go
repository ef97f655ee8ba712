package db

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/tallygate/tallygate/db/model"
)

// sqliteCaptcha runs a batch on the writing connection with prepared statements, row by row, like
// sqliteHits.
type sqliteCaptcha struct {
	db *sql.DB
	*sqliteCaptchaStatements
}

// sqliteCaptchaStatements are prepared once per connection.
type sqliteCaptchaStatements struct {
	readUsage, addUsage, claim, release, setUsage, notice *sqliteStmt

	all []*sqliteStmt
}

// Close implements io.Closer.
func (s *sqliteCaptchaStatements) Close() error {
	for _, stmt := range s.all {
		stmt.close()
	}
	return nil
}

func newSQLiteCaptcha(db *sql.DB) *sqliteCaptcha { return &sqliteCaptcha{db: db} }

func (c *sqliteCaptcha) Update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	return RetryNewIDs(func() error {
		return withSQLiteConn(ctx, c.db, func(conn *SQLiteConn) error { return c.update(ctx, conn, keys, decide) })
	})
}

func (c *sqliteCaptcha) update(ctx context.Context, conn *SQLiteConn, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) (err error) {
	statements, err := Prepared(conn, func(conn *SQLiteConn) (*sqliteCaptchaStatements, error) { return prepareCaptcha(ctx, conn) })
	if err != nil {
		return err
	}
	c.sqliteCaptchaStatements = statements
	return conn.InTx(ctx, func() error { return c.run(keys, decide) })
}

func (c *sqliteCaptcha) run(keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	state := newCaptchaState(keys)
	if err := c.usages(keys, state); err != nil {
		return err
	}

	for i := range keys.Spent {
		rows, err := c.claim.change(spentArgs(&keys.Spent[i]))
		if err != nil {
			return err
		}
		if rows == 1 {
			state.Claimed[keys.Spent[i]] = true
		}
	}

	return c.write(decide(state))
}

func (c *sqliteCaptcha) usages(keys CaptchaKeys, state *CaptchaState) error {
	for _, key := range keys.Usage {
		found, err := c.usage(key, state)

		// the first verifications of a month, or an account that is gone
		if err == nil && !found {
			if err = c.addUsage.exec(key.AccountID, key.Month); err == nil {
				_, err = c.usage(key, state)
			}
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (c *sqliteCaptcha) usage(key model.CaptchaUsageKey, state *CaptchaState) (found bool, err error) {
	err = c.readUsage.query([]any{key.AccountID, key.Month}, func(row []driver.Value) {
		state.Usage[key] = model.CaptchaUsage{
			Quota:       quotaOf(model.CaptchaPlan(text(row[0]))),
			Used:        number(row[1]),
			ReserveFrom: model.Instant(number(row[2])),
			OverQuota:   number(row[3]),
			Noticed:     int(number(row[4])),
		}

		found = true
	})

	return found, err
}

func (c *sqliteCaptcha) write(changes *CaptchaChanges) error {
	if err := execEach(c.release, changes.Release, spentArgs); err != nil {
		return err
	}

	if err := execEach(c.notice, changes.Notices, func(n *CaptchaNotice) []any {
		return []any{n.AccountID, model.ProductCaptcha, n.Month, int64(n.Threshold), n.CreatedAt}
	}); err != nil {
		return err
	}

	for key, u := range changes.Usage {
		if err := c.setUsage.exec(u.Used, u.ReserveFrom, u.OverQuota, int64(u.Noticed), key.AccountID, key.Month); err != nil {
			return err
		}
	}

	return nil
}

func spentArgs(k *model.SpentKey) []any { return []any{k.AccountID, k.IssuedAt, k.ID[:]} }

func prepareCaptcha(ctx context.Context, conn *SQLiteConn) (*sqliteCaptchaStatements, error) {
	var s sqliteCaptchaStatements
	for query, stmt := range map[string]**sqliteStmt{
		`SELECT a.captcha_plan, u.used, u.reserve_from, u.over_quota, u.noticed
		 FROM captcha_usage u JOIN accounts a ON a.id = u.account_id WHERE u.account_id = ? AND u.month = ?`: &s.readUsage,
		`INSERT INTO captcha_usage (account_id, month, used) SELECT id, ?2, 0 FROM accounts WHERE id = ?1`: &s.addUsage,
		`INSERT INTO captcha_spent (account_id, issued_at, id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`:    &s.claim,
		`DELETE FROM captcha_spent WHERE account_id = ? AND issued_at = ? AND id = ?`:                      &s.release,
		`UPDATE captcha_usage SET used = ?, reserve_from = ?, over_quota = ?, noticed = ?
		 WHERE account_id = ? AND month = ?`: &s.setUsage,
		`INSERT INTO quota_notices (account_id, product, month, threshold, created_at) VALUES (?, ?, ?, ?, ?)
		 ON CONFLICT DO NOTHING`: &s.notice,
	} {
		prepared, err := prepareSQLite(ctx, conn, query)
		if err != nil {
			_ = s.Close()
			return nil, err
		}

		*stmt = prepared
		s.all = append(s.all, prepared)
	}

	return &s, nil
}

// Close leaves the connection, which is the database's, and with it the statements.
func (c *sqliteCaptcha) Close() error { return nil }
