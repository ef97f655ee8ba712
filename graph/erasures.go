package graph

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// erasure returns an erasure of the account by its global id, or nil.
func (r *Resolver) erasure(ctx context.Context, accountID int64, id string) (*model.UserErasure, error) {
	number, ok := r.ids.Parse(model.NodeErasure, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.retention.Erasure(ctx, accountID, number))
}

// deleteUserData notes the erasure and begins with it, as far as there is time. The worker goes on.
func (r *Resolver) deleteUserData(ctx context.Context, input generated.DeleteUserDataInput) (*model.UserErasure, error) {
	viewer, err := r.require(ctx, model.MayErase)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, input.SiteID)
	if !ok {
		return nil, notFound("siteId")
	}

	erasure, err := r.retention.RequestErasure(ctx, viewer.AccountID, siteID, input.UserID, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	r.erase(ctx, erasure)
	return r.retention.Erasure(ctx, viewer.AccountID, erasure.ID)
}

// erase goes on with an erasure for a while. The request is stored: what fails here is tried again
// by the worker.
func (r *Resolver) erase(ctx context.Context, erasure *model.UserErasure) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), requestOf(ctx).purgeEnd())
	defer cancel()
	if _, err := r.retention.EraseUser(ctx, erasure, requestOf(ctx).now); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "erase a user's data", "request_id", requestID(ctx), "error", err)
	}
}
