package graph_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestSharedLinkToken checks who can read the token of a link again: members who may create links,
// through all paths to the link, and no others. It is stored encrypted.
func TestSharedLinkToken(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		made := c.done("createSharedLink", "siteId", site, "name", "link")
		id, token := made.at("createSharedLink.sharedLink.id").(string), made.at("createSharedLink.token").(string)
		made.named("the new link").has(t, "createSharedLink.sharedLink.token", token)
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
			got.named("%s reads", who).has(t, "site.sharedLinks.0.token", want).has(t, "node.token", want)
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
		a.owner("other@example.com").query(read).named("another account reads").has(t, "site", nil).has(t, "node", nil)

		// A link with the sealed token of another one shows no token.
		other := c.query(createLinkMutation, "site", site).ok(t, "createSharedLink")
		must(t, dbtest.Exec(a.db, `UPDATE shared_links SET sealed_token = (SELECT b.sealed_token FROM shared_links b WHERE b.name = 'link'
ORDER BY b.id LIMIT 1) WHERE id = (SELECT max(id) FROM shared_links)`))
		moved := c.query(strings.Replace(read, id, other.at("createSharedLink.sharedLink.id").(string), 1))
		moved.named("a link with the token of another one").code(t, "").has(t, "node.token", nil).set(t, "node.hint")
	})
}

// TestSharedLinkOfId opens a link together with an id, as the page for frames does: the token of
// another link is refused, so that the origins of one link do not apply to another one.
func TestSharedLinkOfId(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		create := func(name string) (id, token any) {
			c := a.owner("owner@" + name)
			got := c.done("createSharedLink", "siteId", c.siteOf(name), "name", "link")
			return got.at("createSharedLink.sharedLink.id"), got.at("createSharedLink.token")
		}
		id, token := create("first.example")
		other, _ := create("second.example")

		a.client().done("openSharedLink", "token", token, "sharedLinkId", id)
		a.client().done("openSharedLink", "token", token, "sharedLinkId", nil)
		for _, wrong := range []any{other, "", "x"} {
			a.client().do("openSharedLink", "token", token, "sharedLinkId", wrong).named("with the id %q", wrong).
				fails(t, "openSharedLink", "token:INVALID_LINK").has(t, "openSharedLink.viewerToken", nil)
		}
	})
}

// TestSharedLinkOrigins checks the origins of a new link.
func TestSharedLinkOrigins(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")

		many := make([]string, model.MaxOrigins+1)
		for i := range many {
			many[i] = "https://" + string(rune('a'+i)) + ".example"
		}
		for want, origins := range map[string][]string{
			"origins.1:INVALID_ORIGIN": {"https://a.example", "http://a.example"},
			"origins.0:INVALID_ORIGIN": {"https://a.example/path"},
			"origins:TOO_MANY_ORIGINS": many,
		} {
			c.do("createSharedLink", "siteId", site, "name", "link", "origins", origins).
				named("%q", origins).fails(t, "createSharedLink", want).has(t, "createSharedLink.token", nil)
		}

		got := c.done("createSharedLink", "siteId", site, "name", "link", "origins", []string{
			"https://B.example/", "http://localhost:3000", "https://b.example:443",
		})
		if got.at("createSharedLink.sharedLink.origins.0") != "http://localhost:3000" ||
			got.at("createSharedLink.sharedLink.origins.1") != "https://b.example" ||
			got.at("createSharedLink.sharedLink.origins.2") != nil {
			t.Errorf("origins: %s", got.Body)
		}
		if got := c.site(site, `sharedLinks { origins hidesRevenue }`); got.at("site.sharedLinks.1") != nil ||
			got.at("site.sharedLinks.0.origins.1") != "https://b.example" || got.at("site.sharedLinks.0.hidesRevenue") != false {
			t.Errorf("stored: %s", got.Body)
		}
		audit := c.query(`{ viewer { account { auditLog(first: 1) { nodes { action changes { name before after } } } } } }`)
		audit.named("the audit log").shows(t, "b.example").hides(t, "tgl_")
	})
}
