package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Sites: lists and fields, then creation, deletion and the plan. The settings are in
// site_settings.go.

func (r *queryResolver) Site(
	ctx context.Context, id *string, domain *string, _ *string,
) (*model.Site, error) {
	viewer := memberOf(ctx)
	switch {
	case (id == nil) == (domain == nil):
		return nil, invalidArgument("id", "Give either id or domain.")
	case domain != nil:
		return r.siteByDomain(ctx, viewer, *domain)
	}
	return r.site(ctx, viewer, *id)
}

// siteByDomain returns the site of the viewer's account with a domain, or nil.
func (r *queryResolver) siteByDomain(ctx context.Context, viewer *model.User, domain string) (*model.Site, error) {
	normal, err := model.ParseDomain(domain, r.allowLocal)
	if err != nil {
		// No site has such a domain.
		return nil, nil
	}

	site, err := orNull(r.sites.SiteByDomain(ctx, viewer.AccountID, normal))
	if site != nil && !viewer.Reaches(site.ID) {
		return nil, nil
	}
	return site, err
}

func (r *queryResolver) Sites(
	ctx context.Context, _ *string, first *int, after *string, last *int, before *string,
	order sites.Order, search *string,
) (*generated.SiteConnection, error) {
	viewer := memberOf(ctx)
	return r.siteConnection(ctx, viewer.AccountID, paging{first, after, last, before}, order, search)
}

func (r *accountResolver) Sites(
	ctx context.Context, obj *model.Account, first *int, after *string, last *int, before *string,
	order sites.Order, search *string,
) (*generated.SiteConnection, error) {
	arguments, err := json.Marshal([]any{first, after, last, before, order, search})
	if err != nil {
		return nil, err
	}

	key := accountRead{field: "sites", accountID: obj.ID, arguments: string(arguments)}
	return shared(ctx, key, func() (*generated.SiteConnection, error) {
		return r.siteConnection(ctx, obj.ID, paging{first, after, last, before}, order, search)
	})
}

// siteCursors are the kinds of the cursors of a list of sites in each order.
var siteCursors = map[sites.Order]nodeid.Kind{
	sites.Oldest: nodeid.AfterSite, sites.Newest: nodeid.AfterNewestSite,
	sites.ByName: nodeid.AfterSiteName, sites.ByDomain: nodeid.AfterSiteDomain,
}

// siteConnection loads one page of an account's sites.
func (r *Resolver) siteConnection(
	ctx context.Context, accountID model.AccountID, p paging, order sites.Order, search *string,
) (*generated.SiteConnection, error) {
	cursors := r.cursors(siteCursors[order])
	list, err := cursors.textList(p, order, search)
	if err != nil {
		return nil, err
	}

	if list.Only, err = onlySites(ctx, accountID); err != nil {
		return nil, err
	}

	rows, err := r.sites.ListSites(ctx, accountID, list)
	if err != nil {
		return nil, err
	}

	rows, found, info := cut(p, rows, func(site *model.Site) string {
		return cursors.encodeText(sites.SitePosition(order, site))
	})

	edges := make([]*generated.SiteEdge, len(rows))
	for i, site := range rows {
		edges[i] = &generated.SiteEdge{Cursor: found[i], Node: site}
	}

	requestOf(ctx).loaders().Expect(rows)
	return &generated.SiteConnection{
		Edges: edges, Nodes: orEmpty(rows), PageInfo: info, AccountID: accountID, Search: list.Search,
	}, nil
}

func (r *siteConnectionResolver) TotalCount(ctx context.Context, obj *generated.SiteConnection) (int, error) {
	key := accountRead{field: "sites.totalCount", accountID: obj.AccountID, arguments: obj.Search}
	n, err := shared(ctx, key, func() (int64, error) {
		only, err := onlySites(ctx, obj.AccountID)
		if err != nil {
			return 0, err
		}
		return r.sites.CountSites(ctx, obj.AccountID, obj.Search, only)
	})
	return int(n), err
}

// onlySites returns the sites that the caller reaches in an account, or nil for all of them.
func onlySites(ctx context.Context, accountID model.AccountID) ([]model.SiteID, error) {
	member, err := callerIn(ctx, accountID)
	if member == nil || err != nil {
		return nil, err
	}
	return member.OnlySites, nil
}

// site returns a site of one of the viewer's accounts by its global id, or nil.
func (r *Resolver) site(ctx context.Context, viewer *model.User, id string) (*model.Site, error) {
	return ownObject(ctx, r, nodeid.Site, viewer, id, r.sites.SiteByID)
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
	if err == nil && isForGuest(ctx, obj) {
		return []string{}, nil
	}

	networks := make([]string, len(rules.Excluded))
	for i, network := range rules.Excluded {
		networks[i] = network.String()
	}

	return networks, err
}

// rules loads the lists of a site, which are empty together with an error.
func (r *siteResolver) rules(ctx context.Context, site *model.Site) (*model.SiteRules, error) {
	rules, err := requestOf(ctx).loaders().Rules().Of(ctx, site.ID)
	if rules == nil {
		rules = &model.SiteRules{}
	}
	return rules, err
}

func (r *siteResolver) ConversionWebhookURL(ctx context.Context, obj *model.Site) (*string, error) {
	return notZero(unlessGuest(ctx, obj, obj.ConversionWebhookURL)), nil
}

func (r *siteResolver) ConversionWebhookSigned(ctx context.Context, obj *model.Site) (bool, error) {
	return len(obj.ConversionWebhookSecret) > 0, nil
}

func (r *siteResolver) DailyExportURL(ctx context.Context, obj *model.Site) (*string, error) {
	return notZero(unlessGuest(ctx, obj, obj.DailyExportURL)), nil
}

func (r *siteResolver) ServerSecretHint(ctx context.Context, obj *model.Site) (*string, error) {
	return notZero(unlessGuest(ctx, obj, obj.ServerSecretHint)), nil
}

// isForGuest reports whether the caller reads the site as a guest. Guests read the reports of a
// site, and not the addresses of its back ends and staff.
func isForGuest(ctx context.Context, site *model.Site) bool {
	caller, err := auth.CallerOf(ctx)
	return err == nil && caller.User != nil && caller.User.IsGuestOf(site.AccountID, site.ID)
}

// unlessGuest returns the value, or "" for a guest of the site.
func unlessGuest(ctx context.Context, site *model.Site, value string) string {
	if isForGuest(ctx, site) {
		return ""
	}
	return value
}

// OldServerSecretHint returns the hint of the replaced secret while it is valid.
func (r *siteResolver) OldServerSecretHint(ctx context.Context, obj *model.Site) (*string, error) {
	return ifValid(ctx, obj.OldServerSecretUntil, unlessGuest(ctx, obj, obj.OldServerSecretHint)), nil
}

func (r *siteResolver) OldServerSecretValidUntil(ctx context.Context, obj *model.Site) (*model.Instant, error) {
	return ifValid(ctx, obj.OldServerSecretUntil, obj.OldServerSecretUntil), nil
}

func (r *siteResolver) OldWebhookSecretValidUntil(ctx context.Context, obj *model.Site) (*model.Instant, error) {
	return ifValid(ctx, obj.OldWebhookSecretUntil, obj.OldWebhookSecretUntil), nil
}

func (r *siteResolver) LastHitAt(ctx context.Context, obj *model.Site) (*model.Instant, error) {
	at, err := requestOf(ctx).loaders().LastHits().Of(ctx, obj.ID)
	return &at, err
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
	used, err := request.loaders().Usage().Of(ctx, site.ID)
	if err != nil {
		return nil, err
	}

	month := request.now.Month()
	usage := &generated.Usage{Period: month.String(), Pageviews: used, ResetsAt: model.At(month.Next().Start())}
	if limit := site.Limit(); limit != nil {
		percent := percent(used, *limit)
		usage.Quota, usage.Percent = limit, &percent
	}
	return usage, nil
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
			Ignored: model.IsIgnored(row.Code), Recorded: model.IsRecorded(row.Code), Advice: model.RejectionAdvice(row.Code),
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

	if obj.PausedAt != 0 {
		return notZero("This site is paused: its hits are refused until it is resumed."), nil
	}

	var rejected, recorded int64
	for _, row := range rows {
		switch {
		case row.Recorded:
			recorded += row.Count
		case !row.Ignored:
			rejected += row.Count
		}
	}

	return notZero(noticeOf(rejected, recorded)), nil
}

// noticeOf returns the notice about rejected calls, and about recorded ones that need attention;
// empty without any.
func noticeOf(rejected, recorded int64) string {
	if rejected+recorded == 0 {
		return ""
	}

	var text string
	switch rejected {
	case 0:
	case 1:
		text = fmt.Sprintf("1 call was rejected in the last %d days. ", noticeDays)
	default:
		text = fmt.Sprintf("%d calls were rejected in the last %d days. ", rejected, noticeDays)
	}

	switch recorded {
	case 0:
	case 1:
		text += fmt.Sprintf("1 recorded call of the last %d days needs attention. ", noticeDays)
	default:
		text += fmt.Sprintf("%d recorded calls of the last %d days need attention. ", recorded, noticeDays)
	}

	if rejected+recorded == 1 {
		return text + "See rejections for the reason and advice."
	}
	return text + "See rejections for the reasons and advice."
}

// CreateSite checks the input and stores a site on the default plan. All mistakes are reported.
func (r *mutationResolver) CreateSite(
	ctx context.Context, input generated.CreateSiteInput,
) (*generated.CreateSitePayload, error) {
	domain, domainErr := model.ParseNewSiteDomain(input.Domain, r.allowLocal)
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

	member := memberOf(ctx)
	create := r.sites.CreateOwnersSite
	if member.Operator {
		create = r.sites.CreateSite
	}

	site, err := create(ctx, model.Site{
		AccountID:        member.AccountID,
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

// DeleteSite deletes a site. If it is not to be restorable, it purges its rows, up to purgeTime.
func (r *mutationResolver) DeleteSite(
	ctx context.Context, input generated.DeleteSiteInput,
) (*generated.SitePayload, error) {
	owner, siteID := granted[model.SiteID](ctx)
	if !input.Immediately {
		site, err := r.sites.RemoveSite(ctx, owner.AccountID, siteID, input.Confirm, requestOf(ctx).now)
		return &generated.SitePayload{Site: site}, err
	}

	site, err := r.sites.DeleteSite(ctx, owner.AccountID, siteID, orBlank(input.Confirm), requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.purge(ctx, siteID)
	return &generated.SitePayload{Site: site}, nil
}

// SetSitePlan sets the plan of a site of any account, for operators. It returns nothing of the site
// but its usage.
func (r *mutationResolver) SetSitePlan(
	ctx context.Context, input generated.SetSitePlanInput,
) (*generated.SetSitePlanPayload, error) {
	_, siteID := granted[model.SiteID](ctx)
	if err := r.sites.SetSitePlan(ctx, siteID, input.Plan, input.MonthlyPageviews); err != nil {
		return nil, err
	}

	site, err := r.sites.AnySite(ctx, siteID)
	if err != nil {
		return nil, err
	}

	usage, err := siteUsage(ctx, site)
	return &generated.SetSitePlanPayload{SiteID: &input.SiteID, Plan: &input.Plan, Usage: usage}, err
}

func (r *siteResolver) ExcludedCountries(_ context.Context, obj *model.Site) ([]string, error) {
	return orEmpty(obj.ExcludedCountries), nil
}

func (r *siteResolver) ExcludedPaths(_ context.Context, obj *model.Site) ([]string, error) {
	return orEmpty(obj.ExcludedPaths), nil
}

func (r *siteResolver) VisitDetails(_ context.Context, obj *model.Site) ([]model.VisitDetail, error) {
	return orEmpty(obj.VisitDetails), nil
}

func (r *siteResolver) Shields(_ context.Context, obj *model.Site) ([]model.Shield, error) {
	return orEmpty(obj.Shields), nil
}
