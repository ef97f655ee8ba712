package reports

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// RollUpAll makes a Store keep rollups of segments of all sizes.
func RollUpAll(s *Store) { s.deflateBelow = 0 }

// KeptBytes returns what a Store counts of the answers and live days that it keeps.
func KeptBytes(s *Store) (answers, liveDays int64) { return s.answers.bytes, s.live.bytes }

// PutSegment stores a segment of final days as the worker does.
func (s *Store) PutSegment(ctx context.Context, siteID model.SiteID, g *segment.Segment) error {
	packed, err := s.pack(ctx, siteID, g)
	if err != nil {
		return err
	}

	days := make([]dayRow, len(g.Days))
	for i, d := range g.Days {
		days[i] = dayRow{SiteID: siteID, Day: g.First + model.Day(i), State: final, BuiltAt: 1,
			Visits: int64(d.Visits), Pageviews: int64(d.Views), Events: int64(d.Events)}
	}
	return s.db.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		if _, err := tx.NewInsert().Model(&days).Exec(ctx); err != nil {
			return err
		}
		return s.putSegment(ctx, tx, siteID, g.First, len(g.Days), packed)
	})
}

// OneTurn makes a store count one report at a time, which gives way as soon as it may. waiting
// returns how many reports wait for their turn.
func OneTurn(s *Store) (waiting func() int) {
	s.turns.Most, s.turns.MostPerKey, s.quantum = 1, 1, 0
	return s.turns.Waiting
}

// UseAtMost bounds the memory of each report.
func UseAtMost(s *Store, bytes int64) { s.scanBytes = bytes }

// PackColumns and Unpack encode and decode the stored form of a segment.
var (
	PackColumns = packColumns
	Unpack      = unpack
)

// Size returns what a request reads of finished days.
func (s *Store) Size(ctx context.Context, r Request) (Size, error) {
	in, err := s.ofSite(ctx, r.SiteID)
	if err != nil {
		return Size{}, err
	}
	p, err := in.readLedger(ctx, &r)
	if err != nil {
		return Size{}, err
	}
	return p.size, nil
}
