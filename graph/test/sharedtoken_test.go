package graph_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestSharedLinkToken checks who can read the token of a link again: members who may create links,
// through all paths to the link, and no others. It is stored encrypted.
func TestSharedLinkToken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		made := c.query(`mutation($id: ID!) { createSharedLink(input: {siteId: $id, name: "link"}) {
			sharedLink { id token } token userErrors { code } } }`, "id", site).ok(t, "createSharedLink")
		id, token := made.at("createSharedLink.sharedLink.id").(string), made.at("createSharedLink.token").(string)
		if made.at("createSharedLink.sharedLink.token") != token {
			t.Errorf("the new link: %s", made.Body)
		}
		if strings.Contains(a.dump(), token) {
			t.Error("the token is stored as it is")
		}

		const query = `{ site(id: "SITE") { sharedLinks { hint token } } node(id: "LINK") { ... on SharedLink { hint token } } }`
		read := strings.NewReplacer("SITE", site, "LINK", id).Replace(query)
		check := func(who string, got *answer, want any) {
			t.Helper()
			if got.codes() != "" || got.at("site.sharedLinks.0.hint") != made.at("createSharedLink.token").(string)[len(token)-len(got.at("node.hint").(string)):] {
				t.Errorf("%s reads %s", who, got.Body)
			}
			if got.at("site.sharedLinks.0.token") != want || got.at("node.token") != want {
				t.Errorf("%s reads %s, want the token %v", who, got.Body, want)
			}
		}

		check("the owner", c.query(read), token)
		check("a member", a.join(c, "member@example.com", model.RoleMember).query(read), token)
		check("a viewer", a.join(c, "viewer@example.com", model.RoleViewer).query(read), nil)
		for scopes, want := range map[string]any{"READ": nil, "READ WRITE": nil, "READ EXPORT": nil, "WRITE EXPORT": token} {
			check("a token with "+scopes, a.with(c.createToken(strings.Fields(scopes)...).secret, read), want)
		}

		// A reader of the link reaches no such field, and another account no such link.
		if got := a.with(c.reader(site), read); strings.Contains(got.Body, token) || got.codes() != "FORBIDDEN FORBIDDEN" && got.codes() != "FORBIDDEN" {
			t.Errorf("a reader reads %s", got.Body)
		}
		if got := a.owner("other@example.com").query(read); got.at("site") != nil || got.at("node") != nil {
			t.Errorf("another account reads %s", got.Body)
		}

		// A link with the sealed token of another one shows no token.
		other := c.query(createLinkMutation, "site", site).ok(t, "createSharedLink")
		if err := dbtest.Exec(d, `UPDATE shared_links SET sealed_token = (SELECT b.sealed_token FROM shared_links b WHERE b.name = 'link'
ORDER BY b.id LIMIT 1) WHERE id = (SELECT max(id) FROM shared_links)`); err != nil {
			t.Fatal(err)
		}
		moved := c.query(strings.Replace(read, id, other.at("createSharedLink.sharedLink.id").(string), 1))
		if moved.codes() != "" || moved.at("node.token") != nil || moved.at("node.hint") == nil {
			t.Errorf("a link with the token of another one: %s", moved.Body)
		}
	})
}

// TestSharedLinkOfId opens a link together with an id, as the page for frames does: the token of
// another link is refused, so that the origins of one link do not apply to another one.
func TestSharedLinkOfId(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		create := func(name string) (id, token any) {
			c := a.owner("owner@" + name)
			got := c.query(`mutation($site: ID!) { createSharedLink(input: {siteId: $site, name: "link"}) { sharedLink { id } token
				userErrors { code } } }`, "site", c.siteOf(name)).ok(t, "createSharedLink")
			return got.at("createSharedLink.sharedLink.id"), got.at("createSharedLink.token")
		}
		id, token := create("first.example")
		other, _ := create("second.example")

		const open = `mutation($token: String!, $id: ID) { openSharedLink(input: {token: $token, sharedLinkId: $id}) {
			viewerToken userErrors { code } } }`
		a.client().query(open, "token", token, "id", id).ok(t, "openSharedLink")
		a.client().query(open, "token", token, "id", nil).ok(t, "openSharedLink")
		for _, wrong := range []any{other, "", "x"} {
			got := a.client().query(open, "token", token, "id", wrong)
			if got.userErrors("openSharedLink") != ":INVALID_LINK" || got.at("openSharedLink.viewerToken") != nil {
				t.Errorf("with the id %q: %s", wrong, got.Body)
			}
		}
	})
}

// TestSharedLinkOrigins checks the origins of a new link.
func TestSharedLinkOrigins(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		const create = `mutation($site: ID!, $origins: [String!]!) { createSharedLink(input: {siteId: $site, name: "link", origins: $origins}) {
			sharedLink { origins } token userErrors { field code } } }`

		many := make([]string, model.MaxOrigins+1)
		for i := range many {
			many[i] = "https://" + string(rune('a'+i)) + ".example"
		}
		for want, origins := range map[string][]string{
			"origins.1:INVALID_ORIGIN": {"https://a.example", "http://a.example"},
			"origins.0:INVALID_ORIGIN": {"https://a.example/path"},
			"origins:TOO_MANY_ORIGINS": many,
		} {
			if got := c.query(create, "site", site, "origins", origins); got.userErrors("createSharedLink") != want || got.at("createSharedLink.token") != nil {
				t.Errorf("%q: %s, want %s", origins, got.Body, want)
			}
		}

		got := c.query(create, "site", site, "origins", []string{"https://B.example/", "http://localhost:3000", "https://b.example:443"}).ok(t, "createSharedLink")
		if got.at("createSharedLink.sharedLink.origins.0") != "http://localhost:3000" || got.at("createSharedLink.sharedLink.origins.1") != "https://b.example" ||
			got.at("createSharedLink.sharedLink.origins.2") != nil {
			t.Errorf("origins: %s", got.Body)
		}
		if got := c.query(`query($id: ID!) { site(id: $id) { sharedLinks { origins hidesRevenue } } }`, "id", site); got.at("site.sharedLinks.1") != nil ||
			got.at("site.sharedLinks.0.origins.1") != "https://b.example" || got.at("site.sharedLinks.0.hidesRevenue") != false {
			t.Errorf("stored: %s", got.Body)
		}
		audit := c.query(`{ viewer { account { auditLog(first: 1) { nodes { action changes { name before after } } } } } }`)
		if !strings.Contains(audit.Body, "b.example") || strings.Contains(audit.Body, "tgl_") {
			t.Errorf("the audit log: %s", audit.Body)
		}
	})
}
