package graph_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	joinMutation = `mutation($token: String!, $password: String) { acceptInvitation(input: {token: $token, password: $password}) {
		viewer { email role account { name } accounts { name viewerRole } } userErrors { field code } } }`
	leaveMutation = `mutation($id: ID!) { leaveAccount(input: {accountId: $id}) {
		accountId viewer { account { name } accounts { name } } userErrors { field code } } }`
	createAccountMutation = `mutation($name: String!) { createAccount(input: {name: $name}) {
		account { id name viewerRole } userErrors { field code } } }`
	ownAccountsQuery = `{ viewer { role account { name } accounts { name viewerRole } } }`
)

// account returns the id of the caller's default account.
func (c *client) account() string {
	c.t.Helper()
	return c.query(`{ viewer { account { id } } }`).ok(c.t, "").at("viewer.account.id").(string)
}

// rename names the caller's default account.
func (c *client) rename(name string) *client {
	c.t.Helper()
	c.query(`mutation($name: String!) { updateAccount(input: {name: $name}) { account { name } userErrors { code } } }`, "name", name).
		ok(c.t, "updateAccount")
	return c
}

// invite invites an address to the default account of an owner, and returns the mailed secret.
func (a *app) invite(owner *client, email string, role model.Role) string {
	a.t.Helper()
	owner.query(inviteMutation, "email", email, "role", role).ok(a.t, "inviteMember")
	return a.mailedSecret(email)
}

// TestRolesInEachAccount calls every field that takes an id as a viewer of the default account who
// owns another one, with the ids of both. The role in the account of the id decides.
func TestRolesInEachAccount(t *testing.T) {
	t.Parallel()
	fields, operation := byID()
	rules := fieldRules

	// The fields whose objects belong to a person, and the one that would end the test.
	personal := map[string]bool{
		"revokeApiToken": true, "revokeSession": true, "leaveAccount": true, "renamePasskey": true, "deletePasskey": true,
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		a.owner("operator@example.com")
		seen, owned := a.tenant("first.example"), a.tenant("second.example")
		person := a.join(seen.owner, "agency@example.com", model.RoleViewer)
		person.query(joinMutation, "token", a.invite(owned.owner, "agency@example.com", model.RoleOwner)).ok(t, "acceptInvitation")

		idsOf := func(tenant *tenant, f *ast.FieldDefinition) func(name string) string {
			return func(name string) string {
				switch {
				case name != "id":
					return tenant.ids[name]
				case f.Name == "sitekey":
					return tenant.ids["sitekeyId"]
				case f.Name == "account":
					return tenant.ids["accountId"]
				}
				return tenant.ids["siteId"]
			}
		}

		before := a.dump("signin_failures")
		for _, f := range fields {
			if personal[f.Name] || rules[f.Name].role < member && !rules[f.Name].operator {
				continue
			}
			if got := person.call(t, operation[f.Name], f, idsOf(seen, f)); got.codes() != "FORBIDDEN" {
				t.Errorf("a viewer calls %s: %s", f.Name, got.Body)
			}
		}
		if after := a.dump("signin_failures"); after != before {
			t.Errorf("the refused calls changed something:\n%s\nwas\n%s", after, before)
		}

		for _, f := range fields {
			if personal[f.Name] || rules[f.Name].operator {
				continue
			}
			a.clock.Add(time.Minute)

			got := person.call(t, operation[f.Name], f, idsOf(owned, f))
			if strings.Contains(got.Body, "NOT_FOUND") || got.codes() != "" || got.at(f.Name) == nil {
				t.Errorf("the owner calls %s: %s", f.Name, got.Body)
			}
			if rules[f.Name].role != viewer {
				continue
			}
			if got := person.call(t, operation[f.Name], f, idsOf(seen, f)); got.codes() != "" || got.at(f.Name) == nil {
				t.Errorf("a viewer calls %s: %s", f.Name, got.Body)
			}
		}
	})
}

// TestNodesOfSeveralAccounts: node returns the objects of each account of the caller, and
// invitations only of those that the caller owns.
func TestNodesOfSeveralAccounts(t *testing.T) {
	t.Parallel()
	const query = `query($id: ID!) { node(id: $id) { id } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		seen, owned, foreign := a.tenant("first.example"), a.tenant("second.example"), a.tenant("third.example")
		person := a.join(seen.owner, "agency@example.com", model.RoleViewer)
		person.query(joinMutation, "token", a.invite(owned.owner, "agency@example.com", model.RoleOwner)).ok(t, "acceptInvitation")

		for name, id := range seen.ids {
			hidden := map[string]bool{"invitationId": true, "apiTokenId": true, "sessionId": true, "passkeyId": true}[name]
			if got := person.query(query, "id", id); (got.at("node") == nil) != hidden {
				t.Errorf("%s of the first account: %s", name, got.Body)
			}

			hidden = map[string]bool{"apiTokenId": true, "sessionId": true, "passkeyId": true}[name]
			if got := person.query(query, "id", owned.ids[name]); (got.at("node") == nil) != hidden {
				t.Errorf("%s of the second account: %s", name, got.Body)
			}
			if got := person.query(query, "id", foreign.ids[name]); got.at("node") != nil {
				t.Errorf("%s of an account of others: %s", name, got.Body)
			}
		}

		// A token acts in its account only.
		token := person.query(`mutation($id: ID!) { createApiToken(input: {accountId: $id, name: "t", scopes: [READ]}) {
			apiToken { accountId } token userErrors { code } } }`, "id", owned.ids["accountId"]).ok(t, "createApiToken")
		if token.at("createApiToken.apiToken.accountId") != owned.ids["accountId"] {
			t.Errorf("the token: %s", token.Body)
		}

		secret := token.at("createApiToken.token").(string)
		ask := func(id string) *answer {
			return a.with(secret, strings.Replace(query, "$id: ID!", `$id: ID = "`+id+`"`, 1))
		}
		if got := ask(owned.ids["siteId"]); got.at("node.id") != owned.ids["siteId"] {
			t.Errorf("the token reads a site of its account: %s", got.Body)
		}
		for _, name := range []string{"siteId", "accountId", "userId", "sitekeyId", "deliveryId"} {
			if got := ask(seen.ids[name]); got.at("node") != nil {
				t.Errorf("the token reads %s of another account of its user: %s", name, got.Body)
			}
		}

		got := a.with(secret, `{ viewer { role accounts { name } } sites(accountId: "`+seen.ids["accountId"]+`") { totalCount } }`)
		if got.Body != `{"data":{"viewer":{"role":"OWNER","accounts":[{"name":"Example"}]},"sites":null}}` {
			t.Errorf("the token sees %s", got.Body)
		}
	})
}

// TestJoiningWithAUser: a person who has a user joins another account with the session or with the
// password.
func TestJoiningWithAUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		client := a.owner("client@example.com").rename("Client")
		other := a.owner("other@example.com").rename("Other")
		person := a.owner("agency@example.com").rename("Agency")
		a.clock.Add(time.Second)

		// The payload is the same for every address.
		for _, email := range []string{"agency@example.com", "unknown@example.com"} {
			got := client.query(inviteMutation, "email", email, "role", "MEMBER").ok(t, "inviteMember")
			if got.at("inviteMember.invitation.email") != email || got.at("inviteMember.invitation.role") != "MEMBER" {
				t.Errorf("inviting %s: %s", email, got.Body)
			}
		}

		// The payload shows the account that was joined, and the default account stays.
		got := person.query(joinMutation, "token", a.mailedSecret("agency@example.com")).ok(t, "acceptInvitation")
		if got.at("acceptInvitation.viewer.account.name") != "Client" || got.at("acceptInvitation.viewer.role") != "MEMBER" {
			t.Errorf("joining: %s", got.Body)
		}

		got = person.query(ownAccountsQuery)
		if want := `{"data":{"viewer":{"role":"OWNER","account":{"name":"Agency"},"accounts":[` +
			`{"name":"Agency","viewerRole":"OWNER"},{"name":"Client","viewerRole":"MEMBER"}]}}}`; got.Body != want {
			t.Errorf("after joining: %s", got.Body)
		}

		// Without a session, the password of the user is required.
		invited := a.invite(other, "agency@example.com", model.RoleViewer)
		browser := a.client()
		for _, try := range []struct {
			password any
			want     string
		}{
			{nil, "password:PASSWORD_REQUIRED"}, {"", "password:WRONG_CREDENTIALS"},
			{"not the password", "password:WRONG_CREDENTIALS"}, {strings.Repeat("x", 2000), "password:WRONG_CREDENTIALS"},
		} {
			if got := browser.query(joinMutation, "token", invited, "password", try.password); got.userErrors("acceptInvitation") != try.want {
				t.Errorf("with the password %v: %s", try.password, got.Body)
			}
		}
		if browser.viewer() != "" {
			t.Error("a wrong password signs in")
		}

		// The session of another user does not count.
		if got := client.query(joinMutation, "token", invited); got.userErrors("acceptInvitation") != "password:PASSWORD_REQUIRED" {
			t.Errorf("as another user: %s", got.Body)
		}

		got = browser.query(joinMutation, "token", invited, "password", password).ok(t, "acceptInvitation")
		if got.at("acceptInvitation.viewer.account.name") != "Other" || got.at("acceptInvitation.viewer.role") != "VIEWER" ||
			browser.viewer() != "agency@example.com" {
			t.Errorf("with the password: %s", got.Body)
		}

		// Lists, and new objects, of a chosen account.
		const sites = `query($id: ID) { sites(accountId: $id) { edges { node { domain } } } sitekeys(accountId: $id) { totalCount } }`
		const create = `mutation($id: ID, $domain: String!) { createSite(input: {accountId: $id, domain: $domain}) {
			site { domain } userErrors { field code } } }`
		const key = `mutation($id: ID) { createSitekey(input: {accountId: $id, name: "form"}) { sitekey { name } userErrors { field code } } }`

		person.query(create, "id", client.account(), "domain", "client.example").ok(t, "createSite")
		person.query(key, "id", client.account()).ok(t, "createSitekey")
		person.query(create, "id", nil, "domain", "agency.example").ok(t, "createSite")
		if got := person.query(create, "id", other.account(), "domain", "other.example"); got.codes() != "FORBIDDEN" {
			t.Errorf("a viewer creates a site: %s", got.Body)
		}

		for id, want := range map[any]string{
			client.account(): `{"data":{"sites":{"edges":[{"node":{"domain":"client.example"}}]},"sitekeys":{"totalCount":1}}}`,
			other.account():  `{"data":{"sites":{"edges":[]},"sitekeys":{"totalCount":0}}}`,
			nil:              `{"data":{"sites":{"edges":[{"node":{"domain":"agency.example"}}]},"sitekeys":{"totalCount":0}}}`,
		} {
			if got := person.query(sites, "id", id); got.Body != want {
				t.Errorf("the lists of %v: %s", id, got.Body)
			}
		}

		// No other member sees the person's accounts.
		got = client.query(`{ viewer { account { members { email accounts { name viewerRole } } } } }`)
		if strings.Contains(got.Body, "Agency") || strings.Contains(got.Body, "Other") {
			t.Errorf("another member sees %s", got.Body)
		}
	})
}

// TestInvitingAMemberAgain: neither an invitation nor its acceptance makes a second membership.
func TestInvitingAMemberAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, person := a.owner("owner@example.com"), a.owner("agency@example.com")
		secret := a.invite(owner, "agency@example.com", model.RoleMember)

		// Two tabs.
		answers := make([]*answer, 2)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = person.query(joinMutation, "token", secret) })
		}
		wg.Wait()

		codes := answers[0].userErrors("acceptInvitation") + answers[1].userErrors("acceptInvitation")
		if codes != "token:INVALID_TOKEN" {
			t.Errorf("twice: %s, %s", answers[0].Body, answers[1].Body)
		}
		if got := owner.query(inviteMutation, "email", "agency@example.com", "role", "OWNER"); got.userErrors("inviteMember") != "email:ALREADY_MEMBER" {
			t.Errorf("inviting a member: %s", got.Body)
		}
		if n, err := dbtest.Count(d, "memberships"); err != nil || n != 3 {
			t.Errorf("%d memberships, %v; want 3", n, err)
		}
	})
}

// TestLeaving: a person who leaves keeps the user, the session and the other accounts; the last one
// takes the user with it.
func TestLeaving(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		a.owner("operator@example.com")
		owner := a.owner("owner@example.com").rename("Client")
		person := a.owner("agency@example.com").rename("Agency")
		a.clock.Add(time.Second)
		person.query(joinMutation, "token", a.invite(owner, "agency@example.com", model.RoleMember)).ok(t, "acceptInvitation")

		site := owner.siteOf("client.example")
		own := person.siteOf("agency.example")
		const subscribe = `mutation($id: ID!) { setOwnAlertChannel(input: {siteId: $id, weekly: true}) { userErrors { code } }
			setReportView(input: {siteId: $id, preset: TODAY}) { userErrors { code } }
			hideSiteNotices(input: {siteId: $id, rejections: 1, usage: 0}) { userErrors { code } } }`
		person.query(subscribe, "id", site).ok(t, "setOwnAlertChannel")
		person.query(subscribe, "id", own).ok(t, "setOwnAlertChannel")

		const createToken = `mutation($id: ID) { createApiToken(input: {accountId: $id, name: "t", scopes: [READ]}) { token userErrors { code } } }`
		inClient := person.query(createToken, "id", owner.account()).ok(t, "createApiToken").at("createApiToken.token").(string)
		inOwn := person.query(createToken, "id", nil).ok(t, "createApiToken").at("createApiToken.token").(string)

		// The notice of a new password is not revoked by leaving.
		person.query(`mutation($was: String!, $new: String!) { changePassword(input: {currentPassword: $was, password: $new}) { userErrors { code } } }`,
			"was", password, "new", "a new long password").ok(t, "changePassword")

		got := person.query(leaveMutation, "id", owner.account()).ok(t, "leaveAccount")
		if want := `"viewer":{"account":{"name":"Agency"},"accounts":[{"name":"Agency"}]}`; !strings.Contains(got.Body, want) {
			t.Errorf("leaving: %s", got.Body)
		}
		if got := person.query(`query($id: ID!) { site(id: $id) { domain } }`, "id", site); got.at("site") != nil {
			t.Errorf("after leaving, a site: %s", got.Body)
		}
		if got := a.with(inClient, `{ viewer { email } }`); got.codes() != "UNAUTHENTICATED" {
			t.Errorf("the token of the account that was left: %s", got.Body)
		}
		a.with(inOwn, `{ viewer { email } }`).ok(t, "")
		for table, want := range map[string]int{"alert_channels": 1, "report_views": 1, "hidden_notices": 1, "api_tokens": 1, "memberships": 3, "users": 3} {
			if n, err := dbtest.Count(d, table); err != nil || n != want {
				t.Errorf("%d rows of %s, %v; want %d", n, table, err, want)
			}
		}
		if got := person.query(leaveMutation, "id", owner.account()); got.userErrors("leaveAccount") != "accountId:NOT_FOUND" {
			t.Errorf("leaving again: %s", got.Body)
		}

		type row struct{ AccountID model.AccountID }
		mails, err := dbtest.Rows[row](d, "SELECT account_id FROM mails WHERE recipient = 'agency@example.com' AND kind = 'password_changed'")
		if err != nil || len(mails) != 1 || mails[0].AccountID != 3 {
			t.Errorf("notices of the new password: %v, %v", mails, err)
		}

		// The last owner stays, and the last membership is the user's.
		if got := person.query(leaveMutation, "id", person.account()); got.userErrors("leaveAccount") != "accountId:LAST_OWNER" {
			t.Errorf("the last owner leaves: %s", got.Body)
		}

		guest := a.join(owner, "guest@example.com", model.RoleViewer)
		got = guest.query(leaveMutation, "id", guest.account()).ok(t, "leaveAccount")
		if got.at("leaveAccount.viewer") != nil || guest.viewer() != "" {
			t.Errorf("leaving the only account: %s", got.Body)
		}
		if got := guest.signIn("guest@example.com", password); got.userErrors("signIn") != ":WRONG_CREDENTIALS" {
			t.Errorf("a deleted user signs in: %s", got.Body)
		}
	})
}

// TestRemovingAndDeletingKeepPeopleOfOtherAccounts: an owner cannot delete the user of a person who
// belongs to another account.
func TestRemovingAndDeletingKeepPeopleOfOtherAccounts(t *testing.T) {
	t.Parallel()
	const remove = `mutation($account: ID, $id: ID!) { removeMember(input: {accountId: $account, userId: $id}) { member { email } userErrors { field code } } }`
	const deletion = `mutation($account: ID, $password: String!) { deleteAccount(input: {accountId: $account, password: $password}) {
		accountId userErrors { field code } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		operator := a.owner("operator@example.com").rename("Operator")
		owner := a.owner("owner@example.com").rename("Client")
		only := a.join(owner, "only@example.com", model.RoleMember)
		person := a.owner("agency@example.com").rename("Agency")
		join := func() {
			t.Helper()
			a.clock.Add(time.Hour)
			person.query(joinMutation, "token", a.invite(owner, "agency@example.com", model.RoleOwner)).ok(t, "acceptInvitation")
		}

		join()
		owner.query(remove, "account", nil, "id", person.id()).ok(t, "removeMember")
		if got := person.query(ownAccountsQuery); strings.Contains(got.Body, "Client") || got.at("viewer.account.name") != "Agency" {
			t.Errorf("after the removal: %s", got.Body)
		}

		// The operator is a member of the account too, and outlives it.
		join()
		operator.query(joinMutation, "token", a.invite(owner, "operator@example.com", model.RoleViewer)).ok(t, "acceptInvitation")
		id := owner.account()
		if got := person.query(deletion, "account", id, "password", "not the password"); got.userErrors("deleteAccount") != "password:WRONG_CREDENTIALS" {
			t.Errorf("with a wrong password: %s", got.Body)
		}
		if got := operator.query(deletion, "account", id, "password", password); got.codes() != "FORBIDDEN" {
			t.Errorf("a viewer deletes an account: %s", got.Body)
		}
		if got := person.query(deletion, "account", id, "password", password).ok(t, "deleteAccount"); got.at("deleteAccount.accountId") != id {
			t.Errorf("deleting: %s", got.Body)
		}

		for name, c := range map[string]*client{"Agency": person, "Operator": operator} {
			if got := c.query(ownAccountsQuery); strings.Count(got.Body, "viewerRole") != 1 || got.at("viewer.account.name") != name {
				t.Errorf("%s sees %s", name, got.Body)
			}
		}
		for name, c := range map[string]*client{"owner": owner, "only": only} {
			if c.viewer() != "" {
				t.Errorf("%s@example.com is still signed in", name)
			}
		}
	})
}

// passwordHash returns a hash of the tests' password.
func passwordHash(t *testing.T) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password, &cheapHash)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// TestCreatingAccounts: a user creates further accounts as far as the sign-up policy allows.
func TestCreatingAccounts(t *testing.T) {
	t.Parallel()
	for policy, want := range map[model.SignupPolicy]string{
		model.SignupsOpen: "", model.SignupsFirstOnly: ":SIGNUPS_CLOSED", model.SignupsClosed: ":SIGNUPS_CLOSED",
	} {
		t.Run(policy.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				operator := dbtest.NewUser(t, d, "first@example.com")
				hash := passwordHash(t)
				if err := dbtest.Exec(d, "UPDATE users SET password_hash = ? WHERE id = ?", hash, operator.ID); err != nil {
					t.Fatal(err)
				}

				a := newApp(t, d, func(s *settings) { s.auth.Signups = policy })
				first := a.client()
				first.signIn("first@example.com", password).ok(t, "signIn")
				second := a.join(first, "second@example.com", model.RoleViewer)

				if got := second.query(createAccountMutation, "name", "Second"); got.userErrors("createAccount") != want {
					t.Errorf("a user: %s", got.Body)
				}

				got := first.query(createAccountMutation, "name", " Further ").ok(t, "createAccount")
				if got.at("createAccount.account.name") != "Further" || got.at("createAccount.account.viewerRole") != "OWNER" {
					t.Errorf("the operator: %s", got.Body)
				}
				if got := first.query(ownAccountsQuery); got.at("viewer.account.name") != "first@example.com" || got.at("viewer.accounts.1.name") != "Further" {
					t.Errorf("the default account: %s", got.Body)
				}
				if got := first.query(createAccountMutation, "name", "https://example.com"); got.userErrors("createAccount") != "name:INVALID_NAME" {
					t.Errorf("an address as a name: %s", got.Body)
				}
			})
		})
	}
}

// TestAPersonHasTwentyAccounts checks the bound of memberships, and the throttle of new accounts.
func TestAPersonHasTwentyAccounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		person := a.owner("agency@example.com")
		for i := range model.MaxMemberships - 1 {
			a.clock.Add(20 * time.Minute)
			person.query(createAccountMutation, "name", fmt.Sprintf("Account %d", i)).ok(t, "createAccount")
		}

		a.clock.Add(20 * time.Minute)
		if got := person.query(createAccountMutation, "name", "One more"); got.userErrors("createAccount") != ":TOO_MANY_ACCOUNTS" {
			t.Errorf("one account more: %s", got.Body)
		}

		a.clock.Add(20 * time.Minute)
		other := a.owner("other@example.com")
		secret := a.invite(other, "agency@example.com", model.RoleMember)
		if got := person.query(joinMutation, "token", secret); got.userErrors("acceptInvitation") != ":TOO_MANY_ACCOUNTS" {
			t.Errorf("joining one account more: %s", got.Body)
		}

		// The invitation stays valid.
		accounts := person.query(`{ viewer { accounts { id } } }`).ok(t, "")
		a.join(person, "second@example.com", model.RoleOwner)
		person.query(leaveMutation, "id", accounts.at("viewer.accounts.0.id")).ok(t, "leaveAccount")
		person.query(joinMutation, "token", secret).ok(t, "acceptInvitation")

		// The network's attempts are forgotten after a day.
		a.clock.Add(25 * time.Hour)
		fast := a.owner("fast@example.com")
		var codes []string
		for i := range 7 {
			codes = append(codes, fast.query(createAccountMutation, "name", fmt.Sprint(i)).codes())
		}
		if got := strings.Join(codes, ","); !strings.HasSuffix(got, "RATE_LIMITED") || strings.HasPrefix(got, "RATE_LIMITED") {
			t.Errorf("7 accounts at once: %s", got)
		}
	})
}

// TestRenamingAnAccount: only an owner of the account renames it.
func TestRenamingAnAccount(t *testing.T) {
	t.Parallel()
	const rename = `mutation($id: ID, $name: String!) { updateAccount(input: {accountId: $id, name: $name}) { account { name } userErrors { field code } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		if got := owner.query(rename, "name", " Client "); got.at("updateAccount.account.name") != "Client" {
			t.Errorf("the owner: %s", got.Body)
		}
		if got := member.query(rename, "name", "Mine"); got.codes() != "FORBIDDEN" {
			t.Errorf("a member: %s", got.Body)
		}
		if got := other.query(rename, "id", owner.account(), "name", "Mine"); got.userErrors("updateAccount") != "accountId:NOT_FOUND" {
			t.Errorf("another account's owner: %s", got.Body)
		}
		for _, name := range []string{"", "see www.example.com", strings.Repeat("x", 101)} {
			if got := owner.query(rename, "name", name); got.userErrors("updateAccount") != "name:INVALID_NAME" {
				t.Errorf("the name %q: %s", name, got.Body)
			}
		}
		if got := owner.query(ownAccountsQuery); got.at("viewer.account.name") != "Client" {
			t.Errorf("the name is %s", got.Body)
		}
	})
}
