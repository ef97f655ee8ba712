package retention

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
)

// rowsOfSite is a table with rows of sites.
type rowsOfSite struct{ table, key string }

// siteRows are the tables that keep their rows when the site's row is deleted, each with its
// primary key. To delete all rows in one transaction would keep it open for minutes.
var siteRows = []rowsOfSite{
	{"pageviews", "site_id, at, id"},
	{"events", "site_id, at, id"},
	{"engagement", "site_id, day, id"},
	{"visits", "site_id, day, visitor, n"},
	{"transactions", "site_id, transaction_id"},
	{"delivery_attempts", "site_id, delivery_id, n"},
	{"deliveries", "site_id, id"},
	{"failure_notices", "site_id, day"},
	{"webhook_notices", "site_id, day"},
	{"user_erasures", "id"},
	{"quota_notices", "account_id, site_id, product, month, threshold, quota"},
	{"rejections", "site_id, day, endpoint, code"},
	{"site_usage", "site_id, month"},
	{"report_days", "site_id, day"},
	{"report_segments", "site_id, first_day, days, chunk"},
	{"report_imports", "site_id, id"},
	{"import_figures", "site_id, import_id, dimension, day, n"},
	{"import_segments", "site_id, import_id, first_day, days, chunk"},
	{"import_jobs", "id"},
	{"import_chunks", "site_id, job_id, n"},
	{"site_usage_days", "site_id, day"},
	{"unknown_events", "site_id, day, name"},
	{"site_moves", "site_id"},
}

// lateHits is how long hits and counts can still arrive for a deleted site, from processes that
// have not received the notification.
const lateHits = time.Hour

// PurgeDeletedSites deletes the rows of deleted sites in short transactions, until ctx ends, and
// returns their number. It repeats this for an hour after a site's deletion, because hits can have
// been in flight.
func (s *Store) PurgeDeletedSites(ctx context.Context, now model.Instant) (int64, error) {
	var deleted []struct {
		SiteID    model.SiteID
		DeletedAt model.Instant
	}
	err := s.db.Read.NewSelect().Table("deleted_sites").Column("site_id", "deleted_at").Order("site_id").
		Scan(ctx, &deleted)
	if err != nil {
		return 0, fmt.Errorf("list deleted sites: %w", err)
	}

	var all int64
	for sites := range slices.Chunk(deleted, purgePage) {
		var ids, late []model.SiteID
		for _, site := range sites {
			ids = append(ids, site.SiteID)

			if now.Sub(site.DeletedAt) >= lateHits {
				late = append(late, site.SiteID)
			}
		}

		n, err := s.PurgeSites(ctx, ids)
		all += n
		if err != nil {
			return all, err
		}
		if len(late) == 0 {
			continue
		}

		_, err = s.db.Write.ExecContext(ctx, "DELETE FROM deleted_sites WHERE site_id IN ?", bun.Tuple(late))
		if err != nil {
			return all, fmt.Errorf("forget %d deleted sites: %w", len(late), err)
		}
	}

	return all, nil
}

// purgePage is how many sites one statement checks for rows.
const purgePage = 500

// PurgeSites deletes the rows of the given deleted sites. It does not remove the sites from the
// list of deleted sites.
func (s *Store) PurgeSites(ctx context.Context, siteIDs []model.SiteID) (int64, error) {
	var all int64
	for ids := range slices.Chunk(siteIDs, purgePage) {
		for _, rows := range siteRows {
			// A site that was moved may have left rows in more than one cell.
			err := s.db.EachCellOf(ctx, rows.table, func(in *db.Cell) error {
				n, err := cell{in}.purgeTable(ctx, rows.table, rows.key, ids)
				all += n
				return err
			})
			if err != nil {
				return all, err
			}
		}
	}

	return all, nil
}

// CellTables is how many tables PurgeLeft knows.
var CellTables = len(cellRows)

// cellRows are the tables of siteRows that each cell has.
var cellRows = slices.DeleteFunc(slices.Clone(siteRows), func(r rowsOfSite) bool { return !celllist.HasTable(r.table) })

// PurgeLeft deletes some of the rows of a site that has left a cell from a table, numbered from 0,
// in a transaction in that cell. It reports whether these were the last rows.
func PurgeLeft(ctx context.Context, tx *db.CellTx, table int, siteID model.SiteID) (last bool, err error) {
	rows := cellRows[table]
	n, err := purgeChunk(ctx, tx, rows.table, rows.key, siteID)
	return n < int64(chunkOf(rows.table)), err
}

// purgeTable deletes the rows of deleted sites in a table of one cell.
func (c cell) purgeTable(ctx context.Context, table, key string, siteIDs []model.SiteID) (int64, error) {
	left, err := c.sitesWithRows(ctx, table, siteIDs)
	if err != nil {
		return 0, err
	}

	var all int64
	for _, id := range left {
		n, err := c.purgeSite(ctx, table, key, id)
		all += n
		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// sitesWithRows returns the deleted sites that still have rows in a table. It queries all sites at
// once before any delete, because even a delete without rows makes SQLite's writers wait.
func (c cell) sitesWithRows(ctx context.Context, table string, siteIDs []model.SiteID) (left []model.SiteID, err error) {
	// One lookup in the table's key for each site: LIMIT keeps PostgreSQL from a join, which would
	// read the whole table.
	err = c.Read.NewSelect().Table("deleted_sites").Column("site_id").Where("site_id IN ?", bun.Tuple(siteIDs)).
		Where("(SELECT 1 FROM ? AS r WHERE r.site_id = deleted_sites.site_id LIMIT 1) IS NOT NULL", bun.Ident(table)).
		Order("site_id").Scan(ctx, &left)
	if err != nil {
		return nil, fmt.Errorf("look for rows of %d deleted sites in %s: %w", len(siteIDs), table, err)
	}
	return left, nil
}

// purgeSite deletes the rows of a deleted site in a table.
func (c cell) purgeSite(ctx context.Context, table, key string, siteID model.SiteID) (int64, error) {
	for all := int64(0); ; {
		n, err := purgeChunk(ctx, c.Write, table, key, siteID)
		if all += n; err != nil || n < int64(chunkOf(table)) {
			return all, err
		}
	}
}

// purgeChunk deletes up to chunkOf(table) rows of a site in a table, and returns their number.
func purgeChunk(ctx context.Context, idb bun.IDB, table, key string, siteID model.SiteID) (int64, error) {
	statement := fmt.Sprintf(
		"DELETE FROM %s WHERE (%s) IN (SELECT %[2]s FROM %[1]s WHERE site_id = ? ORDER BY %[2]s LIMIT %[3]d)",
		table, key, chunkOf(table),
	)
	result, err := idb.ExecContext(ctx, statement, siteID)
	if err != nil {
		return 0, fmt.Errorf("delete rows of site %d from %s: %w", siteID, table, err)
	}
	return result.RowsAffected()
}
