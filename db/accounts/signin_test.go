package accounts_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

var (
	byAccount = accounts.SignInLimit{Key: []byte("account"), Free: 5, Cap: 15 * time.Minute, Clear: true}
	byNetwork = accounts.SignInLimit{Key: []byte("network"), Free: 30, Cap: 15 * time.Minute}
)

func attempt(t *testing.T, d *db.DB, at model.Instant, limits ...accounts.SignInLimit) time.Duration {
	t.Helper()
	wait, err := accounts.New(d).SignIns.Begin(t.Context(), at, limits...)
	testkit.NoError(t, err)
	return wait
}

func TestSignInWaitsDoubleUpToTheCap(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		now := dbtest.Start
		for i := range 5 {
			testkit.Require(t, attempt(t, d, now, byAccount), 0, "attempt %d must wait", i+1)
		}

		want := time.Second
		for range 14 {
			// Refused attempts do not extend the wait.
			for range 3 {
				testkit.Require(t, attempt(t, d, now, byAccount), want, "wait")
			}

			testkit.Require(t, attempt(t, d, now.Add(want-time.Microsecond), byAccount), time.Microsecond, "just before the end: wait")

			now = now.Add(want)
			testkit.Require(t, attempt(t, d, now, byAccount), 0, "after %v: wait", want)

			want = min(2*want, 15*time.Minute)
		}

		if want != 15*time.Minute {
			t.Fatalf("the wait grew to %v only", want)
		}
		testkit.Equal(t, attempt(t, d, now.Add(-time.Hour), byAccount), want, "after the clock stepped back: wait")
		testkit.Require(t, attempt(t, d, now.Add(24*time.Hour), byAccount), 0, "a day later: wait")
		testkit.Equal(t, attempt(t, d, now.Add(24*time.Hour), byAccount), 0, "the day without failures did not forget them: wait")
	})
}

func TestSignInCountsAccountAndNetwork(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		another := byAccount
		another.Key = []byte("another account")

		for range 5 {
			attempt(t, d, dbtest.Start, byNetwork, byAccount)
		}

		testkit.Equal(t, attempt(t, d, dbtest.Start, byAccount, byNetwork), time.Second, "the account: wait")
		testkit.Equal(t, attempt(t, d, dbtest.Start, another, byNetwork), 0, "another account from the same network: wait")

		// Six attempts are counted so far; the refused one is not.
		for range 24 {
			attempt(t, d, dbtest.Start, byNetwork)
		}

		testkit.Equal(t, attempt(t, d, dbtest.Start, another, byNetwork), time.Second, "after 30 failures from the network: wait")
	})
}

func TestSignInSuccessClearsTheAccountOnly(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		for range 5 {
			attempt(t, d, dbtest.Start, byAccount, byNetwork)
		}

		testkit.NoError(t, accounts.New(d).SignIns.Succeeded(t.Context(), byAccount, byNetwork))

		for i := range 5 {
			testkit.Equal(t, attempt(t, d, dbtest.Start, byAccount), 0, "attempt %d after a success: wait", i+1)
		}

		// Four failures remain of the five attempts.
		for range 26 {
			testkit.Require(t, attempt(t, d, dbtest.Start, byNetwork), 0, "the network was charged for a success: wait")
		}

		if wait := attempt(t, d, dbtest.Start, byNetwork); wait == 0 {
			t.Error("a success cleared the network's failures")
		}
	})
}

func TestCancelledSignInIsNotCounted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		for range 20 {
			testkit.Require(t, attempt(t, d, dbtest.Start, byAccount), 0, "wait")
			testkit.NoError(t, accounts.New(d).SignIns.Cancel(t.Context(), byAccount))
		}
	})
}

func TestParallelGuessesAreAllCounted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				wait, err := accounts.New(d).SignIns.Begin(context.Background(), dbtest.Start, byNetwork, byAccount)
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

// TestAnAttemptMeetsASuccess checks that a success clears the counter while another attempt is
// being counted.
func TestAnAttemptMeetsASuccess(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		attempt(t, d, dbtest.Start, byAccount)
		var wait time.Duration

		// The statement before this one inserts or locks the row.
		begun, succeeded := dbtest.RaceInOrder(t, d, `UPDATE "signin_failures"`,
			func() (err error) {
				wait, err = accounts.New(d).SignIns.Begin(t.Context(), dbtest.Start, byAccount)
				return err
			},
			func() error { return accounts.New(d).SignIns.Succeeded(t.Context(), byAccount) })
		if begun != nil || succeeded != nil || wait != 0 {
			t.Errorf("wait %v, errors %v and %v", wait, begun, succeeded)
		}
		dbtest.HasRows(t, d, "signin_failures", 0, "counters are left")
	})
}

func TestOldSignInFailuresAreCleanedUp(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		attempt(t, d, dbtest.Start, byAccount)
		attempt(t, d, dbtest.Start.Add(time.Hour), byNetwork)
		if n, err := accounts.New(d).SignIns.DeleteOld(t.Context(),
			dbtest.Start.Add(24*time.Hour)); err != nil || n != 1 {
			t.Fatalf("deleted %d, error %v; want 1", n, err)
		}
	})
}

// TestARefusedAttemptOnlyReads checks that an attempt that must wait costs one read: no
// transaction, no write, no row, also for keys without a counter.
func TestARefusedAttemptOnlyReads(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)

		for range 5 {
			attempt(t, d, dbtest.Start, byAccount, byNetwork)
		}

		statements.Take()
		another := byNetwork
		another.Key = []byte("another network")

		for range 3 {
			testkit.Require(t, attempt(t, d, dbtest.Start, byAccount, another), time.Second, "wait")
		}

		list := statements.Take()
		for _, statement := range list {
			if !strings.HasPrefix(statement, "SELECT") {
				t.Errorf("a refused attempt sends %s", statement)
			}
		}

		if len(list) != 3 {
			t.Errorf("3 refused attempts took %d statements", len(list))
		}
		dbtest.HasRows(t, d, "signin_failures", 2, "counters")
	})
}

// TestNoStepOfTheClockLocksOut checks that after any steps of the clock an attempt waits no longer
// than the rule, and that the returned wait is enough. A step of the clock does not shorten a wait
// that it does not skip.
func TestNoStepOfTheClockLocksOut(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		random := rand.New(rand.NewPCG(1, 0))
		now := dbtest.Start

		steps := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 366 * 24 * time.Hour}
		for i := range 150 {
			step := time.Duration(random.Int64N(int64(2*steps[random.IntN(len(steps))]))) - steps[random.IntN(len(steps))]/2
			now = now.Add(step)

			wait := attempt(t, d, now, byAccount, byNetwork)
			if wait > byAccount.Cap {
				t.Fatalf("step %d, by %v: wait %v, the longest is %v", i, step, wait, byAccount.Cap)
			}

			if wait > 0 {
				if again := attempt(t, d, now.Add(wait-time.Microsecond), byAccount, byNetwork); again != time.Microsecond {
					t.Fatalf("step %d, by %v: just before the end of the wait of %v: wait %v", i, step, wait, again)
				}

				now = now.Add(wait)
				testkit.Require(t, attempt(t, d, now, byAccount, byNetwork), 0, "step %d, by %v: after the wait of %v: wait", i, step, wait)
			}

			failures, err := dbtest.Rows[struct{ Failures int }](d, "SELECT failures FROM signin_failures WHERE key = ?",
				byAccount.Key)
			if err != nil || len(failures) != 1 {
				t.Fatal(failures, err)
			}
			if wait := attempt(t, d, now, byAccount); (wait > 0) != (failures[0].Failures >= byAccount.Free) {
				t.Fatalf("step %d, by %v: with %d failures, the last one now, wait %v", i, step, failures[0].Failures, wait)
			}
		}

		// Housekeeping under the correct clock also ends failures of a wrong clock.
		attempt(t, d, now.Add(1000*24*time.Hour), accounts.SignInLimit{Key: []byte("ahead"), Free: 5, Cap: time.Minute})

		for range 2 {
			if _, err := accounts.New(d).SignIns.DeleteOld(t.Context(), now); err != nil {
				t.Fatal(err)
			}

			now = now.Add(24 * time.Hour)
		}

		dbtest.HasRows(t, d, "signin_failures", 0, "counters are left")
	})
}

// TestTheTableOfFailuresIsBounded checks that a flood of made-up addresses fills the table only to
// its bound, and does not displace the counter of an address under attack.
func TestTheTableOfFailuresIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 100_000
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := dbtest.Start
		for range 7 {
			now = now.Add(attempt(t, d, now, byAccount))
			attempt(t, d, now, byAccount)
		}

		fill := `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO signin_failures (key, failures, last_at) SELECT CAST(CAST(i AS text) AS %s), 1, ? + i FROM n`

		blob := "blob"

		if d.Dialect() == "postgres" {
			blob = "bytea"
		}
		testkit.NoError(t, dbtest.Exec(d, fmt.Sprintf(fill, blob), bound, now))

		// Each attempt of the flood has keys of its own. One process counts the rows that it
		// inserts.
		store := accounts.New(d)
		for i := range 11 {
			limits := make([]accounts.SignInLimit, 100)
			for k := range limits {
				limits[k] = accounts.SignInLimit{Key: binary.BigEndian.AppendUint32([]byte("made up"), uint32(100*i+k)), Free: 5,
					Cap: time.Minute}
			}

			if wait, err := store.SignIns.Begin(t.Context(), now.Add(time.Second), limits...); err != nil || wait != 0 {
				t.Fatalf("a new key must wait %v, %v", wait, err)
			}
		}

		n, err := dbtest.Count(d, "signin_failures")
		if err != nil || n > bound+100 {
			t.Errorf("%d counters, %v; want at most %d, including the last attempt", n, err, bound)
		}
		if wait := attempt(t, d, now, byAccount); wait == 0 {
			t.Error("the flood pushed out the counter of the address")
		}

		rows, err := dbtest.Rows[struct{ Failures, Made int }](d, `SELECT
			(SELECT failures FROM signin_failures WHERE key = ?) AS failures,
			(SELECT count(*) FROM signin_failures WHERE last_at = ?) AS made`, byAccount.Key, now.Add(time.Second))
		if err != nil || rows[0].Failures < 7 || rows[0].Made != 1100 {
			t.Errorf("%+v, %v: want the address with its failures, and the newest of the others", rows, err)
		}
	})
}
