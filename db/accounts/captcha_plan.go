package accounts

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// CaptchaUsage returns the account's use of its captcha quota in a UTC month. All counts are 0 for
// a month without verifications.
func (s *Store) CaptchaUsage(ctx context.Context, accountID model.AccountID, month model.Month) (*model.CaptchaUsage, error) {
	var row struct {
		Plan                         model.CaptchaPlan
		Used, ReserveFrom, OverQuota int64
		Noticed                      int
	}

	in, err := s.db.OfAccount(ctx, accountID)
	if err != nil {
		return nil, err
	}
	err = in.Read.NewRaw(`
SELECT a.captcha_plan AS plan, coalesce(u.used, 0) AS used, coalesce(u.reserve_from, 0) AS reserve_from,
  coalesce(u.over_quota, 0) AS over_quota, coalesce(u.noticed, 0) AS noticed
FROM accounts a LEFT JOIN captcha_usage u ON u.account_id = a.id AND u.month = ?
WHERE a.id = ?`, month, accountID).Scan(ctx, &row)
	if err != nil {
		return nil, db.OrNotFound(err)
	}

	return &model.CaptchaUsage{
		Quota: row.Plan.QuotaOrUnlimited(), Used: row.Used, ReserveFrom: model.Instant(row.ReserveFrom),
		OverQuota: row.OverQuota, Noticed: row.Noticed,
	}, nil
}

// SetCaptchaPlan puts an account on a captcha plan, from its next verification on. The caller must
// have checked that the user is an operator. It fails with model.ErrNotFound for an unknown
// account, and with Invalid for an unknown plan.
func (s *Store) SetCaptchaPlan(ctx context.Context, accountID model.AccountID, plan model.CaptchaPlan) error {
	if _, ok := plan.Quota(); !ok {
		return model.InvalidField("plan", "invalid_plan", "There is no such plan.")
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		account, err := lockAccount(ctx, tx, accountID)
		if err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "UPDATE accounts SET captcha_plan = ? WHERE id = ?", plan, accountID)
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, ByOperator: true, Object: accountObject(account),
			Before: audit.Values{"captchaPlan": account.CaptchaPlan}, After: audit.Values{"captchaPlan": plan},
		})
	})
	return db.Wrap(err, "set captcha plan of account %d", accountID)
}

// CaptchaUsageHistory returns the verifications of an account in each month since from. Months
// without any are left out.
func (s *Store) CaptchaUsageHistory(
	ctx context.Context, accountID model.AccountID, from model.Month,
) (map[model.Month]int64, error) {
	var rows []struct {
		Month model.Month
		Used  int64
	}
	in, err := s.db.OfAccount(ctx, accountID)
	if err != nil {
		return nil, err
	}
	err = in.Read.NewSelect().Table("captcha_usage").Column("month", "used").Where("account_id = ?", accountID).
		Where("month >= ?", from).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read captcha usage of account %d: %w", accountID, err)
	}

	used := make(map[model.Month]int64, len(rows))
	for _, row := range rows {
		used[row.Month] = row.Used
	}

	return used, nil
}
