package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// changeSite runs a change of a site of the caller's account and returns the site after it. A site
// of another account is reported as not found.
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

// withSite checks the permission and runs a change of a site of the caller's account.
func (r *mutationResolver) withSite(
	ctx context.Context, id string, change func(accountID, siteID int64) error,
) error {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return notFound("siteId")
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
		by, err := webhookEditor(ctx, input.URL.Value())
		if err != nil {
			return err
		}

		address, err := r.webhookURL(input.URL.Value())
		if err := errors.Join(err, model.CheckWebhookSecret(input.Secret)); err != nil {
			return err
		}
		if !input.URL.IsSet() {
			return r.sites.SetWebhookSecret(ctx, accountID, siteID, input.Secret)
		}

		return r.sites.SetConversionWebhook(ctx, accountID, siteID, address, input.Secret, by)
	})
}

func (r *mutationResolver) SetDailyExportWebhook(
	ctx context.Context, input generated.SetDailyExportWebhookInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		if !input.URL.IsSet() {
			return nil
		}

		by, err := webhookEditor(ctx, input.URL.Value())
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
func webhookEditor(ctx context.Context, address *string) (model.ChangedBy, error) {
	needed := model.MaySendOut
	if address == nil || *address == "" {
		needed = model.MayConfigure
	}

	caller, err := auth.Require(ctx, needed)
	if errors.Is(err, model.ErrForbidden) && caller.Token != nil && caller.User.May(needed, nil) {
		err = errNeedsExport
	}
	if err != nil {
		return model.ChangedBy{}, err
	}

	by := model.ChangedBy{Name: caller.User.Email, At: requestOf(ctx).now}

	if caller.Token != nil {
		by.Name = fmt.Sprintf("the API token %q of %s", caller.Token.Name, caller.User.Email)
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
	secret := model.NewSecret(serverSecretPrefix)

	// Read with the change: if a later read failed, the only copy of the secret would be lost.
	var site *model.Site
	err := r.withSite(ctx, input.SiteID, func(accountID, siteID int64) (err error) {
		site, err = r.sites.ReplaceServerSecret(ctx, accountID, siteID, model.HashToken(secret), model.SecretHint(secret))
		return err
	})
	if err != nil {
		return nil, err
	}

	return &generated.RotateServerSecretPayload{Site: site, ServerSecret: &secret}, nil
}

func (r *mutationResolver) RevokeServerSecret(
	ctx context.Context, input generated.RevokeServerSecretInput,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		return r.sites.RevokeServerSecret(ctx, accountID, siteID)
	})
}
