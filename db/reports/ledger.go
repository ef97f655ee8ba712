package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// state is how far a day of the ledger is.
type state int16

const (
	open   state = iota // built again until engagement is no longer accepted
	final               // has a segment of its own, if it has rows
	merged              // is part of its month's segment
	sealed              // like merged; without user ids, because its rows may be deleted
)

// dayRow is a day of the ledger.
type dayRow struct {
	bun.BaseModel `bun:"table:report_days"`

	SiteID    model.SiteID  `bun:",pk"`
	Day       model.Day     `bun:",pk"`
	State     state         `bun:",notnull"`
	Version   int64         `bun:",notnull"`
	DueAt     model.Instant `bun:",nullzero"`
	BuiltAt   model.Instant `bun:",notnull"` // 0: not yet
	Visits    int64         `bun:",notnull"`
	Pageviews int64         `bun:",notnull"`
	Events    int64         `bun:",notnull"`
	Checksum  int64         `bun:",notnull"`
}

// The progress of Plan, in the settings.
const (
	plannedSetting  = "reports_planned"  // the last day that was planned
	backfillSetting = "reports_backfill" // the last site whose earlier days were planned, or backfillDone
)

const backfillDone = -1

const planPage = 500 // sites that one statement checks

// replanDays is how many earlier days are planned again with each day, for hits that a slow clock
// has stored late.
const replanDays = 2

// Plan enters the days that have ended into the ledger, for each site with visits on them, and
// returns their number. Its cost follows the sites with hits in the month. After an update from a
// release without reports it also enters all earlier days, once.
func (s *Store) Plan(ctx context.Context, now model.Instant) (int64, error) {
	last := now.Add(-buildDelay).Day() - 1
	stored, err := s.db.Setting(ctx, plannedSetting, strconv.Itoa(int(last)))
	if err != nil {
		return 0, fmt.Errorf("read the last planned day: %w", err)
	}
	number, err := strconv.Atoi(stored)
	if err != nil {
		return 0, fmt.Errorf("read the last planned day: %w", err)
	}

	if model.Day(number) > last {
		// Days that ended since the clock was ahead were planned before they had rows.
		number = int(last - correctDays)
		if err := s.correct(ctx, model.Day(number), now); err != nil {
			return 0, fmt.Errorf("correct the reports of days in the future: %w", err)
		}
	}

	var all int64
	for day := model.Day(number) + 1; day <= last; day++ {
		for earlier := day - replanDays; earlier <= day; earlier++ {
			n, err := s.planDay(ctx, earlier, now)
			all += n
			if err != nil {
				return all, fmt.Errorf("plan the reports of %v: %w", earlier, err)
			}
		}
		if err := s.set(ctx, plannedSetting, int64(day)); err != nil {
			return all, err
		}
		number = int(day)
	}

	n, err := s.backfill(ctx, model.Day(number), now)
	return all + n, err
}

// correct removes the effects of a clock that was ahead: days that were built before their end are
// built again, and days after planned are planned again.
func (s *Store) correct(ctx context.Context, planned model.Day, now model.Instant) error {
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		_, err := in.Write.ExecContext(ctx, `UPDATE report_days SET version = version + 1, due_at = ?0,
  state = CASE state WHEN ?1 THEN ?2 ELSE state END
WHERE (built_at > ?0 OR due_at > ?3) AND state <> ?4`, now, final, open, now.Add(maxDue), sealed)
		return err
	})
	if err != nil {
		return err
	}
	return s.set(ctx, plannedSetting, int64(planned))
}

const (
	// maxDue exceeds the time until any day's next work.
	maxDue = 40 * 24 * time.Hour

	// correctDays is how many days are planned again after a clock was ahead.
	correctDays = 60
)

func (s *Store) set(ctx context.Context, name string, value int64) error {
	_, err := s.db.Write.ExecContext(ctx, "UPDATE settings SET value = ? WHERE name = ?",
		strconv.FormatInt(value, 10), name)
	return err
}

// planDay enters one day for all sites with visits on it.
func (s *Store) planDay(ctx context.Context, day model.Day, now model.Instant) (int64, error) {
	var all int64
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := s.in(in).planDayOfCell(ctx, day, now)
		all += n
		return err
	})
	return all, err
}

// planDayOfCell is planDay for the sites of one cell.
func (s *cellStore) planDayOfCell(ctx context.Context, day model.Day, now model.Instant) (int64, error) {
	var all int64

	for after := model.SiteID(0); ; {
		var sites []model.SiteID
		err := s.cell.Read.NewSelect().TableExpr("site_usage AS u").Join("JOIN sites AS s ON s.id = u.site_id AND s.cell = ?", s.cell.ID).
			Column("u.site_id").
			Where("u.month = ? AND u.site_id > ?", day.Start().Month(), after).
			Where(hasVisits, day).
			Where("NOT EXISTS (SELECT 1 FROM report_days AS d WHERE d.site_id = u.site_id AND d.day = ?)", day).
			Order("u.site_id").Limit(planPage).Scan(ctx, &sites)
		if err != nil || len(sites) == 0 {
			return all, err
		}

		days := make([]dayRow, len(sites))
		for i, id := range sites {
			days[i] = dayRow{SiteID: id, Day: day, DueAt: now}
		}
		n, err := s.enter(ctx, days)
		if err != nil {
			return all, err
		}

		all += n
		after = sites[len(sites)-1]
	}
}

// enter adds days to the ledger that it does not have.
func (s *cellStore) enter(ctx context.Context, days []dayRow) (int64, error) {
	if len(days) == 0 {
		return 0, nil
	}
	result, err := s.cell.Write.NewInsert().Model(&days).On("CONFLICT DO NOTHING").Exec(ctx)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// backfill enters the days up to last of all sites, site by site. It reads one visit for each day.
func (s *Store) backfill(ctx context.Context, last model.Day, now model.Instant) (int64, error) {
	stored, err := s.db.Setting(ctx, backfillSetting, "0")
	if err != nil {
		return 0, fmt.Errorf("read the progress of the first reports: %w", err)
	}
	after, err := strconv.ParseInt(stored, 10, 64)
	if err != nil || after == backfillDone {
		return 0, err
	}

	var all int64
	for {
		var sites []model.SiteID
		if err := s.db.Read.NewSelect().Table("sites").Column("id").Where("id > ?", after).Order("id").Limit(planPage).
			Scan(ctx, &sites); err != nil {
			return all, err
		}
		if len(sites) == 0 {
			return all, s.set(ctx, backfillSetting, backfillDone)
		}

		for _, id := range sites {
			n, err := s.backfillSite(ctx, id, last, now)
			all += n
			if err != nil {
				return all, fmt.Errorf("plan the first reports of site %d: %w", id, err)
			}
			if err := s.set(ctx, backfillSetting, int64(id)); err != nil {
				return all, err
			}
			after = int64(id)
		}
	}
}

// backfillSite enters the site's days up to last. The newest become due first, because they are the
// ones most looked at.
func (s *Store) backfillSite(ctx context.Context, siteID model.SiteID, last model.Day, now model.Instant) (int64, error) {
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return 0, err
	}

	var days []dayRow
	for from := model.Day(0); ; {
		day, ok, err := in.nextVisit(ctx, siteID, max(from, firstDay))
		if err != nil {
			return 0, err
		}
		if !ok || day > last {
			break
		}
		days = append(days, dayRow{SiteID: siteID, Day: day, DueAt: now - model.Instant(day-firstDay)})
		from = day + 1
	}

	var all int64
	for page := range slices.Chunk(days, planPage) {
		n, err := in.enter(ctx, page)
		all += n
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// PlanSite enters the site's days that have ended, and makes those since from due, for rows that
// were stored after their day was planned or built. BuildDue then builds them.
func (s *Store) PlanSite(ctx context.Context, siteID model.SiteID, from model.Day, now model.Instant) error {
	last := now.Add(-buildDelay).Day() - 1
	if _, err := s.backfillSite(ctx, siteID, last, now); err != nil {
		return fmt.Errorf("plan the reports of site %d: %w", siteID, err)
	}

	var changed []model.Day
	for day := from; day <= last; day++ {
		changed = append(changed, day)
	}
	return s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		return Invalidate(ctx, tx, siteID, now, changed...)
	})
}

// firstDay is 2020-01-01, before which no visit has an id.
var firstDay = model.TimeOfID(0).Day()

// maxDueDays is how many days a Due counts in each cell, the longest due first, so that its cost is
// bounded.
const maxDueDays = 100_000

// Due is what waits to be built or merged at one time.
type Due struct {
	Days   int64         // of all sites, at most 100,000 in each cell
	Oldest model.Instant // when the longest due day became due; 0 if none is
}

// Due counts the days that are due and leased by no worker.
func (s *Store) Due(ctx context.Context, now model.Instant) (Due, error) {
	var all Due
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		var due Due
		err := in.Read.NewRaw(`SELECT count(*) AS days, coalesce(min(due_at), 0) AS oldest
FROM (SELECT due_at FROM report_days WHERE due_at <= ? ORDER BY due_at LIMIT ?) AS waiting`, now, maxDueDays).Scan(ctx, &due)
		all.Days += due.Days
		if due.Oldest != 0 && (all.Oldest == 0 || due.Oldest < all.Oldest) {
			all.Oldest = due.Oldest
		}
		return err
	})
	if err != nil {
		return Due{}, fmt.Errorf("count the days to build: %w", err)
	}
	return all, nil
}

// lease leases up to limit due days to this worker, in the order in which they became due.
func (s *cellStore) lease(ctx context.Context, now model.Instant, limit int) ([]dayRow, error) {
	due := s.cell.Read.NewSelect().Table("report_days").Column("site_id", "day").Where("due_at <= ?", now).
		Order("due_at", "site_id", "day").Limit(int64(limit))

	// Query first: even an update of nothing makes SQLite's writers wait.
	any, err := due.Exists(ctx)
	if err != nil || !any {
		return nil, err
	}

	var days []dayRow
	err = s.cell.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
		q := tx.NewSelect().Table("report_days").Column("site_id", "day").Where("due_at <= ?", now).
			Order("due_at", "site_id", "day").Limit(int64(limit))
		if s.cell.Common.IsPostgres() {
			q.For("UPDATE SKIP LOCKED")
		}
		days = nil
		return tx.NewRaw("UPDATE report_days SET version = version + 1, due_at = ? WHERE (site_id, day) IN (?) RETURNING *",
			now.Add(leaseFor), q).Scan(ctx, &days)
	})
	if err != nil {
		return nil, err
	}

	slices.SortFunc(days, func(a, b dayRow) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.SiteID, b.SiteID))
	})
	return days, nil
}

// Invalidate makes the days of a site due, after a change of their rows in the same transaction. A
// build that has read the rows before cannot be stored any more. Days whose rows may be deleted by
// retention stay as they are.
func Invalidate(ctx context.Context, tx *db.CellTx, siteID model.SiteID, now model.Instant, days ...model.Day) error {
	if len(days) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE report_days SET version = version + 1, due_at = ?0,
  state = CASE state WHEN ?1 THEN ?2 ELSE state END
WHERE site_id = ?3 AND day IN ?4 AND state <> ?5`, now, final, open, siteID, bun.Tuple(days), sealed)
	if err != nil {
		return fmt.Errorf("request new reports of site %d: %w", siteID, err)
	}
	return nil
}

// zoneDelay is how long after a change of a site's time zone its days are built again, so that
// several changes cost one build.
const zoneDelay = time.Hour

// InvalidateZone makes all days of a site due, after a change of its time zone in the same
// transaction. Until they are built again, reports count them without their rollups.
func InvalidateZone(ctx context.Context, tx *db.CellTx, siteID model.SiteID, now model.Instant) error {
	_, err := tx.ExecContext(ctx, `UPDATE report_days SET version = version + 1, due_at = ?0,
  state = CASE state WHEN ?1 THEN ?2 ELSE state END
WHERE site_id = ?3 AND state <> ?4`, now.Add(zoneDelay), final, open, siteID, sealed)
	if err != nil {
		return fmt.Errorf("request new reports of site %d: %w", siteID, err)
	}
	return nil
}

// days returns the ledger's days of a site from first to last, in order.
func days(ctx context.Context, cell *db.Cell, siteID model.SiteID, first, last model.Day) ([]dayRow, error) {
	var rows []dayRow
	err := cell.Read.NewSelect().Model(&rows).Where("site_id = ? AND day >= ? AND day <= ?", siteID, first, last).Order("day").
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the report days of site %d: %w", siteID, err)
	}
	return rows, nil
}

// monthOf returns the first and the last day of the month that contains a day.
func monthOf(day model.Day) (first, last model.Day) {
	month := day.Start().Month()
	return model.At(month.Start()).Day(), model.At(month.Next().Start()).Day() - 1
}
