package graph_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	suspendMutation = `mutation($id: ID!, $reason: String!) { suspendAccount(input: {accountId: $id, reason: $reason}) {
		accountId suspension { suspendedAt reason } userErrors { field code } } }`
	resumeMutation = `mutation($id: ID!) { resumeAccount(input: {accountId: $id}) {
		accountId suspension { reason } userErrors { field code } } }`
	transferMutation = `mutation($site: ID!, $to: ID!) { transferSite(input: {siteId: $site, toAccountId: $to}) {
		site { id domain } userErrors { field code } } }`
)

// mayWhileSuspended are the mutations that users of a suspended account can call, each with the
// reason.
var mayWhileSuspended = map[string]string{
	"signUp": "another account", "confirmSignUp": "another account", "createAccount": "another account",
	"startProviderSignIn": "reading", "finishProviderSignIn": "reading", "signIn": "reading", "signOut": "reading", "openSharedLink": "reading",
	"requestPasswordReset": "personal", "resetPassword": "personal", "changePassword": "personal", "revokeSession": "personal",
	"requestEmailChange": "personal", "confirmEmailChange": "personal", "setOwnAlertChannel": "personal", "setReportView": "personal", "hideSiteNotices": "personal",
	"createApiToken": "personal: a token can change nothing either", "revokeApiToken": "personal", "leaveAccount": "personal",
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
	t.Parallel()
	const account = `{ viewer { account { suspension { suspendedAt reason } } } sites { totalCount } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		operator := a.owner("operator@example.com")
		tenant := a.tenant("first.example")
		owner, id := tenant.owner, tenant.ids["accountId"]
		own := operator.query(`{ viewer { account { id } } }`).at("viewer.account.id")

		for reason, want := range map[string]string{"": "reason:INVALID_TEXT", "a\nb": "reason:INVALID_TEXT", strings.Repeat("x", 501): "reason:INVALID_TEXT"} {
			if got := operator.query(suspendMutation, "id", id, "reason", reason); got.userErrors("suspendAccount") != want {
				t.Errorf("the reason %q: %s", reason, got.Body)
			}
		}
		if got := operator.query(suspendMutation, "id", own, "reason", "abuse"); got.userErrors("suspendAccount") != "accountId:LAST_OPERATOR" {
			t.Errorf("the only operator's account: %s", got.Body)
		}

		notified, synced := make(chan model.SiteID, 10), make(chan struct{}, 1)
		go sites.New(d).Lookup.WatchSites(t.Context(), func(id int64) { notified <- model.SiteID(id) }, func(err error) {
			if err == nil {
				synced <- struct{}{}
			}
		})
		<-synced
		keys := watchSitekeys(t, d)

		got := operator.query(suspendMutation, "id", id, "reason", " Fraud report 17 ").ok(t, "suspendAccount")
		want := `{"data":{"suspendAccount":{"accountId":"` + id + `","suspension":{"suspendedAt":"2026-11-20T09:30:00Z","reason":"Fraud report 17"},"userErrors":[]}}}`
		if got.Body != want {
			t.Errorf("got %s, want %s", got.Body, want)
		}
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
			if got.codes() != "ACCOUNT_SUSPENDED" || !strings.Contains(got.Body, "Fraud report 17") {
				t.Errorf("%s in a suspended account: %s; refuse it or list it", f.Name, got.Body)
			}
		}
		if len(listed) > 0 {
			t.Errorf("no such mutations: %v", slices.Sorted(maps.Keys(listed)))
		}
		if after := a.dump("signin_failures", "sessions", "api_tokens", "mails", "password_resets"); after != before {
			t.Errorf("the calls changed something:\n%s\nwas\n%s", after, before)
		}

		for range 2 {
			if got := operator.query(resumeMutation, "id", id).ok(t, "resumeAccount"); got.at("resumeAccount.suspension") != nil {
				t.Errorf("resumed: %s", got.Body)
			}
		}

		owner.createSite("second.example").ok(t, "createSite")
		if got := owner.query(suspendMutation, "id", own, "reason", "revenge"); got.codes() != "FORBIDDEN" {
			t.Errorf("suspended by an owner: %s", got.Body)
		}
	})
}

// TestTransferSite: a site moves with its rows between two accounts of an owner, and only between
// them.
func TestTransferSite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		a.owner("operator@example.com")
		first, second := a.tenant("first.example"), a.tenant("second.example")
		owner, site := first.owner, first.ids["siteId"]
		from, to := first.ids["accountId"], second.ids["accountId"]
		fill(t, d, owners{site: 1, account: 2})
		before := left(t, d, owners{site: 1})

		transfer := func(c *client, site, to string) *answer { return c.query(transferMutation, "site", site, "to", to) }
		setRole := func(role string) {
			t.Helper()
			err := dbtest.Exec(d, `INSERT INTO memberships (user_id, account_id, role, created_at) SELECT id, 3, ?, ? FROM users WHERE email = 'owner@first.example'
ON CONFLICT (user_id, account_id) DO UPDATE SET role = excluded.role`, role, model.At(start))
			if err != nil {
				t.Fatal(err)
			}
		}

		if got := transfer(owner, site, to); got.userErrors("transferSite") != "toAccountId:NOT_FOUND" {
			t.Errorf("to an account of others: %s", got.Body)
		}
		setRole("MEMBER")
		if got := transfer(owner, site, to); got.codes() != "FORBIDDEN" {
			t.Errorf("to an account as its member: %s", got.Body)
		}
		if got := transfer(owner, second.ids["siteId"], from); got.codes() != "FORBIDDEN" {
			t.Errorf("from an account as its member: %s", got.Body)
		}

		setRole("OWNER")
		if got := transfer(owner, site, from).ok(t, "transferSite"); got.at("transferSite.site.id") != site {
			t.Errorf("to the same account: %s", got.Body)
		}

		// The limits of the new account hold.
		taken := second.owner.siteOf("first.example")
		if got := transfer(owner, site, to); got.userErrors("transferSite") != "siteId:DOMAIN_TAKEN" {
			t.Errorf("to an account with the domain: %s", got.Body)
		}
		second.owner.query(deleteSiteMutation, "id", taken, "confirm", "first.example", "now", true).ok(t, "deleteSite")
		if err := sites.New(d).Sites.SetSiteLimit(t.Context(), 3, 1); err != nil {
			t.Fatal(err)
		}
		if got := transfer(owner, site, to); got.userErrors("transferSite") != ":TOO_MANY_SITES" {
			t.Errorf("to a full account: %s", got.Body)
		}
		if err := sites.New(d).Sites.SetSiteLimit(t.Context(), 3, 5); err != nil {
			t.Fatal(err)
		}

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
		if after := left(t, d, owners{site: 1}); !slices.Equal(after, want) {
			t.Errorf("rows in %v, want %v", after, want)
		}
		for statement, want := range map[string]int{
			"SELECT count(*) AS n FROM sites WHERE id = 1 AND account_id = 3":                                                                                     1,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 1 AND account_id = 3":                                                                        1,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 1 AND account_id = 2":                                                                        0,
			"SELECT count(*) AS n FROM quota_notices WHERE site_id = 0 AND account_id = 2":                                                                        1,
			"SELECT count(*) AS n FROM alert_channels WHERE site_id = 1":                                                                                          1,
			"SELECT count(*) AS n FROM alert_channels WHERE site_id = 1 AND account_id = 3 AND user_id IN (SELECT user_id FROM memberships WHERE account_id = 3)": 1,
		} {
			if rows, err := dbtest.Rows[struct{ N int }](d, statement); err != nil || rows[0].N != want {
				t.Errorf("%s: %v, %v; want %d", statement, rows, err, want)
			}
		}

		const read = `query($id: ID!) { site(id: $id) { id deliveries { edges { node { id } } } annotations { edges { node { id } } } } }`
		if got := member.query(read, "id", site); got.Body != `{"data":{"site":null}}` {
			t.Errorf("a member of the old account reads %s", got.Body)
		}
		for name, c := range map[string]*client{"the owner of both": owner, "the owner of the new account": second.owner} {
			got := c.query(read, "id", site).ok(t, "")
			if got.at("site.deliveries.edges.0.node.id") == nil || got.at("site.annotations.edges.0.node.id") != first.ids["annotationId"] {
				t.Errorf("%s reads %s", name, got.Body)
			}
		}
		if got := a.with(link, `{ sharedSite { domain } }`).ok(t, ""); got.at("sharedSite.domain") != "first.example" {
			t.Errorf("a shared link: %s", got.Body)
		}
		if got := member.query(`{ sites { totalCount } }`); got.Body != `{"data":{"sites":{"totalCount":0}}}` {
			t.Errorf("the old account's sites: %s", got.Body)
		}

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
