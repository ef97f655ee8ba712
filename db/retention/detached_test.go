package retention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestDetachedMonthsComeBack checks that detached months are not read, that Reattach restores them
// without the rows of sites deleted since, and that they are dropped a day after they were
// detached.
func TestDetachedMonthsComeBack(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), day(2026, time.September, 1)))

	site, gone := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
	for _, at := range []model.Instant{day(2026, time.August, 5), day(2026, time.September, 5), day(2026, time.November, 5)} {
		storeAt(t, d, site.ID, at)
	}

	storeAt(t, d, gone.ID, day(2026, time.September, 6))
	now := day(2026, time.November, 20)

	dropped, err := retention.New(d).DropOldData(t.Context(), now, 1)
	perMonth := 4 * cellsOf(t, d)
	if err != nil || dropped.Partitions != 2*perMonth {
		t.Fatalf("dropped %+v, error %v; want %d partitions", dropped, err, 2*perMonth)
	}

	wantRows(t, d, "", 1)

	if months, err := retention.New(d).DetachedMonths(t.Context()); err != nil || fmt.Sprint(months) != "[2026-08 2026-09]" {
		t.Errorf("detached %v, error %v", months, err)
	}
	if _, err := sites.New(d).Sites.DeleteSite(t.Context(), gone.AccountID, gone.ID, gone.Domain, now); err != nil {
		t.Fatal(err)
	}

	// A late row creates the month's partition again, which retention then detaches as well.
	storeAt(t, d, site.ID, day(2026, time.August, 6))

	testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), now))

	wantRows(t, d, "_202608", 1)

	if _, err := retention.New(d).DropOldData(t.Context(), now.Add(time.Hour), 1); err != nil {
		t.Fatal(err)
	}

	wantRows(t, d, "", 1)

	if n, err := retention.New(d).DropDetached(t.Context(), now.Add(retention.DetachedRetention-time.Second)); n != 0 || err != nil {
		t.Errorf("%d dropped before a day had passed, error %v", n, err)
	}
	if n, err := retention.New(d).Reattach(t.Context(), 202608); n != int(perMonth) || err != nil {
		t.Fatalf("%d partitions of August attached, error %v", n, err)
	}

	wantRows(t, d, "_202608", 2)

	// September's rows are merged with a row that arrived late.
	storeAt(t, d, site.ID, day(2026, time.September, 7))

	if n, err := retention.New(d).Reattach(t.Context(), 202609); n != int(perMonth) || err != nil {
		t.Fatalf("%d partitions of September attached, error %v", n, err)
	}

	wantRows(t, d, "_202609", 2)
	wantRows(t, d, "_default", 0)
	wantRows(t, d, "", 5)

	if n, err := retention.New(d).Reattach(t.Context(), 202609); n != 0 || err != nil {
		t.Errorf("%d partitions attached again, error %v", n, err)
	}

	if _, err := retention.New(d).DropOldData(t.Context(), now, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := retention.New(d).DropDetached(t.Context(), now.Add(retention.DetachedRetention)); n != 2*perMonth || err != nil {
		t.Errorf("%d dropped after a day, error %v; want %d", n, err, 2*perMonth)
	}
	if months, err := retention.New(d).DetachedMonths(t.Context()); err != nil || len(months) != 0 {
		t.Errorf("still detached %v, error %v", months, err)
	}
	if tables := dbtest.PgStrings(t, databaseURL, "SELECT relname::text FROM pg_class WHERE relname LIKE 'detached%2026%'"); len(tables) != 0 {
		t.Errorf("left are %v", tables)
	}

	wantRows(t, d, "", 1)
}

// TestNewestMonthsStay checks that the newest stored month and the retained months before it stay,
// whatever the clock says.
func TestNewestMonthsStay(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), day(2026, time.September, 1)))

		site := world.New(t, d).Site("example.com")
		for _, at := range []model.Instant{
			day(2025, time.September, 1), day(2026, time.August, 31), day(2026, time.September, 1),
			day(2026, time.November, 5),
		} {
			storeAt(t, d, site.ID, at)
		}

		if _, err := retention.New(d).DropOldData(t.Context(), day(2028, time.January, 1), 2); err != nil {
			t.Fatal(err)
		}

		wantRows(t, d, "", 2)
	})
}

// TestTimesInTheFutureAreCorrected checks that rows postponed by a clock ahead become due within
// bounds, and that usual pauses stay unchanged.
func TestTimesInTheFutureAreCorrected(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		ahead := now.Add(425 * 24 * time.Hour)

		site := world.New(t, d).Site("example.com")
		testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, "https://example.com/day",
			model.ChangedBy{At: ahead}))

		const delivery = `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body, claimed_until)
			VALUES (1, ?, 'conversion', 'purchase', ?, 1, ?, ?, '{}', ?)`

		const mail = "INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) VALUES (?, 'a', 'test', '{}', ?, 1, 0, ?)"
		usual := now.Add(11 * time.Hour)
		for _, row := range []struct {
			statement string
			args      []any
		}{
			{delivery, []any{1, "pending", ahead, ahead, ahead}},
			{delivery, []any{2, "pending", now, usual, 0}},
			{delivery, []any{3, "delivered", ahead, ahead, 0}},
			{mail, []any{1, "pending", ahead}},
			{mail, []any{2, "pending", now.Add(4 * time.Hour)}},
			{"INSERT INTO deleted_sites (site_id, deleted_at) VALUES (7, ?)", []any{ahead}},
		} {
			testkit.NoError(t, dbtest.Exec(d, row.statement, row.args...))
		}

		for _, want := range []int64{2, 0} {
			if n, err := retention.New(d).CorrectSchedule(t.Context(), now); n != want || err != nil {
				t.Errorf("%d of the schedule corrected, error %v; want %d", n, err, want)
			}
		}

		for _, want := range []int64{2, 0} {
			if n, err := retention.New(d).CorrectDates(t.Context(), now); n != want || err != nil {
				t.Errorf("%d dates corrected, error %v; want %d", n, err, want)
			}
		}

		soon := now.Add(3 * time.Minute)
		for query, want := range map[string]int64{
			"SELECT next_attempt_at AS v FROM deliveries WHERE id = 1":    int64(soon),
			"SELECT claimed_until AS v FROM deliveries WHERE id = 1":      int64(soon),
			"SELECT next_attempt_at AS v FROM deliveries WHERE id = 2":    int64(usual),
			"SELECT next_attempt_at AS v FROM deliveries WHERE id = 3":    int64(ahead),
			"SELECT next_attempt_at AS v FROM mails WHERE account_id = 1": int64(soon),
			"SELECT next_attempt_at AS v FROM mails WHERE account_id = 2": int64(now.Add(4 * time.Hour)),
			"SELECT daily_export_day AS v FROM sites":                     int64(now.Day()),
			"SELECT deleted_at AS v FROM deleted_sites":                   int64(now),
		} {
			rows, err := dbtest.Rows[struct{ V int64 }](d, query)
			if err != nil || len(rows) != 1 || rows[0].V != want {
				t.Errorf("%s: %v, error %v; want %d", query, rows, err, want)
			}
		}
	})
}
