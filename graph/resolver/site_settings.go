package resolver

import (
	"context"
	"errors"
	"net/netip"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// changeSite runs a change of a site and returns the site after it. A site of an account that the
// caller does not belong to is reported as not found.
func (r *mutationResolver) changeSite(
	ctx context.Context, id string, change func(accountID, siteID int64) error,
) (*generated.SitePayload, error) {
	var site *model.Site
	err := r.withSite(ctx, id, func(accountID, siteID int64) error {
		err := change(accountID, siteID)
		if err == nil {
			// A concurrent mutation may have deleted the site since the change.
			site, err = r.sites.SiteByID(ctx, accountID, siteID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	return &generated.SitePayload{Site: site}, nil
}

// withSite checks the permission in the site's account and runs a change of the site.
func (r *mutationResolver) withSite(
	ctx context.Context, id string, change func(accountID, siteID int64) error,
) error {
	viewer, siteID, err := r.requireFor(ctx, model.MayConfigure, model.NodeSite, "siteId", id)
	if err != nil {
		return err
	}

	return orNotFound("siteId", change(viewer.AccountID, siteID))
}

func (r *mutationResolver) UpdateSite(
	ctx context.Context, input generated.UpdateSiteInput,
) (*generated.SitePayload, error) {
	update := sites.SiteUpdate{
		Name:                    input.Name,
		MeasureSiteSearch:       input.MeasureSiteSearch,
		MeasureEcommerce:        input.MeasureEcommerce,
		AllowPseudonymousUserID: input.AllowPseudonymousUserID,
		AutomaticEvents:         input.AutomaticEvents,
		TimeZone:                input.TimeZone,
	}

	if input.ExcludedAddresses != nil {
		networks := make([]netip.Prefix, len(input.ExcludedAddresses))
		for i, text := range input.ExcludedAddresses {
			// UpdateSite reports an invalid network with the other mistakes.
			networks[i] = model.ParseNetwork(text)
		}

		update.ExcludedAddresses = &networks
	}

	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.UpdateSite(ctx, accountID, siteID, update)
	})
}

func (r *mutationResolver) AddSiteDomain(
	ctx context.Context, input generated.SiteDomainInput,
) (*generated.SitePayload, error) {
	return r.changeDomain(ctx, input, r.sites.AddSiteDomain)
}

func (r *mutationResolver) RemoveSiteDomain(
	ctx context.Context, input generated.SiteDomainInput,
) (*generated.SitePayload, error) {
	return r.changeDomain(ctx, input, r.sites.RemoveSiteDomain)
}

func (r *mutationResolver) SetSiteDomains(
	ctx context.Context, input generated.SetSiteDomainsInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.SetSiteDomains(ctx, accountID, siteID, input.Domains, r.allowLocal)
	})
}

// changeDomain adds or removes an extra domain.
func (r *mutationResolver) changeDomain(
	ctx context.Context, input generated.SiteDomainInput,
	change func(ctx context.Context, accountID, siteID int64, domain string) error,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		domain, err := model.ParseDomain(input.Domain, r.allowLocal)
		if err != nil {
			return err
		}
		return change(ctx, accountID, siteID, domain)
	})
}

func (r *mutationResolver) RegisterEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	return r.changeEvent(ctx, input, r.sites.RegisterEvent)
}

func (r *mutationResolver) UnregisterEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	return r.changeEvent(ctx, input, r.sites.UnregisterEvent)
}

func (r *mutationResolver) MarkKeyEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	return r.changeEvent(ctx, input, r.sites.MarkKeyEvent)
}

func (r *mutationResolver) UnmarkKeyEvent(
	ctx context.Context, input generated.SiteEventInput,
) (*generated.SitePayload, error) {
	return r.changeEvent(ctx, input, r.sites.UnmarkKeyEvent)
}

func (r *mutationResolver) SetRegisteredEvents(
	ctx context.Context, input generated.SetSiteEventsInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.SetRegisteredEvents(ctx, accountID, siteID, input.Names)
	})
}

func (r *mutationResolver) SetKeyEvents(
	ctx context.Context, input generated.SetSiteEventsInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.SetKeyEvents(ctx, accountID, siteID, input.Names)
	})
}

// changeEvent changes the lists of events.
func (r *mutationResolver) changeEvent(
	ctx context.Context, input generated.SiteEventInput,
	change func(ctx context.Context, accountID, siteID int64, name string) error,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return change(ctx, accountID, siteID, input.Name)
	})
}

// SetConversionWebhook sets the given ones of URL and secret. All mistakes are reported.
func (r *mutationResolver) SetConversionWebhook(
	ctx context.Context, input generated.SetConversionWebhookInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		by, err := webhookEditor(ctx, accountID, input.URL.Value())
		if err != nil {
			return err
		}

		address, err := r.webhookURL(input.URL.Value())
		if err := errors.Join(err, model.CheckWebhookSecret(input.Secret)); err != nil {
			return err
		}
		if !input.URL.IsSet() {
			return r.sites.SetWebhookSecret(ctx, accountID, siteID, input.Secret, by)
		}

		return r.sites.SetConversionWebhook(ctx, accountID, siteID, address, input.Secret, by)
	})
}

func (r *mutationResolver) SetDailyExportWebhook(
	ctx context.Context, input generated.SetDailyExportWebhookInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		// Without a URL nothing changes, but the audit log gets its entry.
		if !input.URL.IsSet() {
			return r.sites.UpdateSite(ctx, accountID, siteID, sites.SiteUpdate{})
		}

		by, err := webhookEditor(ctx, accountID, input.URL.Value())
		if err != nil {
			return err
		}

		address, err := r.webhookURL(input.URL.Value())
		if err != nil {
			return err
		}

		return r.sites.SetDailyExportWebhook(ctx, accountID, siteID, address, by)
	})
}

// webhookEditor returns the caller as the author of a change of a webhook's URL, after checking
// that the caller may send events there. To remove a URL needs no more than the other settings.
func webhookEditor(ctx context.Context, accountID int64, address *string) (model.ChangedBy, error) {
	needed := model.MaySendOut
	if address == nil || *address == "" {
		needed = model.MayConfigure
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return model.ChangedBy{}, err
	}

	switch member := caller.User.In(accountID); {
	case member == nil:
		return model.ChangedBy{}, model.ErrNotFound
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
	oldUntil, overlapErr := model.KeepOldUntil(input.KeepOldFor, requestOf(ctx).now)
	secret := model.NewSecret(serverSecretPrefix)

	// Read with the change: if a later read failed, the only copy of the secret would be lost.
	var site *model.Site
	err := r.withSite(ctx, input.SiteID, func(accountID, siteID int64) (err error) {
		if overlapErr != nil {
			return overlapErr
		}
		site, err = r.sites.ReplaceServerSecret(ctx, accountID, siteID, model.HashToken(secret),
			model.SecretHint(secret), oldUntil)
		return err
	})
	if err != nil {
		return nil, err
	}

	return &generated.RotateServerSecretPayload{Site: site, ServerSecret: &secret}, nil
}

func (r *mutationResolver) RevokeOldServerSecret(
	ctx context.Context, input generated.RevokeOldServerSecretInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.RevokeOldServerSecret(ctx, accountID, siteID)
	})
}

func (r *mutationResolver) RevokeServerSecret(
	ctx context.Context, input generated.RevokeServerSecretInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.RevokeServerSecret(ctx, accountID, siteID)
	})
}
