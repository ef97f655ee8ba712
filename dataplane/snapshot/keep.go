package snapshot

import (
	"context"
	"errors"
	"log/slog"
)

// Watch tells ids that changed, and whether notices of changes arrive (nil: they do), until ctx
// ends; see db.DB.WatchSites.
type Watch func(ctx context.Context, changed func(id int64), synced func(error)) error

// Keep keeps caches up to date until ctx ends. It logs when notices stop arriving and when they
// arrive again.
func Keep[Value any](ctx context.Context, watch Watch, log *slog.Logger, caches ...*Cache[Value]) {
	synced := func(yes bool) {
		for _, c := range caches {
			c.Synced(yes)
		}
	}

	late := false
	err := watch(ctx, func(id int64) {
		for _, c := range caches {
			c.Changed(id)
		}
	}, func(why error) {
		switch {
		case why != nil:
			log.Warn("notices of changes do not arrive: changes are seen late", "error", why)
		case late:
			log.Info("notices of changes arrive again")
		}

		late = why != nil
		synced(!late)
	})
	if !errors.Is(err, context.Canceled) {
		log.Error("the watch for changes ended: changes are seen late", "error", err)
		synced(false)
	}
}
