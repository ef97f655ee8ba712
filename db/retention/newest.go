package retention

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// newestHit returns the time of the newest stored visit, page view or event of any cell, or 0.
func (s *Store) newestHit(ctx context.Context) (newest model.Instant, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		at, err := cell{in}.newestInCell(ctx)
		newest = max(newest, at)
		return err
	})
	return newest, err
}

// OldestHit returns the time of the oldest stored visit, page view, report or event of any cell, or
// 0. On SQLite it reads all of them.
func (s *Store) OldestHit(ctx context.Context) (oldest model.Instant, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		for _, table := range partitionedTables {
			var keys []int64
			err := in.Read.NewSelect().Table(table.name).ColumnExpr("min(?)", bun.Ident(table.key)).Having("count(*) > 0").
				Scan(ctx, &keys)
			if err != nil {
				return fmt.Errorf("find the oldest row of %s: %w", table.name, err)
			}
			if len(keys) > 0 && (oldest == 0 || table.at(keys[0]) < oldest) {
				oldest = table.at(keys[0])
			}
		}
		return nil
	})
	return oldest, err
}

// newestInCell is newestHit for one cell.
func (c cell) newestInCell(ctx context.Context) (model.Instant, error) {
	var newest model.Instant
	for _, table := range partitionedTables {
		at, err := c.newestRow(ctx, table)
		if err != nil {
			return 0, err
		}

		newest = max(newest, at)
	}

	return newest, nil
}

// newestRow returns the time of a table's newest row, or 0 if it is empty.
func (c cell) newestRow(ctx context.Context, table partitioned) (model.Instant, error) {
	if !c.Common.IsPostgres() {
		return c.newestOf(ctx, table, table.name)
	}

	newest, err := c.newestOf(ctx, table, table.defaultPartition())
	if err != nil {
		return 0, err
	}

	have, err := c.partitions(ctx, table)
	if err != nil {
		return 0, err
	}

	for _, month := range newestFirst(have) {
		at, err := c.newestOf(ctx, table, table.partition(month))

		// All earlier partitions have older rows.
		if err != nil || at != 0 {
			return max(newest, at), err
		}
	}

	return newest, nil
}

// newestOf is newestRow for one partition. It needs one lookup in the primary key per site.
func (c cell) newestOf(ctx context.Context, table partitioned, partition string) (model.Instant, error) {
	const text = `
WITH RECURSIVE sites(site_id) AS (
  SELECT min(site_id) FROM ?0
  UNION ALL
  SELECT (SELECT min(r.site_id) FROM ?0 AS r WHERE r.site_id > sites.site_id) FROM sites WHERE sites.site_id IS NOT NULL
)
SELECT coalesce(max((SELECT max(r.?1) FROM ?0 AS r WHERE r.site_id = sites.site_id)), 0)
FROM sites WHERE site_id IS NOT NULL`

	var key int64
	if err := c.Read.NewRaw(text, bun.Ident(partition), bun.Ident(table.key)).Scan(ctx, &key); err != nil {
		return 0, fmt.Errorf("look for the newest row of %s: %w", partition, err)
	}
	if key == 0 {
		return 0, nil
	}

	return table.at(key), nil
}
