package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// QuotaNotice records that a month's quota was used up to a threshold. There is at most one for
// each month, threshold and quota.
type QuotaNotice struct {
	AccountID model.AccountID
	SiteID    model.SiteID // 0: the account's captcha
	Product   string       // model.ProductAnalytics or model.ProductCaptcha
	Month     model.Month
	Threshold int // percent: 80 or 100
	CreatedAt model.Instant
	MailedAt  model.Instant // 0: the mails are not queued yet
	Quota     int64

	Site string `bun:"-"` // the domain, after MailQuotaNotices
}

// quotaMark is a month of a site that reached a threshold of its quota, without a notice yet.
type quotaMark struct {
	SiteID         model.SiteID
	Month          model.Month
	Reached, Noted int // percent, Reached being the higher one
}

// quotaMarkPage is how many marks are read at once.
const quotaMarkPage = 100

// NoteSiteQuotas writes the notices of the sites that have reached 80 % or 100 % of their quota,
// which the data plane marks, and returns their number. It reads the new marks only. A repeat after
// a failure adds nothing twice.
func (s *Store) NoteSiteQuotas(ctx context.Context, now model.Instant) (all int64, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := cell{in}.noteSiteQuotas(ctx, now)
		all += n
		return err
	})
	return all, err
}

// noteSiteQuotas is NoteSiteQuotas for one cell.
func (c cell) noteSiteQuotas(ctx context.Context, now model.Instant) (all int64, err error) {
	for {
		marks, err := c.quotaMarks(ctx)
		if err != nil {
			return all, fmt.Errorf("read which quotas are used: %w", err)
		}

		for i := range marks {
			n, err := c.noteSiteQuota(ctx, &marks[i], now)
			if err != nil {
				return all, fmt.Errorf("note the quota of site %d: %w", marks[i].SiteID, err)
			}
			all += n
		}

		// A page that is not full was the last one.
		if len(marks) < quotaMarkPage {
			return all, nil
		}
	}
}

// quotaMarks reads a page of marks, by an index that has nothing else.
func (c cell) quotaMarks(ctx context.Context) (marks []quotaMark, err error) {
	err = c.Write.NewSelect().Table("site_usage").Column("site_id", "month", "reached", "noted").
		Where("reached > noted").OrderExpr("site_id, month").Limit(quotaMarkPage).Scan(ctx, &marks)
	return marks, err
}

// noteSiteQuota writes the notices of a mark and then clears the mark. A deleted site gets no
// notice. The mark does not contain the quota, which may have changed since, so the thresholds of
// the present quota count.
func (c cell) noteSiteQuota(ctx context.Context, m *quotaMark, now model.Instant) (all int64, err error) {
	for _, threshold := range model.QuotaThresholds {
		if threshold <= m.Noted || threshold > m.Reached {
			continue
		}

		result, err := c.Write.ExecContext(ctx, `
INSERT INTO quota_notices (account_id, site_id, product, month, threshold, created_at, quota)
SELECT s.account_id, s.id, ?, u.month, ?, ?, s.monthly_pageviews
FROM site_usage u JOIN sites s ON s.id = u.site_id AND s.deleted_at = 0
WHERE u.site_id = ? AND u.month = ? AND s.monthly_pageviews * ? <= u.used * 100
ON CONFLICT DO NOTHING`,
			model.ProductAnalytics, threshold, now, m.SiteID, m.Month, threshold)
		if err != nil {
			return all, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return all, err
		}
		all += n
	}

	// A batch may have made another mark in between.
	_, err = c.Write.NewUpdate().Table("site_usage").Set("noted = ?", m.Reached).
		Where("site_id = ? AND month = ? AND noted < ?", m.SiteID, m.Month, m.Reached).
		Where("reached = ?", m.Reached).Exec(ctx)
	return all, err
}

// NoteCaptchaQuotas writes the missing captcha notices of all accounts that have used 80 % or 100 %
// of their plan's quota of the month, and returns their number. The data plane writes the notice
// when a verification reaches a threshold. NoteCaptchaQuotas covers thresholds that a change to a
// lower plan reaches, because an exhausted account counts no verification. It skips a threshold if
// a higher threshold of the same quota has a notice.
func (s *Store) NoteCaptchaQuotas(ctx context.Context, month model.Month, now model.Instant) (all int64, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := cell{in}.noteCaptchaQuotas(ctx, month, now)
		all += n
		return err
	})
	return all, err
}

// noteCaptchaQuotas is NoteCaptchaQuotas for the accounts in one cell.
func (c cell) noteCaptchaQuotas(ctx context.Context, month model.Month, now model.Instant) (int64, error) {
	quotas := model.CaptchaQuotas()
	plans := make([]string, len(quotas))

	var args []any
	for i, q := range quotas {
		plans[i] = "(?, ?)"
		args = append(args, string(q.Plan), q.Quota)
	}

	var all int64
	for _, threshold := range model.QuotaThresholds {
		// Each threshold has its own transaction, which is repeated after a deadlock with a writer
		// that notes several accounts in another order.
		var n int64
		err := c.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
			result, err := tx.ExecContext(ctx, `
WITH quotas (plan, quota) AS (VALUES `+strings.Join(plans, ", ")+`)
INSERT INTO quota_notices (account_id, product, month, threshold, created_at, quota)
SELECT a.id, ?, u.month, ?, ?, q.quota
FROM captcha_usage u JOIN accounts a ON a.id = u.account_id AND a.cell = ? JOIN quotas q ON q.plan = a.captcha_plan
WHERE u.month = ? AND u.used * 100 >= q.quota * ?
AND NOT EXISTS (SELECT 1 FROM quota_notices n
  WHERE n.account_id = a.id AND n.site_id = 0 AND n.product = ? AND n.month = u.month AND n.threshold >= ?
  AND n.quota = q.quota)
ORDER BY a.id
ON CONFLICT DO NOTHING`,
				append(slices.Clone(args), model.ProductCaptcha, threshold, now, c.ID, month, threshold,
					model.ProductCaptcha, threshold)...)
			if err != nil {
				return err
			}

			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return all, fmt.Errorf("note captcha quotas of %s used to %d %%: %w", month, threshold, err)
		}

		all += n
	}

	return all, nil
}

// UsedQuota is a quota of a month that is used to 80 % or more.
type UsedQuota struct {
	Account string
	Site    string // its domain; "": the account's captcha
	Quota   int64
	Percent int // the highest of model.QuotaThresholds that is reached

	CaptchaPlan model.CaptchaPlan // of the account now
}

// Name returns the site or the account of the quota.
func (q *UsedQuota) Name() string {
	return cmp.Or(q.Site, "captcha of "+q.Account)
}

// UsedQuotas returns up to 1,000 quotas in force that have a notice in the month, the ones that are
// used up first. Notices are written within five minutes.
func (s *Store) UsedQuotas(ctx context.Context, month model.Month) ([]UsedQuota, error) {
	var used []UsedQuota
	err := s.db.Read.NewRaw(`
SELECT a.name AS account, coalesce(s.domain, '') AS site, n.quota, max(n.threshold) AS percent, a.captcha_plan
FROM quota_notices n JOIN accounts a ON a.id = n.account_id
LEFT JOIN sites s ON s.id = n.site_id AND s.deleted_at = 0 AND s.monthly_pageviews = n.quota
WHERE n.month = ? AND (n.site_id = 0 OR s.id IS NOT NULL)
GROUP BY n.account_id, a.name, n.site_id, s.domain, n.quota, a.captcha_plan
ORDER BY percent DESC, n.account_id, n.site_id LIMIT 1000`, month).Scan(ctx, &used)
	if err != nil {
		return nil, fmt.Errorf("read which quotas are used: %w", err)
	}

	isOld := func(q UsedQuota) bool { return q.Site == "" && q.Quota != q.CaptchaPlan.QuotaOrUnlimited() }
	return slices.DeleteFunc(used, isOld), nil
}

// quotaNoticePage is how many notices one transaction turns into mails.
const quotaNoticePage = 100

// MailQuotaNotices queues the mails of all unmailed notices, one for each user of the account, and
// returns these notices, also if it fails after some.
func (s *Store) MailQuotaNotices(ctx context.Context, now model.Instant) (all []QuotaNotice, err error) {
	for {
		var notices []QuotaNotice
		err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			notices, err = s.newQuotaNotices(ctx, tx)

			// Mails and their notices are stored together, so that no user is mailed twice.
			for i := 0; err == nil && i < len(notices); i++ {
				err = s.mailQuotaNotice(ctx, tx, &notices[i], now)
			}
			return err
		})
		if err != nil {
			return all, fmt.Errorf("write mails of quota notices: %w", err)
		}

		// A page that is not full was the last one.
		if all = append(all, notices...); len(notices) < quotaNoticePage {
			return all, nil
		}
	}
}

// newQuotaNotices reads and locks notices that have no mails yet. Other transactions skip them
// until tx ends.
func (s *Store) newQuotaNotices(ctx context.Context, tx *db.Tx) ([]QuotaNotice, error) {
	var notices []QuotaNotice
	q := tx.NewSelect().Model(&notices).Where("mailed_at = 0").
		OrderExpr("created_at, account_id, site_id, product, month, threshold, quota").Limit(quotaNoticePage)
	tx.Lock(q, "UPDATE SKIP LOCKED")
	return notices, q.Scan(ctx)
}

// mailQuotaNotice queues the mails of a notice and marks the notice as mailed. It fills in the site.
func (s *Store) mailQuotaNotice(ctx context.Context, tx *db.Tx, n *QuotaNotice, now model.Instant) error {
	kind := model.MailQuota80
	if n.Threshold >= 100 {
		kind = model.MailQuota100
	}

	data, err := quotaMail(ctx, tx, n)
	if err != nil {
		return err
	}
	if err := MailNotice(ctx, tx, n.AccountID, kind, data, now); err != nil {
		return err
	}
	if err := s.AlertOnce(ctx, tx, n.alert(data.Quota), now); err != nil {
		return err
	}
	n.Site = data.Site

	_, err = tx.NewUpdate().Table("quota_notices").Set("mailed_at = ?", now).
		Where("account_id = ? AND site_id = ? AND product = ? AND month = ? AND threshold = ? AND quota = ?",
			n.AccountID, n.SiteID, n.Product, n.Month, n.Threshold, n.Quota).
		Exec(ctx)

	return err
}

// alert returns the alert of a notice: the use that has reached the threshold, and the quota. Its
// subject is the product and the month, for example "analytics 2026-11".
func (n *QuotaNotice) alert(quota int64) model.Alert {
	return model.Alert{
		AccountID: n.AccountID, SiteID: n.SiteID, Event: model.AlertQuota, Subject: n.Product + " " + n.Month.String(),
		Details: model.AlertFigures{
			Value: (quota*int64(n.Threshold) + 99) / 100, Threshold: quota, Percent: int64(n.Threshold),
		},
	}
}

// quotaMail reads the values in the mail of a notice: the site, and the quota of the threshold. The
// fields of a deleted site stay empty.
func quotaMail(ctx context.Context, tx *db.Tx, n *QuotaNotice) (QuotaMail, error) {
	data := QuotaMail{Product: n.Product, Month: n.Month.String(), Quota: n.Quota}

	if n.Product == model.ProductCaptcha {
		return data, nil
	}

	var sites []model.Site
	err := tx.NewSelect().Model(&sites).Where("id = ? AND account_id = ?", n.SiteID, n.AccountID).Scan(ctx)
	if len(sites) > 0 {
		data.Site, data.SiteID = sites[0].Domain, sites[0].ID
	}

	return data, err
}
