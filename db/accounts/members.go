package accounts

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Members reads and changes the members and guests of accounts.
type Members struct{ db *db.DB }

// Of returns the users of the account, including guests, in the order of their ids. Each has no
// other membership.
func (s *Members) Of(ctx context.Context, accountID model.AccountID) ([]*model.User, error) {
	var rows []*model.Membership
	if err := members(s.db.Read, &rows).Where("?TableAlias.account_id = ?", accountID).Scan(ctx); err != nil {
		return nil, fmt.Errorf("list members of account %d: %w", accountID, err)
	}

	users := make([]*model.User, len(rows))
	for i, row := range rows {
		users[i] = model.NewMember([]*model.Membership{row})
	}

	return users, nil
}

// Get returns a user of the account, with no other membership, or model.ErrNotFound.
func (s *Members) Get(ctx context.Context, accountID model.AccountID, id model.UserID) (*model.User, error) {
	return member(ctx, s.db.Read, accountID, id)
}

// With returns a user as a member of the first account that the viewer shares with the user, with
// no other membership, or model.ErrNotFound. Accounts in which the viewer reaches only some sites
// do not count.
func (s *Members) With(ctx context.Context, viewer *model.User, id model.UserID) (*model.User, error) {
	var accountIDs []model.AccountID
	for _, membership := range viewer.Memberships {
		if !membership.Account.Bars(viewer) && !viewer.In(membership.AccountID).IsRestricted() {
			accountIDs = append(accountIDs, membership.AccountID)
		}
	}
	if len(accountIDs) == 0 {
		return nil, model.ErrNotFound
	}

	var rows []*model.Membership
	err := members(s.db.Read, &rows).Where("?TableAlias.user_id = ?", id).
		Where("?TableAlias.account_id IN ?", bun.Tuple(accountIDs)).Limit(1).Scan(ctx)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, model.ErrNotFound
	}

	return model.NewMember(rows), nil
}

// ErrLastOwner prevents removing an account's last owner.
var ErrLastOwner = &model.Error{
	Kind: model.Conflict, Code: "last_owner", Field: "userId",
	Message: "An account needs an owner: make another member an owner first.",
}

// SetRole changes the role of a user of the account, and the sites of a guest: siteIDs is nil for a
// member of the whole account. It fails with ErrLastOwner for the last owner. A site of a guest
// must belong to the account, see checkSites.
func (s *Members) SetRole(ctx context.Context, accountID model.AccountID, userID model.UserID, role model.Role, siteIDs []model.SiteID) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		was, err := lockMember(ctx, tx, accountID, userID, role)
		if err != nil {
			return err
		}

		// A site that the guest reaches already may have been deleted since.
		added := slices.DeleteFunc(slices.Clone(siteIDs), func(id model.SiteID) bool { return slices.Contains(was.GuestSites(), id) })
		if err := checkSites(ctx, tx, accountID, added); err != nil {
			return err
		}

		// What a user chooses for a site is written under a lock on the user's row.
		if err := tx.LockRowFor(ctx, "UPDATE", "users", int64(userID)); err != nil {
			return err
		}

		membership := *was.Memberships[0]
		membership.Role, membership.SiteIDs = role, siteIDs
		if err := deleteMemberRows(ctx, tx, accountID, userID); err != nil {
			return err
		}
		if err := insertMembership(ctx, tx, &membership); err != nil {
			return err
		}
		if err := deleteUnreached(ctx, tx, accountID, userID, siteIDs); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: userObject(was),
			Before: accessValues(audit.Values{"role": was.Role}, was.GuestSites()),
			After:  accessValues(audit.Values{"role": role}, siteIDs),
		})
	})
	return db.Wrap(err, "change user %d", userID)
}

// accessValues adds the sites of a guest to values of the audit log.
func accessValues(values audit.Values, siteIDs []model.SiteID) audit.Values {
	if siteIDs != nil {
		values["sites"] = siteIDs
	}
	return values
}

// personalSettings are the tables with what a user has chosen for a site. Of channels only own ones
// have a user_id.
var personalSettings = []string{"alert_channels", "report_views", "hidden_notices"}

// deleteUnreached deletes what a guest has chosen for the account's other sites. It does nothing if
// siteIDs is nil.
func deleteUnreached(ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID, siteIDs []model.SiteID) error {
	if siteIDs == nil {
		return nil
	}

	for _, table := range personalSettings {
		_, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE user_id = ? AND site_id IN "+
			"(SELECT id FROM sites WHERE account_id = ? AND id NOT IN ?)",
			bun.Ident(table), userID, accountID, bun.Tuple(siteIDs))
		if err != nil {
			return err
		}
	}

	return nil
}

// Delete removes a user from the account, with the user's API tokens of the account. It deletes a
// user that belongs to no other account, with all sessions. It fails with ErrLastOwner for the last
// owner, and with ErrLastOperator if it would delete the only operator.
func (s *Members) Delete(ctx context.Context, accountID model.AccountID, userID model.UserID) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		was, err := lockMember(ctx, tx, accountID, userID, "")
		if err != nil {
			return err
		}

		// A mail to the user, and a token or membership of the user, is written under a lock on the
		// user's row.
		if err := tx.LockRowFor(ctx, "UPDATE", "users", int64(userID)); err != nil {
			return err
		}

		user, err := userByID(ctx, tx, userID)
		if err != nil {
			return err
		}

		if len(user.Memberships) > 1 {
			err = deleteMembership(ctx, tx, accountID, userID)
		} else {
			err = deleteUser(ctx, tx, user)
		}
		if err != nil {
			return err
		}

		err = audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: userObject(was),
			Before: accessValues(audit.Values{"role": was.Role}, was.GuestSites()),
		})
		if err != nil {
			return err
		}

		// Delete the mails last: one to the user may have been queued before.
		if err := outbox.KeepPersonalMails(ctx, tx, accountID); err != nil {
			return err
		}
		return outbox.DeleteMailsTo(ctx, tx, accountID, user.Email)
	})
	return db.Wrap(err, "change user %d", userID)
}

// deleteMembership deletes a membership and everything that the user has in the account.
func deleteMembership(ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID) error {
	if err := deleteMemberRows(ctx, tx, accountID, userID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM api_tokens WHERE user_id = ? AND account_id = ?", userID, accountID)
	if err != nil {
		return err
	}

	for _, table := range personalSettings {
		_, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE user_id = ? AND site_id IN (SELECT id FROM sites WHERE account_id = ?)",
			bun.Ident(table), userID, accountID)
		if err != nil {
			return err
		}
	}

	return nil
}

// deleteMemberRows deletes a membership of a member or a guest.
func deleteMemberRows(ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID) error {
	for _, statement := range []string{
		"DELETE FROM memberships WHERE user_id = ? AND account_id = ?",
		"DELETE FROM guests WHERE user_id = ? AND account_id = ?",
	} {
		if _, err := tx.ExecContext(ctx, statement, userID, accountID); err != nil {
			return err
		}
	}

	return nil
}

// deleteUser deletes a user with everything that belongs to the user. The caller must have taken
// the installation's lock in tx.
func deleteUser(ctx context.Context, tx *db.Tx, user *model.User) error {
	if user.Operator {
		if err := needOtherOperator(ctx, tx, "id <> ?", user.ID); err != nil {
			return err
		}
	}

	_, err := tx.NewDelete().Model(user).WherePK().Exec(ctx)
	return err
}

// lockMember locks the account's row, and returns a user as a member of the account. It fails with
// ErrLastOwner if a change of the user's role would leave no owner. becomes is the new role; it is
// empty when the user is removed.
func lockMember(
	ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID, becomes model.Role,
) (*model.User, error) {
	// deleteUser needs this lock, because the user could be the last operator.
	if becomes == "" {
		if err := tx.LockInstallation(ctx); err != nil {
			return nil, err
		}
	}
	if err := tx.LockAccount(ctx, accountID); err != nil {
		return nil, err
	}

	was, err := member(ctx, tx, accountID, userID)
	if err != nil || becomes == model.RoleOwner {
		return was, err
	}

	others, err := tx.NewSelect().Table("memberships").Where("account_id = ?", accountID).
		Where("user_id <> ?", userID).Where("role = ?", model.RoleOwner).Exists(ctx)
	if err == nil && !others {
		err = ErrLastOwner
	}
	return was, err
}

// CreateAccount stores a further account of a user, who becomes its owner, and returns the user as
// a member of it, with all memberships. An operator always may create one, another user only under
// a policy that admits it. It fails with ErrSignupsClosed, and with the Conflict too_many_accounts.
func (s *Store) CreateAccount(
	ctx context.Context, policy model.SignupPolicy, account model.Account, userID model.UserID,
) (*model.User, error) {
	account.CaptchaPlan = cmp.Or(account.CaptchaPlan, model.CaptchaPlanFree)
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		err := tx.LockUser(ctx, userID)
		if err == nil {
			user, err = userByID(ctx, tx, userID)
		}
		switch {
		case err != nil:
			return err
		case !user.Operator && !admits(policy, true):
			return ErrSignupsClosed
		}
		if err := checkMemberships(user); err != nil {
			return err
		}

		// No other transaction knows this account, so the order of locks does not matter.
		account := account
		if account.Cell, err = tx.ChooseCell(ctx, "accounts"); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&account).Exec(ctx); err != nil {
			return err
		}

		err = addMembership(ctx, tx, user, &model.Membership{
			AccountID: account.ID, Role: model.RoleOwner, CreatedAt: account.CreatedAt, Account: &account,
		})
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, newAccount(user, &account))
	})
	if err != nil {
		return nil, db.Wrap(err, "create an account of user %d", userID)
	}

	return user, nil
}

// RenameAccount changes the name of an account, and returns the account. It fails with
// model.ErrNotFound for an unknown account.
func (s *Store) RenameAccount(ctx context.Context, accountID model.AccountID, name string) (*model.Account, error) {
	var account *model.Account
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if account, err = lockAccount(ctx, tx, accountID); err != nil {
			return err
		}

		was := account.Name
		account.Name = name
		if _, err := tx.NewUpdate().Model(account).Column("name").WherePK().Exec(ctx); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: accountObject(account),
			Before: audit.Values{"name": was}, After: audit.Values{"name": name},
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "rename account %d", accountID)
	}

	return account, nil
}
