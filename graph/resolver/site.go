package resolver

import (
	"context"
	"errors"
	"fmt"
	"html"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// Sites: lists and fields, then creation, deletion and the plan. The settings are in
// site_settings.go.

func (r *queryResolver) Site(ctx context.Context, id string) (*model.Site, error) {
	viewer, err := r.require(ctx, model.MayRead)
	if err != nil {
		return nil, err
	}
	return r.site(ctx, viewer.AccountID, id)
}

func (r *queryResolver) Sites(ctx context.Context, first int, after *string) (*generated.SiteConnection, error) {
	viewer, err := r.require(ctx, model.MayRead)
	if err != nil {
		return nil, err
	}
	return r.siteConnection(ctx, viewer.AccountID, first, after)
}

func (r *accountResolver) Sites(
	ctx context.Context, obj *model.Account, first int, after *string,
) (*generated.SiteConnection, error) {
	key := accountRead{field: "sites", accountID: obj.ID, first: first}
	if after != nil {
		key.after, key.paged = *after, true
	}
	return shared(
		ctx, key, func() (*generated.SiteConnection, error) { return r.siteConnection(ctx, obj.ID, first, after) },
	)
}

// siteConnection loads one page of an account's sites.
func (r *Resolver) siteConnection(
	ctx context.Context, accountID int64, first int, after *string,
) (*generated.SiteConnection, error) {
	cursors := r.cursors(model.AfterSite)
	afterID, err := cursors.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	sites, err := r.sites.Sites(ctx, accountID, afterID, int64(first)+1)
	if err != nil {
		return nil, err
	}

	sites, page := cutPage(cursors, sites, first, after, func(s *model.Site) int64 { return s.ID })
	edges := make([]*generated.SiteEdge, len(sites))
	for i, site := range sites {
		edges[i] = &generated.SiteEdge{Cursor: cursors.encode(site.ID), Node: site}
	}

	requestOf(ctx).loaders().Expect(sites)
	return &generated.SiteConnection{Edges: edges, PageInfo: page, AccountID: accountID}, nil
}

func (r *siteConnectionResolver) TotalCount(ctx context.Context, obj *generated.SiteConnection) (int, error) {
	key := accountRead{field: "sites.totalCount", accountID: obj.AccountID}
	n, err := shared(ctx, key, func() (int64, error) { return r.sites.SiteCount(ctx, obj.AccountID) })
	return int(n), err
}

// site returns a site of the account by its global id, or nil.
func (r *Resolver) site(ctx context.Context, accountID int64, id string) (*model.Site, error) {
	number, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.sites.SiteByID(ctx, accountID, number))
}

func (r *siteResolver) ID(ctx context.Context, obj *model.Site) (string, error) {
	return r.ids.Of(model.NodeSite, obj.ID), nil
}

func (r *siteResolver) ExtraDomains(ctx context.Context, obj *model.Site) ([]string, error) {
	rules, err := r.rules(ctx, obj)
	return orEmpty(rules.ExtraDomains), err
}

func (r *siteResolver) RegisteredEvents(ctx context.Context, obj *model.Site) ([]string, error) {
	rules, err := r.rules(ctx, obj)
	return orEmpty(rules.Registered), err
}

// KeyEvents always includes purchase.
func (r *siteResolver) KeyEvents(ctx context.Context, obj *model.Site) ([]string, error) {
	rules, err := r.rules(ctx, obj)
	names := append([]string{model.EventPurchase}, rules.KeyEvents...)
	slices.Sort(names)
	return slices.Compact(names), err
}

func (r *siteResolver) ExcludedAddresses(ctx context.Context, obj *model.Site) ([]string, error) {
	rules, err := r.rules(ctx, obj)

	networks := make([]string, len(rules.Excluded))
	for i, network := range rules.Excluded {
		networks[i] = network.String()
	}

	return networks, err
}

// rules loads the lists of a site, which are empty together with an error.
func (r *siteResolver) rules(ctx context.Context, site *model.Site) (*model.SiteRules, error) {
	rules, err := requestOf(ctx).loaders().Rules.Of(ctx, site.ID)
	if rules == nil {
		rules = &model.SiteRules{}
	}
	return rules, err
}

func (r *siteResolver) ConversionWebhookURL(ctx context.Context, obj *model.Site) (*string, error) {
	return orNil(obj.ConversionWebhookURL), nil
}

func (r *siteResolver) ConversionWebhookSigned(ctx context.Context, obj *model.Site) (bool, error) {
	return len(obj.ConversionWebhookSecret) > 0, nil
}

func (r *siteResolver) DailyExportURL(ctx context.Context, obj *model.Site) (*string, error) {
	return orNil(obj.DailyExportURL), nil
}

func (r *siteResolver) ServerSecretHint(ctx context.Context, obj *model.Site) (*string, error) {
	return orNil(obj.ServerSecretHint), nil
}

func (r *siteResolver) LastHitAt(ctx context.Context, obj *model.Site) (*model.Instant, error) {
	at, err := requestOf(ctx).loaders().LastHits.Of(ctx, obj.ID)
	return timeOrNil(at), err
}

// ScriptTag returns the tag for every page of the site (analytics contract, section 3).
func (r *siteResolver) ScriptTag(ctx context.Context, obj *model.Site) (string, error) {
	address := html.EscapeString(r.analyticsURL)
	return `<script defer src="` + address + `/svc.js" data-site="` + obj.SiteKey + `"></script>`, nil
}

// CspLines returns what the policy of the site's pages must allow (analytics contract, section 5).
func (r *siteResolver) CspLines(ctx context.Context, obj *model.Site) ([]string, error) {
	return []string{"script-src " + r.analyticsURL, "connect-src " + r.analyticsURL}, nil
}

func (r *siteResolver) Usage(ctx context.Context, obj *model.Site) (*generated.Usage, error) {
	return siteUsage(ctx, obj)
}

// siteUsage returns what a site has used of its quota in the month of the request.
func siteUsage(ctx context.Context, site *model.Site) (*generated.Usage, error) {
	request := requestOf(ctx)
	used, err := request.loaders().Usage.Of(ctx, site.ID)
	if err != nil {
		return nil, err
	}

	month := request.now.Month()
	return &generated.Usage{
		Period:    month.String(),
		Pageviews: used,
		Quota:     site.MonthlyPageviews,
		Percent:   percent(used, site.MonthlyPageviews),
		ResetsAt:  model.At(month.Next().Start()),
	}, nil
}

func (r *siteResolver) Rejections(ctx context.Context, obj *model.Site, days int) ([]*generated.Rejection, error) {
	if err := checkDays(days); err != nil {
		return nil, err
	}

	request := requestOf(ctx)
	rows, err := request.loaders().Rejections(request.now.Day()-model.Day(days)+1).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	list := make([]*generated.Rejection, len(rows))
	for i, row := range rows {
		list[i] = &generated.Rejection{
			Day: row.Day.String(), Endpoint: row.Endpoint, Code: row.Code, Count: row.Count,
			Ignored: model.IsIgnored(row.Code), Advice: model.RejectionAdvice(row.Code),
		}
	}

	return list, nil
}

// noticeDays is the number of days that Notice counts.
const noticeDays = 7

func (r *siteResolver) Notice(ctx context.Context, obj *model.Site) (*string, error) {
	rows, err := r.Rejections(ctx, obj, noticeDays)
	if err != nil {
		return nil, err
	}

	var rejected int64
	for _, row := range rows {
		if !row.Ignored {
			rejected += row.Count
		}
	}

	switch rejected {
	case 0:
		return nil, nil
	case 1:
		return orNil(
			fmt.Sprintf("1 call was rejected in the last %d days. See rejections for the reason and advice.", noticeDays),
		), nil
	}

	return orNil(
		fmt.Sprintf(
			"%d calls were rejected in the last %d days. See rejections for the reasons and advice.", rejected,
			noticeDays,
		),
	), nil
}

// CreateSite checks the input and stores a site on the default plan. All mistakes are reported.
func (r *mutationResolver) CreateSite(
	ctx context.Context, input generated.CreateSiteInput,
) (*generated.CreateSitePayload, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	domain, domainErr := model.ParseDomain(input.Domain, r.allowLocal)
	var nameErr, zoneErr error
	name, zone := domain, model.DefaultTimeZone

	if input.Name != nil {
		name, nameErr = model.ParseName("name", *input.Name)
	}
	if input.TimeZone != nil {
		zone, zoneErr = model.ParseTimeZone("timeZone", *input.TimeZone)
	}
	if err := errors.Join(domainErr, nameErr, zoneErr); err != nil {
		return nil, err
	}

	create := r.sites.CreateOwnersSite
	if viewer.Operator {
		create = r.sites.CreateSite
	}

	site, err := create(ctx, model.Site{
		AccountID:        viewer.AccountID,
		SiteKey:          model.NewSiteKey(),
		Domain:           domain,
		Name:             name,
		TimeZone:         zone,
		Plan:             r.plan,
		MonthlyPageviews: r.planQuota,
		CreatedAt:        model.At(r.now()),
	})

	return &generated.CreateSitePayload{Site: site}, err
}

// DeleteSite deletes a site and purges its rows, up to purgeTime.
func (r *mutationResolver) DeleteSite(
	ctx context.Context, input generated.DeleteSiteInput,
) (*generated.SitePayload, error) {
	viewer, err := r.require(ctx, model.MayManage)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, input.SiteID)
	if !ok {
		return nil, notFound("siteId")
	}

	site, err := r.sites.DeleteSite(ctx, viewer.AccountID, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	r.purge(ctx, siteID)
	return &generated.SitePayload{Site: site}, nil
}

// SetSitePlan sets the plan of a site of any account, for operators. It returns nothing of the site
// but its usage.
func (r *mutationResolver) SetSitePlan(
	ctx context.Context, input generated.SetSitePlanInput,
) (*generated.SetSitePlanPayload, error) {
	if _, err := r.require(ctx, model.MayOperate); err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, input.SiteID)
	if !ok {
		return nil, notFound("siteId")
	}

	// 0 means no volume for sites.Store.SetSitePlan, so an explicit 0 is passed as a volume that no plan
	// accepts.
	var volume int64

	if input.MonthlyPageviews != nil {
		if volume = *input.MonthlyPageviews; volume == 0 {
			volume = -1
		}
	}

	if err := r.sites.SetSitePlan(ctx, siteID, input.Plan, volume); err != nil {
		return nil, orNotFound("siteId", err)
	}

	site, err := r.sites.AnySite(ctx, siteID)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	usage, err := siteUsage(ctx, site)
	return &generated.SetSitePlanPayload{SiteID: &input.SiteID, Plan: &input.Plan, Usage: usage}, err
}
