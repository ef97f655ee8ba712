package auth

import (
	"context"
	"errors"
	"net/http"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// SignUp creates an account and its first user, and signs that user in; or it mails a link that
// does, and returns no user.
//
// The first account of an installation, and all accounts of one that sends no mails, are created at
// once. In all other cases the address is verified first: nothing but a pending sign-up exists
// before ConfirmSignUp, and the answer, its time and what is stored are the same for an address
// that has an account.
//
// Input that does not follow its rule is reported as one or more joined model.Errors with the
// fields email, password and accountName.
func (a *Auth) SignUp(ctx context.Context, email, password, accountName string) (user *model.User, mailed bool, err error) {
	v, err := byPassword(ctx)
	if err != nil {
		return nil, false, err
	}

	address, emailErr := model.ParseEmail(email)
	name, nameErr := model.ParseAccountName("accountName", accountName)
	if err := errors.Join(emailErr, model.CheckPassword(password), nameErr); err != nil {
		return nil, false, err
	}

	// Ask before hashing: a closed installation must not be made to work. What follows decides.
	if open, err := a.accounts.SignupsOpen(ctx, a.signups); err != nil {
		return nil, false, err
	} else if !open {
		return nil, false, accounts.ErrSignupsClosed
	}

	leave, err := a.admit(ctx, false, a.signUpLimits(v.r, address))
	if err != nil {
		return nil, false, err
	}
	defer leave()

	hash, err := a.passwords.hash(ctx, password)
	if err != nil {
		return nil, false, err
	}

	now := model.At(a.now())
	signUp := model.PendingSignUp{Email: address, AccountName: name, PasswordHash: hash, CreatedAt: now}
	user, err = a.signUpAtOnce(ctx, signUp)
	switch {
	case err == nil:
		user, err = a.welcome(v, user)
		return user, false, err
	case errors.Is(err, errVerify):
		return nil, true, a.requestSignUp(ctx, signUp)
	}

	return nil, false, err
}

// errVerify says that an address must be verified before its account exists.
var errVerify = errors.New("verify the address first")

// signUpAtOnce creates an account that needs no verified address, or fails with errVerify.
func (a *Auth) signUpAtOnce(ctx context.Context, signUp model.PendingSignUp) (*model.User, error) {
	policy := a.signups
	if policy == model.SignupsOpen && !a.noMail {
		// Only the first account is created at once. Most sign-ups find that out without a
		// transaction.
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
		model.User{Email: signUp.Email, PasswordHash: signUp.PasswordHash, CreatedAt: signUp.CreatedAt})

	// another sign-up was first
	if errors.Is(err, accounts.ErrSignupsClosed) && policy != a.signups {
		return nil, errVerify
	}

	return user, err
}

// requestSignUp stores a sign-up and mails its link, or to an address that has an account a hint.
func (a *Auth) requestSignUp(ctx context.Context, signUp model.PendingSignUp) error {
	secret := model.NewSecret(model.SignUpPrefix)
	signUp.TokenHash = model.HashToken(secret)
	signUp.ExpiresAt = signUp.CreatedAt.Add(model.SignUpLifetime)

	confirm, err := a.mail(model.MailSignUp, SignUpPage, secret, "")
	if err != nil {
		return err
	}

	known, err := a.mail(model.MailSignUpKnown, "/", "", "")
	if err != nil {
		return err
	}

	return a.accounts.RequestSignUp(ctx, signUp, confirm, known)
}

// ConfirmSignUp creates the account of a sign-up by its mailed secret, once, and signs its user in.
// The caller must also know the password of the sign-up: otherwise a person could sign up with
// another one's address and a password of their own, and wait until the other one follows the link.
//
// Wrong secrets and wrong passwords count as attempts to use a mailed secret. It fails with the
// model.Errors invalid_token, wrong_credentials, email_taken and signups_closed.
func (a *Auth) ConfirmSignUp(ctx context.Context, secret, password string) (*model.User, error) {
	v, err := byPassword(ctx)
	if err != nil {
		return nil, err
	}
	if !model.IsSecret(model.SignUpPrefix, secret) {
		return nil, errInvalidSecret
	}
	if model.CheckPassword(password) != nil {
		return nil, wrongPassword("password")
	}

	limits := a.secretLimits(v.r)
	leave, err := a.admit(ctx, false, limits)
	if err != nil {
		return nil, err
	}
	defer leave()

	user, err := a.confirmSignUp(ctx, model.HashToken(secret), password)
	if err != nil {
		if errors.Is(err, accounts.ErrInvalidToken) {
			return nil, errInvalidSecret
		}
		if wrong := model.KindOf(err) == model.Invalid; !wrong && ctx.Err() == nil {
			err = a.takeBack(ctx, limits, err)
		}

		return nil, err
	}

	// the account is there, whatever the counter says
	_ = a.takeBack(ctx, limits, nil)
	return a.welcome(v, user)
}

// errInvalidSecret is db.ErrInvalidToken under the name of ConfirmSignUp's field.
var errInvalidSecret = model.InvalidField("secret", accounts.ErrInvalidToken.Code, accounts.ErrInvalidToken.Message)

func (a *Auth) confirmSignUp(ctx context.Context, tokenHash []byte, password string) (*model.User, error) {
	now := model.At(a.now())
	signUp, err := a.accounts.PendingSignUp(ctx, tokenHash, now)
	if err != nil {
		return nil, err
	}

	ok, _, err := a.passwords.check(ctx, password, signUp.PasswordHash)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, wrongPassword("password")
	}

	return a.accounts.ConfirmSignUp(ctx, a.signups, tokenHash, a.captchaPlan, now)
}

// signUpLimits hold attempts to sign up against the e-mail address and the network.
func (a *Auth) signUpLimits(r *http.Request, address string) []accounts.SignInLimit {
	return append(a.networkLimits(r, "sign-up network", networkSignUps),
		accounts.SignInLimit{Key: a.throttle.hash("sign-up address", []byte(address)), Free: accountSignUps, Cap: longestDelay})
}
