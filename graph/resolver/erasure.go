package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/generated"
)

// Erasures of the data of one pseudonymous user id.

// DeleteUserData stores the request, then erases rows up to purgeTime. The worker erases the
// remaining rows.
func (r *mutationResolver) DeleteUserData(
	ctx context.Context, input generated.DeleteUserDataInput,
) (*generated.DeleteUserDataPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	erasure, err := r.retention.RequestErasure(ctx, member.AccountID, siteID, input.UserID, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.erase(ctx, erasure)

	erasure, err = r.retention.Erasure(ctx, member.AccountID, erasure.ID)
	return &generated.DeleteUserDataPayload{Erasure: erasure}, err
}

// erase erases rows until the request's purges must stop. It only logs an error: the erasure is
// stored, and the worker retries it.
func (r *mutationResolver) erase(ctx context.Context, erasure *model.UserErasure) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), requestOf(ctx).purgeEnd())
	defer cancel()
	if _, err := r.retention.EraseUser(ctx, erasure, requestOf(ctx).now); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "erase a user's data", "request_id", RequestID(ctx), "error", err)
	}
}

// erasure returns an erasure of one of the viewer's accounts by its global id, or nil.
func (r *Resolver) erasure(ctx context.Context, viewer *model.User, id string) (*model.UserErasure, error) {
	return ownObject(ctx, r, nodeid.Erasure, viewer, id, r.retention.Erasure)
}
