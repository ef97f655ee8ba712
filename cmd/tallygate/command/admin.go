package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
)

// adminCommands returns the operator's commands on the machine itself. They work whether or not the
// service is running.
func adminCommands() []entry {
	return []entry{
		{name: "create-account", data: new(createAccountCommand)},
		{name: "reset-password", data: new(resetPasswordCommand)},
		{name: "reset-second-factor", data: new(resetSecondFactorCommand)},
		{name: "invite", data: new(inviteCommand)},
		{name: "test-mail", data: new(testMailCommand)},
		{name: "set-operator", data: new(setOperatorCommand)},
		{name: "set-plan", data: new(setPlanCommand)},
		{name: "set-site-limit", data: new(setSiteLimitCommand)},
		{name: "backup", data: new(backupCommand)},
		{name: "record-backup", data: new(recordBackupCommand)},
		{name: "verify-backup", data: new(verifyBackupCommand)},
		{name: "copy", data: new(copyCommand)},
		{name: "restore-month", data: new(restoreMonthCommand)},
		{name: "purge-site", data: new(purgeSiteCommand)},
		{name: "cells", data: new(struct{}), commands: []entry{
			{name: "list", data: new(listCellsCommand)},
			{name: "add", data: new(addCellCommand)},
			{name: "open", data: &setCellCommand{open: true}},
			{name: "close", data: new(setCellCommand)},
		}},
		{name: "move-site", data: new(moveSiteCommand)},
		{name: "move-account", data: new(moveAccountCommand)},
		{name: "suspend", data: new(suspendCommand)},
		{name: "verify-domain", data: new(verifyDomainCommand)},
		{name: "resume", data: new(resumeCommand)},
		{name: "check-reports", data: new(checkReportsCommand)},
		{name: "import", data: new(importCommand)},
		{name: "imports", data: new(importsCommand)},
		{name: "undo-import", data: new(undoImportCommand)},
		{name: "set-captcha-plan", data: new(setCaptchaPlanCommand)},
		{name: "accounts", data: new(accountsCommand)},
		{name: "users", data: new(usersCommand)},
		{name: "installation", data: new(installationCommand)},
		{name: "rotate-secret", data: new(rotateSecretCommand)},
		{name: "apply", data: new(applyCommand)},
		{name: "export-config", data: new(exportConfigCommand)},
	}
}

type createAccountCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address of the owner."`
	} `positional-args:"yes" required:"yes"`
	Name string `long:"name" required:"true" value-name:"NAME" unquote:"false" description:"Display name of the account."`
}

// Run creates the account with an unusable password, and prints a link to choose one.
func (c *createAccountCommand) Run(ctx context.Context, s *session) error {
	name, err := model.ParseAccountName("name", c.Name)
	if err != nil {
		return err
	}

	path, isFile := db.SQLiteFile(s.settings.Database())
	_, err = os.Stat(path)
	isNew := isFile && errors.Is(err, fs.ErrNotExist)

	d, err := s.openOrCreate(ctx)
	if err != nil {
		return err
	}

	now := model.At(time.Now())
	_, err = accounts.New(d).SignUp(ctx, model.SignupsOpen,
		model.Account{Name: name, CaptchaPlan: s.settings.CaptchaPlan(), CreatedAt: now},
		model.User{Email: string(c.Args.Email), PasswordHash: auth.NoPassword, CreatedAt: now})
	if err != nil {
		return err
	}

	// A service with other settings does not know the account.
	if isNew {
		fmt.Fprintf(s.log, "This command created a new database at %s. If the service runs already, set TALLYGATE_DATA_DIR to its "+
			"folder, or run the command with tallygate-admin.\n", path)
	}
	return printResetLink(ctx, s.settings, d, c.Args.Email, false, s.terminal)
}

type resetPasswordCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address of the user."`
	} `positional-args:"yes" required:"yes"`
}

// Run prints the link. Earlier links expire, and the user is notified by mail.
func (c *resetPasswordCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	return printResetLink(ctx, s.settings, d, c.Args.Email, true, s.terminal)
}

func printResetLink(
	ctx context.Context, settings *config.Config, d *db.DB, address email, notify bool, term terminal,
) error {
	secret := model.NewSecret(model.ResetPrefix)
	now := model.At(time.Now())
	err := accounts.New(d).StorePasswordReset(ctx, string(address), model.HashToken(secret), now,
		now.Add(model.ResetLifetime), notify)
	if err != nil {
		return noUser(err, string(address))
	}

	fmt.Fprintf(term.out, "Choose a password within an hour, once:\n%s\n", link(settings, auth.ResetPage, secret))
	return nil
}

// link returns the address that a mail would contain.
func link(settings *config.Config, page, secret string) string {
	base := settings.BaseURL
	if base == "" {
		base = "http://" + config.Origin(settings.ControlAddr)
	}
	return string(base) + page + "#" + secret
}

type resetSecondFactorCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address of the user."`
	} `positional-args:"yes" required:"yes"`
}

// Run removes the second factors. It cannot know whether the person who asks is the user.
func (c *resetSecondFactorCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	err = accounts.New(d).SecondFactors.Reset(ctx, string(c.Args.Email), accounts.FactorChange{At: model.At(time.Now())})
	if errors.Is(err, accounts.ErrNoSecondFactor) {
		return errors.New("this user has no second factor")
	}
	if err != nil {
		return noUser(err, string(c.Args.Email))
	}

	fmt.Fprintln(s.out, "The user signs in with the password alone, and can set up a new second factor.")
	return nil
}

type inviteCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address of the person to invite."`
	} `positional-args:"yes" required:"yes"`
	Account accountOf  `long:"account" required:"true" value-name:"EMAIL" description:"E-mail address of a user whose default account it is."`
	Role    model.Role `long:"role" default:"MEMBER" value-name:"ROLE" choice:"OWNER" choice:"MEMBER" choice:"VIEWER"`
}

// Run stores the invitation and prints the link. It revokes an earlier invitation of the same
// person.
func (c *inviteCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Account)
	if err != nil {
		return err
	}

	secret := model.NewSecret(model.InvitationPrefix)
	invitation := model.NewInvitation(account.ID, string(c.Args.Email), c.Role, secret, model.At(time.Now()))
	if _, err := accounts.New(d).Invitations.Create(ctx, invitation, nil); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "Join %s within 7 days, once:\n%s\n",
		account.Name, link(s.settings, auth.InvitationPage, secret))
	return nil
}

type testMailCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address to send it to."`
	} `positional-args:"yes" required:"yes"`
}

// check fails without a mail server.
func (c *testMailCommand) check(s *session) error {
	if s.settings.SMTPURL == "" {
		return errors.New("no mail is sent without a mail server: set TALLYGATE_SMTP_URL")
	}
	return nil
}

// Run queues the mail. The worker sends it like any other, and logs a failure.
func (c *testMailCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	mail := model.Mail{Recipient: string(c.Args.Email), Kind: model.MailTest, CreatedAt: model.At(time.Now())}
	if err := outbox.New(d).QueueMail(ctx, mail); err != nil {
		return err
	}

	fmt.Fprintln(s.out, "Queued. The running service sends it within seconds, and logs a failure.")
	return nil
}

type setOperatorCommand struct {
	Args struct {
		Email email `positional-arg-name:"<email>" description:"E-mail address of the user."`
	} `positional-args:"yes" required:"yes"`
	Off bool `long:"off" description:"Revoke the operator role."`
}

// Run grants or revokes the role.
func (c *setOperatorCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	err = accounts.New(d).SetOperator(ctx, string(c.Args.Email), !c.Off)
	if errors.Is(err, accounts.ErrLastOperator) {
		return errors.New("this user is the only operator; make another one first: tallygate admin set-operator EMAIL")
	}
	if err != nil {
		return noUser(err, string(c.Args.Email))
	}

	fmt.Fprintln(s.out, "Done.")
	return nil
}

type setPlanCommand struct {
	Args struct {
		Site siteName   `positional-arg-name:"<site>" description:"The site's domain or key. With --all, leave it out."`
		Plan model.Plan `positional-arg-name:"<plan>" description:"FREE, PRO_100K, PRO_500K, PRO_1M, PRO_2M, PRO_5M, or unlimited, which is ENTERPRISE."`
	} `positional-args:"yes"`
	All              bool   `long:"all" description:"Set the plan of all sites."`
	MonthlyPageviews *int64 `long:"monthly-pageviews" value-name:"N"`
}

// check takes the only argument next to --all as the plan.
func (c *setPlanCommand) check(*session) error {
	if c.All && c.Args.Plan == "" {
		_ = c.Args.Plan.UnmarshalFlag(string(c.Args.Site))
		c.Args.Site = ""
	}

	switch {
	case c.All && c.Args.Site != "":
		return errors.New("name a site or --all, and then the plan")
	case !c.All && c.Args.Plan == "":
		return errors.New("name a site, or --all, and the plan")
	}
	return nil
}

// Run sets the plan.
func (c *setPlanCommand) Run(ctx context.Context, s *session) error {
	if c.All {
		return c.setAll(ctx, s)
	}

	d, site, err := s.site(ctx, c.Args.Site)
	if err != nil {
		return err
	}

	if err := sites.New(d).Sites.SetSitePlan(ctx, site.ID, c.Args.Plan, c.MonthlyPageviews); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s is on the plan %s.\n", site.Domain, c.Args.Plan)
	return nil
}

// setAll sets the plan of each site that has another one.
func (c *setPlanCommand) setAll(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	volume, _ := c.Args.Plan.MonthlyPageviews()
	ids, err := sites.New(d).Sites.WithOtherVolume(ctx, c.Args.Plan, *cmp.Or(c.MonthlyPageviews, &volume))
	if err != nil {
		return err
	}

	// Each site has a transaction of its own, so that the service waits for none. A repeat continues.
	for i, id := range ids {
		err := sites.New(d).Sites.SetSitePlan(ctx, id, c.Args.Plan, c.MonthlyPageviews)
		if err != nil && !errors.Is(err, model.ErrNotFound) {
			return fmt.Errorf("after %d of %d sites: %w", i, len(ids), err)
		}
	}

	fmt.Fprintf(s.out, "%d sites are now on the plan %s, the others were already.\n", len(ids), c.Args.Plan)
	return nil
}

type purgeSiteCommand struct {
	Args struct {
		Site siteName `positional-arg-name:"<site>" description:"The deleted site's domain or key."`
	} `positional-args:"yes" required:"yes"`
	Confirm string `long:"confirm" required:"true" value-name:"DOMAIN" unquote:"false" description:"The site's domain."`
}

// Run deletes the site. A worker purges its rows.
func (c *purgeSiteCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	key, err := c.Args.Site.key(ctx, d, true)
	if err != nil {
		return err
	}
	site, err := sites.New(d).Sites.DeletedSiteByKey(ctx, key)
	if errors.Is(err, model.ErrNotFound) {
		return fmt.Errorf("no deleted site has the key %q: an owner deletes a site first, in the console or by GraphQL", key)
	}
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := sites.New(d).Sites.DeleteSite(ctx, site.AccountID, site.ID, c.Confirm, now); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s is deleted for good. The running worker purges its rows within minutes.\n", site.Domain)
	return nil
}

type suspendCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user of the account."`
	} `positional-args:"yes" required:"yes"`
	Reason string `long:"reason" required:"true" value-name:"TEXT" unquote:"false"`
}

// Run suspends the account.
func (c *suspendCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := accounts.New(d).Suspend(ctx, account.ID, c.Reason, now); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s is suspended.\n", account.Name)
	return nil
}

type resumeCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user of the account."`
	} `positional-args:"yes" required:"yes"`
}

// Run ends the suspension.
func (c *resumeCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := accounts.New(d).Resume(ctx, account.ID, now); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s is not suspended.\n", account.Name)
	return nil
}

type setSiteLimitCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user whose default account it is."`
		Sites int64     `positional-arg-name:"<sites>" description:"Number of sites, 1 to 1000."`
	} `positional-args:"yes" required:"yes"`
}

// Run sets the limit.
func (c *setSiteLimitCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	if err := sites.New(d).Sites.SetSiteLimit(ctx, account.ID, c.Args.Sites); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s may have %d sites on the plan of new sites.\n", account.Name, c.Args.Sites)
	return nil
}

type setCaptchaPlanCommand struct {
	Args struct {
		Email accountOf         `positional-arg-name:"<email>" description:"E-mail address of a user whose default account it is."`
		Plan  model.CaptchaPlan `positional-arg-name:"<plan>" description:"FREE, PRO_100K, PRO_250K, PRO_500K, PRO_1M or ENTERPRISE."`
	} `positional-args:"yes" required:"yes"`
}

// Run sets the plan.
func (c *setCaptchaPlanCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	if err := accounts.New(d).SetCaptchaPlan(ctx, account.ID, c.Args.Plan); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s is on the captcha plan %s.\n", account.Name, c.Args.Plan)
	return nil
}

// readable returns an error with the text of each joined error on its own line. An error without a
// domain error is returned unchanged.
func readable(err error) error {
	if _, shown := errors.AsType[*model.Error](err); !shown {
		return err
	}

	var texts []string
	for _, one := range model.Joined(err) {
		text := one.Error()
		if shown, where := domainError(one); shown != nil {
			text = where + shown.Message
		}

		texts = append(texts, text)
	}

	return errors.New(strings.Join(texts, "\n"))
}

// domainError returns the domain error at the end of err's chain, and the text that wraps it. It
// returns nil if there is none, or if it is not at the end.
func domainError(err error) (shown *model.Error, where string) {
	shown, ok := errors.AsType[*model.Error](err)
	if !ok {
		return nil, ""
	}
	if where, ok = strings.CutSuffix(err.Error(), shown.Error()); !ok {
		return nil, ""
	}
	return shown, where
}
