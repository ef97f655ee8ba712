package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// applyCommand applies the settings in a file to an account's sites.
type applyCommand struct {
	Args struct {
		File existingFile `positional-arg-name:"<file>" description:"A file in YAML or JSON, see docs/operator/operations.md."`
	} `positional-args:"yes" required:"yes"`
}

// errNoChange rolls back a transaction without changes.
var errNoChange = errors.New("nothing changed")

// Run applies the whole file, or nothing if anything is refused.
func (c *applyCommand) Run(ctx context.Context, s *session) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(string(c.Args.File))
	if err != nil {
		return err
	}

	file, err := parseSites(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Args.File, err)
	}

	account, err := accountByEmail(ctx, d, file.Account)
	if err != nil {
		return err
	}

	var changes []string
	err = sites.New(d).InTx(ctx, func(ctx context.Context, store *sites.Owned) error {
		a := &applier{settings: s.settings, store: store, accountID: account.ID}
		err := a.apply(ctx, file)
		if changes = a.changes; err == nil && len(changes) == 0 {
			err = errNoChange
		}
		return err
	})
	if errors.Is(err, errNoChange) {
		changes, err = []string{"Nothing to change."}, nil
	}
	if err != nil {
		return err
	}

	fmt.Fprintln(s.out, strings.Join(changes, "\n"))
	return nil
}

// parseSites parses one document strictly: unknown and repeated keys are errors.
func parseSites(text []byte) (*sitesFile, error) {
	var file sitesFile
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.CustomUnmarshaler(parseNetwork))
	if err := decoder.Decode(&file); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	} else if err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}

	if err := decoder.Decode(new(sitesFile)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	if file.Account == "" || file.Sites == nil {
		return nil, errors.New("the file needs an account and sites")
	}

	return &file, nil
}

// applier applies a file to an account, in one transaction.
type applier struct {
	settings  *config.Config
	store     *sites.Owned // bound to the transaction
	accountID model.AccountID
	changes   []string // a line for each change
}

// note adds a change, in the form of fmt.Sprintf.
func (a *applier) note(format string, args ...any) {
	a.changes = append(a.changes, fmt.Sprintf(format, args...))
}

// noteChanged adds a change of a setting, unless its value is the same.
func (a *applier) noteChanged(object, setting, was, is string) {
	if was != is {
		a.note("%s: %s: %q, was %q", object, setting, is, was)
	}
}

// apply applies the settings of the account, its sites and its sitekeys.
func (a *applier) apply(ctx context.Context, file *sitesFile) error {
	if err := a.applyAccount(ctx, file); err != nil {
		return err
	}

	existing, err := a.store.Sites.Sites(ctx, a.accountID, 0, model.MaxSites)
	if err != nil {
		return err
	}

	ids := make(map[string]model.SiteID, len(existing))
	for _, site := range existing {
		ids[site.Domain] = site.ID
	}

	seen := make(map[string]bool)
	for _, site := range file.Sites {
		domain, err := model.ParseDomain(site.Domain, a.settings.AllowLocalDomains)
		if err == nil && seen[domain] {
			err = model.InvalidField("domain", "invalid_domain", "The file has this site twice.")
		}
		if err != nil {
			return refused(site.Domain, err)
		}

		seen[domain] = true
		if err := a.applySite(ctx, ids[domain], domain, site); err != nil {
			return refused(domain, err)
		}
	}

	return a.applySitekeys(ctx, file.Sitekeys)
}

// applySite creates the site if id is 0, and applies its settings.
func (a *applier) applySite(ctx context.Context, id model.SiteID, domain string, file siteFile) error {
	if id == 0 {
		var err error
		if id, err = a.createSite(ctx, domain, file); err != nil {
			return err
		}
	}

	before, err := rulesOf(ctx, a.store, id)
	if err != nil {
		return err
	}
	if file.SiteKey != nil && *file.SiteKey != before.SiteKey {
		return model.InvalidField("siteKey", "invalid_site_key", "The site has another site key, which cannot be changed.")
	}
	if err := a.changeSite(ctx, before, file); err != nil {
		return err
	}

	after, err := rulesOf(ctx, a.store, id)
	if err != nil {
		return err
	}
	for _, setting := range sites.Differences(before, after) {
		a.noteChanged(domain, setting.Name, setting.Was, setting.Is)
	}

	return a.applyObjects(ctx, before, file)
}

// createSite creates a site and returns its id.
func (a *applier) createSite(ctx context.Context, domain string, file siteFile) (model.SiteID, error) {
	siteKey, err := newSiteKey(ctx, a.store, file.SiteKey)
	if err != nil {
		return 0, err
	}

	plan := a.settings.SitePlan()
	volume, _ := plan.MonthlyPageviews()
	site, err := a.store.Sites.CreateSite(ctx, model.Site{
		AccountID: a.accountID, SiteKey: siteKey, Domain: domain, Name: domain,
		Plan: plan, MonthlyPageviews: volume, CreatedAt: model.At(time.Now()),
	})
	if err != nil {
		return 0, err
	}

	a.note("%s: created with the site key %s", domain, site.SiteKey)
	return site.ID, nil
}

func rulesOf(ctx context.Context, store *sites.Owned, id model.SiteID) (*model.SiteRules, error) {
	rules, err := store.Sites.SiteRules(ctx, []model.SiteID{id})
	if err == nil && rules[id] == nil {
		// The site was deleted by another process.
		err = model.ErrNotFound
	}
	return rules[id], err
}

// changeSite applies all settings of the file.
func (a *applier) changeSite(ctx context.Context, site *model.SiteRules, file siteFile) error {
	update := file.SiteUpdate
	update.AllowLocal = a.settings.AllowLocalDomains
	if err := a.store.Sites.UpdateSite(ctx, a.accountID, site.ID, update); err != nil {
		return err
	}
	if err := a.changeWebhooks(ctx, site.ID, file); err != nil {
		return err
	}

	switch {
	case file.Plan != nil:
		return a.store.Sites.SetSitePlan(ctx, site.ID, model.Plan(*file.Plan), file.MonthlyPageviews)
	case file.MonthlyPageviews != nil:
		return model.InvalidField("monthlyPageviews", "invalid_volume", "Set monthlyPageviews together with its plan.")
	}

	return nil
}

// sitekeyDomains parses the domains of a sitekey in the file. It returns nil for nil.
func (a *applier) sitekeyDomains(texts *[]string) (*[]string, error) {
	if texts == nil {
		return nil, nil
	}

	domains := make([]string, len(*texts))
	for i, text := range *texts {
		var err error
		if domains[i], err = model.ParseSitekeyDomain(text, a.settings.AllowLocalDomains); err != nil {
			return nil, fmt.Errorf("domains: %s: %w", text, err)
		}
	}

	return &domains, nil
}

// changeWebhooks sets the webhooks' addresses.
func (a *applier) changeWebhooks(ctx context.Context, siteID model.SiteID, file siteFile) error {
	err := errors.Join(a.checkURL("conversionWebhookUrl", file.ConversionWebhookURL),
		a.checkURL("dailyExportUrl", file.DailyExportURL))
	if err != nil {
		return err
	}

	by := model.ChangedBy{Operator: true, At: model.At(time.Now())}

	if file.ConversionWebhookURL != nil {
		err := a.store.Sites.SetConversionWebhook(ctx, a.accountID, siteID, *file.ConversionWebhookURL, nil, by)
		if err != nil {
			return err
		}
	}

	if file.DailyExportURL != nil {
		return a.store.Sites.SetDailyExportWebhook(ctx, a.accountID, siteID, *file.DailyExportURL, by)
	}

	return nil
}

func (a *applier) checkURL(field string, address *string) error {
	if address == nil || *address == "" {
		return nil
	}
	return model.CheckWebhookURL(field, *address, config.Prefixes(a.settings.WebhookAllowNets))
}

// refused returns an error that names the site and every invalid field.
func refused(domain string, err error) error {
	var texts []string
	for _, one := range model.Joined(err) {
		shown, where := domainError(one)
		if shown == nil {
			return fmt.Errorf("%s: %w", domain, err)
		}

		// A list's name is more precise than the field.
		if where == "" && shown.Field != "" {
			where = shown.Field + ": "
		}

		texts = append(texts, domain+": "+where+shown.Message)
	}

	return errors.New(strings.Join(texts, "\n"))
}
