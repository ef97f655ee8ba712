package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Members returns the users of the account in the order of their ids.
func (s *Store) Members(ctx context.Context, accountID int64) ([]*model.User, error) {
	var users []*model.User
	err := s.db.Read.NewSelect().Model(&users).Relation("Account").Where("?TableAlias.account_id = ?", accountID).
		OrderExpr("?TableAlias.id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members of account %d: %w", accountID, err)
	}
	return users, nil
}

// Member returns a user of the account, or model.ErrNotFound.
func (s *Store) Member(ctx context.Context, accountID, id int64) (*model.User, error) {
	user, err := userByID(ctx, s.db.Read, id)
	if err == nil && user.AccountID != accountID {
		return nil, model.ErrNotFound
	}
	return user, err
}

// ErrLastOwner prevents removing an account's last owner.
var ErrLastOwner = &model.Error{
	Kind: model.Conflict, Code: "last_owner", Field: "userId",
	Message: "An account needs an owner: make another member an owner first.",
}

// SetMemberRole changes the role of a user of the account. It fails with ErrLastOwner for the last
// owner.
func (s *Store) SetMemberRole(ctx context.Context, accountID, userID int64, role model.Role) error {
	return s.changeMember(ctx, accountID, userID, role, func(tx *db.Tx) error {
		_, err := tx.NewUpdate().Model((*model.User)(nil)).Set("role = ?", role).Where("id = ?", userID).Exec(ctx)
		return err
	})
}

// DeleteMember deletes a user of the account with the user's sessions and API tokens. It fails with
// ErrLastOwner for the last owner.
func (s *Store) DeleteMember(ctx context.Context, accountID, userID int64) error {
	return s.changeMember(ctx, accountID, userID, "", func(tx *db.Tx) error {
		user, err := userByID(ctx, tx, userID)
		if err != nil {
			return err
		}

		if user.Operator {
			others := func(q *bun.SelectQuery) { q.Where("id <> ?", userID) }
			if err := needOtherOperator(ctx, tx, others); err != nil {
				return err
			}
		}

		if _, err := tx.NewDelete().Model(user).WherePK().Exec(ctx); err != nil {
			return err
		}

		// Delete the mails last: one to the user may have been queued before the user was deleted.
		return outbox.DeleteMailsTo(ctx, tx, accountID, user.Email)
	})
}

// changeMember runs a change under the lock on the account's members. It fails with ErrLastOwner if
// the change would leave no owner. becomes is the user's new role; it is empty when the user is
// deleted.
func (s *Store) changeMember(
	ctx context.Context, accountID, userID int64, becomes model.Role, change func(tx *db.Tx) error,
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

		members := func() *bun.SelectQuery {
			return tx.NewSelect().Model((*model.User)(nil)).Where("account_id = ?", accountID)
		}

		exists, err := members().Where("id = ?", userID).Exists(ctx)
		if err != nil {
			return err
		}
		if !exists {
			return model.ErrNotFound
		}

		if becomes != model.RoleOwner {
			others, err := members().Where("id <> ?", userID).Where("role = ?", model.RoleOwner).Exists(ctx)
			if err != nil {
				return err
			}
			if !others {
				return ErrLastOwner
			}
		}

		return change(tx)
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

		err := outbox.DeleteUnsentLink(ctx, tx, model.MailInvitation, invitation.AccountID, invitation.Email)
		if err != nil || mail == nil {
			return err
		}
		if err := outbox.CountInvitation(ctx, tx, invitation.AccountID, invitation.CreatedAt); err != nil {
			return err
		}

		_, err = tx.NewInsert().Model(mail).Exec(ctx)
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
	member, err := tx.NewSelect().Model((*model.User)(nil)).Where("account_id = ?", invitation.AccountID).
		Where("email = ?", invitation.Email).Exists(ctx)
	if err != nil {
		return err
	}
	if member {
		return &model.Error{Kind: model.Conflict, Code: "already_member", Field: "email",
			Message: "This person is a member already."}
	}

	_, err = tx.NewDelete().Model((*model.Invitation)(nil)).Where("account_id = ?", invitation.AccountID).
		Where("email = ? OR expires_at <= ?", invitation.Email, invitation.CreatedAt).Exec(ctx)
	if err != nil {
		return err
	}

	var n int
	err = tx.NewRaw("SELECT (SELECT count(*) FROM users WHERE account_id = ?) + "+
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

// Accept consumes an invitation: it adds a member to the account, and returns the new user with the
// account. It fails with ErrInvalidToken for an invalid secret, and with the Conflict email_taken
// when a user of any account has the address.
func (s *Store) Accept(
	ctx context.Context, tokenHash []byte, passwordHash string, now model.Instant,
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

		row := &model.User{
			AccountID: invitation.AccountID, Email: invitation.Email, Role: invitation.Role, PasswordHash: passwordHash,
			CreatedAt: now,
		}
		if _, err := tx.NewInsert().Model(row).Exec(ctx); err != nil {
			return err
		}
		if user, err = userByID(ctx, tx, row.ID); err != nil {
			return err
		}

		return outbox.DeleteUnsentLink(ctx, tx, model.MailInvitation, user.AccountID, user.Email)
	})
	switch {
	case db.IsUnique(err):
		return nil, emailTaken("token", err)
	case errors.Is(err, model.ErrNotFound):
		return nil, ErrInvalidToken
	case err != nil:
		return nil, fmt.Errorf("accept an invitation: %w", err)
	}

	return user, nil
}
