package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// errOutdated means that a day was changed or leased again while it was built. The result is
// dropped, since the other worker or the next run has the newer one.
var errOutdated = errors.New("the day was leased again")

// leasedAtOnce is how many days a worker leases at once.
const leasedAtOnce = 20

// Built counts what BuildDue has done.
type Built struct {
	Days   int64 // built from rows
	Months int64 // merged
	Lost   int64 // page views and events without a visit, which no report counts
}

// BuildDue builds the segments of the days that are due and merges the months that are, until
// nothing is due or ctx ends. A failure for one site does not keep it from the others; the site's
// days are tried again after leaseFor.
func (s *Store) BuildDue(ctx context.Context) (Built, error) {
	var built Built
	err := s.db.EachCell(ctx, func(in *db.Cell) error { return s.in(in).buildDue(ctx, &built) })
	return built, err
}

// buildDue is BuildDue for one cell. It adds to built.
func (s *cellStore) buildDue(ctx context.Context, built *Built) error {
	var failed error

	for {
		now, err := s.cell.Common.Now(ctx)
		if err != nil {
			return errors.Join(failed, err)
		}
		work, err := s.lease(ctx, now, leasedAtOnce)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("lease days to build: %w", err))
		}
		if len(work) == 0 {
			return failed
		}

		for _, day := range work {
			err := s.process(ctx, day, now, built)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && !errors.Is(err, errOutdated) && failed == nil {
				failed = fmt.Errorf("build the report of site %d on %v: %w", day.SiteID, day.Day, err)
			}
		}
	}
}

// process does what is due for a leased day.
func (s *cellStore) process(ctx context.Context, day dayRow, now model.Instant, built *Built) error {
	first, last := monthOf(day.Day)
	month, err := days(ctx, s.cell, day.SiteID, first, last)
	if err != nil {
		return err
	}

	i := slices.IndexFunc(month, func(d dayRow) bool { return d.Day == day.Day })
	if i < 0 || month[i].Version != day.Version || month[i].State != day.State {
		// Also when this worker has just merged the month because of another of its days.
		return errOutdated
	}

	has := func(st state) bool { return slices.ContainsFunc(month, func(d dayRow) bool { return d.State == st }) }
	switch {
	case has(sealed):
		// The month cannot be built again. A day that was entered later keeps its own segment.
		if day.State == open {
			return s.buildDay(ctx, day, true, now, built)
		}
		return s.setDue(ctx, day, 0)
	case has(merged) && now < (last+1).Start().Add(finalAfter):
		return s.splitMonth(ctx, day, now)
	case has(merged):
		return s.rebuildMonth(ctx, month, now, built)
	case day.State == open:
		return s.buildDay(ctx, day, false, now, built)
	case has(open):
		return s.setDue(ctx, day, now.Add(postpone))
	default:
		return s.mergeMonth(ctx, month, now, built)
	}
}

// setDue ends the lease of a day; at 0, nothing more is due.
func (s *cellStore) setDue(ctx context.Context, day dayRow, at model.Instant) error {
	_, err := s.cell.Write.NewUpdate().Model((*dayRow)(nil)).Set("due_at = nullif(?, 0)", at).
		Where("site_id = ? AND day = ? AND version = ?", day.SiteID, day.Day, day.Version).Exec(ctx)
	return err
}

// read builds the segment of a day from its rows.
func (s *cellStore) read(ctx context.Context, siteID model.SiteID, day model.Day, built *Built) (*segment.Segment, error) {
	g, lost, err := s.buildRows(ctx, siteID, day, 0, func(int) error { return nil })
	if err != nil {
		return nil, err
	}

	built.Days++
	built.Lost += int64(lost)
	return g, nil
}

// pack returns the stored form of a site's segment. A segment without rows has none.
func (s *Store) pack(ctx context.Context, siteID model.SiteID, g *segment.Segment) (stored, error) {
	if len(g.New) == 0 {
		return stored{}, nil
	}
	zone, err := s.zone(ctx, siteID)
	if err != nil {
		return stored{}, err
	}
	return pack(g, zone, s.deflateBelow)
}

// zone returns the time zone of a site, UTC for one that was deleted meanwhile.
func (s *Store) zone(ctx context.Context, siteID model.SiteID) (*time.Location, error) {
	var names []string
	err := s.db.Read.NewSelect().Table("sites").Column("time_zone").Where("id = ?", siteID).Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("read the time zone of site %d: %w", siteID, err)
	}
	return model.TimeZone(append(names, model.DefaultTimeZone)[0])
}

// buildDay builds a day that has a segment of its own. seal makes it like the sealed days of its
// month.
func (s *cellStore) buildDay(ctx context.Context, day dayRow, seal bool, now model.Instant, built *Built) error {
	g, err := s.read(ctx, day.SiteID, day.Day, built)
	if err != nil {
		return err
	}

	st, due := next(day.Day, now)
	if seal {
		st, due = sealed, 0
		g = g.WithoutUsers()
	}

	packed, err := s.pack(ctx, day.SiteID, g)
	if err != nil {
		return err
	}
	checksum, total := packed.checksum(), g.Total()
	return s.inTx(ctx, day.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		err := changeOne(tx.NewUpdate().Model((*dayRow)(nil)).
			Set("state = ?, due_at = nullif(?, 0), built_at = ?, checksum = ?", st, due, now, checksum).
			Set("visits = ?, pageviews = ?, events = ?", total.Visits, total.Views, total.Events).
			Where("site_id = ? AND day = ? AND version = ?", day.SiteID, day.Day, day.Version).Exec(ctx))
		if err != nil || day.BuiltAt != 0 && day.Checksum == checksum {
			return err
		}

		if err := deleteSegments(ctx, tx, day.SiteID, day.Day, day.Day); err != nil {
			return err
		}
		return s.putSegment(ctx, tx, day.SiteID, day.Day, 1, packed)
	})
}

// next returns the state of a day that is built now, and when its next work is due.
func next(day model.Day, now model.Instant) (state, model.Instant) {
	end := (day + 1).Start()
	if at := end.Add(finalAfter); now < at {
		return open, min(now.Add(rebuildEvery), at)
	}
	_, last := monthOf(day)
	return final, (last + 1).Start().Add(finalAfter + postpone)
}

// mergeMonth joins the segments of the days of a month, which are all final.
func (s *cellStore) mergeMonth(ctx context.Context, month []dayRow, now model.Instant, built *Built) error {
	all := span{month[0].Day, month[len(month)-1].Day}

	err := s.storeMonth(ctx, merged, month, now, func(take func(*segment.Segment) error) error {
		check := agreement{month}
		err := s.eachSegment(ctx, month[0].SiteID, all.first, all, new(buffers), func(g *segment.Segment) error {
			if !check.next(g) {
				return errDisagree
			}
			return take(g)
		})
		if err == nil && !check.next(nil) {
			err = errDisagree
		}
		return err
	})

	if errors.Is(err, segment.ErrDamaged) || errors.Is(err, segment.ErrVersion) || errors.Is(err, errDisagree) {
		return s.rebuildMonth(ctx, month, now, built)
	}
	if err == nil {
		built.Months++
	}
	return err
}

// errDisagree means that segments and ledger count the days of a month differently.
var errDisagree = errors.New("the segments of the days do not have the counts of the ledger")

// agreement checks that segments, one for each day with rows, have the counts of the ledger.
type agreement struct{ rest []dayRow }

// next reports whether the next day with rows has the counts of a segment; nil stands for the end.
func (a *agreement) next(g *segment.Segment) bool {
	for len(a.rest) > 0 && a.rest[0].Visits == 0 {
		a.rest = a.rest[1:]
	}
	if g == nil || len(a.rest) == 0 {
		return g == nil && len(a.rest) == 0
	}

	day, total := a.rest[0], g.Total()
	a.rest = a.rest[1:]
	return g.First == day.Day && len(g.Days) == 1 &&
		[...]int64{int64(total.Visits), int64(total.Views), int64(total.Events)} ==
			[...]int64{day.Visits, day.Pageviews, day.Events}
}

// splitMonth takes apart a month that a clock that was ahead has merged too early. Its days are
// built again, one by one.
func (s *cellStore) splitMonth(ctx context.Context, day dayRow, now model.Instant) error {
	first, last := monthOf(day.Day)
	return s.inTx(ctx, day.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		err := changeOne(tx.NewUpdate().Model((*dayRow)(nil)).
			Set("version = version + 1, state = ?, built_at = 0, checksum = 0, due_at = ?", open, now).
			Where("site_id = ? AND day >= ? AND day <= ?", day.SiteID, first, last).Exec(ctx))
		if err != nil {
			return err
		}
		return deleteSegments(ctx, tx, day.SiteID, first, last)
	})
}

// rebuildMonth builds all days of a month from their rows and joins them.
func (s *cellStore) rebuildMonth(ctx context.Context, month []dayRow, now model.Instant, built *Built) error {
	var read Built
	err := s.storeMonth(ctx, merged, month, now, func(take func(*segment.Segment) error) error {
		read = Built{}
		for i := range month {
			g, err := s.read(ctx, month[i].SiteID, month[i].Day, &read)
			if err != nil {
				return err
			}
			packed, err := s.pack(ctx, month[i].SiteID, g)
			if err != nil {
				return err
			}

			total := g.Total()
			month[i].Visits, month[i].Pageviews, month[i].Events = int64(total.Visits), int64(total.Views), int64(total.Events)
			month[i].Checksum = packed.checksum()
			if len(g.New) == 0 {
				continue
			}
			if err := take(g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	built.Days += read.Days
	built.Lost += read.Lost
	built.Months++
	return nil
}

// storeMonth joins the segments of a month's days, for which see segment.MergeEach, and stores the
// result in place of all segments of the month. It sets the state of the days. It fails with
// errOutdated if one of the days has changed since it was read.
func (s *cellStore) storeMonth(
	ctx context.Context, to state, month []dayRow, now model.Instant, each func(take func(*segment.Segment) error) error,
) error {
	joined, err := segment.MergeEach(each)
	if err != nil && !errors.Is(err, segment.ErrEmpty) {
		return err
	}
	var packed stored
	if joined != nil {
		if packed, err = s.pack(ctx, month[0].SiteID, joined); err != nil {
			return err
		}
	}

	siteID := month[0].SiteID
	first, last := monthOf(month[0].Day)
	return s.inTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		for _, day := range month {
			err := changeOne(tx.NewUpdate().Model((*dayRow)(nil)).
				Set("state = ?, due_at = NULL, built_at = ?, checksum = ?", to, now, day.Checksum).
				Set("visits = ?, pageviews = ?, events = ?", day.Visits, day.Pageviews, day.Events).
				Where("site_id = ? AND day = ? AND version = ?", siteID, day.Day, day.Version).Exec(ctx))
			if err != nil {
				return err
			}
		}

		// A day that was entered meanwhile would lose its segment.
		n, err := tx.NewSelect().Model((*dayRow)(nil)).Where("site_id = ? AND day >= ? AND day <= ?", siteID, first, last).
			Count(ctx)
		if err != nil {
			return err
		}
		if int(n) != len(month) {
			return errOutdated
		}

		if err := deleteSegments(ctx, tx, siteID, first, last); err != nil || joined == nil {
			return err
		}
		return s.putSegment(ctx, tx, siteID, joined.First, len(joined.Days), packed)
	})
}

// inTx runs a change of a site's reports. It drops the result if the site is not in the store's
// cell any more, or about to leave it.
func (s *cellStore) inTx(ctx context.Context, siteID model.SiteID, change func(context.Context, *db.CellTx) error) error {
	err := s.cell.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
		if tx.CellID != s.cell.ID {
			return errOutdated
		}
		return change(ctx, tx)
	})
	if errors.Is(err, db.ErrSiteMoving) {
		return errOutdated
	}
	return err
}

// changeOne turns a change of no row into errOutdated.
func changeOne(result interface{ RowsAffected() (int64, error) }, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errOutdated
	}
	return err
}
