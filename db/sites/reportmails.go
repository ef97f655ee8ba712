package sites

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// ReportMailsUpdate holds the mails to change. A nil field leaves its mail unchanged.
type ReportMailsUpdate struct {
	Weekly, Monthly       *bool
	SpikeAbove, DropBelow *int64 // 0: never
}

// SetReportMails changes which mails about a site of the account a user of it gets. A mail that the
// user gets already keeps the time at which it is due.
func (s *Store) SetReportMails(
	ctx context.Context, user *model.User, siteID int64, u ReportMailsUpdate, now model.Instant,
) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockSiteOfMember(ctx, tx, user, siteID); err != nil {
			return err
		}

		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ?", siteID).Scan(ctx); err != nil {
			return err
		}

		before, err := reportMailValues(ctx, tx, siteID, user.ID)
		if err != nil {
			return err
		}

		for _, set := range []struct {
			kind      model.ReportMailKind
			threshold *int64
		}{
			{model.ReportWeekly, asThreshold(u.Weekly)}, {model.ReportMonthly, asThreshold(u.Monthly)},
			{model.ReportSpike, u.SpikeAbove}, {model.ReportDrop, u.DropBelow},
		} {
			if set.threshold == nil {
				continue
			}

			mail := model.ReportMail{SiteID: siteID, UserID: user.ID, Kind: set.kind, Threshold: *set.threshold}
			if err := setReportMail(ctx, tx, &mail, &site, now); err != nil {
				return err
			}
		}

		after, err := reportMailValues(ctx, tx, siteID, user.ID)
		if err != nil {
			return err
		}

		return auditSite(ctx, tx, &site, before, after)
	})
	return db.Wrap(err, "set report mails of site %d", siteID)
}

// lockSiteOfMember locks a site of the account for a change of what a user of it has chosen.
func lockSiteOfMember(ctx context.Context, tx *db.Tx, user *model.User, siteID int64) error {
	// The order of locks requires the user before the site.
	if err := tx.LockRowFor(ctx, "KEY SHARE", "users", user.ID); err != nil {
		return err
	}

	// The user may have left the account since the request was authenticated.
	// A guest may have lost the site.
	var member model.Membership
	err := tx.NewSelect().Model(&member).ModelTableExpr(db.AllMemberships+" AS ?TableAlias").
		Where("user_id = ?", user.ID).Where("account_id = ?", user.AccountID).Scan(ctx)
	switch {
	case err != nil:
		return db.OrNotFound(err)
	case member.SiteIDs != nil && !slices.Contains(member.SiteIDs, siteID):
		return model.ErrNotFound
	}
	return lockOwnSite(ctx, tx, user.AccountID, siteID)
}

// reportMailValues returns the mails that a user gets about a site, with their thresholds.
func reportMailValues(ctx context.Context, tx *db.Tx, siteID, userID int64) (audit.Values, error) {
	var rows []model.ReportMail
	err := tx.NewSelect().Model(&rows).Where("site_id = ?", siteID).Where("user_id = ?", userID).Scan(ctx)

	values := audit.Values{}
	for _, row := range rows {
		values[string(row.Kind)] = row.Threshold
	}

	return values, err
}

// asThreshold returns 1 for a mail that is wanted, 0 for one that is not, and nil for no change.
func asThreshold(wanted *bool) *int64 {
	if wanted == nil {
		return nil
	}

	var threshold int64
	if *wanted {
		threshold = 1
	}
	return &threshold
}

// setReportMail stores a mail with its threshold, or deletes it if that is 0.
func setReportMail(ctx context.Context, tx *db.Tx, mail *model.ReportMail, site *model.Site, now model.Instant) error {
	if mail.Threshold == 0 {
		_, err := tx.NewDelete().Model(mail).WherePK().Exec(ctx)
		return err
	}

	zone, err := site.Zone()
	if err != nil {
		return err
	}

	mail.Schedule(now, zone)
	_, err = tx.NewInsert().Model(mail).On("CONFLICT (site_id, user_id, kind) DO UPDATE").
		Set("threshold = excluded.threshold").Exec(ctx)
	return err
}

// StopReportMail ends a user's mails of one kind about a site. The caller must have checked the secret
// of the mail, see model.NodeIDs.ParseStop. It does nothing if the user or the site was deleted.
func (s *Store) StopReportMail(ctx context.Context, mail model.ReportMail) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// The order of locks requires the user before the site.
		if err := tx.LockRowFor(ctx, "KEY SHARE", "users", mail.UserID); err != nil {
			return err
		}

		var user model.User
		if err := tx.NewSelect().Model(&user).Where("id = ?", mail.UserID).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ?", mail.SiteID).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		before, err := reportMailValues(ctx, tx, mail.SiteID, mail.UserID)
		if err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(&mail).WherePK().Exec(ctx); err != nil {
			return err
		}

		after := maps.Clone(before)
		delete(after, string(mail.Kind))
		return audit.Write(ctx, tx, audit.Change{
			AccountID: site.AccountID, Object: siteObject(&site), By: &user, Before: before, After: after,
		})
	})
	if err != nil && !errors.Is(err, model.ErrNotFound) {
		return db.Wrap(err, "stop report mails of site %d", mail.SiteID)
	}
	return nil
}

// ReportMailsOfSites returns which mails a user gets about each site. The caller must have loaded the
// sites, which checks the right to see them.
func (s *Store) ReportMailsOfSites(
	ctx context.Context, userID int64, siteIDs []int64,
) (map[int64]model.ReportMails, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []model.ReportMail
	err := s.db.Read.NewSelect().Model(&rows).Where("site_id IN ?", bun.Tuple(siteIDs)).Where("user_id = ?", userID).
		Order("site_id", "kind").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read report mails of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[int64]model.ReportMails)
	for _, row := range rows {
		mails := bySite[row.SiteID]
		switch row.Kind {
		case model.ReportWeekly:
			mails.Weekly = true
		case model.ReportMonthly:
			mails.Monthly = true
		case model.ReportSpike:
			mails.SpikeAbove = row.Threshold
		case model.ReportDrop:
			mails.DropBelow = row.Threshold
		}
		bySite[row.SiteID] = mails
	}

	return bySite, nil
}

// DueReportMails returns at most limit mails that are due, longest due first.
func (s *Store) DueReportMails(ctx context.Context, now model.Instant, limit int) ([]model.ReportMail, error) {
	var rows []model.ReportMail
	err := s.db.Read.NewSelect().Model(&rows).Where("due_at <= ?", now).
		Where("EXISTS (SELECT 1 FROM sites WHERE sites.id = report_mail.site_id AND sites.deleted_at = 0)").
		OrderExpr("due_at, site_id, user_id, kind").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for due report mails: %w", err)
	}
	return rows, nil
}

// ReportedSite returns the site of a mail that is due, or model.ErrNotFound if it was deleted.
func (s *Store) ReportedSite(ctx context.Context, siteID int64) (*model.Site, error) {
	return s.AnySite(ctx, siteID)
}

// errNotDue rolls back the transaction for a mail that another process has finished.
var errNotDue = errors.New("the report mail is not due")

// FinishReportMail sets when a mail is due next and, unless kind is empty, queues one of that kind to
// its user, in one transaction. It does nothing if another process was first: was is the mail as it
// was read.
func (s *Store) FinishReportMail(
	ctx context.Context, was, next model.ReportMail, accountID int64, kind string, data any, now model.Instant,
) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}

	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if kind != "" {
			// It locks the account and the user, which come before all other rows.
			if err := outbox.MailMember(ctx, tx, accountID, was.UserID, kind, string(text), now); err != nil {
				return err
			}
		}

		result, err := tx.NewUpdate().Model(&next).Column("day", "due_at").WherePK().Where("due_at = ?", was.DueAt).
			Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, errNotDue)
		}

		return nil
	})
	if errors.Is(err, errNotDue) {
		return nil
	}

	return err
}
