package auth

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// This file is what works by a secret that was mailed: a forgotten password and an invitation. The
// tables of what it opens have only its hash; the secret itself is in the mail, for as long as that
// is on its way.

// RequestPasswordReset mails a secret that opens the account of this address for an hour. For an
// address that nobody has, nothing is mailed, and neither the answer nor its time tells that.
func (a *Auth) RequestPasswordReset(ctx context.Context, email string) error {
	v, err := byPassword(ctx)
	if err != nil {
		return err
	}

	address, err := model.ParseEmail(email)
	if err != nil {
		return err
	}
	if err := a.count(ctx, a.resetLimits(v.r, address)); err != nil {
		return err
	}

	secret := model.NewSecret(model.ResetPrefix)
	expires := model.At(a.now()).Add(model.ResetLifetime)

	mail, err := a.mail(model.MailPasswordReset, ResetPage, secret, "")
	if err != nil {
		return err
	}

	return a.accounts.RequestPasswordReset(ctx, address, model.HashToken(secret), expires, mail)
}

// ResetPassword changes the password by a mailed secret, which works once. It ends all sessions and
// starts none. The user's API tokens stay valid and are returned.
func (a *Auth) ResetPassword(ctx context.Context, secret, password string) (tokens []*model.APIToken, err error) {
	err = a.redeem(ctx, model.ResetPrefix, secret, password, func(tokenHash []byte, passwordHash string, now model.Instant) error {
		tokens, err = a.accounts.ResetPassword(ctx, tokenHash, a.passwordChange(passwordHash, now))
		return err
	})
	return tokens, err
}

var errNoMail = &model.Error{
	Kind: model.Conflict, Code: "no_mail_server",
	Message: "This installation sends no mail. Whoever runs it can make a link to hand over: tallygate admin invite.",
}

// Invite mails an invitation to the caller's account. The caller has been found to manage it.
func (a *Auth) Invite(ctx context.Context, by *model.User, email string, role model.Role) (*model.Invitation, error) {
	address, err := model.ParseEmail(email)
	if err != nil {
		return nil, err
	}
	if a.noMail {
		return nil, errNoMail
	}

	secret := model.NewSecret(model.InvitationPrefix)
	mail, err := a.mail(model.MailInvitation, InvitationPage, secret, by.Account.Name)
	if err != nil {
		return nil, err
	}

	mail.AccountID, mail.Recipient = by.AccountID, address
	limits := a.inviteLimits(address)
	if err := a.count(ctx, limits); err != nil {
		return nil, err
	}

	invitation, err := a.accounts.Invite(ctx, model.NewInvitation(by.AccountID, address, role, secret, model.At(a.now())), &mail)

	// nothing is mailed
	if err != nil {
		return nil, a.takeBack(ctx, limits, err)
	}

	return invitation, nil
}

// AcceptInvitation makes a member of whoever has the mailed secret, with a password of their own,
// and signs them in.
func (a *Auth) AcceptInvitation(ctx context.Context, secret, password string) (user *model.User, err error) {
	err = a.redeem(ctx, model.InvitationPrefix, secret, password, func(tokenHash []byte, passwordHash string, now model.Instant) error {
		user, err = a.accounts.Accept(ctx, tokenHash, passwordHash, now)
		return err
	})
	if err != nil {
		return nil, err
	}

	return a.welcome(visitorOf(ctx), user)
}

// redeem hashes the password that goes with a mailed secret, and uses both. A secret without the
// right form is refused before that. Only secrets that turn out to be wrong count as attempts, and
// those whose caller did not wait to hear it.
func (a *Auth) redeem(ctx context.Context, prefix, secret, password string,
	use func(tokenHash []byte, passwordHash string, now model.Instant) error,
) error {
	v, err := byPassword(ctx)
	if err != nil {
		return err
	}

	var wrong error

	if !model.IsSecret(prefix, secret) {
		wrong = accounts.ErrInvalidToken
	}
	if err := errors.Join(wrong, model.CheckPassword(password)); err != nil {
		return err
	}

	limits := a.secretLimits(v.r)
	leave, err := a.admit(ctx, false, limits)
	if err != nil {
		return err
	}
	defer leave()

	hash, err := a.passwords.hash(ctx, password)
	if err != nil {
		return a.takeBack(ctx, limits, err)
	}

	err = use(model.HashToken(secret), hash, model.At(a.now()))
	switch {
	case err == nil:
		// the secret is used up, whatever the counter says
		_ = a.takeBack(ctx, limits, nil)
	case !errors.Is(err, accounts.ErrInvalidToken) && ctx.Err() == nil:
		err = a.takeBack(ctx, limits, err)
	}

	return err
}

// mail is a message with a link that carries a secret, or none when that is empty.
func (a *Auth) mail(kind, page, secret, accountName string) (model.Mail, error) {
	address := a.baseURL + page
	if secret != "" {
		address += "#" + secret
	}
	data, err := json.Marshal(model.LinkMail{URL: address, Account: accountName})
	now := model.At(a.now())
	return model.Mail{Kind: kind, Data: string(data), CreatedAt: now, NextAttemptAt: now, State: model.MailPending}, err
}
