package auth

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/provider"
)

// The providers of accounts: set, verified and deleted by owners. See provider.go for sign-ins.

const (
	// domainChecks is how many failed lookups of an account's record cause no wait.
	domainChecks = 10

	// providerProbes is how many failed calls of a provider that is saved cause no wait.
	providerProbes = 10
)

// ErrNoRecord is returned if a domain has no DNS record for its account.
var ErrNoRecord = &model.Error{
	Kind: model.Conflict, Code: "no_dns_record",
	Message: "The domain's DNS record was not found. A new record can take some hours to be visible.",
}

// Set stores the provider of an account of the signed-in owner, after checking the
// password. With a client secret it asks the provider before, and stores nothing that the provider
// refuses. The caller must have checked that the user may manage the account.
func (p *Providers) Set(
	ctx context.Context, accountID model.AccountID, password string, change accounts.ProviderChange, wait func(),
) (*model.AccountProvider, error) {
	mistakes := change.Provider.Check(p.allowLocal)
	if mistakes == nil {
		mistakes = model.CheckWebhookURL("issuer", change.Provider.Issuer, p.nets)
	}
	if change.Secret != nil {
		mistakes = errors.Join(mistakes, model.CheckClientSecret("clientSecret", *change.Secret))
	}

	owner, err := p.passwords.confirmOwner(ctx, accountID, password, mistakes)
	if err != nil {
		return nil, err
	}

	if change.Secret != nil {
		wait()
		if err := p.ask(ctx, accountID, change); err != nil {
			return nil, err
		}
	}

	change.Provider.ChangedAt = model.At(p.now())
	row, err := p.accounts.Providers.Set(ctx, owner, change)
	return row, reloadAfter(ctx, err)
}

// ask asks a provider whether it would sign people in with these settings. Its error names
// the field to correct.
func (p *Providers) ask(ctx context.Context, accountID model.AccountID, change accounts.ProviderChange) error {
	redirect, err := p.Redirect(ctx, accountID)
	if err != nil {
		return err
	}

	limits := []accounts.SignInLimit{{
		Key:  p.throttle.key.hash("provider probe", binary.BigEndian.AppendUint64(nil, uint64(accountID))),
		Free: providerProbes, Cap: longestDelay, Clear: true,
	}}
	if err := p.throttle.count(ctx, limits); err != nil {
		return err
	}

	settings := provider.Settings{Issuer: change.Provider.Issuer, ClientID: change.Provider.ClientID, ClientSecret: *change.Secret}
	err = p.client.Probe(ctx, settings, redirect)
	failed, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return errors.Join(err, p.accounts.SignIns.Succeeded(ctx, limits...))
	}
	p.log.InfoContext(ctx, "a provider is not stored, because it would sign no one in", "issuer", settings.Issuer, "error", err)
	return providerProblem(failed)
}

// providerProblem returns the error of the field to correct.
func providerProblem(failed *provider.Error) error {
	cause := ""
	if failed.IsOwn {
		cause = " (" + failed.Cause.Error() + ")"
	}

	switch failed.Reason {
	case provider.OtherIssuer:
		return model.InvalidField("issuer", "other_issuer",
			"The provider calls itself "+failed.Cause.Error()+". Enter the issuer exactly like that.")
	case provider.NoChallenge:
		return model.InvalidField("issuer", "no_pkce", "The provider does not support PKCE with S256. Turn it on there.")
	case provider.RefusedClient:
		return model.InvalidField("clientId", "provider_refuses_client",
			"The provider refuses the client, its secret or the redirect address"+cause+".")
	case provider.Unavailable:
		return model.InvalidField("issuer", "provider_unavailable", "The provider cannot be reached"+cause+".")
	}
	return model.InvalidField("issuer", "provider_misconfigured", "The provider does not answer as OpenID Connect requires"+cause+".")
}

// Delete deletes the provider of an account of the signed-in owner, after checking the
// password. It succeeds without one.
func (p *Providers) Delete(ctx context.Context, accountID model.AccountID, password string) error {
	owner, err := p.passwords.confirmOwner(ctx, accountID, password, nil)
	if err != nil {
		return err
	}
	return reloadAfter(ctx, p.accounts.Providers.Delete(ctx, owner))
}

// Verify looks for the DNS record of an account's domain. Failed lookups are throttled by
// account. It fails with ErrNoRecord, also without a provider, and with accounts.ErrDomainClaimed.
func (p *Providers) Verify(ctx context.Context, accountID model.AccountID, wait func()) (*model.AccountProvider, error) {
	row, err := p.accounts.Providers.Of(ctx, accountID)
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, err
	}

	limits := []accounts.SignInLimit{{
		Key:  p.throttle.key.hash("provider domain", binary.BigEndian.AppendUint64(nil, uint64(accountID))),
		Free: domainChecks, Cap: longestDelay, Clear: true,
	}}
	if err := p.throttle.count(ctx, limits); err != nil {
		return nil, err
	}

	wait()
	texts, err := accounts.LookupRecord(ctx, p.resolver, row)
	if err != nil || !slices.Contains(texts, row.RecordText()) {
		return nil, ErrNoRecord
	}

	if err := p.accounts.Providers.Verify(ctx, row, texts, model.At(p.now())); err != nil {
		return nil, err
	}
	return row, p.accounts.SignIns.Succeeded(ctx, limits...)
}
