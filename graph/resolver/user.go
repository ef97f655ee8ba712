package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Settings of the caller.

func (r *mutationResolver) UpdateUser(
	ctx context.Context, input generated.UpdateUserInput,
) (*generated.UpdateUserPayload, error) {
	viewer := memberOf(ctx)
	user, update := *viewer, accounts.UserUpdate{Language: input.Language}
	if input.LastAccountID != nil {
		member := r.in(viewer, *input.LastAccountID)
		if member == nil {
			return nil, notFound("lastAccountId")
		}
		user.LastAccount = member.AccountID
		update.LastAccount = &user.LastAccount
	}

	if err := r.accounts.UpdateUser(ctx, viewer.ID, update); err != nil {
		return nil, err
	}

	if input.Language != nil {
		user.Language = *input.Language
	}

	return &generated.UpdateUserPayload{User: &user}, nil
}

// LastAccount is null for other users than the caller, and for API tokens.
func (r *userResolver) LastAccount(ctx context.Context, obj *model.User) (*model.Account, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil || caller.User.ID != obj.ID || caller.Token != nil {
		return nil, err
	}

	// obj has the choice, also after updateUser; the caller has all memberships.
	member := caller.User.In(obj.LastAccount)
	if member == nil {
		return nil, nil
	}
	return member.Account, nil
}
