package db

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// Transactions that change accounts and their rows take locks in one order, so that no two wait for
// each other: first the installation's lock (LockInstallation), then that of the account's move
// (LockMoveOf), then the account's row, then the users' rows, then every other row: an alert
// channel before its messages. Each takes only the locks that it needs. A transaction that starts
// from a row of the last kind, such as a mailed secret, reads the row's owner without a lock, takes
// the locks in order, and then takes the row with DELETE … RETURNING, which reports whether it was
// first. Inserting a row with a foreign key to an account or user locks that row as well.
//
// A transaction of several changes of sites is the one exception: it can change a site and then
// create another, which locks the account. When the account is deleted at the same time, one of the
// two transactions fails and runs again.
//
// SQLite needs none of these locks: a writing transaction excludes all others there.

// LockKey takes an advisory lock of PostgreSQL until the transaction ends. It does nothing on
// SQLite.
func (tx *Tx) LockKey(ctx context.Context, key int64) error {
	if !tx.db.IsPostgres() {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", key)
	return err
}

// LockCellOf waits until the transactions that have entered a site (EnterSite) have ended, and
// excludes others until this one ends. It is for PostgreSQL. The site's row would not do: on Citus
// such a lock is one of all sites, on all nodes, and two transactions that share it wait for each
// other.
func (tx *Tx) LockCellOf(ctx context.Context, siteID model.SiteID) error {
	return tx.LockKey(ctx, siteLocks+int64(siteID))
}

// LockMoveOf excludes the steps of an account's move to another cell, and its deletion, from each
// other until the transaction ends. It comes before the account's row in the order of locks. With
// one cell it does nothing.
func (tx *Tx) LockMoveOf(ctx context.Context, accountID model.AccountID) error {
	single, err := tx.db.IsSingle(ctx)
	if single || err != nil {
		return err
	}
	return tx.LockKey(ctx, accountLocks+int64(accountID))
}

// LockInstallation serializes transactions whose result depends on the other accounts: sign-ups,
// and changes that could remove the last operator.
func (tx *Tx) LockInstallation(ctx context.Context) error { return tx.LockKey(ctx, installationLock) }

// LockRow locks a row, so that transactions that count or change its child rows run one after the
// other. It fails with model.ErrNotFound when there is no such row.
func (tx *Tx) LockRow(ctx context.Context, table string, id int64) error {
	return tx.LockRowFor(ctx, "NO KEY UPDATE", table, id)
}

// LockAccount is LockRow for an account.
func (tx *Tx) LockAccount(ctx context.Context, id model.AccountID) error {
	return tx.LockRow(ctx, "accounts", int64(id))
}

// LockUser is LockRow for a user.
func (tx *Tx) LockUser(ctx context.Context, id model.UserID) error {
	return tx.LockRow(ctx, "users", int64(id))
}

// LockSite is LockRow for a site.
func (tx *Tx) LockSite(ctx context.Context, id model.SiteID) error {
	return tx.LockRow(ctx, "sites", int64(id))
}

// TakeTurn must be called before rows of the tables accounts and sites are locked. On Citus they
// are on all nodes, and a query that locks some of their rows locks all of them, in two steps, and
// with the sites the accounts, which the foreign key names. Two such queries wait for each other.
// So these transactions take turns there. Elsewhere, and for another table, it does nothing.
func (tx *Tx) TakeTurn(ctx context.Context, table string) error {
	if !tx.db.IsPostgres() || tx.hasTurn || table != "accounts" && table != "sites" {
		return nil
	}

	isCitus, err := tx.db.IsCitus(ctx)
	if err != nil || !isCitus {
		return err
	}

	tx.hasTurn = true
	return tx.LockKey(ctx, turnLock)
}

// LockRowFor is LockRow with another lock strength of PostgreSQL. UPDATE also blocks inserts of
// rows with a foreign key to this one.
func (tx *Tx) LockRowFor(ctx context.Context, strength, table string, id int64) error {
	if err := tx.TakeTurn(ctx, table); err != nil {
		return err
	}

	var found int64
	q := tx.NewSelect().Table(table).Column("id").Where("id = ?", id)
	tx.Lock(q, strength)
	return OrNotFound(q.Scan(ctx, &found))
}

// Lock makes a query of this transaction lock the rows that it returns, with a strength of
// PostgreSQL's FOR clause. It does nothing on SQLite.
func (tx *Tx) Lock(q *bun.SelectQuery, strength string) {
	if tx.db.IsPostgres() {
		q.For(strength)
	}
}
