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
	CreateAccount     createAccountCommand     `cmd:""`
	ResetPassword     resetPasswordCommand     `cmd:""`
	ResetSecondFactor resetSecondFactorCommand `cmd:""`

	Invite      inviteCommand      `cmd:""`
	TestMail    testMailCommand    `cmd:""`
	SetOperator setOperatorCommand `cmd:""`
	SetPlan     setPlanCommand     `cmd:""`

	SetSiteLimit setSiteLimitCommand `cmd:""`

	Backup       backupCommand       `cmd:""`
	RestoreMonth restoreMonthCommand `cmd:""`

	PurgeSite purgeSiteCommand `cmd:""`

	Cells    cellsCommand    `cmd:""`
	MoveSite moveSiteCommand `cmd:""`

	MoveAccount moveAccountCommand `cmd:""`

	SetSlots setSlotsCommand `cmd:""`

	Suspend suspendCommand `cmd:""`
	Resume  resumeCommand  `cmd:""`

	CheckReports checkReportsCommand `cmd:""`

	Import     importCommand     `cmd:""`
	Imports    importsCommand    `cmd:""`
	UndoImport undoImportCommand `cmd:""`

	SetCaptchaPlan setCaptchaPlanCommand `cmd:""`

	Accounts     accountsCommand     `cmd:""`
	Installation installationCommand `cmd:""`

	RotateSecret rotateSecretCommand `cmd:""`

	Apply applyCommand `cmd:""`

	ExportConfig exportConfigCommand `cmd:""`
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
	Role    model.Role `default:"MEMBER" enum:"OWNER,MEMBER,VIEWER"`
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
	MonthlyPageviews *int64     `placeholder:"N"`
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
	Reason string    `required:"" placeholder:"TEXT"`
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
