package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	deleteSiteMutation = `mutation($id: ID!, $confirm: String, $now: Boolean! = false) {
		deleteSite(input: {siteId: $id, confirm: $confirm, immediately: $now}) {
			site { id state deletedAt restorableUntil } userErrors { field code } } }`
	deletedQuery = `{ viewer { account { deletedSites { siteId siteKey domain name deletedAt restorableUntil } } } }`
)

// TestDeletedSiteIsRestored: a deleted site is unknown everywhere, keeps its rows, and comes back
// with them.
func TestDeletedSiteIsRestored(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.tenant("first.example").owner
		id := c.query(`{ sites { edges { node { id } } } }`).at("sites.edges.0.node.id").(string)
		fill(t, a.db, owners{site: 1})
		member := a.join(c, "m@first.example", model.RoleMember)
		reader := c.reader(id)
		before := left(t, a.db, owners{site: 1})

		key := c.site(id, `siteKey state deletedAt restorableUntil`).ok(t, "")
		key.named("before").has(t, "site.state", "ACTIVE").has(t, "site.deletedAt", nil).has(t, "site.restorableUntil", nil)

		for confirm, want := range map[string]string{"other.example": "confirm:CONFIRMATION_MISMATCH", "": "confirm:CONFIRMATION_MISMATCH"} {
			c.query(deleteSiteMutation, "id", id, "confirm", confirm).
				named("with the name %q", confirm).fails(t, "deleteSite", want)
		}

		got := c.query(deleteSiteMutation, "id", id, "confirm", " FIRST.example").ok(t, "deleteSite")
		want := `{"data":{"deleteSite":{"site":{"id":"` + id +
			`","state":"DELETED","deletedAt":"2026-11-20T09:30:00Z","restorableUntil":"2026-11-27T09:30:00Z"},"userErrors":[]}}}`
		got.is(t, want)
		testkit.EqualSlices(t, left(t, a.db, owners{site: 1}), before, "rows in")
		if _, err := sites.New(a.db).Lookup.SiteRulesByKey(t.Context(), key.at("site.siteKey").(string)); err != model.ErrNotFound {
			t.Errorf("the site key is still known: %v", err)
		}

		// Unknown to every query and mutation, and not counted.
		c.query(`query($id: ID!) { site(id: $id) { id } node(id: $id) { id } sites { totalCount edges { cursor } } }`, "id", id).
			named("read").is(t, `{"data":{"site":null,"node":null,"sites":{"totalCount":0,"edges":[]}}}`)
		for mutation, input := range map[string]string{
			"updateSite": `name: "x"`, "registerEvent": `name: "x"`, "pauseSite": "", "resumeSite": "", "deleteSite": "", "sendTestWebhook": "",
			"setOwnAlertChannel": "weekly: true", "setReportView": "preset: TODAY", "hideSiteNotices": "rejections: 1, usage: 80",
			"createAnnotation": `day: "2026-11-20", text: "x"`, "deleteUserData": `userId: "` + strings.Repeat("0a", 32) + `"`,
		} {
			got := c.query(`mutation($id: ID!) { `+mutation+`(input: {siteId: $id `+input+`}) { userErrors { field code } } }`, "id", id)
			got.named("%s", mutation).fails(t, mutation, "siteId:NOT_FOUND")
		}
		a.with(reader, `{ sharedSite { domain } }`).named("a shared link").code(t, "UNAUTHENTICATED")

		list := c.query(deletedQuery).ok(t, "")
		wantList := `{"data":{"viewer":{"account":{"deletedSites":[{"siteId":"` + id + `","siteKey":"` + key.at("site.siteKey").(string) +
			`","domain":"first.example","name":"first.example","deletedAt":"2026-11-20T09:30:00Z","restorableUntil":"2026-11-27T09:30:00Z"}]}}}}`
		equal(t, list.Body, wantList, "deletedSites")
		member.query(deletedQuery).named("deletedSites, to a member").is(t, `{"data":{"viewer":{"account":{"deletedSites":[]}}}}`)

		// A new site can have the domain; then the deleted one cannot return.
		fresh := c.siteOf("first.example")
		c.do("restoreSite", "siteId", id).
			named("restored while a site has its domain").fails(t, "restoreSite", "siteId:DOMAIN_TAKEN")
		c.query(deleteSiteMutation, "id", fresh, "now", true).
			named("immediately, without a name").fails(t, "deleteSite", "confirm:CONFIRMATION_MISMATCH")
		c.query(deleteSiteMutation, "id", fresh, "confirm", "first.example", "now", true).ok(t, "deleteSite")

		// Restored in the last microsecond, with everything.
		a.clock.Add(model.RestorePeriod - time.Microsecond)
		c.signIn("owner@first.example", password).ok(t, "signIn")
		restored := c.done("restoreSite", "siteId", id)
		if restored.at("restoreSite.site.state") != "ACTIVE" || restored.at("restoreSite.site.deletedAt") != nil ||
			restored.at("restoreSite.site.registeredEvents.0") == nil {
			t.Errorf("restored: %s", restored.Body)
		}
		testkit.EqualSlices(t, left(t, a.db, owners{site: 1}), before, "restored with rows in")
		c.done("restoreSite", "siteId", id).named("a second time").is(t, restored.Body)
		c.query(deletedQuery).
			named("deletedSites after the restoration").is(t, `{"data":{"viewer":{"account":{"deletedSites":[]}}}}`)
		if _, err := sites.New(a.db).Lookup.SiteRulesByKey(t.Context(), key.at("site.siteKey").(string)); err != nil {
			t.Errorf("the site key: %v", err)
		}
	})
}

// TestDeletedSiteExpires: after 7 days a deleted site is unknown to its owner too, and housekeeping
// deletes it. An owner can do so earlier.
func TestDeletedSiteExpires(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id, early, kept := c.siteOf("example.com"), c.siteOf("early.example"), c.siteOf("kept.example")
		fill(t, a.db, owners{site: 2})
		for id, domain := range map[string]string{id: "example.com", early: "early.example"} {
			c.query(deleteSiteMutation, "id", id, "confirm", domain).ok(t, "deleteSite")
		}

		got := c.query(deleteSiteMutation, "id", early, "confirm", "early.example", "now", true).ok(t, "deleteSite")
		got.named("deleted at once").has(t, "deleteSite.site.state", "DELETED").has(t, "deleteSite.site.restorableUntil", nil)
		testkit.EqualSlices(t, left(t, a.db, owners{site: 2}), []string{"deleted_sites"}, "deleted at once: rows in")
		c.do("restoreSite", "siteId", early).
			named("restored after it was deleted at once").fails(t, "restoreSite", "siteId:NOT_FOUND")

		expire := func(want int64) {
			t.Helper()
			if n, err := sites.New(a.db).Sites.ExpireDeletedSites(t.Context(), model.At(a.clock.Now())); n != want || err != nil {
				t.Errorf("%d sites expired, %v; want %d", n, err, want)
			}
		}

		a.clock.Add(model.RestorePeriod - time.Microsecond)
		expire(0)
		a.clock.Add(time.Microsecond)
		c.signIn("owner@example.com", password).ok(t, "signIn")

		c.do("restoreSite", "siteId", id).named("restored after 7 days").fails(t, "restoreSite", "siteId:NOT_FOUND")
		c.query(deletedQuery).named("deletedSites after 7 days").is(t, `{"data":{"viewer":{"account":{"deletedSites":[]}}}}`)

		expire(1)
		expire(0)

		testkit.EqualSlices(t, left(t, a.db, owners{site: 1}), []string{"deleted_sites"}, "after 7 days: rows in")
		c.site(kept, `state`).named("the other site").has(t, "site.state", "ACTIVE")
	})
}

// TestRestoredSiteCounts: a deleted site leaves room for another one, and does not return without
// room.
func TestRestoredSiteCounts(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		c := a.owner("owner@example.com")
		must(t, sites.New(a.db).Sites.SetSiteLimit(t.Context(), 2, 1))

		first := c.siteOf("first.example")
		c.createSite("second.example").named("two sites").fails(t, "createSite", ":TOO_MANY_SITES")

		c.query(deleteSiteMutation, "id", first).ok(t, "deleteSite")
		second := c.siteOf("second.example")
		c.do("restoreSite", "siteId", first).named("restored without room").fails(t, "restoreSite", ":TOO_MANY_SITES")

		c.query(deleteSiteMutation, "id", second).ok(t, "deleteSite")
		c.done("restoreSite", "siteId", first)
	})
}

// TestPausedSite: a site is paused and resumed by members, says so, and keeps the state when it is
// deleted and restored.
func TestPausedSite(t *testing.T) {
	const query = `query($id: ID!) { site(id: $id) { state notice } }`
	change := func(c *client, mutation, id string) *answer {
		return c.query(`mutation($id: ID!) { `+mutation+`(input: {siteId: $id}) { site { state } userErrors { field code } } }`, "id", id).ok(c.t, mutation)
	}

	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		id := owner.siteOf("example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		for range 2 {
			change(member, "pauseSite", id).named("paused").has(t, "pauseSite.site.state", "PAUSED")
		}

		if got := owner.query(query, "id", id); got.at("site.state") != "PAUSED" || !strings.Contains(got.at("site.notice").(string), "paused") {
			t.Errorf("read: %s", got.Body)
		}

		change(owner, "deleteSite", id)
		change(owner, "restoreSite", id).named("restored").has(t, "restoreSite.site.state", "PAUSED")

		for range 2 {
			change(member, "resumeSite", id).named("resumed").has(t, "resumeSite.site.state", "ACTIVE")
		}

		owner.query(query, "id", id).named("read").is(t, `{"data":{"site":{"state":"ACTIVE","notice":null}}}`)
	})
}

// TestConfirmedDeletions: a sitekey and an account are deleted only with their own name, if one is
// given.
func TestConfirmedDeletions(t *testing.T) {
	const removeAccount = `mutation($confirm: String) { deleteAccount(input: {password: "` + password +
		`", confirm: $confirm}) { userErrors { field code } } }`

	eachApp(t, func(t *testing.T, a *app) {
		tenant := a.tenant("first.example")
		c, id := tenant.owner, tenant.ids["sitekeyId"]
		names := c.query(`query($id: ID!) { sitekey(id: $id) { name } viewer { account { name } } }`, "id", id).ok(t, "")
		name, account := names.at("sitekey.name").(string), names.at("viewer.account.name").(string)

		c.do("deleteSitekey", "sitekeyId", id, "confirm", name+"s").
			named("a sitekey with another name").fails(t, "deleteSitekey", "confirm:CONFIRMATION_MISMATCH")
		c.do("deleteSitekey", "sitekeyId", a.unknown(id), "confirm", name+"s").
			named("an unknown sitekey").fails(t, "deleteSitekey", "sitekeyId:NOT_FOUND")
		c.done("deleteSitekey", "sitekeyId", id, "confirm", " "+name)

		c.query(removeAccount, "confirm", strings.ToUpper(account)+"X").
			named("an account with another name").fails(t, "deleteAccount", "confirm:CONFIRMATION_MISMATCH")
		c.query(removeAccount, "confirm", account).ok(t, "deleteAccount")
	})
}
