package sites

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Lists of an account's sites and sitekeys. Pages in the order of ids are read by the index. For a
// search and for orders of text all names of the account are read, at most model.MaxSites and
// model.MaxSitekeys, and compared here: SQLite compares ASCII letters only, and PostgreSQL as its
// collation does.

// Order is the order of a list of sites or sitekeys.
type Order string

// The orders. Equal names follow in the order of ids.
const (
	Oldest   Order = "oldest"
	Newest   Order = "newest"
	ByName   Order = "name"
	ByDomain Order = "domain" // of sites only
)

// isText reports whether the list is ordered by a text.
func (o Order) isText() bool { return o == ByName || o == ByDomain }

// Position is the place of a row in a list.
type Position struct {
	Text string // the folded name or the domain in an order of text, else empty
	ID   int64
}

// compare orders positions as a list does.
func (o Order) compare(a, b Position) int {
	byID := cmp.Compare(a.ID, b.ID)
	if o == Newest {
		byID = -byID
	}
	return cmp.Or(strings.Compare(a.Text, b.Text), byID)
}

// List selects a page of an account's sites or sitekeys.
type List struct {
	Order         Order
	Search        string         // part of a name or domain, in either case; empty: all rows
	Only          []model.SiteID // the sites that the list is restricted to; nil: it is not
	After, Before *Position      // rows around the page; nil: none
	Limit         int
	Backward      bool // the last rows between the positions instead of the first ones
}

// page returns the page in the order of ids.
func (l List) page() db.Page {
	p := db.Page{Limit: l.Limit, Backward: l.Backward, Descending: l.Order == Newest}
	if l.After != nil {
		p.After = l.After.ID
	}
	if l.Before != nil {
		p.Before = l.Before.ID
	}
	return p
}

// named is what is read of each row for a search or an order of text.
type named struct {
	ID      int64
	Name    string
	Domain  string   // of a site
	Domains []string // of a sitekey
}

// matches reports whether a search, which is folded, finds the row.
func (n *named) matches(search string) bool {
	texts := append([]string{n.Name, n.Domain}, n.Domains...)
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(model.Fold(text), search)
	}) || slices.ContainsFunc(texts[1:], func(domain string) bool {
		return domain != "" && strings.Contains(model.Fold(model.ShownDomain(domain)), search)
	})
}

// position returns the place of the row in a list.
func (n *named) position(o Order) Position {
	switch o {
	case ByName:
		return Position{model.Fold(n.Name), n.ID}
	case ByDomain:
		return Position{n.Domain, n.ID}
	default:
		return Position{ID: n.ID}
	}
}

// SitePosition returns the place of a site in a list.
func SitePosition(o Order, site *model.Site) Position {
	return (&named{ID: int64(site.ID), Name: site.Name, Domain: site.Domain}).position(o)
}

// SitekeyPosition returns the place of a sitekey in a list.
func SitekeyPosition(o Order, key *model.Sitekey) Position {
	return (&named{ID: int64(key.ID), Name: key.Name}).position(o)
}

// permits reports whether the list may have a row.
func (l List) permits(id int64) bool {
	return l.Only == nil || slices.Contains(l.Only, model.SiteID(id))
}

// find returns the ids of the rows on the page, in the list's order.
func (l List) find(rows []named) []int64 {
	var found []Position
	search := model.Fold(l.Search)
	for i := range rows {
		at := rows[i].position(l.Order)
		if (l.After == nil || l.Order.compare(at, *l.After) > 0) &&
			(l.Before == nil || l.Order.compare(at, *l.Before) < 0) && l.permits(rows[i].ID) &&
			rows[i].matches(search) {
			found = append(found, at)
		}
	}

	slices.SortFunc(found, l.Order.compare)
	if more := len(found) - l.Limit; more > 0 && l.Backward {
		found = found[more:]
	} else if more > 0 {
		found = found[:l.Limit]
	}

	ids := make([]int64, len(found))
	for i, at := range found {
		ids[i] = at.ID
	}

	return ids
}

// ListSites returns a page of the account's sites, in the list's order.
func (s *Sites) ListSites(ctx context.Context, accountID model.AccountID, l List) ([]*model.Site, error) {
	sites, err := listOwn(ctx, s.door, accountID, l, func(site *model.Site) model.SiteID { return site.ID })
	if err != nil {
		return nil, fmt.Errorf("list sites of account %d: %w", accountID, err)
	}
	return sites, nil
}

// CountSites returns how many of the account's sites are in a list with this search and
// restriction.
func (s *Sites) CountSites(ctx context.Context, accountID model.AccountID, search string, only []model.SiteID) (int64, error) {
	n, err := countOwn(ctx, s.door, accountID, List{Search: search, Only: only}, (*model.Site)(nil))
	if err != nil {
		return 0, fmt.Errorf("count sites of account %d: %w", accountID, err)
	}
	return n, nil
}

// ListSitekeys returns a page of the account's sitekeys, in the list's order.
func (s *Sitekeys) ListSitekeys(ctx context.Context, accountID model.AccountID, l List) ([]*model.Sitekey, error) {
	keys, err := listOwn(ctx, s.door, accountID, l, func(key *model.Sitekey) model.SitekeyID { return key.ID })
	if err != nil {
		return nil, fmt.Errorf("list sitekeys of account %d: %w", accountID, err)
	}
	return keys, nil
}

// CountSitekeys returns how many of the account's sitekeys a search finds.
func (s *Sitekeys) CountSitekeys(ctx context.Context, accountID model.AccountID, search string) (int64, error) {
	n, err := countOwn(ctx, s.door, accountID, List{Search: search}, (*model.Sitekey)(nil))
	if err != nil {
		return 0, fmt.Errorf("count sitekeys of account %d: %w", accountID, err)
	}
	return n, nil
}

// names reads what a search and the orders of text need of all rows of an account in a table.
func names(ctx context.Context, in door, accountID model.AccountID, row any) ([]named, error) {
	domains := "domains"
	if _, ok := row.(*model.Site); ok {
		domains = "domain"
	}

	var rows []named
	q := in.reader().NewSelect().Model(row).Column("id", "name", domains).Where("account_id = ?", accountID)
	err := notDeleted(q, row).Scan(ctx, &rows)
	return rows, err
}

// listOwn reads a page of an account's rows.
func listOwn[Row any, ID ~int64](
	ctx context.Context, in door, accountID model.AccountID, l List, id func(*Row) ID,
) ([]*Row, error) {
	var rows []*Row
	q := notDeleted(in.reader().NewSelect().Model(&rows).Where("account_id = ?", accountID), (*Row)(nil))
	if l.Only != nil {
		q.Where("id IN ?", bun.Tuple(l.Only))
	}

	if l.Search == "" && !l.Order.isText() {
		err := l.page().Select(q, "id").Scan(ctx)
		return db.InOrder(rows, l.Backward), err
	}

	all, err := names(ctx, in, accountID, (*Row)(nil))
	if err != nil {
		return nil, err
	}

	ids := l.find(all)
	if len(ids) == 0 {
		return nil, nil
	}
	if err := q.Where("id IN ?", bun.Tuple(ids)).Scan(ctx); err != nil {
		return nil, err
	}

	slices.SortFunc(rows, func(a, b *Row) int {
		return slices.Index(ids, int64(id(a))) - slices.Index(ids, int64(id(b)))
	})
	return rows, nil
}

// notDeleted leaves out deleted sites. No other kind of row remains after its deletion.
func notDeleted(q *bun.SelectQuery, row any) *bun.SelectQuery {
	if _, ok := row.(*model.Site); ok {
		q.Where("deleted_at = 0")
	}
	return q
}

// countOwn counts an account's rows on all pages of a list.
func countOwn(
	ctx context.Context, in door, accountID model.AccountID, l List, row any,
) (int64, error) {
	if l.Search == "" && l.Only == nil {
		n, err := notDeleted(in.reader().NewSelect().Model(row).Where("account_id = ?", accountID), row).Count(ctx)
		return int64(n), err
	}

	rows, err := names(ctx, in, accountID, row)
	l.Limit = len(rows)
	return int64(len(l.find(rows))), err
}

// SiteByDomain returns the account's site with this own domain, normalised (see model.ParseDomain),
// or model.ErrNotFound.
func (s *Sites) SiteByDomain(ctx context.Context, accountID model.AccountID, domain string) (*model.Site, error) {
	var site model.Site
	err := s.reader().NewSelect().Model(&site).Where("account_id = ?", accountID).Where("domain = ?", domain).
		Where("deleted_at = 0").Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &site, nil
}

// SitesByID returns sites by their ids. It does not check permissions: the caller must have loaded
// rows of the sites.
func (s *Sites) SitesByID(ctx context.Context, ids []model.SiteID) (map[model.SiteID]*model.Site, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var sites []*model.Site
	if err := s.reader().NewSelect().Model(&sites).Where("id IN ?", bun.Tuple(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read %d sites: %w", len(ids), err)
	}

	byID := make(map[model.SiteID]*model.Site, len(sites))
	for _, site := range sites {
		byID[site.ID] = site
	}

	return byID, nil
}
