package accounts_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestSuspensionMailsTheOwners checks that only the owners of an account get a mail when it is
// suspended and when it is resumed. Another reason or a repeated call sends no mail.
func TestSuspensionMailsTheOwners(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		operator, owner := world.New(t, d).User("operator@example.com"), world.New(t, d).User("owner@example.com")
		addMember(t, d, owner.AccountID, "member@example.com", model.RoleMember)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE users SET operator = (id = ?)", operator.ID))

		store, now := accounts.New(d), dbtest.Start
		suspend := func(reason string) error {
			_, err := store.Suspend(t.Context(), owner.AccountID, reason, now)
			return err
		}
		resume := func() error {
			_, err := store.Resume(t.Context(), owner.AccountID, now)
			return err
		}

		suspended := fmt.Sprintf(`pending owner@example.com account_suspended {"at":%d,"reason":"Spam"}`, now)
		both := suspended + "; pending owner@example.com account_resumed {}"
		for i, step := range []struct {
			do   func() error
			want string
		}{
			{resume, ""},
			{func() error { return suspend("Spam") }, suspended},
			{func() error { return suspend("Much spam") }, suspended},
			{resume, both},
			{resume, both},
		} {
			if err := step.do(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			testkit.Equal(t, mails(t, d), step.want, "step %d", i)
		}
	})
}
