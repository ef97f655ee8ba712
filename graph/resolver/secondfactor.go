package resolver

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Second factors of the caller, passkeys, and the rule that an account can require a second factor.

func (r *queryResolver) PasskeySignIn(context.Context) (*generated.PasskeyRequest, error) {
	request, err := r.auth.PasskeySignIn()
	return newPasskeyRequest(request), err
}

// HasSecondFactor is null for callers who are neither the user nor an owner of the account.
func (r *userResolver) HasSecondFactor(ctx context.Context, obj *model.User) (*bool, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return nil, err
	}

	member := caller.User.In(obj.AccountID)
	if caller.User.ID != obj.ID && (member == nil || !member.May(model.MayManage, nil)) {
		return nil, nil
	}

	return &obj.SecondFactor, nil
}

// SecondFactors is null for other users than the caller, and for API tokens.
func (r *userResolver) SecondFactors(ctx context.Context, obj *model.User) (*generated.SecondFactors, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil || caller.User.ID != obj.ID || !caller.User.May(model.MaySecure, caller.Token) {
		return nil, err
	}

	factors, err := r.auth.SecondFactors(ctx, obj)
	if err != nil {
		return nil, err
	}

	return &generated.SecondFactors{
		TotpSince: timeOrNil(factors.TOTPSince), Passkeys: orEmpty(factors.Passkeys),
		RecoveryCodesLeft: factors.RecoveryCodes,
	}, nil
}

func (r *passkeyResolver) ID(_ context.Context, obj *model.Passkey) (string, error) {
	return r.ids.Of(model.NodePasskey, obj.ID), nil
}

func (r *passkeyResolver) LastUsedAt(_ context.Context, obj *model.Passkey) (*model.Instant, error) {
	return timeOrNil(obj.LastUsedAt), nil
}

func (r *mutationResolver) SignInWithPasskey(
	ctx context.Context, input generated.SignInWithPasskeyInput,
) (*generated.SignInWithPasskeyPayload, error) {
	answer := auth.PasskeyAnswer{Challenge: input.Challenge, Credential: input.Credential}
	user, err := r.auth.SignInWithPasskey(ctx, answer)
	return &generated.SignInWithPasskeyPayload{Viewer: user}, err
}

func (r *mutationResolver) StartTotp(
	ctx context.Context, input generated.StartTotpInput,
) (*generated.StartTotpPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}

	setup, err := r.auth.StartTOTP(ctx, input.Password)
	if err != nil {
		return nil, err
	}

	return &generated.StartTotpPayload{
		Secret: &setup.Secret, URI: &setup.URI, QRCode: &generated.QRCode{Size: setup.Size, Path: setup.Path},
	}, nil
}

func (r *mutationResolver) ConfirmTotp(
	ctx context.Context, input generated.ConfirmTotpInput,
) (*generated.ConfirmTotpPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}

	codes, err := r.auth.ConfirmTOTP(ctx, input.Code)
	if err != nil {
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	return &generated.ConfirmTotpPayload{Viewer: caller.User, RecoveryCodes: codes}, err
}

func (r *mutationResolver) DisableTotp(
	ctx context.Context, input generated.DisableTotpInput,
) (*generated.DisableTotpPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}
	if err := r.auth.DisableTOTP(ctx, input.Password); err != nil {
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	return &generated.DisableTotpPayload{Viewer: caller.User}, err
}

func (r *mutationResolver) RenewRecoveryCodes(
	ctx context.Context, input generated.RenewRecoveryCodesInput,
) (*generated.RenewRecoveryCodesPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}

	codes, err := r.auth.RenewRecoveryCodes(ctx, input.Password)
	return &generated.RenewRecoveryCodesPayload{RecoveryCodes: codes}, err
}

func (r *mutationResolver) StartPasskeyRegistration(
	ctx context.Context, input generated.StartPasskeyRegistrationInput,
) (*generated.StartPasskeyRegistrationPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}

	request, err := r.auth.StartPasskey(ctx, input.Password)
	return &generated.StartPasskeyRegistrationPayload{Request: newPasskeyRequest(request)}, err
}

func (r *mutationResolver) FinishPasskeyRegistration(
	ctx context.Context, input generated.FinishPasskeyRegistrationInput,
) (*generated.FinishPasskeyRegistrationPayload, error) {
	if _, err := r.require(ctx, model.MaySecure); err != nil {
		return nil, err
	}

	answer := auth.PasskeyAnswer{Challenge: input.Challenge, Credential: input.Credential}
	passkey, codes, err := r.auth.FinishPasskey(ctx, answer, input.Name)
	return &generated.FinishPasskeyRegistrationPayload{Passkey: passkey, RecoveryCodes: codes}, err
}

func (r *mutationResolver) RenamePasskey(
	ctx context.Context, input generated.RenamePasskeyInput,
) (*generated.RenamePasskeyPayload, error) {
	viewer, err := r.require(ctx, model.MaySecure)
	if err != nil {
		return nil, err
	}

	number, ok := r.ids.Parse(model.NodePasskey, input.PasskeyID)
	if !ok {
		return nil, notFound("passkeyId")
	}

	passkey, err := r.auth.RenamePasskey(ctx, viewer, number, input.Name)
	return &generated.RenamePasskeyPayload{Passkey: passkey}, orNotFound("passkeyId", err)
}

func (r *mutationResolver) DeletePasskey(
	ctx context.Context, input generated.DeletePasskeyInput,
) (*generated.DeletePasskeyPayload, error) {
	viewer, err := r.require(ctx, model.MaySecure)
	if err != nil {
		return nil, err
	}

	number, ok := r.ids.Parse(model.NodePasskey, input.PasskeyID)
	if !ok {
		return nil, notFound("passkeyId")
	}

	// An unknown passkey costs no check of the password.
	if _, err := r.accounts.Passkey(ctx, viewer.ID, number); err != nil {
		return nil, orNotFound("passkeyId", err)
	}

	passkey, err := r.auth.DeletePasskey(ctx, input.Password, number)
	return &generated.DeletePasskeyPayload{Passkey: passkey}, err
}

func (r *mutationResolver) SetAccountSecurity(
	ctx context.Context, input generated.SetAccountSecurityInput,
) (*generated.SetAccountSecurityPayload, error) {
	viewer, err := r.requireIn(ctx, model.MayManage, input.AccountID)
	if err != nil {
		return nil, err
	}

	account, err := r.auth.SetAccountSecurity(ctx, viewer.AccountID, input.Password, input.RequireSecondFactor)
	return &generated.SetAccountSecurityPayload{Account: account}, err
}

// passkey returns one of the caller's passkeys by its global id; nil for callers without a session.
func (r *Resolver) passkey(ctx context.Context, viewer *model.User, id string) (*model.Passkey, error) {
	number, ok := r.ids.Parse(model.NodePasskey, id)
	if !ok {
		return nil, nil
	}
	if personal, err := auth.MayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	return orNull(r.accounts.Passkey(ctx, viewer.ID, number))
}

func newPasskeyRequest(request *auth.PasskeyRequest) *generated.PasskeyRequest {
	if request == nil {
		return nil
	}
	return &generated.PasskeyRequest{Challenge: request.Challenge, Options: request.Options}
}

func passkeyAnswer(input *generated.PasskeyAnswerInput) *auth.PasskeyAnswer {
	if input == nil {
		return nil
	}
	return &auth.PasskeyAnswer{Challenge: input.Challenge, Credential: input.Credential}
}

// SecondFactorRule is the extension that closes the fields of an account to a user who lacks the second
// factor that the account requires. The root fields check it with the permission; these fields are
// reached through the user.
type SecondFactorRule struct{}

var _ graphql.FieldInterceptor = SecondFactorRule{}

// ExtensionName implements graphql.HandlerExtension.
func (SecondFactorRule) ExtensionName() string { return "SecondFactorRule" }

// Validate implements graphql.HandlerExtension.
func (SecondFactorRule) Validate(graphql.ExecutableSchema) error { return nil }

// openAccountFields are the fields of an account that such a user may read.
var openAccountFields = map[string]bool{
	"__typename": true, "id": true, "name": true, "createdAt": true, "requireSecondFactor": true, "viewerRole": true,
	"suspension": true,
}

// InterceptField fails with SECOND_FACTOR_REQUIRED for a closed field of an account.
func (SecondFactorRule) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if field.Object != "Account" || openAccountFields[field.Field.Name] {
		return next(ctx)
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.User != nil && accountOf(field).Bars(caller.User) {
		return nil, model.ErrSecondFactorRequired
	}

	return next(ctx)
}

// accountOf returns the account whose field is resolved.
func accountOf(field *graphql.FieldContext) *model.Account {
	if field.Parent == nil {
		return nil
	}

	switch account := field.Parent.Result.(type) {
	case *model.Account:
		return account
	case **model.Account:
		return *account
	}

	return nil
}
