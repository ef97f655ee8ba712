package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestSiteQuotaNotices checks that a site's month has one notice at 80 % and one at 100 % of each
// quota, however often and concurrently its marks are read. Another month has its own notices. A
// deleted site gets no notice, and its mark is cleared.
func TestSiteQuotaNotices(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		site := world.New(t, d).Site("shop.example", world.Webhook)

		deleted := world.New(t, d).Site("deleted.example", world.Webhook)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET deleted_at = 1 WHERE id = ?", deleted.ID))
		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used, reached) VALUES (?, 202611, 9, 100)", deleted.ID))

		for _, step := range []struct {
			month model.Month
			used  int
			quota int
			want  string
			now   string // the used quotas
		}{
			{202611, 0, 10_000, "", ""},
			{202611, 7_999, 10_000, "", ""},
			{202611, 8_000, 10_000, "202611 80", "shop.example 80 % of 10000"},
			{202611, 9_999, 10_000, "202611 80", "shop.example 80 % of 10000"},
			{202611, 10_000, 10_000, "202611 80, 202611 100", "shop.example 100 % of 10000"},
			{202611, 10_000, 100_000, "202611 80, 202611 100", ""},
			{202611, 80_000, 100_000, "202611 80, 202611 100, 202611 80 of 100000", "shop.example 80 % of 100000"},
			{202611, 90_000, 10_000, "202611 80, 202611 100, 202611 80 of 100000", "shop.example 100 % of 10000"},
			{202611, 100_000, 100_000, "202611 80, 202611 100, 202611 80 of 100000, 202611 100 of 100000", "shop.example 100 % of 100000"},
			{202612, 0, 10_000, "202611 80, 202611 100, 202611 80 of 100000, 202611 100 of 100000", ""},
			{
				month: 202612, used: 10_000, quota: 10_000,
				want: "202611 80, 202611 100, 202611 80 of 100000, 202611 100 of 100000, 202612 80, 202612 100",
				now:  "shop.example 100 % of 10000",
			},
			{202612, 10_000, model.MaxMonthlyPageviews, // no product of the two overflows
				"202611 80, 202611 100, 202611 80 of 100000, 202611 100 of 100000, 202612 80, 202612 100", ""},
		} {
			for _, statement := range []string{
				fmt.Sprintf("INSERT INTO site_usage (site_id, month, used) VALUES (?, %d, %d) ON CONFLICT (site_id, month) DO UPDATE SET used = excluded.used", step.month, step.used),
				fmt.Sprintf("UPDATE sites SET monthly_pageviews = %d WHERE id = ?", step.quota),
				// as the data plane marks it
				fmt.Sprintf("UPDATE site_usage SET reached = %[1]d, noted = 0 WHERE site_id = ? AND month = %[2]d AND %[1]d > 0",
					model.QuotaReached(int64(step.used), int64(step.quota)), step.month),
			} {
				testkit.NoError(t, dbtest.Exec(d, statement, site.ID))
			}

			got := notedQuotas(t, d, outbox.QuotaNotice{SiteID: site.ID, AccountID: site.AccountID, Product: model.ProductAnalytics},
				func(ctx context.Context) (int64, error) { return outbox.New(d).NoteSiteQuotas(ctx, at) }, at)
			testkit.Equal(t, got, step.want, "%d of %d used in %v: notices", step.used, step.quota, step.month)

			if used := shownUse(t, d, step.month); used != step.now {
				t.Errorf("%d of %d used in %v: used quotas %q, want %q", step.used, step.quota, step.month, used, step.now)
			}
		}

		open, err := dbtest.Rows[struct{ SiteID model.SiteID }](d, "SELECT site_id FROM site_usage WHERE reached > noted")
		if err != nil || len(open) != 0 {
			t.Errorf("marks %v are left, %v", open, err)
		}
	})
}

// notedQuotas notes quotas and mails the notices, four times at once. It shows all notices, which must
// be of the owner and mailed once.
func notedQuotas(
	t *testing.T, d *db.DB, owner outbox.QuotaNotice, note func(context.Context) (int64, error), at model.Instant,
) string {
	t.Helper()

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := note(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := outbox.New(d).MailQuotaNotices(context.Background(), at); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	notices, err := dbtest.Rows[outbox.QuotaNotice](d, "SELECT * FROM quota_notices ORDER BY month, quota, threshold")
	testkit.NoError(t, err)
	var shown []string
	for _, n := range notices {
		if n.SiteID != owner.SiteID || n.AccountID != owner.AccountID || n.Product != owner.Product || n.MailedAt == 0 {
			t.Errorf("notice %+v", n)
		}
		shown = append(shown, shownNotice(&n))
	}
	dbtest.HasRows(t, d, "mails", len(notices), "mails for %d notices", len(notices))
	return strings.Join(shown, ", ")
}

// shownUse shows the used quotas of a month.
func shownUse(t *testing.T, d *db.DB, month model.Month) string {
	t.Helper()
	used, err := outbox.New(d).UsedQuotas(t.Context(), month)
	testkit.NoError(t, err)
	var shown []string
	for _, q := range used {
		shown = append(shown, fmt.Sprintf("%s %d %% of %d", q.Name(), q.Percent, q.Quota))
	}
	return strings.Join(shown, ", ")
}

// shownNotice shows a notice by its month and threshold, and by its quota unless that is 10,000.
func shownNotice(n *outbox.QuotaNotice) string {
	shown := fmt.Sprintf("%d %d", n.Month, n.Threshold)
	if n.Quota != 10_000 {
		shown += fmt.Sprintf(" of %d", n.Quota)
	}
	return shown
}

// TestSiteQuotasReadMarks checks with 200,000 sites that have used their quota, and have the
// notices, that the search for new marks reads the index of these, and no other site. More marks
// than a page are all noted.
func TestSiteQuotasReadMarks(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		add := func(first, last model.SiteID, noted int) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, `INSERT INTO site_usage (site_id, month, used, reached, noted)
WITH RECURSIVE site(id) AS (SELECT ? UNION ALL SELECT id + 1 FROM site WHERE id < ?)
SELECT id, 202611, 10000, 100, ? FROM site`, first, last, noted))
		}
		add(1_000_001, 1_200_000, 100)
		add(2_000_001, 2_000_150, 80) // of deleted sites
		add(site.ID, site.ID, 80)
		testkit.NoError(t, dbtest.Exec(d, "ANALYZE"))

		statements := dbtest.WatchStatements(d)
		n, err := outbox.New(d).NoteSiteQuotas(t.Context(), dbtest.Noon)
		if err != nil || n != 1 {
			t.Errorf("%d notices, %v; want 1", n, err)
		}

		search := statements.Take()[0]
		plan := dbtest.PlanOf(t, d, dbtest.SitesCell(t, d).Read, search)
		for line := range strings.Lines(plan) {
			if strings.Contains(line, "site_usage") && !strings.Contains(line, "site_usage_marks") {
				t.Errorf("%s reads more than the index of marks:\n%s", search, plan)
			}
		}
		if left, err := dbtest.Rows[struct{ SiteID model.SiteID }](d, "SELECT site_id FROM site_usage WHERE reached > noted"); err != nil ||
			len(left) != 0 {
			t.Errorf("marks %v are left, %v", left, err)
		}
	})
}

// TestCaptchaQuotaNotices checks that an account has one captcha notice at 80 % and one at 100 % of
// each plan's quota in a month, including thresholds that a lower plan reaches, and no second
// notice after another change. Notices of the data plane count as well.
func TestCaptchaQuotaNotices(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		account := world.New(t, d).Account("a")

		for _, other := range []string{"unused", "unlimited", "newer"} {
			id := world.New(t, d).Account(other)
			plan := map[string]model.CaptchaPlan{"unused": "FREE", "unlimited": model.CaptchaPlanEnterprise, "newer": "PRO_9M"}[other]
			testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET captcha_plan = ? WHERE id = ?", string(plan), id))

			used := 2_000_000

			if other == "unused" {
				used = 0
			}
			testkit.NoError(t, dbtest.Exec(d, "INSERT INTO captcha_usage (account_id, month, used) VALUES (?, 202611, ?)", id, used))
		}

		insert := fmt.Sprintf("INSERT INTO quota_notices (account_id, product, month, threshold, created_at, quota) VALUES (%d, 'captcha', ", account)

		for _, step := range []struct {
			name  string
			month model.Month
			used  int
			plan  model.CaptchaPlan
			first string // a notice of the data plane
			want  string
			now   string // the used quotas
		}{
			{"below", 202611, 7_999, model.CaptchaPlanFree, "", "", ""},
			{"half of a larger plan", 202611, 50_000, model.CaptchaPlanPro100K, "", "", ""},
			{"lowered, and exhausted at once", 202611, 50_000, model.CaptchaPlanFree, "", "202611 80, 202611 100", "captcha of a 100 % of 10000"},
			{"raised", 202611, 90_000, model.CaptchaPlanPro100K, "", "202611 80, 202611 100, 202611 80 of 100000", "captcha of a 80 % of 100000"},
			{"lowered again", 202611, 90_000, model.CaptchaPlanFree, "", "202611 80, 202611 100, 202611 80 of 100000", "captcha of a 100 % of 10000"},
			{
				name: "raised again", month: 202611, used: 90_000, plan: model.CaptchaPlanPro100K, first: "",
				want: "202611 80, 202611 100, 202611 80 of 100000", now: "captcha of a 80 % of 100000",
			},
			{"the next month, noted by the data plane", 202612, 10_000, model.CaptchaPlanFree, "202612, 100, 1, 10000)",
				"202611 80, 202611 100, 202611 80 of 100000, 202612 100", "captcha of a 100 % of 10000"},
			{"lowered to between the thresholds", 202701, 85_000, model.CaptchaPlanPro100K, "",
				"202611 80, 202611 100, 202611 80 of 100000, 202612 100, 202701 80 of 100000", "captcha of a 80 % of 100000"},
		} {
			if step.first != "" {
				testkit.NoError(t, dbtest.Exec(d, insert+step.first))
			}

			err := dbtest.Exec(d, fmt.Sprintf(`INSERT INTO captcha_usage (account_id, month, used) VALUES (?, %d, %d)
ON CONFLICT (account_id, month) DO UPDATE SET used = excluded.used`, step.month, step.used), account)
			testkit.NoError(t, err)
			testkit.NoError(t, accounts.New(d).SetCaptchaPlan(t.Context(), account, step.plan))

			got := notedQuotas(t, d, outbox.QuotaNotice{AccountID: account, Product: model.ProductCaptcha},
				func(ctx context.Context) (int64, error) { return outbox.New(d).NoteCaptchaQuotas(ctx, step.month, at) }, at)
			testkit.Equal(t, got, step.want, "%s: notices", step.name)
		}
	})
}
