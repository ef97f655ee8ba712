package sites

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// UsageHistory returns how many page views and events each site has recorded in each month since
// from. Months without any are left out. The caller must have loaded the sites, which checks the
// right to see them.
func (s *Usage) UsageHistory(
	ctx context.Context, siteIDs []model.SiteID, from model.Month,
) (map[model.SiteID]map[model.Month]int64, error) {
	return usageSince(ctx, s, "site_usage", "month", siteIDs, from)
}

// UsageByDay returns how many page views and events each site had on each finished UTC day since
// from. Days without any are left out. The caller must have loaded the sites, which checks the
// right to see them.
func (s *Usage) UsageByDay(
	ctx context.Context, siteIDs []model.SiteID, from model.Day,
) (map[model.SiteID]map[model.Day]int64, error) {
	return usageSince(ctx, s, "site_usage_days", "day", siteIDs, from)
}

// usageOf is the usage of a site in a period.
type usageOf[Period ~int32] struct {
	SiteID model.SiteID
	Period Period
	Used   int64
}

// usageSince reads the counts of each site from a table of counts by period, a month or a day.
func usageSince[Period ~int32](
	ctx context.Context, s *Usage, table, period string, siteIDs []model.SiteID, from Period,
) (map[model.SiteID]map[Period]int64, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	rows, err := db.RowsPerCell(ctx, s.db, siteIDs, func(in *db.Cell, siteIDs []model.SiteID, rows *[]usageOf[Period]) error {
		return in.Read.NewSelect().Table(table).Column("site_id", "used").
			ColumnExpr("? AS period", bun.Ident(period)).
			Where("site_id IN ?", bun.Tuple(siteIDs)).Where("? >= ?", bun.Ident(period), from).Scan(ctx, rows)
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of %d sites by %s: %w", len(siteIDs), period, err)
	}

	used := make(map[model.SiteID]map[Period]int64)
	for _, row := range rows {
		if used[row.SiteID] == nil {
			used[row.SiteID] = make(map[Period]int64)
		}
		used[row.SiteID][row.Period] = row.Used
	}

	return used, nil
}

// The counting of finished days.
const (
	// dayCounted is the setting with the last UTC day whose usage was counted.
	dayCounted = "usage_day_counted"
	// dayMargin is how long after a day its last hits may be committed, with differences of clocks.
	dayMargin = 10 * time.Minute
	// maxDayCatchUp is how many days are counted after an interruption, and at the first start.
	maxDayCatchUp = 31
	// dayPage is how many sites one statement counts.
	dayPage = 50
)

// CountUsageDays counts the page views and events of the UTC days that have ended since the last
// one it counted, once for each site with usage in the month. It returns the number of days. A
// concurrent call counts the same and changes nothing.
func (s *Usage) CountUsageDays(ctx context.Context, now model.Instant) (int64, error) {
	counted, err := s.UsageDayCounted(ctx)
	if err != nil {
		return 0, err
	}

	last := now.Add(-dayMargin).Day() - 1
	var days int64
	for day := max(counted+1, last-maxDayCatchUp+1); day <= last; day++ {
		if err := s.countUsageDay(ctx, day); err != nil {
			return days, fmt.Errorf("count the usage of %s: %w", day, err)
		}

		_, err := s.db.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = excluded.value", dayCounted, strconv.Itoa(int(day)))
		if err != nil {
			return days, fmt.Errorf("note that the usage of %s was counted: %w", day, err)
		}
		days++
	}

	return days, nil
}

// RecountUsageDays counts the UTC days from first to last again, for rows that were stored after
// their day was counted.
func (s *Usage) RecountUsageDays(ctx context.Context, first, last model.Day) error {
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		_, err := in.Write.ExecContext(ctx, "DELETE FROM site_usage_days WHERE day >= ? AND day <= ?", first, last)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the usage of days: %w", err)
	}

	for day := first; day <= last; day++ {
		if err := s.countUsageDay(ctx, day); err != nil {
			return fmt.Errorf("count the usage of %s again: %w", day, err)
		}
	}

	return nil
}

// UsageDayCounted returns the last UTC day whose usage was counted; a negative one if none was.
func (s *Usage) UsageDayCounted(ctx context.Context) (model.Day, error) {
	var values []string
	err := s.db.Read.NewSelect().Table("settings").Column("value").Where("name = ?", dayCounted).Scan(ctx, &values)
	if err != nil {
		return 0, fmt.Errorf("read the day whose usage was counted: %w", err)
	}
	if len(values) == 0 {
		return -1, nil
	}

	day, err := strconv.Atoi(values[0])
	return model.Day(day), err
}

// siteDay is the usage of a site on a day.
type siteDay struct {
	bun.BaseModel `bun:"table:site_usage_days"`

	SiteID model.SiteID
	Day    model.Day
	Used   int64
}

// countUsageDay counts one day, a page of sites at a time: the pool for reading is free between
// them, and the writer waits for nothing.
func (s *Usage) countUsageDay(ctx context.Context, day model.Day) error {
	return s.db.EachCell(ctx, func(in *db.Cell) error { return countUsageDayIn(ctx, in, day) })
}

func countUsageDayIn(ctx context.Context, in *db.Cell, day model.Day) error {
	from, to := day.Start(), (day + 1).Start()
	for after := model.SiteID(0); ; {
		var counted []siteDay
		err := in.Read.NewRaw(`
SELECT u.site_id,
  (SELECT count(*) FROM pageviews p WHERE p.site_id = u.site_id AND p.at >= ? AND p.at < ?) +
  (SELECT count(*) FROM events e WHERE e.site_id = u.site_id AND e.at >= ? AND e.at < ?) AS used
FROM site_usage u JOIN sites s ON s.id = u.site_id AND s.cell = ?
WHERE u.month = ? AND u.site_id > ? ORDER BY u.site_id LIMIT ?`,
			from, to, from, to, in.ID, from.Month(), after, dayPage).Scan(ctx, &counted)
		if err != nil || len(counted) == 0 {
			return err
		}

		after = counted[len(counted)-1].SiteID
		if err := addUsageDays(ctx, in, day, counted); err != nil {
			return err
		}
	}
}

// addUsageDays stores the usage of sites on a day. Days without any have no row.
func addUsageDays(ctx context.Context, in *db.Cell, day model.Day, counted []siteDay) error {
	rows := make([]siteDay, 0, len(counted))
	for _, row := range counted {
		if row.Day = day; row.Used > 0 {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil
	}

	return in.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
		_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
		return err
	})
}
