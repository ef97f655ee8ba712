package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Invitations stores invitations to accounts, and accepts them.
type Invitations struct{ db *db.DB }

// Create stores an invitation and the mail that carries its secret (mail may be nil), and returns
// the invitation with its id. It revokes an earlier invitation to the same address. An account has
// at most model.MaxMembers members, guests and invitations together. It mails at most 100
// invitations a day; another one fails with the RateLimited rate_limited. A site of a guest must
// belong to the account, see checkSites.
func (s *Invitations) Create(ctx context.Context, invitation model.Invitation, mail *model.Mail) (*model.Invitation, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// mayInvite counts under this lock, so that concurrent invitations keep the limit.
		if err := tx.LockAccount(ctx, invitation.AccountID); err != nil {
			return err
		}
		if err := mayInvite(ctx, tx, invitation); err != nil {
			return err
		}
		if err := checkSites(ctx, tx, invitation.AccountID, invitation.SiteIDs); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&invitation).Exec(ctx); err != nil {
			return err
		}

		err := audit.Write(ctx, tx, audit.Change{
			AccountID: invitation.AccountID, Object: invitationObject(&invitation),
			After: accessValues(audit.Values{"email": invitation.Email, "role": invitation.Role}, invitation.SiteIDs),
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

		// A user reads mails in the language of the user's settings.
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

// mayInvite deletes the account's expired invitations and an earlier invitation to the same
// address. It returns an error for a member, and if the account is full.
func mayInvite(ctx context.Context, tx *db.Tx, invitation model.Invitation) error {
	member, err := tx.NewSelect().Table("users").Where("email = ?", invitation.Email).
		Where("id IN (SELECT user_id FROM "+db.AllMemberships+" AS m WHERE account_id = ?)", invitation.AccountID).
		Exists(ctx)
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
	err = tx.NewRaw("SELECT (SELECT count(*) FROM "+db.AllMemberships+" AS m WHERE account_id = ?) + "+
		"(SELECT count(*) FROM invitations WHERE account_id = ?)",
		invitation.AccountID, invitation.AccountID).Scan(ctx, &n)
	if err == nil && n >= model.MaxMembers {
		err = &model.Error{
			Kind: model.Conflict, Code: "too_many_members",
			Message: fmt.Sprintf("An account has at most %d members, guests and invitations.", model.MaxMembers),
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

// Of returns the account's valid invitations in the order of their ids.
func (s *Invitations) Of(ctx context.Context, accountID model.AccountID, now model.Instant) ([]*model.Invitation, error) {
	var list []*model.Invitation
	err := s.db.Read.NewSelect().Model(&list).Where("account_id = ?", accountID).Where("expires_at > ?", now).
		Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list invitations of account %d: %w", accountID, err)
	}
	return list, nil
}

// Get returns a valid invitation of the account, or model.ErrNotFound.
func (s *Invitations) Get(ctx context.Context, accountID model.AccountID, id model.InvitationID, now model.Instant) (*model.Invitation, error) {
	return readOne[model.Invitation](ctx, s.db.Read, "account_id = ? AND id = ? AND expires_at > ?", accountID, id, now)
}

// Delete revokes an invitation of the account and returns it, or model.ErrNotFound.
func (s *Invitations) Delete(ctx context.Context, accountID model.AccountID, id model.InvitationID) (*model.Invitation, error) {
	var invitation model.Invitation
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, accountID); err != nil {
			return err
		}

		err := tx.NewDelete().Model(&invitation).Where("account_id = ?", accountID).Where("id = ?", id).Returning("*").
			Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}

		err = audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: invitationObject(&invitation),
			Before: accessValues(audit.Values{"email": invitation.Email, "role": invitation.Role}, invitation.SiteIDs),
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

// Invited returns the valid invitation with this secret, and the user who has its address, if any.
// It fails with ErrInvalidToken for an invalid secret.
func (s *Invitations) Invited(
	ctx context.Context, tokenHash []byte, now model.Instant,
) (*model.Invitation, *model.User, error) {
	invitation, err := readOne[model.Invitation](ctx, s.db.Read, "token_hash = ? AND expires_at > ?", tokenHash, now)
	if errors.Is(err, model.ErrNotFound) {
		return nil, nil, ErrInvalidToken
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read an invitation: %w", err)
	}

	user, err := userByEmail(ctx, s.db.Read, invitation.Email)
	if errors.Is(err, model.ErrNotFound) {
		return invitation, nil, nil
	}
	return invitation, user, err
}

// Offer returns the valid invitation with this secret, with the names that its person needs. It
// fails with ErrInvalidToken for an invalid secret.
func (s *Invitations) Offer(ctx context.Context, tokenHash []byte, now model.Instant) (*model.InvitationOffer, error) {
	var offer model.InvitationOffer
	err := s.db.Read.NewRaw(`SELECT i.email, i.role, i.expires_at, i.site_ids, a.name AS account, coalesce(u.email, '') AS "by"
		FROM invitations AS i JOIN accounts AS a ON a.id = i.account_id LEFT JOIN users AS u ON u.id = i.invited_by
		WHERE i.token_hash = ? AND i.expires_at > ?`, tokenHash, now).Scan(ctx, &offer)
	if err = db.OrNotFound(err); errors.Is(err, model.ErrNotFound) {
		return nil, ErrInvalidToken
	}
	if err != nil {
		return nil, fmt.Errorf("read an invitation: %w", err)
	}
	return &offer, nil
}

// Accept consumes an invitation of a person who has no user: it creates the user as a member of the
// account. It fails with ErrInvalidToken for an invalid secret, and with the Conflict email_taken
// when a user has got the address since.
func (s *Invitations) Accept(
	ctx context.Context, tokenHash []byte, passwordHash string, language model.Language, now model.Instant,
) (*model.User, error) {
	person := &model.User{PasswordHash: passwordHash, Language: language, CreatedAt: now}
	user, err := s.accept(ctx, tokenHash, now, person)
	if db.IsUnique(err) {
		return nil, emailTaken("token", err)
	}
	return user, err
}

// AcceptAs consumes an invitation of a user and adds the membership. The caller must have checked
// the user's session or password. It fails with ErrInvalidToken for an invalid secret or another
// person's invitation, with model.ErrStale when the password has changed since, with the Conflict
// already_member, and with the Conflict too_many_accounts.
func (s *Invitations) AcceptAs(
	ctx context.Context, tokenHash []byte, as *model.User, now model.Instant,
) (*model.User, error) {
	return s.accept(ctx, tokenHash, now, as)
}

// acceptor returns the user who accepts an invitation, locked: a new one for a user without an id.
func acceptor(
	ctx context.Context, tx *db.Tx, invitation *model.Invitation, as *model.User,
) (*model.User, error) {
	if as.ID == 0 {
		user := *as
		user.Email = invitation.Email
		_, err := tx.NewInsert().Model(&user).Exec(ctx)
		return &user, err
	}

	locked, err := lockUnchanged(ctx, tx, as.ID, as.PasswordHash)
	switch {
	case err != nil:
		return nil, err
	// The same answer as for an unknown secret, see accept.
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

// accept consumes an invitation and adds the user, see acceptor, to the account. It returns the
// user as a member of that account, with all memberships.
func (s *Invitations) accept(
	ctx context.Context, tokenHash []byte, now model.Instant, as *model.User,
) (*model.User, error) {
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Read the account without a lock, because its row comes first in the order of locks. The
		// DELETE below decides which of two callers consumes the invitation.
		invitation, err := readOne[model.Invitation](ctx, tx, "token_hash = ?", tokenHash)
		if err != nil {
			return err
		}
		account, err := lockAccount(ctx, tx, invitation.AccountID)
		if err != nil {
			return err
		}

		err = tx.NewDelete().Model(invitation).Where("token_hash = ?", tokenHash).Where("expires_at > ?", now).
			Returning("*").Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}
		if user, err = acceptor(ctx, tx, invitation, as); err != nil {
			return err
		}

		return join(ctx, tx, user, &model.Membership{
			AccountID: account.ID, Role: invitation.Role, CreatedAt: now, Account: account, SiteIDs: invitation.SiteIDs,
		}, "")
	})
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrInvalidToken
	}
	if err != nil {
		return nil, db.Wrap(err, "accept an invitation")
	}

	return user, nil
}
