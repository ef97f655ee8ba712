package graph_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestMembersAreNoUsers: a person has one id as a user and another one as a member. Both name a member to change; node knows the
// user alone.
func TestMembersAreNoUsers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		guest := a.join(owner, "guest@example.com", model.RoleMember)
		list := owner.query(`{ viewer { id account { members { id email } } } }`).ok(t, "")
		user, self, member := list.at("viewer.id"), list.at("viewer.account.members.0.id"), list.at("viewer.account.members.1.id")
		if user == self || member == guest.id() || self == member {
			t.Errorf("ids of users and members: %s", list.Body)
		}
		got := owner.query(`query($user: ID!, $self: ID!, $member: ID!) { a: node(id: $user) { __typename id } b: node(id: $self) { id } c: node(id: $member) { id } }`,
			"user", user, "self", self, "member", member)
		if got.at("a.id") != user || got.at("a.__typename") != "User" || got.at("b") != nil || got.at("c") != nil || got.codes() != "" {
			t.Errorf("node: %s", got.Body)
		}
		for _, id := range []any{member, guest.id()} {
			owner.query(roleMutation, "id", id, "role", "VIEWER").ok(t, "setMemberRole")
		}
		owner.query(removeMutation, "id", member).ok(t, "removeMember")
		if guest.viewer() != "" {
			t.Error("the removed member is still signed in")
		}
	})
}

// TestCursorsBelongToTheirList: the cursor of one list begins no page of another one.
func TestCursorsBelongToTheirList(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		c.createSite("example.com").ok(t, "createSite")
		c.createSitekey("form").ok(t, "createSitekey")
		lists := []string{"sites", "sitekeys", "sites { edges { node { deliveries"}
		cursors := c.query(`{ sites { edges { cursor } } sitekeys { edges { cursor } } }`).ok(t, "")
		for _, from := range lists[:2] {
			for _, to := range lists {
				page, end := "(after: $after) { edges { cursor } }", ""
				if to == lists[2] {
					end = " } } }"
				}
				want := "invalid_argument"
				if from == to {
					want = ""
				}
				if got := c.query(`query($after: String) { `+to+page+end+` }`, "after", cursors.at(from+".edges.0.cursor")); got.codes() != want {
					t.Errorf("a cursor of %s in %s: %s", from, to, got.Body)
				}
			}
		}
	})
}

// TestWholeListsCostWhatTheyMayHold: a list that comes without pages is priced as often as it may have entries.
func TestWholeListsCostWhatTheyMayHold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		for query, want := range map[string]float64{
			`viewer { account { members { id email } } }`: 3 + 2*100,
			`viewer { account { invitations { id } } }`:   3 + 100,
			`sessions { id current }`:                     1 + 2*100,
			`apiTokens { id }`:                            1 + 50,
			`sites(first: 1) { edges { node { deliveries(first: 2) { edges { node { attempts { at } } } } } } }`: 1 + 1*(2+1+2*(2+1+10)),
		} {
			if got := c.query(`{ rateLimit { cost } ` + query + ` }`); got.at("rateLimit.cost") != want+2 {
				t.Errorf("%s: %s, want a cost of %v", query, got.Body, want+2)
			}
		}
	})
}
