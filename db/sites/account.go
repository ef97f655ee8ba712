package sites

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// AccountSettings are the settings of an account that the operator can apply from a file.
type AccountSettings struct {
	Name        string
	CaptchaPlan model.CaptchaPlan
	SiteLimit   *int64 // see SetSiteLimit; nil: the default
}

// AccountSettings returns the settings of an account, or model.ErrNotFound.
func (s *Sites) AccountSettings(ctx context.Context, accountID model.AccountID) (*AccountSettings, error) {
	var settings AccountSettings
	err := s.reader().NewSelect().Table("accounts").Column("name", "captcha_plan", "site_limit").
		Where("id = ?", accountID).Scan(ctx, &settings)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &settings, nil
}

// SetAccountSettings stores the settings of an account. It runs in the transaction that the store
// is bound to, see InTx.
func (s *Sites) SetAccountSettings(ctx context.Context, accountID model.AccountID, settings AccountSettings) error {
	name, err := model.ParseAccountName("accountName", settings.Name)
	if err != nil {
		return err
	}
	if _, ok := settings.CaptchaPlan.Quota(); !ok {
		return model.InvalidField("captchaPlan", "invalid_plan", "There is no such plan.")
	}
	if err := checkSiteLimitRange("siteLimit", settings.SiteLimit); err != nil {
		return err
	}

	return s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, accountID); err != nil {
			return err
		}

		var before AccountSettings
		err := tx.NewSelect().Table("accounts").Column("name", "captcha_plan", "site_limit").Where("id = ?", accountID).
			Scan(ctx, &before)
		if err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "UPDATE accounts SET name = ?, captcha_plan = ?, site_limit = ? WHERE id = ?",
			name, settings.CaptchaPlan, settings.SiteLimit, accountID)
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, ByOperator: true,
			Object: audit.Object{Kind: nodeid.Account, ID: int64(accountID), Name: name},
			Before: before.values(), After: settings.values(),
		})
	})
}

// values are the settings in the audit log.
func (a AccountSettings) values() audit.Values {
	return audit.Values{"name": a.Name, "captchaPlan": a.CaptchaPlan, "siteLimit": a.SiteLimit}
}

// checkSiteLimitRange checks a site limit that is not nil.
func checkSiteLimitRange(field string, limit *int64) error {
	if limit != nil && (*limit < 1 || *limit > model.MaxSites) {
		return model.InvalidField(field, "invalid_volume", fmt.Sprintf("Use a number from 1 to %d.", model.MaxSites))
	}
	return nil
}
