package accounts_test

import (
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestLastOperator checks that an installation keeps an operator, also if the operator is its only
// user, and that a user who is no operator does not count.
func TestLastOperator(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		set := func(email string, operator bool) error {
			return accounts.New(d).SetOperator(t.Context(), email, operator)
		}
		first := world.New(t, d).User("one@example.com").Email
		testkit.NoError(t, set(first, true))
		testkit.ErrorIs(t, set(first, false), accounts.ErrLastOperator, "the only user")

		second := world.New(t, d).User("two@example.com").Email
		testkit.Succeeds(t, set(second, false), "a user who is no operator")
		testkit.ErrorIs(t, set(first, false), accounts.ErrLastOperator, "the only operator")
		testkit.Succeeds(t, errors.Join(set(second, true), set(first, false)), "one of two operators")
	})
}
