package resolver

import (
	"context"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Sign-in through OpenID Connect providers, and the providers of accounts.

func (r *mutationResolver) StartProviderSignIn(
	ctx context.Context, input generated.StartProviderSignInInput,
) (*generated.StartProviderSignInPayload, error) {
	next := ""
	if input.Next != nil {
		next = *input.Next
	}
	address, err := r.auth.Providers.StartSignIn(ctx, input.Email, next, func() { endTurn(ctx) })
	return &generated.StartProviderSignInPayload{URL: notZero(address)}, err
}

func (r *mutationResolver) FinishProviderSignIn(
	ctx context.Context, input generated.FinishProviderSignInInput,
) (*generated.FinishProviderSignInPayload, error) {
	proof, password := auth.Proof{Passkey: passkeyAnswer(input.Passkey)}, ""
	if input.SecondFactor != nil {
		proof.Code = *input.SecondFactor
	}
	if input.Password != nil {
		password = *input.Password
	}

	result, err := r.auth.Providers.FinishSignIn(ctx, password, proof)
	if err != nil {
		return nil, err
	}
	return &generated.FinishProviderSignInPayload{
		Viewer: result.User, Email: notZero(result.Email), NeedsPassword: result.NeedsPassword,
		SecondFactorMethods: result.Methods, PasskeyRequest: newPasskeyRequest(result.Passkey),
	}, nil
}

func (r *mutationResolver) SetAccountProvider(
	ctx context.Context, input generated.SetAccountProviderInput,
) (*generated.AccountProviderPayload, error) {
	roles := make(map[string]model.Role, len(input.Roles))
	for _, role := range input.Roles {
		roles[role.Value] = role.Role
	}
	claim := ""
	if input.RoleClaim != nil {
		claim = *input.RoleClaim
	}

	owner := memberOf(ctx)
	row, err := r.auth.Providers.Set(ctx, owner.AccountID, input.Password, accounts.ProviderChange{
		Provider: model.AccountProvider{
			Issuer: input.Issuer, ClientID: input.ClientID, Domain: input.Domain, DefaultRole: input.DefaultRole,
			TrustsEmails: input.TrustsEmails, RoleClaim: claim, Roles: roles,
		},
		Secret: input.ClientSecret, RequireProvider: input.Required,
	}, func() { endTurn(ctx) })
	if err != nil {
		return nil, err
	}
	return &generated.AccountProviderPayload{Provider: newProvider(row)}, nil
}

func (r *mutationResolver) VerifyProviderDomain(
	ctx context.Context, _ generated.VerifyProviderDomainInput,
) (*generated.AccountProviderPayload, error) {
	owner := memberOf(ctx)
	row, err := r.auth.Providers.Verify(ctx, owner.AccountID, func() { endTurn(ctx) })
	if err != nil {
		return nil, err
	}
	return &generated.AccountProviderPayload{Provider: newProvider(row)}, nil
}

func (r *mutationResolver) DeleteAccountProvider(
	ctx context.Context, input generated.DeleteAccountProviderInput,
) (*generated.DeleteAccountProviderPayload, error) {
	owner := memberOf(ctx)
	if err := r.auth.Providers.Delete(ctx, owner.AccountID, input.Password); err != nil {
		return nil, err
	}

	account := *owner.Account
	account.RequireProvider = false
	return &generated.DeleteAccountProviderPayload{Account: &account}, nil
}

func (r *accountResolver) Provider(ctx context.Context, obj *model.Account) (*generated.AccountProvider, error) {
	if isOwner, err := readsProvider(ctx, obj); !isOwner || err != nil {
		return nil, err
	}
	row, err := orNull(r.accounts.Providers.Of(ctx, obj.ID))
	if row == nil || err != nil {
		return nil, err
	}
	return newProvider(row), nil
}

func (r *accountResolver) ProviderRedirectURL(ctx context.Context, obj *model.Account) (*string, error) {
	if isOwner, err := readsProvider(ctx, obj); !isOwner || err != nil {
		return nil, err
	}
	address, err := r.auth.Providers.Redirect(ctx, obj.ID)
	return &address, err
}

// readsProvider reports whether the caller reads the provider of an account: an owner with a
// session.
func readsProvider(ctx context.Context, account *model.Account) (bool, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return false, err
	}
	member := caller.User.In(account.ID)
	return member != nil && member.May(model.MayManage, caller.Token), nil
}

// newProvider returns a provider as owners see it.
func newProvider(row *model.AccountProvider) *generated.AccountProvider {
	shown := &generated.AccountProvider{
		Issuer: row.Issuer, ClientID: row.ClientID, Domain: row.Domain, RecordName: row.RecordName(),
		RecordText: row.RecordText(), DefaultRole: row.DefaultRole, RoleClaim: notZero(row.RoleClaim),
		TrustsEmails: row.TrustsEmails,
		Roles:        []*generated.ProviderRole{},
	}
	if row.VerifiedAt != 0 {
		shown.DomainVerifiedAt = &row.VerifiedAt
	}
	if row.MissingSince != 0 {
		shown.RecordMissingSince = &row.MissingSince
	}
	for _, value := range slices.Sorted(maps.Keys(row.Roles)) {
		shown.Roles = append(shown.Roles, &generated.ProviderRole{Value: value, Role: row.Roles[value]})
	}
	return shown
}
