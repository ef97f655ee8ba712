package command

import (
	"context"
	"errors"
	"fmt"
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

// adminCommands are the operator's commands on the machine itself. They work whether or not the
// service is running.
type adminCommands struct {
	CreateAccount     createAccountCommand     `cmd:"" help:"Create an account with its owner, regardless of --signups, and print the link to choose a password. The first account is the operator's."`
	ResetPassword     resetPasswordCommand     `cmd:"" help:"Print a link to choose a new password, for instance where no mail is sent. Earlier links expire, and the user is notified by mail."`
	ResetSecondFactor resetSecondFactorCommand `cmd:"" help:"Remove all second factors of a user who has lost them, and end the user's sessions. The user is notified by mail."`

	Invite      inviteCommand      `cmd:"" help:"Invite a person to an account and print the link to join, for instance where no mail is sent."`
	TestMail    testMailCommand    `cmd:"" help:"Queue a test mail for the running service to send."`
	SetOperator setOperatorCommand `cmd:"" help:"Grant or revoke the operator role of a user."`
	SetPlan     setPlanCommand     `cmd:"" help:"Set the plan of a site. Running processes apply it within a second."`

	SetSiteLimit setSiteLimitCommand `cmd:"" help:"Set the largest number of sites of an account on the plan of new sites (default: 50)."`

	Backup       backupCommand       `cmd:"" help:"Copy the embedded SQLite database into a new file, even while the service runs. The copy has no daily salts."`
	RestoreMonth restoreMonthCommand `cmd:"" help:"Restore a month that retention removed from PostgreSQL within the last 24 hours; without a month, list these months."`

	PurgeSite purgeSiteCommand `cmd:"" help:"Delete for good a site that an owner has deleted, instead of waiting for the 7 days in which it can be restored."`

	Cells    cellsCommand    `cmd:"" help:"List the cells, which divide the sites' hits and the accounts' captchas among schemas of PostgreSQL, add one, or choose which take new sites and accounts."`
	MoveSite moveSiteCommand `cmd:"" help:"Move a site with its hits to another cell while the service runs. Its hits wait for some seconds."`

	MoveAccount moveAccountCommand `cmd:"" help:"Move the captcha of an account, with its usage and its used challenges and tokens, to another cell while the service runs. Its challenges and tokens wait for a second, or some seconds if there are a million."`

	SetSlots setSlotsCommand `cmd:"" help:"Divide the usage of a very large site into slots by visitor, so that several writers store its hits at once; 1 undoes it. The hits of the site's cell wait for milliseconds."`

	Suspend suspendCommand `cmd:"" help:"Suspend an account: its sites and sitekeys refuse calls, and its users can change nothing. Running processes follow within a second."`
	Resume  resumeCommand  `cmd:"" help:"End the suspension of an account."`

	CheckReports checkReportsCommand `cmd:"" help:"Recount the reports of finished days from the stored visits, page views and events, and print the figures that differ."`

	Import     importCommand     `cmd:"" help:"Make the reports of another service part of a site's reports: days before the site's first own day, from an export of Plausible, Umami, GoatCounter or Google Analytics 4. See docs/imports.md."`
	Imports    importsCommand    `cmd:"" help:"List the imports of a site."`
	UndoImport undoImportCommand `cmd:"" help:"Delete an import of a site from its reports."`

	SetCaptchaPlan setCaptchaPlanCommand `cmd:"" help:"Set the captcha plan of an account, effective from its next verification."`

	Accounts     accountsCommand     `cmd:"" help:"List the installation's accounts with their plans and the usage of this month, newest first."`
	Installation installationCommand `cmd:"" help:"Print the version, the settings without secrets, whether mails are sent, and the state of database, work and clock."`

	RotateSecret rotateSecretCommand `cmd:"" help:"Replace the application key: seal with the new one what is stored with the previous one. See docs/operations.md, \"Change the application key\"."`

	Apply applyCommand `cmd:"" help:"Give an account and its sites the settings in a file, all or none. Settings that the file does not name stay unchanged; a list in the file replaces the stored one. Running processes follow within a second."`

	ExportConfig exportConfigCommand `cmd:"" help:"Print the settings of an account, its sites and sitekeys as a file for \"admin apply\". Secrets are not in it."`
}

type createAccountCommand struct {
	Email email  `arg:"" help:"E-mail address of the owner."`
	Name  string `required:"" placeholder:"NAME" help:"Display name of the account."`
}

// Run creates the account with an unusable password, and prints a link to choose one.
func (c *createAccountCommand) Run(ctx context.Context, term terminal, settings *config.Config, d *db.DB) error {
	name, err := model.ParseAccountName("name", c.Name)
	if err != nil {
		return err
	}

	now := model.At(time.Now())
	_, err = accounts.New(d).SignUp(ctx, model.SignupsOpen,
		model.Account{Name: name, CaptchaPlan: settings.DefaultCaptchaPlan, CreatedAt: now},
		model.User{Email: string(c.Email), PasswordHash: auth.NoPassword, CreatedAt: now})
	if err != nil {
		return err
	}

	return printResetLink(ctx, settings, d, c.Email, false, term)
}

type resetPasswordCommand struct {
	Email email `arg:"" help:"E-mail address of the user."`
}

// Run prints the link. Earlier links expire, and the user is notified by mail.
func (c *resetPasswordCommand) Run(ctx context.Context, term terminal, settings *config.Config, d *db.DB) error {
	return printResetLink(ctx, settings, d, c.Email, true, term)
}

func printResetLink(
	ctx context.Context, settings *config.Config, d *db.DB, address email, notify bool, term terminal,
) error {
	secret := model.NewSecret(model.ResetPrefix)
	now := model.At(time.Now())
	err := accounts.New(d).StorePasswordReset(ctx, string(address), model.HashToken(secret), now,
		now.Add(model.ResetLifetime), notify)
	if err != nil {
		return err
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
	Email email `arg:"" help:"E-mail address of the user."`
}

// Run removes the second factors. It cannot know whether the person who asks is the user.
func (c *resetSecondFactorCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	err := accounts.New(d).ResetSecondFactor(ctx, string(c.Email), accounts.FactorChange{At: model.At(time.Now())})
	if errors.Is(err, accounts.ErrNoSecondFactor) {
		return errors.New("this user has no second factor")
	}
	if err != nil {
		return err
	}

	fmt.Fprintln(term.out, "The user signs in with the password alone, and can set up a new second factor.")
	return nil
}

type inviteCommand struct {
	Email   email      `arg:"" help:"E-mail address of the person to invite."`
	Account accountOf  `required:"" placeholder:"EMAIL" help:"E-mail address of a user whose default account it is."`
	Role    model.Role `default:"MEMBER" enum:"OWNER,MEMBER,VIEWER" help:"Role in the account: OWNER, MEMBER or VIEWER."`
}

// Run stores the invitation and prints the link. It revokes an earlier invitation of the same
// person.
func (c *inviteCommand) Run(
	ctx context.Context, term terminal, settings *config.Config, d *db.DB, account *model.Account,
) error {
	secret := model.NewSecret(model.InvitationPrefix)
	invitation := model.NewInvitation(account.ID, string(c.Email), c.Role, secret, model.At(time.Now()))
	if _, err := accounts.New(d).Invite(ctx, invitation, nil); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "Join %s within 7 days, once:\n%s\n",
		account.Name, link(settings, auth.InvitationPage, secret))
	return nil
}

type testMailCommand struct {
	Email email `arg:"" help:"E-mail address to send it to."`
}

// AfterApply fails without a mail server.
func (c *testMailCommand) AfterApply(settings *config.Config) error {
	if settings.SMTPURL == "" {
		return errors.New("no mail is sent without a mail server: set TALLYGATE_SMTP_URL")
	}
	return nil
}

// Run queues the mail. The worker sends it like any other, and logs a failure.
func (c *testMailCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	mail := model.Mail{Recipient: string(c.Email), Kind: model.MailTest, CreatedAt: model.At(time.Now())}
	if err := outbox.New(d).QueueMail(ctx, mail); err != nil {
		return err
	}

	fmt.Fprintln(term.out, "Queued. The running service sends it within seconds, and logs a failure.")
	return nil
}

type setOperatorCommand struct {
	Email email `arg:"" help:"E-mail address of the user."`
	Off   bool  `help:"Revoke the operator role."`
}

// Run grants or revokes the role.
func (c *setOperatorCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	if err := accounts.New(d).SetOperator(ctx, string(c.Email), !c.Off); err != nil {
		return err
	}

	fmt.Fprintln(term.out, "Done.")
	return nil
}

type setPlanCommand struct {
	SiteKey          siteKey    `arg:"" help:"The site's key, 32 hexadecimal characters."`
	Plan             model.Plan `arg:"" help:"FREE, PRO_100K, PRO_500K, PRO_1M, PRO_2M, PRO_5M or ENTERPRISE."`
	MonthlyPageviews int64      `placeholder:"N" help:"Page views and events a month; an Enterprise plan needs it, from 1 to 2^53."`
}

// Run sets the plan.
func (c *setPlanCommand) Run(ctx context.Context, term terminal, d *db.DB, site *model.SiteRules) error {
	if err := sites.New(d).SetSitePlan(ctx, site.ID, c.Plan, c.MonthlyPageviews); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s is on the plan %s.\n", site.Domain, c.Plan)
	return nil
}

type purgeSiteCommand struct {
	SiteKey string `arg:"" help:"The site's key, 32 hexadecimal characters."`
	Confirm string `required:"" placeholder:"DOMAIN" help:"The site's domain."`
}

// Run deletes the site. A worker purges its rows.
func (c *purgeSiteCommand) Run(ctx context.Context, term terminal, d *db.DB) error {
	site, err := sites.New(d).DeletedSiteByKey(ctx, c.SiteKey)
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := sites.New(d).DeleteSite(ctx, site.AccountID, site.ID, c.Confirm, now); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s is deleted for good. The running worker purges its rows within minutes.\n", site.Domain)
	return nil
}

type suspendCommand struct {
	Email  accountOf `arg:"" help:"E-mail address of a user of the account."`
	Reason string    `required:"" placeholder:"TEXT" help:"The reason, which the account's users see: 1 to 500 characters."`
}

// Run suspends the account.
func (c *suspendCommand) Run(ctx context.Context, term terminal, d *db.DB, account *model.Account) error {
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := accounts.New(d).Suspend(ctx, account.ID, c.Reason, now); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s is suspended.\n", account.Name)
	return nil
}

type resumeCommand struct {
	Email accountOf `arg:"" help:"E-mail address of a user of the account."`
}

// Run ends the suspension.
func (c *resumeCommand) Run(ctx context.Context, term terminal, d *db.DB, account *model.Account) error {
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := accounts.New(d).Resume(ctx, account.ID, now); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s is not suspended.\n", account.Name)
	return nil
}

type setSiteLimitCommand struct {
	Email accountOf `arg:"" help:"E-mail address of a user whose default account it is."`
	Sites int64     `arg:"" help:"Number of sites, 1 to 1000."`
}

// Run sets the limit.
func (c *setSiteLimitCommand) Run(ctx context.Context, term terminal, d *db.DB, account *model.Account) error {
	if err := sites.New(d).SetSiteLimit(ctx, account.ID, c.Sites); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s may have %d sites on the plan of new sites.\n", account.Name, c.Sites)
	return nil
}

type setCaptchaPlanCommand struct {
	Email accountOf         `arg:"" help:"E-mail address of a user whose default account it is."`
	Plan  model.CaptchaPlan `arg:"" help:"FREE, PRO_100K, PRO_250K, PRO_500K, PRO_1M or ENTERPRISE."`
}

// Run sets the plan.
func (c *setCaptchaPlanCommand) Run(ctx context.Context, term terminal, d *db.DB, account *model.Account) error {
	if err := accounts.New(d).SetCaptchaPlan(ctx, account.ID, c.Plan); err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s is on the captcha plan %s.\n", account.Name, c.Plan)
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
