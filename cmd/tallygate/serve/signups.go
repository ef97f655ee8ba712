package serve

import (
	"context"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// warnOfSignUps logs permitted sign-ups that an operator may not expect.
func (a *App) warnOfSignUps(ctx context.Context) error {
	c := a.config
	if c.Signups == model.SignupsOpen && a.sendsNoMail() {
		a.log.WarnContext(ctx,
			"sign-ups are open (TALLYGATE_SIGNUPS) and no mail server is configured (TALLYGATE_SMTP_URL): "+
				"accounts are created without verifying the address; use this on closed networks only")
	}

	hasUsers, err := accounts.New(a.db).HasUsers(ctx)
	if err != nil || hasUsers || c.Signups == model.SignupsClosed {
		return err
	}

	if !config.IsLoopback(config.HostOf(a.control.listener.Addr().String())) || config.Origin(a.control.url).IsPublic() {
		a.log.WarnContext(
			ctx,
			"there is no account yet, and other machines can reach the control plane: the first account to sign up is the operator's; "+
				"create it now, with the mutation signUp, or on this machine with: tallygate-admin create-account EMAIL --name NAME "+
				"(without a package: tallygate admin create-account, with the settings of this process)",
		)
	}

	a.log.InfoContext(ctx, "there is no account yet: open this address in a browser to create the first one", "url", a.control.url)

	return nil
}

// sendsNoMail reports whether it is certain that no mail is sent. The settings of a worker in
// another process are unknown.
func (a *App) sendsNoMail() bool { return a.config.SMTPURL == "" && a.config.Has(config.RoleWorker) }
