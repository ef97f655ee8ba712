package graph_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// restrictedToken creates a token with all scopes for some sites, and returns its secret.
func (c *client) restrictedToken(siteIDs ...string) string {
	c.t.Helper()
	return c.restrict(siteIDs).ok(c.t, "createApiToken").at("createApiToken.token").(string)
}

func (c *client) restrict(siteIDs []string) *answer {
	c.t.Helper()
	return c.do("createApiToken", "name", "test", "scopes", []string{"READ", "WRITE", "EXPORT"}, "siteIds", siteIDs)
}

// TestRestrictedTokenIsolation: for a token that is restricted to one site, the ids of everything
// else in the same account answer like unknown ones in every field that takes an id, and nothing
// changes. Its own site and its objects are found.
func TestRestrictedTokenIsolation(t *testing.T) {
	fields, operation := byID()

	// What is the site's own, by the name of the id.
	ofSite := []string{
		"siteId", "siteIds", "deliveryId", "annotationId", "segmentId", "funnelId", "sharedLinkId", "erasureId",
		"importId", "importJobId", "alertChannelId", "alertMessageId",
	}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		first := a.tenant("first.example")
		token := []string{"Authorization", "Bearer " + first.owner.restrictedToken(first.owner.siteOf("second.example"))}
		own := []string{"Authorization", "Bearer " + first.owner.restrictedToken(first.ids["siteId"])}
		caller := a.client()

		// The tokens' first use is stored.
		node := byName(t, fields, "node")
		for _, header := range [][]string{token, own} {
			caller.call(t, ast.Query, node, func(string) string { return first.ids["siteId"] }, header...)
		}

		before := a.dump("signin_failures")
		for _, f := range fields {
			unknown := caller.answersUnknown(t, operation[f.Name], f, token...)
			for name, id := range first.ids {
				// The account is the token's own. Ids of a kind that the field does not take are unknown for all
				// callers, see TestAnotherTenantsIDsAnswerLikeUnknownOnes.
				if name == "accountId" || name == "toAccountId" || name == "lastAccountId" || !takes(f, name) {
					continue
				}

				foreign := caller.call(t, operation[f.Name], f, func(string) string { return id }, token...)
				if !unknown(foreign.Body, id) || strings.Contains(foreign.Body, "first") {
					t.Errorf("%s with the %s of another site answers %s, unlike an unknown one", f.Name, name, foreign.Body)
				}
			}
		}

		equal(t, a.dump("signin_failures"), before, "the calls changed something")

		for name, id := range first.ids {
			got := caller.call(t, ast.Query, node, func(string) string { return id }, own...)
			visible := slices.Contains(ofSite, name) || name == "accountId" || name == "toAccountId" || name == "lastAccountId"
			if found := got.at("node") != nil; found != visible || got.codes() != "" {
				t.Errorf("the %s of the token's own site or account: %s, want that it is found: %t", name, got.Body, visible)
			}
		}
	})
}

func byName(t *testing.T, fields []*ast.FieldDefinition, name string) *ast.FieldDefinition {
	t.Helper()
	i := slices.IndexFunc(fields, func(f *ast.FieldDefinition) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no field %s", name)
	}
	return fields[i]
}

// TestRestrictedTokenLists: the lists and counts of the account have only the token's sites. What
// belongs to no site is refused or empty.
func TestRestrictedTokenLists(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		a.join(owner, "member@example.com", model.RoleMember)
		owner.createSitekey("form", "one.example")

		ids := map[string]string{}
		for _, domain := range []string{"one.example", "two.example", "three.example"} {
			ids[domain] = owner.siteOf(domain)
		}

		secret := owner.restrictedToken(ids["three.example"], ids["one.example"], ids["one.example"])
		for query, want := range map[string]string{
			`{ sites { totalCount nodes { domain } } }`:                  `{"sites":{"totalCount":2,"nodes":[{"domain":"one.example"},{"domain":"three.example"}]}}`,
			`{ sites(first: 1) { pageInfo { hasNextPage } } }`:           `{"sites":{"pageInfo":{"hasNextPage":true}}}`,
			`{ sites(first: 2) { pageInfo { hasNextPage } } }`:           `{"sites":{"pageInfo":{"hasNextPage":false}}}`,
			`{ sites(orderBy: DOMAIN, last: 1) { nodes { domain } } }`:   `{"sites":{"nodes":[{"domain":"three.example"}]}}`,
			`{ sites(search: "t") { totalCount nodes { domain } } }`:     `{"sites":{"totalCount":1,"nodes":[{"domain":"three.example"}]}}`,
			`{ account { sites { totalCount nodes { domain } } } }`:      `{"account":{"sites":{"totalCount":2,"nodes":[{"domain":"one.example"},{"domain":"three.example"}]}}}`,
			`{ site(domain: "one.example") { domain } }`:                 `{"site":{"domain":"one.example"}}`,
			`{ site(domain: "two.example") { domain } }`:                 `{"site":null}`,
			`{ account { members { email } invitations { email } } }`:    `{"account":{"members":[{"email":"owner@example.com"}],"invitations":[]}}`,
			`{ account { deletedSites { domain } apiTokens { name } } }`: `{"account":{"deletedSites":[],"apiTokens":[]}}`,
		} {
			if got := a.with(secret, query); got.Body != `{"data":`+want+`}` {
				t.Errorf("%s: %s, want %s", query, got.Body, want)
			}
		}

		for _, query := range []string{
			`{ sitekeys { totalCount } }`, `{ account { auditLog { nodes { action } } } }`,
			`mutation { createSite(input: {domain: "four.example"}) { site { id } } }`,
			`mutation { createSitekey(input: {name: "form", domains: ["one.example"]}) { sitekey { id } } }`,
		} {
			a.with(secret, query).named("%s", query).code(t, "FORBIDDEN")
		}

		owner.done("deleteSite", "siteId", ids["one.example"])
		owner.done("deleteSite", "siteId", ids["three.example"])
		a.with(secret, `{ sites { totalCount nodes { domain } } }`).
			named("after its sites were deleted").is(t, `{"data":{"sites":{"totalCount":0,"nodes":[]}}}`)
	})
}

// TestRestrictedTokenAfterTransfer: a site that leaves the account is out of the token's reach, and
// the token stays restricted.
func TestRestrictedTokenAfterTransfer(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		moved, kept := owner.siteOf("moved.example"), owner.siteOf("kept.example")
		secret := owner.restrictedToken(moved)
		other := owner.done("createAccount", "name", "Other").at("createAccount.account.id")

		owner.done("transferSite", "siteId", moved, "toAccountId", other)

		for _, id := range []string{moved, kept} {
			a.with(secret, `{ site(id: "`+id+`") { domain } sites { totalCount } }`).
				named("after the transfer").is(t, `{"data":{"site":null,"sites":{"totalCount":0}}}`)
		}
	})
}

// TestRestrictedTokenMistakes: the sites of a token must be of its account, 1 to 100.
func TestRestrictedTokenMistakes(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		own, foreign := owner.siteOf("own.example"), other.siteOf("foreign.example")
		before := a.dump()

		for _, test := range []struct {
			ids  []string
			want string
		}{
			{[]string{}, "siteIds:INVALID_SITES"},
			{slices.Repeat([]string{own}, model.MaxChosenSites+1), "siteIds:INVALID_SITES"},
			{[]string{own, foreign}, "siteIds:NOT_FOUND"},
			{[]string{own, a.unknownOf(nodeid.Site)}, "siteIds:NOT_FOUND"},
			{[]string{own, a.unknownOf(nodeid.Sitekey)}, "siteIds:NOT_FOUND"},
		} {
			owner.restrict(test.ids).
				named("%d sites", len(test.ids)).fails(t, "createApiToken", test.want).has(t, "createApiToken.token", nil)
		}

		equal(t, a.dump(), before, "the mistakes changed something")

		got := owner.restrict([]string{own, own}).ok(t, "createApiToken")
		if ids, ok := got.at("createApiToken.apiToken.siteIds").([]any); !ok || len(ids) != 1 || ids[0] != own {
			t.Errorf("the token's sites: %s", got.Body)
		}
		owner.query(`{ apiTokens { siteIds } }`).named("the list").is(t, `{"data":{"apiTokens":[{"siteIds":["`+own+`"]}]}}`)
	})
}

// openToRestricted are the fields of an account that a token restricted to sites reads, each with
// the reason. All other fields must be null, empty or forbidden.
var openToRestricted = map[string]string{
	"id":                  "the token's own object names its account",
	"name":                "a program shows for whom it acts",
	"createdAt":           "it says nothing about sites or people",
	"viewerRole":          "the role of the token's own user",
	"viewerIsGuest":       "the membership of the token's own user",
	"requireSecondFactor": "the rule decides what the token's own user may do",
	"requireProvider":     "the rule is not for tokens",
	"suspension":          "the reason why the token's changes are refused",
	"sites":               "only the token's sites, see TestRestrictedTokenLists",
	"members":             "only the token's own user",
	"captchaPlan":         "documented at createApiToken: a plan has no name of a site or person",
	"captchaUsage":        "documented at createApiToken: a count of all sitekeys together",
	"captchaUsageHistory": "the same count by month",
}

// TestRestrictedTokenAccount reads every field of an account, over every path to the account, with
// an owner's token that is restricted to one site. Everything that the token must not see has
// "hidden" in its name.
func TestRestrictedTokenAccount(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		owner := a.owner("owner@example.com")
		own := owner.siteOf("own.example")
		ids := a.hide(owner)

		account := owner.account()
		paths := map[string]string{
			"account":         `{ account { %s } }`,
			"account by id":   `{ account(id: "` + account + `") { %s } }`,
			"node":            `{ node(id: "` + account + `") { ... on Account { %s } } }`,
			"viewer":          `{ viewer { account { %s } } }`,
			"viewer.accounts": `{ viewer { accounts { %s } } }`,
		}

		for _, scope := range []string{"READ", "READ, WRITE, EXPORT"} {
			secret := owner.query(`mutation { createApiToken(input: {name: "test", scopes: [`+scope+`], siteIds: ["`+own+`"]}) {
				token userErrors { code } } }`).ok(t, "createApiToken").at("createApiToken.token").(string)

			for _, f := range fieldsOf(schema.Types["Account"]) {
				for path, query := range paths {
					fields := accountSelection(f)
					if path == "viewer.accounts" && fields != "" {
						// All fields of a list in a list cost more than a request may.
						fields = "{ __typename }"
					}

					got := a.with(secret, fmt.Sprintf(query, f.Name+literalArguments(f)+" "+fields))
					wantRestricted(t, openToRestricted, path, f.Name, got)
				}
			}

			for name, id := range ids {
				a.with(secret, `{ node(id: "`+id+`") { __typename } }`).
					named("%s: the node of the hidden %s", scope, name).is(t, `{"data":{"node":null}}`)
			}
		}

		// The same fields have the hidden names for the owner: the test would notice them.
		got := owner.query(`{ account { deletedSites { domain } sites { nodes { domain } } members { email } invitations { email }
			apiTokens { name } auditLog { nodes { object { name } } } } sitekeys { nodes { name } } }`).ok(t, "")
		if n := strings.Count(got.Body, "hidden"); n < len(ids)+1 {
			t.Errorf("the owner sees %d hidden names, want at least %d: %s", n, len(ids)+1, got.Body)
		}
	})
}

// accountSelection returns a selection of what a field of an account contains.
func accountSelection(f *ast.FieldDefinition) string {
	if strings.HasSuffix(f.Type.Name(), "Connection") {
		return selection(f.Type.Name(), 2, costly...)
	}
	return selection(f.Type.Name(), 1)
}

// wantRestricted checks the answer to one field of an account, for a restricted token or a guest.
// open are the fields that answer, each with the reason.
func wantRestricted(t *testing.T, open map[string]string, path, field string, got *answer) {
	t.Helper()

	got.named("%s: %s", path, field).status(t, http.StatusOK).hides(t, "hidden")

	if open[field] != "" {
		got.named("%s: the open field %s", path, field).code(t, "")
		return
	}

	// The error of a field that is never null takes the account with it.
	closed := strings.Contains(got.Body, `"`+field+`":[]`) || strings.Contains(got.Body, `"`+field+`":null`) ||
		got.codes() == "FORBIDDEN" && schema.Types["Account"].Fields.ForName(field).Type.NonNull
	if codes := got.codes(); !closed || codes != "" && codes != "FORBIDDEN" {
		t.Errorf("%s: the field %s is not among the open ones, and answers %s", path, field, got.Body)
	}
}

// hide creates objects of the owner's account that a token for another site must not see, and
// returns their global ids.
func (a *app) hide(owner *client) map[string]string {
	a.t.Helper()

	live, deleted := owner.siteOf("hidden-live.example"), owner.siteOf("hidden-deleted.example")
	owner.done("deleteSite", "siteId", deleted)

	sitekey := owner.createSitekey("hidden form", "hidden-live.example").ok(a.t, "createSitekey").at("createSitekey.sitekey.id")
	token := owner.done("createApiToken", "name", "hidden token", "scopes", []string{"READ"}).at("createApiToken.apiToken.id")

	member := a.join(owner, "hidden-member@example.com", model.RoleMember)
	invitation := owner.done("inviteMember", "email", "hidden-guest@example.com", "role", "VIEWER").at("inviteMember.invitation.id")

	return map[string]string{
		"site": live, "deleted site": deleted, "sitekey": sitekey.(string), "API token": token.(string),
		"member": member.id().(string), "invitation": invitation.(string),
	}
}
