package graph_test

import (
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// spent returns what an action took from the minute of the client's account.
func (c *client) spent(action func()) int {
	c.t.Helper()

	const query, cost = `{ rateLimit { remaining } }`, 2
	remaining := func() int {
		return int(c.query(query).ok(c.t, "").at("rateLimit.remaining").(float64))
	}

	before := remaining()
	action()
	return before - remaining() - cost
}

// expensive is a mutation of an owner that costs 3,002 points, and that a VIEWER must not call.
const (
	expensive     = `mutation { inviteMember(input: {email: "guest@example.com", role: VIEWER}) { userErrors { code } } }`
	expensiveCost = 3_002
)

// TestForbiddenRequestsCostOnePoint calls every field of the schema as a viewer and with a READ
// token. A request that they must not make takes one point of the account's minute, all others take
// at least the cost of a mutation.
func TestForbiddenRequestsCostOnePoint(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		first := a.tenant("first.example")
		ids := func(name string) string {
			if name == "id" {
				name = "siteId"
			}
			return first.ids[name]
		}

		reader := []string{"Authorization", "Bearer " + first.owner.createToken("READ").secret}
		for name, caller := range map[string]struct {
			client *client
			header []string
		}{
			"viewer":     {client: a.join(first.owner, "viewer@first.example", model.RoleViewer)},
			"READ token": {client: a.client(), header: reader},
		} {
			forbidden := 0
			for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
				for _, f := range fieldsOf(def) {
					rule := fieldRules[f.Name]
					if rule.role == anyRole || f.Name == "createAccount" || f.Name == "leaveAccount" {
						// They need no account, or give the caller another one.
						continue
					}

					var got *answer
					spent := first.owner.spent(func() { got = caller.client.call(t, op, f, ids, caller.header...) })

					switch refused := got.codes() == "FORBIDDEN"; {
					case refused && spent != 1:
						t.Errorf("%s: the forbidden %s costs %d, want 1", name, f.Name, spent)
					case !refused && op == ast.Mutation && spent < 100, !refused && spent < 2:
						t.Errorf("%s: %s costs only %d: %s", name, f.Name, spent, got.Body)
					case refused:
						forbidden++
					}
				}
			}

			if forbidden < 40 {
				t.Errorf("%s: only %d fields were forbidden", name, forbidden)
			}
		}
	})
}

// TestRefusedMutationsLeaveTheOwnersMinute: a viewer and a READ token that repeat refused mutations
// leave the account's minute to the owner.
func TestRefusedMutationsLeaveTheOwnersMinute(t *testing.T) {
	eachAppWith(t, func(s *settings) { s.graph.CostPerMinute = 4_000 }, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)
		token := owner.createToken("READ")
		a.clock.Add(time.Minute)

		for range 200 {
			for _, got := range []*answer{viewer.query(expensive), a.with(token.secret, expensive)} {
				got.named("a refused mutation").code(t, "FORBIDDEN")
			}
		}

		owner.query(expensive).ok(t, "inviteMember")

		// What is left does not admit a request of that cost from any caller.
		for _, c := range []*client{owner, viewer} {
			c.do("inviteMember", "email", "guest@example.com", "role", "VIEWER").
				named("over the limit").code(t, "RATE_LIMITED").retries(t, 60.0)
		}
	})
}

// TestPartlyForbiddenRequests: a request of which one field is permitted costs as much as if all
// were, whichever comes first; the permitted ones run.
func TestPartlyForbiddenRequests(t *testing.T) {
	const (
		permitted = ` updateUser(input: {language: DE}) { userErrors { code } }`
		forbidden = ` inviteMember(input: {email: "guest@example.com", role: VIEWER}) { userErrors { code } }`
		cost      = expensiveCost + 102
	)

	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)

		for _, test := range []struct {
			fields string
			want   int
		}{
			{permitted + forbidden, cost}, {forbidden + permitted, cost}, {forbidden, 1}, {permitted, 102},
			{forbidden + " other:" + ` pauseSite(input: {siteId: "` + a.unknownOf(nodeid.Site) + `"}) { userErrors { code } }`, 1},
		} {
			var got *answer
			if spent := owner.spent(func() { got = viewer.query("mutation {" + test.fields + " }") }); spent != test.want {
				t.Errorf("%s costs %d, want %d: %s", test.fields, spent, test.want, got.Body)
			}
		}

		viewer.query(`{ viewer { language } }`).ok(t, "").
			named("the permitted mutation was not run").has(t, "viewer.language", "DE")
	})
}

// TestPasswordChecksCostTheirPrice: a permitted mutation is charged before its password is checked,
// so wrong passwords are bounded by the rate limit too.
func TestPasswordChecksCostTheirPrice(t *testing.T) {
	const wrong = `mutation { startTotp(input: {password: "not the password"}) { userErrors { code } } }`

	eachAppWith(t, func(s *settings) { s.graph.CostPerMinute = 10_000 }, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)
		a.clock.Add(time.Minute)

		for i := range 4 {
			want := "WRONG_CREDENTIALS"
			if i == 3 {
				want = "RATE_LIMITED"
			}
			if got := viewer.query(wrong); got.codes() != want && got.userErrors("startTotp") != ":"+want {
				t.Errorf("wrong password %d: %s, want %s", i, got.Body, want)
			}
		}
	})
}

// TestCostInAnotherAccount: the role in the object's account decides; unknown objects cost as much
// as own ones; suspended accounts and missing second factors refuse for one point.
func TestCostInAnotherAccount(t *testing.T) {
	const cost = 104
	const pause = `mutation($id: ID!) { pauseSite(input: {siteId: $id}) { site { id } userErrors { code } } }`

	eachApp(t, func(t *testing.T, a *app) {
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		own, foreign := owner.siteOf("own.example"), other.siteOf("foreign.example")
		token := a.invite(other, "owner@example.com", model.RoleViewer)
		owner.query(joinMutation, "token", token, "password", nil).ok(t, "acceptInvitation")

		pauses := func(name, id, code string, want int) {
			t.Helper()
			var got *answer
			spent := owner.spent(func() { got = owner.query(pause, "id", id) })
			if spent != want || got.codes() != code {
				t.Errorf("%s: %s costs %d, want %d and %s", name, got.Body, spent, want, code)
			}
		}

		pauses("an owner's site", own, "", cost)
		pauses("an unknown site", a.unknownOf(nodeid.Site), "", cost)
		pauses("a site of an account with the role VIEWER", foreign, "FORBIDDEN", 1)

		must(t, dbtest.Exec(a.db, "UPDATE accounts SET suspended_at = ?, suspension_reason = 'abuse' WHERE id = 1", model.At(start)))
		pauses("a suspended account", own, "ACCOUNT_SUSPENDED", 1)

		must(t, dbtest.Exec(a.db, "UPDATE accounts SET suspended_at = 0, suspension_reason = '', require_second_factor = ? WHERE id = 2", true))
		pauses("an account that requires a second factor", foreign, "SECOND_FACTOR_REQUIRED", 1)
	})
}

// TestLinksShareABudget: all readers of an account's shared links share one budget. It is neither
// the account's own nor that of another account's links.
func TestLinksShareABudget(t *testing.T) {
	const limit, cost = 200, 4

	eachApp(t, func(t *testing.T, a *app) {
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		one, two := owner.siteOf("one.example"), owner.siteOf("two.example")
		readers := []string{owner.reader(one), owner.reader(one), owner.reader(two)}
		foreign := other.reader(other.siteOf("other.example"))

		// A link costs more to create than this server of the same installation allows.
		frugal := newApp(t, a.db, func(s *settings) { s.graph.CostPerMinute = limit })
		for i := range limit / cost {
			frugal.with(readers[i%len(readers)], sharedSiteQuery).ok(t, "")
		}
		for i, reader := range readers {
			frugal.with(reader, sharedSiteQuery).named("link %d, after the budget of all", i).code(t, "RATE_LIMITED")
		}

		// The owner, and the links of another account, have theirs.
		c := frugal.client()
		c.http.Jar = owner.http.Jar
		if got := c.query(`{ rateLimit { remaining } }`).ok(t, "").at("rateLimit.remaining"); got != limit-2.0 {
			t.Errorf("the owner has %v left, want %d", got, limit-2)
		}
		frugal.with(foreign, sharedSiteQuery).ok(t, "")
	})
}
