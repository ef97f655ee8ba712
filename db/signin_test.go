package db_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

var (
	byAccount = db.SignInLimit{Key: []byte("account"), Free: 5, Cap: 15 * time.Minute, Clear: true}
	byNetwork = db.SignInLimit{Key: []byte("network"), Free: 30, Cap: 15 * time.Minute}
)

func attempt(t *testing.T, d *db.DB, at model.Instant, limits ...db.SignInLimit) time.Duration {
	t.Helper()
	wait, err := d.BeginSignIn(t.Context(), at, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

func TestSignInWaitsDoubleUpToTheCap(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := start
		for i := range 5 {
			if wait := attempt(t, d, now, byAccount); wait != 0 {
				t.Fatalf("attempt %d has to wait %v, want none", i+1, wait)
			}
		}
		want := time.Second
		for range 14 {
			for range 3 { // refused attempts lengthen nothing
				if wait := attempt(t, d, now, byAccount); wait != want {
					t.Fatalf("wait %v, want %v", wait, want)
				}
			}
			if wait := attempt(t, d, now.Add(want-time.Microsecond), byAccount); wait != time.Microsecond {
				t.Fatalf("one moment before the end: wait %v", wait)
			}
			now = now.Add(want)
			if wait := attempt(t, d, now, byAccount); wait != 0 {
				t.Fatalf("after %v: wait %v, want none", want, wait)
			}
			want = min(2*want, 15*time.Minute)
		}
		if want != 15*time.Minute {
			t.Fatalf("the wait grew to %v only", want)
		}
		if wait := attempt(t, d, now.Add(-time.Hour), byAccount); wait != want {
			t.Errorf("after the clock stepped back: wait %v, want %v", wait, want)
		}
		if wait := attempt(t, d, now.Add(24*time.Hour), byAccount); wait != 0 {
			t.Fatalf("a day later: wait %v", wait)
		}
		if wait := attempt(t, d, now.Add(24*time.Hour), byAccount); wait != 0 {
			t.Errorf("the day without failures did not forget them: wait %v", wait)
		}
	})
}

func TestSignInCountsAccountAndNetwork(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		another := byAccount
		another.Key = []byte("another account")
		for range 5 {
			attempt(t, d, start, byNetwork, byAccount)
		}
		if wait := attempt(t, d, start, byAccount, byNetwork); wait != time.Second {
			t.Errorf("the account: wait %v, want 1s", wait)
		}
		if wait := attempt(t, d, start, another, byNetwork); wait != 0 {
			t.Errorf("another account from the same network: wait %v, want none", wait)
		}
		for range 24 { // 6 counted so far; the refused attempt counted nowhere
			attempt(t, d, start, byNetwork)
		}
		if wait := attempt(t, d, start, another, byNetwork); wait != time.Second {
			t.Errorf("after 30 failures from the network: wait %v, want 1s", wait)
		}
	})
}

func TestSignInSuccessClearsTheAccountOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for range 5 {
			attempt(t, d, start, byAccount, byNetwork)
		}
		if err := d.SignInSucceeded(t.Context(), byAccount, byNetwork); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if wait := attempt(t, d, start, byAccount); wait != 0 {
				t.Errorf("attempt %d after a success: wait %v", i+1, wait)
			}
		}
		for range 26 { // 4 failures are left of the 5 attempts
			if wait := attempt(t, d, start, byNetwork); wait != 0 {
				t.Fatalf("the network was charged for a success: wait %v", wait)
			}
		}
		if wait := attempt(t, d, start, byNetwork); wait == 0 {
			t.Error("a success cleared the network's failures")
		}
	})
}

func TestCancelledSignInIsNotCounted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for range 20 {
			if wait := attempt(t, d, start, byAccount); wait != 0 {
				t.Fatalf("wait %v", wait)
			}
			if err := d.CancelSignIn(t.Context(), byAccount); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestParallelGuessesAreAllCounted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				wait, err := d.BeginSignIn(context.Background(), start, byNetwork, byAccount)
				if err != nil {
					t.Error(err)
				}
				if wait == 0 {
					admitted.Add(1)
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n != 5 {
			t.Errorf("%d of 40 parallel guesses were admitted, want 5", n)
		}
	})
}

// A success clears the counter when another attempt has just asked for it.
func TestAnAttemptMeetsASuccess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		attempt(t, d, start, byAccount)
		var wait time.Duration
		begun, succeeded := dbtest.RaceInOrder(t, d, "WHERE", // the first statement makes or locks the row, without one
			func() (err error) {
				wait, err = d.BeginSignIn(t.Context(), start, byAccount)
				return err
			},
			func() error { return d.SignInSucceeded(t.Context(), byAccount) })
		if begun != nil || succeeded != nil || wait != 0 {
			t.Errorf("wait %v, errors %v and %v", wait, begun, succeeded)
		}
		if n, err := dbtest.Count(d, "signin_failures"); n != 0 || err != nil {
			t.Errorf("%d counters are left, %v", n, err)
		}
	})
}

func TestOldSignInFailuresAreCleanedUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		attempt(t, d, start, byAccount)
		attempt(t, d, start.Add(time.Hour), byNetwork)
		if n, err := d.DeleteOldSignInFailures(t.Context(), start.Add(24*time.Hour)); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v; want 1", n, err)
		}
	})
}
