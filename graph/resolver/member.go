package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/generated"
)

// The members of an account and the invitations to it.

func (r *accountResolver) Members(ctx context.Context, obj *model.Account) ([]*model.User, error) {
	key := accountRead{field: "members", accountID: obj.ID}
	return shared(ctx, key, func() ([]*model.User, error) {
		if caller, err := callerIn(ctx, obj.ID); err != nil || caller != nil && caller.IsRestricted() {
			return []*model.User{caller}, err
		}
		return r.accounts.Members.Of(ctx, obj.ID)
	})
}

// Invitations is empty for callers without the right to list them.
func (r *accountResolver) Invitations(ctx context.Context, obj *model.Account) ([]*model.Invitation, error) {
	key := accountRead{field: "invitations", accountID: obj.ID}
	return shared(ctx, key, func() ([]*model.Invitation, error) {
		if may, err := mayReadAsOwner(ctx, obj.ID); !may || err != nil {
			return []*model.Invitation{}, err
		}

		list, err := r.accounts.Invitations.Of(ctx, obj.ID, requestOf(ctx).now)
		return orEmpty(list), err
	})
}

func (r *mutationResolver) InviteMember(
	ctx context.Context, input generated.InviteMemberInput,
) (*generated.InviteMemberPayload, error) {
	siteIDs, err := r.chosenSites(input.SiteIds)
	if err != nil {
		return nil, err
	}

	owner := memberOf(ctx)
	invitation, err := r.auth.Invite(ctx, owner, input.Email, input.Role, siteIDs)
	return &generated.InviteMemberPayload{Invitation: invitation}, err
}

func (r *mutationResolver) RevokeInvitation(
	ctx context.Context, _ generated.RevokeInvitationInput,
) (*generated.RevokeInvitationPayload, error) {
	owner, id := granted[model.InvitationID](ctx)
	invitation, err := r.accounts.Invitations.Delete(ctx, owner.AccountID, id)
	return &generated.RevokeInvitationPayload{Invitation: invitation}, err
}

func (r *queryResolver) InvitationOffer(ctx context.Context, token string) (*generated.InvitationOffer, error) {
	offer, err := r.auth.Offer(ctx, token)
	if offer == nil || err != nil {
		return nil, err
	}

	shown := &generated.InvitationOffer{
		AccountName: offer.Account, Email: offer.Email, Role: offer.Role, ExpiresAt: offer.ExpiresAt,
	}
	if offer.SiteIDs != nil {
		count := len(offer.SiteIDs)
		shown.SiteCount = &count
	}
	if offer.By != "" {
		shown.InvitedBy = &offer.By
	}
	return shown, nil
}

func (r *mutationResolver) AcceptInvitation(
	ctx context.Context, input generated.AcceptInvitationInput,
) (*generated.AcceptInvitationPayload, error) {
	code := ""
	if input.SecondFactor != nil {
		code = *input.SecondFactor
	}

	viewer, err := r.auth.AcceptInvitation(ctx, input.Token, input.Password, code)
	return &generated.AcceptInvitationPayload{Viewer: viewer}, err
}

func (r *mutationResolver) SetMemberRole(
	ctx context.Context, input generated.SetMemberRoleInput,
) (*generated.SetMemberRolePayload, error) {
	siteIDs, err := r.chosenSites(input.SiteIds)
	if err == nil {
		err = model.CheckGuest(input.Role, siteIDs)
	}
	if err != nil {
		return nil, err
	}

	member, err := r.otherMember(ctx, input.UserID)
	if err == nil {
		err = r.accounts.Members.SetRole(ctx, member.AccountID, member.ID, input.Role, siteIDs)
	}
	if err == nil {
		member, err = r.accounts.Members.Get(ctx, member.AccountID, member.ID)
	}
	if err != nil {
		return nil, orNotFound("userId", err)
	}

	return &generated.SetMemberRolePayload{Member: member}, nil
}

func (r *mutationResolver) RemoveMember(
	ctx context.Context, input generated.RemoveMemberInput,
) (*generated.RemoveMemberPayload, error) {
	member, err := r.otherMember(ctx, input.UserID)
	if err == nil {
		err = r.accounts.Members.Delete(ctx, member.AccountID, member.ID)
	}
	return &generated.RemoveMemberPayload{Member: member}, orNotFound("userId", err)
}

// otherMember returns the member of the account that a mutation is about.
func (r *mutationResolver) otherMember(ctx context.Context, id string) (*model.User, error) {
	userID, ok := nodeid.Parse[model.UserID](r.ids, id)
	if !ok {
		return nil, model.ErrNotFound
	}
	owner := memberOf(ctx)
	return r.accounts.Members.Get(ctx, owner.AccountID, userID)
}

// member returns a user of one of the viewer's accounts by its global id, or nil.
func (r *Resolver) member(ctx context.Context, viewer *model.User, id string) (*model.User, error) {
	number, ok := nodeid.Parse[model.UserID](r.ids, id)
	if !ok {
		return nil, nil
	}
	if number == viewer.ID {
		return viewer, nil
	}

	return orNull(r.accounts.Members.With(ctx, viewer, number))
}

// invitation returns an invitation of one of the viewer's accounts by its global id; nil for
// callers without the right to list them.
func (r *Resolver) invitation(ctx context.Context, viewer *model.User, id string) (*model.Invitation, error) {
	return ownObject(ctx, r, nodeid.Invitation, viewer, id,
		func(ctx context.Context, accountID model.AccountID, id model.InvitationID) (*model.Invitation, error) {
			if may, err := mayReadAsOwner(ctx, accountID); !may || err != nil {
				return nil, err
			}
			return r.accounts.Invitations.Get(ctx, accountID, id, requestOf(ctx).now)
		})
}

// mayReadAsOwner reports whether the caller is an owner of the account, or an owner's API token
// that is not restricted to sites.
func mayReadAsOwner(ctx context.Context, accountID model.AccountID) (bool, error) {
	member, err := callerIn(ctx, accountID)
	return member != nil && !member.IsRestricted() && member.May(model.MayManage, nil), err
}
