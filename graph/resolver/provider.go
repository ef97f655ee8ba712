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
	address, err := r.auth.StartProviderSignIn(ctx, input.Email, next, func() { endTurn(ctx) })
	return &generated.StartProviderSignInPayload{URL: orNil(address)}, err
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

	result, err := r.auth.FinishProviderSignIn(ctx, password, proof)
	if err != nil {
		return nil, err
	}
	return &generated.FinishProviderSignInPayload{
		Viewer: result.User, Email: orNil(result.Email), NeedsPassword: result.NeedsPassword,
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

	owner, _ := granted(ctx)
	row, err := r.auth.SetProvider(ctx, owner.AccountID, input.Password, accounts.ProviderChange{
		Provider: model.AccountProvider{
			Issuer: input.Issuer, ClientID: input.ClientID, Domain: input.Domain, DefaultRole: input.DefaultRole,
			RoleClaim: claim, Roles: roles,
		},
		Secret: input.ClientSecret, RequireProvider: input.Required,
	})
	if err != nil {
		return nil, err
	}
	return &generated.AccountProviderPayload{Provider: r.newProvider(row)}, nil
}

func (r *mutationResolver) VerifyProviderDomain(
	ctx context.Context, _ generated.VerifyProviderDomainInput,
) (*generated.AccountProviderPayload, error) {
	owner, _ := granted(ctx)
	row, err := r.auth.VerifyProvider(ctx, owner.AccountID, func() { endTurn(ctx) })
	if err != nil {
		return nil, err
	}
	return &generated.AccountProviderPayload{Provider: r.newProvider(row)}, nil
}

func (r *mutationResolver) DeleteAccountProvider(
	ctx context.Context, input generated.DeleteAccountProviderInput,
) (*generated.DeleteAccountProviderPayload, error) {
	owner, _ := granted(ctx)
	if err := r.auth.DeleteProvider(ctx, owner.AccountID, input.Password); err != nil {
		return nil, err
	}

	account := *owner.Account
	account.RequireProvider = false
	return &generated.DeleteAccountProviderPayload{Account: &account}, nil
}

// Provider is for owners with a session.
func (r *accountResolver) Provider(ctx context.Context, obj *model.Account) (*generated.AccountProvider, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return nil, err
	}
	member := caller.User.In(obj.ID)
	if member == nil || !member.May(model.MayManage, caller.Token) {
		return nil, nil
	}

	row, err := orNull(r.accounts.Provider(ctx, obj.ID))
	if row == nil || err != nil {
		return nil, err
	}
	return r.newProvider(row), nil
}

// newProvider returns a provider as owners see it.
func (r *Resolver) newProvider(row *model.AccountProvider) *generated.AccountProvider {
	shown := &generated.AccountProvider{
		Issuer: row.Issuer, ClientID: row.ClientID, Domain: row.Domain, RecordName: row.RecordName(),
		RecordText: row.RecordText(), RedirectURL: r.auth.ProviderRedirect(), DefaultRole: row.DefaultRole,
		RoleClaim: orNil(row.RoleClaim), Roles: []*generated.ProviderRole{},
	}
	if row.VerifiedAt != 0 {
		shown.DomainVerifiedAt = &row.VerifiedAt
	}
	for _, value := range slices.Sorted(maps.Keys(row.Roles)) {
		shown.Roles = append(shown.Roles, &generated.ProviderRole{Value: value, Role: row.Roles[value]})
	}
	return shown
}
