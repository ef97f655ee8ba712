package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// ImportFigure is the sum of one day and value that another service has counted.
type ImportFigure struct {
	Dimension model.ReportDimension // empty: the totals of the day
	Day       model.Day             // of the site's time zone
	Value     string                // has the form that ingestion stores

	Visitors, Visits, Pageviews, Bounces, Exits, Events int64

	// Unbounced is the number of visits of which the service does not say whether they bounced.
	Unbounced int64
}

// Import is what another service has counted on a site: either Figures or Visits.
type Import struct {
	Source     model.ImportSource
	First      model.Day // with anything
	Last       model.Day
	Dimensions []model.ReportDimension // of Figures
	Figures    []ImportFigure          // in order of dimension and day
	Visits     []*segment.Segment      // one for each UTC day with visits, ascending

	// Totals are for the list of imports.
	Totals scan.Figures
	// By is the user who has imported; 0: a command.
	By model.UserID
}

// size returns what a report reads of the import at most.
func (m *Import) size() int64 {
	n := int64(len(m.Figures))
	for _, g := range m.Visits {
		total := g.Total()
		n += int64(total.Views) + int64(total.Events)
	}
	return n
}

// importRow is a model.ReportImport as it is stored.
type importRow struct {
	bun.BaseModel `bun:"table:report_imports,alias:import"`
	model.ReportImport
	DimensionList string `bun:"dimensions,notnull"`
}

func (r *importRow) model() model.ReportImport {
	r.Dimensions = strings.Fields(r.DimensionList)
	return r.ReportImport
}

// Recorder writes a change of a site's imports to the audit log, in the transaction of the change.
// See sites.RecordImport.
type Recorder func(ctx context.Context, tx *db.Tx, siteID model.SiteID, before, after map[string]any) error

// Errors of imports. Their messages are for people.
var (
	errImportUndone = &model.Error{
		Kind: model.Conflict, Code: "import_undone", Message: "The import was undone, or replaced by a later one, while it ran.",
	}
	errTooManyImports = &model.Error{
		Kind: model.Conflict, Code: "too_many_imports",
		Message: fmt.Sprintf("A site has at most %d imports. Undo one first.", model.MaxImports),
	}
)

// ImportBefore returns the first day that must not be imported, as a day of the site's time zone
// and of UTC: the site's first day with own figures, or today.
func (s *Store) ImportBefore(
	ctx context.Context, siteID model.SiteID, zone *time.Location, now model.Instant,
) (local, utc model.Day, err error) {
	utc = now.Day()
	first, ok, err := s.firstOwnDay(ctx, siteID)
	if err != nil {
		return 0, 0, err
	}

	from := now
	if ok && first < utc {
		utc, from = first, first.Start()
	}
	return scan.DateOf(from.Time().In(zone)).Number(), utc, nil
}

// CheckImport reports whether an import can be stored in addition to those that the site has.
func (s *Store) CheckImport(ctx context.Context, siteID model.SiteID, m *Import) error {
	return checkImport(ctx, s.db.Read, siteID, m)
}

func checkImport(ctx context.Context, idb bun.IDB, siteID model.SiteID, m *Import) error {
	list, err := listImports(ctx, idb, siteID)
	if err != nil {
		return err
	}

	complete := 0
	for _, other := range list {
		if other.State != model.ImportComplete {
			continue
		}
		complete++
		if m.First <= other.LastDay && other.FirstDay <= m.Last {
			return &model.ImportFailure{
				Code: model.ImportAlready, Text: fmt.Sprintf(
					"%s's import of %v to %v already has these days (import %d). Undo it, or choose other days.",
					other.Source.Service(), other.FirstDay, other.LastDay, other.ID),
				ImportValues: model.ImportValues{Source: other.Source, First: other.FirstDay, Last: other.LastDay},
			}
		}
	}
	if complete >= model.MaxImports {
		return errTooManyImports
	}
	return nil
}

// Import stores an import. It is part of the reports from its last transaction on, and not at all
// after an error. An earlier import of the site that was interrupted, or that still runs, is given
// up. progress is called with the part of the work that is done, from 0 to 1.
func (s *Store) Import(
	ctx context.Context, siteID model.SiteID, m *Import, now model.Instant, record Recorder, progress func(done float64),
) (model.ReportImport, error) {
	row := &importRow{ReportImport: model.ReportImport{
		SiteID: siteID, Source: m.Source, State: model.ImportLoading, CreatedAt: now, FirstDay: m.First, LastDay: m.Last,
		VisitRows: len(m.Visits) > 0, Visitors: m.Totals.Visitors, Visits: m.Totals.Visits, Pageviews: m.Totals.Pageviews,
		Events: m.Totals.Events, Size: m.size(), CreatedBy: m.By,
	}}
	for _, by := range m.Dimensions {
		row.DimensionList = strings.TrimSpace(row.DimensionList + " " + string(by))
	}

	if err := s.beginImport(ctx, row, m); err != nil {
		return model.ReportImport{}, err
	}
	err := errors.Join(s.PurgeImports(ctx, siteID), s.loadImport(ctx, row, m, progress))
	if err == nil {
		err = s.completeImport(ctx, row, m, now, record)
	}
	if err != nil {
		// A canceled context must not keep its rows.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return model.ReportImport{}, errors.Join(err, ignoreNotFound(s.UndoImport(undo, siteID, row.ID, record)))
	}
	return row.model(), nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}

// beginImport enters the import, in place of one of the site that is not complete.
func (s *Store) beginImport(ctx context.Context, row *importRow, m *Import) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockSite(ctx, row.SiteID); err != nil {
			return err
		}
		if err := checkImport(ctx, tx, row.SiteID, m); err != nil {
			return err
		}

		_, err := tx.NewUpdate().Model((*importRow)(nil)).Set("state = ?", model.ImportDeleting).
			Where("site_id = ? AND state = ?", row.SiteID, model.ImportLoading).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewInsert().Model(row).Exec(ctx)
		return err
	})
}

// completeImport makes the import visible.
func (s *Store) completeImport(
	ctx context.Context, row *importRow, m *Import, now model.Instant, record Recorder,
) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockSite(ctx, row.SiteID); err != nil {
			return err
		}
		if err := checkImport(ctx, tx, row.SiteID, m); err != nil {
			return err
		}
		row.State, row.CompletedAt = model.ImportComplete, now
		err := loading(tx.NewUpdate().Model(row).Column("state", "completed_at").
			Where("id = ? AND state = ?", row.ID, model.ImportLoading).Exec(ctx))
		if err != nil {
			return err
		}
		return record(ctx, tx, row.SiteID, nil, row.values())
	})
}

// values are the import in the audit log.
func (r *importRow) values() map[string]any {
	return map[string]any{"importedFrom": r.Source, "firstDay": r.FirstDay.String(), "lastDay": r.LastDay.String()}
}

// loading turns a change of no row into errImportUndone.
func loading(result interface{ RowsAffected() (int64, error) }, err error) error {
	if err = changeOne(result, err); errors.Is(err, errOutdated) {
		return errImportUndone
	}
	return err
}

// Hits wait for a transaction of an import on SQLite, which has one writer.
const (
	importBatch  = 250 // rows of figures of one transaction
	importChunks = 4   // rows of visits of one transaction, each of chunkSize
)

// figureRow is a row of import_figures.
type figureRow struct {
	bun.BaseModel `bun:"table:import_figures,alias:figure"`
	SiteID        model.SiteID `bun:",notnull"`
	ImportID      int64        `bun:",notnull"`
	N             int64        `bun:",notnull"`

	ImportFigure
}

// loadImport stores the rows of an import, in short transactions.
func (s *Store) loadImport(ctx context.Context, row *importRow, m *Import, progress func(float64)) error {
	store := func(done float64, write func(ctx context.Context, tx *db.Tx) error) error {
		err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			// The lock of the row keeps a deletion of the import waiting.
			err := loading(tx.NewUpdate().Model((*importRow)(nil)).Set("size = size").
				Where("id = ? AND state = ?", row.ID, model.ImportLoading).Exec(ctx))
			if err != nil {
				return err
			}
			return write(ctx, tx)
		})
		if err == nil {
			progress(done)
		}
		return err
	}

	stored := 0
	for figures := range slices.Chunk(m.Figures, importBatch) {
		rows := make([]figureRow, len(figures))
		for i := range figures {
			rows[i] = figureRow{SiteID: row.SiteID, ImportID: int64(row.ID), N: int64(stored + i), ImportFigure: figures[i]}
		}
		stored += len(figures)
		err := store(float64(stored)/float64(len(m.Figures)), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.NewInsert().Model(&rows).Exec(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}

	for days, rest := m.Visits, m.Visits; len(rest) > 0; {
		month := rest[0].First.Start().Month()
		n := slices.IndexFunc(rest, func(g *segment.Segment) bool { return g.First.Start().Month() != month })
		if n < 0 {
			n = len(rest)
		}
		packed, first, count, err := s.packImported(rest[:n])
		if err != nil {
			return err
		}

		rest = rest[n:]
		chunk := int64(0)
		for piece := range slices.Chunk(packed, importChunks*chunkSize) {
			err = store(1-float64(len(rest))/float64(len(days)), func(ctx context.Context, tx *db.Tx) error {
				return s.putChunks(ctx, tx.Tx, importColumns, []any{row.SiteID, row.ID, int64(first), count}, chunk, piece)
			})
			if err != nil {
				return err
			}
			chunk += importChunks
		}
	}
	return nil
}

// importColumns are the columns of the visits of imports.
const importColumns = "import_segments (site_id, import_id, first_day, days, chunk, data)"

// packImported returns the stored form of the visits of a month. It has no rollup.
func (s *Store) packImported(days []*segment.Segment) (packed []byte, first model.Day, count int64, err error) {
	joined, err := segment.Merge(days)
	if err != nil {
		return nil, 0, 0, err
	}
	packed, err = packColumns(joined, s.deflateBelow)
	return packed, joined.First, int64(len(joined.Days)), err
}

// Imports returns the imports of a site by their ids, those that are not complete included.
func (s *Store) Imports(ctx context.Context, siteID model.SiteID) ([]model.ReportImport, error) {
	return listImports(ctx, s.db.Read, siteID)
}

func listImports(ctx context.Context, idb bun.IDB, siteID model.SiteID) ([]model.ReportImport, error) {
	var rows []importRow
	if err := idb.NewSelect().Model(&rows).Where("site_id = ?", siteID).Order("id").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list the imports of site %d: %w", siteID, err)
	}

	list := make([]model.ReportImport, len(rows))
	for i := range rows {
		list[i] = rows[i].model()
	}
	return list, nil
}

// UndoImport deletes an import of a site. Reports are without it from its first transaction on.
// After an error, PurgeImports deletes the rest. It fails with model.ErrNotFound for another site's
// import.
func (s *Store) UndoImport(ctx context.Context, siteID model.SiteID, id model.ImportID, record Recorder) error {
	if err := s.HideImport(ctx, siteID, id, record); err != nil {
		return err
	}
	return s.PurgeImports(ctx, siteID)
}

// HideImport is the first transaction of UndoImport. PurgeImports deletes the rows of the import.
func (s *Store) HideImport(ctx context.Context, siteID model.SiteID, id model.ImportID, record Recorder) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		row := new(importRow)
		q := tx.NewSelect().Model(row).Where("site_id = ? AND id = ?", siteID, id)
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		_, err := tx.NewUpdate().Model(row).Set("state = ?", model.ImportDeleting).WherePK().Exec(ctx)
		if err != nil || row.State != model.ImportComplete {
			return err // it was not visible
		}
		return record(ctx, tx, siteID, row.values(), nil)
	})
}

// PurgeUndone deletes the rows of all undone imports.
func (s *Store) PurgeUndone(ctx context.Context) error {
	var siteIDs []model.SiteID
	err := s.db.Read.NewSelect().Model((*importRow)(nil)).Distinct().Column("site_id").
		Where("state = ?", model.ImportDeleting).Scan(ctx, &siteIDs)
	for _, id := range siteIDs {
		err = errors.Join(err, s.PurgeImports(ctx, id))
	}
	return err
}

// AbandonImports deletes what is left of undone imports, and of those that did not complete within
// a day, of all sites.
func (s *Store) AbandonImports(ctx context.Context, now model.Instant) error {
	_, err := s.db.Write.NewUpdate().Model((*importRow)(nil)).Set("state = ?", model.ImportDeleting).
		Where("state = ? AND created_at < ?", model.ImportLoading, now.Add(-24*time.Hour)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("give up interrupted imports: %w", err)
	}
	return s.PurgeUndone(ctx)
}

// PurgeImports deletes the rows of a site's undone imports in short transactions.
func (s *Store) PurgeImports(ctx context.Context, siteID model.SiteID) error {
	list, err := listImports(ctx, s.db.Read, siteID)
	if err != nil {
		return err
	}

	for _, m := range list {
		if m.State != model.ImportDeleting {
			continue
		}
		for _, rows := range [...]struct {
			table, key string
			limit      int
		}{
			{"import_figures", "site_id, import_id, dimension, day, n", importBatch},
			{"import_segments", "site_id, import_id, first_day, days, chunk", importChunks},
			{"report_imports", "site_id, id", 1},
		} {
			column := "import_id"
			if rows.table == "report_imports" {
				column = "id"
			}
			err := s.purgeRows(ctx, rows.limit, fmt.Sprintf(
				"DELETE FROM %s WHERE (%s) IN (SELECT %[2]s FROM %[1]s WHERE site_id = ? AND %[3]s = ? LIMIT %[4]d)",
				rows.table, rows.key, column, rows.limit), siteID, m.ID)
			if err != nil {
				return fmt.Errorf("delete import %d from %s: %w", m.ID, rows.table, err)
			}
		}
	}
	return nil
}

// purgeRows runs a deletion until it deletes less than limit rows.
func (s *Store) purgeRows(ctx context.Context, limit int, statement string, args ...any) error {
	for {
		result, err := s.db.Write.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil || n < int64(limit) {
			return err
		}
	}
}
