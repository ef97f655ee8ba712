package graph_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	deleteSiteMutation = `mutation($id: ID!, $confirm: String, $now: Boolean! = false) {
		deleteSite(input: {siteId: $id, confirm: $confirm, immediately: $now}) {
			site { id state deletedAt restorableUntil } userErrors { field code } } }`
	restoreMutation = `mutation($id: ID!) { restoreSite(input: {siteId: $id}) {
		site { id state domain registeredEvents deletedAt restorableUntil } userErrors { field code } } }`
	deletedQuery = `{ viewer { account { deletedSites { siteId siteKey domain name deletedAt restorableUntil } } } }`
)

// TestDeletedSiteIsRestored: a deleted site is unknown everywhere, keeps its rows, and comes back
// with them.
func TestDeletedSiteIsRestored(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		c := a.tenant("first.example").owner
		id := c.query(`{ sites { edges { node { id } } } }`).at("sites.edges.0.node.id").(string)
		fill(t, d, owners{site: 1})
		member := a.join(c, "m@first.example", model.RoleMember)
		reader := c.reader(id)
		before := left(t, d, owners{site: 1})

		key := c.query(`query($id: ID!) { site(id: $id) { siteKey state deletedAt restorableUntil } }`, "id", id).ok(t, "")
		if key.at("site.state") != "ACTIVE" || key.at("site.deletedAt") != nil || key.at("site.restorableUntil") != nil {
			t.Errorf("before: %s", key.Body)
		}

		for confirm, want := range map[string]string{"other.example": "confirm:CONFIRMATION_MISMATCH", "": "confirm:CONFIRMATION_MISMATCH"} {
			if got := c.query(deleteSiteMutation, "id", id, "confirm", confirm); got.userErrors("deleteSite") != want {
				t.Errorf("with the name %q: %s", confirm, got.Body)
			}
		}

		got := c.query(deleteSiteMutation, "id", id, "confirm", " FIRST.example").ok(t, "deleteSite")
		want := `{"data":{"deleteSite":{"site":{"id":"` + id + `","state":"DELETED","deletedAt":"2026-11-20T09:30:00Z","restorableUntil":"2026-11-27T09:30:00Z"},"userErrors":[]}}}`
		if got.Body != want {
			t.Errorf("got %s, want %s", got.Body, want)
		}
		if after := left(t, d, owners{site: 1}); !slices.Equal(after, before) {
			t.Errorf("rows in %v, want %v", after, before)
		}
		if _, err := sites.New(d).Lookup.SiteRulesByKey(t.Context(), key.at("site.siteKey").(string)); err != model.ErrNotFound {
			t.Errorf("the site key is still known: %v", err)
		}

		// Unknown to every query and mutation, and not counted.
		if got := c.query(`query($id: ID!) { site(id: $id) { id } node(id: $id) { id } sites { totalCount edges { cursor } } }`, "id", id); got.Body != `{"data":{"site":null,"node":null,"sites":{"totalCount":0,"edges":[]}}}` {
			t.Errorf("read: %s", got.Body)
		}
		for mutation, input := range map[string]string{
			"updateSite": `name: "x"`, "registerEvent": `name: "x"`, "pauseSite": "", "resumeSite": "", "deleteSite": "", "sendTestWebhook": "",
			"setOwnAlertChannel": "weekly: true", "setReportView": "preset: TODAY", "hideSiteNotices": "rejections: 1, usage: 80", "createAnnotation": `day: "2026-11-20", text: "x"`, "deleteUserData": `userId: "` + strings.Repeat("0a", 32) + `"`,
		} {
			got := c.query(`mutation($id: ID!) { `+mutation+`(input: {siteId: $id `+input+`}) { userErrors { field code } } }`, "id", id)
			if got.userErrors(mutation) != "siteId:NOT_FOUND" {
				t.Errorf("%s: %s", mutation, got.Body)
			}
		}
		if got := a.with(reader, `{ sharedSite { domain } }`); got.codes() != "UNAUTHENTICATED" {
			t.Errorf("a shared link: %s", got.Body)
		}

		list := c.query(deletedQuery).ok(t, "")
		wantList := `{"data":{"viewer":{"account":{"deletedSites":[{"siteId":"` + id + `","siteKey":"` + key.at("site.siteKey").(string) +
			`","domain":"first.example","name":"first.example","deletedAt":"2026-11-20T09:30:00Z","restorableUntil":"2026-11-27T09:30:00Z"}]}}}}`
		if list.Body != wantList {
			t.Errorf("deletedSites: %s, want %s", list.Body, wantList)
		}
		if got := member.query(deletedQuery); got.Body != `{"data":{"viewer":{"account":{"deletedSites":[]}}}}` {
			t.Errorf("deletedSites, to a member: %s", got.Body)
		}

		// A new site can have the domain; then the deleted one cannot return.
		fresh := c.siteOf("first.example")
		if got := c.query(restoreMutation, "id", id); got.userErrors("restoreSite") != "siteId:DOMAIN_TAKEN" {
			t.Errorf("restored while a site has its domain: %s", got.Body)
		}
		if got := c.query(deleteSiteMutation, "id", fresh, "now", true); got.userErrors("deleteSite") != "confirm:CONFIRMATION_MISMATCH" {
			t.Errorf("immediately, without a name: %s", got.Body)
		}
		c.query(deleteSiteMutation, "id", fresh, "confirm", "first.example", "now", true).ok(t, "deleteSite")

		// Restored in the last microsecond, with everything.
		a.clock.Add(model.RestorePeriod - time.Microsecond)
		c.signIn("owner@first.example", password).ok(t, "signIn")
		restored := c.query(restoreMutation, "id", id).ok(t, "restoreSite")
		if restored.at("restoreSite.site.state") != "ACTIVE" || restored.at("restoreSite.site.deletedAt") != nil || restored.at("restoreSite.site.registeredEvents.0") == nil {
			t.Errorf("restored: %s", restored.Body)
		}
		if after := left(t, d, owners{site: 1}); !slices.Equal(after, before) {
			t.Errorf("restored with rows in %v, want %v", after, before)
		}
		if got := c.query(restoreMutation, "id", id).ok(t, "restoreSite"); got.Body != restored.Body {
			t.Errorf("a second time: %s, want %s", got.Body, restored.Body)
		}
		if got := c.query(deletedQuery); got.Body != `{"data":{"viewer":{"account":{"deletedSites":[]}}}}` {
			t.Errorf("deletedSites after the restoration: %s", got.Body)
		}
		if _, err := sites.New(d).Lookup.SiteRulesByKey(t.Context(), key.at("site.siteKey").(string)); err != nil {
			t.Errorf("the site key: %v", err)
		}
	})
}

// TestDeletedSiteExpires: after 7 days a deleted site is unknown to its owner too, and housekeeping
// deletes it. An owner can do so earlier.
func TestDeletedSiteExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		id, early, kept := c.siteOf("example.com"), c.siteOf("early.example"), c.siteOf("kept.example")
		fill(t, d, owners{site: 2})
		for id, domain := range map[string]string{id: "example.com", early: "early.example"} {
			c.query(deleteSiteMutation, "id", id, "confirm", domain).ok(t, "deleteSite")
		}

		got := c.query(deleteSiteMutation, "id", early, "confirm", "early.example", "now", true).ok(t, "deleteSite")
		if got.at("deleteSite.site.state") != "DELETED" || got.at("deleteSite.site.restorableUntil") != nil {
			t.Errorf("deleted at once: %s", got.Body)
		}
		if after := left(t, d, owners{site: 2}); !slices.Equal(after, []string{"deleted_sites"}) {
			t.Errorf("deleted at once: rows in %v", after)
		}
		if got := c.query(restoreMutation, "id", early); got.userErrors("restoreSite") != "siteId:NOT_FOUND" {
			t.Errorf("restored after it was deleted at once: %s", got.Body)
		}

		expire := func(want int64) {
			t.Helper()
			if n, err := sites.New(d).Sites.ExpireDeletedSites(t.Context(), model.At(a.clock.Now())); n != want || err != nil {
				t.Errorf("%d sites expired, %v; want %d", n, err, want)
			}
		}

		a.clock.Add(model.RestorePeriod - time.Microsecond)
		expire(0)
		a.clock.Add(time.Microsecond)
		c.signIn("owner@example.com", password).ok(t, "signIn")

		if got := c.query(restoreMutation, "id", id); got.userErrors("restoreSite") != "siteId:NOT_FOUND" {
			t.Errorf("restored after 7 days: %s", got.Body)
		}
		if got := c.query(deletedQuery); got.Body != `{"data":{"viewer":{"account":{"deletedSites":[]}}}}` {
			t.Errorf("deletedSites after 7 days: %s", got.Body)
		}

		expire(1)
		expire(0)

		if after := left(t, d, owners{site: 1}); !slices.Equal(after, []string{"deleted_sites"}) {
			t.Errorf("after 7 days: rows in %v", after)
		}
		if got := c.query(`query($id: ID!) { site(id: $id) { state } }`, "id", kept); got.at("site.state") != "ACTIVE" {
			t.Errorf("the other site: %s", got.Body)
		}
	})
}

// TestRestoredSiteCounts: a deleted site leaves room for another one, and does not return without
// room.
func TestRestoredSiteCounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		a.owner("operator@example.com")
		c := a.owner("owner@example.com")
		if err := sites.New(d).Sites.SetSiteLimit(t.Context(), 2, 1); err != nil {
			t.Fatal(err)
		}

		first := c.siteOf("first.example")
		if got := c.createSite("second.example"); got.userErrors("createSite") != ":TOO_MANY_SITES" {
			t.Fatalf("two sites: %s", got.Body)
		}

		c.query(deleteSiteMutation, "id", first).ok(t, "deleteSite")
		second := c.siteOf("second.example")
		if got := c.query(restoreMutation, "id", first); got.userErrors("restoreSite") != ":TOO_MANY_SITES" {
			t.Errorf("restored without room: %s", got.Body)
		}

		c.query(deleteSiteMutation, "id", second).ok(t, "deleteSite")
		c.query(restoreMutation, "id", first).ok(t, "restoreSite")
	})
}

// TestPausedSite: a site is paused and resumed by members, says so, and keeps the state when it is
// deleted and restored.
func TestPausedSite(t *testing.T) {
	t.Parallel()
	const query = `query($id: ID!) { site(id: $id) { state notice } }`
	change := func(c *client, mutation, id string) *answer {
		return c.query(`mutation($id: ID!) { `+mutation+`(input: {siteId: $id}) { site { state } userErrors { field code } } }`, "id", id).ok(c.t, mutation)
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		id := owner.siteOf("example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)

		for range 2 {
			if got := change(member, "pauseSite", id); got.at("pauseSite.site.state") != "PAUSED" {
				t.Errorf("paused: %s", got.Body)
			}
		}

		if got := owner.query(query, "id", id); got.at("site.state") != "PAUSED" || !strings.Contains(got.at("site.notice").(string), "paused") {
			t.Errorf("read: %s", got.Body)
		}

		change(owner, "deleteSite", id)
		if got := change(owner, "restoreSite", id); got.at("restoreSite.site.state") != "PAUSED" {
			t.Errorf("restored: %s", got.Body)
		}

		for range 2 {
			if got := change(member, "resumeSite", id); got.at("resumeSite.site.state") != "ACTIVE" {
				t.Errorf("resumed: %s", got.Body)
			}
		}

		if got := owner.query(query, "id", id); got.Body != `{"data":{"site":{"state":"ACTIVE","notice":null}}}` {
			t.Errorf("read: %s", got.Body)
		}
	})
}

// TestConfirmedDeletions: a sitekey and an account are deleted only with their own name, if one is
// given.
func TestConfirmedDeletions(t *testing.T) {
	t.Parallel()
	const removeKey = `mutation($id: ID!, $confirm: String) { deleteSitekey(input: {sitekeyId: $id, confirm: $confirm}) { userErrors { field code } } }`
	const removeAccount = `mutation($confirm: String) { deleteAccount(input: {password: "` + password + `", confirm: $confirm}) { userErrors { field code } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		tenant := a.tenant("first.example")
		c, id := tenant.owner, tenant.ids["sitekeyId"]
		names := c.query(`query($id: ID!) { sitekey(id: $id) { name } viewer { account { name } } }`, "id", id).ok(t, "")
		name, account := names.at("sitekey.name").(string), names.at("viewer.account.name").(string)

		if got := c.query(removeKey, "id", id, "confirm", name+"s"); got.userErrors("deleteSitekey") != "confirm:CONFIRMATION_MISMATCH" {
			t.Errorf("a sitekey with another name: %s", got.Body)
		}
		if got := c.query(removeKey, "id", a.unknown(id), "confirm", name+"s"); got.userErrors("deleteSitekey") != "sitekeyId:NOT_FOUND" {
			t.Errorf("an unknown sitekey: %s", got.Body)
		}
		c.query(removeKey, "id", id, "confirm", " "+name).ok(t, "deleteSitekey")

		if got := c.query(removeAccount, "confirm", strings.ToUpper(account)+"X"); got.userErrors("deleteAccount") != "confirm:CONFIRMATION_MISMATCH" {
			t.Errorf("an account with another name: %s", got.Body)
		}
		c.query(removeAccount, "confirm", account).ok(t, "deleteAccount")
	})
}
