package graph_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	inviteMutation = `mutation($email: String!, $role: Role!) { inviteMember(input: {email: $email, role: $role}) {
		invitation { id email role createdAt expiresAt } userErrors { field code } } }`
	roleMutation   = `mutation($id: ID!, $role: Role!) { setMemberRole(input: {userId: $id, role: $role}) { member { email role } userErrors { field code } } }`
	removeMutation = `mutation($id: ID!) { removeMember(input: {userId: $id}) { member { email } userErrors { field code } } }`
)

func (c *client) id() any {
	c.t.Helper()
	return c.query(`{ viewer { id } }`).ok(c.t, "").at("viewer.id")
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	const list = `{ viewer { account { members { email role } invitations { email role } } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		// Invited users can join although sign-ups are closed.
		a := newApp(t, d, func(s *settings) { s.auth.Signups = model.SignupsFirstOnly })
		owner := a.owner("owner@example.com")
		invite := func(email, role string) *answer { return owner.query(inviteMutation, "email", email, "role", role) }
		accept := func(c *client, token, password string) *answer {
			return c.query(acceptMutation, "token", token, "password", password)
		}

		for email, want := range map[string]string{"no-domain": "email:INVALID_EMAIL", "OWNER@example.com": "email:ALREADY_MEMBER"} {
			if got := invite(email, "MEMBER"); got.userErrors("inviteMember") != want || got.at("inviteMember.invitation") != nil {
				t.Errorf("%s: %s", email, got.Body)
			}
		}

		invite("guest@example.com", "OWNER").ok(t, "inviteMember")
		replaced := a.mailedSecret("guest@example.com")

		if got := invite("guest@example.com", "VIEWER").ok(t, "inviteMember"); got.at("inviteMember.invitation.expiresAt") != "2026-11-27T09:30:00Z" {
			t.Errorf("got %s", got.Body)
		}

		token := a.mailedSecret("guest@example.com")
		if rows, err := dbtest.Dump(d, "invitations"); err != nil || len(rows) != 1 || strings.Contains(rows[0], token) {
			t.Errorf("the table: %v, %v", rows, err)
		}

		guest := a.client()
		const offer = `query($token: String!) { invitationOffer(token: $token) { accountName email role invitedBy expiresAt } }`
		if got := guest.query(offer, "token", token); got.Body != `{"data":{"invitationOffer":{"accountName":"Example","email":"guest@example.com",`+
			`"role":"VIEWER","invitedBy":"owner@example.com","expiresAt":"2026-11-27T09:30:00Z"}}}` {
			t.Errorf("what is offered: %s", got.Body)
		}
		for _, secret := range []string{replaced, "", "tgi_x", model.NewSecret("tgi_")} {
			if got := guest.query(offer, "token", secret); got.Body != `{"data":{"invitationOffer":null}}` {
				t.Errorf("the offer of %q: %s", secret, got.Body)
			}
		}
		for name, secret := range map[string]string{"replaced": replaced, "unknown": model.NewSecret("tgi_"), "empty": "", "of another kind": model.NewSecret("tgr_")} {
			if got := accept(guest, secret, password); got.userErrors("acceptInvitation") != "token:INVALID_TOKEN" || guest.viewer() != "" {
				t.Errorf("a token that is %s: %s", name, got.Body)
			}
		}

		if got := accept(guest, token, "short"); got.userErrors("acceptInvitation") != "password:INVALID_PASSWORD" {
			t.Errorf("a short password: %s", got.Body)
		}

		got := accept(guest, token, password).ok(t, "acceptInvitation")
		if got.at("acceptInvitation.viewer.role") != "VIEWER" || guest.viewer() != "guest@example.com" {
			t.Errorf("joining: %s", got.Body)
		}
		if got := accept(a.client(), token, password); got.userErrors("acceptInvitation") != "token:INVALID_TOKEN" {
			t.Errorf("a second time: %s", got.Body)
		}

		invite("later@example.com", "MEMBER").ok(t, "inviteMember")
		want := `{"data":{"viewer":{"account":{"members":[{"email":"owner@example.com","role":"OWNER"},{"email":"guest@example.com","role":"VIEWER"}],"invitations":`
		if got := owner.query(list); got.Body != want+`[{"email":"later@example.com","role":"MEMBER"}]}}}}` {
			t.Errorf("the owner sees %s", got.Body)
		}
		if got := guest.query(list); got.Body != want+`[]}}}}` {
			t.Errorf("a viewer sees %s", got.Body)
		}

		late := a.mailedSecret("later@example.com")
		a.clock.Add(model.InvitationLifetime)

		if got := accept(a.client(), late, password); got.userErrors("acceptInvitation") != "token:INVALID_TOKEN" {
			t.Errorf("after a week: %s", got.Body)
		}

		revoked := owner.query(inviteMutation, "email", "later@example.com", "role", "MEMBER").ok(t, "inviteMember")
		late = a.mailedSecret("later@example.com")
		owner.query(`mutation($id: ID!) { revokeInvitation(input: {invitationId: $id}) { invitation { email } userErrors { code } } }`,
			"id", revoked.at("inviteMember.invitation.id")).ok(t, "revokeInvitation")

		if got := accept(a.client(), late, password); got.userErrors("acceptInvitation") != "token:INVALID_TOKEN" {
			t.Errorf("revoked: %s", got.Body)
		}
		if n, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM mails WHERE recipient = 'later@example.com'"); err != nil || n[0].N != 0 {
			t.Errorf("mails to a revoked invitation: %v, %v", n, err)
		}
	})
}

// An account can send 100 invitations per day, whatever becomes of them, and a few to one address.
func TestInvitationsAreThrottledAndCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		const interval = 4 * time.Second // stays within the rate limit
		invite := func(email string, after time.Duration) *answer {
			a.clock.Add(after)
			return owner.query(inviteMutation, "email", email, "role", "VIEWER")
		}

		revoke := func(invited *answer) {
			owner.query(`mutation($id: ID!) { revokeInvitation(input: {invitationId: $id}) { userErrors { code } } }`,
				"id", invited.at("inviteMember.invitation.id")).ok(t, "revokeInvitation")
		}

		// Invalid invitations are not mailed and do not count.
		for range 10 {
			if got := invite("owner@example.com", interval); got.userErrors("inviteMember") != "email:ALREADY_MEMBER" {
				t.Fatalf("the owner: %s", got.Body)
			}
		}

		for range 5 {
			invite("guest@example.com", interval).ok(t, "inviteMember")
		}

		if got := invite("guest@example.com", 0); got.codes() != "RATE_LIMITED" || got.Errors[0].Extensions["retryAfter"] != 1.0 {
			t.Errorf("the sixth to one address: %s", got.Body)
		}

		for i := range 95 {
			// The mail may have been sent by then.
			revoke(invite(fmt.Sprintf("u%d@example.com", i), interval).ok(t, "inviteMember"))
		}

		a.client().query(acceptMutation, "token", a.mailedSecret("guest@example.com"), "password", password).ok(t, "acceptInvitation")
		midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		before := a.dump("signin_failures")

		got := invite("later@example.com", 0)
		if got.codes() != "RATE_LIMITED" || got.Errors[0].Extensions["retryAfter"] != midnight.Sub(a.clock.Now()).Seconds() {
			t.Errorf("the 101st of the day: %s", got.Body)
		}
		if after := a.dump("signin_failures"); after != before {
			t.Errorf("the refused invitation changed something:\n%s\nwas\n%s", after, before)
		}

		invite("later@example.com", midnight.Sub(a.clock.Now())).ok(t, "inviteMember")

		// The clock was set back over midnight.
		if got := invite("other@example.com", -time.Second); len(got.Errors) > 0 {
			t.Errorf("on the day before: %s", got.Body)
		}

		revoke(invite("other@example.com", time.Second).ok(t, "inviteMember"))

		// The account already has two members and an invitation.
		for i := range model.MaxMembers - 3 {
			dbtest.AddMember(t, d, 1, fmt.Sprintf("m%d@example.com", i), model.RoleMember)
		}

		if got := invite("other@example.com", time.Hour); got.userErrors("inviteMember") != ":TOO_MANY_MEMBERS" {
			t.Errorf("the 101st member: %s", got.Body)
		}
	})
}

// An installation without mail reports that and stores nothing.
func TestInvitingWithoutMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.auth.NoMail = true })
		owner := a.owner("owner@example.com")
		before := a.dump("sessions")

		got := owner.query(inviteMutation, "email", "guest@example.com", "role", "MEMBER")
		if got.userErrors("inviteMember") != ":NO_MAIL_SERVER" || got.at("inviteMember.invitation") != nil {
			t.Errorf("got %s", got.Body)
		}
		if a.dump("sessions") != before {
			t.Error("something was stored")
		}
	})
}

// Users in one office can use their links one after another: only wrong links count for the
// network.
func TestGoodLinksAreNotThrottled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		wrong := func() *answer {
			return a.client().query(resetMutation, "token", model.NewSecret(model.ResetPrefix), "password", password)
		}

		const free = 30
		for range free - 1 {
			if got := wrong(); got.userErrors("resetPassword") != "token:INVALID_TOKEN" {
				t.Fatalf("a wrong link: %s", got.Body)
			}
		}

		for i := range 3 {
			a.join(owner, fmt.Sprintf("u%d@example.com", i), model.RoleViewer)
			email := fmt.Sprintf("u%d@example.com", i)
			a.client().query(requestResetMutation, "email", email).ok(t, "requestPasswordReset")
			a.client().query(resetMutation, "token", a.mailedSecret(email), "password", "a new password").ok(t, "resetPassword")
		}

		if got := wrong(); got.userErrors("resetPassword") != "token:INVALID_TOKEN" {
			t.Errorf("the last free one: %s", got.Body)
		}
		if got := wrong(); got.codes() != "RATE_LIMITED" {
			t.Errorf("one too many: %s", got.Body)
		}
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		self := owner.id()
		for name, got := range map[string]*answer{
			"the last owner steps back": owner.query(roleMutation, "id", self, "role", "MEMBER"),
			"the last owner leaves":     owner.query(removeMutation, "id", self),
		} {
			if wrong := got.userErrors("setMemberRole") + got.userErrors("removeMember"); wrong != "userId:LAST_OWNER" || strings.Contains(got.Body, "owner@") {
				t.Errorf("%s: %s", name, got.Body)
			}
		}

		// A user can read the own role.
		owner.query(roleMutation, "id", self, "role", "OWNER").ok(t, "setMemberRole")
		got := owner.query(roleMutation, "id", member.id(), "role", "OWNER").ok(t, "setMemberRole")
		if got.at("setMemberRole.member.role") != "OWNER" {
			t.Errorf("got %s", got.Body)
		}

		member.query(removeMutation, "id", self).ok(t, "removeMember")

		if owner.viewer() != "" {
			t.Error("the removed owner is still signed in")
		}
		if got := owner.signIn("owner@example.com", password); got.userErrors("signIn") != ":WRONG_CREDENTIALS" {
			t.Errorf("the removed owner signs in: %s", got.Body)
		}

		// The only operator cannot be removed while there are other users.
		second := a.join(operator, "second@example.com", model.RoleOwner)
		if got := second.query(removeMutation, "id", operator.id()); got.userErrors("removeMember") != ":LAST_OPERATOR" {
			t.Errorf("removing the operator: %s", got.Body)
		}
	})
}

// Of two owners that remove each other concurrently, one remains.
func TestTwoOwnersRemoveEachOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		a.owner("operator@example.com")
		one := a.owner("one@example.com")
		two := a.join(one, "two@example.com", model.RoleOwner)
		ids := []any{two.id(), one.id()}

		var wg sync.WaitGroup
		for i, c := range []*client{one, two} {
			wg.Go(func() { c.query(removeMutation, "id", ids[i]) })
		}

		wg.Wait()
		rows, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM memberships WHERE account_id = 2 AND role = 'OWNER'")
		if err != nil || rows[0].N != 1 {
			t.Errorf("%v owners are left, %v", rows, err)
		}
	})
}
