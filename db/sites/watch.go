package sites

import (
	"context"

	"github.com/tallygate/tallygate/db/watch"
)

// WatchSites calls changed with the id of every site that was created, changed or deleted, by this
// or another process on the database. It returns ctx's error when ctx ends. A change is reported
// after its commit: usually within milliseconds, on SQLite within 500. It may be reported more than
// once.
//
// Changes are reported only while in sync. WatchSites starts out of sync. It calls synced(nil) when
// every later change will be reported. It calls synced with an error when it loses or cannot reach
// the database, within five seconds, but not again for each further attempt. A caller that caches
// sites must read them again after each synced(nil), and should not trust them for long while out
// of sync.
//
// On SQLite, changes made through this DB are reported before the call that makes them returns,
// even while out of sync. There changed may run in several goroutines at once.
//
// Both functions must return quickly and must not change sites. They are not called after
// WatchSites has returned.
func (s *Lookup) WatchSites(ctx context.Context, changed func(siteID int64), synced func(error)) error {
	return s.db.Watch(ctx, watch.Sites, changed, synced)
}

// WatchSitekeys is WatchSites for captcha sitekeys.
func (s *Lookup) WatchSitekeys(ctx context.Context, changed func(sitekeyID int64), synced func(error)) error {
	return s.db.Watch(ctx, watch.Sitekeys, changed, synced)
}
