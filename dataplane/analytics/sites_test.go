package analytics

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestStrangersStarveNobody: while made-up names occupy all places that they get, a site whose snapshot is too old or was
// changed is read at once, by its key and by its secret.
func TestStrangersStarveNobody(t *testing.T) {
	const flood = 200
	for _, by := range []string{"site key", "secret"} {
		t.Run(by, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				own := modelSite(t, d, "example.com", 1)
				name, load := own.key, d.SiteRulesByKey
				if by == "secret" {
					name = string(model.HashToken("svcs_secret"))
					load = func(ctx context.Context, hash string) (*model.SiteRules, error) {
						return d.SiteRulesByServerSecret(ctx, []byte(hash))
					}
					if err := dbtest.Exec(d, "UPDATE sites SET server_secret_hash = ? WHERE id = ?", []byte(name), own.id); err != nil {
						t.Fatal(err)
					}
				}
				now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
				entered, release := make(chan struct{}, flood), make(chan struct{})
				var under atomic.Int64
				c := newSiteCache(func(ctx context.Context, asked string) (*model.SiteRules, error) {
					if asked != name {
						if n := under.Add(1); n > strangerLimit {
							t.Errorf("%d made-up names are looked up at once, the limit is %d", n, strangerLimit)
						}
						defer under.Add(-1)
						entered <- struct{}{}
						<-release
					}
					return load(ctx, asked)
				}, func() time.Time { return now })
				c.synced(true)
				known := func(when string) {
					t.Helper()
					if s, err := c.get(t.Context(), name); err != nil || s == nil || s.id != own.id {
						t.Errorf("%s: %v, %v; want the site", when, s, err)
					}
				}
				known("before the flood")

				var wg sync.WaitGroup
				for i := range flood {
					wg.Go(func() {
						s, err := c.get(context.Background(), "made up "+strconv.Itoa(i))
						if s != nil || err != nil && !errors.Is(err, errStrangers) {
							t.Errorf("a made-up name: %v, %v; want no site, or a refusal", s, err)
						}
					})
				}
				for range strangerLimit {
					<-entered
				}
				known("fresh")
				now = now.Add(siteTTL)
				known("too old")
				c.changed(own.id)
				known("changed")
				c.synced(true)
				known("after a gap in the notices")
				close(release)
				wg.Wait()
			})
		})
	}
}

// TestStrangersWaitBriefly: a look-up that gets no turn is refused after a second, and one that gets it is not.
func TestStrangersWaitBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newSiteCache(func(context.Context, string) (*model.SiteRules, error) {
			<-release
			return nil, model.ErrNotFound
		}, time.Now)
		answers := make(chan error, strangerLimit+1)
		ask := func(name string) { _, err := c.get(context.Background(), name); answers <- err }
		for i := range strangerLimit {
			go ask(strconv.Itoa(i))
		}
		synctest.Wait()

		began := time.Now()
		ask("refused")
		if err, waited := <-answers, time.Since(began); !errors.Is(err, errStrangers) || waited != strangerWait {
			t.Errorf("without a turn: %v after %v; want %v after %v", err, waited, errStrangers, strangerWait)
		}
		go ask("in time")
		time.Sleep(strangerWait - time.Millisecond)
		close(release)
		for range strangerLimit + 1 {
			if err := <-answers; err != nil {
				t.Errorf("with a turn: %v", err)
			}
		}
	})
}
