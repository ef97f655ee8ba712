package auth

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// This file is what works by a secret that was mailed: a forgotten password and an invitation. The tables of what it opens
// have only its hash; the secret itself is in the mail, for as long as that is on its way.

// RequestPasswordReset mails a secret that opens the account of this address for an hour. For an address that nobody has,
// nothing is mailed, and neither the answer nor its time tells that.
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
	return a.db.RequestPasswordReset(ctx, address, model.HashToken(secret), expires, mail)
}

// ResetPassword changes the password of whoever has the mailed secret, once. It ends all sessions and signs nobody in.
func (a *Auth) ResetPassword(ctx context.Context, secret, password string) error {
	hash, err := a.redeem(ctx, model.ResetPrefix, secret, password)
	if err != nil {
		return err
	}
	return a.db.ResetPassword(ctx, model.HashToken(secret), hash, model.At(a.now()))
}

// Invite mails an invitation to the caller's account. The caller has been found to manage it.
func (a *Auth) Invite(ctx context.Context, by *model.User, email string, role model.Role) (*model.Invitation, error) {
	address, err := model.ParseEmail(email)
	if err != nil {
		return nil, err
	}
	if err := a.count(ctx, a.inviteLimits(by.AccountID)); err != nil {
		return nil, err
	}
	now := model.At(a.now())
	expires := now.Add(model.InvitationLifetime)
	secret := model.NewSecret(model.InvitationPrefix)
	mail, err := a.mail(model.MailInvitation, InvitationPage, secret, by.Account.Name)
	if err != nil {
		return nil, err
	}
	mail.AccountID, mail.Recipient = by.AccountID, address
	return a.db.Invite(ctx, model.Invitation{
		AccountID: by.AccountID, Email: address, Role: role, TokenHash: model.HashToken(secret), CreatedAt: now, ExpiresAt: expires,
	}, mail)
}

// AcceptInvitation makes a member of whoever has the mailed secret, with a password of their own, and signs them in.
func (a *Auth) AcceptInvitation(ctx context.Context, secret, password string) (*model.User, error) {
	hash, err := a.redeem(ctx, model.InvitationPrefix, secret, password)
	if err != nil {
		return nil, err
	}
	user, err := a.db.Accept(ctx, model.HashToken(secret), hash, model.At(a.now()))
	if err != nil {
		return nil, err
	}
	return a.welcome(visitorOf(ctx), user)
}

// redeem hashes the password that goes with a mailed secret. A secret without the right form is refused before that.
func (a *Auth) redeem(ctx context.Context, prefix, secret, password string) (hash string, err error) {
	v, err := byPassword(ctx)
	if err != nil {
		return "", err
	}
	var wrong error
	if !model.IsSecret(prefix, secret) {
		wrong = db.ErrInvalidToken
	}
	if err := errors.Join(wrong, model.CheckPassword(password)); err != nil {
		return "", err
	}
	if err := a.count(ctx, a.secretLimits(v.r)); err != nil {
		return "", err
	}
	return a.passwords.hash(ctx, password)
}

// mail is a message with a link that carries a secret.
func (a *Auth) mail(kind, page, secret, accountName string) (model.Mail, error) {
	data, err := json.Marshal(model.LinkMail{URL: a.baseURL + page + "#" + secret, Account: accountName})
	now := model.At(a.now())
	return model.Mail{Kind: kind, Data: string(data), CreatedAt: now, NextAttemptAt: now, State: model.MailPending}, err
}
