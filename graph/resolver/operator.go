package resolver

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// The accounts of the installation, for operators.

// maxSearch is the length of a search in characters.
const maxSearch = 100

func (r *queryResolver) Accounts(
	ctx context.Context, first *int, after *string, last *int, before *string, orderBy generated.AccountOrder, search *string,
) (*generated.AccountConnection, error) {
	p, cursors := paging{first, after, last, before}, r.cursors(nodeid.AfterAccount)
	page, err := overviewPage(p, cursors, search)
	if err != nil {
		return nil, err
	}
	page.Oldest = orderBy == generated.AccountOrderOldest

	month := requestOf(ctx).now.Month()
	rows, err := r.accounts.Overviews(ctx, page, month)
	if err != nil {
		return nil, err
	}
	count, err := r.accounts.OverviewCount(ctx, page)
	if err != nil {
		return nil, err
	}

	rows, found, info := cut(p, rows, func(row *accounts.Overview) string { return cursors.encode(int64(row.ID)) })
	list := &generated.AccountConnection{
		Edges: make([]*generated.AccountEdge, len(rows)), Nodes: r.accountOverviews(rows, month),
		PageInfo: info, TotalCount: int(count),
	}
	for i, node := range list.Nodes {
		list.Edges[i] = &generated.AccountEdge{Cursor: found[i], Node: node}
	}
	return list, nil
}

// overviewPage returns the page that the arguments select. The caller reads one row more.
func overviewPage(p paging, c cursors, search *string) (page accounts.OverviewPage, err error) {
	n, backward, err := p.size()
	if err != nil {
		return page, err
	}
	page.Limit, page.Last = n+1, backward

	if page.Search, err = searchOf(search); err != nil {
		return page, err
	}
	if id, ok := nodeid.Parse[model.AccountID](c.ids, page.Search); ok {
		page.Account = id
	}
	if id, ok := nodeid.Parse[model.SiteID](c.ids, page.Search); ok {
		page.Site = id
	}

	page.After, page.Before, err = positions(p, c.decode)
	return page, err
}

// searchOf checks the text of a search. Without a text it returns "".
func searchOf(search *string) (string, error) {
	if search == nil {
		return "", nil
	}
	if n := utf8.RuneCountInString(*search); n < 1 || n > maxSearch || !model.IsStorable(*search) {
		return "", invalidArgument("search", fmt.Sprintf("The argument search must have 1 to %d characters.", maxSearch))
	}
	return *search, nil
}

// accountOverviews converts the accounts of a page.
func (r *Resolver) accountOverviews(rows []*accounts.Overview, month model.Month) []*generated.AccountOverview {
	ids := make([]model.AccountID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}

	nodes := make([]*generated.AccountOverview, len(rows))
	for i, row := range rows {
		nodes[i] = &generated.AccountOverview{
			ID: row.ID, Page: ids, AccountID: nodeid.Of(r.ids, row.ID), Name: row.Name, CreatedAt: row.CreatedAt,
			SiteCount: int(row.Sites), SitekeyCount: int(row.Sitekeys), MemberCount: int(row.Members),
			Period: month.String(), Pageviews: row.Pageviews, CaptchaPlan: row.CaptchaPlan, Verifications: row.Verifications,
			Suspension: suspension(row.SuspendedAt, row.SuspensionReason),
		}
	}
	return nodes
}

// Sites reads the sites of all accounts on the page at once.
func (r *accountOverviewResolver) Sites(
	ctx context.Context, obj *generated.AccountOverview, first int, after, search *string,
) ([]*generated.SiteOverview, error) {
	if first < 1 || first > limits.MaxPage {
		return nil, invalidArgument("first", "The argument first must be from 1 to 100.")
	}
	part, err := searchOf(search)
	if err != nil {
		return nil, err
	}
	of := sites.OfAccounts{Search: part, Limit: first}
	if after != nil {
		var ok bool
		if of.After, ok = nodeid.Parse[model.SiteID](r.ids, *after); !ok {
			return nil, invalidArgument("after", "The argument after must be the siteId of a site.")
		}
	}
	if id, ok := nodeid.Parse[model.SiteID](r.ids, part); ok {
		of.Only = id
	}

	key := accountRead{field: "accounts.sites", arguments: fmt.Sprint(obj.Page, of)}
	byAccount, err := shared(ctx, key, func() (map[model.AccountID][]*model.Site, error) {
		sites, err := r.sites.SitesOfAccounts(ctx, obj.Page, of)
		for _, list := range sites {
			requestOf(ctx).loaders().Expect(list)
		}
		return sites, err
	})
	if err != nil {
		return nil, err
	}

	list := make([]*generated.SiteOverview, len(byAccount[obj.ID]))
	for i, site := range byAccount[obj.ID] {
		usage, err := siteUsage(ctx, site)
		if err != nil {
			return nil, err
		}

		list[i] = &generated.SiteOverview{
			SiteID: nodeid.Of(r.ids, site.ID), Domain: site.Domain, CreatedAt: site.CreatedAt, Plan: site.Plan,
			Usage: usage,
		}
	}

	return list, nil
}
