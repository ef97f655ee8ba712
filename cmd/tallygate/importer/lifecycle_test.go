package importer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestOverlap checks that a day is imported once, that --since and --until divide an export, and
// that an import ends before the site's own days.
func TestOverlap(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)
		store := reports.New(f.d)
		o := everyDay
		o.BeforeLocal = day("2026-02-04")
		o.Until = day("2026-02-01")
		names := fixtures(t, "plausible/imported_visitors*")
		first, err := importer.Read(model.ImportPlausible, names, o)
		if err != nil || first.Late != 1 || first.Other != 1 || first.Totals.Visitors != 10 {
			t.Fatalf("read %+v, error %v", first, err)
		}
		id := f.store(first).ID

		all := f.read(model.ImportPlausible, names...)
		_, err = store.Import(t.Context(), f.site.ID, &all.Import, f.now, sites.RecordImport, func(float64) {})
		want := model.ImportValues{Source: model.ImportPlausible, First: first.First, Last: first.Last}
		if failure, ok := errors.AsType[*model.ImportFailure](err); !ok || failure.Code != model.ImportAlready || failure.ImportValues != want ||
			strings.Contains(failure.Text, "--") {
			t.Fatalf("error %v, want that the days are imported, without words of the command line", err)
		}
		if list, err := store.Imports(t.Context(), f.site.ID); err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("imports %+v, error %v", list, err)
		}

		o.Since, o.Until = day("2026-02-02"), everyDay.Until
		rest, err := importer.Read(model.ImportPlausible, names, o)
		testkit.NoError(t, err)
		f.store(rest)
		f.wantTotals(f.report(query()), counts{18, 21, 35, 10, 0, 0}, 10, 7, 0, 0, 1)

		if err := store.UndoImport(t.Context(), world.New(t, f.d).Site("other.example").ID, id, sites.RecordImport); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("another site's import: error %v", err)
		}
	})
}

// TestInterruptedImport checks that an import that ends in the middle is not visible, and that the
// next one or the worker deletes its rows.
func TestInterruptedImport(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)
		store := reports.New(f.d)
		before := f.report(query(scan.Page))
		read := f.read(model.ImportPlausible, fixtures(t, "plausible/*")...)

		// As after a crash: rows without their last transaction.
		id := f.store(read).ID
		f.exec("UPDATE report_imports SET state = 0, completed_at = NULL WHERE id = ?", id)
		f.equal(before)

		second := f.store(read)
		wantPlausible(f)
		if list, err := store.Imports(t.Context(), f.site.ID); err != nil || len(list) != 1 || list[0].ID != second.ID {
			t.Errorf("imports %+v, error %v", list, err)
		}
		f.undo(second.ID)
		f.wantEmpty()

		// The worker.
		f.exec("UPDATE report_imports SET state = 0, completed_at = NULL WHERE id = ?", f.store(read).ID)
		testkit.NoError(t, store.AbandonImports(t.Context(), f.now.Add(time.Hour)))
		dbtest.HasRows(t, f.d, "report_imports", 1, "imports after an hour")
		testkit.NoError(t, store.AbandonImports(t.Context(), f.now.Add(25*time.Hour)))
		f.wantEmpty()

		// A canceled command.
		ctx, cancel := context.WithCancel(t.Context())
		_, err := store.Import(ctx, f.site.ID, &read.Import, f.now, sites.RecordImport, func(float64) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
		f.wantEmpty()
		f.equal(before)
	})
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	testkit.NoError(f.t, dbtest.Exec(f.d, statement, args...))
}

// TestImportRetention checks that reports of old months are deleted from imports too.
func TestImportRetention(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)
		january := f.read(model.ImportUmami, file(t, "umami.csv", "session_id,url_path,event_type,created_at\n"+
			"s,/,1,2026-01-31 12:00:00\ns,/,1,2026-02-01 12:00:00\n"))
		id := f.store(january).ID

		old := retention.New(f.d)
		march := day("2026-03-01").Start()
		if _, err := old.DeleteOldReports(t.Context(), march, 1); err != nil {
			t.Fatal(err)
		}
		list, err := reports.New(f.d).Imports(t.Context(), f.site.ID)
		if err != nil || len(list) != 1 || list[0].ID != id || list[0].FirstDay != day("2026-02-01") {
			t.Errorf("imports %+v, error %v", list, err)
		}
		f.wantTotals(f.report(query()), counts{2, 2, 2, 1, 0, 0}, 1, 0, 0, 0, 1)

		if _, err := old.DeleteOldReports(t.Context(), march, 0); err != nil {
			t.Fatal(err)
		}
		f.wantEmpty()
	})
}

// TestImportAudit checks that the account's audit log has an import and its undoing, and no failed
// one.
func TestImportAudit(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)
		ctx := audit.WithActor(t.Context(), audit.Actor{Kind: audit.CommandLine, Action: "import", At: f.now})
		store := reports.New(f.d)
		read := f.read(model.ImportUmami, fixtures(t, "umami.csv")...)
		stored, err := store.Import(ctx, f.site.ID, &read.Import, f.now, sites.RecordImport, func(float64) {})
		testkit.NoError(t, err)
		if _, err := store.Import(ctx, f.site.ID, &read.Import, f.now, sites.RecordImport, func(float64) {}); err == nil {
			t.Error("imported twice")
		}
		testkit.NoError(t, store.UndoImport(ctx, f.site.ID, stored.ID, sites.RecordImport))

		rows, err := dbtest.Rows[struct{ Change string }](f.d,
			"SELECT coalesce(before, '') || '>' || coalesce(after, '') AS change FROM audit_log WHERE action = 'import' ORDER BY id")
		const values = `{"firstDay":"2026-02-01","importedFrom":"umami","lastDay":"2026-02-03"}`
		if err != nil || len(rows) != 2 || rows[0].Change != ">"+values || rows[1].Change != values+">" {
			t.Errorf("the log has %q, error %v", rows, err)
		}
	})
}

// TestTransactionsOfImports checks that no transaction of an import stores more than 1 MB of visits
// or 250 sums: other writers of SQLite wait for it.
func TestTransactionsOfImports(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)

		// A month of visits with pages that do not compress.
		random := rand.New(rand.NewPCG(1, 2))
		var b strings.Builder
		b.WriteString("session_id,url_path,event_type,created_at\n")
		for i := range 25_000 {
			fmt.Fprintf(&b, "%d,/%x%x%x%x,1,%s\n", i, random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(),
				day("2026-01-03").Start().Add(time.Duration(i)*100*time.Second).Time().Format(time.DateTime))
		}
		visits := f.read(model.ImportUmami, file(t, "umami.csv", b.String()))

		b.Reset()
		b.WriteString("date,page,visitors,pageviews\n")
		for i := range 600 {
			fmt.Fprintf(&b, "2025-01-01,/%d,1,1\n", i)
		}
		sums := f.read(model.ImportPlausible, file(t, "imported_pages.csv", b.String()),
			file(t, "imported_visitors.csv", "date,visitors,pageviews,bounces,visits\n2025-01-01,9,9,0,9\n"))

		for _, test := range []struct {
			read  *reports.Import
			query string
			most  int64
			least int
		}{
			{&visits.Import, "SELECT coalesce(sum(length(data)), 0) FROM import_segments", 1 << 20, 2},
			{&sums.Import, "SELECT count(*) FROM import_figures", 250, 3},
		} {
			var before int64
			transactions := 0
			_, err := reports.New(f.d).Import(t.Context(), f.site.ID, test.read, f.now, sites.RecordImport, func(float64) {
				rows, err := dbtest.Rows[int64](f.d, test.query)
				testkit.NoError(t, err)
				if rows[0]-before > test.most {
					t.Errorf("a transaction has %d, want at most %d: %s", rows[0]-before, test.most, test.query)
				}
				before = rows[0]
				transactions++
			})
			if err != nil || transactions < test.least {
				t.Errorf("%d transactions, error %v", transactions, err)
			}
		}
	})
}
