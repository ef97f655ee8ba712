package db_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

func spent(account int64, at model.Instant, id byte) model.SpentKey {
	return model.SpentKey{AccountID: account, IssuedAt: at, ID: [16]byte{id, 0, 0xff}}
}

// update runs one transaction of a store and returns what it found.
func update(t *testing.T, store db.CaptchaStore, keys db.CaptchaKeys, decide func(*db.CaptchaState) *db.CaptchaChanges) *db.CaptchaState {
	t.Helper()

	var found *db.CaptchaState
	err := store.Update(t.Context(), keys, func(state *db.CaptchaState) *db.CaptchaChanges {
		found = state
		if decide == nil {
			return &db.CaptchaChanges{}
		}
		return decide(state)
	})
	if err != nil {
		t.Fatal(err)
	}

	return found
}

func TestCaptchaStoreClaims(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := d.CaptchaStore()
		defer store.Close()

		keys := []model.SpentKey{spent(0, 5, 1), spent(1, 5, 1), spent(1, 5, 2), spent(1, 6, 1)}
		found := update(t, store, db.CaptchaKeys{Spent: keys}, func(*db.CaptchaState) *db.CaptchaChanges {
			return &db.CaptchaChanges{Release: keys[1:2]}
		})
		if len(found.Claimed) != 4 {
			t.Errorf("claimed %v, want all", found.Claimed)
		}

		found = update(t, store, db.CaptchaKeys{Spent: append(keys, spent(2, 1, 1))}, nil)
		if len(found.Claimed) != 2 || !found.Claimed[keys[1]] || !found.Claimed[spent(2, 1, 1)] {
			t.Errorf("claimed %v, want the released and the new one", found.Claimed)
		}
		if n, err := dbtest.Count(d, "captcha_spent"); err != nil || n != 5 {
			t.Errorf("%d rows, %v; want 5", n, err)
		}
	})
}

func TestCaptchaStoreUsage(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		account := dbtest.CaptchaAccount(t, d, "a")
		if err := accounts.New(d).SetCaptchaPlan(t.Context(), account, model.CaptchaPlanPro250K); err != nil {
			t.Fatal(err)
		}

		store := d.CaptchaStore()
		defer store.Close()

		november := model.CaptchaUsageKey{AccountID: account, Month: 202611}
		december := model.CaptchaUsageKey{AccountID: account, Month: 202612}
		gone := model.CaptchaUsageKey{AccountID: account + 100, Month: 202611}
		keys := db.CaptchaKeys{Usage: []model.CaptchaUsageKey{november, december, gone}, Spent: []model.SpentKey{spent(account, 1, 1)}}
		changed := model.CaptchaUsage{Quota: 250_000, Used: 7, ReserveFrom: 8, OverQuota: 9, Noticed: 80}
		notice := db.CaptchaNotice{CaptchaUsageKey: november, Threshold: 80, CreatedAt: 3}
		change := func(*db.CaptchaState) *db.CaptchaChanges {
			return &db.CaptchaChanges{Usage: map[model.CaptchaUsageKey]model.CaptchaUsage{november: changed}, Notices: []db.CaptchaNotice{notice}}
		}

		found := update(t, store, keys, change)
		empty := model.CaptchaUsage{Quota: 250_000}
		if len(found.Usage) != 2 || found.Usage[november] != empty || found.Usage[december] != empty {
			t.Errorf("at first %v", found.Usage)
		}

		// the same notice again
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
			t.Errorf("usage of nobody: %v", err)
		}
		if n, err := dbtest.Count(d, "quota_notices"); err != nil || n != 1 {
			t.Errorf("%d notices, %v; want 1", n, err)
		}
	})
}

// TestFailedTransactionChangesNothing: what fails in the middle leaves no claim behind, and the
// store works on.
func TestFailedTransactionChangesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		account := dbtest.CaptchaAccount(t, d, "a")
		store := d.CaptchaStore()
		defer store.Close()

		usage := model.CaptchaUsageKey{AccountID: account, Month: 202611}
		keys := db.CaptchaKeys{Usage: []model.CaptchaUsageKey{usage}, Spent: []model.SpentKey{spent(account, 1, 1)}}
		ctx, cancel := context.WithCancel(t.Context())
		err := store.Update(ctx, keys, func(*db.CaptchaState) *db.CaptchaChanges {
			cancel()
			return &db.CaptchaChanges{Usage: map[model.CaptchaUsageKey]model.CaptchaUsage{usage: {Used: 1}}}
		})
		if err == nil {
			t.Fatal("a cancelled transaction was committed")
		}

		found := update(t, store, keys, nil)
		if !found.Claimed[keys.Spent[0]] || found.Usage[usage].Used != 0 {
			t.Errorf("found %+v; want nothing to be there", found)
		}
	})
}

// TestCaptchaStoresTakeTurns: writers that claim the same things in any mixture give each away
// once, and deadlock never.
func TestCaptchaStoresTakeTurns(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		accountList := []int64{dbtest.CaptchaAccount(t, d, "a"), dbtest.CaptchaAccount(t, d, "b"), dbtest.CaptchaAccount(t, d, "c")}
		const writers, rounds, things = 4, 40, 12
		claimed := make(chan model.SpentKey, writers*rounds*things)
		errs := make(chan error, writers)

		for w := range writers {
			go func() {
				random := rand.New(rand.NewPCG(2026, uint64(w)))
				store := dbtest.Open(t, databaseURL).CaptchaStore()
				defer store.Close()

				errs <- func() error {
					for round := range rounds {
						var keys db.CaptchaKeys
						for range things {
							account := accountList[random.IntN(len(accountList))]
							keys.Spent = append(keys.Spent, spent(account, model.Instant(round), byte(random.IntN(10))))
							keys.Usage = append(keys.Usage, model.CaptchaUsageKey{AccountID: account, Month: 202611})
						}

						slices.SortFunc(keys.Spent, model.SpentKey.Compare)
						slices.SortFunc(keys.Usage, model.CaptchaUsageKey.Compare)
						keys.Spent, keys.Usage = slices.Compact(keys.Spent), slices.Compact(keys.Usage)
						var mine []model.SpentKey
						err := store.Update(t.Context(), keys, func(state *db.CaptchaState) *db.CaptchaChanges {
							mine = mine[:0]
							changes := &db.CaptchaChanges{Usage: state.Usage}

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
		seen := make(map[model.SpentKey]int)
		for key := range claimed {
			seen[key]++
			if seen[key] > 1 {
				t.Errorf("%v was given away %d times", key, seen[key])
			}
		}

		var used int64
		for _, account := range accountList {
			usage, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202611)
			if err != nil {
				t.Fatal(err)
			}

			used += usage.Used
		}

		if n, err := dbtest.Count(d, "captcha_spent"); err != nil || n != len(seen) || used != int64(n) {
			t.Errorf("%d given away, %d stored, %d counted, %v", len(seen), n, used, err)
		}
	})
}

func TestDeleteSpent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := d.CaptchaStore()
		defer store.Close()

		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		edge := now.Add(-model.SpentRetention)
		var keys []model.SpentKey

		// more than one step
		for i := range 2_500 {
			keys = append(keys, model.SpentKey{AccountID: int64(i % 3), IssuedAt: edge - 1 - model.Instant(i), ID: [16]byte{byte(i), byte(i >> 8)}})
		}

		kept := []model.SpentKey{spent(0, edge, 1), spent(2, edge, 1), spent(2, now, 1)}
		keys = append(keys, kept...)
		slices.SortFunc(keys, model.SpentKey.Compare)
		update(t, store, db.CaptchaKeys{Spent: keys}, nil)

		for _, want := range []int64{2_500, 0} {
			if n, err := retention.New(d).DeleteSpent(t.Context(), now); err != nil || n != want {
				t.Errorf("%d deleted, %v; want %d", n, err, want)
			}
		}

		if found := update(t, store, db.CaptchaKeys{Spent: kept}, nil); len(found.Claimed) != 0 {
			t.Errorf("%v are claimed again", found.Claimed)
		}
	})
}

func TestSetCaptchaPlan(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		account := dbtest.CaptchaAccount(t, d, "a")
		quota := func(want int64) {
			t.Helper()
			if u, err := accounts.New(d).CaptchaUsage(t.Context(), account, 202611); err != nil || u.Quota != want {
				t.Errorf("quota %+v, %v; want %d", u, err, want)
			}
		}

		quota(10_000)
		set := func(plan model.CaptchaPlan) {
			t.Helper()
			if err := accounts.New(d).SetCaptchaPlan(t.Context(), account, plan); err != nil {
				t.Fatal(err)
			}
		}

		set(model.CaptchaPlanPro1M)
		quota(1_000_000)
		set(model.CaptchaPlanEnterprise)
		quota(model.Unlimited)

		if err := accounts.New(d).SetCaptchaPlan(t.Context(), account, "PRO_2M"); model.KindOf(err) != model.Invalid {
			t.Errorf("an unknown plan: %v", err)
		}
		if err := accounts.New(d).SetCaptchaPlan(t.Context(), account+100, model.CaptchaPlanFree); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("nobody's plan: %v", err)
		}

		quota(model.Unlimited)

		if err := dbtest.Exec(d, "UPDATE accounts SET captcha_plan = 'OF_A_NEWER_PROGRAM' WHERE id = ?", account); err != nil {
			t.Fatal(err)
		}

		quota(model.Unlimited)
	})
}

// TestOldCaptchaRecords: counts go after two years.
func TestOldCaptchaRecords(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		account := dbtest.CaptchaAccount(t, d, "a")
		for _, month := range []model.Month{202410, 202411, 202611} {
			if err := dbtest.Exec(d, "INSERT INTO captcha_usage (account_id, month, used) VALUES (?, ?, 1)", account, month); err != nil {
				t.Fatal(err)
			}
		}

		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		if n, err := retention.New(d).DeleteOldRecords(t.Context(), now); err != nil || n != 1 {
			t.Errorf("%d deleted, %v; want 1", n, err)
		}
		if n, err := dbtest.Count(d, "captcha_usage"); err != nil || n != 2 {
			t.Errorf("%d rows, %v; want 2", n, err)
		}
	})
}
