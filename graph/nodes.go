package graph

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/schema"
)

// node returns any object that the caller may see elsewhere in the schema, or nil: an unknown id,
// one of another account and one that the caller has no right to see get the same answer.
func (r *Resolver) node(ctx context.Context, viewer *model.User, id string) (schema.Node, error) {
	if idHash, ok := parseSessionID(id); ok {
		return found(r.sessionNode(ctx, viewer, idHash))
	}

	accountID := viewer.AccountID

	switch kind := r.ids.KindOf(id); kind {
	case model.NodeAccount:
		if number, _ := r.ids.Parse(kind, id); number == accountID {
			return viewer.Account, nil
		}
	case model.NodeUser:
		return found(r.member(ctx, accountID, id))
	case model.NodeInvitation:
		return found(r.invitation(ctx, accountID, id))
	case model.NodeAPIToken:
		return found(r.apiToken(ctx, viewer, id))
	case model.NodeSite:
		return found(r.site(ctx, accountID, id))
	case model.NodeSitekey:
		return found(r.sitekey(ctx, accountID, id))
	case model.NodeDelivery:
		return found(r.delivery(ctx, accountID, id))
	case model.NodeErasure:
		return found(r.erasure(ctx, accountID, id))
	}

	return nil, nil
}

// found keeps a nil pointer from becoming an object: a Node that holds one is not nil.
func found[T any](object *T, err error) (schema.Node, error) {
	if object == nil || err != nil {
		return nil, err
	}
	return object, nil
}

// member returns a user of the account by the global id, or nil.
func (r *Resolver) member(ctx context.Context, accountID int64, id string) (*model.User, error) {
	number, ok := r.ids.Parse(model.NodeUser, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.accounts.Member(ctx, accountID, number))
}

// invitation returns an invitation of the account by its global id; nil for those who do not see
// invitations.
func (r *Resolver) invitation(ctx context.Context, accountID int64, id string) (*model.Invitation, error) {
	number, ok := r.ids.Parse(model.NodeInvitation, id)
	if !ok {
		return nil, nil
	}
	if sees, err := seesInvitations(ctx); !sees || err != nil {
		return nil, err
	}

	return orNull(r.accounts.Invitation(ctx, accountID, number, requestOf(ctx).now))
}

// apiToken returns one of the caller's API tokens by its global id; nil for callers without a
// session.
func (r *Resolver) apiToken(ctx context.Context, viewer *model.User, id string) (*model.APIToken, error) {
	number, ok := r.ids.Parse(model.NodeAPIToken, id)
	if !ok {
		return nil, nil
	}
	if personal, err := mayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	return orNull(r.accounts.APIToken(ctx, viewer.ID, number))
}

// sessionNode returns one of the caller's sessions; nil for callers without one.
func (r *Resolver) sessionNode(ctx context.Context, viewer *model.User, idHash []byte) (*generated.Session, error) {
	if personal, err := mayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	current, err := auth.CurrentSession(ctx)
	if err != nil {
		return nil, err
	}

	row, err := orNull(r.accounts.Session(ctx, viewer.ID, idHash, requestOf(ctx).now))
	if row == nil || err != nil {
		return nil, err
	}

	return shownSession(row, current), nil
}

// mayPersonal reports whether the caller sees sessions and API tokens, which an API token does not.
func mayPersonal(ctx context.Context) (bool, error) {
	caller, err := auth.Who(ctx)
	return err == nil && caller.User.May(model.MayPersonal, caller.Token), err
}
