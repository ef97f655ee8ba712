package ingest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func consumed(account model.AccountID, at model.Instant, id byte) model.ConsumedKey {
	return model.ConsumedKey{AccountID: account, IssuedAt: at, ID: [16]byte{id, 0, 0xff}}
}

// update runs one transaction of a store and returns the state that it found.
func update(
	t *testing.T, store *ingest.ClaimStore, keys ingest.ClaimKeys, decide func(*ingest.ClaimState) *ingest.ClaimChanges,
) *ingest.ClaimState {
	t.Helper()

	var found *ingest.ClaimState
	err := store.Update(t.Context(), keys, func(state *ingest.ClaimState) *ingest.ClaimChanges {
		found = state
		if decide == nil {
			return &ingest.ClaimChanges{}
		}
		return decide(state)
	})
	testkit.NoError(t, err)

	return found
}

// addAccounts adds the accounts 1 and 2, and puts the number 0 of the test sitekey, in the cell of
// the sites.
func addAccounts(t *testing.T, d *db.DB) {
	t.Helper()
	for _, statement := range []string{
		"INSERT INTO accounts (id, name, created_at, cell) VALUES (1, '-', 0, ?0), (2, '-', 0, ?0)",
		"UPDATE claim_spaces SET cell = ?0",
	} {
		testkit.NoError(t, dbtest.Exec(d, statement, dbtest.SitesCell(t, d).ID))
	}
}

func TestCaptchaStoreClaims(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		addAccounts(t, d)
		store := claimStore(t, d)

		keys := []model.ConsumedKey{consumed(0, 5, 1), consumed(1, 5, 1), consumed(1, 5, 2), consumed(1, 6, 1)}
		found := update(t, store, ingest.ClaimKeys{Consumed: keys}, func(*ingest.ClaimState) *ingest.ClaimChanges {
			return &ingest.ClaimChanges{Release: keys[1:2]}
		})
		testkit.Equal(t, len(found.Claimed), 4, "claimed %v", found.Claimed)

		found = update(t, store, ingest.ClaimKeys{Consumed: append(keys, consumed(2, 1, 1))}, nil)
		if len(found.Claimed) != 2 || !found.Claimed[keys[1]] || !found.Claimed[consumed(2, 1, 1)] {
			t.Errorf("claimed %v, want the released and the new one", found.Claimed)
		}
		dbtest.HasRows(t, d, "captcha_spent", 5, "rows")
	})
}

func TestCaptchaStoreUsage(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account := world.New(t, d).Account("a")
		testkit.NoError(t, accounts.New(d).SetCaptchaPlan(t.Context(), account, model.CaptchaPlanPro250K))

		store := claimStore(t, d)

		november := model.CaptchaUsageKey{AccountID: account, Month: 202611}
		december := model.CaptchaUsageKey{AccountID: account, Month: 202612}
		deleted := model.CaptchaUsageKey{AccountID: account + 100, Month: 202611}
		keys := ingest.ClaimKeys{Usage: []model.CaptchaUsageKey{november, december, deleted},
			Consumed: []model.ConsumedKey{consumed(account, 1, 1)}}
		changed := model.CaptchaUsage{Quota: 250_000, Used: 7, ReserveFrom: 8, OverQuota: 9, Noticed: 80}
		notice := ingest.QuotaNotice{CaptchaUsageKey: november, Threshold: 80, CreatedAt: 3}
		change := func(*ingest.ClaimState) *ingest.ClaimChanges {
			return &ingest.ClaimChanges{Usage: map[model.CaptchaUsageKey]model.CaptchaUsage{november: changed},
				Notices: []ingest.QuotaNotice{notice}}
		}

		found := update(t, store, keys, change)
		empty := model.CaptchaUsage{Quota: 250_000}
		if len(found.Usage) != 2 || found.Usage[november] != empty || found.Usage[december] != empty {
			t.Errorf("at first %v", found.Usage)
		}

		// A notice that exists is left out.
		found = update(t, store, keys, change)
		if len(found.Usage) != 2 || found.Usage[november] != changed || found.Usage[december] != empty {
			t.Errorf("then %v", found.Usage)
		}
		if got, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202611); err != nil || *got != changed {
			t.Errorf("usage %+v, %v", got, err)
		}
		if got, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202701); err != nil || *got != empty {
			t.Errorf("usage of a month without any %+v, %v", got, err)
		}
		if _, err := accounts.New(d).CaptchaUsage(t.Context(), account+100, 202611); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("usage of a deleted account: %v", err)
		}
		dbtest.HasRows(t, d, "quota_notices", 1, "notices")
	})
}

// TestFailedTransactionChangesNothing checks that a transaction that fails in the middle leaves no
// claim behind, and that the store still works.
func TestFailedTransactionChangesNothing(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account := world.New(t, d).Account("a")
		store := claimStore(t, d)

		usage := model.CaptchaUsageKey{AccountID: account, Month: 202611}
		keys := ingest.ClaimKeys{Usage: []model.CaptchaUsageKey{usage}, Consumed: []model.ConsumedKey{consumed(account, 1, 1)}}
		ctx, cancel := context.WithCancel(t.Context())
		err := store.Update(ctx, keys, func(*ingest.ClaimState) *ingest.ClaimChanges {
			cancel()
			return &ingest.ClaimChanges{Usage: map[model.CaptchaUsageKey]model.CaptchaUsage{usage: {Used: 1}}}
		})
		if err == nil {
			t.Fatal("a cancelled transaction was committed")
		}

		found := update(t, store, keys, nil)
		if !found.Claimed[keys.Consumed[0]] || found.Usage[usage].Used != 0 {
			t.Errorf("found %+v; want nothing to be there", found)
		}
	})
}

// TestConcurrentClaimStores checks that writers that claim the same keys in any mixture return each
// key once, and never deadlock.
func TestConcurrentClaimStores(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		accountList := []model.AccountID{world.New(t, d).Account("a"), world.New(t, d).Account("b"),
			world.New(t, d).Account("c")}
		const writers, rounds, things = 4, 40, 12
		claimed := make(chan model.ConsumedKey, writers*rounds*things)
		errs := make(chan error, writers)

		for w := range writers {
			go func() {
				random := rand.New(rand.NewPCG(2026, uint64(w)))
				store := claimStore(t, dbtest.Open(t, databaseURL))
				errs <- func() error {
					for round := range rounds {
						var keys ingest.ClaimKeys
						for range things {
							account := accountList[random.IntN(len(accountList))]
							keys.Consumed = append(keys.Consumed, consumed(account, model.Instant(round), byte(random.IntN(10))))
							keys.Usage = append(keys.Usage, model.CaptchaUsageKey{AccountID: account, Month: 202611})
						}

						slices.SortFunc(keys.Consumed, model.ConsumedKey.Compare)
						slices.SortFunc(keys.Usage, model.CaptchaUsageKey.Compare)
						keys.Consumed, keys.Usage = slices.Compact(keys.Consumed), slices.Compact(keys.Usage)
						var mine []model.ConsumedKey
						err := store.Update(t.Context(), keys, func(state *ingest.ClaimState) *ingest.ClaimChanges {
							mine = mine[:0]
							changes := &ingest.ClaimChanges{Usage: state.Usage}

							for key := range state.Claimed {
								mine = append(mine, key)
								u := state.Usage[model.CaptchaUsageKey{AccountID: key.AccountID, Month: 202611}]
								u.Used++
								state.Usage[model.CaptchaUsageKey{AccountID: key.AccountID, Month: 202611}] = u
							}

							return changes
						})
						if err != nil {
							return err
						}

						for _, key := range mine {
							claimed <- key
						}
					}

					return nil
				}()
			}()
		}

		for range writers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}

		close(claimed)
		seen := make(map[model.ConsumedKey]int)
		for key := range claimed {
			seen[key]++
			if seen[key] > 1 {
				t.Errorf("%v was claimed %d times", key, seen[key])
			}
		}

		var used int64
		for _, account := range accountList {
			usage, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202611)
			testkit.NoError(t, err)

			used += usage.Used
		}

		if n, err := dbtest.Count(d, "captcha_spent"); err != nil || n != len(seen) || used != int64(n) {
			t.Errorf("%d claimed, %d stored, %d counted, %v", len(seen), n, used, err)
		}
	})
}

func TestDeleteConsumed(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		addAccounts(t, d)
		store := claimStore(t, d)

		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		edge := now.Add(-model.ConsumedRetention)
		var keys []model.ConsumedKey

		// These are more rows than one transaction deletes.
		for i := range 2_500 {
			keys = append(keys, model.ConsumedKey{AccountID: model.AccountID(i % 3), IssuedAt: edge - 1 - model.Instant(i),
				ID: [16]byte{byte(i), byte(i >> 8)}})
		}

		kept := []model.ConsumedKey{consumed(0, edge, 1), consumed(2, edge, 1), consumed(2, now, 1)}
		keys = append(keys, kept...)
		slices.SortFunc(keys, model.ConsumedKey.Compare)
		update(t, store, ingest.ClaimKeys{Consumed: keys}, nil)

		for _, want := range []int64{2_500, 0} {
			if n, err := retention.New(d).DeleteConsumed(t.Context(), now); err != nil || n != want {
				t.Errorf("%d deleted, %v; want %d", n, err, want)
			}
		}

		if found := update(t, store, ingest.ClaimKeys{Consumed: kept}, nil); len(found.Claimed) != 0 {
			t.Errorf("%v are claimed again", found.Claimed)
		}
	})
}
