package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// readOne returns the row that a condition selects, or model.ErrNotFound.
func readOne[T any](ctx context.Context, idb bun.IDB, condition string, args ...any) (*T, error) {
	row := new(T)
	if err := idb.NewSelect().Model(row).Where(condition, args...).Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	return row, nil
}

// lockAccount locks an account's row and returns the account, or model.ErrNotFound.
func lockAccount(ctx context.Context, tx *db.Tx, id model.AccountID) (*model.Account, error) {
	if err := tx.LockAccount(ctx, id); err != nil {
		return nil, err
	}
	return readOne[model.Account](ctx, tx, "id = ?", id)
}

// lockUser locks the user with the value in the column, and returns the user as read under the
// lock, with the id of the default account only. It returns model.ErrNotFound for an unknown value.
func lockUser(ctx context.Context, tx *db.Tx, column string, value any) (*model.User, error) {
	var user model.User
	q := tx.NewSelect().Model(&user).Where("? = ?", bun.Ident(column), value)

	tx.Lock(q, "NO KEY UPDATE")
	if err := q.Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}

	var err error
	user.AccountID, err = defaultAccount(ctx, tx, user.ID)
	return &user, err
}

// defaultAccount returns the account that a user joined first, or 0 for an unknown user.
func defaultAccount(ctx context.Context, idb bun.IDB, userID model.UserID) (model.AccountID, error) {
	var ids []model.AccountID
	err := idb.NewSelect().TableExpr(db.AllMemberships+" AS m").Column("account_id").Where("user_id = ?", userID).
		Order("created_at", "account_id").Limit(1).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return ids[0], nil
}

// members returns a query of the memberships of members and guests, with their users and accounts.
// The memberships of one user begin with the default account.
func members(idb bun.IDB, rows *[]*model.Membership) *bun.SelectQuery {
	return idb.NewSelect().Model(rows).ModelTableExpr(db.AllMemberships + " AS ?TableAlias").
		Relation("User").Relation("Account").
		OrderExpr("?TableAlias.user_id, ?TableAlias.created_at, ?TableAlias.account_id")
}

// Users returns at most limit users of the installation with an address that contains a text, the
// newest first, each with all memberships. The caller must be the operator's command line.
func (s *Store) Users(ctx context.Context, search string, limit int) ([]*model.User, error) {
	position := "instr"
	if s.db.IsPostgres() {
		position = "strpos"
	}

	var ids []int64
	err := s.db.Read.NewSelect().Table("users").Column("id").
		Where(position+"(email, ?) > 0", strings.ToLower(search)).Order("id DESC").Limit(int64(limit)).Scan(ctx, &ids)
	if err != nil || len(ids) == 0 {
		return nil, db.Wrap(err, "list users")
	}

	var rows []*model.Membership
	if err := members(s.db.Read, &rows).Where("?TableAlias.user_id IN ?", bun.Tuple(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("list memberships of %d users: %w", len(ids), err)
	}

	// The rows of a user follow each other.
	var users []*model.User
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(m *model.Membership) bool { return m.UserID != rows[0].UserID })
		if n < 0 {
			n = len(rows)
		}
		users = append(users, model.NewMember(rows[:n]))
		rows = rows[n:]
	}
	slices.Reverse(users)

	return users, nil
}

// userWhere returns the user with a value in a column of memberships. The user has all memberships
// that match, and is a member of the first one's account. It returns model.ErrNotFound without a
// match.
func userWhere(ctx context.Context, idb bun.IDB, condition string, args ...any) (*model.User, error) {
	var rows []*model.Membership
	if err := members(idb, &rows).Where(condition, args...).Scan(ctx); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, model.ErrNotFound
	}
	return model.NewMember(rows), nil
}

// userByID returns a user as a member of the default account, with all memberships, or
// model.ErrNotFound.
func userByID(ctx context.Context, idb bun.IDB, id model.UserID) (*model.User, error) {
	return userWhere(ctx, idb, "?TableAlias.user_id = ?", id)
}

// member returns a user as a member of the account, with no other membership, or model.ErrNotFound.
func member(ctx context.Context, idb bun.IDB, accountID model.AccountID, id model.UserID) (*model.User, error) {
	return userWhere(ctx, idb, "?TableAlias.user_id = ? AND ?TableAlias.account_id = ?", id, accountID)
}

// UserByEmail returns the user with this normalised e-mail address as a member of the default
// account, with all memberships, or model.ErrNotFound.
func (s *Store) UserByEmail(ctx context.Context, email string) (*model.User, error) {
	return userByEmail(ctx, s.db.Read, email)
}

func userByEmail(ctx context.Context, idb bun.IDB, email string) (*model.User, error) {
	// The caller's errors leave the address out: errors are logged.
	// A condition on users would read the memberships of all users.
	return userWhere(ctx, idb, "?TableAlias.user_id = (SELECT id FROM users WHERE email = ?)", email)
}

// UserByID is UserByEmail for the user's id.
func (s *Store) UserByID(ctx context.Context, id model.UserID) (*model.User, error) {
	return userByID(ctx, s.db.Read, id)
}

// lockUnchanged locks a user after the caller has checked the password against passwordHash. It
// fails with model.ErrStale when the password has changed since, or the user was deleted.
func lockUnchanged(ctx context.Context, tx *db.Tx, userID model.UserID, passwordHash string) (*model.User, error) {
	user, err := lockUser(ctx, tx, "id", userID)
	if errors.Is(err, model.ErrNotFound) || err == nil && user.PasswordHash != passwordHash {
		return nil, model.ErrStale
	}
	return user, err
}

// lockOwner is lockUnchanged for a user who manages an account, and returns the user as a member of
// the account. It also fails with model.ErrForbidden when the user no longer has this right.
func lockOwner(ctx context.Context, tx *db.Tx, by *model.User) (*model.User, error) {
	if _, err := lockUnchanged(ctx, tx, by.ID, by.PasswordHash); err != nil {
		return nil, err
	}

	owner, err := member(ctx, tx, by.AccountID, by.ID)
	if errors.Is(err, model.ErrNotFound) || err == nil && !owner.May(model.MayManage, nil) {
		return nil, model.ErrForbidden
	}
	return owner, err
}

// languageOf returns the language of the user with the address, and whether there is such a user.
func languageOf(ctx context.Context, tx *db.Tx, email string) (language model.Language, ok bool, err error) {
	var languages []model.Language
	err = tx.NewSelect().Model((*model.User)(nil)).Column("language").Where("email = ?", email).Scan(ctx, &languages)
	if err != nil || len(languages) == 0 {
		return "", false, err
	}
	return languages[0], true, nil
}

// UserUpdate holds the settings of a user to change. A nil field leaves its setting unchanged.
type UserUpdate struct {
	Language    *model.Language  // of mails to the user
	LastAccount *model.AccountID // chosen in the console; the audit log does not record it
}

// UpdateUser changes settings of a user, and returns model.ErrNotFound for a deleted user.
func (s *Store) UpdateUser(ctx context.Context, userID model.UserID, u UserUpdate) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		before := audit.Values{"language": user.Language}
		if u.Language != nil {
			user.Language = *u.Language
		}
		if u.LastAccount != nil {
			user.LastAccount = *u.LastAccount
		}
		if _, err := tx.NewUpdate().Model(user).Column("language", "last_account").WherePK().Exec(ctx); err != nil {
			return err
		}
		if u.Language == nil && u.LastAccount != nil {
			return nil
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: user.AccountID, Object: userObject(user),
			Before: before, After: audit.Values{"language": user.Language},
		})
	})
	return db.Wrap(err, "update user %d", userID)
}
