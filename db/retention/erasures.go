package retention

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Erasure of everything stored about one pseudonymous user id of a site. No index finds the visits
// of a user id: it would cost every identified hit, and erasures are rare. A job instead reads the
// site's visits page by page in the order of their keys, and reads the rows of a day only if it
// finds visits there.

// RequestErasure records a request to erase everything stored about a pseudonymous user id of the
// site until now. EraseUser and EraseUsers carry it out. Repeating the request restarts it with the
// current time. It returns model.ErrNotFound for another account's site, Invalid for a malformed
// id, and too_many_erasures beyond model.MaxErasures in progress.
func (s *Store) RequestErasure(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, userID string, now model.Instant,
) (*model.UserErasure, error) {
	// The browser script sends ids in lower case, too.
	userID = strings.ToLower(userID)
	if !model.IsUserID(userID) {
		return nil, model.InvalidField("userId", "invalid_user_id",
			"A user id has 64 hexadecimal digits, as the site's pages send it.")
	}

	key, err := s.keys.UserIDKey(ctx)
	if err != nil {
		return nil, err
	}

	e := &model.UserErasure{SiteID: siteID, Subject: model.UserIDKey(key).Of(siteID, userID), RequestedAt: now}
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		domain, err := mayErase(ctx, tx, accountID, e)
		if err != nil {
			return err
		}

		err = tx.NewRaw(`
INSERT INTO user_erasures (site_id, subject, requested_at) VALUES (?, ?, ?)
ON CONFLICT (site_id, subject) DO UPDATE SET requested_at = excluded.requested_at,
  last_day = 0, last_visitor = 0, last_n = 0, finished_at = 0, visits = 0, pageviews = 0, events = 0, deliveries = 0
RETURNING *`, siteID, e.Subject, now).Scan(ctx, e)
		if err != nil {
			return err
		}

		// The user id stays out of the log, which outlives the erased data.
		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, Object: audit.Object{Kind: nodeid.Erasure, ID: int64(e.ID), Name: domain},
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "request an erasure of site %d", siteID)
	}

	return e, nil
}

// mayErase returns the site's domain, or an error if the site is not the account's, or if the
// account has too many other erasures in progress.
func mayErase(ctx context.Context, tx *db.Tx, accountID model.AccountID, e *model.UserErasure) (domain string, err error) {
	// Locking the account's row first makes the limit exact.
	if err := tx.LockAccount(ctx, accountID); err != nil {
		return "", err
	}

	err = tx.NewSelect().Table("sites").Column("domain").
		Where("id = ? AND account_id = ? AND deleted_at = 0", e.SiteID, accountID).Scan(ctx, &domain)
	if err != nil {
		return "", db.OrNotFound(err)
	}

	others, err := tx.NewSelect().Table("user_erasures").
		Where("finished_at = 0 AND NOT (site_id = ? AND subject = ?)", e.SiteID, e.Subject).
		Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID).Count(ctx)
	if err != nil {
		return "", err
	}

	if others >= model.MaxErasures {
		return "", &model.Error{
			Kind: model.Conflict, Code: "too_many_erasures", Field: "userId",
			Message: fmt.Sprintf("An account can have %d erasures in progress. Try again when some are finished.",
				model.MaxErasures),
		}
	}

	return domain, nil
}

// Erasure returns an erasure of a site of the account, or model.ErrNotFound. A finished erasure is
// kept for 30 days.
func (s *Store) Erasure(ctx context.Context, accountID model.AccountID, id model.ErasureID) (*model.UserErasure, error) {
	var e model.UserErasure
	err := s.db.Read.NewSelect().Model(&e).Where("id = ?", id).
		Where("site_id IN (SELECT id FROM sites WHERE account_id = ?)", accountID).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &e, nil
}

// EraseUsers continues all unfinished erasures, oldest first, each for a bounded time, until ctx
// ends. It returns the number of deleted rows.
func (s *Store) EraseUsers(ctx context.Context, now model.Instant) (int64, error) {
	var open []*model.UserErasure
	if err := s.db.Read.NewSelect().Model(&open).Where("finished_at = 0").Order("id").Scan(ctx); err != nil {
		return 0, fmt.Errorf("list erasures: %w", err)
	}

	var all int64
	for _, e := range open {
		n, err := s.EraseUser(ctx, e, now)
		all += n
		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// EraseUser continues an erasure, for at most a million visits of the site or until ctx ends, and
// returns the number of deleted rows. An error does not undo its progress.
func (s *Store) EraseUser(ctx context.Context, e *model.UserErasure, now model.Instant) (int64, error) {
	cell, err := s.db.OfSite(ctx, e.SiteID)
	if err != nil {
		return 0, err
	}

	r := &eraser{cell: cell, erasure: *e, now: now}
	err = r.run(ctx)
	if errors.Is(err, errStillActive) || errors.Is(err, db.ErrSiteMoving) {
		// The next run continues.
		err = nil
	}

	if err != nil {
		err = fmt.Errorf("erase a user of site %d: %w", e.SiteID, err)
	}

	return r.deleted, err
}
