package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Second factors and passkeys of the caller.

func (r *queryResolver) PasskeySignIn(context.Context) (*generated.PasskeyRequest, error) {
	request, err := r.auth.Passkeys.StartSignIn()
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

	factors, err := r.auth.SecondFactors.Of(ctx, obj)
	if err != nil {
		return nil, err
	}

	return &generated.SecondFactors{
		TotpSince: &factors.TOTPSince, Passkeys: orEmpty(factors.Passkeys),
		RecoveryCodesLeft: factors.RecoveryCodes,
	}, nil
}

func (r *mutationResolver) SignInWithPasskey(
	ctx context.Context, input generated.SignInWithPasskeyInput,
) (*generated.SignInWithPasskeyPayload, error) {
	answer := auth.PasskeyAnswer{Challenge: input.Challenge, Credential: input.Credential}
	user, err := r.auth.Passkeys.SignIn(ctx, answer)
	return &generated.SignInWithPasskeyPayload{Viewer: user}, err
}

func (r *mutationResolver) StartTotp(
	ctx context.Context, input generated.StartTotpInput,
) (*generated.StartTotpPayload, error) {
	setup, err := r.auth.SecondFactors.StartTOTP(ctx, input.Password)
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
	codes, err := r.auth.SecondFactors.ConfirmTOTP(ctx, input.Code)
	if err != nil {
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	return &generated.ConfirmTotpPayload{Viewer: caller.User, RecoveryCodes: codes}, err
}

func (r *mutationResolver) DisableTotp(
	ctx context.Context, input generated.DisableTotpInput,
) (*generated.DisableTotpPayload, error) {
	if err := r.auth.SecondFactors.DisableTOTP(ctx, input.Password); err != nil {
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	return &generated.DisableTotpPayload{Viewer: caller.User}, err
}

func (r *mutationResolver) RenewRecoveryCodes(
	ctx context.Context, input generated.RenewRecoveryCodesInput,
) (*generated.RenewRecoveryCodesPayload, error) {
	codes, err := r.auth.SecondFactors.RenewRecoveryCodes(ctx, input.Password)
	return &generated.RenewRecoveryCodesPayload{RecoveryCodes: codes}, err
}

func (r *mutationResolver) StartPasskeyRegistration(
	ctx context.Context, input generated.StartPasskeyRegistrationInput,
) (*generated.StartPasskeyRegistrationPayload, error) {
	request, err := r.auth.Passkeys.StartCreation(ctx, input.Password)
	return &generated.StartPasskeyRegistrationPayload{Request: newPasskeyRequest(request)}, err
}

func (r *mutationResolver) FinishPasskeyRegistration(
	ctx context.Context, input generated.FinishPasskeyRegistrationInput,
) (*generated.FinishPasskeyRegistrationPayload, error) {
	answer := auth.PasskeyAnswer{Challenge: input.Challenge, Credential: input.Credential}
	passkey, codes, err := r.auth.Passkeys.FinishCreation(ctx, answer, input.Name)
	return &generated.FinishPasskeyRegistrationPayload{Passkey: passkey, RecoveryCodes: codes}, err
}

func (r *mutationResolver) RenamePasskey(
	ctx context.Context, input generated.RenamePasskeyInput,
) (*generated.RenamePasskeyPayload, error) {
	viewer, id := granted[model.PasskeyID](ctx)
	passkey, err := r.auth.Passkeys.Rename(ctx, viewer, id, input.Name)
	return &generated.RenamePasskeyPayload{Passkey: passkey}, err
}

func (r *mutationResolver) DeletePasskey(
	ctx context.Context, input generated.DeletePasskeyInput,
) (*generated.DeletePasskeyPayload, error) {
	viewer, id := granted[model.PasskeyID](ctx)

	// An unknown passkey costs no check of the password.
	if _, err := r.accounts.Passkeys.Get(ctx, viewer.ID, id); err != nil {
		return nil, err
	}

	passkey, err := r.auth.Passkeys.Delete(ctx, input.Password, id)
	return &generated.DeletePasskeyPayload{Passkey: passkey}, err
}

func (r *mutationResolver) SetAccountSecurity(
	ctx context.Context, input generated.SetAccountSecurityInput,
) (*generated.SetAccountSecurityPayload, error) {
	owner := memberOf(ctx)
	account, err := r.auth.SecondFactors.SetAccountSecurity(ctx, owner.AccountID, input.Password, input.RequireSecondFactor)
	return &generated.SetAccountSecurityPayload{Account: account}, err
}

// passkey returns one of the caller's passkeys by its global id; nil for callers without a session.
func (r *Resolver) passkey(ctx context.Context, viewer *model.User, id string) (*model.Passkey, error) {
	number, ok := nodeid.Parse[model.PasskeyID](r.ids, id)
	if !ok {
		return nil, nil
	}
	if personal, err := auth.MayPersonal(ctx); !personal || err != nil {
		return nil, err
	}

	return orNull(r.accounts.Passkeys.Get(ctx, viewer.ID, model.PasskeyID(number)))
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
