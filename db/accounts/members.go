package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Members returns the users of the account in the order of their ids. Each has no other membership.
func (s *Store) Members(ctx context.Context, accountID int64) ([]*model.User, error) {
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

// Member returns a user of the account, with no other membership, or model.ErrNotFound.
func (s *Store) Member(ctx context.Context, accountID, id int64) (*model.User, error) {
	return member(ctx, s.db.Read, accountID, id)
}

// MemberWith returns a user as a member of the first account that the viewer shares with the user, with
// no other membership, or model.ErrNotFound.
func (s *Store) MemberWith(ctx context.Context, viewer *model.User, id int64) (*model.User, error) {
	var accountIDs []int64
	for _, membership := range viewer.Memberships {
		if !membership.Account.Bars(viewer) {
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

// SetMemberRole changes the role of a user of the account. It fails with ErrLastOwner for the last
// owner.
func (s *Store) SetMemberRole(ctx context.Context, accountID, userID int64, role model.Role) error {
	return s.changeMember(ctx, accountID, userID, role, func(tx *db.Tx, was *model.User) error {
		_, err := tx.NewUpdate().Model((*model.Membership)(nil)).Set("role = ?", role).Where("user_id = ?", userID).
			Where("account_id = ?", accountID).Exec(ctx)
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: userObject(was),
			Before: audit.Values{"role": was.Role}, After: audit.Values{"role": role},
		})
	})
}

// DeleteMember removes a user from the account, with the user's API tokens of the account. It deletes
// a user that belongs to no other account, with all sessions. It fails with ErrLastOwner for the last
// owner, and with ErrLastOperator if it would delete the only operator.
func (s *Store) DeleteMember(ctx context.Context, accountID, userID int64) error {
	return s.changeMember(ctx, accountID, userID, "", func(tx *db.Tx, was *model.User) error {
		// A mail to the user, and a token or membership of the user, is written under a lock on the
		// user's row.
		if err := tx.LockRowFor(ctx, "UPDATE", "users", userID); err != nil {
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
			AccountID: accountID, Object: userObject(was), Before: audit.Values{"role": was.Role},
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
}

// deleteMembership deletes a membership with what the user has in the account.
func deleteMembership(ctx context.Context, tx *db.Tx, accountID, userID int64) error {
	for _, statement := range []string{
		"DELETE FROM memberships WHERE user_id = ? AND account_id = ?",
		"DELETE FROM api_tokens WHERE user_id = ? AND account_id = ?",
		"DELETE FROM report_mails WHERE user_id = ? AND site_id IN (SELECT id FROM sites WHERE account_id = ?)",
	} {
		if _, err := tx.ExecContext(ctx, statement, userID, accountID); err != nil {
			return err
		}
	}

	return nil
}

// deleteUser deletes a user with everything that belongs to the user. The caller must have taken the
// installation's lock in tx.
func deleteUser(ctx context.Context, tx *db.Tx, user *model.User) error {
	if user.Operator {
		others := func(q *bun.SelectQuery) { q.Where("id <> ?", user.ID) }
		if err := needOtherOperator(ctx, tx, others); err != nil {
			return err
		}
	}

	_, err := tx.NewDelete().Model(user).WherePK().Exec(ctx)
	return err
}

// changeMember runs a change under the lock on the account's row. It fails with ErrLastOwner if the
// change would leave no owner. becomes is the user's new role; it is empty when the user is removed.
// change gets the user as a member of the account before the change.
func (s *Store) changeMember(
	ctx context.Context, accountID, userID int64, becomes model.Role,
	change func(tx *db.Tx, was *model.User) error,
) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if becomes == "" {
			if err := tx.LockInstallation(ctx); err != nil {
				return err
			}
		}

		if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
			return err
		}

		memberships := func() *bun.SelectQuery {
			return tx.NewSelect().Model((*model.Membership)(nil)).Where("account_id = ?", accountID)
		}

		was, err := member(ctx, tx, accountID, userID)
		if err != nil {
			return err
		}

		if becomes != model.RoleOwner {
			others, err := memberships().Where("user_id <> ?", userID).Where("role = ?", model.RoleOwner).Exists(ctx)
			if err != nil {
				return err
			}
			if !others {
				return ErrLastOwner
			}
		}

		return change(tx, was)
	})
	if err != nil {
		return db.Wrap(err, "change user %d", userID)
	}

	return nil
}

// Invite stores an invitation and the mail that carries its secret (nil for none), and returns the
// invitation with its id. It revokes an earlier invitation to the same address. An account has at
// most model.MaxMembers members and invitations together. It mails at most 100 invitations a day;
// another one fails with the RateLimited rate_limited.
func (s *Store) Invite(ctx context.Context, invitation model.Invitation, mail *model.Mail) (*model.Invitation, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockRow(ctx, "accounts", invitation.AccountID); err != nil {
			return err
		}
		if err := mayInvite(ctx, tx, invitation); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&invitation).Exec(ctx); err != nil {
			return err
		}

		err := audit.Write(ctx, tx, audit.Change{
			AccountID: invitation.AccountID, Object: invitationObject(&invitation),
			After: audit.Values{"email": invitation.Email, "role": invitation.Role},
		})
		if err != nil {
			return err
		}

		err = outbox.DeleteUnsentLink(ctx, tx, model.MailInvitation, invitation.AccountID, invitation.Email)
		if err != nil || mail == nil {
			return err
		}
		if err := outbox.CountInvitation(ctx, tx, invitation.AccountID, invitation.CreatedAt); err != nil {
			return err
		}

		language, known, err := languageOf(ctx, tx, invitation.Email)
		if err != nil {
			return err
		}

		mail := *mail
		if known {
			mail.Language = language
		}

		_, err = tx.NewInsert().Model(&mail).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "invite to account %d", invitation.AccountID)
	}

	return &invitation, nil
}

// mayInvite deletes the account's expired invitations and an earlier one to the same address. It
// returns an error for a member, and if the account has no room for another one.
func mayInvite(ctx context.Context, tx *db.Tx, invitation model.Invitation) error {
	member, err := tx.NewSelect().Table("users").Where("email = ?", invitation.Email).
		Where("id IN (SELECT user_id FROM memberships WHERE account_id = ?)", invitation.AccountID).Exists(ctx)
	if err != nil {
		return err
	}
	if member {
		return alreadyMember("email", nil)
	}

	_, err = tx.NewDelete().Model((*model.Invitation)(nil)).Where("account_id = ?", invitation.AccountID).
		Where("email = ? OR expires_at <= ?", invitation.Email, invitation.CreatedAt).Exec(ctx)
	if err != nil {
		return err
	}

	var n int
	err = tx.NewRaw("SELECT (SELECT count(*) FROM memberships WHERE account_id = ?) + "+
		"(SELECT count(*) FROM invitations WHERE account_id = ?)",
		invitation.AccountID, invitation.AccountID).Scan(ctx, &n)
	if err == nil && n >= model.MaxMembers {
		err = &model.Error{
			Kind: model.Conflict, Code: "too_many_members",
			Message: fmt.Sprintf("An account has at most %d members and invitations.", model.MaxMembers),
		}
	}

	return err
}

func alreadyMember(field string, cause error) error {
	return &model.Error{
		Kind: model.Conflict, Code: "already_member", Field: field, Message: "This person is a member already.",
		Cause: cause,
	}
}

// Invitations returns the account's valid invitations in the order of their ids.
func (s *Store) Invitations(ctx context.Context, accountID int64, now model.Instant) ([]*model.Invitation, error) {
	var list []*model.Invitation
	err := s.db.Read.NewSelect().Model(&list).Where("account_id = ?", accountID).Where("expires_at > ?", now).
		Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list invitations of account %d: %w", accountID, err)
	}
	return list, nil
}

// Invitation returns a valid invitation of the account, or model.ErrNotFound.
func (s *Store) Invitation(ctx context.Context, accountID, id int64, now model.Instant) (*model.Invitation, error) {
	var invitation model.Invitation
	err := s.db.Read.NewSelect().Model(&invitation).Where("account_id = ?", accountID).Where("id = ?", id).
		Where("expires_at > ?", now).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &invitation, nil
}

// DeleteInvitation revokes an invitation of the account and returns it, or model.ErrNotFound.
func (s *Store) DeleteInvitation(ctx context.Context, accountID, id int64) (*model.Invitation, error) {
	var invitation model.Invitation
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
			return err
		}

		err := tx.NewDelete().Model(&invitation).Where("account_id = ?", accountID).Where("id = ?", id).Returning("*").
			Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}

		err = audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: invitationObject(&invitation),
			Before: audit.Values{"email": invitation.Email, "role": invitation.Role},
		})
		if err != nil {
			return err
		}

		return outbox.DeleteMailsTo(ctx, tx, accountID, invitation.Email)
	})
	if err != nil {
		return nil, db.Wrap(err, "delete invitation %d", id)
	}

	return &invitation, nil
}

// ErrInvalidToken is returned for a mailed secret that is wrong, consumed or expired. It does not
// reveal which of the three.
var ErrInvalidToken = &model.Error{
	Kind: model.Invalid, Code: "invalid_token", Field: "token",
	Message: "This link is wrong, was used already, or is too old.",
}

// Invited returns the valid invitation with this secret, and the user who has its address: nil if
// there is none. It fails with ErrInvalidToken for an invalid secret.
func (s *Store) Invited(
	ctx context.Context, tokenHash []byte, now model.Instant,
) (*model.Invitation, *model.User, error) {
	var invitation model.Invitation
	err := s.db.Read.NewSelect().Model(&invitation).Where("token_hash = ?", tokenHash).Where("expires_at > ?", now).
		Scan(ctx)
	if err = db.OrNotFound(err); errors.Is(err, model.ErrNotFound) {
		return nil, nil, ErrInvalidToken
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read an invitation: %w", err)
	}

	user, err := s.UserByEmail(ctx, invitation.Email)
	if errors.Is(err, model.ErrNotFound) {
		return &invitation, nil, nil
	}
	return &invitation, user, err
}

// Accept consumes an invitation of a person who has no user: it creates the user as a member of the
// account. It fails with ErrInvalidToken for an invalid secret, and with the Conflict email_taken
// when a user has got the address since.
func (s *Store) Accept(
	ctx context.Context, tokenHash []byte, passwordHash string, language model.Language, now model.Instant,
) (*model.User, error) {
	user, err := s.accept(ctx, tokenHash, now, func(tx *db.Tx, invitation *model.Invitation) (*model.User, error) {
		user := &model.User{Email: invitation.Email, PasswordHash: passwordHash, Language: language, CreatedAt: now}
		_, err := tx.NewInsert().Model(user).Exec(ctx)
		return user, err
	})
	if db.IsUnique(err) {
		return nil, emailTaken("token", err)
	}
	return user, err
}

// AcceptAs consumes an invitation of a user, whose session or password the caller has checked: it
// adds the membership. It fails with ErrInvalidToken for an invalid secret or another person's
// invitation, with model.ErrStale when the password has changed since, with the Conflict
// already_member, and with the Conflict too_many_accounts.
func (s *Store) AcceptAs(
	ctx context.Context, tokenHash []byte, as *model.User, now model.Instant,
) (*model.User, error) {
	return s.accept(ctx, tokenHash, now, func(tx *db.Tx, invitation *model.Invitation) (*model.User, error) {
		locked, err := lockUnchanged(ctx, tx, as.ID, as.PasswordHash)
		switch {
		case err != nil:
			return nil, err
		case locked.Email != invitation.Email:
			return nil, model.ErrNotFound
		}

		user, err := userByID(ctx, tx, as.ID)
		switch {
		case err != nil:
			return nil, err
		case user.In(invitation.AccountID) != nil:
			return nil, alreadyMember("token", nil)
		}

		return user, checkMemberships(user)
	})
}

// checkMemberships returns an error for a user who cannot join another account.
func checkMemberships(user *model.User) error {
	if len(user.Memberships) < model.MaxMemberships {
		return nil
	}
	return &model.Error{
		Kind: model.Conflict, Code: "too_many_accounts",
		Message: fmt.Sprintf("A person can belong to %d accounts at most.", model.MaxMemberships),
	}
}

// accept consumes an invitation and adds the user that find returns, new or locked, to the account.
// It returns the user as a member of that account, with all memberships.
func (s *Store) accept(
	ctx context.Context, tokenHash []byte, now model.Instant,
	find func(tx *db.Tx, invitation *model.Invitation) (*model.User, error),
) (*model.User, error) {
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var invitation model.Invitation
		if err := tx.NewSelect().Model(&invitation).Where("token_hash = ?", tokenHash).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if err := tx.LockRow(ctx, "accounts", invitation.AccountID); err != nil {
			return err
		}

		err := tx.NewDelete().Model(&invitation).Where("token_hash = ?", tokenHash).Where("expires_at > ?", now).
			Returning("*").Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}

		account := model.Account{ID: invitation.AccountID}
		if err := tx.NewSelect().Model(&account).WherePK().Scan(ctx); err != nil {
			return err
		}
		if user, err = find(tx, &invitation); err != nil {
			return err
		}

		err = addMembership(ctx, tx, user, &model.Membership{
			AccountID: account.ID, Role: invitation.Role, CreatedAt: now, Account: &account,
		})
		if err != nil {
			return err
		}

		err = audit.Write(ctx, tx, audit.Change{
			AccountID: account.ID, Object: userObject(user), By: user,
			After: audit.Values{"email": user.Email, "role": invitation.Role},
		})
		if err != nil {
			return err
		}

		return outbox.DeleteUnsentLink(ctx, tx, model.MailInvitation, account.ID, user.Email)
	})
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrInvalidToken
	}
	if err != nil {
		return nil, db.Wrap(err, "accept an invitation")
	}

	return user, nil
}

// CreateAccount stores a further account of a user, who becomes its owner, and returns the user as a
// member of it, with all memberships. An operator always may create one, another user only under a
// policy that admits it. It fails with ErrSignupsClosed, and with the Conflict too_many_accounts.
func (s *Store) CreateAccount(
	ctx context.Context, policy model.SignupPolicy, account model.Account, userID int64,
) (*model.User, error) {
	account.CaptchaPlan = cmp.Or(account.CaptchaPlan, model.CaptchaPlanFree)
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		err := tx.LockRow(ctx, "users", userID)
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
func (s *Store) RenameAccount(ctx context.Context, accountID int64, name string) (*model.Account, error) {
	account := &model.Account{ID: accountID}
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
			return err
		}
		if err := tx.NewSelect().Model(account).WherePK().Scan(ctx); err != nil {
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
