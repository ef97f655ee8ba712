package graph

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// siteConnection loads one page of an account's sites.
func (r *Resolver) siteConnection(ctx context.Context, accountID int64, first int, after *string) (*generated.SiteConnection, error) {
	list := r.listOf(model.AfterSite)
	afterID, err := list.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	sites, err := r.sites.Sites(ctx, accountID, afterID, int64(first)+1)
	if err != nil {
		return nil, err
	}

	sites, page := cutPage(list, sites, first, after, func(s *model.Site) int64 { return s.ID })
	edges := make([]*generated.SiteEdge, len(sites))
	for i, site := range sites {
		edges[i] = &generated.SiteEdge{Cursor: list.cursor(site.ID), Node: site}
	}

	requestOf(ctx).loaders().expect(sites)
	return &generated.SiteConnection{Edges: edges, PageInfo: page, AccountID: accountID}, nil
}

// createSite checks the input and stores the site. Every wrong field is reported, not only the
// first. The operator's own account is not bounded by the limit that the operator sets.
func (r *Resolver) createSite(ctx context.Context, viewer *model.User, input generated.CreateSiteInput) (*model.Site, error) {
	domain, domainErr := model.ParseDomain(input.Domain, r.allowLocal)
	var nameErr error
	name := domain

	if input.Name != nil {
		name, nameErr = model.ParseName("name", *input.Name)
	}
	if err := errors.Join(domainErr, nameErr); err != nil {
		return nil, err
	}

	create := r.sites.CreateOwnersSite

	if viewer.Operator {
		create = r.sites.CreateSite
	}

	return create(ctx, model.Site{
		AccountID:        viewer.AccountID,
		SiteKey:          model.NewSiteKey(),
		Domain:           domain,
		Name:             name,
		Plan:             r.plan,
		MonthlyPageviews: r.planQuota,
		CreatedAt:        model.At(r.now()),
	})
}
