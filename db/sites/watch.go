package sites

import (
	"context"

	"github.com/tallygate/tallygate/db"
)

// WatchSites calls changed with the id of every site that was made, changed or deleted, also by
// other processes on this database, until ctx ends; then it returns ctx's error. A change is told
// after it is committed, usually within milliseconds, with SQLite within 250 of them, and may be
// told more than once.
//
// Changes are told only while in sync. WatchSites begins out of sync. It calls synced(nil) when
// every later change will be told, and synced with the reason when it lost the database or cannot
// reach it, as soon as it knows (within five seconds) but not again for each further attempt:
// whoever keeps sites in memory must read them again after each synced(nil), and should not trust
// them for long in between.
//
// With SQLite changes made through this DB are told before the call that makes them returns, also
// while WatchSites is not in sync. There changed may run in several goroutines at once.
//
// Both functions must be quick and must not change sites. They are not called any more when
// WatchSites has returned.
func (s *Store) WatchSites(ctx context.Context, changed func(siteID int64), synced func(error)) error {
	return s.db.Watch(ctx, db.SiteChanges, changed, synced)
}

// WatchSitekeys is WatchSites for captcha sitekeys.
func (s *Store) WatchSitekeys(ctx context.Context, changed func(sitekeyID int64), synced func(error)) error {
	return s.db.Watch(ctx, db.SitekeyChanges, changed, synced)
}
