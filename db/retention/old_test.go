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

func TestOldMonthsAreDropped(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), day(2026, time.September, 1)))

		a, b := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
		for _, old := range []model.Instant{day(2026, time.June, 30), day(2026, time.August, 1), day(2026, time.October, 1) - 1} {
			storeAt(t, d, a.ID, old)
			storeAt(t, d, b.ID, old)
		}

		storeAt(t, d, a.ID, day(2026, time.October, 1))
		storeAt(t, d, b.ID, day(2026, time.November, 1))

		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO transactions (site_id, transaction_id, event, at) VALUES (?, 't', 'purchase', ?)", a.ID,
			day(2020, 1, 1)))

		want := retention.Dropped{Rows: 4 * 6}

		// August and September have partitions; June is in the default partition.
		if d.Dialect() == "postgres" {
			want = retention.Dropped{Partitions: 4 * 2 * cellsOf(t, d), Rows: 4 * 2}
		}

		for range 2 {
			got, err := retention.New(d).DropOldData(t.Context(), day(2026, time.November, 20), 1)
			if err != nil || got != want {
				t.Errorf("dropped %+v, error %v; want %+v", got, err, want)
			}

			wantRows(t, d, "", 2)
			want = retention.Dropped{}
		}

		dbtest.HasRows(t, d, "transactions", 1, "transactions")
	})
}

// cellsOf returns the number of cells. Each cell has partitions.
func cellsOf(t *testing.T, d *db.DB) int64 {
	t.Helper()
	list, err := d.Cells(t.Context())
	testkit.NoError(t, err)
	return int64(len(list))
}

// TestOldRowsGoInChunks deletes more rows than one transaction does.
func TestOldRowsGoInChunks(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	site := world.New(t, d).Site("example.com")
	const old = 2500
	err := dbtest.Exec(d, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO events (site_id, at, id, visitor, n, name, path) SELECT ?, i / 3, i, 0, 1, 'a', '/' FROM n`, old, site.ID)
	testkit.NoError(t, err)

	storeAt(t, d, site.ID, day(2026, time.October, 1))

	if got, err := retention.New(d).DropOldData(t.Context(), day(2026, time.October, 20), 0); err != nil || got.Rows != old {
		t.Errorf("dropped %+v, error %v; want %d rows", got, err, old)
	}

	wantRows(t, d, "", 1)
}

func TestOldRecordsAreDeleted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		account := world.New(t, d).Account("captcha")
		if key, _, err := sites.New(d).Sitekeys.CreateSitekey(t.Context(), account, "form", nil, now); err != nil || key.ID != 1 {
			t.Fatalf("sitekey %+v, %v", key, err)
		}

		today, month := now.Day(), 24*time.Hour*30
		for _, row := range []struct {
			statement string
			args      []any
		}{
			{"INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (1, ?, 'collect', 'bot', 1)", []any{today - 401}},
			{"INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (1, ?, 'collect', 'bot', 1)", []any{today - 400}},
			{"INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (2, ?, 'server', 'bot', 1)", []any{today - 500}},
			{"INSERT INTO unknown_events (site_id, day, name, count) VALUES (1, ?, 'a', 1)", []any{today - 31}},
			{"INSERT INTO unknown_events (site_id, day, name, count) VALUES (1, ?, 'a', 1)", []any{today - 30}},
			{"INSERT INTO site_usage_days (site_id, day, used) VALUES (1, ?, 1)", []any{today - 401}},
			{"INSERT INTO site_usage_days (site_id, day, used) VALUES (1, ?, 1)", []any{today - 400}},
			{"INSERT INTO captcha_counts (sitekey_id, day, name, count) VALUES (1, ?, 'solved', 1)", []any{today - 401}},
			{"INSERT INTO captcha_counts (sitekey_id, day, name, count) VALUES (1, ?, 'solved', 1)", []any{today - 400}},
			{"INSERT INTO site_usage (site_id, month, used) VALUES (1, ?, 1)", []any{202410}},
			{"INSERT INTO site_usage (site_id, month, used) VALUES (1, ?, 1)", []any{202411}},
		} {
			testkit.NoError(t, dbtest.Exec(d, row.statement, row.args...))
		}

		for i, delivery := range []struct {
			state string
			at    model.Instant
		}{
			{model.DeliveryDelivered, now.Add(-month - time.Second)}, // goes
			{model.DeliveryFailed, now.Add(-month - time.Second)},    // goes
			{model.DeliveryPending, now.Add(-month - time.Second)},
			{model.DeliveryDelivered, now.Add(-month + time.Second)},
		} {
			err := dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (1, ?, 'conversion', 'purchase', ?, 0, ?, 0, '{}')`, model.FirstTimeID(delivery.at)+int64(i), delivery.state, delivery.at)

			// Attempts are kept and deleted with their deliveries.
			if err == nil {
				err = dbtest.Exec(d, `INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer)
					VALUES (1, ?, 1, false, ?, 1, 200, '', '')`, model.FirstTimeID(delivery.at)+int64(i), delivery.at)
			}

			if err == nil {
				err = dbtest.Exec(d, "INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) VALUES (1, 'a', 'test', '{}', ?, 1, ?, 0)",
					map[string]string{"delivered": "sent", "failed": "failed", "pending": "pending"}[delivery.state], delivery.at)
			}

			testkit.NoError(t, err)
		}

		for _, statement := range []string{
			fmt.Sprintf("INSERT INTO failure_notices (site_id, day) VALUES (1, %d), (1, %d)", today, today-2),
			fmt.Sprintf("INSERT INTO webhook_notices (site_id, day, changes) VALUES (1, %d, 1), (1, %d, 1)", today, today-2),
			"INSERT INTO quota_notices (account_id, product, month, threshold, quota, created_at) VALUES (1, 'captcha', 202410, 80, 10000, 0), (1, 'captcha', 202411, 80, 10000, 0)",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		// Messages to channels go with their attempts, in any state. An alert that lasts stays.
		channel := model.AlertChannel{
			AccountID: account, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
			Events: []model.AlertEvent{}, CreatedAt: 1,
		}
		if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, m := range []struct {
			state string
			at    model.Instant
		}{
			{model.DeliveryDelivered, now.Add(-month - time.Second)}, // goes
			{model.DeliveryPending, now.Add(-month - time.Second)},   // goes
			{model.DeliveryDelivered, now.Add(-month + time.Second)},
		} {
			message := model.AlertMessage{ChannelID: channel.ID, Event: model.MessageTest, Phase: model.AlertOnce, State: m.state, CreatedAt: m.at}
			if _, err := d.Write.NewInsert().Model(&message).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := dbtest.Exec(d, `INSERT INTO alert_attempts (message_id, n, manual, at, duration_ms, status, error, answer)
VALUES (?, 1, false, ?, 0, 0, '', '')`, message.ID, m.at); err != nil {
				t.Fatal(err)
			}
		}
		for i, ended := range []model.Instant{0, now.Add(-90*24*time.Hour - time.Second), now.Add(-90*24*time.Hour + time.Second)} {
			alert := model.Alert{AccountID: account, Event: model.AlertQuota, Subject: fmt.Sprint(i), BeganAt: 1, SeenAt: 1, EndedAt: ended}
			if _, err := d.Write.NewInsert().Model(&alert).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		// Entries of two other accounts, in addition to the entries of the sign-up and the sitekey.
		const columns = "at, actor_kind, actor_user_id, actor_name, token_id, token_name, " +
			"action, object_kind, object_id, object_site, object_name, before, after"
		const entry = "INSERT INTO audit_log (account_id, id, " + columns + ") SELECT ?, ?, " + columns +
			" FROM audit_log WHERE account_id = ? LIMIT 1"
		year := model.FirstTimeID(model.At(now.Time().AddDate(-1, 0, 0)))
		for other, id := range map[int64]int64{8: year - 1, 9: year} {
			testkit.NoError(t, dbtest.Exec(d, entry, other, id, account))
		}

		if n, err := retention.New(d).DeleteOldRecords(t.Context(), now); err != nil || n != 19 {
			t.Errorf("%d deleted, error %v; want 19", n, err)
		}

		for table, want := range map[string]int{"rejections": 1, "site_usage": 1, "deliveries": 2, "delivery_attempts": 2, "mails": 2,
			"failure_notices": 1, "webhook_notices": 1, "quota_notices": 1, "unknown_events": 1, "site_usage_days": 1, "captcha_counts": 1, "audit_log": 3,
			"alert_messages": 1, "alert_attempts": 1, "alerts": 2} {
			dbtest.HasRows(t, d, table, want, "%s: left", table)
		}
	})
}

func TestAuditLogsAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		busy, quiet := world.New(t, d).Site("busy.example"), world.New(t, d).Site("quiet.example")
		name := "shop"
		for range 5 {
			testkit.NoError(t, sites.New(d).Sites.UpdateSite(t.Context(), busy.AccountID, busy.ID, sites.SiteUpdate{Name: &name}))
		}

		// Each account has the entries of its sign-up and its site, too.
		if n, err := retention.New(d).BoundAuditLogs(t.Context(), 3); err != nil || n != 4 {
			t.Errorf("%d deleted, error %v; want 4", n, err)
		}

		for account, want := range map[model.AccountID]string{
			busy.AccountID:  "[{Site busy.example} {Site busy.example} {Site busy.example}]",
			quiet.AccountID: "[{Account owner@quiet.example} {Site quiet.example}]",
		} {
			rows, err := dbtest.Rows[struct{ Object string }](d,
				"SELECT object_kind || ' ' || object_name AS object FROM audit_log WHERE account_id = ? ORDER BY id", account)
			if got := fmt.Sprint(rows); err != nil || got != want {
				t.Errorf("account %d has %s, error %v; want %s", account, got, err, want)
			}
		}
	})
}

// TestOldRecordsCostWhatHasExpired checks that looking for expired records reads no more pages with
// many sites than with few, when nothing has expired.
func TestOldRecordsCostWhatHasExpired(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))

	// A session publishes its reads only on request, so all statements share one: see blocksRead.
	d.Write.SetMaxOpenConns(1)
	now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	deleteNothing := func() {
		t.Helper()
		if n, err := retention.New(d).DeleteOldRecords(t.Context(), now); err != nil || n != 0 {
			t.Fatalf("%d deleted, %v; want 0", n, err)
		}
		if n, err := retention.New(d).DeleteOldReports(t.Context(), now, 1); err != nil || n != 0 {
			t.Fatalf("%d reports deleted, %v; want 0", n, err)
		}
	}

	const sites = 20_000
	for _, statement := range []string{
		"INSERT INTO rejections SELECT i, ?0, 'collect', 'bot', 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO site_usage_days SELECT i, ?0, 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO captcha_counts SELECT i, ?0, 'solved', 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO unknown_events SELECT i, ?0, 'a', 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO failure_notices SELECT i, ?0 FROM generate_series(1, ?1) AS i",
		"INSERT INTO webhook_notices SELECT i, ?0, 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO report_days SELECT i, ?0, 1, 1, NULL, 1, 1, 1, 1, 1 FROM generate_series(1, ?1) AS i",
		"INSERT INTO report_segments SELECT i, ?0, 1, 0, '' FROM generate_series(1, ?1) AS i",
		"INSERT INTO site_usage (site_id, month, used) SELECT i, 202611, 1 FROM generate_series(1, ?1) AS i WHERE ?0 > 0",
		"INSERT INTO captcha_usage SELECT i, 202611, 1 FROM generate_series(1, ?1) AS i WHERE ?0 > 0",
	} {
		if err := dbtest.Exec(d, statement, now.Day(), sites); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}

	testkit.NoError(t, dbtest.Exec(d, "ANALYZE"))

	// Count the blocks of tables and indexes that the statements read.
	deleteNothing()
	before := blocksRead(t, d)
	deleteNothing()
	if read := blocksRead(t, d) - before; read > 1000 {
		t.Errorf("%d blocks were read for %d sites without expired records", read, sites)
	}
}

// blocksRead returns how many blocks of the database's tables and indexes were read so far.
func blocksRead(t *testing.T, d *db.DB) (blocks int64) {
	t.Helper()
	err := d.Write.NewRaw("SELECT pg_stat_force_next_flush()::text").Scan(t.Context(), new(string))
	if err == nil {
		err = d.Write.NewRaw("SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint "+
			"FROM pg_statio_user_tables WHERE relname NOT LIKE 'pg_%'").Scan(t.Context(), &blocks)
	}
	testkit.NoError(t, err)
	return blocks
}
