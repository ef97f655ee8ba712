package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// CreateAccount creates a further account of the signed-in user under the sign-up policy. Attempts
// share SignUp's rate limit.
func (a *Auth) CreateAccount(ctx context.Context, user *model.User, name string) (*model.Account, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	if user.IsThroughAccount() {
		return nil, model.ErrForbidden
	}

	name, err = model.ParseAccountName("name", name)
	if err != nil {
		return nil, err
	}

	limits := a.throttle.signUpLimits(r.http, user.Email)
	if err := a.throttle.count(ctx, limits); err != nil {
		return nil, err
	}

	owner, err := a.accounts.CreateAccount(
		ctx, a.signups, model.Account{Name: name, CaptchaPlan: a.captchaPlan, CreatedAt: model.At(a.now())}, user.ID,
	)
	if err != nil {
		return nil, a.throttle.uncount(ctx, limits, err)
	}

	_, err = r.reload(ctx)
	return owner.Account, err
}

// LeaveAccount ends the membership of the signed-in user in the account that the user was reached
// through. It returns the user in the remaining accounts, or nil and ends the session if the user
// belonged to no other account and was deleted.
func (a *Auth) LeaveAccount(ctx context.Context, user *model.User) (*model.User, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}

	err = a.accounts.Members.Delete(ctx, user.AccountID, user.ID)
	if errors.Is(err, accounts.ErrLastOwner) {
		err = &model.Error{
			Kind: accounts.ErrLastOwner.Kind, Code: accounts.ErrLastOwner.Code, Field: "accountId",
			Message: accounts.ErrLastOwner.Message,
		}
	}
	if err != nil {
		return nil, err
	}

	return r.reload(ctx)
}

// DeleteAccount deletes an account of the signed-in owner, with everything in it, after checking
// the password. name is the account's, which confirms the deletion; nil: not asked for. It ends the
// session of an owner who belongs to no other account.
func (a *Auth) DeleteAccount(ctx context.Context, accountID model.AccountID, password string, name *string) error {
	owner, err := a.passwords.confirmOwner(ctx, accountID, password, nil)
	if err != nil {
		return err
	}
	if err := model.Confirm(name, owner.Account.Name); err != nil {
		return err
	}

	err = a.accounts.DeleteAccount(ctx, owner, model.At(a.now()))

	// The password has changed since it was checked.
	if model.KindOf(err) == model.NotFound {
		err = wrongPassword("password")
	}
	return reloadAfter(ctx, err)
}
