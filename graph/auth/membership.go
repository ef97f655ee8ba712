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

	limits := a.signUpLimits(r.http, user.Email)
	if err := a.count(ctx, limits); err != nil {
		return nil, err
	}

	owner, err := a.accounts.CreateAccount(
		ctx, a.signups, model.Account{Name: name, CaptchaPlan: a.captchaPlan, CreatedAt: model.At(a.now())}, user.ID,
	)
	if err != nil {
		return nil, a.uncount(ctx, limits, err)
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

	err = a.accounts.DeleteMember(ctx, user.AccountID, user.ID)
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
