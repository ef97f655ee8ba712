package db

import (
	"context"

	"github.com/uptrace/bun"
)

type togetherKey struct{}

// Together runs changes of sites in one transaction: all of them or, when change fails, none.
// CreateSite, the changes of a site and SiteRules take part in it when they are called with the
// context that change is given; nothing else does. The changes must come one after another.
func (d *DB) Together(ctx context.Context, change func(ctx context.Context) error) error {
	return d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		return change(context.WithValue(ctx, togetherKey{}, tx))
	})
}

// inSiteTx runs a change of a site in a transaction: that of Together, or its own.
func (d *DB) inSiteTx(ctx context.Context, change func(ctx context.Context, tx *Tx) error) error {
	if tx, ok := ctx.Value(togetherKey{}).(*Tx); ok {
		return change(ctx, tx)
	}
	return d.InTx(ctx, change)
}

// siteReader reads sites as they are to the context.
func (d *DB) siteReader(ctx context.Context) bun.IDB {
	if tx, ok := ctx.Value(togetherKey{}).(*Tx); ok {
		return tx
	}
	return d.Read
}
