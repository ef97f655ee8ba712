package resolver

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// API tokens of the caller, and the rate limit of programs that use them.

func (r *queryResolver) APITokens(ctx context.Context) ([]*model.APIToken, error) {
	viewer := memberOf(ctx)
	tokens, err := r.accounts.Tokens.Of(ctx, viewer.ID)
	tokens = slices.DeleteFunc(tokens, func(token *model.APIToken) bool { return !ownsToken(viewer, token) })
	return orEmpty(tokens), err
}

// ownsToken reports whether the user's session reaches the account of the user's token, see
// model.User.Through.
func ownsToken(viewer *model.User, token *model.APIToken) bool {
	return !viewer.IsThroughAccount() || token.AccountID == viewer.AccountID
}

func (r *queryResolver) RateLimit(ctx context.Context) (*generated.RateLimit, error) {
	return limits.Of(ctx).RateLimit(), nil
}

// User is the caller, except in a list of an account's tokens.
func (r *apiTokenResolver) User(ctx context.Context, obj *model.APIToken) (*model.User, error) {
	if obj.User != nil {
		return obj.User, nil
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User != nil && caller.User.ID == obj.UserID {
		return caller.User, err
	}

	return orNull(r.accounts.Members.Get(ctx, obj.AccountID, obj.UserID))
}

// APITokens is empty for callers without a session or the role OWNER in the account.
func (r *accountResolver) APITokens(ctx context.Context, obj *model.Account) ([]*model.APIToken, error) {
	key := accountRead{field: "apiTokens", accountID: obj.ID}
	return shared(ctx, key, func() ([]*model.APIToken, error) {
		caller, err := auth.CallerOf(ctx)
		if err != nil || caller.User == nil || caller.Token != nil {
			return []*model.APIToken{}, err
		}
		if member := caller.User.In(obj.ID); member == nil || !member.May(model.MayManage, nil) {
			return []*model.APIToken{}, nil
		}

		tokens, err := r.accounts.Tokens.OfAccount(ctx, obj.ID)
		return orEmpty(tokens), err
	})
}

func (r *mutationResolver) CreateAPIToken(
	ctx context.Context, input generated.CreateAPITokenInput,
) (*generated.CreateAPITokenPayload, error) {
	siteIDs, err := r.chosenSites(input.SiteIds)
	if err != nil {
		return nil, err
	}

	member := memberOf(ctx)
	token, secret, err := r.auth.CreateAPIToken(ctx, member, auth.NewToken{
		Name: input.Name, Scopes: input.Scopes, SiteIDs: siteIDs,
		ExpiresInDays: input.ExpiresInDays, NeverExpires: input.NeverExpires,
	})
	return &generated.CreateAPITokenPayload{APIToken: token, Token: &secret}, err
}

// chosenSites returns the numbers of the sites that a token or a guest is restricted to, sorted,
// each once. It returns nil for nil, which does not restrict.
func (r *Resolver) chosenSites(nodeIDs []string) ([]model.SiteID, error) {
	if nodeIDs == nil {
		return nil, nil
	}
	if len(nodeIDs) == 0 || len(nodeIDs) > model.MaxChosenSites {
		return nil, model.InvalidField("siteIds", "invalid_sites",
			fmt.Sprintf("Choose 1 to %d sites.", model.MaxChosenSites))
	}

	siteIDs := make([]model.SiteID, len(nodeIDs))
	for i, nodeID := range nodeIDs {
		var ok bool
		if siteIDs[i], ok = nodeid.Parse[model.SiteID](r.ids, nodeID); !ok {
			return nil, notFound("siteIds")
		}
	}

	slices.Sort(siteIDs)
	return slices.Compact(siteIDs), nil
}

func (r *mutationResolver) RevokeAPIToken(
	ctx context.Context, _ generated.RevokeAPITokenInput,
) (*generated.RevokeAPITokenPayload, error) {
	viewer, id := granted[model.APITokenID](ctx)
	if viewer.IsThroughAccount() {
		token, err := r.accounts.Tokens.DeleteIn(ctx, viewer.AccountID, viewer.ID, id)
		return &generated.RevokeAPITokenPayload{APIToken: token}, err
	}

	token, err := r.accounts.Tokens.Delete(ctx, viewer.ID, id)
	return &generated.RevokeAPITokenPayload{APIToken: token}, err
}

// apiToken returns one of the caller's API tokens by its global id; nil for callers without a
// session.
func (r *Resolver) apiToken(ctx context.Context, viewer *model.User, id string) (*model.APIToken, error) {
	number, ok := nodeid.Parse[model.APITokenID](r.ids, id)
	if !ok {
		return nil, nil
	}
	if personal, err := auth.MayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	token, err := orNull(r.accounts.Tokens.Get(ctx, viewer.ID, model.APITokenID(number)))
	if token == nil || err != nil || !ownsToken(viewer, token) {
		return nil, err
	}
	return token, nil
}
