package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// Accounts and their users: signing up, in and out, and deleting the account.

func (r *queryResolver) Viewer(ctx context.Context) (*model.User, error) {
	user, err := r.viewer(ctx)
	if user == nil || err != nil {
		return nil, err
	}
	return r.require(ctx, model.MayRead)
}

func (r *accountResolver) ID(ctx context.Context, obj *model.Account) (string, error) {
	return r.ids.Of(model.NodeAccount, obj.ID), nil
}

func (r *userResolver) ID(ctx context.Context, obj *model.User) (string, error) {
	return r.ids.Of(model.NodeUser, obj.ID), nil
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
	user, err := r.auth.SignIn(ctx, input.Email, input.Password)
	return &generated.SignInPayload{Viewer: user}, err
}

func (r *mutationResolver) SignOut(
	ctx context.Context, input *generated.SignOutInput,
) (*generated.SignOutPayload, error) {
	everywhere := input != nil && input.Everywhere
	return &generated.SignOutPayload{}, r.auth.SignOut(ctx, everywhere)
}

// DeleteAccount deletes the owner's account and purges its rows, up to purgeTime.
func (r *mutationResolver) DeleteAccount(
	ctx context.Context, input generated.DeleteAccountInput,
) (*generated.DeleteAccountPayload, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	sites, err := r.sites.Sites(ctx, viewer.AccountID, 0, model.MaxSites)
	if err != nil {
		return nil, err
	}
	if err := r.auth.DeleteAccount(ctx, input.Password); err != nil {
		return nil, err
	}

	siteIDs := make([]int64, len(sites))
	for i, site := range sites {
		siteIDs[i] = site.ID
	}

	r.purge(ctx, siteIDs...)

	return &generated.DeleteAccountPayload{AccountID: orNil(r.ids.Of(model.NodeAccount, viewer.AccountID))}, nil
}
