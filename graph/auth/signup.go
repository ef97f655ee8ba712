package auth

import (
	"context"
	"errors"
	"net/http"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// SignUp creates an account with its first user, and signs that user in. Or it mails a link for
// ConfirmSignUp and returns no user and mailed.
//
// The first account of an installation is created immediately, and so is every account of an
// installation that sends no mail. Otherwise the address is verified first: only a pending sign-up
// exists before ConfirmSignUp. The response, its time and the stored rows are the same for an
// address that has an account.
//
// Invalid input is reported as one or more joined model.Errors with the fields email, password and
// accountName.
func (a *Auth) SignUp(
	ctx context.Context, email, password, accountName string,
) (user *model.User, mailed bool, err error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, false, err
	}

	address, emailErr := model.ParseEmail(email)
	name, nameErr := model.ParseAccountName("accountName", accountName)
	if err := errors.Join(emailErr, model.CheckPassword(password), nameErr); err != nil {
		return nil, false, err
	}

	// Check before hashing, so that callers cannot load a closed installation. The transaction
	// below checks again.
	if open, err := a.accounts.SignupsOpen(ctx, a.signups); err != nil {
		return nil, false, err
	} else if !open {
		return nil, false, accounts.ErrSignupsClosed
	}

	release, err := a.passwords.admit(ctx, false, a.throttle.signUpLimits(r.http, address))
	if err != nil {
		return nil, false, err
	}
	defer release()

	hash, err := a.passwords.hasher.hash(ctx, password)
	if err != nil {
		return nil, false, err
	}

	now := model.At(a.now())
	signUp := model.PendingSignUp{Email: address, AccountName: name, PasswordHash: hash, CreatedAt: now}
	user, err = a.signUpDirectly(ctx, signUp, requestLanguage(r.http))
	switch {
	case err == nil:
		user, err = r.begin(ctx, user, accounts.SessionStart{})
		return user, false, err
	case errors.Is(err, errVerify):
		return nil, true, a.requestSignUp(ctx, r.http, signUp)
	}

	return nil, false, err
}

// SignUpsOpen reports whether SignUp accepts a new account now, and whether that would be the first
// one. An installation without sign-ups does not reveal whether it has accounts.
func (a *Auth) SignUpsOpen(ctx context.Context) (open, first bool, err error) {
	if open, err = a.accounts.SignupsOpen(ctx, a.signups); err != nil || !open {
		return false, false, err
	}
	if a.signups == model.SignupsFirstOnly {
		return true, true, nil
	}

	first, err = a.accounts.SignupsOpen(ctx, model.SignupsFirstOnly)
	return true, first, err
}

// errVerify means that an address must be verified before its account is created.
var errVerify = errors.New("the address must be verified first")

// signUpDirectly creates an account without a verified address, or fails with errVerify.
func (a *Auth) signUpDirectly(
	ctx context.Context, signUp model.PendingSignUp, language model.Language,
) (*model.User, error) {
	policy := a.signups
	if policy == model.SignupsOpen && !a.noMail {
		// Only the first account is created directly. Check that without a transaction first: most
		// sign-ups are not the first.
		policy = model.SignupsFirstOnly
		first, err := a.accounts.SignupsOpen(ctx, policy)
		if err != nil {
			return nil, err
		}
		if !first {
			return nil, errVerify
		}
	}

	user, err := a.accounts.SignUp(ctx, policy,
		model.Account{Name: signUp.AccountName, CaptchaPlan: a.captchaPlan, CreatedAt: signUp.CreatedAt},
		model.User{
			Email: signUp.Email, PasswordHash: signUp.PasswordHash, Language: language, CreatedAt: signUp.CreatedAt,
		})

	// A concurrent sign-up was first.
	if errors.Is(err, accounts.ErrSignupsClosed) && policy != a.signups {
		return nil, errVerify
	}

	return user, err
}

// requestSignUp stores a sign-up and mails its link; an address that has an account gets a notice
// instead.
func (a *Auth) requestSignUp(ctx context.Context, r *http.Request, signUp model.PendingSignUp) error {
	secret := model.NewSecret(model.SignUpPrefix)
	signUp.TokenHash = model.HashToken(secret)
	signUp.ExpiresAt = signUp.CreatedAt.Add(model.SignUpLifetime)

	confirm, err := a.Links.mail(r, model.MailSignUp, SignUpPage, secret)
	if err != nil {
		return err
	}

	known, err := a.Links.mail(r, model.MailSignUpKnown, "/sign-in", "")
	if err != nil {
		return err
	}

	return a.accounts.RequestSignUp(ctx, signUp, confirm, known)
}

// ConfirmSignUp consumes the mailed secret of a sign-up, creates its account and signs its user in.
// It also requires the password of the sign-up: otherwise an attacker could sign up with another
// person's address and an own password, and wait until that person follows the link.
//
// Wrong secrets and wrong passwords count as attempts to use a mailed secret. It fails with the
// model.Errors invalid_token, wrong_credentials, email_taken and signups_closed.
func (a *Auth) ConfirmSignUp(ctx context.Context, secret, password string) (*model.User, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	if !model.IsSecret(model.SignUpPrefix, secret) {
		return nil, errInvalidSecret
	}
	if !model.IsPassword(password) {
		return nil, wrongPassword("password")
	}

	limits := a.throttle.secretLimits(r.http)
	release, err := a.passwords.admit(ctx, false, limits)
	if err != nil {
		return nil, err
	}
	defer release()

	user, err := a.confirmSignUp(ctx, model.HashToken(secret), password, requestLanguage(r.http))
	if err != nil {
		if errors.Is(err, accounts.ErrInvalidToken) {
			return nil, errInvalidSecret
		}
		if wrong := model.KindOf(err) == model.Invalid; !wrong && ctx.Err() == nil {
			err = a.throttle.uncount(ctx, limits, err)
		}

		return nil, err
	}

	// The account is created: an error of the counter must not undo that.
	_ = a.throttle.uncount(ctx, limits, nil)
	return r.begin(ctx, user, accounts.SessionStart{})
}

func (a *Auth) confirmSignUp(
	ctx context.Context, tokenHash []byte, password string, language model.Language,
) (*model.User, error) {
	now := model.At(a.now())
	signUp, err := a.accounts.PendingSignUp(ctx, tokenHash, now)
	if err != nil {
		return nil, err
	}

	ok, _, err := a.passwords.hasher.check(ctx, password, signUp.PasswordHash)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, wrongPassword("password")
	}

	return a.accounts.ConfirmSignUp(ctx, a.signups, tokenHash, a.captchaPlan, language, now)
}
