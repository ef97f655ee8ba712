package sites

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// CreateSite stores a site and returns it with its id. Its automatic events are enabled (analytics
// contract), and its time zone is UTC unless it has one. It fails with the Conflict domain_taken
// when another site of the account has the domain, and with too_many_sites beyond model.MaxSites.
func (s *Sites) CreateSite(ctx context.Context, site model.Site) (*model.Site, error) {
	return s.createSite(ctx, site, true)
}

// createSite is CreateSite, or CreateOwnersSite unless anyNumber is set.
func (s *Sites) createSite(ctx context.Context, site model.Site, anyNumber bool) (*model.Site, error) {
	site.AutomaticEvents = true
	site.SmallGroup = cmp.Or(site.SmallGroup, model.DefaultSmallGroup)
	site.TimeZone = cmp.Or(site.TimeZone, model.DefaultTimeZone)

	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, site.AccountID); err != nil {
			return err
		}

		var err error
		if site.Cell, err = tx.ChooseCell(ctx, "sites"); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&site).Exec(ctx); err != nil {
			return err
		}
		if err := maySiteJoin(ctx, tx, &site, anyNumber); err != nil {
			return err
		}

		created := audit.Values{"name": site.Name, "plan": site.Plan, "timeZone": site.TimeZone}
		if err := auditSite(ctx, tx, &site, nil, created); err != nil {
			return err
		}

		return tx.NotifySites(ctx, site.ID)
	})

	if err != nil {
		return nil, db.Wrap(orDomainTaken(err, "domain"), "create site of account %d", site.AccountID)
	}

	return &site, nil
}

// orDomainTaken replaces the error of a domain that the account has already. Site keys are random,
// so the domain is the duplicate.
func orDomainTaken(err error, field string) error {
	if !db.IsUnique(err) {
		return err
	}
	return &model.Error{Kind: model.Conflict, Code: "domain_taken", Field: field,
		Message: "You have a site with this domain already.", Cause: err}
}

// maySiteJoin fails if an account has too many sites with one that tx has added, see CreateSite and
// CreateOwnersSite. tx must hold the lock on the account's row.
func maySiteJoin(ctx context.Context, tx *db.Tx, site *model.Site, anyNumber bool) error {
	if err := atMostSites(ctx, tx, site.AccountID); err != nil || anyNumber {
		return err
	}
	return checkSiteLimit(ctx, tx, site)
}

// atMostSites is atMost for the sites of an account that are not deleted.
func atMostSites(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	return atMost(ctx, tx, "sites", accountID, model.MaxSites, "too_many_sites", "deleted_at = 0")
}

// atMost fails when the account has more than limit rows in a table that meet the conditions,
// including the one that tx has just inserted; the error rolls that back. tx must hold the lock on
// the account's row.
func atMost(
	ctx context.Context, tx *db.Tx, table string, accountID model.AccountID, limit int64, code string, conditions ...string,
) error {
	q := tx.NewSelect().Table(table).Where("account_id = ?", accountID)
	for _, condition := range conditions {
		q.Where(condition)
	}

	n, err := q.Count(ctx)
	if err == nil && n > limit {
		err = &model.Error{Kind: model.Conflict, Code: code,
			Message: fmt.Sprintf("An account has at most %d %s. Delete one first.", limit, table)}
	}
	return err
}

// SiteByID returns a site of the account. It returns model.ErrNotFound both for a site of another
// account and for one that does not exist.
func (s *Sites) SiteByID(ctx context.Context, accountID model.AccountID, id model.SiteID) (*model.Site, error) {
	var site model.Site
	err := s.reader().NewSelect().Model(&site).Where("account_id = ?", accountID).Where("id = ?", id).
		Where("deleted_at = 0").Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &site, nil
}

// IsKeyTaken reports whether a site of any account has the site key, also a deleted one.
func (s *Sites) IsKeyTaken(ctx context.Context, siteKey string) (bool, error) {
	return s.reader().NewSelect().Table("sites").Where("site_key = ?", siteKey).Exists(ctx)
}

// Sites returns at most limit sites of the account in the order of their ids, starting after the id
// after (0 for the first page).
func (s *Sites) Sites(ctx context.Context, accountID model.AccountID, after model.SiteID, limit int64) ([]*model.Site, error) {
	var sites []*model.Site
	err := s.reader().NewSelect().Model(&sites).Where("account_id = ?", accountID).Where("id > ?", after).
		Where("deleted_at = 0").Order("id").Limit(limit).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sites of account %d: %w", accountID, err)
	}
	return sites, nil
}

// MonthlyUsage returns how many page views and events each site has recorded in the month. Sites
// without any are left out. The caller must have loaded the sites, which checks the right to see
// them.
func (s *Usage) MonthlyUsage(ctx context.Context, month model.Month, siteIDs []model.SiteID) (map[model.SiteID]int64, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	type usage struct {
		SiteID model.SiteID
		Used   int64
	}
	rows, err := db.RowsPerCell(ctx, s.db, siteIDs, func(in *db.Cell, siteIDs []model.SiteID, rows *[]usage) error {
		return in.Read.NewSelect().Table("site_usage").Column("site_id", "used").
			Where("site_id IN ?", bun.Tuple(siteIDs)).Where("month = ?", month).Scan(ctx, rows)
	})
	if err != nil {
		return nil, fmt.Errorf("read usage of %d sites in %s: %w", len(siteIDs), month, err)
	}

	used := make(map[model.SiteID]int64, len(rows))
	for _, row := range rows {
		used[row.SiteID] = row.Used
	}

	return used, nil
}

// AnySite returns a site of any account, for the operator, or model.ErrNotFound.
func (s *Sites) AnySite(ctx context.Context, id model.SiteID) (*model.Site, error) {
	var site model.Site
	if err := s.reader().NewSelect().Model(&site).Where("id = ?", id).Where("deleted_at = 0").Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	return &site, nil
}

// LastHits returns when each site's last page view or event was stored. Sites without any are left
// out. The caller must have loaded the sites, which checks the right to see them.
func (s *Usage) LastHits(ctx context.Context, siteIDs []model.SiteID) (map[model.SiteID]model.Instant, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	type newest struct {
		ID              model.SiteID
		Pageview, Event *model.Instant
	}
	rows, err := db.RowsPerCell(ctx, s.db, siteIDs, func(in *db.Cell, siteIDs []model.SiteID, rows *[]newest) error {
		return in.Read.NewSelect().Table("sites").Column("id").
			ColumnExpr("(SELECT at FROM pageviews WHERE site_id = sites.id ORDER BY at DESC LIMIT 1) AS pageview").
			ColumnExpr("(SELECT at FROM events WHERE site_id = sites.id ORDER BY at DESC LIMIT 1) AS event").
			Where("id IN ?", bun.Tuple(siteIDs)).Scan(ctx, rows)
	})
	if err != nil {
		return nil, fmt.Errorf("read last hits of %d sites: %w", len(siteIDs), err)
	}

	last := make(map[model.SiteID]model.Instant, len(rows))

	for _, row := range rows {
		for _, at := range []*model.Instant{row.Pageview, row.Event} {
			if at != nil {
				last[row.ID] = max(last[row.ID], *at)
			}
		}
	}

	return last, nil
}

// OfAccounts selects sites of several accounts.
type OfAccounts struct {
	After  model.SiteID // only sites with a larger id
	Only   model.SiteID // instead of Search: only the site with this id; 0: all
	Search string       // part of the name or domain, without regard to the case of ASCII letters; "": all
	Limit  int          // sites of each account
}

// condition returns the condition of the sites of one account. Its first argument is the id of the
// account.
func (o OfAccounts) condition() (text string, args []any) {
	text, args = "account_id = ? AND deleted_at = 0 AND id > ?", []any{o.After}
	switch {
	case o.Only != 0:
		return text + " AND id = ?", append(args, o.Only)
	case o.Search != "":
		// SQLite changes the case of ASCII letters alone, so a name is also compared as it is
		// written.
		part := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(o.Search) + "%"
		lower := strings.ToLower(part)
		return text + " AND (name LIKE ? ESCAPE '!' OR lower(name) LIKE ? ESCAPE '!' OR domain LIKE ? ESCAPE '!')", append(args, part, lower, lower)
	}
	return text, args
}

// SitesOfAccounts returns sites of each account, oldest first, with one statement. The caller must
// have checked that the user is an operator.
func (s *Sites) SitesOfAccounts(ctx context.Context, accountIDs []model.AccountID, of OfAccounts) (map[model.AccountID][]*model.Site, error) {
	if len(accountIDs) == 0 {
		return nil, nil
	}

	condition, selected := of.condition()
	var parts []string
	var args []any
	for i, id := range accountIDs {
		parts = append(parts,
			fmt.Sprintf("SELECT * FROM (SELECT * FROM sites WHERE %s ORDER BY id LIMIT ?) AS of_account_%d", condition, i))
		args = append(append(append(args, id), selected...), of.Limit)
	}

	var rows []*model.Site
	err := s.reader().NewRaw(strings.Join(parts, " UNION ALL ")+" ORDER BY id", args...).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list sites of %d accounts: %w", len(accountIDs), err)
	}

	byAccount := make(map[model.AccountID][]*model.Site, len(accountIDs))
	for _, row := range rows {
		byAccount[row.AccountID] = append(byAccount[row.AccountID], row)
	}

	return byAccount, nil
}
