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
)

// ErrSignupsClosed is returned by SignUp when the sign-up policy admits no new account.
var ErrSignupsClosed = &model.Error{
	Kind: model.Forbidden, Code: "signups_closed", Message: "This installation does not take new accounts.",
}

// SignUp stores an account and its first user, and returns the user with the account and both ids.
// The first user of an installation becomes its operator. An account without a captcha plan gets
// the free one, and a user without a language English. It fails with ErrSignupsClosed, or with the
// Conflict email_taken.
func (s *Store) SignUp(
	ctx context.Context, policy model.SignupPolicy, account model.Account, user model.User,
) (*model.User, error) {
	account.CaptchaPlan = cmp.Or(account.CaptchaPlan, model.CaptchaPlanFree)
	user.Language = cmp.Or(user.Language, model.English)

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}
		if err := createAccount(ctx, tx, policy, &account, &user); err != nil {
			return err
		}

		return audit.Write(ctx, tx, newAccount(&user, &account))
	})
	switch {
	case db.IsUnique(err):
		// The e-mail address is the only unique key that is not generated.
		return nil, emailTaken("email", err)
	case errors.Is(err, ErrSignupsClosed):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("sign up: %w", err)
	}

	return &user, nil
}

// createAccount stores an account and its owner. The owner becomes the operator when there are no
// other users. The caller must have taken the installation's lock in tx. It fails with
// ErrSignupsClosed when the policy does not admit the account.
func createAccount(
	ctx context.Context, tx *db.Tx, policy model.SignupPolicy, account *model.Account, owner *model.User,
) error {
	usersExist, err := hasUsers(ctx, tx)
	if err != nil {
		return err
	}
	if !admits(policy, usersExist) {
		return ErrSignupsClosed
	}
	if account.Cell, err = tx.ChooseCell(ctx, "accounts"); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(account).Exec(ctx); err != nil {
		return err
	}

	owner.Operator = !usersExist
	if _, err := tx.NewInsert().Model(owner).Exec(ctx); err != nil {
		return err
	}

	return addMembership(ctx, tx, owner, &model.Membership{
		AccountID: account.ID, Role: model.RoleOwner, CreatedAt: account.CreatedAt, Account: account,
	})
}

// addMembership stores a membership of a user with a new or locked row, and makes the user a member
// of its account.
func addMembership(ctx context.Context, tx *db.Tx, user *model.User, m *model.Membership) error {
	m.UserID, m.User = user.ID, user
	if err := insertMembership(ctx, tx, m); err != nil {
		return err
	}

	user.Join(m)
	return nil
}

// insertMembership stores a membership in the table of members, or of guests.
func insertMembership(ctx context.Context, tx *db.Tx, m *model.Membership) error {
	if m.SiteIDs != nil {
		_, err := tx.NewInsert().Model(m).ModelTableExpr("guests").ExcludeColumn("role").Exec(ctx)
		return err
	}
	_, err := tx.NewInsert().Model(m).ExcludeColumn("site_ids").Exec(ctx)
	return err
}

// newAccount is the first entry of an account's log.
func newAccount(owner *model.User, account *model.Account) audit.Change {
	return audit.Change{
		AccountID: account.ID, By: owner, Object: accountObject(account),
		After: audit.Values{"name": account.Name, "owner": owner.Email, "captchaPlan": account.CaptchaPlan},
	}
}

// emailTaken returns the error for an address that a user of any account has.
func emailTaken(field string, cause error) error {
	return &model.Error{
		Kind: model.Conflict, Code: "email_taken", Field: field,
		Message: "There is an account with this e-mail address already.", Cause: cause,
	}
}

// HasUsers reports whether the installation has any user.
func (s *Store) HasUsers(ctx context.Context) (bool, error) {
	usersExist, err := hasUsers(ctx, s.db.Read)
	if err != nil {
		return false, fmt.Errorf("look for users: %w", err)
	}
	return usersExist, nil
}

// SignupsOpen reports whether the policy would admit a sign-up now. The answer can be out of date
// when SignUp runs, which checks again.
func (s *Store) SignupsOpen(ctx context.Context, policy model.SignupPolicy) (bool, error) {
	if policy != model.SignupsFirstOnly {
		return admits(policy, true), nil
	}
	usersExist, err := s.HasUsers(ctx)
	return err == nil && admits(policy, usersExist), err
}

// admits reports whether the policy admits a sign-up, where users exist or not.
func admits(policy model.SignupPolicy, usersExist bool) bool {
	return policy == model.SignupsOpen || policy == model.SignupsFirstOnly && !usersExist
}

// hasUsers is HasUsers, within a transaction.
func hasUsers(ctx context.Context, idb bun.IDB) (bool, error) {
	return idb.NewSelect().Model((*model.User)(nil)).Exists(ctx)
}
