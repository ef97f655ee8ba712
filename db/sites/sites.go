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
	"github.com/tallygate/tallygate/db/nodeid"
)

// Store reads and changes sites and sitekeys. It is safe for concurrent use.
type Store struct {
	Owned
	Lookup *Lookup
	Usage  *Usage
}

// Owned reads and changes what accounts have. Each method of its stores runs in a transaction of
// its own or, in the Owned of InTx, in that one.
type Owned struct {
	Sites    *Sites
	Sitekeys *Sitekeys
	Objects  *Objects
}

// The stores by what they read and change.
type (
	// Sites has the sites with their settings, secrets and webhooks.
	Sites struct {
		door
		keys *keys.Store
	}

	// Sitekeys has the sitekeys with their secrets and policies.
	Sitekeys struct{ door }

	// Objects has the objects of sites that only reports use: annotations, segments, funnels and
	// shared links.
	Objects struct {
		door
		keys *keys.Store
	}

	// Lookup reads what the data plane needs for a hit or a challenge, on its own connections.
	Lookup struct{ db *db.DB }

	// Usage reads and counts the page views and events of sites, in all cells.
	Usage struct{ db *db.DB }
)

// New returns the store of a database's sites.
func New(d *db.DB) *Store {
	return &Store{Owned: owned(door{db: d}), Lookup: &Lookup{d}, Usage: &Usage{d}}
}

// owned returns the stores behind a door.
func owned(in door) Owned {
	keys := keys.New(in.db)
	return Owned{Sites: &Sites{in, keys}, Sitekeys: &Sitekeys{in}, Objects: &Objects{in, keys}}
}

// InTx runs several changes in one transaction: all of them are made or, when change fails, none.
// change must not call methods of bound concurrently.
func (s *Store) InTx(ctx context.Context, change func(ctx context.Context, bound *Owned) error) error {
	return s.Sites.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		bound := owned(door{db: s.Sites.db, tx: tx})
		return change(ctx, &bound)
	})
}

// door is the way of a store to the database: each change in a transaction of its own, or all of
// them in one.
type door struct {
	db *db.DB
	tx *db.Tx // of InTx; otherwise nil
}

// inTx runs a change in the transaction of InTx, or in a new one.
func (d door) inTx(ctx context.Context, change func(ctx context.Context, tx *db.Tx) error) error {
	if d.tx != nil {
		return change(ctx, d.tx)
	}
	return d.db.InTx(ctx, change)
}

// writer returns the transaction of InTx, or the pool for single statements that write.
func (d door) writer() bun.IDB {
	if d.tx != nil {
		return d.tx
	}
	return d.db.Write
}

// reader returns the transaction of InTx, or the read pool.
func (d door) reader() bun.IDB {
	if d.tx != nil {
		return d.tx
	}
	return d.db.Read
}

// CreateOwnersSite is CreateSite for an owner who is not the operator. The account may have
// model.DefaultSiteLimit sites on the plan of the new one, or as many as the operator permits (see
// SetSiteLimit). Sites on another plan do not count. A site over the limit fails with the Conflict
// too_many_sites.
func (s *Sites) CreateOwnersSite(ctx context.Context, site model.Site) (*model.Site, error) {
	return s.createSite(ctx, site, false)
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
func (s *Sites) SetSiteLimit(ctx context.Context, accountID model.AccountID, limit int64) error {
	if err := checkSiteLimitRange("sites", &limit); err != nil {
		return err
	}

	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, accountID); err != nil {
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
			Object: audit.Object{Kind: nodeid.Account, ID: int64(accountID), Name: was.Name},
			Before: audit.Values{"siteLimit": was.Limit}, After: audit.Values{"siteLimit": limit},
		})
	})
	return db.Wrap(err, "set the site limit of account %d", accountID)
}
