package ingest_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCaptchaPlansDoNotGrow checks the plans of a connection that made them while the tables were
// empty. For each token that is claimed, counted or released, they read only the rows of that token
// and account.
func TestCaptchaPlansDoNotGrow(t *testing.T) {
	t.Parallel()
	const rows, batches = 3_000, 20
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	cell := dbtest.SitesCell(t, d).ID
	testkit.NoError(t, dbtest.Exec(d, "INSERT INTO accounts (id, name, created_at, cell) SELECT n, '-', 0, ? FROM generate_series(1, 2) n", cell))

	store := claimStore(t, d)
	at := model.At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	batch := func(accounts ...model.AccountID) {
		t.Helper()

		var keys ingest.ClaimKeys
		for _, account := range accounts {
			keys.Usage = append(keys.Usage, model.CaptchaUsageKey{AccountID: account, Month: at.Month()})
			keys.Consumed = append(keys.Consumed, consumed(account, at, 255))
		}

		update(t, store, keys, func(state *ingest.ClaimState) *ingest.ClaimChanges {
			if len(state.Claimed) != len(accounts) || len(state.Usage) != len(accounts) {
				t.Errorf("claimed %v, usage %v", state.Claimed, state.Usage)
			}
			return &ingest.ClaimChanges{Release: keys.Consumed, Usage: state.Usage,
				Notices: []ingest.QuotaNotice{{CaptchaUsageKey: keys.Usage[0], Threshold: 80, CreatedAt: at}}}
		})
	}

	// The first batch makes the plans.
	batch(1, 2)

	for _, fill := range []string{
		`INSERT INTO accounts (id, name, created_at) SELECT n, '-', 0 FROM generate_series(3, ?) n`,
		`INSERT INTO captcha_usage (account_id, month, used) SELECT n, 202611, 1 FROM generate_series(3, ?) n`,
		`INSERT INTO captcha_spent (account_id, issued_at, id)
			SELECT 1 + n % 2, 1 + (SELECT max(created_at) FROM quota_notices) - n % 7, decode(md5(n::text), 'hex') FROM generate_series(3, ?) n`,
	} {
		testkit.NoError(t, dbtest.Exec(d, fill, rows))
	}

	const tables = "^(accounts|captcha_usage|captcha_spent|quota_notices)$"
	before := entriesRead(t, d, tables, 3*rows-6)

	for range batches {
		batch(1, 2)
	}

	// PostgreSQL publishes a connection's statistics when it closes.
	testkit.NoError(t, store.Close())

	touched := entriesRead(t, d, tables, 3*rows-6+2*batches) - before
	if touched > rows {
		t.Errorf("%d batches of two tokens read %d entries, with %d rows in each table", batches, touched, rows)
	}

	t.Logf("%d entries read", touched)
}
