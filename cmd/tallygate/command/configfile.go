package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
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

// sitesFile is the file of "admin apply" and "admin export-config". A setting that is missing or null
// is not changed. The file holds every setting of an account except secrets and what depends on
// people: server secrets, webhook secrets, secrets of sitekeys, shared links, members, invitations,
// API tokens, and the mails that each user has chosen.
type sitesFile struct {
	Account     string        `yaml:"account"` // e-mail address of one of its users
	AccountName *string       `yaml:"accountName,omitempty"`
	CaptchaPlan *string       `yaml:"captchaPlan,omitempty"`
	SiteLimit   *int64        `yaml:"siteLimit,omitempty"`
	Sites       []siteFile    `yaml:"sites"`
	Sitekeys    []sitekeyFile `yaml:"sitekeys,omitempty"`
}

// siteFile is a site, identified by its domain. An unknown site is created. An empty string removes
// an address, an empty list all entries.
type siteFile struct {
	Domain                  string            `yaml:"domain"`
	SiteKey                 *string           `yaml:"siteKey,omitempty"` // of a new site; of an existing one it must be right
	Name                    *string           `yaml:"name"`
	ExtraDomains            *[]string         `yaml:"extraDomains"`
	RegisteredEvents        *[]string         `yaml:"registeredEvents"`
	KeyEvents               *[]string         `yaml:"keyEvents"`
	ExcludedAddresses       *[]string         `yaml:"excludedAddresses"`
	MeasureSiteSearch       *bool             `yaml:"measureSiteSearch"`
	MeasureEcommerce        *bool             `yaml:"measureEcommerce"`
	AllowPseudonymousUserID *bool             `yaml:"allowPseudonymousUserId"`
	AutomaticEvents         *bool             `yaml:"automaticEvents"`
	TimeZone                *string           `yaml:"timeZone"`
	ConversionWebhookURL    *string           `yaml:"conversionWebhookUrl"`
	DailyExportURL          *string           `yaml:"dailyExportUrl"`
	Plan                    *string           `yaml:"plan"`
	MonthlyPageviews        *int64            `yaml:"monthlyPageviews,omitempty"`
	Segments                *[]segmentFile    `yaml:"segments"`
	Funnels                 *[]funnelFile     `yaml:"funnels"`
	Annotations             *[]annotationFile `yaml:"annotations"`
}

// segmentFile is a segment, identified by its name.
type segmentFile struct {
	Name    string       `yaml:"name"`
	Filters []filterFile `yaml:"filters"`
}

// filterFile is a model.ReportFilter.
type filterFile struct {
	Dimension model.ReportDimension `yaml:"dimension"`
	Operator  model.ReportOperator  `yaml:"operator"`
	Values    []string              `yaml:"values"`
	Property  string                `yaml:"property,omitempty"`
	Event     string                `yaml:"event,omitempty"`
}

// funnelFile is a funnel, identified by its name.
type funnelFile struct {
	Name  string     `yaml:"name"`
	Steps []stepFile `yaml:"steps"`
}

// stepFile is a model.FunnelStep.
type stepFile struct {
	Page  string `yaml:"page,omitempty"`
	Event string `yaml:"event,omitempty"`
	Label string `yaml:"label,omitempty"`
}

// annotationFile is a note on a day.
type annotationFile struct {
	Day  string `yaml:"day"`
	Text string `yaml:"text"`
}

// sitekeyFile is a captcha sitekey, identified by its public text. An unknown one is created with a
// secret that is not shown; its owner rotates it.
type sitekeyFile struct {
	Sitekey string    `yaml:"sitekey"`
	Name    *string   `yaml:"name"`
	Domains *[]string `yaml:"domains"`
}

// exportConfigCommand prints the settings of an account as a file for applyCommand.
type exportConfigCommand struct {
	config.Config `embed:""`
	Email         string `arg:"" help:"E-mail address of a user of the account."`
}

// Run prints the file. Equal settings make an equal file.
func (c *exportConfigCommand) Run(ctx context.Context, term terminal) error {
	return withDatabase(ctx, &c.Config, func(d *db.DB) error {
		email, err := model.ParseEmail(c.Email)
		if err != nil {
			return err
		}

		user, err := accounts.New(d).UserByEmail(ctx, email)
		if err != nil {
			return fmt.Errorf("account %s: %w", email, err)
		}

		file, err := readSites(ctx, sites.New(d), user.AccountID)
		if err != nil {
			return err
		}

		file.Account = email
		return writeSites(term.out, file)
	})
}

func writeSites(out io.Writer, file *sitesFile) error {
	return yaml.NewEncoder(out, yaml.CustomMarshaler(quoteText)).Encode(file)
}

// plainText matches texts that the library writes as they are. Of other texts it quotes some wrongly,
// for instance those with tabs and line breaks.
var plainText = regexp.MustCompile(`^[A-Za-z0-9äöüÄÖÜß/_](?:[A-Za-z0-9äöüÄÖÜß/_.,:?=@&*+ -]*[A-Za-z0-9äöüÄÖÜß/_*])?$`)

// quoteText returns a text as YAML: as the library writes it, or in the quotes of JSON.
func quoteText(text string) ([]byte, error) {
	if plainText.MatchString(text) {
		return yaml.Marshal(text)
	}

	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)

	return bytes.TrimSpace(quoted.Bytes()), err
}

// readSites returns the settings of an account, in an order that does not depend on when they were
// made.
func readSites(ctx context.Context, store *sites.Store, accountID int64) (*sitesFile, error) {
	account, err := store.AccountSettings(ctx, accountID)
	if err != nil {
		return nil, err
	}

	plan := string(account.CaptchaPlan)
	file := &sitesFile{AccountName: &account.Name, CaptchaPlan: &plan, SiteLimit: account.SiteLimit, Sites: []siteFile{}}

	list, err := store.Sites(ctx, accountID, 0, model.MaxSites)
	if err != nil {
		return nil, err
	}

	for _, site := range list {
		settings, err := readSite(ctx, store, site.ID)
		if err != nil {
			return nil, err
		}

		file.Sites = append(file.Sites, *settings)
	}

	sitekeys, err := store.Sitekeys(ctx, accountID, 0, model.MaxSitekeys)
	if err != nil {
		return nil, err
	}

	for _, key := range sitekeys {
		file.Sitekeys = append(file.Sitekeys, sitekeyFile{key.Sitekey, &key.Name, &key.Domains})
	}

	slices.SortFunc(file.Sites, func(a, b siteFile) int { return cmp.Compare(a.Domain, b.Domain) })
	slices.SortFunc(file.Sitekeys, func(a, b sitekeyFile) int {
		return cmp.Or(cmp.Compare(*a.Name, *b.Name), cmp.Compare(a.Sitekey, b.Sitekey))
	})

	return file, nil
}

// readSite returns the settings of one site.
func readSite(ctx context.Context, store *sites.Store, id int64) (*siteFile, error) {
	site, err := rulesOf(ctx, store, id)
	if err != nil {
		return nil, err
	}

	objects, err := readObjects(ctx, store, id)
	if err != nil {
		return nil, err
	}

	excluded := make([]string, len(site.Excluded))
	for i, network := range site.Excluded {
		excluded[i] = network.String()
	}

	plan := string(site.Plan)
	file := &siteFile{
		Domain: site.Domain, SiteKey: &site.SiteKey, Name: &site.Name,
		ExtraDomains: orEmpty(site.ExtraDomains), RegisteredEvents: orEmpty(site.Registered),
		KeyEvents: orEmpty(site.KeyEvents), ExcludedAddresses: &excluded,
		MeasureSiteSearch: &site.MeasureSiteSearch, MeasureEcommerce: &site.MeasureEcommerce,
		AllowPseudonymousUserID: &site.AllowPseudonymousUserID, AutomaticEvents: &site.AutomaticEvents,
		TimeZone: &site.TimeZone, ConversionWebhookURL: &site.ConversionWebhookURL, DailyExportURL: &site.DailyExportURL,
		Plan: &plan, Segments: &objects.segments, Funnels: &objects.funnels, Annotations: &objects.annotations,
	}

	if _, fixed := site.Plan.MonthlyPageviews(); !fixed {
		file.MonthlyPageviews = &site.MonthlyPageviews
	}

	return file, nil
}

// orEmpty returns a list that is not nil, so that the file shows it as [].
func orEmpty(list []string) *[]string {
	if list == nil {
		list = []string{}
	}
	return &list
}

// siteObjects are what a site's owner saved for its reports, as in the file, with the ids.
type siteObjects struct {
	segments    []segmentFile
	funnels     []funnelFile
	annotations []annotationFile

	segmentIDs, funnelIDs map[string]int64 // by name
	annotationIDs         map[annotationFile][]int64
}

func readObjects(ctx context.Context, store *sites.Store, siteID int64) (*siteObjects, error) {
	objects := &siteObjects{
		segments: []segmentFile{}, funnels: []funnelFile{}, annotations: []annotationFile{},
		segmentIDs: map[string]int64{}, funnelIDs: map[string]int64{}, annotationIDs: map[annotationFile][]int64{},
	}

	segments, segmentsErr := store.SegmentsOfSites(ctx, []int64{siteID})
	funnels, funnelsErr := store.FunnelsOfSites(ctx, []int64{siteID})
	annotations, annotationsErr := store.AnnotationsOfSites(ctx, []int64{siteID},
		sites.AnnotationPage{Limit: model.MaxAnnotations})
	if err := errors.Join(segmentsErr, funnelsErr, annotationsErr); err != nil {
		return nil, err
	}

	for _, segment := range segments[siteID] {
		file := segmentFile{Name: segment.Name}
		for _, filter := range segment.Filters {
			file.Filters = append(file.Filters, filterFile(filter))
		}

		objects.segments = append(objects.segments, file)
		objects.segmentIDs[segment.Name] = segment.ID
	}

	for _, funnel := range funnels[siteID] {
		file := funnelFile{Name: funnel.Name}
		for _, step := range funnel.Steps {
			file.Steps = append(file.Steps, stepFile(step))
		}

		objects.funnels = append(objects.funnels, file)
		objects.funnelIDs[funnel.Name] = funnel.ID
	}

	for _, annotation := range annotations[siteID] {
		file := annotationFile{annotation.Day.String(), annotation.Text}
		objects.annotations = append(objects.annotations, file)
		objects.annotationIDs[file] = append(objects.annotationIDs[file], annotation.ID)
	}

	slices.SortFunc(objects.segments, func(a, b segmentFile) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(objects.funnels, func(a, b funnelFile) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(objects.annotations, func(a, b annotationFile) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Text, b.Text))
	})

	return objects, nil
}

// applyAccount applies the settings of the account itself, and returns the changes.
func applyAccount(ctx context.Context, store *sites.Store, accountID int64, file *sitesFile) ([]string, error) {
	before, err := store.AccountSettings(ctx, accountID)
	if err != nil {
		return nil, err
	}

	after := *before
	if file.AccountName != nil {
		after.Name = *file.AccountName
	}
	if file.CaptchaPlan != nil {
		after.CaptchaPlan = model.CaptchaPlan(*file.CaptchaPlan)
	}
	if file.SiteLimit != nil {
		after.SiteLimit = file.SiteLimit
	}

	if reflect.DeepEqual(after, *before) {
		return nil, nil
	}
	if err := store.SetAccountSettings(ctx, accountID, after); err != nil {
		return nil, refused("account", err)
	}

	limit := func(limit *int64) string {
		if limit == nil {
			return "the default"
		}
		return fmt.Sprint(*limit)
	}

	var changes []string
	for _, setting := range []struct{ name, was, is string }{
		{"accountName", before.Name, after.Name},
		{"captchaPlan", string(before.CaptchaPlan), string(after.CaptchaPlan)},
		{"siteLimit", limit(before.SiteLimit), limit(after.SiteLimit)},
	} {
		if setting.was != setting.is {
			changes = append(changes, fmt.Sprintf("account: %s: %q, was %q", setting.name, setting.is, setting.was))
		}
	}

	return changes, nil
}

// newSiteKey returns the site key of a new site: the given one, or a random one.
func newSiteKey(ctx context.Context, store *sites.Store, given *string) (string, error) {
	if given == nil {
		return model.NewSiteKey(), nil
	}
	if !model.IsSiteKey(*given) {
		return "", model.InvalidField("siteKey", "invalid_site_key", "A site key is 32 hexadecimal characters.")
	}

	_, err := store.SiteRulesByKey(ctx, *given)
	switch {
	case err == nil:
		return "", model.InvalidField("siteKey", "invalid_site_key", "Another site has this site key.")
	case model.KindOf(err) != model.NotFound:
		return "", err
	}

	return *given, nil
}

// applySitekeys applies the settings of captcha sitekeys, and returns the changes.
func (c *applyCommand) applySitekeys(
	ctx context.Context, store *sites.Store, accountID int64, files []sitekeyFile,
) ([]string, error) {
	list, err := store.Sitekeys(ctx, accountID, 0, model.MaxSitekeys)
	if err != nil {
		return nil, err
	}

	existing := make(map[string]*model.Sitekey, len(list))
	for _, key := range list {
		existing[key.Sitekey] = key
	}

	var changes []string
	for _, file := range files {
		change, err := c.applySitekey(ctx, store, accountID, existing[file.Sitekey], file)
		if err != nil {
			return nil, refused(cmp.Or(file.Sitekey, "sitekeys"), err)
		}

		changes = append(changes, change...)
	}

	return changes, nil
}

// applySitekey creates or changes one sitekey. key is the existing one, or nil.
func (c *applyCommand) applySitekey(
	ctx context.Context, store *sites.Store, accountID int64, key *model.Sitekey, file sitekeyFile,
) ([]string, error) {
	domains, err := c.sitekeyDomains(file.Domains)
	if err != nil {
		return nil, err
	}

	if key == nil {
		name, bound := file.Sitekey, []string{}
		if file.Name != nil {
			name = *file.Name
		}
		if domains != nil {
			bound = *domains
		}

		_, _, err := store.CreateSitekeyAs(ctx, accountID, file.Sitekey, name, bound, model.At(time.Now()))
		return []string{file.Sitekey + ": created; rotate its secret to get one"}, err
	}

	if (file.Name == nil || *file.Name == key.Name) && (domains == nil || slices.Equal(*domains, key.Domains)) {
		return nil, nil
	}

	changed, err := store.UpdateSitekey(ctx, accountID, key.ID, sites.SitekeyUpdate{Name: file.Name, Domains: domains})
	if err != nil {
		return nil, err
	}

	var changes []string
	for _, setting := range []struct{ name, was, is string }{
		{"name", key.Name, changed.Name},
		{"domains", fmt.Sprint(key.Domains), fmt.Sprint(changed.Domains)},
	} {
		if setting.was != setting.is {
			changes = append(changes, fmt.Sprintf("%s: %s: %q, was %q", key.Sitekey, setting.name, setting.is, setting.was))
		}
	}

	return changes, nil
}

// sitekeyDomains normalizes the domains of a sitekey. It returns nil for nil.
func (c *applyCommand) sitekeyDomains(texts *[]string) (*[]string, error) {
	if texts == nil {
		return nil, nil
	}

	domains := make([]string, len(*texts))
	for i, text := range *texts {
		var err error
		if domains[i], err = model.ParseSitekeyDomain(text, c.AllowLocalDomains); err != nil {
			return nil, fmt.Errorf("domains: %s: %w", text, err)
		}
	}

	return &domains, nil
}

// applyObjects applies a site's segments, funnels and annotations: a list of the file replaces the
// stored one. It returns the changes.
func applyObjects(
	ctx context.Context, store *sites.Store, accountID int64, site *model.SiteRules, file siteFile,
) ([]string, error) {
	stored, err := readObjects(ctx, store, site.ID)
	if err != nil {
		return nil, err
	}

	var changes []string
	note := func(list, name, change string) {
		changes = append(changes, fmt.Sprintf("%s: %s: %q %s", site.Domain, list, name, change))
	}

	if file.Segments != nil {
		err := applySegments(ctx, store, accountID, site.ID, stored, *file.Segments, note)
		if err != nil {
			return nil, fmt.Errorf("segments: %w", err)
		}
	}

	if file.Funnels != nil {
		if err := applyFunnels(ctx, store, accountID, site.ID, stored, *file.Funnels, note); err != nil {
			return nil, fmt.Errorf("funnels: %w", err)
		}
	}

	if file.Annotations != nil {
		err := applyAnnotations(ctx, store, accountID, site.ID, stored, *file.Annotations, note)
		if err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
	}

	return changes, nil
}

func applySegments(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []segmentFile,
	note func(list, name, change string),
) error {
	for _, segment := range stored.segments {
		if slices.ContainsFunc(wanted, func(w segmentFile) bool { return strings.TrimSpace(w.Name) == segment.Name }) {
			continue
		}
		if _, err := store.DeleteSegment(ctx, accountID, stored.segmentIDs[segment.Name]); err != nil {
			return fmt.Errorf("%s: %w", segment.Name, err)
		}
		note("segments", segment.Name, "deleted")
	}

	for _, segment := range wanted {
		filters := make([]model.ReportFilter, len(segment.Filters))
		for i, filter := range segment.Filters {
			filters[i] = model.ReportFilter(filter)
		}

		name := strings.TrimSpace(segment.Name)
		id, exists := stored.segmentIDs[name]

		var err error
		switch {
		case !exists:
			_, err = store.CreateSegment(ctx, accountID, model.Segment{SiteID: siteID, Name: name, Filters: filters})
			note("segments", name, "created")
		case !slices.ContainsFunc(stored.segments, func(s segmentFile) bool {
			return s.Name == name && reflect.DeepEqual(s.Filters, segment.Filters)
		}):
			_, err = store.UpdateSegment(ctx, accountID, id, nil, &filters)
			note("segments", name, "changed")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	return nil
}

func applyFunnels(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []funnelFile,
	note func(list, name, change string),
) error {
	for _, funnel := range stored.funnels {
		if slices.ContainsFunc(wanted, func(w funnelFile) bool { return strings.TrimSpace(w.Name) == funnel.Name }) {
			continue
		}
		if _, err := store.DeleteFunnel(ctx, accountID, stored.funnelIDs[funnel.Name]); err != nil {
			return fmt.Errorf("%s: %w", funnel.Name, err)
		}
		note("funnels", funnel.Name, "deleted")
	}

	for _, funnel := range wanted {
		steps := make([]model.FunnelStep, len(funnel.Steps))
		for i, step := range funnel.Steps {
			steps[i] = model.FunnelStep(step)
		}

		name := strings.TrimSpace(funnel.Name)
		id, exists := stored.funnelIDs[name]

		var err error
		switch {
		case !exists:
			_, err = store.CreateFunnel(ctx, accountID, model.Funnel{SiteID: siteID, Name: name, Steps: steps})
			note("funnels", name, "created")
		case !slices.ContainsFunc(stored.funnels, func(f funnelFile) bool {
			return f.Name == name && reflect.DeepEqual(f.Steps, funnel.Steps)
		}):
			_, err = store.UpdateFunnel(ctx, accountID, id, nil, &steps)
			note("funnels", name, "changed")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	return nil
}

// applyAnnotations deletes first, because a site has a largest number of annotations. A note can be
// there several times.
func applyAnnotations(
	ctx context.Context, store *sites.Store, accountID, siteID int64, stored *siteObjects, wanted []annotationFile,
	note func(list, name, change string),
) error {
	var missing []annotationFile
	for _, annotation := range wanted {
		if ids := stored.annotationIDs[annotation]; len(ids) > 0 {
			stored.annotationIDs[annotation] = ids[1:]
		} else {
			missing = append(missing, annotation)
		}
	}

	for _, annotation := range stored.annotations {
		for _, id := range stored.annotationIDs[annotation] {
			if _, err := store.DeleteAnnotation(ctx, accountID, id); err != nil {
				return err
			}
			note("annotations", annotation.Day+" "+annotation.Text, "deleted")
		}

		delete(stored.annotationIDs, annotation)
	}

	for _, annotation := range missing {
		day, err := model.ParseDay(annotation.Day)
		if err != nil {
			return fmt.Errorf("%s: %w", annotation.Day, model.InvalidField("day", "invalid_day", "Use the form YYYY-MM-DD."))
		}

		_, err = store.CreateAnnotation(ctx, accountID,
			model.Annotation{SiteID: siteID, Day: day, Text: annotation.Text, CreatedAt: model.At(time.Now())})
		if err != nil {
			return fmt.Errorf("%s: %w", annotation.Day, err)
		}
		note("annotations", annotation.Day+" "+annotation.Text, "created")
	}

	return nil
}
