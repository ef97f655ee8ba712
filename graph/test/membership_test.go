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
	"github.com/tallygate/tallygate/tools/world"
)

const (
	joinMutation = `mutation($token: String!, $password: String) { acceptInvitation(input: {token: $token, password: $password}) {
		viewer { email role account { name } accounts { name viewerRole } } userErrors { field code } } }`
	leaveMutation = `mutation($id: ID!) { leaveAccount(input: {accountId: $id}) {
		accountId viewer { account { name } accounts { name } } userErrors { field code } } }`
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
	c.done("updateAccount", "name", name)
	return c
}

// invite invites an address to the default account of an owner, and returns the mailed secret.
func (a *app) invite(owner *client, email string, role model.Role) string {
	a.t.Helper()
	owner.done("inviteMember", "email", email, "role", role)
	return a.mailedSecret(email)
}

// TestRolesInEachAccount calls every field that takes an id as a viewer of the default account who
// owns another one, with the ids of both. The role in the account of the id decides.
func TestRolesInEachAccount(t *testing.T) {
	fields, operation := byID()
	rules := fieldRules

	// The fields whose objects belong to a person, and the one that would end the test.
	personal := map[string]bool{
		"revokeApiToken": true, "revokeSession": true, "leaveAccount": true, "renamePasskey": true, "deletePasskey": true,
	}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
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
			person.call(t, operation[f.Name], f, idsOf(seen, f)).named("a viewer calls %s", f.Name).code(t, "FORBIDDEN")
		}
		equal(t, a.dump("signin_failures"), before, "the refused calls changed something")

		for _, f := range fields {
			if personal[f.Name] || rules[f.Name].operator {
				continue
			}
			a.clock.Add(time.Minute)

			got := person.call(t, operation[f.Name], f, idsOf(owned, f))
			got.named("the owner calls %s", f.Name).hides(t, "NOT_FOUND").code(t, "").set(t, f.Name)
			if rules[f.Name].role != viewer {
				continue
			}
			person.call(t, operation[f.Name], f, idsOf(seen, f)).named("a viewer calls %s", f.Name).code(t, "").set(t, f.Name)
		}
	})
}

// TestNodesOfSeveralAccounts: node returns the objects of each account of the caller, and
// invitations only of those that the caller owns.
func TestNodesOfSeveralAccounts(t *testing.T) {
	const query = `query($id: ID!) { node(id: $id) { id } }`
	eachApp(t, func(t *testing.T, a *app) {
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
			person.query(query, "id", foreign.ids[name]).named("%s of an account of others", name).has(t, "node", nil)
		}

		// A token acts in its account only.
		token := person.done("createApiToken", "accountId", owned.ids["accountId"], "name", "t", "scopes", []string{"READ"})
		token.named("the token").has(t, "createApiToken.apiToken.accountId", owned.ids["accountId"])

		secret := token.at("createApiToken.token").(string)
		ask := func(id string) *answer {
			return a.with(secret, strings.Replace(query, "$id: ID!", `$id: ID = "`+id+`"`, 1))
		}
		ask(owned.ids["siteId"]).named("the token reads a site of its account").has(t, "node.id", owned.ids["siteId"])
		for _, name := range []string{"siteId", "accountId", "userId", "sitekeyId", "deliveryId"} {
			ask(seen.ids[name]).named("the token reads %s of another account of its user", name).has(t, "node", nil)
		}

		got := a.with(secret, `{ viewer { role accounts { name } } sites(accountId: "`+seen.ids["accountId"]+`") { totalCount } }`)
		got.named("the token sees").is(t, `{"data":{"viewer":{"role":"OWNER","accounts":[{"name":"Example"}]},"sites":null}}`)
	})
}

// TestJoiningWithAUser: a person who has a user joins another account with the session or with the
// password.
func TestJoiningWithAUser(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		client := a.owner("client@example.com").rename("Client")
		other := a.owner("other@example.com").rename("Other")
		person := a.owner("agency@example.com").rename("Agency")
		a.clock.Add(time.Second)

		// The payload is the same for every address.
		for _, email := range []string{"agency@example.com", "unknown@example.com"} {
			got := client.done("inviteMember", "email", email, "role", "MEMBER")
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
			browser.query(joinMutation, "token", invited, "password", try.password).
				named("with the password %v", try.password).fails(t, "acceptInvitation", try.want)
		}
		equal(t, browser.viewer(), "", "a wrong password signs in")

		// The session of another user does not count.
		client.query(joinMutation, "token", invited).
			named("as another user").fails(t, "acceptInvitation", "password:PASSWORD_REQUIRED")

		got = browser.query(joinMutation, "token", invited, "password", password).ok(t, "acceptInvitation")
		if got.at("acceptInvitation.viewer.account.name") != "Other" || got.at("acceptInvitation.viewer.role") != "VIEWER" ||
			browser.viewer() != "agency@example.com" {
			t.Errorf("with the password: %s", got.Body)
		}

		// Lists, and new objects, of a chosen account.
		const sites = `query($id: ID) { sites(accountId: $id) { edges { node { domain } } } sitekeys(accountId: $id) { totalCount } }`

		person.done("createSite", "accountId", client.account(), "domain", "client.example")
		person.done("createSitekey", "accountId", client.account(), "name", "form")
		person.done("createSite", "accountId", nil, "domain", "agency.example")
		person.do("createSite", "accountId", other.account(), "domain", "other.example").
			named("a viewer creates a site").code(t, "FORBIDDEN")

		for id, want := range map[any]string{
			client.account(): `{"data":{"sites":{"edges":[{"node":{"domain":"client.example"}}]},"sitekeys":{"totalCount":1}}}`,
			other.account():  `{"data":{"sites":{"edges":[]},"sitekeys":{"totalCount":0}}}`,
			nil:              `{"data":{"sites":{"edges":[{"node":{"domain":"agency.example"}}]},"sitekeys":{"totalCount":0}}}`,
		} {
			person.query(sites, "id", id).named("the lists of %v", id).is(t, want)
		}

		// No other member sees the person's accounts.
		got = client.query(`{ viewer { account { members { email accounts { name viewerRole } } } } }`)
		got.named("another member sees").hides(t, "Agency").hides(t, "Other")
	})
}

// TestInvitingAMemberAgain: neither an invitation nor its acceptance makes a second membership.
func TestInvitingAMemberAgain(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
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
		equal(t, codes, "token:INVALID_TOKEN", "twice: %s, %s", answers[0].Body, answers[1].Body)
		owner.do("inviteMember", "email", "agency@example.com", "role", "OWNER").
			named("inviting a member").fails(t, "inviteMember", "email:ALREADY_MEMBER")
		equal(t, value(dbtest.Count(a.db, "memberships"))(t), 3, "rows of memberships")
	})
}

// TestLeaving: a person who leaves keeps the user, the session and the other accounts; the last one
// takes the user with it.
func TestLeaving(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
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

		inClient := person.done("createApiToken", "accountId", owner.account(), "name", "t", "scopes", []string{"READ"}).at("createApiToken.token").(string)
		inOwn := person.done("createApiToken", "accountId", nil, "name", "t", "scopes", []string{"READ"}).at("createApiToken.token").(string)

		// The notice of a new password is not revoked by leaving.
		person.done("changePassword", "currentPassword", password, "password", "a new long password")

		got := person.query(leaveMutation, "id", owner.account()).ok(t, "leaveAccount")
		if want := `"viewer":{"account":{"name":"Agency"},"accounts":[{"name":"Agency"}]}`; !strings.Contains(got.Body, want) {
			t.Errorf("leaving: %s", got.Body)
		}
		person.site(site, `domain`).named("after leaving, a site").has(t, "site", nil)
		a.with(inClient, `{ viewer { email } }`).named("the token of the account that was left").code(t, "UNAUTHENTICATED")
		a.with(inOwn, `{ viewer { email } }`).ok(t, "")
		for table, want := range map[string]int{
			"alert_channels": 1, "report_views": 1, "hidden_notices": 1, "api_tokens": 1, "memberships": 3, "users": 3,
		} {
			equal(t, value(dbtest.Count(a.db, table))(t), want, "rows of %s", table)
		}
		person.query(leaveMutation, "id", owner.account()).named("leaving again").fails(t, "leaveAccount", "accountId:NOT_FOUND")

		type row struct{ AccountID model.AccountID }
		mails, err := dbtest.Rows[row](a.db, "SELECT account_id FROM mails WHERE recipient = 'agency@example.com' AND kind = 'password_changed'")
		if err != nil || len(mails) != 1 || mails[0].AccountID != 3 {
			t.Errorf("notices of the new password: %v, %v", mails, err)
		}

		// The last owner stays, and the last membership is the user's.
		person.query(leaveMutation, "id", person.account()).
			named("the last owner leaves").fails(t, "leaveAccount", "accountId:LAST_OWNER")

		guest := a.join(owner, "guest@example.com", model.RoleViewer)
		got = guest.query(leaveMutation, "id", guest.account()).ok(t, "leaveAccount")
		got.named("leaving the only account").has(t, "leaveAccount.viewer", nil)
		equal(t, guest.viewer(), "", "leaving the only account")
		guest.signIn("guest@example.com", password).named("a deleted user signs in").fails(t, "signIn", ":WRONG_CREDENTIALS")
	})
}

// TestRemovingAndDeletingKeepPeopleOfOtherAccounts: an owner cannot delete the user of a person who
// belongs to another account.
func TestRemovingAndDeletingKeepPeopleOfOtherAccounts(t *testing.T) {

	eachApp(t, func(t *testing.T, a *app) {
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
		owner.done("removeMember", "accountId", nil, "userId", person.id())
		person.query(ownAccountsQuery).named("after the removal").hides(t, "Client").has(t, "viewer.account.name", "Agency")

		// The operator is a member of the account too, and outlives it.
		join()
		operator.query(joinMutation, "token", a.invite(owner, "operator@example.com", model.RoleViewer)).ok(t, "acceptInvitation")
		id := owner.account()
		person.do("deleteAccount", "accountId", id, "password", "not the password").
			named("with a wrong password").fails(t, "deleteAccount", "password:WRONG_CREDENTIALS")
		operator.do("deleteAccount", "accountId", id, "password", password).
			named("a viewer deletes an account").code(t, "FORBIDDEN")
		person.done("deleteAccount", "accountId", id, "password", password).
			named("deleting").has(t, "deleteAccount.accountId", id)

		for name, c := range map[string]*client{"Agency": person, "Operator": operator} {
			if got := c.query(ownAccountsQuery); strings.Count(got.Body, "viewerRole") != 1 || got.at("viewer.account.name") != name {
				t.Errorf("%s sees %s", name, got.Body)
			}
		}
		for name, c := range map[string]*client{"owner": owner, "only": only} {
			equal(t, c.viewer(), "", "%s@example.com is still signed in", name)
		}
	})
}

// passwordHash returns a hash of the tests' password.
func passwordHash(t *testing.T) string {
	t.Helper()
	hash := value(argon2id.CreateHash(password, &cheapHash))(t)
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
				operator := world.New(t, d).User("first@example.com")
				hash := passwordHash(t)
				must(t, dbtest.Exec(d, "UPDATE users SET password_hash = ? WHERE id = ?", hash, operator.ID))

				a := newApp(t, d, func(s *settings) { s.auth.Signups = policy })
				first := a.client()
				first.signIn("first@example.com", password).ok(t, "signIn")
				second := a.join(first, "second@example.com", model.RoleViewer)

				second.do("createAccount", "name", "Second").named("a user").fails(t, "createAccount", want)

				got := first.done("createAccount", "name", " Further ")
				if got.at("createAccount.account.name") != "Further" || got.at("createAccount.account.viewerRole") != "OWNER" {
					t.Errorf("the operator: %s", got.Body)
				}
				if got := first.query(ownAccountsQuery); got.at("viewer.account.name") != "first@example.com" || got.at("viewer.accounts.1.name") != "Further" {
					t.Errorf("the default account: %s", got.Body)
				}
				first.do("createAccount", "name", "https://example.com").
					named("an address as a name").fails(t, "createAccount", "name:INVALID_NAME")
			})
		})
	}
}

// TestAPersonHasTwentyAccounts checks the bound of memberships, and the throttle of new accounts.
func TestAPersonHasTwentyAccounts(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		person := a.owner("agency@example.com")
		for i := range model.MaxMemberships - 1 {
			a.clock.Add(20 * time.Minute)
			person.done("createAccount", "name", fmt.Sprintf("Account %d", i))
		}

		a.clock.Add(20 * time.Minute)
		person.do("createAccount", "name", "One more").named("one account more").fails(t, "createAccount", ":TOO_MANY_ACCOUNTS")

		a.clock.Add(20 * time.Minute)
		other := a.owner("other@example.com")
		secret := a.invite(other, "agency@example.com", model.RoleMember)
		person.query(joinMutation, "token", secret).
			named("joining one account more").fails(t, "acceptInvitation", ":TOO_MANY_ACCOUNTS")

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
			codes = append(codes, fast.do("createAccount", "name", fmt.Sprint(i)).codes())
		}
		if got := strings.Join(codes, ","); !strings.HasSuffix(got, "RATE_LIMITED") || strings.HasPrefix(got, "RATE_LIMITED") {
			t.Errorf("7 accounts at once: %s", got)
		}
	})
}

// TestRenamingAnAccount: only an owner of the account renames it.
func TestRenamingAnAccount(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		owner.do("updateAccount", "name", " Client ").named("the owner").has(t, "updateAccount.account.name", "Client")
		member.do("updateAccount", "name", "Mine").named("a member").code(t, "FORBIDDEN")
		other.do("updateAccount", "accountId", owner.account(), "name", "Mine").
			named("another account's owner").fails(t, "updateAccount", "accountId:NOT_FOUND")
		for _, name := range []string{"", "see www.example.com", strings.Repeat("x", 101)} {
			owner.do("updateAccount", "name", name).named("the name %q", name).fails(t, "updateAccount", "name:INVALID_NAME")
		}
		owner.query(ownAccountsQuery).named("the name").has(t, "viewer.account.name", "Client")
	})
}
