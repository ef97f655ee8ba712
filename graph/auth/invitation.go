package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// SendsMail reports whether invitations and other links can be mailed.
func (a *Auth) SendsMail() bool { return !a.noMail }

// Invite mails an invitation to the account of by, or to some of its sites if siteIDs is not nil.
// The caller must have checked that by may manage it.
func (a *Auth) Invite(
	ctx context.Context, by *model.User, email string, role model.Role, siteIDs []model.SiteID,
) (*model.Invitation, error) {
	address, err := model.ParseEmail(email)
	if err := errors.Join(err, model.CheckGuest(role, siteIDs)); err != nil {
		return nil, err
	}
	if a.noMail {
		return nil, errNoMail
	}

	secret := model.NewSecret(model.InvitationPrefix)
	mail, err := a.Links.mailOf(requestOf(ctx).http, model.MailInvitation, outbox.InvitationMail{
		LinkMail: a.Links.to(InvitationPage, secret), By: by.Email, To: address, Role: role, Sites: len(siteIDs),
	})
	if err != nil {
		return nil, err
	}

	mail.AccountID, mail.Recipient = by.AccountID, address
	limits := a.throttle.inviteLimits(address)
	if err := a.throttle.count(ctx, limits); err != nil {
		return nil, err
	}

	made := model.NewInvitation(by.AccountID, address, role, secret, model.At(a.now()))
	made.InvitedBy, made.SiteIDs = by.ID, siteIDs
	invitation, err := a.accounts.Invitations.Create(ctx, made, &mail)

	// No mail is sent, so the attempt does not count.
	if err != nil {
		return nil, a.throttle.uncount(ctx, limits, err)
	}

	return invitation, nil
}

// Offer returns the invitation with a mailed secret, or nil if the secret is wrong, was used or has
// expired. A secret has 128 bits or more, so wrong ones need no throttle.
func (a *Auth) Offer(ctx context.Context, secret string) (*model.InvitationOffer, error) {
	if !model.IsSecret(model.InvitationPrefix, secret) {
		return nil, nil
	}

	offer, err := a.accounts.Invitations.Offer(ctx, model.HashToken(secret), model.At(a.now()))
	if errors.Is(err, accounts.ErrInvalidToken) {
		return nil, nil
	}
	return offer, err
}

// AcceptInvitation adds the invited person to the account, consumes the mailed secret and signs the
// user in. It returns the user as a member of that account.
//
// For an address without a user it creates the user with the password. A person who has a user
// proves it with the session of the request, unless an account's provider has started it, or else
// with the user's password and the second factor, a code, if the user has one. Wrong ones count as
// at SignIn, a wrong secret as an attempt to use a mailed secret.
func (a *Auth) AcceptInvitation(
	ctx context.Context, secret string, password *string, code string,
) (*model.User, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	if !model.IsSecret(model.InvitationPrefix, secret) {
		return nil, accounts.ErrInvalidToken
	}

	invitation, user, err := a.accounts.Invitations.Invited(ctx, model.HashToken(secret), model.At(a.now()))
	if errors.Is(err, accounts.ErrInvalidToken) {
		if err := a.throttle.count(ctx, a.throttle.secretLimits(r.http)); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}

	caller, err := r.identify()
	if err == nil {
		err = a.checkReach(ctx, invitation, user)
	}
	switch {
	case err != nil:
		return nil, err
	case user != nil && caller.User != nil && caller.User.ID == user.ID && !caller.User.IsThroughAccount():
		return a.joinSignedIn(ctx, r, secret, caller.User)
	case password == nil:
		return nil, errPasswordRequired
	case user != nil:
		return a.joinWithPassword(ctx, r, secret, user.Email, *password, code)
	}

	return a.joinAsNewUser(ctx, r, secret, *password)
}

// checkReach fails with ErrProviderRequired, before anything is consumed, if the person could not
// sign in to any account after joining: the account requires its provider, which uses the
// invitation at the person's first sign-in.
func (a *Auth) checkReach(ctx context.Context, invitation *model.Invitation, user *model.User) error {
	if invitation.Role == model.RoleOwner || invitation.SiteIDs != nil || user != nil && user.Through(nil) != nil {
		return nil
	}

	required, err := a.accounts.Providers.Required(ctx, invitation.AccountID)
	if err == nil && required {
		return ErrProviderRequired
	}
	return err
}

var errPasswordRequired = model.InvalidField("password", "password_required", "Enter a password.")

// joinAsNewUser creates the user of an invited person.
func (a *Auth) joinAsNewUser(ctx context.Context, r *request, secret, password string) (user *model.User, err error) {
	language := requestLanguage(r.http)
	err = a.redeem(
		ctx, model.InvitationPrefix, secret, password,
		func(tokenHash []byte, passwordHash string, now model.Instant) error {
			user, err = a.accounts.Invitations.Accept(ctx, tokenHash, passwordHash, language, now)
			return err
		},
	)
	if err != nil {
		return nil, err
	}

	return r.begin(ctx, user, accounts.SessionStart{})
}

// joinSignedIn adds the signed-in user to the account of an invitation.
func (a *Auth) joinSignedIn(ctx context.Context, r *request, secret string, user *model.User) (*model.User, error) {
	joined, err := a.accounts.Invitations.AcceptAs(ctx, model.HashToken(secret), user, model.At(a.now()))

	// A change of the password has ended the session since.
	if model.KindOf(err) == model.NotFound {
		return nil, ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}

	reloaded, err := r.reload(ctx)
	if err != nil || reloaded == nil {
		return nil, err
	}
	return reachedIn(reloaded, joined.AccountID), nil
}

// reachedIn returns a user of a session as a member of an account, or of the default account if
// that one requires its provider.
func reachedIn(user *model.User, accountID model.AccountID) *model.User {
	if in := user.In(accountID); in != nil {
		return in
	}
	return user
}

// joinWithPassword adds the user with this address to the account of an invitation after checking
// the user's password, and signs the user in.
func (a *Auth) joinWithPassword(
	ctx context.Context, r *request, secret, address, password, code string,
) (*model.User, error) {
	if password == "" || len(password) > model.MaxPassword {
		return nil, wrongPassword("password")
	}

	user, err := a.passwords.authenticate(ctx, r, address, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, wrongPassword("password")
	}
	if err != nil {
		return nil, err
	}

	if user.SecondFactor {
		if err := a.SecondFactors.prove(ctx, r, user, Proof{Code: code}); err != nil {
			return nil, err
		}
	}

	joined, err := a.accounts.Invitations.AcceptAs(ctx, model.HashToken(secret), user, model.At(a.now()))

	// The password has changed since it was checked.
	if model.KindOf(err) == model.NotFound {
		return nil, wrongPassword("password")
	}
	if err != nil {
		return nil, err
	}

	user, err = r.begin(ctx, joined.Default(), accounts.SessionStart{Proved: user.SecondFactor})
	if err != nil {
		return nil, err
	}
	return reachedIn(user, joined.AccountID), nil
}
