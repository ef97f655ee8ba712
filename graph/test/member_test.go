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
	"github.com/tallygate/tallygate/tools/world"
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
		invite := func(email, role string) *answer { return owner.do("inviteMember", "email", email, "role", role) }
		accept := func(c *client, token, password string) *answer {
			return c.do("acceptInvitation", "token", token, "password", password)
		}

		for email, want := range map[string]string{"no-domain": "email:INVALID_EMAIL", "OWNER@example.com": "email:ALREADY_MEMBER"} {
			invite(email, "MEMBER").named("%s", email).fails(t, "inviteMember", want).has(t, "inviteMember.invitation", nil)
		}

		invite("guest@example.com", "OWNER").ok(t, "inviteMember")
		replaced := a.mailedSecret("guest@example.com")

		invite("guest@example.com", "VIEWER").ok(t, "inviteMember").
			has(t, "inviteMember.invitation.expiresAt", "2026-11-27T09:30:00Z")

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
			guest.query(offer, "token", secret).named("the offer of %q", secret).is(t, `{"data":{"invitationOffer":null}}`)
		}
		for name, secret := range map[string]string{
			"replaced": replaced, "unknown": model.NewSecret("tgi_"), "empty": "",
			"of another kind": model.NewSecret("tgr_"),
		} {
			accept(guest, secret, password).named("a token that is %s", name).fails(t, "acceptInvitation", "token:INVALID_TOKEN")
			equal(t, guest.viewer(), "", "a token that is %s", name)
		}

		accept(guest, token, "short").named("a short password").fails(t, "acceptInvitation", "password:INVALID_PASSWORD")

		got := accept(guest, token, password).ok(t, "acceptInvitation")
		got.named("joining").has(t, "acceptInvitation.viewer.role", "VIEWER")
		equal(t, guest.viewer(), "guest@example.com", "joining")
		accept(a.client(), token, password).named("a second time").fails(t, "acceptInvitation", "token:INVALID_TOKEN")

		invite("later@example.com", "MEMBER").ok(t, "inviteMember")
		want := `{"data":{"viewer":{"account":{"members":[{"email":"owner@example.com","role":"OWNER"},{"email":"guest@example.com","role":"VIEWER"}],"invitations":`
		owner.query(list).named("the owner sees").is(t, want+`[{"email":"later@example.com","role":"MEMBER"}]}}}}`)
		guest.query(list).named("a viewer sees").is(t, want+`[]}}}}`)

		late := a.mailedSecret("later@example.com")
		a.clock.Add(model.InvitationLifetime)

		accept(a.client(), late, password).named("after a week").fails(t, "acceptInvitation", "token:INVALID_TOKEN")

		revoked := owner.done("inviteMember", "email", "later@example.com", "role", "MEMBER")
		late = a.mailedSecret("later@example.com")
		owner.done("revokeInvitation", "invitationId", revoked.at("inviteMember.invitation.id"))

		accept(a.client(), late, password).named("revoked").fails(t, "acceptInvitation", "token:INVALID_TOKEN")
		if n, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM mails WHERE recipient = 'later@example.com'"); err != nil || n[0].N != 0 {
			t.Errorf("mails to a revoked invitation: %v, %v", n, err)
		}
	})
}

// An account can send 100 invitations per day, whatever becomes of them, and a few to one address.
func TestInvitationsAreThrottledAndCounted(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		const interval = 4 * time.Second // stays within the rate limit
		invite := func(email string, after time.Duration) *answer {
			a.clock.Add(after)
			return owner.do("inviteMember", "email", email, "role", "VIEWER")
		}

		revoke := func(invited *answer) {
			owner.done("revokeInvitation", "invitationId", invited.at("inviteMember.invitation.id"))
		}

		// Invalid invitations are not mailed and do not count.
		for range 10 {
			invite("owner@example.com", interval).named("the owner").fails(t, "inviteMember", "email:ALREADY_MEMBER")
		}

		for range 5 {
			invite("guest@example.com", interval).ok(t, "inviteMember")
		}

		invite("guest@example.com", 0).named("the sixth to one address").code(t, "RATE_LIMITED").retries(t, 1.0)

		for i := range 95 {
			// The mail may have been sent by then.
			revoke(invite(fmt.Sprintf("u%d@example.com", i), interval).ok(t, "inviteMember"))
		}

		a.client().done("acceptInvitation", "token", a.mailedSecret("guest@example.com"), "password", password)
		midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		before := a.dump("signin_failures")

		got := invite("later@example.com", 0)
		got.named("the 101st of the day").code(t, "RATE_LIMITED").retries(t, midnight.Sub(a.clock.Now()).Seconds())
		equal(t, a.dump("signin_failures"), before, "the refused invitation changed something")

		invite("later@example.com", midnight.Sub(a.clock.Now())).ok(t, "inviteMember")

		// The clock was set back over midnight.
		invite("other@example.com", -time.Second).named("on the day before").code(t, "")

		revoke(invite("other@example.com", time.Second).ok(t, "inviteMember"))

		// The account already has two members and an invitation.
		for i := range model.MaxMembers - 3 {
			world.New(t, a.db).Member(1, fmt.Sprintf("m%d@example.com", i), model.RoleMember)
		}

		invite("other@example.com", time.Hour).named("the 101st member").fails(t, "inviteMember", ":TOO_MANY_MEMBERS")
	})
}

// An installation without mail reports that and stores nothing.
func TestInvitingWithoutMail(t *testing.T) {
	eachAppWith(t, noMail, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		before := a.dump("sessions")

		got := owner.do("inviteMember", "email", "guest@example.com", "role", "MEMBER")
		got.fails(t, "inviteMember", ":NO_MAIL_SERVER").has(t, "inviteMember.invitation", nil)
		equal(t, a.dump("sessions"), before, "something was stored")
	})
}

// Users in one office can use their links one after another: only wrong links count for the
// network.
func TestGoodLinksAreNotThrottled(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		wrong := func() *answer {
			return a.client().do("resetPassword", "token", model.NewSecret(model.ResetPrefix), "password", password)
		}

		const free = 30
		for range free - 1 {
			wrong().named("a wrong link").fails(t, "resetPassword", "token:INVALID_TOKEN")
		}

		for i := range 3 {
			a.join(owner, fmt.Sprintf("u%d@example.com", i), model.RoleViewer)
			email := fmt.Sprintf("u%d@example.com", i)
			a.client().done("requestPasswordReset", "email", email)
			a.client().done("resetPassword", "token", a.mailedSecret(email), "password", "a new password")
		}

		wrong().named("the last free one").fails(t, "resetPassword", "token:INVALID_TOKEN")
		wrong().named("one too many").code(t, "RATE_LIMITED")
	})
}

func TestMembers(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		self := owner.id()
		for name, got := range map[string]*answer{
			"the last owner steps back": owner.do("setMemberRole", "userId", self, "role", "MEMBER"),
			"the last owner leaves":     owner.do("removeMember", "userId", self),
		} {
			if wrong := got.userErrors("setMemberRole") + got.userErrors("removeMember"); wrong != "userId:LAST_OWNER" ||
				strings.Contains(got.Body, "owner@") {
				t.Errorf("%s: %s", name, got.Body)
			}
		}

		// A user can read the own role.
		owner.done("setMemberRole", "userId", self, "role", "OWNER")
		owner.done("setMemberRole", "userId", member.id(), "role", "OWNER").has(t, "setMemberRole.member.role", "OWNER")

		member.done("removeMember", "userId", self)

		equal(t, owner.viewer(), "", "the removed owner is still signed in")
		owner.signIn("owner@example.com", password).named("the removed owner signs in").fails(t, "signIn", ":WRONG_CREDENTIALS")

		// The only operator cannot be removed while there are other users.
		second := a.join(operator, "second@example.com", model.RoleOwner)
		second.do("removeMember", "userId", operator.id()).
			named("removing the operator").fails(t, "removeMember", ":LAST_OPERATOR")
	})
}

// Of two owners that remove each other concurrently, one remains.
func TestTwoOwnersRemoveEachOther(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		one := a.owner("one@example.com")
		two := a.join(one, "two@example.com", model.RoleOwner)
		ids := []any{two.id(), one.id()}

		var wg sync.WaitGroup
		for i, c := range []*client{one, two} {
			wg.Go(func() { c.do("removeMember", "userId", ids[i]) })
		}

		wg.Wait()
		rows, err := dbtest.Rows[struct{ N int }](a.db, "SELECT count(*) AS n FROM memberships WHERE account_id = 2 AND role = 'OWNER'")
		if err != nil || rows[0].N != 1 {
			t.Errorf("%v owners are left, %v", rows, err)
		}
	})
}
