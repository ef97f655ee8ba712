package graph

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// The days of rejections: at most, and those that the notice looks at.
const (
	maxDays    = 90
	noticeDays = 7
)

// siteRules are the lists that belong to a site; empty ones for a site that was deleted by this
// request.
func (r *Resolver) siteRules(ctx context.Context, site *model.Site) (*model.SiteRules, error) {
	rules, err := requestOf(ctx).loaders().rules.of(ctx, site.ID)
	if rules == nil {
		rules = &model.SiteRules{}
	}
	return rules, err
}

// siteList is one of those lists.
func (r *Resolver) siteList(ctx context.Context, site *model.Site, list func(*model.SiteRules) []string) ([]string, error) {
	rules, err := r.siteRules(ctx, site)
	if err != nil {
		return nil, err
	}
	return orEmpty(list(rules)), nil
}

// keyEvents are those that the owner marked, and the purchase.
func keyEvents(rules *model.SiteRules) []string {
	names := append([]string{model.EventPurchase}, rules.KeyEvents...)
	slices.Sort(names)
	return slices.Compact(names)
}

func excludedAddresses(rules *model.SiteRules) []string {
	var networks []string
	for _, network := range rules.Excluded {
		networks = append(networks, network.String())
	}
	return networks
}

// orEmpty makes an empty list of none: the schema has no null there.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// orNil makes null of an empty text.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// rejections are the site's counts of the last days.
func (r *Resolver) rejections(ctx context.Context, site *model.Site, days int) ([]*generated.Rejection, error) {
	if days < 1 || days > maxDays {
		return nil, invalidArgument("days", fmt.Sprintf("The argument days must be from 1 to %d.", maxDays))
	}

	request := requestOf(ctx)
	rows, err := request.loaders().rejections(request.now.Day()-model.Day(days)+1).of(ctx, site.ID)
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

// notice tells that calls were rejected (analytics contract, section 6).
func (r *Resolver) notice(ctx context.Context, site *model.Site) (*string, error) {
	rows, err := r.rejections(ctx, site, noticeDays)
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
		return orNil(fmt.Sprintf("1 call was rejected in the last %d days; rejections tells why, and what to do.", noticeDays)), nil
	}

	return orNil(fmt.Sprintf("%d calls were rejected in the last %d days; rejections tells why, and what to do.", rejected, noticeDays)), nil
}

// lastHitAt is null as long as there was none.
func (r *Resolver) lastHitAt(ctx context.Context, site *model.Site) (*model.Instant, error) {
	at, err := requestOf(ctx).loaders().lastHits.of(ctx, site.ID)
	if err != nil || at == 0 {
		return nil, err
	}
	return &at, nil
}
