package accounts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Overview is an account as an operator sees it.
type Overview struct {
	ID               model.AccountID
	Name             string
	CaptchaPlan      model.CaptchaPlan
	CreatedAt        model.Instant
	SuspendedAt      model.Instant // 0: not suspended
	SuspensionReason string
	Sites            int64
	Sitekeys         int64
	Members          int64
	Pageviews        int64 // of all sites in the month
	Verifications    int64 // of all sitekeys in the month
}

// OverviewPage selects accounts of the whole installation.
type OverviewPage struct {
	Search        string          // part of the name, of an owner's address or of a site's domain; "": all
	Oldest        bool            // order; false: newest first
	Account       model.AccountID // instead of Search: the account with this id; 0: all
	Site          model.SiteID    // instead of Search: the account of this site; 0: all
	After, Before int64           // accounts between which the page lies; 0: the end of the list
	Last          bool            // the last Limit accounts instead of the first
	Limit         int
}

// searchedAccounts is how many of the newest accounts a search reads.
const searchedAccounts = 50_000

// Overviews returns a page of accounts. The caller must have checked that the user is an operator.
func (s *Store) Overviews(ctx context.Context, page OverviewPage, month model.Month) ([]*Overview, error) {
	q := s.searched(page).Column("id")

	// After the page's beginning and before its end, in either order.
	from, to := "id < ?", "id > ?"
	if page.Oldest {
		from, to = to, from
	}
	if page.After != 0 {
		q.Where(from, page.After)
	}
	if page.Before != 0 {
		q.Where(to, page.Before)
	}

	order := "id DESC"
	if page.Oldest != page.Last {
		order = "id"
	}

	var ids []model.AccountID
	if err := q.Order(order).Limit(int64(page.Limit)).Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	if page.Last {
		slices.Reverse(ids)
	}

	return s.overviewsOf(ctx, ids, month)
}

// OverviewCount returns the number of accounts that the search of a page finds.
func (s *Store) OverviewCount(ctx context.Context, page OverviewPage) (int64, error) {
	n, err := s.searched(page).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count accounts: %w", err)
	}
	return n, nil
}

// searched selects the accounts that the search of a page finds. It reads searchedAccounts accounts
// at most.
func (s *Store) searched(page OverviewPage) *bun.SelectQuery {
	q, search := s.db.Read.NewSelect(), page.Search
	switch {
	case page.Account != 0:
		return q.Table("accounts").Where("id = ?", page.Account)
	case page.Site != 0:
		return q.Table("accounts").Where("id = (SELECT account_id FROM sites WHERE id = ?)", page.Site)
	case search == "":
		return q.Table("accounts")
	}

	position := "instr"
	if s.db.IsPostgres() {
		position = "strpos"
	}

	// Addresses and domains are stored in lower case. Of names, SQLite compares ASCII letters only
	// without regard to case.
	newest := s.db.Read.NewSelect().Table("accounts").Column("id", "name").Order("id DESC").Limit(searchedAccounts)
	lower := strings.ToLower(search)

	return q.TableExpr("(?) AS a", newest).Where(fmt.Sprintf(`(%[1]s(name, ?) > 0 OR %[1]s(lower(name), ?) > 0
OR EXISTS (SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id
  WHERE m.account_id = a.id AND m.role = ? AND %[1]s(u.email, ?) > 0)
OR EXISTS (SELECT 1 FROM sites s WHERE s.account_id = a.id AND %[1]s(s.domain, ?) > 0))`, position),
		search, lower, model.RoleOwner, lower, lower)
}

// overviewsOf reads accounts with one statement, in the order of their ids.
func (s *Store) overviewsOf(ctx context.Context, ids []model.AccountID, month model.Month) ([]*Overview, error) {
	if len(ids) == 0 {
		return nil, nil
	}

	var rows []*Overview
	err := s.db.DefaultCell().Read.NewRaw(`
SELECT a.id, a.name, a.captcha_plan, a.created_at, a.suspended_at, a.suspension_reason,
  (SELECT count(*) FROM sites WHERE account_id = a.id AND deleted_at = 0) AS sites,
  (SELECT count(*) FROM sitekeys WHERE account_id = a.id) AS sitekeys,
  (SELECT count(*) FROM `+db.AllMemberships+` AS m WHERE account_id = a.id) AS members,
  (SELECT coalesce(sum(u.used), 0) FROM sites s JOIN site_usage u ON u.site_id = s.id AND u.month = ?
    WHERE s.account_id = a.id AND s.cell = ?) AS pageviews,
  coalesce((SELECT used FROM captcha_usage WHERE account_id = a.id AND month = ? AND a.cell = ?), 0) AS verifications
FROM accounts a WHERE a.id IN ?`, month, db.DefaultCell, month, db.DefaultCell, bun.Tuple(ids)).Scan(ctx, &rows)
	if err == nil {
		err = s.addOtherCells(ctx, rows, ids, month)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d accounts: %w", len(ids), err)
	}

	slices.SortFunc(rows, func(a, b *Overview) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return rows, nil
}

// addOtherCells adds the page views of sites, and the verifications of accounts, that are not in
// the default cell.
func (s *Store) addOtherCells(ctx context.Context, rows []*Overview, ids []model.AccountID, month model.Month) error {
	return s.db.EachCell(ctx, func(in *db.Cell) error {
		if in.ID == db.DefaultCell {
			return nil
		}

		var sums []struct {
			AccountID                model.AccountID
			Pageviews, Verifications int64
		}
		err := in.Read.NewRaw(`
SELECT s.account_id, sum(u.used) AS pageviews, 0 AS verifications
FROM sites s JOIN site_usage u ON u.site_id = s.id AND u.month = ?0
WHERE s.account_id IN ?1 AND s.cell = ?2 GROUP BY s.account_id
UNION ALL
SELECT a.id, 0, u.used FROM accounts a JOIN captcha_usage u ON u.account_id = a.id AND u.month = ?0
WHERE a.id IN ?1 AND a.cell = ?2`, month, bun.Tuple(ids), in.ID).Scan(ctx, &sums)
		if err != nil {
			return err
		}

		for _, sum := range sums {
			i := slices.IndexFunc(rows, func(row *Overview) bool { return row.ID == sum.AccountID })
			if i >= 0 {
				rows[i].Pageviews += sum.Pageviews
				rows[i].Verifications += sum.Verifications
			}
		}
		return nil
	})
}
