package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/graph/generated"
)

// Settings of the caller.

func (r *mutationResolver) UpdateUser(
	ctx context.Context, input generated.UpdateUserInput,
) (*generated.UpdateUserPayload, error) {
	viewer, _ := granted(ctx)
	if err := r.accounts.UpdateUser(ctx, viewer.ID, accounts.UserUpdate{Language: input.Language}); err != nil {
		return nil, err
	}

	user := *viewer
	if input.Language != nil {
		user.Language = *input.Language
	}

	return &generated.UpdateUserPayload{User: &user}, nil
}
