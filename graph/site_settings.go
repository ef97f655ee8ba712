package graph

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// This file is what the mutations of a site have in common: permission, then the id, then one call
// of db, then the site as it is now. A site of another account is not_found like one that does not
// exist.

// changeSite runs a change of a site that the caller's account has.
func (r *Resolver) changeSite(ctx context.Context, id string, change func(accountID, siteID int64) error) (*generated.SitePayload, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}
	site, err := r.changed(ctx, viewer.AccountID, id, change)
	wrong, err := userErrors(err)
	return &generated.SitePayload{Site: site, UserErrors: wrong}, err
}

func (r *Resolver) changed(ctx context.Context, accountID int64, id string, change func(accountID, siteID int64) error) (*model.Site, error) {
	siteID, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, notFound("siteId")
	}
	if err := change(accountID, siteID); err != nil {
		return nil, orNotFound("siteId", err)
	}

	requestOf(ctx).forget()
	site, err := r.sites.SiteByID(ctx, accountID, siteID)

	// another change may have come in between
	return site, orNotFound("siteId", err)
}

// notFound is the answer to the id of nothing, or of something of another account.
func notFound(field string) error {
	return &model.Error{Kind: model.NotFound, Code: model.ErrNotFound.Code, Field: field, Message: model.ErrNotFound.Message}
}

// orNotFound names the field whose id was not found.
func orNotFound(field string, err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return notFound(field)
	}
	return err
}

func (r *Resolver) updateSite(ctx context.Context, accountID, siteID int64, input generated.UpdateSiteInput) error {
	update := sites.SiteUpdate{
		Name:                    input.Name,
		MeasureSiteSearch:       input.MeasureSiteSearch,
		MeasureEcommerce:        input.MeasureEcommerce,
		AllowPseudonymousUserID: input.AllowPseudonymousUserID,
		AutomaticEvents:         input.AutomaticEvents,
	}

	if input.ExcludedAddresses != nil {
		networks := make([]netip.Prefix, len(input.ExcludedAddresses))
		for i, text := range input.ExcludedAddresses {
			// one that is not valid is refused together with the other mistakes
			networks[i] = model.ParseNetwork(text)
		}

		update.ExcludedAddresses = &networks
	}

	return r.sites.UpdateSite(ctx, accountID, siteID, update)
}

// changeDomain adds or removes an extra domain.
func (r *Resolver) changeDomain(
	ctx context.Context, input generated.SiteDomainInput, change func(ctx context.Context, accountID, siteID int64, domain string) error,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error {
		domain, err := model.ParseDomain(input.Domain, r.allowLocal)
		if err != nil {
			return err
		}
		return change(ctx, accountID, siteID, domain)
	})
}

// changeEvent changes the lists of events.
func (r *Resolver) changeEvent(
	ctx context.Context, input generated.SiteEventInput, change func(ctx context.Context, accountID, siteID int64, name string) error,
) (*generated.SitePayload, error) {
	return r.changeSite(ctx, input.SiteID, func(accountID, siteID int64) error { return change(ctx, accountID, siteID, input.Name) })
}

// rotateServerSecret makes a new server secret. Nothing but its hash and its end stay here.
func (r *Resolver) rotateServerSecret(ctx context.Context, id string) (*generated.RotateServerSecretPayload, error) {
	secret := model.NewSecret(serverSecretPrefix)
	payload, err := r.changeSite(ctx, id, func(accountID, siteID int64) error {
		return r.sites.SetServerSecret(ctx, accountID, siteID, model.HashToken(secret), model.SecretHint(secret))
	})
	if err != nil {
		return nil, err
	}

	answer := &generated.RotateServerSecretPayload{Site: payload.Site, UserErrors: payload.UserErrors}

	if len(payload.UserErrors) == 0 {
		answer.ServerSecret = &secret
	}

	return answer, nil
}

// serverSecretPrefix begins every server secret (analytics contract, section 2).
const serverSecretPrefix = "svcs_"

// setSitePlan is the operator's: the site may be of any account, so no more than its usage is told.
func (r *Resolver) setSitePlan(ctx context.Context, input generated.SetSitePlanInput) (*generated.Usage, error) {
	if _, err := r.require(ctx, model.MayOperate); err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, input.SiteID)
	if !ok {
		return nil, notFound("siteId")
	}

	var volume int64

	if input.MonthlyPageviews != nil {
		if volume = *input.MonthlyPageviews; volume == 0 {
			// which no plan has; 0 would be none
			volume = -1
		}
	}

	if err := r.sites.SetSitePlan(ctx, siteID, input.Plan, volume); err != nil {
		return nil, orNotFound("siteId", err)
	}

	requestOf(ctx).forget()
	site, err := r.sites.AnySite(ctx, siteID)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	return r.siteUsage(ctx, site)
}

// setConversionWebhook sets the address and the secret, those that are given. Every wrong field is
// reported.
func (r *Resolver) setConversionWebhook(ctx context.Context, accountID, siteID int64, input generated.SetConversionWebhookInput) error {
	by, err := r.sendsOut(ctx, input.URL.Value())
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
}

func (r *Resolver) setDailyExportWebhook(ctx context.Context, accountID, siteID int64, input generated.SetDailyExportWebhookInput) error {
	if !input.URL.IsSet() {
		_, err := r.sites.SiteByID(ctx, accountID, siteID)
		return err
	}

	by, err := r.sendsOut(ctx, input.URL.Value())
	if err != nil {
		return err
	}

	address, err := r.webhookURL(input.URL.Value())
	if err != nil {
		return err
	}

	return r.sites.SetDailyExportWebhook(ctx, accountID, siteID, address, by)
}

// sendsOut checks that the caller may set an address that events are sent to, and says who that is.
// Taking an address away sends nothing, so that needs no more than the other settings.
func (r *Resolver) sendsOut(ctx context.Context, address *string) (model.ChangedBy, error) {
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
	Message: "To set an address that events are sent to, an API token needs the scopes WRITE and EXPORT.",
}

// webhookURL checks an address to be called; none is the empty one.
func (r *Resolver) webhookURL(address *string) (string, error) {
	if address == nil || *address == "" {
		return "", nil
	}
	return *address, model.CheckWebhookURL("url", *address, r.webhookNets)
}

// purgeTime is how long the deletions of one request may keep its caller waiting for the rows to
// go. The worker deletes the rest.
const purgeTime = 3 * time.Second

// deleteSite deletes a site and, as far as there is time, its rows.
func (r *Resolver) deleteSite(ctx context.Context, id string) (*model.Site, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, notFound("siteId")
	}

	site, err := r.sites.DeleteSite(ctx, viewer.AccountID, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	requestOf(ctx).forget()
	r.purge(ctx, siteID)
	return site, nil
}

// purge deletes what the sites have left that this request has deleted. The deletion itself is
// done: what goes wrong here is the worker's to try again, and so is all of it while another
// request purges.
func (r *Resolver) purge(ctx context.Context, siteIDs ...int64) {
	// the account's other changes need not wait
	endTurn(ctx)

	select {
	case r.purging <- struct{}{}:
		defer func() { <-r.purging }()
	default:
		return
	}

	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), requestOf(ctx).purgeEnd())
	defer cancel()

	if _, err := r.retention.PurgeSites(ctx, siteIDs); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "purge deleted sites", "request_id", requestID(ctx), "error", err)
	}
}
