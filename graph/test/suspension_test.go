package graph_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// mayWhileSuspended are the mutations that users of a suspended account can call, each with the
// reason.
var mayWhileSuspended = map[string]string{
	"signUp": "another account", "confirmSignUp": "another account", "createAccount": "another account",
	"startProviderSignIn": "reading", "finishProviderSignIn": "reading", "signIn": "reading", "signOut": "reading", "openSharedLink": "reading",
	"requestPasswordReset": "personal", "resetPassword": "personal", "changePassword": "personal", "revokeSession": "personal",
	"requestEmailChange": "personal", "confirmEmailChange": "personal", "setOwnAlertChannel": "personal", "setReportView": "personal",
	"hideSiteNotices": "personal",
	"createApiToken":  "personal: a token can change nothing either", "revokeApiToken": "personal", "leaveAccount": "personal",
	"updateUser": "personal", "stopAlertMails": "personal",
	"confirmAlertChannel": "the recipient's own choice",
	"signInWithPasskey":   "reading", "startTotp": "personal", "confirmTotp": "personal", "disableTotp": "personal",
	"renewRecoveryCodes": "personal", "startPasskeyRegistration": "personal", "finishPasskeyRegistration": "personal",
	"renamePasskey": "personal", "deletePasskey": "personal",
	"acceptInvitation": "an owner has invited the person before",
	"setSitePlan":      "operators", "setCaptchaPlan": "operators", "suspendAccount": "operators", "resumeAccount": "operators",
}

// TestSuspendedAccount: users of a suspended account read, and change nothing. Operators suspend
// and resume, but not the account of the only operator.
func TestSuspendedAccount(t *testing.T) {
	const account = `{ viewer { account { suspension { suspendedAt reason } } } sites { totalCount } }`

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		tenant := a.tenant("first.example")
		owner, id := tenant.owner, tenant.ids["accountId"]
		own := operator.query(`{ viewer { account { id } } }`).at("viewer.account.id")

		for reason, want := range map[string]string{
			"": "reason:INVALID_TEXT", "a\nb": "reason:INVALID_TEXT", strings.Repeat("x", 501): "reason:INVALID_TEXT",
		} {
			operator.do("suspendAccount", "accountId", id, "reason", reason).
				named("the reason %q", reason).fails(t, "suspendAccount", want)
		}
		operator.do("suspendAccount", "accountId", own, "reason", "abuse").
			named("the only operator's account").fails(t, "suspendAccount", "accountId:LAST_OPERATOR")

		notified, synced := make(chan model.SiteID, 10), make(chan struct{}, 1)
		go sites.New(a.db).Lookup.WatchSites(t.Context(), func(id int64) { notified <- model.SiteID(id) }, func(err error) {
			if err == nil {
				synced <- struct{}{}
			}
		})
		<-synced
		keys := watchSitekeys(t, a.db)

		got := operator.done("suspendAccount", "accountId", id, "reason", " Fraud report 17 ")
		want := `{"data":{"suspendAccount":{"accountId":"` + id +
			`","suspension":{"suspendedAt":"2026-11-20T09:30:00Z","reason":"Fraud report 17"},"userErrors":[]}}}`
		got.is(t, want)
		if site, key := <-notified, <-keys; site != 1 || key != 1 {
			t.Errorf("the data plane was notified of site %d and sitekey %d", site, key)
		}

		if got := owner.query(account); got.Body != `{"data":{"viewer":{"account":{"suspension":{"suspendedAt":"2026-11-20T09:30:00Z","reason":"Fraud report 17"}}},"sites":{"totalCount":1}}}` {
			t.Errorf("the owner reads %s", got.Body)
		}

		// Every mutation is refused, or listed above.
		before := a.dump("signin_failures", "sessions", "api_tokens", "mails", "password_resets")
		listed := maps.Clone(mayWhileSuspended)
		for _, f := range fieldsOf(schema.Mutation) {
			if _, ok := listed[f.Name]; ok {
				delete(listed, f.Name)
				continue
			}

			got := owner.call(t, ast.Mutation, f, func(name string) string { return tenant.ids[name] })
			got.named("%s in a suspended account", f.Name).code(t, "ACCOUNT_SUSPENDED").shows(t, "Fraud report 17")
		}
		if len(listed) > 0 {
			t.Errorf("no such mutations: %v", slices.Sorted(maps.Keys(listed)))
		}
		if after := a.dump("signin_failures", "sessions", "api_tokens", "mails", "password_resets"); after != before {
			t.Errorf("the calls changed something:\n%s\nwas\n%s", after, before)
		}

		for range 2 {
			operator.done("resumeAccount", "accountId", id).named("resumed").has(t, "resumeAccount.suspension", nil)
		}

		owner.createSite("second.example").ok(t, "createSite")
		owner.do("suspendAccount", "accountId", own, "reason", "revenge").named("suspended by an owner").code(t, "FORBIDDEN")
	})
}

// TestTransferSite: a site moves with its rows between two accounts of an owner, and only between
// them.
func TestTransferSite(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		first, second := a.tenant("first.example"), a.tenant("second.example")
		owner, site := first.owner, first.ids["siteId"]
		from, to := first.ids["accountId"], second.ids["accountId"]
		fill(t, a.db, owners{site: 1, account: 2})
		before := left(t, a.db, owners{site: 1})

		transfer := func(c *client, site, to string) *answer {
			return c.do("transferSite", "siteId", site, "toAccountId", to)
		}
		setRole := func(role string) {
			t.Helper()
			err := dbtest.Exec(a.db, `INSERT INTO memberships (user_id, account_id, role, created_at) SELECT id, 3, ?, ? FROM users WHERE email = 'owner@first.example'
ON CONFLICT (user_id, account_id) DO UPDATE SET role = excluded.role`, role, model.At(start))
			testkit.NoError(t, err)
		}

		transfer(owner, site, to).named("to an account of others").fails(t, "transferSite", "toAccountId:NOT_FOUND")
		setRole("MEMBER")
		transfer(owner, site, to).named("to an account as its member").code(t, "FORBIDDEN")
		transfer(owner, second.ids["siteId"], from).named("from an account as its member").code(t, "FORBIDDEN")

		setRole("OWNER")
		transfer(owner, site, from).ok(t, "transferSite").named("to the same account").has(t, "transferSite.site.id", site)

		// The limits of the new account hold.
		taken := second.owner.siteOf("first.example")
		transfer(owner, site, to).named("to an account with the domain").fails(t, "transferSite", "siteId:DOMAIN_TAKEN")
		second.owner.query(deleteSiteMutation, "id", taken, "confirm", "first.example", "now", true).ok(t, "deleteSite")
		must(t, sites.New(a.db).Sites.SetSiteLimit(t.Context(), 3, 1))
		transfer(owner, site, to).named("to a full account").fails(t, "transferSite", ":TOO_MANY_SITES")
		must(t, sites.New(a.db).Sites.SetSiteLimit(t.Context(), 3, 5))

		link := first.owner.reader(site)
		member := a.client()
		member.signIn("member@first.example", password).ok(t, "signIn")
		member.query(`mutation($id: ID!) { setOwnAlertChannel(input: {siteId: $id, weekly: true}) { userErrors { code } }
			setReportView(input: {siteId: $id, preset: TODAY}) { userErrors { code } }
			hideSiteNotices(input: {siteId: $id, rejections: 1, usage: 0}) { userErrors { code } } }`, "id", site).ok(t, "setOwnAlertChannel")

		transfer(owner, site, to).ok(t, "transferSite")

		// The transfer deletes alerts and their channels, since their addresses are the first
		// account's. The own channel of the owner of both accounts stays, with its messages.
		want := slices.DeleteFunc(before, func(table string) bool { return table == "alerts" })
		testkit.EqualSlices(t, left(t, a.db, owners{site: 1}), want, "rows in")
		for statement, want := range map[string]int{
			"SELECT count(*) AS n FROM sites WHERE id = 1 AND account_id = 3":                                                                                     1,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 1 AND account_id = 3":                                                                        1,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 1 AND account_id = 2":                                                                        0,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 0 AND account_id = 2":                                                                        1,
			"SELECT count(*) AS n FROM alert_channels WHERE site_id = 1":                                                                                          1,
			"SELECT count(*) AS n FROM alert_channels WHERE site_id = 1 AND account_id = 3 AND user_id IN (SELECT user_id FROM memberships WHERE account_id = 3)": 1,
		} {
			if rows, err := dbtest.Rows[struct{ N int }](a.db, statement); err != nil || rows[0].N != want {
				t.Errorf("%s: %v, %v; want %d", statement, rows, err, want)
			}
		}

		const read = `query($id: ID!) { site(id: $id) { id deliveries { edges { node { id } } } annotations { edges { node { id } } } } }`
		member.query(read, "id", site).named("a member of the old account reads").is(t, `{"data":{"site":null}}`)
		for name, c := range map[string]*client{"the owner of both": owner, "the owner of the new account": second.owner} {
			got := c.query(read, "id", site).ok(t, "")
			if got.at("site.deliveries.edges.0.node.id") == nil || got.at("site.annotations.edges.0.node.id") != first.ids["annotationId"] {
				t.Errorf("%s reads %s", name, got.Body)
			}
		}
		a.with(link, `{ sharedSite { domain } }`).ok(t, "").named("a shared link").has(t, "sharedSite.domain", "first.example")
		member.query(`{ sites { totalCount } }`).named("the old account's sites").is(t, `{"data":{"sites":{"totalCount":0}}}`)

		var logged []model.AccountID
		for _, row := range a.auditRows() {
			if row.Action == "transferSite" {
				logged = append(logged, row.AccountID)
			}
		}
		if slices.Sort(logged); !slices.Equal(logged, []model.AccountID{2, 2, 3}) { // the first one within the account
			t.Errorf("the transfer is in the logs of the accounts %v", logged)
		}

		// And back.
		transfer(owner, site, from).ok(t, "transferSite")
	})
}
