package graph_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// inviteGuest invites an address to sites of the owner's account, and returns the mailed secret.
func (a *app) inviteGuest(owner *client, email string, siteIDs ...string) string {
	a.t.Helper()
	owner.done("inviteMember", "email", email, "role", "VIEWER", "siteIds", siteIDs)
	return a.mailedSecret(email)
}

// guest creates a user who is a guest of sites of the owner's account, and belongs to no other
// account.
func (a *app) guest(owner *client, email string, siteIDs ...string) *client {
	a.t.Helper()
	c := a.client()
	c.done("acceptInvitation", "token", a.inviteGuest(owner, email, siteIDs...), "password", password)
	return c
}

// setSites sets the role and the sites of a member.
func (c *client) setSites(member *client, role string, siteIDs []string) *answer {
	c.t.Helper()
	return c.do("setMemberRole", "userId", member.id(), "role", role, "siteIds", siteIDs)
}

// guests returns a guest of sites who belongs to no other account, and one who owns another
// account.
func (a *app) guests(owner *client, siteIDs ...string) map[string]*client {
	a.t.Helper()

	both := a.owner("both@example.com").rename("Own")
	both.siteOf("own.example")
	a.clock.Add(time.Second) // the own account is the default one
	both.query(joinMutation, "token", a.inviteGuest(owner, "both@example.com", siteIDs...)).ok(a.t, "acceptInvitation")
	return map[string]*client{"a guest": a.guest(owner, "only@example.com", siteIDs...), "a guest with an account": both}
}

// TestGuestIsolation calls every field that takes an id with the ids of everything else in the
// account of which the caller reaches another site. They answer like unknown ones, and nothing
// changes.
func TestGuestIsolation(t *testing.T) {
	fields, operation := byID()
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		first := a.tenant("first.example")
		guests := a.guests(first.owner, first.owner.siteOf("other.example"))

		before := a.dump("signin_failures")
		for who, guest := range guests {
			for _, f := range fields {
				unknown := guest.answersUnknown(t, operation[f.Name], f)
				for name, id := range first.ids {
					// The guest knows the account, see TestGuestAccount. Ids of a kind that the field does not take are
					// unknown for all callers, see TestAnotherTenantsIDsAnswerLikeUnknownOnes.
					if name == "accountId" || name == "toAccountId" || name == "lastAccountId" || !takes(f, name) {
						continue
					}

					foreign := guest.call(t, operation[f.Name], f, func(string) string { return id })
					if !unknown(foreign.Body, id) || strings.Contains(foreign.Body, "first") {
						t.Errorf("%s calls %s with the %s of another site: %s, unlike an unknown one", who, f.Name, name, foreign.Body)
					}
				}
			}
		}
		equal(t, a.dump("signin_failures"), before, "the calls changed something")
	})
}

// TestGuestRights calls every field that takes an id with the ids of the guest's own site and its
// account. The guest has the rights of a viewer for the site, and none for the account.
func TestGuestRights(t *testing.T) {
	fields, operation := byID()

	// What belongs to the user, and what is in the account but belongs to no site.
	personal := []string{"revokeApiToken", "revokeSession", "leaveAccount", "renamePasskey", "deletePasskey"}
	ofAccount := map[string]string{"sitekey": "null", "sitekeys": "FORBIDDEN", "account": "FORBIDDEN"}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		first := a.tenant("first.example")
		guest := a.guests(first.owner, first.ids["siteId"])["a guest"]

		ids := func(f *ast.FieldDefinition) func(string) string {
			return func(name string) string {
				switch {
				case name != "id":
					return first.ids[name]
				case f.Name == "sitekey":
					return first.ids["sitekeyId"]
				case f.Name == "account":
					return first.ids["accountId"]
				}
				return first.ids["siteId"]
			}
		}

		before := a.dump("signin_failures")
		for _, f := range fields {
			if slices.Contains(personal, f.Name) || fieldRules[f.Name].role < member && !fieldRules[f.Name].operator {
				continue
			}
			guest.call(t, operation[f.Name], f, ids(f)).named("a guest calls %s", f.Name).code(t, "FORBIDDEN")
		}
		equal(t, a.dump("signin_failures"), before, "the refused calls changed something")

		for _, f := range fields {
			if slices.Contains(personal, f.Name) || fieldRules[f.Name].operator || fieldRules[f.Name].role != viewer {
				continue
			}

			got := guest.call(t, operation[f.Name], f, ids(f))
			want := ofAccount[f.Name]
			if ok := got.codes() == "" && got.at(f.Name) != nil && !strings.Contains(got.Body, "NOT_FOUND"); want == "" && !ok ||
				want == "null" && got.Body != `{"data":{"`+f.Name+`":null}}` || want == "FORBIDDEN" && !strings.HasPrefix(got.codes(), want) {
				t.Errorf("a guest calls %s for the own site: %s, want %q", f.Name, got.Body, want)
			}
		}

		node := byName(t, fields, "node")
		ofSite := []string{
			"siteId", "siteIds", "deliveryId", "annotationId", "segmentId", "funnelId", "sharedLinkId", "erasureId",
			"importId", "importJobId",
		}
		for name, id := range first.ids {
			if name == "accountId" || name == "toAccountId" || name == "lastAccountId" {
				continue // see TestGuestAccount
			}
			got, visible := guest.call(t, ast.Query, node, func(string) string { return id }), slices.Contains(ofSite, name)
			if found := got.at("node") != nil; found != visible || got.codes() != "" {
				t.Errorf("the node of the %s: %s, want that it is found: %t", name, got.Body, visible)
			}
		}
	})
}

// TestGuestsReadNoChannels: members with the role VIEWER read the channels of a site, and guests do
// not, over no path.
func TestGuestsReadNoChannels(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.siteOf("own.example")
		created := owner.done("createSiteAlertChannel", "siteId", site, "kind", "SLACK", "name", "hidden", "address",
			"https://hidden.example/slack/0123456789abcdef", "events", []string{"QUOTA"})
		channel, _ := created.at("createSiteAlertChannel.alertChannel.id").(string)
		sent := owner.done("sendTestAlert", "alertChannelId", channel)
		message, _ := sent.at("sendTestAlert.alertMessage.id").(string)

		callers := a.guests(owner, site)
		callers["a viewer"] = a.join(owner, "viewer@example.com", model.RoleViewer)
		for who, caller := range callers {
			visible := who == "a viewer"
			for name, query := range map[string]string{
				"the site's list": `{ site(id: "` + site +
					`") { alertChannels { name target state messages(first: 5) { nodes { event attempts { answer } } } } } }`,
				"the site's node":    `{ node(id: "` + site + `") { ... on Site { alertChannels { name target } } } }`,
				"the channel's node": `{ node(id: "` + channel + `") { ... on AlertChannel { name target stopReason } } }`,
			} {
				got := caller.query(query)
				if got.codes() != "" || strings.Contains(got.Body, "hidden") != visible {
					t.Errorf("%s reads %s: %s", who, name, got.Body)
				}
			}
			if got := caller.query(`{ node(id: "` + message + `") { id } }`); (got.at("node") != nil) != visible || got.codes() != "" {
				t.Errorf("%s reads the message: %s", who, got.Body)
			}
		}
	})
}

// openToGuests are the fields of an account that a guest reads, each with the reason. All other
// fields must be null, empty or forbidden.
var openToGuests = map[string]string{
	"id":                  "a guest chooses the account",
	"name":                "a guest chooses the account",
	"createdAt":           "it says nothing about sites or people",
	"viewerRole":          "the guest's own role",
	"viewerIsGuest":       "the guest's own membership",
	"requireSecondFactor": "the rule decides what the guest may do",
	"requireProvider":     "the rule is not for guests",
	"sites":               "only the guest's sites",
	"members":             "only the guest",
}

// TestGuestAccount reads every field of an account over every path to it. Everything that the guest
// must not see has "hidden" in its name.
func TestGuestAccount(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com").rename("First")
		own := owner.siteOf("own-of-first.example")
		ids := a.hide(owner)
		account := owner.account()
		guests := a.guests(owner, own)

		operator.done("suspendAccount", "accountId", account, "reason", "hidden reason")

		for who, guest := range guests {
			paths := map[string]string{
				"account":  `{ account(id: "` + account + `") { %s } }`,
				"node":     `{ node(id: "` + account + `") { ... on Account { %s } } }`,
				"accounts": `{ viewer { accounts { %s } } }`,
			}
			if who == "a guest" {
				paths["the default account"] = `{ account { %s } }`
				paths["viewer"] = `{ viewer { account { %s } } }`
			} else {
				delete(paths, "accounts") // the first one is the guest's own
			}

			for _, f := range fieldsOf(schema.Types["Account"]) {
				for path, query := range paths {
					fields := accountSelection(f)
					if path == "accounts" && fields != "" {
						// All fields of a list in a list cost more than a request may.
						fields = "{ __typename }"
					}
					got := guest.query(fmt.Sprintf(query, f.Name+literalArguments(f)+" "+fields))
					wantRestricted(t, openToGuests, who+", "+path, f.Name, got)
				}
			}

			for name, id := range ids {
				guest.query(`{ node(id: "`+id+`") { __typename } }`).
					named("%s: the node of the hidden %s", who, name).is(t, `{"data":{"node":null}}`)
			}

			for query, want := range map[string]string{
				`{ sites(accountId: $id) { totalCount nodes { domain } } }`:                             `{"sites":{"totalCount":1,"nodes":[{"domain":"own-of-first.example"}]}}`,
				`{ sites(accountId: $id, search: "e") { totalCount } }`:                                 `{"sites":{"totalCount":1}}`,
				`{ site(domain: "own-of-first.example", accountId: $id) { domain } }`:                   `{"site":{"domain":"own-of-first.example"}}`,
				`{ site(domain: "hidden-live.example", accountId: $id) { domain } }`:                    `{"site":null}`,
				`{ account(id: $id) { name viewerRole viewerIsGuest captchaUsage { verifications } } }`: `{"account":null}`,
			} {
				got := guest.query(strings.ReplaceAll(query, "$id", `"`+account+`"`))
				if !strings.Contains(got.Body, `"data":`+want) {
					t.Errorf("%s: %s: %s, want %s", who, query, got.Body, want)
				}
			}
		}

		// In the own account, the second one is an owner like any other.
		both := guests["a guest with an account"]
		got := both.query(`{ sites { totalCount } account { viewerIsGuest captchaUsage { verifications } members { email siteIds } } viewer { siteIds } }`).ok(t, "")
		if want := `{"data":{"sites":{"totalCount":1},"account":{"viewerIsGuest":false,"captchaUsage":{"verifications":0},` +
			`"members":[{"email":"both@example.com","siteIds":null}]},"viewer":{"siteIds":null}}}`; got.Body != want {
			t.Errorf("the own account of a guest: %s, want %s", got.Body, want)
		}
		differ(t, both.siteOf("further.example"), "", "a guest creates no site in the own account")

		// The owner sees who is a guest.
		got = owner.query(`{ account { members { email siteIds } } }`).ok(t, "")
		equal(t, strings.Count(got.Body, `"siteIds":["`+own+`"]`), len(guests), "the members: %s", got.Body)
	})
}

// TestGuestInvitation follows an invitation to sites until the guest has joined. The guest has no
// row among the members.
func TestGuestInvitation(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		one, two := owner.siteOf("one.example"), owner.siteOf("two.example")

		secret := a.inviteGuest(owner, "guest@example.com", two, one, two)

		got := owner.query(`{ account { invitations { email role siteIds } } }`)
		if want := `{"data":{"account":{"invitations":[{"email":"guest@example.com","role":"VIEWER","siteIds":["` + one + `","` + two +
			`"]}]}}}`; got.Body != want {
			t.Errorf("the invitations: %s, want %s", got.Body, want)
		}
		got = a.client().query(`query($token: String!) { invitationOffer(token: $token) { role siteCount } }`, "token", secret)
		got.named("the offer").is(t, `{"data":{"invitationOffer":{"role":"VIEWER","siteCount":2}}}`)

		guest := a.client()
		guest.done("acceptInvitation", "token", secret, "password", password)
		got = guest.query(`{ viewer { role siteIds account { viewerIsGuest } } sites { nodes { domain } } }`)
		if want := `{"data":{"viewer":{"role":"VIEWER","siteIds":["` + one + `","` + two + `"],"account":{"viewerIsGuest":true}},` +
			`"sites":{"nodes":[{"domain":"one.example"},{"domain":"two.example"}]}}}`; got.Body != want {
			t.Errorf("the guest: %s, want %s", got.Body, want)
		}
		if rows, err := dbtest.Dump(a.db, "memberships"); err != nil || len(rows) != 1 {
			t.Errorf("the table of members: %v, %v", rows, err)
		}

		owner.do("inviteMember", "email", "guest@example.com", "role", "VIEWER", "siteIds", []string{one}).
			named("a second invitation").fails(t, "inviteMember", "email:ALREADY_MEMBER")

		// A guest leaves the account like any member.
		guest.query(leaveMutation, "id", owner.account()).ok(t, "leaveAccount")
		owner.query(`{ account { members { email } } }`).
			named("after the guest has left").is(t, `{"data":{"account":{"members":[{"email":"owner@example.com"}]}}}`)
	})
}

// TestGuestMistakes: the sites of a guest must be of the account, 1 to 100, and the role VIEWER.
func TestGuestMistakes(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		own, foreign := owner.siteOf("own.example"), other.siteOf("foreign.example")
		deleted := owner.siteOf("deleted.example")
		owner.done("deleteSite", "siteId", deleted)
		person := a.join(owner, "person@example.com", model.RoleViewer)
		before := a.dump("signin_failures")

		for _, test := range []struct {
			role string
			ids  []string
			want string
		}{
			{"VIEWER", []string{}, "siteIds:INVALID_SITES"},
			{"VIEWER", slices.Repeat([]string{own}, model.MaxChosenSites+1), "siteIds:INVALID_SITES"},
			{"VIEWER", []string{own, foreign}, "siteIds:NOT_FOUND"},
			{"VIEWER", []string{own, deleted}, "siteIds:NOT_FOUND"},
			{"VIEWER", []string{own, a.unknownOf(nodeid.Site)}, "siteIds:NOT_FOUND"},
			{"VIEWER", []string{own, a.unknownOf(nodeid.Sitekey)}, "siteIds:NOT_FOUND"},
			{"MEMBER", []string{own}, "role:INVALID_ROLE"},
			{"OWNER", []string{own}, "role:INVALID_ROLE"},
		} {
			got := owner.do("inviteMember", "email", "new@example.com", "role", test.role, "siteIds", test.ids)
			if got.userErrors("inviteMember") != test.want || got.at("inviteMember.invitation") != nil {
				t.Errorf("an invitation of %s to %d sites: %s, want %s", test.role, len(test.ids), got.Body, test.want)
			}
			if got := owner.setSites(person, test.role, test.ids); got.userErrors("setMemberRole") != test.want || got.at("setMemberRole.member") != nil {
				t.Errorf("a change to %s of %d sites: %s, want %s", test.role, len(test.ids), got.Body, test.want)
			}
		}

		// The last owner cannot become a guest.
		owner.setSites(owner, "VIEWER", []string{own}).named("the last owner").fails(t, "setMemberRole", "userId:LAST_OWNER")
		equal(t, a.dump("signin_failures"), before, "the mistakes changed something")
	})
}

// TestGuestTokens: the API tokens of a guest reach the sites that the guest reaches at the time of
// the request, and of these only those that the token is restricted to.
func TestGuestTokens(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		one, two, three := owner.siteOf("one.example"), owner.siteOf("two.example"), owner.siteOf("three.example")
		guest := a.guest(owner, "guest@example.com", one, two)

		guest.restrict([]string{one, three}).
			named("a token for a site beyond the guest's").fails(t, "createApiToken", "siteIds:NOT_FOUND")
		all := guest.createToken("READ", "WRITE", "EXPORT").secret
		first := guest.restrictedToken(one)

		wantSites := func(when string, tokens map[string][]string) {
			t.Helper()
			for secret, domains := range tokens {
				want := []string{}
				for _, domain := range domains {
					want = append(want, `{"domain":"`+domain+`.example"}`)
				}
				got := a.with(secret, `{ sites { totalCount nodes { domain } } }`)
				got.named("%s, a token that reaches %v", when, domains).is(t,
					fmt.Sprintf(`{"data":{"sites":{"totalCount":%d,"nodes":[%s]}}}`, len(want), strings.Join(want, ",")))
				for _, id := range []string{one, two, three} {
					domain := map[string]string{one: "one", two: "two", three: "three"}[id]
					if got := a.with(secret, `{ site(id: "`+id+`") { domain } }`); (got.at("site") != nil) != slices.Contains(domains, domain) {
						t.Errorf("%s, a token that reaches %v, and the site %s: %s", when, domains, domain, got.Body)
					}
				}
			}
		}

		wantSites("at first", map[string][]string{all: {"one", "two"}, first: {"one"}})

		owner.setSites(guest, "VIEWER", []string{two, three}).ok(t, "setMemberRole")
		wantSites("after a change", map[string][]string{all: {"two", "three"}, first: {}})

		for _, id := range []string{two, three} {
			owner.done("deleteSite", "siteId", id)
		}
		wantSites("after all sites were deleted", map[string][]string{all: {}, first: {}})
		guest.query(`{ sites { totalCount } account { members { email } } }`).named("a guest of deleted sites").is(t,
			`{"data":{"sites":{"totalCount":0},"account":{"members":[{"email":"guest@example.com"}]}}}`)

		// A guest who becomes a member reaches the whole account, and then a guest's sites again.
		owner.setSites(guest, "MEMBER", nil).ok(t, "setMemberRole")
		wantSites("as a member", map[string][]string{all: {"one"}, first: {"one"}})
		if rows, err := dbtest.Dump(a.db, "guests"); err != nil || len(rows) != 0 {
			t.Errorf("the guests: %v, %v", rows, err)
		}
		four := owner.siteOf("four.example")
		owner.setSites(guest, "VIEWER", []string{four}).ok(t, "setMemberRole")
		wantSites("as a guest again", map[string][]string{first: {}})
	})
}

// TestGuestChoices: what a guest has chosen for a site ends when the guest loses the site, and no
// mail about the account reaches a guest.
func TestGuestChoices(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		one, two := owner.siteOf("one.example"), owner.siteOf("two.example")
		guest := a.guest(owner, "guest@example.com", one)

		guest.done("setOwnAlertChannel", "siteId", one, "weekly", true)
		owner.done("setOwnAlertChannel", "siteId", one, "weekly", true)
		guest.do("setOwnAlertChannel", "siteId", two, "weekly", true).
			named("own channel for another site").fails(t, "setOwnAlertChannel", "siteId:NOT_FOUND")

		owner.setSites(guest, "VIEWER", []string{one, two}).ok(t, "setMemberRole")
		if rows, err := dbtest.Dump(a.db, "alert_channels"); err != nil || len(rows) != 2 {
			t.Errorf("the own channels with another site: %v, %v", rows, err)
		}
		owner.setSites(guest, "VIEWER", []string{two}).ok(t, "setMemberRole")
		if rows, err := dbtest.Dump(a.db, "alert_channels"); err != nil || len(rows) != 1 {
			t.Errorf("the own channels after the loss of the site: %v, %v", rows, err)
		}

		account, err := dbtest.Rows[struct{ N model.AccountID }](a.db, "SELECT max(account_id) AS n FROM sites")
		testkit.NoError(t, err)
		err = a.db.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return outbox.MailNotice(ctx, tx, account[0].N, model.MailDeliveryFailed, outbox.DeliveryFailedMail{}, model.At(start))
		})
		testkit.NoError(t, err)
		notices, err := dbtest.Rows[struct{ Recipient string }](a.db, "SELECT recipient FROM mails WHERE kind = ?", model.MailDeliveryFailed)
		if err != nil || len(notices) != 1 || notices[0].Recipient != "owner@example.com" {
			t.Errorf("the recipients of a notice: %v, %v", notices, err)
		}
	})
}

// TestGuestOfDeletedAccount: the end of an account, or of a membership, deletes the guests who
// belong to no other account.
func TestGuestOfDeletedAccount(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		guests := a.guests(owner, owner.siteOf("one.example"))
		removed := a.guest(owner, "removed@example.com", owner.siteOf("two.example"))

		owner.done("removeMember", "userId", removed.id())
		wantUsers := func(when string, want ...string) {
			t.Helper()
			rows, err := dbtest.Rows[struct{ Email string }](a.db, "SELECT email FROM users ORDER BY email")
			var got []string
			for _, row := range rows {
				got = append(got, row.Email)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: the users %v, %v, want %v", when, got, err, want)
			}
		}
		wantUsers("after a removal", "both@example.com", "only@example.com", "operator@example.com", "owner@example.com")

		owner.done("deleteAccount", "password", password)
		wantUsers("after the account's end", "both@example.com", "operator@example.com")
		guests["a guest with an account"].query(`{ viewer { accounts { name } } }`).
			named("the accounts of a former guest").is(t, `{"data":{"viewer":{"accounts":[{"name":"Own"}]}}}`)
	})
}

// TestGuestSites: a list of sites can be changed although it has a deleted one, which cannot be
// added again; and a guest reads no addresses and hints of a site.
func TestGuestSites(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		one, two, deleted := owner.siteOf("one.example"), owner.siteOf("two.example"), owner.siteOf("deleted.example")
		guest := a.guest(owner, "guest@example.com", one, deleted)
		owner.done("deleteSite", "siteId", deleted)

		owner.setSites(guest, "VIEWER", []string{two, deleted}).ok(t, "setMemberRole")
		owner.setSites(guest, "VIEWER", []string{two}).ok(t, "setMemberRole")
		owner.setSites(guest, "VIEWER", []string{two, deleted}).
			named("a deleted site is added again").fails(t, "setMemberRole", "siteIds:NOT_FOUND")

		owner.query(`mutation($id: ID!) {
			setConversionWebhook(input: {siteId: $id, url: "https://hooks.example/?key=secret"}) { userErrors { code } }
			updateSite(input: {siteId: $id, excludedAddresses: ["192.0.2.7"]}) { userErrors { code } } }`, "id", two).ok(t, "setConversionWebhook")
		const fields = `{ site(id: "%s") { conversionWebhookUrl dailyExportUrl excludedAddresses serverSecretHint oldServerSecretHint } }`
		query := fmt.Sprintf(fields, two)
		if got := owner.query(query).ok(t, "").Body; !strings.Contains(got, "hooks.example") || !strings.Contains(got, "192.0.2.7") {
			t.Errorf("an owner reads %s", got)
		}
		const hidden = `{"data":{"site":{"conversionWebhookUrl":null,"dailyExportUrl":null,"excludedAddresses":[],"serverSecretHint":null,"oldServerSecretHint":null}}}`
		equal(t, guest.query(query).ok(t, "").Body, hidden, "a guest reads")
	})
}

// TestGuestOperator: an operator who was made a guest of the only account remains an operator.
func TestGuestOperator(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator, other := a.owner("operator@example.com"), a.owner("other@example.com")
		site := operator.siteOf("one.example")
		second := a.join(operator, "second@example.com", model.RoleOwner)
		second.setSites(operator, "VIEWER", []string{site}).ok(t, "setMemberRole")

		operator.done("suspendAccount", "accountId", other.account(), "reason", "abuse")
		a.owner("third@example.com").do("suspendAccount", "accountId", second.account(), "reason", "abuse").
			named("another owner suspends an account").code(t, "FORBIDDEN")
	})
}

// TestGuestBudget: guests use a budget of their own, not the budget of the account.
func TestGuestBudget(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		guest := a.guest(owner, "guest@example.com", owner.siteOf("one.example"))
		remaining := func(c *client) float64 {
			return c.query(`{ rateLimit { remaining } }`).ok(t, "").at("rateLimit.remaining").(float64)
		}

		before, own := remaining(owner), remaining(guest)
		for range 3 {
			guest.query(`{ sites(first: 100) { nodes { id } } }`).ok(t, "")
		}
		equal(t, remaining(owner), before-2, "the owner")
		if left := remaining(guest); left >= own-2 {
			t.Errorf("the guest has %v points after three calls, and had %v", left, own)
		}
	})
}
