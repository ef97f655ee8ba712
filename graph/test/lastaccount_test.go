package graph_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestLastAccount: a user stores which account the console opens. Only the user reads it, with a
// session, and only while the user belongs to the account. The audit log does not record it, and
// the default account stays the same.
func TestLastAccount(t *testing.T) {
	const (
		read   = `{ viewer { account { name } lastAccount { name } } }`
		choose = `mutation($id: ID!) { updateUser(input: {lastAccountId: $id}) { user { lastAccount { name } } userErrors { field code } } }`
	)

	eachApp(t, func(t *testing.T, a *app) {
		agency, client := a.owner("agency@example.com").rename("Agency"), a.owner("client@example.com").rename("Client")
		a.clock.Add(time.Second)
		agency.query(joinMutation, "token", a.invite(client, "agency@example.com", model.RoleMember)).ok(t, "acceptInvitation")

		expect := func(when, want string) {
			t.Helper()
			agency.query(read).named("%s", when).is(t, want)
		}
		const none = `{"data":{"viewer":{"account":{"name":"Agency"},"lastAccount":null}}}`
		expect("before the first choice", none)

		before := value(dbtest.Count(a.db, "audit_log"))(t)
		got := agency.query(choose, "id", client.account()).ok(t, "updateUser")
		got.named("a choice").has(t, "updateUser.user.lastAccount.name", "Client")
		if after, err := dbtest.Count(a.db, "audit_log"); err != nil || after != before {
			t.Errorf("the audit log has %d entries more, %v", after-before, err)
		}
		expect("after a choice", `{"data":{"viewer":{"account":{"name":"Agency"},"lastAccount":{"name":"Client"}}}}`)

		// The owner of the chosen account does not see the choice of a member, nor does a token.
		got = client.query(`{ account { members { email lastAccount { name } } } }`).ok(t, "")
		for i := range 2 {
			if member := got.at("account.members").([]any)[i].(map[string]any); member["lastAccount"] != nil {
				t.Errorf("the members: %s", got.Body)
			}
		}
		a.with(agency.createToken("READ").secret, read).ok(t, "").named("an API token").is(t, none)

		client.query(choose, "id", agency.account()).
			named("another user's account").fails(t, "updateUser", "lastAccountId:NOT_FOUND")
		agency.query(leaveMutation, "id", client.account()).ok(t, "leaveAccount")
		expect("after leaving", none)
	})
}
