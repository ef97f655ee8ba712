package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestPlansDoNotGrow checks the plans of a connection that made them while the tables were empty.
// For each continued visit, engagement report, count and transaction they read only the rows of
// that visit, page view, site and transaction, without statistics of the tables.
func TestPlansDoNotGrow(t *testing.T) {
	t.Parallel()
	const rows, batches = 3_000, 20
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	store := hitStore(t, d)
	at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	site := world.New(t, d).Site("example.com")
	reported := func(id int64) model.Engagement {
		return model.Engagement{EngagementKey: model.EngagementKey{SiteID: 1, Day: at.Day(), PageviewID: id}, MS: 5}
	}

	keys := ingest.HitKeys{
		Since: at.Day().Start(), Until: (at.Day() + 1).Start(),
		Usage:        []model.UsageKey{keyOf(site), {SiteID: 999_999, Month: month}}, // the latter was deleted
		Visitors:     []model.VisitorKey{{SiteID: 1, Visitor: model.VisitorID{}}},
		Reported:     []model.EngagementKey{reported(1).EngagementKey},
		Transactions: []model.TransactionKey{{SiteID: site.ID, TransactionID: "x"}},
	}

	update := func(c ingest.HitChanges) {
		t.Helper()
		testkit.NoError(t, store.Update(t.Context(), keys, func(*ingest.HitState) *ingest.HitChanges { return &c }))
	}

	visit := func(i int) model.Visit {
		when := at + model.Instant(i)
		return model.Visit{SiteID: 1, N: 1, Visitor: model.VisitorID{byte(i), byte(i >> 8)},
			StartedAt: when, Channel: "direct"}
	}

	again := func() {
		update(ingest.HitChanges{
			Continued:  []model.Visit{visit(0)},
			Engagement: []model.Engagement{reported(1)},
			Used:       map[model.UsageKey]int64{keyOf(site): 1},
		})
	}

	// The first batch makes the plans.
	again()
	var fill ingest.HitChanges
	for i := range rows {
		v := visit(i + 1)
		fill.NewVisits = append(fill.NewVisits, v)
		fill.Pageviews = append(fill.Pageviews, model.Pageview{SiteID: 1, At: v.StartedAt, ID: int64(i + 1), Visitor: v.Visitor, N: v.N,
			Path: "/"})
		fill.Engagement = append(fill.Engagement, reported(int64(i+1)))
		fill.Transactions = append(fill.Transactions,
			model.Transaction{SiteID: site.ID, TransactionID: fmt.Sprint(i), Event: "purchase", At: v.StartedAt})
	}

	update(fill)

	testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used) SELECT n, ?, 0 FROM generate_series(1000000, ?) AS n",
		month, 1_000_000+rows))
	testkit.NoError(t, dbtest.Exec(d, `INSERT INTO sites (account_id, site_key, domain, name, plan, monthly_pageviews, created_at, cell)
SELECT ?, 'other' || n, n || '.example', '', 'small', 1, 0, ? FROM generate_series(1, ?) AS n`, site.AccountID, site.Cell, rows))

	for range batches {
		again()
	}

	// PostgreSQL publishes a connection's statistics when it closes.
	testkit.NoError(t, store.Close())

	touched := entriesRead(t, d, "^(visits_|pageviews_|engagement_|transactions|site_usage|sites$)", 6*rows)
	if touched > rows {
		t.Errorf("%d batches of one visit, report, count and transaction read %d entries, with %d rows of each",
			batches, touched, rows)
	}

	t.Logf("%d entries read", touched)
}

// entriesRead returns how many rows of these tables and entries of their indexes were read. It
// waits until PostgreSQL's statistics show stored rows.
func entriesRead(t *testing.T, d *db.DB, tables string, stored int64) int64 {
	t.Helper()

	type stats struct{ Stored, Touched int64 }

	var touched int64
	testkit.AwaitState(t, "statistics of PostgreSQL", func() (string, bool) {
		got, err := dbtest.Rows[stats](d, `SELECT (SELECT sum(n_tup_ins) FROM pg_stat_user_tables WHERE relname ~ ?)::bigint AS stored,
			(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname ~ ?)::bigint
			  + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname ~ ?)::bigint AS touched`, tables, tables, tables)
		testkit.NoError(t, err)
		touched = got[0].Touched
		return fmt.Sprintf("%d rows, want %d", got[0].Stored, stored), got[0].Stored >= stored
	})
	return touched
}
