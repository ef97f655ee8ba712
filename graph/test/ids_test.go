package graph_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestAUserHasOneID: the id of the signed-in user equals the one in the list of members; node and
// mutations accept it.
func TestAUserHasOneID(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		guest := a.join(owner, "guest@example.com", model.RoleMember)

		list := owner.query(`{ viewer { id account { id members { id email operator account { id } } } } }`).ok(t, "")
		if list.at("viewer.id") != list.at("viewer.account.members.0.id") || guest.id() != list.at("viewer.account.members.1.id") ||
			list.at("viewer.account.id") != list.at("viewer.account.members.1.account.id") {
			t.Errorf("ids of users: %s", list.Body)
		}

		got := owner.query(`query($id: ID!) { node(id: $id) { __typename ... on User { id email role } } }`, "id", guest.id()).ok(t, "")
		if got.at("node.__typename") != "User" || got.at("node.email") != "guest@example.com" || got.at("node.role") != "MEMBER" {
			t.Errorf("node: %s", got.Body)
		}

		owner.done("setMemberRole", "userId", guest.id(), "role", "VIEWER")
		owner.done("removeMember", "userId", guest.id())

		equal(t, guest.viewer(), "", "the removed member is still signed in")
	})
}

// TestIDsShowNoNumbers: no id and no cursor contains a row's number, in any usual notation, or the
// number of rows. A second server on the same database returns the same ids.
func TestIDsShowNoNumbers(t *testing.T) {
	const query = `{ viewer { id account { id members { id } invitations { id } } } apiTokens { id } sessions { id }
		sites { pageInfo { endCursor } edges { cursor node { id deliveries { edges { cursor node { id } } } } } }
		sitekeys { edges { cursor node { id } } } }`

	eachApp(t, func(t *testing.T, a *app) {
		tenant := a.tenant("first.example")
		got := tenant.owner.query(query).ok(t, "")

		seen := map[string]bool{}
		for _, id := range append(slices.Collect(maps.Values(tenant.ids)), cursorsIn(got.Data)...) {
			seen[id] = true
			prefix, rest := id[:max(0, len(id)-22)], id[max(0, len(id)-22):]

			if strings.HasPrefix(id, "session_") {
				prefix, rest = "session_", id[len("session_"):]
			}

			raw, err := base64.RawURLEncoding.DecodeString(rest)
			if !regexp.MustCompile(`^[a-z]+_$`).MatchString(prefix) || err != nil || len(id) > 64 {
				t.Errorf("%q has no prefix and 22 characters", id)
			}

			// That is a number of 32 or 64 bits below a million.
			if bytes.Contains(raw, []byte{0, 0, 0}) {
				t.Errorf("%q contains a number: %x", id, raw)
			}
		}

		if len(seen) < 12 {
			t.Errorf("only %d ids", len(seen))
		}

		again := newApp(t, a.db)
		again.clock.Add(time.Hour)
		c := again.client()
		c.signIn("owner@first.example", password).ok(t, "signIn")

		same := c.query(`{ viewer { id account { id } } sites { edges { cursor node { id } } } }`).ok(t, "")
		for _, path := range []string{"viewer.id", "viewer.account.id", "sites.edges.0.cursor", "sites.edges.0.node.id"} {
			equal(t, same.at(path), got.at(path), "%s was %v, and", path, got.at(path))
		}
	})
}

// cursorsIn returns all values of the fields cursor and endCursor.
func cursorsIn(data any) (found []string) {
	switch data := data.(type) {
	case map[string]any:
		for name, value := range data {
			if text, ok := value.(string); ok && strings.HasSuffix(strings.ToLower(name), "cursor") {
				found = append(found, text)
			}

			found = append(found, cursorsIn(value)...)
		}
	case []any:
		for _, value := range data {
			found = append(found, cursorsIn(value)...)
		}
	}

	return found
}

// TestCursorsBelongToTheirList: the cursor of one list is rejected by another.
func TestCursorsBelongToTheirList(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
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

				want := "INVALID_ARGUMENT"

				if from == to {
					want = ""
				}
				c.query(`query($after: String) { `+to+page+end+` }`, "after", cursors.at(from+".edges.0.cursor")).
					named("a cursor of %s in %s", from, to).code(t, want)
			}
		}
	})
}

// TestWholeListsCostWhatTheyMayHold: a list without pages costs as much as its maximum number of
// items.
func TestWholeListsCostWhatTheyMayHold(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for query, want := range map[string]float64{
			`viewer { account { members { id email } } }`: 3 + 2*100,
			`viewer { account { invitations { id } } }`:   3 + 100,
			`sessions { id current }`:                     1 + 2*100,
			`apiTokens { id }`:                            1 + 50,
			`sites(first: 1) { edges { node { deliveries(first: 2) { edges { node { attempts { at } } } } } } }`: 1 + 1*(2+1+2*(2+1+10)),
		} {
			c.query(`{ rateLimit { cost } `+query+` }`).named("%s", query).has(t, "rateLimit.cost", want+2)
		}
	})
}
