package accounts_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestSetCaptchaPlan(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account := world.New(t, d).Account("a")
		quota := func(want int64) {
			t.Helper()
			if u, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202611); err != nil || u.Quota != want {
				t.Errorf("quota %+v, %v; want %d", u, err, want)
			}
		}

		quota(10_000)
		set := func(plan model.CaptchaPlan) {
			t.Helper()
			testkit.NoError(t, accounts.New(d).SetCaptchaPlan(t.Context(), account, plan))
		}

		set(model.CaptchaPlanPro1M)
		quota(1_000_000)
		set(model.CaptchaPlanEnterprise)
		quota(model.Unlimited)

		if err := accounts.New(d).SetCaptchaPlan(t.Context(), account, "PRO_2M"); model.KindOf(err) != model.Invalid {
			t.Errorf("an unknown plan: %v", err)
		}
		if err := accounts.New(d).SetCaptchaPlan(t.Context(), account+100,
			model.CaptchaPlanFree); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("plan of an unknown account: %v", err)
		}

		quota(model.Unlimited)

		testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET captcha_plan = 'OF_A_NEWER_PROGRAM' WHERE id = ?",
			account))

		quota(model.Unlimited)
	})
}

// TestOldCaptchaRecords checks that counts are deleted after two years.
func TestOldCaptchaRecords(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account := world.New(t, d).Account("a")
		for _, month := range []model.Month{202410, 202411, 202611} {
			testkit.NoError(t, dbtest.Exec(d, "INSERT INTO captcha_usage (account_id, month, used) VALUES (?, ?, 1)", account,
				month))
		}

		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		if n, err := retention.New(d).DeleteOldRecords(t.Context(), now); err != nil || n != 1 {
			t.Errorf("%d deleted, %v; want 1", n, err)
		}
		dbtest.HasRows(t, d, "captcha_usage", 2, "rows")
	})
}
