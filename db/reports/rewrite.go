package reports

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Segments of before the first release have other forms. Sealed months cannot be built again, so the
// worker rewrites all of them, with the same figures. Delete this file in the release after the first one.

// rewriteEvery is how often a process looks for segments of the old form. The first look comes at its
// start, and later ones find what a program of before has written meanwhile.
const rewriteEvery = 24 * time.Hour

// rewritePage is how many segments one query finds.
const rewritePage = 100

// rewriting says when a process looks for old segments next. It is safe for concurrent use.
type rewriting struct{ next atomic.Int64 }

// isDue reports whether old segments are to be looked for now.
func (r *rewriting) isDue(now model.Instant) bool {
	next := r.next.Load()
	return now >= model.Instant(next) && r.next.CompareAndSwap(next, int64(now.Add(rewriteEvery)))
}

// oldSegment names a segment of the old form.
type oldSegment struct {
	SiteID, ImportID int64 // ImportID is 0 for the site's own
	FirstDay         model.Day
	Days             int64
}

// chunks names all rows of the segment but its rollup.
func (o *oldSegment) chunks() chunks {
	return chunks{
		site: o.SiteID, imported: o.ImportID, days: o.Days, columns: true,
		begin: o.FirstDay, span: span{o.FirstDay, o.FirstDay},
	}
}

// rewriteOld rewrites the segments of the old form, in all cells and of imports.
func (s *Store) rewriteOld(ctx context.Context) error {
	err := s.db.EachCell(ctx, func(cell *db.Cell) error {
		return eachOld(ctx, cell.Read, "report_segments", "0", s.in(cell).rewriteSegment)
	})
	return errors.Join(err, eachOld(ctx, s.db.Read, "import_segments", "import_id", s.rewriteImported))
}

// oldForms are the forms that are rewritten, as a stored segment begins.
var oldForms = [][]byte{{formOldPlain}, {formOldDeflated}, {formBeforePlain}, {formBeforeDeflated}}

// eachOld calls rewrite for each segment of a table in the old form. A failure for one segment does not
// keep it from the others.
func eachOld(
	ctx context.Context, read *bun.DB, table, importID string, rewrite func(context.Context, *oldSegment) error,
) error {
	var failed error
	last := oldSegment{ImportID: -1}

	for {
		var found []oldSegment
		err := read.NewRaw(`SELECT site_id, `+importID+` AS import_id, first_day, days FROM ?
WHERE chunk = 0 AND (site_id, `+importID+`, first_day, days) > (?, ?, ?, ?) AND substr(data, 1, 1) IN ?
ORDER BY 1, 2, 3, 4 LIMIT ?`, bun.Ident(table), last.SiteID, last.ImportID, last.FirstDay, last.Days,
			bun.Tuple(oldForms), rewritePage).Scan(ctx, &found)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("look for segments of the old form: %w", err))
		}
		if len(found) == 0 {
			return failed
		}

		for i := range found {
			err := rewrite(ctx, &found[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// A segment that was replaced meanwhile has the new form, or is found by the next look.
			if err != nil && !errors.Is(err, errOutdated) && failed == nil {
				failed = fmt.Errorf("rewrite the segment of site %d from %v: %w", found[i].SiteID, found[i].FirstDay, err)
			}
		}
		last = found[len(found)-1]
	}
}

// rewriteSegment rewrites a site's segment, unless one of its days is built or merged meanwhile.
func (s *cellStore) rewriteSegment(ctx context.Context, old *oldSegment) error {
	covered, err := days(ctx, s.cell, old.SiteID, old.FirstDay, old.FirstDay+model.Day(old.Days)-1)
	if err != nil {
		return err
	}
	renewed, err := s.renew(ctx, old)
	if err != nil {
		return err
	}

	return s.inTx(ctx, old.SiteID, func(ctx context.Context, tx *db.CellTx) error {
		for _, day := range covered {
			err := changeOne(tx.NewUpdate().Model((*dayRow)(nil)).Set("version = version").
				Where("site_id = ? AND day = ?", day.SiteID, day.Day).
				Where("version = ? AND state = ? AND built_at = ?", day.Version, day.State, day.BuiltAt).Exec(ctx))
			if err != nil {
				return err
			}
		}

		err := changeOne(tx.ExecContext(ctx, "DELETE FROM report_segments WHERE site_id = ? AND first_day = ? AND days = ?",
			old.SiteID, old.FirstDay, old.Days))
		if err != nil {
			return err
		}
		return s.putSegment(ctx, tx, old.SiteID, old.FirstDay, int(old.Days), renewed)
	})
}

// rewriteImported rewrites a segment of an import that is complete.
func (s *Store) rewriteImported(ctx context.Context, old *oldSegment) error {
	in, err := s.ofSite(ctx, old.SiteID)
	if err != nil {
		return err
	}
	renewed, err := in.renew(ctx, old)
	if err != nil {
		return err
	}

	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// The lock of the row keeps a deletion of the import waiting.
		err := changeOne(tx.NewUpdate().Model((*importRow)(nil)).Set("size = size").
			Where("id = ? AND state = ?", old.ImportID, model.ImportComplete).Exec(ctx))
		if err != nil {
			return err
		}

		err = changeOne(tx.ExecContext(ctx,
			"DELETE FROM import_segments WHERE site_id = ? AND import_id = ? AND first_day = ? AND days = ?",
			old.SiteID, old.ImportID, old.FirstDay, old.Days))
		if err != nil {
			return err
		}
		return s.putChunks(ctx, tx.Tx, importColumns, []any{old.SiteID, old.ImportID, int64(old.FirstDay), old.Days}, 0, renewed.packed)
	})
}

// renew returns a segment in the new form. A site's own segment gets a new rollup, since rollups have
// rows of each column.
func (s *cellStore) renew(ctx context.Context, old *oldSegment) (stored, error) {
	var g *segment.Segment
	err := s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		return eachStored(ctx, each, old.chunks(), nil, func(found *stored) (err error) {
			g, err = unpack(found.packed)
			return err
		})
	})
	switch {
	case err != nil:
		return stored{}, err
	case g == nil:
		return stored{}, errOutdated
	case old.ImportID == 0:
		return s.pack(ctx, old.SiteID, g)
	}

	packed, err := packColumns(g, s.deflateBelow)
	return stored{packed: packed}, err
}
