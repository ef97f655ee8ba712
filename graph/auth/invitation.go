package auth

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// SendsMail reports whether invitations and other links can be mailed.
func (a *Auth) SendsMail() bool { return !a.noMail }

// Invite mails an invitation to the account of by. The caller must have checked that by may manage
// it.
func (a *Auth) Invite(ctx context.Context, by *model.User, email string, role model.Role) (*model.Invitation, error) {
	address, err := model.ParseEmail(email)
	if err != nil {
		return nil, err
	}
	if a.noMail {
		return nil, errNoMail
	}

	secret := model.NewSecret(model.InvitationPrefix)
	mail, err := a.linkMail(model.MailInvitation, InvitationPage, secret, by.Account.Name)
	if err != nil {
		return nil, err
	}

	mail.AccountID, mail.Recipient = by.AccountID, address
	limits := a.inviteLimits(address)
	if err := a.count(ctx, limits); err != nil {
		return nil, err
	}

	invitation, err := a.accounts.Invite(
		ctx, model.NewInvitation(by.AccountID, address, role, secret, model.At(a.now())), &mail,
	)

	// No mail is sent, so the attempt does not count.
	if err != nil {
		return nil, a.uncount(ctx, limits, err)
	}

	return invitation, nil
}

// AcceptInvitation creates a member from a mailed secret, with a password of their choice, and
// signs the member in. It consumes the secret.
func (a *Auth) AcceptInvitation(ctx context.Context, secret, password string) (user *model.User, err error) {
	err = a.redeem(
		ctx, model.InvitationPrefix, secret, password,
		func(tokenHash []byte, passwordHash string, now model.Instant) error {
			user, err = a.accounts.Accept(ctx, tokenHash, passwordHash, now)
			return err
		},
	)
	if err != nil {
		return nil, err
	}

	return a.startSession(requestOf(ctx), user)
}
