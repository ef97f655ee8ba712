package cells_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// captchaTables are the tables of a cell with rows of accounts.
var captchaTables = []string{"captcha_usage", "captcha_spent"}

// exec runs a statement of a test on the common tables or the tables of the default cell.
func exec(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	execIn(t, d.DefaultCell(), statement, args...)
}

// execIn is exec on the tables of a cell.
func execIn(t *testing.T, cell *db.Cell, statement string, args ...any) {
	t.Helper()
	if _, err := cell.Write.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// openWith is open with both cells open for accounts, of which it creates some in the second one.
func openWith(t *testing.T, databaseURL string, names ...string) (d *db.DB, ids []model.AccountID) {
	t.Helper()
	d = open(t, databaseURL)
	world.New(t, d).User("operator@example.com")
	for _, name := range names {
		ids = append(ids, world.New(t, d).User(name+"@example.com").AccountID)
	}
	exec(t, d, "UPDATE cells SET open = true")
	return d, ids
}

// claim stores claims of an account as the data plane does: at a time, and numbered from one number
// on.
const claim = `INSERT INTO captcha_spent (account_id, issued_at, id)
SELECT ?, ?, decode(lpad(to_hex(n), 32, '0'), 'hex') FROM generate_series(?, ?::int) n`

// fillAccount gives an account usage in three months, claims, and one that is expired.
func fillAccount(t *testing.T, d *db.DB, cell int64, account model.AccountID) {
	t.Helper()
	c := in(t, d, cell)
	for i, month := range []model.Month{202609, 202610, now.Month()} {
		execIn(t, c, "INSERT INTO captcha_usage VALUES (?, ?, ?, ?, ?, ?)", account, month, 9000+i, 10+i, 20+i, 80)
	}
	execIn(t, c, claim, account, now.Add(-time.Minute), 1, 2_000)
	execIn(t, c, claim, account, now.Add(-2*model.ConsumedRetention), 1, 1)
}

// captchaIn returns an account's rows in each table of a cell.
func captchaIn(t *testing.T, d *db.DB, cell int64, account model.AccountID) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, table := range captchaTables {
		var rows []map[string]any
		err := in(t, d, cell).Read.NewSelect().Table(table).Where("account_id = ?", account).Scan(t.Context(), &rows)
		testkit.NoError(t, err)
		for _, row := range rows {
			all[table] = append(all[table], fmt.Sprint(row))
		}
		slices.Sort(all[table])
	}
	return all
}

// progress returns the state of an account's move and of the account.
func progress(t *testing.T, d *db.DB, account model.AccountID) string {
	t.Helper()
	states, err := dbtest.Rows[struct{ State string }](d, `SELECT concat(coalesce(m.state, 'none'), ' ', a.cell, ' ', a.cell_closed::text) AS state
		FROM accounts a LEFT JOIN account_moves m ON m.account_id = a.id WHERE a.id = ?`, account)
	if err != nil || len(states) != 1 {
		t.Fatalf("states %v, %v", states, err)
	}
	return states[0].State
}

// TestAccountMoveIsContinued moves an account by processes that stop: each step is ended once
// before each of its statements, and then done by another process. Afterwards the new cell has
// exactly the rows that the former one had.
func TestAccountMoveIsContinued(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.CellURL(t)
	d, ids := openWith(t, databaseURL, "moved", "other")
	moved, other := ids[0], ids[1]
	fillAccount(t, d, 2, moved)
	fillAccount(t, d, 2, other)
	fillAccount(t, d, 1, other)
	before := captchaIn(t, d, 2, moved)
	if len(before["captcha_usage"]) != 3 || len(before["captcha_spent"]) != 2_001 {
		t.Fatal("the account has other rows than expected")
	}

	// What an abandoned move could have left.
	exec(t, d, "INSERT INTO captcha_usage (account_id, month, used) VALUES (?, 202611, 4)", moved)
	exec(t, d, claim, moved, now.Add(-time.Minute), 7, 9)

	testkit.NoError(t, cells.New(d).BeginAccount(t.Context(), moved, 1))
	states := []string{progress(t, d, moved)}
	for cut, done := 1, false; !done; cut++ {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := open(t, databaseURL)
		dbtest.SetClock(stopped, now.Time)
		statements := 0
		dbtest.OnStatement(stopped, func(string) {
			if statements++; statements == cut {
				cancel()
			}
		})
		_, err := cells.New(stopped).AdvanceAccount(ctx, moved)
		done = statements < cut && err == nil && len(states) > 2
		cancel()
		if err := stopped.Close(); err != nil {
			t.Error(err)
		}

		if state := progress(t, d, moved); state != states[len(states)-1] {
			states, cut = append(states, state), 0
		}
	}
	if want := []string{"copying 2 false", "closed 2 true", "switched 1 false"}; !slices.Equal(states, want) {
		t.Errorf("states %q, want %q", states, want)
	}

	for _, cell := range []int64{1, 2} {
		if got := captchaIn(t, d, cell, moved); !reflect.DeepEqual(got, before) {
			t.Errorf("cell %d has %d and %d rows, want the account's for a minute", cell, len(got["captcha_usage"]), len(got["captcha_spent"]))
		}
	}

	// The worker deletes those of the former cell later, and a process that stops meanwhile leaves
	// the rest.
	if n, err := cells.New(d).Continue(t.Context()); n != 0 || err != nil {
		t.Errorf("%d moves finished at once, error %v; want none", n, err)
	}
	execIn(t, in(t, d, 2), claim, moved, now.Add(-2*time.Minute), 1, 11_000)
	dbtest.SetClock(d, now.Add(2*time.Minute).Time)
	if done, err := cells.New(d).AdvanceAccount(t.Context(), moved); done || err != nil {
		t.Errorf("the first part of the rows: done %v, %v", done, err)
	}
	if n, err := cells.New(d).Continue(t.Context()); n != 1 || err != nil {
		t.Errorf("%d moves finished, error %v; want one", n, err)
	}
	testkit.Equal(t, progress(t, d, moved), "none 1 false", "state")
	if n := countRows(t, d, 2, moved); n != 0 {
		t.Errorf("the former cell still has %d rows", n)
	}
	if got := captchaIn(t, d, 1, moved); !reflect.DeepEqual(got, before) {
		t.Errorf("after all the new cell has %d and %d rows", len(got["captcha_usage"]), len(got["captcha_spent"]))
	}
	for _, cell := range []int64{1, 2} {
		if n := countRows(t, d, cell, other); n != 3+2_000+1 {
			t.Errorf("another account has %d rows in cell %d", n, cell)
		}
	}
}

// countRows returns the number of an account's rows in a cell.
func countRows(t *testing.T, d *db.DB, cell int64, account model.AccountID) (all int64) {
	t.Helper()
	for _, table := range captchaTables {
		n, err := in(t, d, cell).Read.NewSelect().Table(table).Where("account_id = ?", account).Count(t.Context())
		testkit.NoError(t, err)
		all += n
	}
	return all
}

// keepNew makes the latest cell an hour younger than it is. On a busy machine the cell would be
// known to all processes before a test has looked.
const keepNew = "UPDATE cells SET created_at = created_at + 3600000000 WHERE id = (SELECT max(id) FROM cells)"

// TestAccountMoveIsRefused checks moves that cannot begin, and change nothing.
func TestAccountMoveIsRefused(t *testing.T) {
	t.Parallel()
	d, ids := openWith(t, dbtest.CellURL(t), "a")
	account, store := ids[0], cells.New(d)
	fillAccount(t, d, 2, account)
	before := captchaIn(t, d, 2, account)
	refused := func(account model.AccountID, to int64, want string) {
		t.Helper()
		state := progress(t, d, ids[0])
		if err := store.MoveAccount(t.Context(), account, to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("move account %d to cell %d: %v, want %q", account, to, err, want)
		}
		if got := progress(t, d, ids[0]); got != state || !reflect.DeepEqual(captchaIn(t, d, 2, ids[0]), before) {
			t.Errorf("move account %d to cell %d: the account changed from %q to %q", account, to, state, got)
		}
	}

	refused(account, 9, "there is no cell 9")
	refused(account, 2, "the account is in cell 2 already")
	refused(account+1, 1, model.ErrNotFound.Error())
	testkit.NoError(t, store.SetOpen(t.Context(), 1, false))
	refused(account, 1, "cell 1 takes no new accounts: open it first")
	exec(t, d, "UPDATE cells SET open = true")

	testkit.NoError(t, store.BeginAccount(t.Context(), account, 1))
	if _, err := store.Add(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	exec(t, d, keepNew)
	refused(account, 3, "the cell is new")
	exec(t, d, "UPDATE cells SET created_at = 0")
	refused(account, 3, "an earlier move from cell 2 to cell 1 is not finished")

	// A move that has begun goes on when the cell is closed, and a further one needs its end.
	exec(t, d, "UPDATE cells SET open = false WHERE id = 1")
	if err := store.MoveAccount(t.Context(), account, 1); err != nil {
		t.Error(err)
	}
	refused(account, 3, "an earlier move from cell 2 to cell 1 is not finished")

	list, err := store.List(t.Context())
	if err != nil || list[0].Accounts != 1 || list[1].Accounts != 1 || list[2].Accounts != 0 {
		t.Errorf("cells %+v, %v", list, err)
	}

	sqlite := dbtest.Open(t, dbtest.SQLiteURL(t))
	testkit.ErrorIs(t, cells.New(sqlite).MoveAccount(t.Context(), 1, 2), cells.ErrSQLite, "move an account on SQLite")
}

// TestAccountMoveWaits moves an account while transactions are in progress that have read that it
// is open. The move waits for them, and copies what they store. The claims of others do not wait.
func TestAccountMoveWaits(t *testing.T) {
	t.Parallel()
	for _, table := range captchaTables {
		t.Run(table, func(t *testing.T) {
			d, ids := openWith(t, dbtest.CellURL(t), "moved", "other")
			fillAccount(t, d, 2, ids[0])
			cell := in(t, d, 2)

			late := map[string]string{
				"captcha_usage": fmt.Sprintf("UPDATE captcha_usage SET used = 9999 WHERE account_id = %d AND month = %d", ids[0], now.Month()),
				"captcha_spent": fmt.Sprintf("INSERT INTO captcha_spent VALUES (%d, %d, '0123456789abcdef')", ids[0], now),
			}[table]
			moved := make(chan error, 1)
			err := cell.InTx(t.Context(), func(ctx context.Context, tx *db.CellTx) error {
				if _, err := tx.ExecContext(ctx, late); err != nil {
					return err
				}
				go func() { moved <- cells.New(d).MoveAccount(t.Context(), ids[0], 1) }()
				for progress(t, d, ids[0]) != "closed 2 true" {
					select {
					case err := <-moved:
						t.Fatalf("the move ended: %v", err)
					case <-time.After(time.Millisecond):
					}
				}

				// Later transactions come and go.
				for i := range 30 {
					execIn(t, cell, claim, ids[1], now, i, i)
					select {
					case err := <-moved:
						t.Errorf("the move did not wait: %v", err)
						return nil
					default:
					}
				}
				dbtest.SetClock(d, now.Add(time.Minute).Time)
				return nil
			})
			testkit.NoError(t, err)
			testkit.NoError(t, <-moved)

			// The minute of readers begins with the switch, not with the wait.
			at, err := dbtest.Rows[struct{ At model.Instant }](d, "SELECT switched_at AS at FROM account_moves WHERE account_id = ?", ids[0])
			if err != nil || len(at) != 1 || at[0].At != now.Add(time.Minute) {
				t.Errorf("switched at %v, %v", at, err)
			}
			if got, want := captchaIn(t, d, 1, ids[0]), captchaIn(t, d, 2, ids[0]); !reflect.DeepEqual(got, want) ||
				len(got["captcha_spent"])+len(got["captcha_usage"]) < 2_004 {
				t.Errorf("the new cell has other rows: %v, want %v", got, want)
			}
		})
	}
}

// TestDeletedWhileMoved deletes an account in each state of its move. No usage is left in any cell,
// and the claims of a sitekey that it gave away stay in its cell.
func TestDeletedWhileMoved(t *testing.T) {
	t.Parallel()
	for steps, wantCell := range []int64{2, 2, 1} {
		t.Run(fmt.Sprint("after step ", steps), func(t *testing.T) {
			d, ids := openWith(t, dbtest.CellURL(t), "moved", "other")
			fillAccount(t, d, 2, ids[0])
			fillAccount(t, d, 2, ids[1])
			key, _, err := sites.New(d).Sitekeys.CreateSitekey(t.Context(), ids[0], "Form", nil, now)
			if err == nil {
				_, err = sites.New(d).Sitekeys.TransferSitekey(t.Context(), key.ID, ids[0], ids[1])
			}
			if err == nil {
				err = cells.New(d).BeginAccount(t.Context(), ids[0], 1)
			}
			for range steps {
				if err == nil {
					_, err = cells.New(d).AdvanceAccount(t.Context(), ids[0])
				}
			}
			testkit.NoError(t, err)

			owner, err := accounts.New(d).UserByEmail(t.Context(), "moved@example.com")
			if err == nil {
				err = accounts.New(d).DeleteAccount(t.Context(), owner, now)
			}
			testkit.NoError(t, err)
			for _, cell := range []int64{1, 2} {
				if n := len(captchaIn(t, d, cell, ids[0])["captcha_usage"]); n != 0 {
					t.Errorf("cell %d has usage of %d months", cell, n)
				}
			}
			if n := countRows(t, d, 2, ids[1]); n != 3+2_000+1 {
				t.Errorf("the other account has %d rows", n)
			}

			// The move ends with the account, and its claims are in the cell that is recorded.
			if n, err := cells.New(d).Continue(t.Context()); n != 0 || err != nil {
				t.Errorf("%d moves finished, %v", n, err)
			}
			found, err := sites.New(d).Lookup.SitekeyByKey(t.Context(), key.Sitekey)
			if err != nil || found.ClaimCell != wantCell || len(captchaIn(t, d, wantCell, ids[0])["captcha_spent"]) != 2_001 {
				t.Errorf("the sitekey %+v, %v", found, err)
			}
		})
	}
}
