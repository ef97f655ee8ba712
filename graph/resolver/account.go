package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Accounts and their users: signing up, in and out, and creating, renaming, leaving and deleting
// accounts.

func (r *queryResolver) Viewer(ctx context.Context) (*model.User, error) {
	caller, err := admit(ctx)
	if caller.User == nil || err != nil {
		return nil, err
	}

	// A person who lacks a required second factor can read the own user. Access closes the other
	// fields of the account.
	if caller.Token == nil {
		return caller.User, charge(ctx, nil)
	}

	return r.require(ctx, model.MayRead)
}

func (r *queryResolver) Account(ctx context.Context, _ *string) (*model.Account, error) {
	viewer := memberOf(ctx)
	return viewer.Account, nil
}

// Accounts is complete for the caller's own user only: other users are read with one membership.
func (r *userResolver) Accounts(ctx context.Context, obj *model.User) ([]*model.Account, error) {
	list := make([]*model.Account, len(obj.Memberships))
	for i, membership := range obj.Memberships {
		list[i] = membership.Account
	}
	return list, nil
}

func (r *accountResolver) ViewerRole(ctx context.Context, obj *model.Account) (*model.Role, error) {
	member, err := callerIn(ctx, obj.ID)
	if member == nil || err != nil {
		return nil, err
	}
	return &member.Role, nil
}

func (r *accountResolver) ViewerIsGuest(ctx context.Context, obj *model.Account) (bool, error) {
	member, err := callerIn(ctx, obj.ID)
	return member != nil && member.IsGuest(), err
}

// callerIn returns the caller as a member of an account, or nil.
func callerIn(ctx context.Context, accountID model.AccountID) (*model.User, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return nil, err
	}
	return caller.User.In(accountID), nil
}

func (r *mutationResolver) SignUp(ctx context.Context, input generated.SignUpInput) (*generated.SignUpPayload, error) {
	user, mailed, err := r.auth.SignUp(ctx, input.Email, input.Password, input.AccountName)
	return &generated.SignUpPayload{Viewer: user, VerificationSent: mailed}, err
}

func (r *mutationResolver) ConfirmSignUp(
	ctx context.Context, input generated.ConfirmSignUpInput,
) (*generated.ConfirmSignUpPayload, error) {
	user, err := r.auth.ConfirmSignUp(ctx, input.Secret, input.Password)
	return &generated.ConfirmSignUpPayload{Viewer: user}, err
}

func (r *mutationResolver) SignIn(ctx context.Context, input generated.SignInInput) (*generated.SignInPayload, error) {
	proof := auth.Proof{Passkey: passkeyAnswer(input.Passkey)}
	if input.SecondFactor != nil {
		proof.Code = *input.SecondFactor
	}

	result, err := r.auth.SignIn(ctx, input.Email, input.Password, proof)
	if err != nil {
		return nil, err
	}

	return &generated.SignInPayload{
		Viewer: result.User, SecondFactorMethods: result.Methods, PasskeyRequest: newPasskeyRequest(result.Passkey),
	}, nil
}

func (r *mutationResolver) SignOut(
	ctx context.Context, input *generated.SignOutInput,
) (*generated.SignOutPayload, error) {
	everywhere := input != nil && input.Everywhere
	address, err := r.auth.SignOut(ctx, everywhere, func() { endTurn(ctx) })
	return &generated.SignOutPayload{ProviderURL: notZero(address)}, err
}

func (r *mutationResolver) CreateAccount(
	ctx context.Context, input generated.CreateAccountInput,
) (*generated.CreateAccountPayload, error) {
	viewer := memberOf(ctx)
	account, err := r.auth.CreateAccount(ctx, viewer, input.Name)
	return &generated.CreateAccountPayload{Account: account}, err
}

func (r *mutationResolver) UpdateAccount(
	ctx context.Context, input generated.UpdateAccountInput,
) (*generated.UpdateAccountPayload, error) {
	name, err := model.ParseAccountName("name", input.Name)
	if err != nil {
		return nil, err
	}

	owner := memberOf(ctx)
	account, err := r.accounts.RenameAccount(ctx, owner.AccountID, name)
	return &generated.UpdateAccountPayload{Account: account}, err
}

func (r *mutationResolver) LeaveAccount(
	ctx context.Context, input generated.LeaveAccountInput,
) (*generated.LeaveAccountPayload, error) {
	member := memberOf(ctx)
	remaining, err := r.auth.LeaveAccount(ctx, member)
	return &generated.LeaveAccountPayload{AccountID: &input.AccountID, Viewer: remaining}, err
}

// DeleteAccount deletes an account of the owner and purges its rows, up to purgeTime.
func (r *mutationResolver) DeleteAccount(
	ctx context.Context, input generated.DeleteAccountInput,
) (*generated.DeleteAccountPayload, error) {
	owner := memberOf(ctx)
	sites, err := r.sites.Sites(ctx, owner.AccountID, 0, model.MaxSites)
	if err != nil {
		return nil, err
	}
	if err := r.auth.DeleteAccount(ctx, owner.AccountID, input.Password, input.Confirm); err != nil {
		return nil, err
	}

	siteIDs := make([]model.SiteID, len(sites))
	for i, site := range sites {
		siteIDs[i] = site.ID
	}

	r.purge(ctx, siteIDs...)

	return &generated.DeleteAccountPayload{AccountID: notZero(nodeid.Of(r.ids, owner.AccountID))}, nil
}
