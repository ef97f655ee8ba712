package resolver

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Links to the reports of a site, and what their readers see.

// SharedSite returns the site of the caller's shared link. It charges the request to the links of
// the account, so that readers cannot use up the budget of the account.
func (r *queryResolver) SharedSite(ctx context.Context) (*generated.SharedSite, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, err
	}

	view := caller.Shared
	if view == nil {
		if caller.User != nil {
			_, err = r.require(ctx, model.MayRead)
		}
		return nil, err
	}
	if err := limits.Of(ctx).Charge(ctx, caller); err != nil {
		return nil, err
	}

	return &generated.SharedSite{
		Name: view.Site.Name, Domain: view.Site.Domain, TimeZone: view.Site.TimeZone,
		HidesRevenue: view.Link.HidesRevenue, View: view,
	}, nil
}

func (r *siteResolver) SharedLinks(ctx context.Context, obj *model.Site) ([]*model.SharedLink, error) {
	links, err := requestOf(ctx).loaders().SharedLinks().Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}
	shown, err := r.withTokens(ctx, obj.AccountID, links...)
	return orEmpty(shown), err
}

// sharedLink returns a link of an account, with its token if the caller may read it.
func (r *Resolver) sharedLink(ctx context.Context, accountID model.AccountID, id model.SharedLinkID) (*model.SharedLink, error) {
	link, err := r.objects.SharedLink(ctx, accountID, id)
	if err != nil {
		return nil, err
	}
	shown, err := r.withTokens(ctx, accountID, link)
	if err != nil {
		return nil, err
	}
	return shown[0], nil
}

// withTokens returns links of an account, with their tokens for a caller who may create links
// there. It changes copies, because fields that are resolved side by side share the links of a
// request.
func (r *Resolver) withTokens(
	ctx context.Context, accountID model.AccountID, links ...*model.SharedLink,
) ([]*model.SharedLink, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return links, err
	}
	member := caller.User.In(accountID)
	if member == nil || (rule{permission: model.MaySendOut}).allows(member, caller.Token) != nil {
		return links, nil
	}

	shown := make([]*model.SharedLink, len(links))
	for i, link := range links {
		changed := *link
		changed.Token = r.objects.LinkToken(link)
		shown[i] = &changed
	}
	return shown, nil
}

func (r *sharedLinkResolver) Token(_ context.Context, obj *model.SharedLink) (*string, error) {
	return notZero(obj.Token), nil
}

func (r *sharedLinkResolver) Origins(_ context.Context, obj *model.SharedLink) ([]string, error) {
	return orEmpty(obj.Origins), nil
}

func (r *sharedLinkResolver) HasPassword(ctx context.Context, obj *model.SharedLink) (bool, error) {
	return obj.PasswordHash != "", nil
}

func (r *sharedLinkResolver) Segment(ctx context.Context, obj *model.SharedLink) (*model.Segment, error) {
	if obj.SegmentID == 0 {
		return nil, nil
	}
	return requestOf(ctx).loaders().LinkSegments().Of(ctx, obj.SegmentID)
}

// CreateSharedLink stores a link with a new token. All mistakes in the input are reported.
func (r *mutationResolver) CreateSharedLink(
	ctx context.Context, input generated.CreateSharedLinkInput,
) (*generated.CreateSharedLinkPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	token := model.NewSecret(model.SharedLinkPrefix)
	link := model.SharedLink{
		SiteID: siteID, Name: input.Name, CreatedAt: requestOf(ctx).now,
		TokenHash: model.HashToken(token), TokenHint: model.SecretHint(token), Token: token, HidesRevenue: input.HideRevenue,
	}
	if err := r.describeLink(&link, &input); err != nil {
		return nil, err
	}

	// Another account's site must not cost a hash.
	if _, err := r.sites.SiteByID(ctx, member.AccountID, siteID); err != nil {
		return nil, err
	}

	if input.Password != nil {
		var err error
		if link.PasswordHash, err = r.auth.SharedLinks.HashPassword(ctx, *input.Password); err != nil {
			return nil, err
		}
	}

	created, err := r.objects.CreateSharedLink(ctx, member.AccountID, link)
	return &generated.CreateSharedLinkPayload{SharedLink: created, Token: &token}, err
}

// describeLink checks the input and sets segment, expiry and origins of a new link. It reports
// every wrong field.
func (r *mutationResolver) describeLink(link *model.SharedLink, input *generated.CreateSharedLinkInput) error {
	_, nameErr := model.ParseName("name", input.Name)

	var passwordErr, expiryErr, segmentErr error
	if input.Password != nil {
		passwordErr = model.CheckLinkPassword(*input.Password)
	}

	if input.ExpiresAt != nil {
		link.ExpiresAt = *input.ExpiresAt
		if link.ExpiresAt <= link.CreatedAt {
			expiryErr = model.InvalidField("expiresAt", "invalid_expiry", "Use a time in the future.")
		}
	}

	if input.SegmentID != nil {
		id, ok := nodeid.Parse[model.SegmentID](r.ids, *input.SegmentID)
		if !ok {
			segmentErr = notFound("segmentId")
		}
		link.SegmentID = model.SegmentID(id)
	}

	origins, originsErr := model.ParseOrigins("origins", input.Origins)
	link.Origins = origins

	return errors.Join(nameErr, passwordErr, expiryErr, segmentErr, originsErr)
}

func (r *mutationResolver) RevokeSharedLink(
	ctx context.Context, _ generated.RevokeSharedLinkInput,
) (*generated.SharedLinkPayload, error) {
	member, id := granted[model.SharedLinkID](ctx)
	link, err := r.objects.RevokeSharedLink(ctx, member.AccountID, model.SharedLinkID(id))
	return &generated.SharedLinkPayload{SharedLink: link}, err
}

func (r *mutationResolver) OpenSharedLink(
	ctx context.Context, input generated.OpenSharedLinkInput,
) (*generated.OpenSharedLinkPayload, error) {
	var id *model.SharedLinkID
	if input.SharedLinkID != nil {
		// A text that is no id is the id of no link.
		number, _ := nodeid.Parse[model.SharedLinkID](r.ids, *input.SharedLinkID)
		id = new(model.SharedLinkID(number))
	}

	token, expires, err := r.auth.SharedLinks.Open(ctx, input.Token, orBlank(input.Password), id)
	return &generated.OpenSharedLinkPayload{ViewerToken: &token, ExpiresAt: &expires}, err
}
