package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// What the resolvers of the objects of sites share: annotations, segments, funnels, links and others.

// onSite checks the permission in the site's account and runs a change that belongs to the site. A
// site of an account that the caller does not belong to is reported as not found.
func onSite[T any](
	ctx context.Context, r *mutationResolver, p model.Permission, siteNodeID string,
	change func(accountID, siteID int64) (*T, error),
) (*T, error) {
	viewer, siteID, err := r.requireFor(ctx, p, model.NodeSite, "siteId", siteNodeID)
	if err != nil {
		return nil, err
	}

	object, err := change(viewer.AccountID, siteID)
	return object, orNotFound("siteId", err)
}

// onObject checks the permission to configure sites in the object's account and runs a change of the
// object. An object of an account that the caller does not belong to is reported as not found. field
// is the input field of its id.
func onObject[T any](
	ctx context.Context, r *mutationResolver, kind model.NodeKind, field, nodeID string,
	change func(accountID, id int64) (*T, error),
) (*T, error) {
	viewer, id, err := r.requireFor(ctx, model.MayConfigure, kind, field, nodeID)
	if err != nil {
		return nil, err
	}

	object, err := change(viewer.AccountID, id)
	return object, orNotFound(field, err)
}

// ownObject returns an object of one of the viewer's accounts by its global id, or nil. Every role may
// read it.
func ownObject[T any](
	ctx context.Context, r *Resolver, kind model.NodeKind, viewer *model.User, nodeID string,
	read func(ctx context.Context, accountID, id int64) (*T, error),
) (*T, error) {
	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, nil
	}

	member, err := orNull(r.accounts.MemberFor(ctx, viewer, kind, id))
	if member == nil || err != nil {
		return nil, err
	}

	return orNull(read(ctx, member.AccountID, id))
}
