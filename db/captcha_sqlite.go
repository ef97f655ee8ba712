package db

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// sqliteCaptcha runs a batch on the writing connection with prepared statements, row by row.
type sqliteCaptcha struct {
	db         *sql.DB
	statements *sqliteCaptchaStatements // nil until needed
}

type sqliteCaptchaStatements struct {
	readUsage, addUsage, claim, release, setUsage, notice *sql.Stmt

	all []*sql.Stmt
}

func (s *sqliteCaptchaStatements) close() {
	for _, stmt := range s.all {
		_ = stmt.Close() // it may have gone with its connection
	}
}

func newSQLiteCaptcha(db *sql.DB) *sqliteCaptcha { return &sqliteCaptcha{db: db} }

func (c *sqliteCaptcha) Update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	return repeat(func() error { return c.update(ctx, keys, decide) })
}

func (c *sqliteCaptcha) update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a panic, too; nothing to do after the commit
	if err := c.run(tx, keys, decide); err != nil {
		return err
	}
	return tx.Commit()
}

// run does not pass the context on: the transaction already ends with it, and nothing in here waits.
func (c *sqliteCaptcha) run(tx *sql.Tx, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	state := newCaptchaState(keys)
	if err := c.readUsage(tx, keys, state); err != nil {
		return err
	}
	claim := tx.Stmt(c.statements.claim)
	for _, key := range keys.Spent {
		result, err := claim.Exec(key.AccountID, key.IssuedAt, key.ID[:])
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if n == 1 {
			state.Claimed[key] = true
		}
	}
	return c.write(tx, decide(state))
}

func (c *sqliteCaptcha) readUsage(tx *sql.Tx, keys CaptchaKeys, state *CaptchaState) error {
	if len(keys.Usage) == 0 {
		return nil
	}
	read, add := tx.Stmt(c.statements.readUsage), tx.Stmt(c.statements.addUsage)
	for _, key := range keys.Usage {
		usage, err := sqliteCaptchaUsage(read, key)
		if errors.Is(err, sql.ErrNoRows) { // the first verifications of a month, or an account that is gone
			if _, err := add.Exec(key.AccountID, key.Month); err != nil {
				return err
			}
			usage, err = sqliteCaptchaUsage(read, key)
		}
		switch {
		case err == nil:
			state.Usage[key] = usage
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	return nil
}

func sqliteCaptchaUsage(stmt *sql.Stmt, key model.CaptchaUsageKey) (u model.CaptchaUsage, err error) {
	var plan model.CaptchaPlan
	err = stmt.QueryRow(key.AccountID, key.Month).Scan(&plan, &u.Used, &u.ReserveFrom, &u.OverQuota, &u.Noticed)
	u.Quota = quotaOf(plan)
	return u, err
}

func (c *sqliteCaptcha) write(tx *sql.Tx, changes *CaptchaChanges) error {
	s := c.statements
	if err := execRows(tx, s.release, changes.Release, func(k *model.SpentKey) []any {
		return []any{k.AccountID, k.IssuedAt, k.ID[:]}
	}); err != nil {
		return err
	}
	if err := execRows(tx, s.notice, changes.Notices, func(n *CaptchaNotice) []any {
		return []any{n.AccountID, model.ProductCaptcha, n.Month, n.Threshold, n.CreatedAt}
	}); err != nil {
		return err
	}
	setUsage := tx.Stmt(s.setUsage)
	for key, u := range changes.Usage {
		if _, err := setUsage.Exec(u.Used, u.ReserveFrom, u.OverQuota, u.Noticed, key.AccountID, key.Month); err != nil {
			return err
		}
	}
	return nil
}

// execRows runs one statement for each row.
func execRows[Row any](tx *sql.Tx, stmt *sql.Stmt, rows []Row, args func(*Row) []any) error {
	if len(rows) == 0 {
		return nil
	}
	stmt = tx.Stmt(stmt)
	for i := range rows {
		if _, err := stmt.Exec(args(&rows[i])...); err != nil {
			return err
		}
	}
	return nil
}

func (c *sqliteCaptcha) prepare(ctx context.Context) error {
	if c.statements != nil {
		return nil
	}
	var s sqliteCaptchaStatements
	for text, stmt := range map[string]**sql.Stmt{
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
		prepared, err := c.db.PrepareContext(ctx, text)
		if err != nil {
			s.close()
			return err
		}
		*stmt = prepared
		s.all = append(s.all, prepared)
	}
	c.statements = &s
	return nil
}

// Close leaves the connection, which is the database's.
func (c *sqliteCaptcha) Close() error {
	if c.statements != nil {
		c.statements.close()
		c.statements = nil
	}
	return nil
}
