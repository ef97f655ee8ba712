package rulecache

import (
	"context"
	"errors"
	"log/slog"
)

// Watch reports ids that changed, and whether change notifications arrive (nil: they do), until ctx
// ends. See sites.Store.WatchSites.
type Watch func(ctx context.Context, changed func(id int64), synced func(error)) error

// Keep passes change notifications to the caches until ctx ends. It logs when notifications stop
// arriving and when they arrive again.
func Keep[Value any](ctx context.Context, watch Watch, log *slog.Logger, caches ...*Cache[Value]) {
	synced := func(yes bool) {
		for _, c := range caches {
			c.Synced(yes)
		}
	}

	changed := func(id int64) {
		for _, c := range caches {
			c.Changed(id)
		}
	}

	lost := false
	err := watch(ctx, changed, func(why error) {
		switch {
		case why != nil:
			log.Warn("change notifications lost: changes take effect late", "error", why)
		case lost:
			log.Info("change notifications arrive again")
		}

		lost = why != nil
		synced(!lost)
	})

	if !errors.Is(err, context.Canceled) {
		log.Error("the watch for changes ended: changes take effect late", "error", err)
		synced(false)
	}
}
