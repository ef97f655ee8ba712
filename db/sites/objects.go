package sites

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Objects that belong to a site and that only reports use: annotations, segments, funnels and
// shared links. A change locks the site's row first, so that the limits are exact under concurrent
// changes. It notifies no watcher, because hits do not depend on these objects. Each table has the
// columns id and site_id. An object of another account is model.ErrNotFound.

// lockOwnSite locks a site of the account. It fails with model.ErrNotFound for another account's.
func lockOwnSite(ctx context.Context, tx *db.Tx, accountID model.AccountID, siteID model.SiteID) error {
	if err := tx.TakeTurn(ctx, "sites"); err != nil {
		return err
	}

	var found int64
	q := tx.NewSelect().Table("sites").Column("id").Where("id = ?", siteID).Where("account_id = ?", accountID).
		Where("deleted_at = 0")
	tx.Lock(q, "NO KEY UPDATE")
	return db.OrNotFound(q.Scan(ctx, &found))
}

// lockSiteOfMember locks a site of the account for a change of what a user of it has chosen.
func lockSiteOfMember(ctx context.Context, tx *db.Tx, user *model.User, siteID model.SiteID) error {
	// The order of locks requires the user before the site.
	if err := tx.LockRowFor(ctx, "KEY SHARE", "users", int64(user.ID)); err != nil {
		return err
	}
	if err := tx.CheckReaches(ctx, user, siteID); err != nil {
		return err
	}
	return lockOwnSite(ctx, tx, user.AccountID, siteID)
}

// objectLimit is how many objects of a table a site can have, and the error of one more.
type objectLimit struct {
	table string
	most  int64
	full  error
}

// createObject stores a new object of a site of the account. It fails with the Conflict name_taken
// when the name exists.
func createObject[T any](
	ctx context.Context, s *Objects, accountID model.AccountID, siteID model.SiteID, object *T, limit objectLimit,
) error {
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockOwnSite(ctx, tx, accountID, siteID); err != nil {
			return err
		}
		return addObject(ctx, tx, accountID, siteID, object, limit)
	})
	return objectError(err, "add to %s of site %d", limit.table, siteID)
}

// addObject stores a new object of a site that tx has locked.
func addObject[T any](
	ctx context.Context, tx *db.Tx, accountID model.AccountID, siteID model.SiteID, object *T, limit objectLimit,
) error {
	if _, err := tx.NewInsert().Model(object).Exec(ctx); err != nil {
		return err
	}

	n, err := tx.NewSelect().Table(limit.table).Where("site_id = ?", siteID).Count(ctx)
	if err == nil && n > limit.most {
		// The error rolls back the insert.
		err = limit.full
	}
	if err != nil {
		return err
	}

	return auditObject(ctx, tx, accountID, object, nil, objectValues(object))
}

// changeObject runs a change of an object of the account in a transaction that locks the site's
// row, and returns the object after it.
func changeObject[T any, ID ~int64](
	ctx context.Context, s *Objects, accountID model.AccountID, id ID, table string, change func(tx *db.Tx, object *T) error,
) (*T, error) {
	return withObject(ctx, s, accountID, id, table, func(ctx context.Context, tx *db.Tx, object *T) error {
		before := objectValues(object)
		if err := change(tx, object); err != nil {
			return err
		}
		return auditObject(ctx, tx, accountID, object, before, objectValues(object))
	})
}

// deleteObject deletes an object of the account and returns it as it was.
func deleteObject[T any, ID ~int64](
	ctx context.Context, s *Objects, accountID model.AccountID, id ID, table string,
) (*T, error) {
	return withObject(ctx, s, accountID, id, table, func(ctx context.Context, tx *db.Tx, object *T) error {
		return removeObject(ctx, tx, accountID, object)
	})
}

// removeObject deletes an object of a site that tx has locked.
func removeObject[T any](ctx context.Context, tx *db.Tx, accountID model.AccountID, object *T) error {
	if _, err := tx.NewDelete().Model(object).WherePK().Exec(ctx); err != nil {
		return err
	}
	return auditObject(ctx, tx, accountID, object, objectValues(object), nil)
}

// withObject runs change with an object of the account in a transaction that locks the site's row,
// and returns the object after it.
func withObject[T any, ID ~int64](
	ctx context.Context, s *Objects, accountID model.AccountID, id ID, table string,
	change func(ctx context.Context, tx *db.Tx, object *T) error,
) (*T, error) {
	var object T
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		object = *new(T)

		var siteID model.SiteID
		if err := tx.NewSelect().Table(table).Column("site_id").Where("id = ?", id).Scan(ctx, &siteID); err != nil {
			return db.OrNotFound(err)
		}
		if err := lockOwnSite(ctx, tx, accountID, siteID); err != nil {
			return err
		}

		// Another transaction may have deleted it before the lock.
		if err := tx.NewSelect().Model(&object).Where("id = ?", id).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		return change(ctx, tx, &object)
	})
	if err != nil {
		return nil, objectError(err, "change %d of %s", id, table)
	}

	return &object, nil
}

// updateObject stores columns of an object.
func updateObject[T any](ctx context.Context, tx *db.Tx, object *T, columns ...string) error {
	_, err := tx.NewUpdate().Model(object).WherePK().Column(columns...).Exec(ctx)
	return err
}

// objectOf returns an object of the account, or model.ErrNotFound.
func objectOf[T any, ID ~int64](ctx context.Context, s *Objects, accountID model.AccountID, id ID) (*T, error) {
	var object T
	err := s.reader().NewSelect().Model(&object).Where("id = ?", id).
		Where("site_id IN (SELECT sites.id FROM sites WHERE sites.account_id = ? AND sites.deleted_at = 0)", accountID).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &object, nil
}

// objectsOf returns the objects of each site, oldest first, with one statement. The caller must
// have loaded the sites, which checks the right to see them.
func objectsOf[T any](
	ctx context.Context, s *Objects, siteIDs []model.SiteID, siteOf func(*T) model.SiteID,
) (map[model.SiteID][]*T, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []*T
	err := s.reader().NewSelect().Model(&rows).Where("site_id IN ?", bun.Tuple(siteIDs)).Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %T of %d sites: %w", rows, len(siteIDs), err)
	}

	bySite := make(map[model.SiteID][]*T, len(siteIDs))
	for _, row := range rows {
		bySite[siteOf(row)] = append(bySite[siteOf(row)], row)
	}

	return bySite, nil
}

// objectError translates the error of a change.
func objectError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	// The ids are counted by the database, so the name is the duplicate.
	if db.IsUnique(err) {
		return &model.Error{Kind: model.Conflict, Code: "name_taken", Field: "name", Cause: err,
			Message: "The site has one with this name already."}
	}
	return db.Wrap(err, format, args...)
}

// The limits of each kind of object.
var (
	annotationLimit = newObjectLimit("annotations", "annotations", model.MaxAnnotations)
	segmentLimit    = newObjectLimit("segments", "segments", model.MaxSegments)
	funnelLimit     = newObjectLimit("funnels", "funnels", model.MaxFunnels)
	linkLimit       = newObjectLimit("shared_links", "shared links", model.MaxSharedLinks)
)

func newObjectLimit(table, what string, most int64) objectLimit {
	return objectLimit{table, most, &model.Error{Kind: model.Conflict, Code: "too_many_" + table,
		Message: fmt.Sprintf("A site has at most %d %s. Delete one first.", most, what)}}
}
