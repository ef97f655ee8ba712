package reports

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Seal prepares the deletion of all rows of months before the given one: it removes the user ids
// from their segments, which cannot be built again afterwards. It returns false, and the rows must
// stay, while one of these months is not merged. Its cost follows the months to seal.
func (s *Store) Seal(ctx context.Context, before model.Month, now model.Instant) (bool, error) {
	end := model.At(before.Start()).Day()
	ready, err := s.isMerged(ctx, end)
	if err != nil || !ready {
		return false, err
	}

	err = s.db.EachCell(ctx, func(in *db.Cell) error { return s.in(in).sealCell(ctx, end, now) })
	return err == nil, err
}

// sealCell seals the months of a cell that end before a day.
func (s *cellStore) sealCell(ctx context.Context, end model.Day, now model.Instant) error {
	for {
		var next []dayRow
		if err := s.cell.Read.NewSelect().Model(&next).Where("state = 2 AND day < ?", end).
			Where("site_id NOT IN (SELECT id FROM sites WHERE cell <> ?)", s.cell.ID).Order("day", "site_id").Limit(1).
			Scan(ctx, &next); err != nil {
			return fmt.Errorf("look for report days to seal: %w", err)
		}
		if len(next) == 0 {
			return nil
		}
		if err := s.sealMonth(ctx, next[0], now); err != nil {
			return fmt.Errorf("seal the report of site %d in %v: %w", next[0].SiteID, next[0].Day, err)
		}
	}
}

// isMerged reports whether all days before end have been planned, built and merged.
func (s *Store) isMerged(ctx context.Context, end model.Day) (bool, error) {
	const noSite = 1 << 62 // only a complete backfill includes it
	planned, complete, err := s.planned(ctx, noSite)
	if err != nil || !complete || planned < end-1 {
		return false, err
	}

	waiting := false
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		some, err := in.Read.NewSelect().Table("report_days").Where("due_at IS NOT NULL AND day < ?", end).Exists(ctx)
		waiting = waiting || some
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for report days to merge: %w", err)
	}
	return !waiting, nil
}

// sealMonth seals the month of a merged day.
func (s *cellStore) sealMonth(ctx context.Context, day dayRow, now model.Instant) error {
	first, last := monthOf(day.Day)
	month, err := days(ctx, s.cell, day.SiteID, first, last)
	if err != nil {
		return err
	}
	return s.storeMonth(ctx, sealed, month, now, func(take func(*segment.Segment) error) error {
		return s.eachSegment(ctx, day.SiteID, first, span{first, last}, new(rooms), func(g *segment.Segment) error {
			return take(g.WithoutUsers())
		})
	})
}
