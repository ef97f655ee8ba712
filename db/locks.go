package db

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// Whatever changes accounts and what belongs to them takes its locks in one order, so that no two
// transactions wait for each other: the installation's lock first (lockInstallation), then the
// account's row, then the users' rows, then everything else. Each takes only those that it needs.
// Who starts from a row of the last kind, such as a mailed secret, reads without a lock whose it
// is, locks upwards, and then takes the row with DELETE … RETURNING, which finds out who was first.
// A row that refers to an account or a user is a lock on that as well.
//
// Together is the one exception: it may change a site and then make another, which locks the
// account. When the account is deleted at that moment, one of the two loses and runs again.
//
// SQLite needs none of this: a writing transaction is alone there.

// lockInstallation makes transactions take turns that decide by who else there is: sign-ups, and
// whatever could take the last operator away.
func (d *DB) lockInstallation(ctx context.Context, tx bun.Tx) error {
	if d.pg == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", signupLock)
	return err
}

// lockRow makes transactions that would count the rows below one row take turns. A row that is not
// there is model.ErrNotFound.
func (d *DB) lockRow(ctx context.Context, tx bun.Tx, table string, id int64) error {
	return d.lockRowFor(ctx, tx, "NO KEY UPDATE", table, id)
}

// lockRowFor is lockRow with a lock of PostgreSQL's: UPDATE also lets nobody add a row that refers
// to this one.
func (d *DB) lockRowFor(ctx context.Context, tx bun.Tx, strength, table string, id int64) error {
	var found int64
	q := tx.NewSelect().Table(table).Column("id").Where("id = ?", id)
	if d.pg != nil {
		q.For(strength)
	}
	return orNotFound(q.Scan(ctx, &found))
}

// lockUser locks the user whose column has the value, and returns the user as they are then,
// without the account. model.ErrNotFound when there is none.
func (d *DB) lockUser(ctx context.Context, tx bun.Tx, column string, value any) (*model.User, error) {
	var user model.User
	q := tx.NewSelect().Model(&user).Where("? = ?", bun.Ident(column), value)

	if d.pg != nil {
		q.For("NO KEY UPDATE")
	}
	if err := q.Scan(ctx); err != nil {
		return nil, orNotFound(err)
	}

	return &user, nil
}
