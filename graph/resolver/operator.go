package resolver

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// The accounts of the installation, for operators.

// maxSearch is the length of a search in characters.
const maxSearch = 100

func (r *queryResolver) Accounts(
	ctx context.Context, first *int, after *string, last *int, before *string, orderBy generated.AccountOrder, search *string,
) (*generated.AccountConnection, error) {
	page, err := r.overviewPage(first, after, last, before)
	if err != nil {
		return nil, err
	}
	page.Oldest = orderBy == generated.AccountOrderOldest
	if search != nil {
		if n := utf8.RuneCountInString(*search); n < 1 || n > maxSearch || !model.IsStorable(*search) {
			return nil, invalidArgument("search", fmt.Sprintf("The argument search must have 1 to %d characters.", maxSearch))
		}
		page.Search = *search
	}

	size := page.Limit
	page.Limit++
	month := requestOf(ctx).now.Month()
	rows, err := r.accounts.Overviews(ctx, page, month)
	if err != nil {
		return nil, err
	}
	count, err := r.accounts.OverviewCount(ctx, page.Search)
	if err != nil {
		return nil, err
	}

	more := len(rows) > size
	info := &generated.PageInfo{HasNextPage: more, HasPreviousPage: after != nil}
	switch {
	case page.Last:
		info.HasNextPage, info.HasPreviousPage = before != nil, more
		rows = rows[max(0, len(rows)-size):]
	case more:
		rows = rows[:size]
	}

	return r.accountConnection(rows, info, int(count), month), nil
}

// overviewPage checks the arguments of the list.
func (r *Resolver) overviewPage(first *int, after *string, last *int, before *string) (accounts.OverviewPage, error) {
	page := accounts.OverviewPage{Limit: limits.DefaultPage, Last: last != nil}
	if first != nil && last != nil {
		return page, invalidArgument("last", "The arguments first and last must not be given together.")
	}

	for name, size := range map[string]*int{"first": first, "last": last} {
		if size == nil {
			continue
		}
		if page.Limit = *size; page.Limit < 1 || page.Limit > limits.MaxPage {
			return page, invalidArgument(name, fmt.Sprintf("The argument %s must be from 1 to %d.", name, limits.MaxPage))
		}
	}

	for name, cursor := range map[string]struct {
		text *string
		into *int64
	}{"after": {after, &page.After}, "before": {before, &page.Before}} {
		if cursor.text == nil {
			continue
		}

		var ok bool
		if *cursor.into, ok = r.ids.Parse(model.AfterAccount, *cursor.text); !ok {
			return page, invalidArgument(name, fmt.Sprintf("The argument %s is not a cursor of this list.", name))
		}
	}

	return page, nil
}

func (r *Resolver) accountConnection(
	rows []*accounts.Overview, info *generated.PageInfo, count int, month model.Month,
) *generated.AccountConnection {
	list := &generated.AccountConnection{
		Edges: make([]*generated.AccountEdge, len(rows)), Nodes: make([]*generated.AccountOverview, len(rows)),
		PageInfo: info, TotalCount: count,
	}

	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
		list.Nodes[i] = &generated.AccountOverview{
			ID: row.ID, Page: ids, AccountID: r.ids.Of(model.NodeAccount, row.ID), Name: row.Name, CreatedAt: row.CreatedAt,
			SiteCount: int(row.Sites), SitekeyCount: int(row.Sitekeys), MemberCount: int(row.Members),
			Period: month.String(), Pageviews: row.Pageviews, CaptchaPlan: row.CaptchaPlan, Verifications: row.Verifications,
		}
		list.Edges[i] = &generated.AccountEdge{Cursor: r.ids.Of(model.AfterAccount, row.ID), Node: list.Nodes[i]}
	}

	if len(list.Edges) > 0 {
		info.StartCursor, info.EndCursor = &list.Edges[0].Cursor, &list.Edges[len(list.Edges)-1].Cursor
	}

	return list
}

// Sites reads the sites of all accounts on the page at once.
func (r *accountOverviewResolver) Sites(
	ctx context.Context, obj *generated.AccountOverview, first int,
) ([]*generated.SiteOverview, error) {
	if first < 1 || first > limits.MaxPage {
		return nil, invalidArgument("first", "The argument first must be from 1 to 100.")
	}

	key := accountRead{field: "accounts.sites", arguments: fmt.Sprint(obj.Page, first)}
	byAccount, err := shared(ctx, key, func() (map[int64][]*model.Site, error) {
		sites, err := r.sites.SitesOfAccounts(ctx, obj.Page, first)
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
			SiteID: r.ids.Of(model.NodeSite, site.ID), Domain: site.Domain, CreatedAt: site.CreatedAt, Plan: site.Plan,
			Usage: usage,
		}
	}

	return list, nil
}
