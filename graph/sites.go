package graph

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// maxFirst is the largest page of a connection.
const maxFirst = 100

// siteConnection loads one page of an account's sites.
func (r *Resolver) siteConnection(ctx context.Context, accountID int64, first int, after *string) (*generated.SiteConnection, error) {
	if first < 1 || first > maxFirst {
		return nil, invalidArgument("first", "The argument first must be from 1 to 100.")
	}
	afterID, err := parseCursor(after)
	if err != nil {
		return nil, err
	}
	sites, err := r.db.Sites(ctx, accountID, afterID, int64(first)+1) // one more tells whether there is a next page
	if err != nil {
		return nil, err
	}
	page := &generated.PageInfo{HasNextPage: len(sites) > first, HasPreviousPage: after != nil}
	sites = sites[:min(first, len(sites))]
	edges := make([]*generated.SiteEdge, len(sites))
	for i, site := range sites {
		edges[i] = &generated.SiteEdge{Cursor: cursor(site.ID), Node: site}
	}
	if len(edges) > 0 {
		page.StartCursor, page.EndCursor = &edges[0].Cursor, &edges[len(edges)-1].Cursor
	}
	requestOf(ctx).loaders().expect(sites)
	return &generated.SiteConnection{Edges: edges, PageInfo: page, AccountID: accountID}, nil
}

// createSite checks the input and stores the site. Every wrong field is reported, not only the first.
func (r *Resolver) createSite(ctx context.Context, accountID int64, input generated.CreateSiteInput) (*model.Site, error) {
	domain, domainErr := model.ParseDomain(input.Domain, r.allowLocal)
	var nameErr error
	name := domain
	if input.Name != nil {
		name, nameErr = model.ParseName("name", *input.Name)
	}
	if err := errors.Join(domainErr, nameErr); err != nil {
		return nil, err
	}
	return r.db.CreateSite(ctx, model.Site{
		AccountID:        accountID,
		SiteKey:          model.NewSiteKey(),
		Domain:           domain,
		Name:             name,
		Plan:             r.plan,
		MonthlyPageviews: r.planQuota,
		CreatedAt:        model.At(r.now()),
	})
}
