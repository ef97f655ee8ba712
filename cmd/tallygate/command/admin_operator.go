package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/version"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// The operator's view of the installation, as in GraphQL.

type accountsCommand struct {
	Search string `long:"search" value-name:"TEXT" unquote:"false"`
	Most   int    `long:"most" default:"100" value-name:"N" description:"Number of accounts to print."`
	JSON   bool   `long:"json" description:"Print JSON with the sites of each account."`
}

// accountLine is an account as the command prints it.
type accountLine struct {
	Name          string            `json:"name"`
	CreatedAt     time.Time         `json:"createdAt"`
	Sites         int64             `json:"siteCount"`
	Sitekeys      int64             `json:"sitekeyCount"`
	Members       int64             `json:"memberCount"`
	Pageviews     int64             `json:"pageviews"`
	CaptchaPlan   model.CaptchaPlan `json:"captchaPlan"`
	Verifications int64             `json:"verifications"`
	UserList      []memberLine      `json:"users"`
	SiteList      []siteLine        `json:"sites"`
}

// memberLine is a user of an account as the command prints it.
type memberLine struct {
	Email string     `json:"email"`
	Role  model.Role `json:"role"`
}

// siteLine is a site as the command prints it.
type siteLine struct {
	Domain    string     `json:"domain"`
	SiteKey   string     `json:"siteKey"`
	Plan      model.Plan `json:"plan"`
	Quota     *int64     `json:"quota"` // null: no limit
	Pageviews int64      `json:"pageviews"`
}

// check checks the number of accounts.
func (c *accountsCommand) check(*session) error {
	if c.Most < 1 || c.Most > maxAccounts {
		return fmt.Errorf("--most: %d is not from 1 to %d", c.Most, maxAccounts)
	}
	return nil
}

// Run prints the accounts.
func (c *accountsCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	month := model.At(time.Now()).Month()
	lines, err := c.read(ctx, d, month)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, lines)
	}

	return writeAccounts(s.out, lines)
}

// maxAccounts is how many accounts the command prints.
const maxAccounts = 1_000

// read returns the accounts with their sites.
func (c *accountsCommand) read(ctx context.Context, d *db.DB, month model.Month) ([]accountLine, error) {
	rows, err := accounts.New(d).Overviews(ctx, accounts.OverviewPage{Search: c.Search, Limit: c.Most}, month)
	if err != nil {
		return nil, err
	}

	lines := make([]accountLine, len(rows))
	for i, row := range rows {
		lines[i] = accountLine{
			Name: row.Name, CreatedAt: row.CreatedAt.Time(), Sites: row.Sites, Sitekeys: row.Sitekeys, Members: row.Members,
			Pageviews: row.Pageviews, CaptchaPlan: row.CaptchaPlan, Verifications: row.Verifications, SiteList: []siteLine{},
		}

		if lines[i].UserList, err = membersOf(ctx, d, row.ID); err != nil {
			return nil, err
		}
		list, err := sites.New(d).Sites.Sites(ctx, row.ID, 0, model.MaxSites)
		if err != nil {
			return nil, err
		}

		ids := make([]model.SiteID, len(list))
		for i, site := range list {
			ids[i] = site.ID
		}

		used, err := sites.New(d).Usage.MonthlyUsage(ctx, month, ids)
		if err != nil {
			return nil, err
		}

		for _, site := range list {
			lines[i].SiteList = append(lines[i].SiteList, siteLine{
				Domain: site.Domain, SiteKey: site.SiteKey, Plan: site.Plan, Quota: site.Limit(), Pageviews: used[site.ID],
			})
		}
	}

	return lines, nil
}

// membersOf returns the users of an account.
func membersOf(ctx context.Context, d *db.DB, accountID model.AccountID) ([]memberLine, error) {
	users, err := accounts.New(d).Members.Of(ctx, accountID)
	if err != nil {
		return nil, err
	}

	lines := make([]memberLine, len(users))
	for i, user := range users {
		lines[i] = memberLine{Email: user.Email, Role: user.Role}
	}

	return lines, nil
}

// writeAccounts prints a line for each account, and one for each of its users and sites.
func writeAccounts(w io.Writer, lines []accountLine) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACCOUNT / USER / SITE\tCREATED\tROLE / SITE KEY\tPLAN\tUSED")
	for _, line := range lines {
		fmt.Fprintf(table, "%s\t%s\t\tcaptcha %s\t%d verifications\n",
			line.Name, line.CreatedAt.Format(time.DateOnly), line.CaptchaPlan, line.Verifications)
		for _, user := range line.UserList {
			fmt.Fprintf(table, "  %s\t\t%s\t\t\n", user.Email, user.Role)
		}
		for _, site := range line.SiteList {
			used := fmt.Sprint(site.Pageviews)
			if site.Quota != nil {
				used += fmt.Sprintf(" of %d", *site.Quota)
			}
			fmt.Fprintf(table, "  %s\t\t%s\t%s\t%s\n", site.Domain, site.SiteKey, site.Plan, used)
		}
	}

	return table.Flush()
}

type installationCommand struct {
	JSON bool `long:"json" description:"Print JSON."`
}

// installation is the state of the installation as the command prints it.
type installation struct {
	Version           string   `json:"version"`
	Database          string   `json:"database"`
	Roles             []string `json:"roles"`
	Signups           string   `json:"signups"`
	BaseURL           string   `json:"baseUrl"`
	AnalyticsURL      string   `json:"analyticsUrl"`
	CaptchaURL        string   `json:"captchaUrl"`
	MailServer        bool     `json:"mailServer"`
	Redis             bool     `json:"redis"`
	RetentionMonths   int      `json:"retentionMonths"`
	LastMailSentAt    string   `json:"lastMailSentAt"`
	LastMailFailedAt  string   `json:"lastMailFailedAt"`
	RetryingMails     int64    `json:"retryingMails"`
	DueMails          int64    `json:"dueMails"`
	PendingDeliveries int64    `json:"pendingDeliveries"`
	DueDeliveries     int64    `json:"dueDeliveries"`
	OldestDueAt       string   `json:"oldestDueAt"`
	DueReports        int64    `json:"dueReports"`
	WorkerSeenAt      string   `json:"workerSeenAt"`
	ClockTrusted      bool     `json:"clockTrusted"`
	ClockAheadMS      int64    `json:"clockAheadMs"`
}

// Run prints the state. The settings are those of this command's environment, which can differ from
// a running process's.
func (c *installationCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	state, err := readInstallation(ctx, s.settings, d)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, state)
	}

	return state.write(s.out)
}

// readInstallation returns the state of the installation.
func readInstallation(ctx context.Context, settings *config.Config, d *db.DB) (*installation, error) {
	state := &installation{
		Version: version.Read().String(), Database: d.Dialect(), Signups: settings.Signups.String(), BaseURL: string(settings.BaseURL),
		AnalyticsURL: string(settings.AnalyticsURL), CaptchaURL: string(settings.CaptchaURL), MailServer: settings.SMTPURL != "",
		Redis: settings.RedisURL != "", RetentionMonths: settings.RetentionMonths,
	}
	for _, role := range settings.Roles {
		state.Roles = append(state.Roles, string(role))
	}

	mails, err := outbox.New(d).MailState(ctx)
	if err != nil {
		return nil, err
	}
	state.LastMailSentAt, state.LastMailFailedAt = timeText(mails.LastSent), timeText(mails.LastFailed)
	state.RetryingMails = mails.Retrying

	work, err := health.Read(ctx, d, state.Version, time.Now)
	if err != nil {
		return nil, err
	}
	state.DueMails, state.DueReports = work.DueMails, work.DueReports
	state.PendingDeliveries, state.DueDeliveries = work.PendingDeliveries, work.DueDeliveries
	state.OldestDueAt, state.WorkerSeenAt = timeText(work.OldestDueAt), timeText(work.WorkerSeenAt)
	state.ClockTrusted, state.ClockAheadMS = work.ClockTrusted, work.ClockAheadMs

	return state, nil
}

// timeText returns a time in RFC 3339; "" for none.
func timeText(at model.Instant) string {
	if at == 0 {
		return ""
	}
	return at.Time().Format(time.RFC3339)
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// write prints a line for each value.
func (s *installation) write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"version", s.Version}, {"database", s.Database}, {"roles", strings.Join(s.Roles, ", ")},
		{"sign-ups", s.Signups}, {"console", orNone(s.BaseURL)}, {"analytics", orNone(s.AnalyticsURL)},
		{"captcha", orNone(s.CaptchaURL)}, {"mail server", configured(s.MailServer)}, {"Redis", configured(s.Redis)},
		{"retention in months", s.RetentionMonths}, {"last mail sent", orNone(s.LastMailSentAt)},
		{"last mail given up", orNone(s.LastMailFailedAt)}, {"mails sent again", s.RetryingMails}, {"due mails", s.DueMails},
		{"pending deliveries", s.PendingDeliveries}, {"due deliveries", s.DueDeliveries},
		{"oldest due delivery", orNone(s.OldestDueAt)}, {"due reports", s.DueReports},
		{"worker seen", orNone(s.WorkerSeenAt)}, {"clock trusted", s.ClockTrusted},
		{"clock ahead of the database", fmt.Sprintf("%d ms", s.ClockAheadMS)},
	} {
		fmt.Fprintf(table, "%s:\t%v\n", line.name, line.value)
	}

	return table.Flush()
}

func orNone(s string) string { return cmp.Or(s, "none") }

func configured(is bool) string {
	if is {
		return "configured"
	}
	return "none"
}
