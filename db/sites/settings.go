package sites

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// Settings that an owner can change on a site. Every change locks the site's row first, so that the
// limits are exact under concurrent changes, and notifies the watchers (see WatchSites). A site of
// another account is model.ErrNotFound. The changes are idempotent: adding an existing value and
// removing a missing one succeed.

// PauseSite makes the site refuse its hits from now on, or store them again. It returns the site. A
// site that is paused already keeps the time since which it is.
func (s *Sites) PauseSite(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, paused bool, now model.Instant,
) (changed *model.Site, err error) {
	err = s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		changed = site
		before := stateValues(site)
		switch {
		case !paused:
			site.PausedAt = 0
		case site.PausedAt == 0:
			site.PausedAt = now
		}

		if err := updateColumns(ctx, tx, site, "paused_at"); err != nil {
			return err
		}

		return auditSite(ctx, tx, site, before, stateValues(site))
	})
	if err != nil {
		return nil, err
	}

	return changed, nil
}

// SetSitePlan puts a site of any account on a plan. The caller must have checked that the user is
// an operator. For a plan with a fixed volume, monthlyPageviews must be that volume or nil. For an
// Enterprise plan it is from 1 to model.MaxMonthlyPageviews, and nil is no limit.
func (s *Sites) SetSitePlan(ctx context.Context, siteID model.SiteID, plan model.Plan, monthlyPageviews *int64) error {
	volume, known := plan.MonthlyPageviews()
	agreed := cmp.Or(monthlyPageviews, &volume)
	switch {
	case !known:
		return model.InvalidField("plan", "invalid_plan", "There is no such plan.")
	case plan != model.PlanEnterprise && *agreed != volume:
		return model.InvalidField("monthlyPageviews", "invalid_volume",
			fmt.Sprintf("This plan has %d page views a month.", volume))
	case *agreed < 1 || *agreed > model.MaxMonthlyPageviews:
		return model.InvalidField("monthlyPageviews", "invalid_volume",
			"A number of page views a month is from 1 to 2^53. An Enterprise plan without a number has no limit.")
	}

	return s.changeAnySite(ctx, siteID, func(tx *db.Tx, site *model.Site) error {
		before := planValues(site)
		site.Plan, site.MonthlyPageviews = plan, *agreed
		if err := updateColumns(ctx, tx, site, "plan", "monthly_pageviews"); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: site.AccountID, Object: siteObject(site), ByOperator: true, Before: before, After: planValues(site),
		})
	})
}

// WithOtherVolume returns the sites of all accounts that have another plan or volume.
func (s *Sites) WithOtherVolume(ctx context.Context, plan model.Plan, monthlyPageviews int64) (ids []model.SiteID, err error) {
	err = s.reader().NewSelect().Model((*model.Site)(nil)).Column("id").Where("deleted_at = 0").
		Where("plan <> ? OR monthly_pageviews <> ?", plan, monthlyPageviews).Order("id").Scan(ctx, &ids)
	return ids, err
}

// updateColumns stores columns of the site's own row.
func updateColumns(ctx context.Context, tx *db.Tx, site *model.Site, columns ...string) error {
	_, err := tx.NewUpdate().Model(site).WherePK().Column(columns...).Exec(ctx)
	return err
}

// changeSite changes a site of the account in a transaction that locks the site's row, and notifies
// the watchers.
func (s *Sites) changeSite(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, change func(tx *db.Tx, site *model.Site) error,
) error {
	return s.change(ctx, siteID, change, "account_id = ? AND deleted_at = 0", accountID)
}

// changeAnySite is changeSite for the operator: the site may belong to any account.
func (s *Sites) changeAnySite(ctx context.Context, siteID model.SiteID, change func(tx *db.Tx, site *model.Site) error) error {
	return s.change(ctx, siteID, change, "deleted_at = 0")
}

// change is changeSite for a site that meets a condition.
func (s *Sites) change(
	ctx context.Context, siteID model.SiteID, change func(tx *db.Tx, site *model.Site) error, condition string, args ...any,
) error {
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.TakeTurn(ctx, "sites"); err != nil {
			return err
		}

		var site model.Site
		q := tx.NewSelect().Model(&site).Where("id = ?", siteID).Where(condition, args...)
		tx.Lock(q, "NO KEY UPDATE")

		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if err := change(tx, &site); err != nil {
			return err
		}

		return tx.NotifySites(ctx, siteID)
	})
	return db.Wrap(err, "change site %d", siteID)
}
