package accounts_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestSignUpStoresUserAndAccount(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first, second := world.New(t, d).User("first@example.com"), world.New(t, d).User("second@example.com")
		if !first.Operator || second.Operator {
			t.Errorf("operators: first %v, second %v; want only the first", first.Operator, second.Operator)
		}

		byEmail, err := accounts.New(d).UserByEmail(t.Context(), "second@example.com")
		testkit.NoError(t, err)

		byID, err := accounts.New(d).Members.Get(t.Context(), second.AccountID, second.ID)
		testkit.NoError(t, err)

		for _, got := range []*model.User{byEmail, byID} {
			if got.ID != second.ID || got.PasswordHash != "hash" || got.CreatedAt != dbtest.Start ||
				got.Account == nil || got.Account.ID != second.AccountID || got.Account.Name != "second@example.com" {
				t.Errorf("got %+v with account %+v, want %+v", got, got.Account, second)
			}
		}

		if _, err := accounts.New(d).UserByEmail(t.Context(), "unknown@example.com"); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("unknown address: %v, want not found", err)
		}
		if _, err := accounts.New(d).Members.Get(t.Context(), second.AccountID, 1<<40); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("unknown id: %v, want not found", err)
		}
	})
}

func TestSignUpTwiceWithOneAddress(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		world.New(t, d).User("owner@example.com")
		_, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen,
			model.Account{Name: "again", CreatedAt: dbtest.Start},
			model.User{Email: "owner@example.com", PasswordHash: "other", CreatedAt: dbtest.Start})
		dbtest.WantCode(t, err, model.Conflict, "email_taken", "email")
		if got, err := accounts.New(d).UserByEmail(t.Context(), "owner@example.com"); err != nil ||
			got.PasswordHash != "hash" {
			t.Errorf("got user %+v, error %v; want the first one untouched", got, err)
		}
	})
}

func TestSignupPolicies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy        model.SignupPolicy
		first, second bool
	}{
		{model.SignupsOpen, true, true},
		{model.SignupsFirstOnly, true, false},
		{model.SignupsClosed, false, false},
	}
	for _, test := range tests {
		t.Run(test.policy.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				for i, want := range []bool{test.first, test.second} {
					open, err := accounts.New(d).SignupsOpen(t.Context(), test.policy)
					if err != nil || open != want {
						t.Errorf("sign-up %d: open is %v, error %v; want %v", i+1, open, err, want)
					}

					_, err = accounts.New(d).SignUp(t.Context(), test.policy, model.Account{Name: "a", CreatedAt: dbtest.Start},
						model.User{Email: fmt.Sprintf("u%d@example.com", i), PasswordHash: "hash", CreatedAt: dbtest.Start})

					if !want {
						dbtest.WantCode(t, err, model.Forbidden, "signups_closed", "")
					} else if err != nil {
						t.Errorf("sign-up %d: %v", i+1, err)
					}
				}
			})
		})
	}
}

func TestConcurrentFirstSignUpsMakeOneOperator(t *testing.T) {
	t.Parallel()
	for _, policy := range []model.SignupPolicy{model.SignupsOpen, model.SignupsFirstOnly} {
		t.Run(policy.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				const people = 12
				users := make([]*model.User, people)
				errs := make([]error, people)

				var wg sync.WaitGroup
				for i := range people {
					wg.Go(func() {
						users[i], errs[i] = accounts.New(d).SignUp(t.Context(), policy, model.Account{Name: "a", CreatedAt: dbtest.Start},
							model.User{Email: fmt.Sprintf("u%d@example.com", i), PasswordHash: "hash", CreatedAt: dbtest.Start})
					})
				}

				wg.Wait()
				operators, admitted := 0, 0

				for i, user := range users {
					switch {
					case errs[i] == nil:
						admitted++

						if user.Operator {
							operators++
						}
					case !errors.Is(errs[i], accounts.ErrSignupsClosed):
						t.Errorf("sign-up %d: %v", i, errs[i])
					}
				}

				want := people

				if policy == model.SignupsFirstOnly {
					want = 1
				}
				if operators != 1 || admitted != want {
					t.Errorf("%d operators of %d admitted, want 1 of %d", operators, admitted, want)
				}
			})
		})
	}
}

func TestSetPasswordHashOnlyReplacesTheOneThatWasRead(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		for _, step := range []struct{ was, hash, want string }{
			{"another", "stale", "hash"},
			{"hash", "fresh", "fresh"},
		} {
			done, err := accounts.New(d).SetPasswordHash(t.Context(), user.ID, step.was, step.hash)
			if err != nil || done != (step.hash == step.want) {
				t.Fatalf("replacing %q: %v, %v", step.was, done, err)
			}
			if got, err := accounts.New(d).UserByEmail(t.Context(), user.Email); err != nil || got.PasswordHash != step.want {
				t.Errorf("replacing %q by %q: got %+v, error %v; want %q", step.was, step.hash, got, err, step.want)
			}
		}
	})
}
