package auth

import (
	"context"
	"errors"
	"net/http"
	"strconv"

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

	r, user, err := a.confirm(ctx, "password", password, mistakes)
	if err != nil {
		return err
	}
	if address == user.Email {
		return errSameEmail
	}
	if err := a.count(ctx, a.emailLimits(r.http, user.ID, address)); err != nil {
		return err
	}

	secret := model.NewSecret(model.EmailPrefix)
	change := accounts.EmailChange{
		Email: address, TokenHash: model.HashToken(secret), At: model.At(a.now()),
	}
	if change.Confirm, err = a.linkMail(r.http, model.MailEmailChange, EmailPage, secret); err != nil {
		return err
	}
	if change.Known, err = a.linkMail(r.http, model.MailEmailKnown, "/sign-in", ""); err != nil {
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

	limits := a.secretLimits(r.http)
	if err := a.count(ctx, limits); err != nil {
		return "", err
	}

	email, err := a.accounts.ConfirmEmailChange(ctx, model.HashToken(secret), current, model.At(a.now()))
	switch {
	case errors.Is(err, accounts.ErrInvalidToken):
		return "", errInvalidSecret
	case err != nil:
		return "", a.uncount(ctx, limits, err)
	}

	// The address has changed: an error of the counter must not undo that.
	_ = a.uncount(ctx, limits, nil)

	if caller, err := r.identify(); err == nil && caller.User != nil {
		_, err = r.reload(ctx)
		return email, err
	}

	return email, nil
}

// emailLimits returns the counters of requests to change an address, each of which sends two mails:
// by user, by new address and by network.
func (a *Auth) emailLimits(r *http.Request, userID int64, address string) []accounts.SignInLimit {
	user := strconv.AppendInt(nil, userID, 10)
	return append(
		a.networkLimits(r, "email network", networkResets),
		accounts.SignInLimit{Key: a.throttle.hash("email user", user), Free: userEmails, Cap: longestDelay},
		accounts.SignInLimit{Key: a.throttle.hash("email address", []byte(address)), Free: accountResets, Cap: longestDelay},
	)
}
