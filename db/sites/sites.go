// Package sites stores sites with their settings and webhook addresses, and captcha sitekeys. The
// control plane changes them, the data plane reads and watches them. A site or sitekey of another
// account is model.ErrNotFound.
package sites

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Store reads and changes sites and sitekeys. It is safe for concurrent use.
type Store struct {
	db   *db.DB
	keys *keys.Store
	tx   *db.Tx // set in a store that InTx passes to its callback; otherwise nil
}

// New returns the store of a database's sites.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d)} }

// InTx runs several changes in one transaction: all of them are made or, when change fails, none.
// change gets a store bound to the transaction. The methods of that store that create, change or
// delete a site, an object of a site or a sitekey, those of AccountSettings, and the reads of whole
// lists run in the transaction. change must not call them concurrently, and must not call its other
// methods, which would need a second connection.
func (s *Store) InTx(ctx context.Context, change func(ctx context.Context, bound *Store) error) error {
	return s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		return change(ctx, &Store{db: s.db, keys: s.keys, tx: tx})
	})
}

// inTx runs a change of a site in the transaction that the store is bound to, or in a new one.
func (s *Store) inTx(ctx context.Context, change func(ctx context.Context, tx *db.Tx) error) error {
	if s.tx != nil {
		return change(ctx, s.tx)
	}
	return s.db.InTx(ctx, change)
}

// reader returns the transaction that the store is bound to, or the read pool.
func (s *Store) reader() bun.IDB {
	if s.tx != nil {
		return s.tx
	}
	return s.db.Read
}

// CreateOwnersSite is CreateSite for an owner who is not the operator. The account may have
// model.DefaultSiteLimit sites on the plan of the new one, or as many as the operator permits (see
// SetSiteLimit). Sites on another plan do not count. A site over the limit fails with the Conflict
// too_many_sites.
func (s *Store) CreateOwnersSite(ctx context.Context, site model.Site) (*model.Site, error) {
	return s.createSite(ctx, site, checkSiteLimit)
}

// checkSiteLimit fails if the account has more sites on the plan of a new one than it may have.
func checkSiteLimit(ctx context.Context, tx *db.Tx, site *model.Site) error {
	var row struct{ Used, Limit int64 }
	err := tx.NewRaw(`
SELECT (SELECT count(*) FROM sites WHERE account_id = ? AND plan = ? AND deleted_at = 0) AS used, coalesce(site_limit, ?) AS "limit"
FROM accounts WHERE id = ?`,
		site.AccountID, site.Plan, model.DefaultSiteLimit, site.AccountID).Scan(ctx, &row)
	if err == nil && row.Used > row.Limit {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_sites", Message: fmt.Sprintf(
			"This account has at most %d sites on the plan %s. Delete one first, or ask the operator for more.",
			row.Limit, site.Plan)}
	}

	return err
}

// SetSiteLimit sets how many sites an account may have on the plan of new sites, 1 to
// model.MaxSites. Existing sites over the limit stay.
func (s *Store) SetSiteLimit(ctx context.Context, accountID, limit int64) error {
	if err := checkSiteLimitRange("sites", &limit); err != nil {
		return err
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
			return err
		}

		var was struct {
			Name  string
			Limit int64
		}
		err := tx.NewRaw(`SELECT name, coalesce(site_limit, ?) AS "limit" FROM accounts WHERE id = ?`,
			model.DefaultSiteLimit, accountID).Scan(ctx, &was)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET site_limit = ? WHERE id = ?", limit, accountID); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, ByOperator: true,
			Object: audit.Object{Kind: model.NodeAccount, ID: accountID, Name: was.Name},
			Before: audit.Values{"siteLimit": was.Limit}, After: audit.Values{"siteLimit": limit},
		})
	})
	return db.Wrap(err, "set the site limit of account %d", accountID)
}
