package resolver

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// The settings of a site, with its webhooks and its server secret.

// changed returns the site of a mutation after a change that may have failed.
func (r *mutationResolver) changed(ctx context.Context, err error) (*generated.SitePayload, error) {
	if err != nil {
		return nil, err
	}

	// A concurrent mutation may have deleted the site since the change.
	member, siteID := granted[model.SiteID](ctx)
	site, err := r.sites.SiteByID(ctx, member.AccountID, siteID)
	return &generated.SitePayload{Site: site}, err
}

func (r *mutationResolver) UpdateSite(
	ctx context.Context, input generated.UpdateSiteInput,
) (*generated.SitePayload, error) {
	update := sites.SiteUpdate{
		Name:                    input.Name,
		ExtraDomains:            given(input.ExtraDomains),
		RegisteredEvents:        given(input.RegisteredEvents),
		KeyEvents:               given(input.KeyEvents),
		ExcludedAddresses:       given(input.ExcludedAddresses),
		MeasureSiteSearch:       input.MeasureSiteSearch,
		MeasureEcommerce:        input.MeasureEcommerce,
		AllowPseudonymousUserID: input.AllowPseudonymousUserID,
		AutomaticEvents:         input.AutomaticEvents,
		TimeZone:                input.TimeZone,
		VisitDetails:            listOf(input.VisitDetails),
		ExcludedCountries:       listOf(input.ExcludedCountries),
		ExcludedPaths:           listOf(input.ExcludedPaths),
		Shields:                 listOf(input.Shields),
		SmallGroup:              input.SmallGroup,
		AllowLocal:              r.allowLocal,
	}

	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.UpdateSite(ctx, member.AccountID, siteID, update))
}

// given returns a list that was given, and nil for one that was omitted or null.
func given[T any](list []T) *[]T {
	if list == nil {
		return nil
	}
	return &list
}

// listOf is given for a list that a column stores.
func listOf[T ~string](list []T) *model.List[T] { return (*model.List[T])(given(list)) }

func (r *mutationResolver) AddSiteDomain(
	ctx context.Context, input generated.SiteDomainInput,
) (*generated.SitePayload, error) {
	domain, err := model.ParseDomain(input.Domain, r.allowLocal)
	if err != nil {
		return nil, err
	}

	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.AddSiteDomain(ctx, member.AccountID, siteID, domain))
}

func (r *mutationResolver) RemoveSiteDomain(
	ctx context.Context, input generated.SiteDomainInput,
) (*generated.SitePayload, error) {
	domain, err := model.ParseDomain(input.Domain, r.allowLocal)
	if err != nil {
		return nil, err
	}

	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.RemoveSiteDomain(ctx, member.AccountID, siteID, domain))
}

func (r *mutationResolver) RegisterEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.RegisterEvent(ctx, member.AccountID, siteID, input.Name))
}

func (r *mutationResolver) UnregisterEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.UnregisterEvent(ctx, member.AccountID, siteID, input.Name))
}

func (r *mutationResolver) MarkKeyEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.MarkKeyEvent(ctx, member.AccountID, siteID, input.Name))
}

func (r *mutationResolver) UnmarkKeyEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.UnmarkKeyEvent(ctx, member.AccountID, siteID, input.Name))
}

// SetConversionWebhook sets the given ones of URL and secret. All mistakes are reported.
func (r *mutationResolver) SetConversionWebhook(
	ctx context.Context, input generated.SetConversionWebhookInput,
) (*generated.SitePayload, error) {
	by, err := webhookEditor(ctx, input.URL.Value())
	if err != nil {
		return nil, err
	}

	address, err := r.webhookURL(input.URL.Value())
	if err := errors.Join(err, model.CheckWebhookSecret(input.Secret)); err != nil {
		return nil, err
	}

	member, siteID := granted[model.SiteID](ctx)
	if !input.URL.IsSet() {
		return r.changed(ctx, r.sites.SetWebhookSecret(ctx, member.AccountID, siteID, input.Secret, by))
	}
	return r.changed(ctx, r.sites.SetConversionWebhook(ctx, member.AccountID, siteID, address, input.Secret, by))
}

func (r *mutationResolver) SetDailyExportWebhook(
	ctx context.Context, input generated.SetDailyExportWebhookInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)

	// Without a URL nothing changes, but the audit log gets its entry.
	if !input.URL.IsSet() {
		return r.changed(ctx, r.sites.UpdateSite(ctx, member.AccountID, siteID, sites.SiteUpdate{}))
	}

	by, err := webhookEditor(ctx, input.URL.Value())
	if err != nil {
		return nil, err
	}

	address, err := r.webhookURL(input.URL.Value())
	if err != nil {
		return nil, err
	}

	return r.changed(ctx, r.sites.SetDailyExportWebhook(ctx, member.AccountID, siteID, address, by))
}

// webhookEditor returns the caller as the author of a change of a webhook's URL, after checking
// that the caller may send events there. To remove a URL needs no more than the other settings.
func webhookEditor(ctx context.Context, address *string) (model.ChangedBy, error) {
	needed := model.MaySendOut
	if address == nil || *address == "" {
		needed = model.MayConfigure
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return model.ChangedBy{}, err
	}

	switch member := memberOf(ctx); {
	case member.May(needed, caller.Token):
	case caller.Token != nil && member.May(needed, nil):
		return model.ChangedBy{}, errNeedsExport
	default:
		return model.ChangedBy{}, model.ErrForbidden
	}

	by := model.ChangedBy{Name: caller.User.Email, At: requestOf(ctx).now}

	if caller.Token != nil {
		by.Token = caller.Token.Name
	}

	return by, nil
}

var errNeedsExport = &model.Error{
	Kind: model.Forbidden, Code: model.ErrForbidden.Code,
	Message: "To set a webhook URL, an API token needs the scopes WRITE and EXPORT.",
}

// webhookURL checks a webhook's URL. It returns "" for none.
func (r *mutationResolver) webhookURL(address *string) (string, error) {
	if address == nil || *address == "" {
		return "", nil
	}
	return *address, model.CheckWebhookURL("url", *address, r.webhookNets)
}

// serverSecretPrefix begins every server secret (analytics contract, section 2).
const serverSecretPrefix = "svcs_"

// RotateServerSecret stores the hash of a new secret and its last characters only.
func (r *mutationResolver) RotateServerSecret(
	ctx context.Context, input generated.RotateServerSecretInput,
) (*generated.RotateServerSecretPayload, error) {
	oldUntil, err := model.KeepOldUntil(input.KeepOldFor, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	// The change returns the site: if a later read failed, the only copy of the secret would be
	// lost.
	member, siteID := granted[model.SiteID](ctx)
	secret := model.NewSecret(serverSecretPrefix)
	site, err := r.sites.ReplaceServerSecret(
		ctx, member.AccountID, siteID, model.HashToken(secret), model.SecretHint(secret), oldUntil,
	)
	return &generated.RotateServerSecretPayload{Site: site, ServerSecret: &secret}, err
}

func (r *mutationResolver) RevokeOldServerSecret(
	ctx context.Context, _ generated.RevokeOldServerSecretInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.RevokeOldServerSecret(ctx, member.AccountID, siteID))
}

func (r *mutationResolver) RevokeServerSecret(
	ctx context.Context, _ generated.RevokeServerSecretInput,
) (*generated.SitePayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	return r.changed(ctx, r.sites.RevokeServerSecret(ctx, member.AccountID, siteID))
}
