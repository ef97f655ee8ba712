package sites

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
)

// InTx runs several changes in one transaction: all of them are made or, when change fails, none.
// change gets a store bound to the transaction. The changes of sites and SiteRules of that store
// belong to the transaction; its other methods do not. change must not call them concurrently.
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
