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

// SetProvider stores the provider of an account of the signed-in owner, after checking the
// password. With a client secret it asks the provider before, and stores nothing that the provider
// refuses. The caller must have checked that the user may manage the account.
func (a *Auth) SetProvider(
	ctx context.Context, accountID int64, password string, change accounts.ProviderChange, wait func(),
) (*model.AccountProvider, error) {
	mistakes := change.Provider.Check(a.allowLocal)
	if mistakes == nil {
		mistakes = model.CheckWebhookURL("issuer", change.Provider.Issuer, a.providerNets)
	}
	if change.Secret != nil {
		mistakes = errors.Join(mistakes, model.CheckClientSecret("clientSecret", *change.Secret))
	}

	_, user, err := a.confirm(ctx, "password", password, mistakes)
	if err != nil {
		return nil, err
	}
	owner := user.In(accountID)
	if owner == nil {
		return nil, model.ErrForbidden
	}

	if change.Secret != nil {
		wait()
		if err := a.askProvider(ctx, accountID, change); err != nil {
			return nil, err
		}
	}

	change.Provider.ChangedAt = model.At(a.now())
	row, err := a.accounts.SetProvider(ctx, owner, change)
	if err != nil {
		return nil, orWrongPassword(err)
	}
	return row, a.forget(ctx)
}

// askProvider asks a provider whether it would sign people in with these settings. Its error names
// the field to correct.
func (a *Auth) askProvider(ctx context.Context, accountID int64, change accounts.ProviderChange) error {
	redirect, err := a.ProviderRedirect(ctx, accountID)
	if err != nil {
		return err
	}

	limits := []accounts.SignInLimit{{
		Key:  a.throttle.hash("provider probe", binary.BigEndian.AppendUint64(nil, uint64(accountID))),
		Free: providerProbes, Cap: longestDelay, Clear: true,
	}}
	if err := a.count(ctx, limits); err != nil {
		return err
	}

	settings := provider.Settings{Issuer: change.Provider.Issuer, ClientID: change.Provider.ClientID, ClientSecret: *change.Secret}
	err = a.providers.Probe(ctx, settings, redirect)
	failed, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return errors.Join(err, a.accounts.SignInSucceeded(ctx, limits...))
	}
	a.log.InfoContext(ctx, "a provider is not stored, because it would sign no one in", "issuer", settings.Issuer, "error", err)
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

// DeleteProvider deletes the provider of an account of the signed-in owner, after checking the
// password. It succeeds without one.
func (a *Auth) DeleteProvider(ctx context.Context, accountID int64, password string) error {
	_, user, err := a.confirm(ctx, "password", password, nil)
	if err != nil {
		return err
	}
	owner := user.In(accountID)
	if owner == nil {
		return model.ErrForbidden
	}
	if err := a.accounts.DeleteProvider(ctx, owner); err != nil {
		return orWrongPassword(err)
	}
	return a.forget(ctx)
}

// forget reads the signed-in user again. The change may have ended the session, which a reload then
// finds.
func (a *Auth) forget(ctx context.Context) error {
	_, err := requestOf(ctx).reload(ctx)
	return err
}

// VerifyProvider looks for the DNS record of an account's domain. Failed lookups are throttled by
// account. It fails with ErrNoRecord, also without a provider, and with accounts.ErrDomainClaimed.
func (a *Auth) VerifyProvider(ctx context.Context, accountID int64, wait func()) (*model.AccountProvider, error) {
	row, err := a.accounts.Provider(ctx, accountID)
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, err
	}

	limits := []accounts.SignInLimit{{
		Key:  a.throttle.hash("provider domain", binary.BigEndian.AppendUint64(nil, uint64(accountID))),
		Free: domainChecks, Cap: longestDelay, Clear: true,
	}}
	if err := a.count(ctx, limits); err != nil {
		return nil, err
	}

	wait()
	texts, err := accounts.LookupRecord(ctx, a.resolver, row)
	if err != nil || !slices.Contains(texts, row.RecordText()) {
		return nil, ErrNoRecord
	}

	if err := a.accounts.VerifyProvider(ctx, row, texts, model.At(a.now())); err != nil {
		return nil, err
	}
	return row, a.accounts.SignInSucceeded(ctx, limits...)
}
