package analytics_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestHitsDuringTransfers: hits of two processes that arrive while their site moves between
// accounts are all accepted, stored once and counted once.
func TestHitsDuringTransfers(t *testing.T) {
	t.Parallel()
	const senders, hits, transfers = 4, 40, 12

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		planes := []*plane{newPlane(t, d), newPlane(t, d)}
		p := planes[0]
		other := p.site("other.example", 1000)
		site := p.site("shop.example", 100_000)

		var wg sync.WaitGroup
		for i := range senders {
			wg.Go(func() {
				for n := range hits {
					visitor := fmt.Sprintf("203.0.113.%d", i*hits+n+1)
					if status, code := planes[n%2].CollectStored(viewCall(site, visitor, nil)); status != http.StatusNoContent {
						t.Errorf("hit %d of %d: %d %s", n, i, status, code)
					}
				}
			})
		}

		from, to := site.AccountID, other.AccountID
		for range transfers {
			if _, err := sites.New(d).Sites.TransferSite(t.Context(), site.ID, from, to, true); err != nil {
				t.Errorf("transfer: %v", err)
			}
			from, to = to, from
		}
		wg.Wait()

		if rows, used := int64(len(p.Views(site))), p.Used(site); rows != senders*hits || used != senders*hits {
			t.Errorf("%d hits are stored and %d counted, want %d", rows, used, senders*hits)
		}
	})
}

// TestTransfersMeetDeletions: of transfers, deletions and suspensions at the same time each is made
// whole or fails, and none waits for another forever.
func TestTransfersMeetDeletions(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		p.site("operator.example", 1000)
		first, second := p.site("first.example", 1000), p.site("second.example", 1000)
		now := model.At(p.Clock.Now())

		var wg sync.WaitGroup
		for range 5 {
			for _, site := range []*model.Site{first, second} {
				wg.Go(func() {
					for _, accounts := range [][2]model.AccountID{{first.AccountID, second.AccountID}, {second.AccountID, first.AccountID}} {
						_, err := sites.New(p.DB).Sites.TransferSite(t.Context(), site.ID, accounts[0], accounts[1], true)
						if err != nil && model.KindOf(err) != model.NotFound {
							t.Errorf("transfer: %v", err)
						}
					}
				})
				wg.Go(func() {
					_, err := sites.New(p.DB).Sites.RemoveSite(t.Context(), site.AccountID, site.ID, nil, now)
					if err == nil {
						_, err = sites.New(p.DB).Sites.RestoreSite(t.Context(), site.AccountID, site.ID, true, now)
					}
					if err != nil && model.KindOf(err) != model.NotFound {
						t.Errorf("deletion: %v", err)
					}
				})
				wg.Go(func() {
					_, err := accounts.New(p.DB).Suspend(t.Context(), site.AccountID, "abuse", now)
					if err == nil {
						_, err = accounts.New(p.DB).Resume(t.Context(), site.AccountID, now)
					}
					testkit.Succeeds(t, err, "suspension")
				})
			}
		}
		wg.Wait()

		rows, err := dbtest.Rows[struct{ N int }](p.DB, "SELECT count(*) AS n FROM sites WHERE account_id IN (?, ?) AND deleted_at = 0",
			first.AccountID, second.AccountID)
		if err != nil || rows[0].N != 2 {
			t.Errorf("%v sites are left, %v", rows, err)
		}
	})
}
