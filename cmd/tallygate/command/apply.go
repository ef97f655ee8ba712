package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// applyCommand applies the settings in a file to an account's sites.
type applyCommand struct {
	config.Config `embed:""`
	File          string `arg:"" type:"existingfile" help:"A file in YAML or JSON, see docs/operations.md."`
}

// errNoChange rolls back a transaction without changes.
var errNoChange = errors.New("nothing changed")

// Run applies the whole file, or nothing if anything is refused.
func (c *applyCommand) Run(ctx context.Context, term terminal) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}

	file, err := parseSites(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}

	return withDatabase(ctx, &c.Config, func(d *db.DB) error {
		var changes []string
		err := sites.New(d).InTx(ctx, func(ctx context.Context, store *sites.Store) (err error) {
			if changes, err = c.apply(ctx, accounts.New(d), store, file); err == nil && len(changes) == 0 {
				err = errNoChange
			}
			return err
		})
		if errors.Is(err, errNoChange) {
			changes, err = []string{"Nothing to change."}, nil
		}

		if err == nil {
			fmt.Fprintln(term.out, strings.Join(changes, "\n"))
		}

		return err
	})
}

// parseSites parses one document strictly: unknown and repeated keys are errors.
func parseSites(text []byte) (*sitesFile, error) {
	var file sitesFile
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
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

// apply applies the settings and returns a line for each change.
func (c *applyCommand) apply(
	ctx context.Context, users *accounts.Store, store *sites.Store, file *sitesFile,
) ([]string, error) {
	email, err := model.ParseEmail(file.Account)
	if err != nil {
		return nil, err
	}

	user, err := users.UserByEmail(ctx, email)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", email, err)
	}

	changes, err := applyAccount(ctx, store, user.AccountID, file)
	if err != nil {
		return nil, err
	}

	existing, err := store.Sites(ctx, user.AccountID, 0, model.MaxSites)
	if err != nil {
		return nil, err
	}

	ids := make(map[string]int64, len(existing))
	for _, site := range existing {
		ids[site.Domain] = site.ID
	}

	seen := make(map[string]bool)
	for _, site := range file.Sites {
		domain, err := model.ParseDomain(site.Domain, c.AllowLocalDomains)
		if err == nil && seen[domain] {
			err = model.InvalidField("domain", "invalid_domain", "The file has this site twice.")
		}
		if err != nil {
			return nil, refused(site.Domain, err)
		}

		seen[domain] = true
		of, err := c.applySite(ctx, store, user.AccountID, ids[domain], domain, site)
		if err != nil {
			return nil, refused(domain, err)
		}

		changes = append(changes, of...)
	}

	of, err := c.applySitekeys(ctx, store, user.AccountID, file.Sitekeys)
	return append(changes, of...), err
}

// applySite creates the site if id is 0, applies the settings, and returns the changes.
func (c *applyCommand) applySite(ctx context.Context, store *sites.Store, accountID, id int64, domain string,
	file siteFile) ([]string, error) {
	var changes []string

	if id == 0 {
		siteKey, err := newSiteKey(ctx, store, file.SiteKey)
		if err != nil {
			return nil, err
		}

		volume, _ := c.DefaultSitePlan.MonthlyPageviews()
		site, err := store.CreateSite(ctx, model.Site{
			AccountID: accountID, SiteKey: siteKey, Domain: domain, Name: domain,
			Plan: c.DefaultSitePlan, MonthlyPageviews: volume, CreatedAt: model.At(time.Now()),
		})
		if err != nil {
			return nil, err
		}

		id, changes = site.ID, []string{fmt.Sprintf("%s: created with the site key %s", domain, site.SiteKey)}
	}

	before, err := rulesOf(ctx, store, id)
	if err != nil {
		return nil, err
	}
	if file.SiteKey != nil && *file.SiteKey != before.SiteKey {
		return nil, model.InvalidField("siteKey", "invalid_site_key", "The site has another site key, which cannot be changed.")
	}
	if err := c.changeSite(ctx, store, accountID, before, file); err != nil {
		return nil, err
	}

	after, err := rulesOf(ctx, store, id)
	if err != nil {
		return nil, err
	}

	changes = append(changes, differences(before, after)...)

	of, err := applyObjects(ctx, store, accountID, before, file)
	return append(changes, of...), err
}

func rulesOf(ctx context.Context, store *sites.Store, id int64) (*model.SiteRules, error) {
	rules, err := store.SiteRules(ctx, []int64{id})
	if err == nil && rules[id] == nil {
		// The site was deleted by another process.
		err = model.ErrNotFound
	}
	return rules[id], err
}

// changeSite applies all settings of the file that differ from the site's.
func (c *applyCommand) changeSite(ctx context.Context, store *sites.Store, accountID int64, site *model.SiteRules,
	file siteFile) error {
	update := sites.SiteUpdate{
		Name: file.Name, MeasureSiteSearch: file.MeasureSiteSearch, MeasureEcommerce: file.MeasureEcommerce,
		AllowPseudonymousUserID: file.AllowPseudonymousUserID, AutomaticEvents: file.AutomaticEvents,
		TimeZone: file.TimeZone,
	}

	if file.ExcludedAddresses != nil {
		networks := make([]netip.Prefix, len(*file.ExcludedAddresses))
		for i, text := range *file.ExcludedAddresses {
			networks[i] = model.ParseNetwork(text)
		}

		if !sameNetworks(networks, site.Excluded) {
			update.ExcludedAddresses = &networks
		}
	}

	if err := store.UpdateSite(ctx, accountID, site.ID, update); err != nil {
		return err
	}
	if err := c.changeLists(ctx, store, accountID, site, file); err != nil {
		return err
	}
	if err := c.changeWebhooks(ctx, store, accountID, site.ID, file); err != nil {
		return err
	}

	return changePlan(ctx, store, site.ID, file)
}

// sameNetworks reports whether two lists have the same entries, in any order.
func sameNetworks(a, b []netip.Prefix) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Prefix.Compare),
		slices.SortedFunc(slices.Values(b), netip.Prefix.Compare))
}

// changeLists changes domains and events.
func (c *applyCommand) changeLists(ctx context.Context, store *sites.Store, accountID int64, site *model.SiteRules,
	file siteFile) error {
	domains, err := c.domains(file.ExtraDomains)
	if err != nil {
		return err
	}

	for _, list := range []struct {
		name        string
		have        []string
		want        *[]string
		add, remove func(ctx context.Context, accountID, siteID int64, value string) error
	}{
		{"extraDomains", site.ExtraDomains, domains, store.AddSiteDomain, store.RemoveSiteDomain},
		{"registeredEvents", site.Registered, file.RegisteredEvents, store.RegisterEvent, store.UnregisterEvent},
		{"keyEvents", site.KeyEvents, file.KeyEvents, store.MarkKeyEvent, store.UnmarkKeyEvent},
	} {
		if list.want == nil {
			continue
		}

		// Remove first, because the lists have a largest length.
		for _, value := range list.have {
			if slices.Contains(*list.want, value) {
				continue
			}
			if err := list.remove(ctx, accountID, site.ID, value); err != nil {
				return fmt.Errorf("%s: %s: %w", list.name, value, err)
			}
		}

		for _, value := range *list.want {
			if slices.Contains(list.have, value) {
				continue
			}
			if err := list.add(ctx, accountID, site.ID, value); err != nil {
				return fmt.Errorf("%s: %s: %w", list.name, value, err)
			}
		}
	}

	return nil
}

// domains normalizes a list of domains. It returns nil for nil.
func (c *applyCommand) domains(texts *[]string) (*[]string, error) {
	if texts == nil {
		return nil, nil
	}

	domains := make([]string, len(*texts))
	for i, text := range *texts {
		var err error
		if domains[i], err = model.ParseDomain(text, c.AllowLocalDomains); err != nil {
			return nil, fmt.Errorf("extraDomains: %s: %w", text, err)
		}
	}

	return &domains, nil
}

// changeWebhooks sets the webhooks' addresses.
func (c *applyCommand) changeWebhooks(
	ctx context.Context, store *sites.Store, accountID, siteID int64, file siteFile,
) error {
	err := errors.Join(c.checkURL("conversionWebhookUrl", file.ConversionWebhookURL),
		c.checkURL("dailyExportUrl", file.DailyExportURL))
	if err != nil {
		return err
	}

	by := model.ChangedBy{Operator: true, At: model.At(time.Now())}

	if file.ConversionWebhookURL != nil {
		if err := store.SetConversionWebhook(ctx, accountID, siteID, *file.ConversionWebhookURL, nil, by); err != nil {
			return err
		}
	}

	if file.DailyExportURL != nil {
		return store.SetDailyExportWebhook(ctx, accountID, siteID, *file.DailyExportURL, by)
	}

	return nil
}

func changePlan(ctx context.Context, store *sites.Store, siteID int64, file siteFile) error {
	switch {
	case file.Plan != nil:
		var volume int64

		if file.MonthlyPageviews != nil {
			if volume = *file.MonthlyPageviews; volume == 0 {
				// No plan has this volume; 0 would mean that none was given.
				volume = -1
			}
		}

		return store.SetSitePlan(ctx, siteID, model.Plan(*file.Plan), volume)
	case file.MonthlyPageviews != nil:
		return model.InvalidField("monthlyPageviews", "invalid_volume", "Set monthlyPageviews together with its plan.")
	}

	return nil
}

func (c *applyCommand) checkURL(field string, address *string) error {
	if address == nil || *address == "" {
		return nil
	}
	return model.CheckWebhookURL(field, *address, config.Prefixes(c.WebhookAllowNets))
}

// differences returns a line for each setting that changed.
func differences(before, after *model.SiteRules) []string {
	var lines []string
	for _, setting := range []struct {
		name  string
		value func(*model.SiteRules) any
	}{
		{"name", func(s *model.SiteRules) any { return s.Name }},
		{"extraDomains", func(s *model.SiteRules) any { return s.ExtraDomains }},
		{"registeredEvents", func(s *model.SiteRules) any { return s.Registered }},
		{"keyEvents", func(s *model.SiteRules) any { return s.KeyEvents }},
		{"excludedAddresses", func(s *model.SiteRules) any { return s.Excluded }},
		{"measureSiteSearch", func(s *model.SiteRules) any { return s.MeasureSiteSearch }},
		{"measureEcommerce", func(s *model.SiteRules) any { return s.MeasureEcommerce }},
		{"allowPseudonymousUserId", func(s *model.SiteRules) any { return s.AllowPseudonymousUserID }},
		{"automaticEvents", func(s *model.SiteRules) any { return s.AutomaticEvents }},
		{"timeZone", func(s *model.SiteRules) any { return s.TimeZone }},
		{"conversionWebhookUrl", func(s *model.SiteRules) any { return s.ConversionWebhookURL }},
		{"dailyExportUrl", func(s *model.SiteRules) any { return s.DailyExportURL }},
		{"plan", func(s *model.SiteRules) any { return s.Plan }},
		{"monthlyPageviews", func(s *model.SiteRules) any { return s.MonthlyPageviews }},
	} {
		was, is := fmt.Sprintf("%v", setting.value(before)), fmt.Sprintf("%v", setting.value(after))
		if was != is {
			lines = append(lines, fmt.Sprintf("%s: %s: %q, was %q", after.Domain, setting.name, is, was))
		}
	}

	return lines
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
