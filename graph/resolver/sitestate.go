package resolver

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// States of sites and accounts: paused sites, deleted ones that can be restored, and suspended
// accounts; and their transfer to another account. Deleting a site is in site.go.

// DeletedSites returns nothing to callers who cannot restore a site.
func (r *accountResolver) DeletedSites(ctx context.Context, obj *model.Account) ([]*model.Site, error) {
	key := accountRead{field: "deletedSites", accountID: obj.ID}
	return shared(ctx, key, func() ([]*model.Site, error) {
		if may, err := mayReadAsOwner(ctx, obj.ID); !may || err != nil {
			return []*model.Site{}, err
		}

		list, err := r.sites.DeletedSites(ctx, obj.ID, requestOf(ctx).now, limits.MaxPage)
		return orEmpty(list), err
	})
}

// RestoreSite restores a deleted site. The limit of an account's sites does not hold for an
// operator, as with CreateSite.
func (r *mutationResolver) RestoreSite(
	ctx context.Context, _ generated.RestoreSiteInput,
) (*generated.SitePayload, error) {
	owner, siteID := granted[model.SiteID](ctx)
	site, err := r.sites.RestoreSite(ctx, owner.AccountID, siteID, owner.Operator, requestOf(ctx).now)
	return &generated.SitePayload{Site: site}, err
}

func (r *mutationResolver) PauseSite(
	ctx context.Context, _ generated.PauseSiteInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	site, err := r.sites.PauseSite(ctx, member.AccountID, siteID, true, requestOf(ctx).now)
	return &generated.SitePayload{Site: site}, err
}

func (r *mutationResolver) ResumeSite(
	ctx context.Context, _ generated.ResumeSiteInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	site, err := r.sites.PauseSite(ctx, member.AccountID, siteID, false, requestOf(ctx).now)
	return &generated.SitePayload{Site: site}, err
}

func (r *mutationResolver) TransferSite(
	ctx context.Context, input generated.TransferSiteInput,
) (*generated.SitePayload, error) {
	owner, siteID := granted[model.SiteID](ctx)
	to, err := r.transferTarget(ctx, owner, input.ToAccountID)
	if err != nil {
		return nil, err
	}

	site, err := r.sites.TransferSite(ctx, siteID, owner.AccountID, to, owner.Operator)
	return &generated.SitePayload{Site: site}, err
}

func (r *mutationResolver) TransferSitekey(
	ctx context.Context, input generated.TransferSitekeyInput,
) (*generated.SitekeyPayload, error) {
	owner, id := granted[model.SitekeyID](ctx)
	to, err := r.transferTarget(ctx, owner, input.ToAccountID)
	if err != nil {
		return nil, err
	}

	key, err := r.sitekeys.TransferSitekey(ctx, id, owner.AccountID, to)
	return &generated.SitekeyPayload{Sitekey: key}, err
}

// transferTarget returns the number of the account that an owner moves something to. It fails with
// not_found unless the caller belongs to it, and with forbidden unless as an owner.
func (r *Resolver) transferTarget(ctx context.Context, owner *model.User, accountID string) (model.AccountID, error) {
	target := r.in(owner, accountID)
	if target == nil {
		return 0, notFound("toAccountId")
	}

	caller, err := auth.CallerOf(ctx)
	if err == nil && !target.May(model.MayManage, caller.Token) {
		err = model.ErrForbidden
	}
	if err == nil {
		err = target.Account.CheckSuspended(model.MayManage)
	}

	return target.AccountID, err
}

func (r *accountResolver) Suspension(ctx context.Context, obj *model.Account) (*generated.Suspension, error) {
	if err := refuseGuest(ctx, obj); errors.Is(err, model.ErrForbidden) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return suspension(obj.SuspendedAt, obj.SuspensionReason), nil
}

func suspension(since model.Instant, reason string) *generated.Suspension {
	if since == 0 {
		return nil
	}
	return &generated.Suspension{SuspendedAt: since, Reason: reason}
}

// SuspendAccount suspends any account, for operators.
func (r *mutationResolver) SuspendAccount(
	ctx context.Context, input generated.SuspendAccountInput,
) (*generated.SuspensionPayload, error) {
	_, id := granted[model.AccountID](ctx)
	account, err := r.accounts.Suspend(ctx, id, input.Reason, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}
	return &generated.SuspensionPayload{AccountID: &input.AccountID, Suspension: suspension(account.SuspendedAt, account.SuspensionReason)}, nil
}

// ResumeAccount ends the suspension of any account, for operators.
func (r *mutationResolver) ResumeAccount(
	ctx context.Context, input generated.ResumeAccountInput,
) (*generated.SuspensionPayload, error) {
	_, id := granted[model.AccountID](ctx)
	account, err := r.accounts.Resume(ctx, id, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}
	return &generated.SuspensionPayload{AccountID: &input.AccountID, Suspension: suspension(account.SuspendedAt, account.SuspensionReason)}, nil
}
