package cells

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

// A site moves to another cell in steps. Each step is one transaction that also records the
// progress in site_moves, under the lock of the site's row there. So any process can continue a
// move at any time, several can at once, and a crash repeats no step that was committed.
//
//	copying   the hits of finished days are copied, day by day, while hits are stored as ever
//	closed    no hit of the site is stored; the other rows are copied. Hits wait for some seconds
//	          and are then answered with 503
//	switched  the site is in the new cell; a minute later its rows in the former one are deleted
//
// A step deletes what it is about to copy from the new cell, so a part of an earlier attempt does
// no harm. Nothing changes rows that were copied: old hits are changed only by erasures, which wait
// for the end of the move (db.Tx.StayPut), and other rows by transactions that enter the site
// (db.InSiteTx), or by hits, which a closed site has none of.

// move is a row of site_moves.
type move struct {
	bun.BaseModel `bun:"table:site_moves"`

	SiteID model.SiteID `bun:",pk"`
	route

	State      string        `bun:",notnull"`
	Copied     int           `bun:",notnull"` // tables of the state's list that are copied
	NextDay    model.Day     `bun:",notnull"` // of the table in progress
	LastDay    model.Day     `bun:",notnull"`
	StartedAt  model.Instant `bun:",notnull"`
	SwitchedAt model.Instant `bun:",notnull"`
}

// settled is how long after a day its last hits may be committed, with differences of clocks.
const settled = time.Hour

// hitTables are the tables that are copied day by day. On PostgreSQL each is a day's range of a
// key.
var hitTables = []struct {
	name, key string
	of        func(model.Day) int64     // the key's first value on a day
	day       func(key int64) model.Day // the day of a key
}{
	{"pageviews", "at", dayStart, dayOfInstant},
	{"events", "at", dayStart, dayOfInstant},
	{"engagement", "day", dayNumber, dayOfNumber},
	{"visits", "day", dayNumber, dayOfNumber},
}

func dayStart(day model.Day) int64       { return int64(day.Start()) }
func dayOfInstant(at int64) model.Day    { return model.Instant(at).Day() }
func dayNumber(day model.Day) int64      { return int64(day) }
func dayOfNumber(number int64) model.Day { return model.Day(number) }

// otherTables are the tables that are copied as a whole while the site is closed. The usage is not
// among them: it is copied in the step that waits for the last hits.
var otherTables = []string{
	"transactions", "deliveries", "delivery_attempts", "site_usage_days", "report_days", "report_segments",
}

// lateTables are those of otherTables to which a task may add a row for a site that it has read
// before the site was closed.
var lateTables = []string{"site_usage_days", "report_days"}

// Move starts to move a site to another cell, or continues a move to it, and returns when the site
// is there. Continue deletes its rows in the former cell. The hits of the site wait for some
// seconds near the end. An error leaves a move that Continue or another call of Move continues.
func (s *Store) Move(ctx context.Context, siteID model.SiteID, toCell int64) error {
	return s.sites().move(ctx, siteID, toCell)
}

// sites returns the steps of moves of sites.
func (s *Store) sites() mover[model.SiteID] {
	return mover[model.SiteID]{what: "site", begin: s.begin, advance: s.advance}
}

// begin records a move, unless the same one is in progress.
func (s *Store) begin(ctx context.Context, siteID model.SiteID, toCell int64) error {
	return s.beginTx(ctx, toCell, func(ctx context.Context, tx *db.Tx, now model.Instant) error {
		// An erasure that has entered the site did not see the move.
		if err := tx.LockCellOf(ctx, siteID); err != nil {
			return err
		}

		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ?", siteID).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		wanted := route{FromCell: site.Cell, ToCell: toCell}
		isNew, err := s.sites().isNew(ctx, tx, siteID, wanted)
		if !isNew || err != nil {
			return err
		}

		_, err = tx.NewInsert().Model(&move{
			SiteID: siteID, route: wanted, State: copying, StartedAt: now, LastDay: now.Add(-settled).Day() - 1,
		}).Exec(ctx)
		return err
	})
}

// advance does the next step of a move. done reports that no step is left now: the move is over,
// the site is in its new cell and finish is not set, or its rows in the former one must stay for a
// while.
func (s *Store) advance(ctx context.Context, siteID model.SiteID, finish bool) (done bool, err error) {
	var clean *move
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		done, clean = false, nil
		var m move
		if err := tx.NewSelect().Model(&m).Where("site_id = ?", siteID).For("UPDATE").Scan(ctx); err != nil {
			done = errors.Is(db.OrNotFound(err), model.ErrNotFound)
			if done {
				return nil
			}
			return err
		}

		if m.State == switched {
			clean, done = &m, true
			return nil
		}

		in, err := s.schemas(ctx, m.route)
		if err != nil {
			return err
		}
		return (&step{store: s, tx: tx, move: &m, schemas: in}).run(ctx)
	})
	if err != nil || clean == nil || !finish {
		return done, err
	}

	return s.clean(ctx, clean)
}

// clean deletes the rows of a moved site in its former cell, in many transactions, once no reader
// is left there. done reports that it cannot go on now.
func (s *Store) clean(ctx context.Context, m *move) (done bool, err error) {
	now, err := s.db.Now(ctx)
	if err != nil || now < m.SwitchedAt.Add(readersLeave) {
		return true, err
	}

	goesOn, err := s.during(ctx, m, func(ctx context.Context, tx *db.Tx) error {
		in, err := s.schemas(ctx, m.route)
		if err != nil {
			return err
		}
		for _, table := range lateTables {
			if err := in.copy(ctx, tx, int64(m.SiteID), table, "site_id = ?id ON CONFLICT DO NOTHING"); err != nil {
				return err
			}
		}
		return nil
	})

	for table := 0; goesOn && err == nil && table < retention.CellTables; {
		last := false
		goesOn, err = s.during(ctx, m, func(ctx context.Context, tx *db.Tx) (err error) {
			in, err := tx.EnterCell(ctx, m.FromCell)
			if err != nil {
				return err
			}
			last, err = retention.PurgeLeft(ctx, in, table, m.SiteID)
			return err
		})
		if last {
			table++
		}
	}
	if !goesOn || err != nil {
		return true, err
	}

	_, err = s.during(ctx, m, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.NewDelete().Model(m).WherePK().Exec(ctx)
		return err
	})
	return true, err
}

// during runs a change in a transaction that holds the row of a switched move. If the move has
// ended it changes nothing and returns false: a later move may have brought the site back.
func (s *Store) during(
	ctx context.Context, m *move, change func(context.Context, *db.Tx) error,
) (goesOn bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var held []int64
		if err := tx.NewSelect().Model(m).Column("site_id").WherePK().Where("started_at = ?", m.StartedAt).
			Where("state = ?", switched).For("UPDATE").Scan(ctx, &held); err != nil {
			return err
		}
		if goesOn = len(held) > 0; !goesOn {
			return nil
		}
		return change(ctx, tx)
	})
	return goesOn, err
}
