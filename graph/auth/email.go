package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// RequestEmailChange mails a secret that changes the address of the signed-in user within an hour
// to the new address, and a notice to the old one, after checking the password. For an address that
// belongs to a user, the response is the same and the mail has no secret.
func (a *Auth) RequestEmailChange(ctx context.Context, email, password string) error {
	address, mistakes := model.ParseEmail(email)
	if mistakes == nil && a.noMail {
		mistakes = errNoMailToConfirm
	}

	r, user, err := a.passwords.confirm(ctx, "password", password, mistakes)
	if err != nil {
		return err
	}
	if address == user.Email {
		return errSameEmail
	}
	if err := a.throttle.count(ctx, a.throttle.emailLimits(r.http, user.ID, address)); err != nil {
		return err
	}

	secret := model.NewSecret(model.EmailPrefix)
	change := accounts.EmailChange{
		Email: address, TokenHash: model.HashToken(secret), At: model.At(a.now()),
	}
	if change.Confirm, err = a.Links.mail(r.http, model.MailEmailChange, EmailPage, secret); err != nil {
		return err
	}
	if change.Known, err = a.Links.mail(r.http, model.MailEmailKnown, "/sign-in", ""); err != nil {
		return err
	}

	err = a.accounts.RequestEmailChange(ctx, user, change)

	// The password has changed since it was checked.
	if model.KindOf(err) == model.NotFound {
		return wrongPassword("password")
	}

	return err
}

var (
	errSameEmail = model.InvalidField("email", "invalid_email", "This is your address already.")

	errNoMailToConfirm = &model.Error{
		Kind: model.Conflict, Code: "no_mail_server",
		Message: "This installation sends no mail, so an address cannot be confirmed.",
	}
)

// ConfirmEmailChange consumes a mailed secret and changes the address of its user. It ends the
// user's sessions except the request's own. It returns the new address.
func (a *Auth) ConfirmEmailChange(ctx context.Context, secret string) (string, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return "", err
	}
	if !model.IsSecret(model.EmailPrefix, secret) {
		return "", errInvalidSecret
	}

	current, err := CurrentSession(ctx)
	if err != nil {
		return "", err
	}

	limits := a.throttle.secretLimits(r.http)
	if err := a.throttle.count(ctx, limits); err != nil {
		return "", err
	}

	email, err := a.accounts.ConfirmEmailChange(ctx, model.HashToken(secret), current, model.At(a.now()))
	switch {
	case errors.Is(err, accounts.ErrInvalidToken):
		return "", errInvalidSecret
	case err != nil:
		return "", a.throttle.uncount(ctx, limits, err)
	}

	// The address has changed: an error of the counter must not undo that.
	_ = a.throttle.uncount(ctx, limits, nil)

	if caller, err := r.identify(); err == nil && caller.User != nil {
		_, err = r.reload(ctx)
		return email, err
	}

	return email, nil
}
