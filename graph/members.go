package graph

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// invitations are the owners' to see.
func (r *Resolver) invitations(ctx context.Context, account *model.Account) ([]*model.Invitation, error) {
	if sees, err := seesInvitations(ctx); !sees || err != nil {
		return []*model.Invitation{}, err
	}
	list, err := r.accounts.Invitations(ctx, account.ID, requestOf(ctx).now)
	return orEmpty(list), err
}

// seesInvitations reports whether the caller is an owner or an owner's API token.
func seesInvitations(ctx context.Context) (bool, error) {
	caller, err := auth.Who(ctx)
	return err == nil && caller.User.May(model.MayManage, nil), err
}

func (r *Resolver) inviteMember(ctx context.Context, input generated.InviteMemberInput) (*model.Invitation, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}
	return r.auth.Invite(ctx, viewer, input.Email, input.Role)
}

func (r *Resolver) revokeInvitation(ctx context.Context, id string) (*model.Invitation, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	number, ok := r.ids.Parse(model.NodeInvitation, id)
	if !ok {
		return nil, notFound("invitationId")
	}

	invitation, err := r.accounts.DeleteInvitation(ctx, viewer.AccountID, number)
	return invitation, orNotFound("invitationId", err)
}

// changeMember runs a change of a member and returns the member as they were.
func (r *Resolver) changeMember(ctx context.Context, id string, change func(accountID, userID int64) error) (*model.User, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	userID, ok := r.ids.Parse(model.NodeUser, id)
	if !ok {
		return nil, notFound("userId")
	}

	member, err := r.accounts.Member(ctx, viewer.AccountID, userID)
	if err == nil {
		err = change(viewer.AccountID, userID)
	}
	if err != nil {
		return nil, orNotFound("userId", err)
	}

	return member, nil
}

func (r *Resolver) setMemberRole(ctx context.Context, input generated.SetMemberRoleInput) (*model.User, error) {
	member, err := r.changeMember(ctx, input.UserID, func(accountID, userID int64) error {
		return r.accounts.SetMemberRole(ctx, accountID, userID, input.Role)
	})
	if err != nil {
		return nil, err
	}

	member.Role = input.Role
	return member, nil
}

// deleteAccount deletes the owner's account and, as far as there is time, its rows.
func (r *Resolver) deleteAccount(ctx context.Context, password string) (*string, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	sites, err := r.sites.Sites(ctx, viewer.AccountID, 0, model.MaxSites)
	if err != nil {
		return nil, err
	}
	if err := r.auth.DeleteAccount(ctx, password); err != nil {
		return nil, err
	}

	ids := make([]int64, len(sites))
	for i, site := range sites {
		ids[i] = site.ID
	}

	r.purge(ctx, ids...)
	return orNil(r.ids.Of(model.NodeAccount, viewer.AccountID)), nil
}
