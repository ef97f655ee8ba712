package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// The notices of a site's page that a user has hidden.

func (r *siteResolver) HiddenNotices(ctx context.Context, obj *model.Site) (*model.HiddenNotices, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return &model.HiddenNotices{}, err
	}

	hidden, err := requestOf(ctx).loaders().HiddenNotices(caller.User.ID).Of(ctx, obj.ID)
	if err != nil || hidden == nil {
		return &model.HiddenNotices{}, err
	}
	shown := hidden.At(requestOf(ctx).now)
	return &shown, nil
}

// HideSiteNotices changes the caller's own notices. All mistakes in the input are reported.
func (r *mutationResolver) HideSiteNotices(
	ctx context.Context, input generated.HideSiteNoticesInput,
) (*generated.HideSiteNoticesPayload, error) {
	hidden := model.HiddenNotices{Rejections: input.Rejections, Usage: input.Usage, HiddenAt: requestOf(ctx).now}
	if err := hidden.Check(); err != nil {
		return nil, err
	}

	member, siteID := granted[model.SiteID](ctx)
	if err := r.sites.HideNotices(ctx, member, siteID, hidden); err != nil {
		return nil, err
	}
	return &generated.HideSiteNoticesPayload{HiddenNotices: &hidden}, nil
}
