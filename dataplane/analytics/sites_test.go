package analytics

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownKeysDelayNoSite checks that a site whose cache entry is out of date or changed is read
// at once, by its key and by its secret, while made-up keys occupy all lookups that they may.
func TestUnknownKeysDelayNoSite(t *testing.T) {
	t.Parallel()
	const flood, limit = 200, 3
	for _, by := range []string{"site key", "secret"} {
		t.Run(by, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				own := modelSite(t, d, "example.com", 1)
				key, load := own.key, sites.New(d).Lookup.SiteRulesByKey

				if by == "secret" {
					key = string(model.HashToken("svcs_secret"))
					load = func(ctx context.Context, hash string) (*model.SiteRules, error) {
						return sites.New(d).Lookup.SiteRulesByServerSecret(ctx, []byte(hash))
					}

					testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET server_secret_hash = ? WHERE id = ?", []byte(key), own.id))
				}

				now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
				entered, release := make(chan struct{}, flood), make(chan struct{})
				var running atomic.Int64
				c := rulecache.New(loadSite(func(ctx context.Context, asked string) (*model.SiteRules, error) {
					if asked != key {
						if n := running.Add(1); n > limit {
							t.Errorf("%d made-up keys are looked up at once, the limit is %d", n, limit)
						}
						defer running.Add(-1)

						entered <- struct{}{}
						<-release
					}

					return load(ctx, asked)
				}), func() time.Time { return now })

				c.Synced(true)
				known := func(when string) {
					t.Helper()
					if s, err := c.Get(time.Time{}, key); err != nil || s == nil || s.id != own.id {
						t.Errorf("%s: %v, %v; want the site", when, s, err)
					}
				}

				known("before the flood")

				var wg sync.WaitGroup
				for i := range flood {
					wg.Go(func() {
						s, err := c.Get(time.Time{}, "made up "+strconv.Itoa(i))
						isLate := errors.Is(err, context.DeadlineExceeded) // its lookup waits for the end of the flood
						if s != nil || err != nil && !errors.Is(err, rulecache.ErrUnknownKeys) && !isLate {
							t.Errorf("a made-up key: %v, %v; want no site, or a refusal", s, err)
						}
					})
				}

				for range limit {
					<-entered
				}

				known("fresh")
				now = now.Add(time.Minute)
				known("expired")
				c.Changed(int64(own.id))
				known("changed")
				c.Synced(true)
				known("after lost notifications")
				close(release)
				wg.Wait()
			})
		})
	}
}
