package accounts

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// lockUser locks the user whose column has the value, and returns the user as read under the lock,
// without the account. It returns model.ErrNotFound when there is none.
func lockUser(ctx context.Context, tx *db.Tx, column string, value any) (*model.User, error) {
	var user model.User
	q := tx.NewSelect().Model(&user).Where("? = ?", bun.Ident(column), value)

	tx.Lock(q, "NO KEY UPDATE")
	if err := q.Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}

	return &user, nil
}

// userByID returns a user of any account, with the account, or model.ErrNotFound.
func userByID(ctx context.Context, idb bun.IDB, id int64) (*model.User, error) {
	var user model.User
	if err := idb.NewSelect().Model(&user).Relation("Account").Where("?TableAlias.id = ?", id).Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	return &user, nil
}

// UserByEmail returns the user with this normalised e-mail address, with the account, or
// model.ErrNotFound.
func (s *Store) UserByEmail(ctx context.Context, email string) (*model.User, error) {
	var user model.User
	err := s.db.Read.NewSelect().Model(&user).Relation("Account").Where("?TableAlias.email = ?", email).Scan(ctx)
	if err != nil {
		// Leave the address out: errors are logged.
		return nil, db.OrNotFound(err)
	}
	return &user, nil
}

// lockUnchanged locks a user whose password the caller has checked, with the hash passwordHash. It
// fails with model.ErrStale when the password has changed since, or the user was deleted.
func lockUnchanged(ctx context.Context, tx *db.Tx, userID int64, passwordHash string) (*model.User, error) {
	user, err := lockUser(ctx, tx, "id", userID)
	if errors.Is(err, model.ErrNotFound) || err == nil && user.PasswordHash != passwordHash {
		return nil, model.ErrStale
	}
	return user, err
}
