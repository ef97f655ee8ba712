package db

import (
	"context"

	"github.com/uptrace/bun"
)

// together is a transaction that several changes of sites share.
type together struct {
	tx      bun.Tx
	changed []int64 // sites, to be told of when it commits
}

type togetherKey struct{}

// Together runs changes of sites in one transaction: all of them or, when change fails, none.
// CreateSite, the changes of a site and SiteRules take part in it when they are called with the
// context that change is given; nothing else does. The changes must come one after another.
func (d *DB) Together(ctx context.Context, change func(ctx context.Context) error) error {
	var all *together
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		all = &together{tx: tx}
		return change(context.WithValue(ctx, togetherKey{}, all))
	})
	if err == nil {
		for _, id := range all.changed {
			d.watchers.tell(id)
		}
	}

	return err
}

// inSiteTx runs a change of a site in a transaction: that of Together, or its own.
func (d *DB) inSiteTx(ctx context.Context, change func(ctx context.Context, tx bun.Tx) error) error {
	if all, ok := ctx.Value(togetherKey{}).(*together); ok {
		return change(ctx, all.tx)
	}
	return d.inTx(ctx, change)
}

// siteReader reads sites as they are to the context.
func (d *DB) siteReader(ctx context.Context) bun.IDB {
	if all, ok := ctx.Value(togetherKey{}).(*together); ok {
		return all.tx
	}
	return d.read
}

// siteChanged tells SQLite's watchers of a change, when it is committed.
func (d *DB) siteChanged(ctx context.Context, siteID int64) {
	if all, ok := ctx.Value(togetherKey{}).(*together); ok {
		all.changed = append(all.changed, siteID)
		return
	}
	d.watchers.tell(siteID)
}
