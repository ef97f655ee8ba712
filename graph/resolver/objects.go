package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// What the resolvers of the objects of sites share: annotations, segments, funnels, links and others.

// onSite checks the permission and runs a change that belongs to a site of the caller's account. A
// site of another account is reported as not found.
func onSite[T any](
	ctx context.Context, r *mutationResolver, p model.Permission, siteNodeID string,
	change func(accountID, siteID int64) (*T, error),
) (*T, error) {
	viewer, err := r.require(ctx, p)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, siteNodeID)
	if !ok {
		return nil, notFound("siteId")
	}

	object, err := change(viewer.AccountID, siteID)
	return object, orNotFound("siteId", err)
}

// onObject checks the permission to configure sites and runs a change of an object of the caller's
// account. An object of another account is reported as not found. field is the input field of its id.
func onObject[T any](
	ctx context.Context, r *mutationResolver, kind model.NodeKind, field, nodeID string,
	change func(accountID, id int64) (*T, error),
) (*T, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, notFound(field)
	}

	object, err := change(viewer.AccountID, id)
	return object, orNotFound(field, err)
}

// ownObject returns an object of the account by its global id, or nil.
func ownObject[T any](
	ctx context.Context, r *Resolver, kind model.NodeKind, accountID int64, nodeID string,
	read func(ctx context.Context, accountID, id int64) (*T, error),
) (*T, error) {
	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, nil
	}
	return orNull(read(ctx, accountID, id))
}
