package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// sitesFile is the file of "admin apply" and "admin export-config". A setting that is missing or
// null is not changed. The file holds every setting of an account except secrets and what depends
// on people: server secrets, webhook secrets, secrets of sitekeys, shared links, members,
// invitations, API tokens, and the mails that each user has chosen.
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
	Domain               string  `yaml:"domain"`
	SiteKey              *string `yaml:"siteKey,omitempty"` // of a new site; of an existing one it must be right
	sites.SiteUpdate     `yaml:",inline"`
	ConversionWebhookURL *string           `yaml:"conversionWebhookUrl"`
	DailyExportURL       *string           `yaml:"dailyExportUrl"`
	Plan                 *string           `yaml:"plan"`
	MonthlyPageviews     *int64            `yaml:"monthlyPageviews,omitempty"`
	Segments             *[]segmentFile    `yaml:"segments"`
	Funnels              *[]funnelFile     `yaml:"funnels"`
	Annotations          *[]annotationFile `yaml:"annotations"`
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

	Policy *policyFile `yaml:"policy,omitempty"`
}

// policyFile is the policy of a sitekey. What is missing is not changed; 0 is the installation's
// setting.
type policyFile struct {
	BaseSeconds *float64        `yaml:"baseSeconds,omitempty"` // on a mid-range phone
	MaxSeconds  *float64        `yaml:"maxSeconds,omitempty"`
	Free        *int            `yaml:"freeChallenges,omitempty"`
	Automation  *string         `yaml:"automation,omitempty"`
	Strict      *bool           `yaml:"strict,omitempty"`
	AttackMode  *string         `yaml:"attackMode,omitempty"`
	Exempt      *[]netip.Prefix `yaml:"exemptNetworks,omitempty"`
}

// newPolicyFile returns a policy for a file, or nil for the installation's.
func newPolicyFile(p *model.CaptchaPolicy) *policyFile {
	if p.Text() == (model.CaptchaPolicy{}).Text() {
		return nil
	}

	exempt := p.Exempt
	if exempt == nil {
		exempt = []netip.Prefix{}
	}
	return &policyFile{
		BaseSeconds: new(float64(p.BaseMS) / 1000), MaxSeconds: new(float64(p.MaxMS) / 1000), Free: &p.Free,
		Automation: new(string(p.AutomationOrDefault())), Strict: &p.Strict, AttackMode: new(string(p.AttackModeOrDefault())),
		Exempt: &exempt,
	}
}

// exportConfigCommand prints the settings of an account as a file for applyCommand.
type exportConfigCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user of the account."`
	} `positional-args:"yes" required:"yes"`
}

// Run prints the file. Equal settings make an equal file.
func (c *exportConfigCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	file, err := readSites(ctx, &sites.New(d).Owned, account.ID)
	if err != nil {
		return err
	}

	file.Account = string(c.Args.Email)
	return writeSites(s.out, file)
}

func writeSites(out io.Writer, file *sitesFile) error {
	return yaml.NewEncoder(out, yaml.CustomMarshaler(quoteText), yaml.CustomMarshaler(quoteNetwork)).Encode(file)
}

// parseNetwork parses an address or a network. An invalid one is reported with the other mistakes
// of its site.
func parseNetwork(network *netip.Prefix, text []byte) error {
	var address string
	err := yaml.Unmarshal(text, &address)
	*network = model.ParseNetwork(address)
	return err
}

// quoteNetwork returns a network as YAML.
func quoteNetwork(network netip.Prefix) ([]byte, error) { return quoteText(network.String()) }

// plainText matches texts that the library writes as they are. Of other texts it quotes some
// wrongly, for instance those with tabs and line breaks.
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
func readSites(ctx context.Context, store *sites.Owned, accountID model.AccountID) (*sitesFile, error) {
	account, err := store.Sites.AccountSettings(ctx, accountID)
	if err != nil {
		return nil, err
	}

	plan := string(account.CaptchaPlan)
	file := &sitesFile{AccountName: &account.Name, CaptchaPlan: &plan, SiteLimit: account.SiteLimit, Sites: []siteFile{}}

	list, err := store.Sites.Sites(ctx, accountID, 0, model.MaxSites)
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

	sitekeys, err := store.Sitekeys.Sitekeys(ctx, accountID, 0, model.MaxSitekeys)
	if err != nil {
		return nil, err
	}

	for _, key := range sitekeys {
		file.Sitekeys = append(file.Sitekeys, sitekeyFile{key.Sitekey, &key.Name, &key.Domains, newPolicyFile(&key.Policy)})
	}

	slices.SortFunc(file.Sites, func(a, b siteFile) int { return cmp.Compare(a.Domain, b.Domain) })
	slices.SortFunc(file.Sitekeys, func(a, b sitekeyFile) int {
		return cmp.Or(cmp.Compare(*a.Name, *b.Name), cmp.Compare(a.Sitekey, b.Sitekey))
	})

	return file, nil
}

// readSite returns the settings of one site.
func readSite(ctx context.Context, store *sites.Owned, id model.SiteID) (*siteFile, error) {
	site, err := rulesOf(ctx, store, id)
	if err != nil {
		return nil, err
	}

	objects, err := readObjects(ctx, store, id)
	if err != nil {
		return nil, err
	}

	plan := string(site.Plan)
	file := &siteFile{
		Domain: site.Domain, SiteKey: &site.SiteKey, SiteUpdate: sites.SettingsOf(site),
		ConversionWebhookURL: &site.ConversionWebhookURL, DailyExportURL: &site.DailyExportURL, Plan: &plan,
		Segments: &objects.segments, Funnels: &objects.funnels, Annotations: &objects.annotations,
	}

	if volume, _ := site.Plan.MonthlyPageviews(); site.MonthlyPageviews != volume {
		file.MonthlyPageviews = &site.MonthlyPageviews
	}

	return file, nil
}

// siteObjects are what a site's owner saved for its reports, as in the file, with the ids.
type siteObjects struct {
	segments    []segmentFile
	funnels     []funnelFile
	annotations []annotationFile

	segmentIDs, funnelIDs map[string]int64 // by name
	annotationIDs         map[annotationFile][]model.AnnotationID
}

func readObjects(ctx context.Context, store *sites.Owned, siteID model.SiteID) (*siteObjects, error) {
	objects := &siteObjects{
		segments: []segmentFile{}, funnels: []funnelFile{}, annotations: []annotationFile{},
		segmentIDs: map[string]int64{}, funnelIDs: map[string]int64{}, annotationIDs: map[annotationFile][]model.AnnotationID{},
	}

	segments, segmentsErr := store.Objects.SegmentsOfSites(ctx, []model.SiteID{siteID})
	funnels, funnelsErr := store.Objects.FunnelsOfSites(ctx, []model.SiteID{siteID})
	annotations, annotationsErr := store.Objects.AnnotationsOfSites(ctx, []model.SiteID{siteID},
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
		objects.segmentIDs[segment.Name] = int64(segment.ID)
	}

	for _, funnel := range funnels[siteID] {
		file := funnelFile{Name: funnel.Name}
		for _, step := range funnel.Steps {
			file.Steps = append(file.Steps, stepFile(step))
		}

		objects.funnels = append(objects.funnels, file)
		objects.funnelIDs[funnel.Name] = int64(funnel.ID)
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
