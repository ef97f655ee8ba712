package graph_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// unaudited are the mutations whose success adds no entry to an audit log, each with the reason.
var unaudited = map[string]string{
	"hideSiteNotices": "it hides what the caller has read, and changes nothing for others",
	"setReportView":   "it is written with each choice of a period, and changes nothing for others",
	"deleteAccount":   "the log is deleted with its account",
	"openSharedLink":  "it stores nothing, and its caller has no account",

	"startPasskeyRegistration": "it stores nothing",

	"startProviderSignIn":  "it stores nothing",
	"finishProviderSignIn": "TestProviderSignIn checks its entry, with a provider",
	"verifyProviderDomain": "TestProviderSignIn checks its entry, with a DNS server",
}

// auditCase is a successful call of a mutation. The input is in GraphQL; $name stands for a value
// of the world's vars. The calls run in the order of auditCases, on one world.
type auditCase struct {
	mutation string
	input    string
	as       string // a client of the world, or "new" for a browser without a session; "": owner
	actor    string // kind and e-mail address; "": USER owner@first.example
	account  string // a name of the world's accounts; "": first
	object   string // type and name
	consumes bool   // a challenge stays used if the call fails
}

// auditCases has every mutation of the schema that adds an entry. Add a new one here, or to
// unaudited.
var auditCases = []auditCase{
	{mutation: "signUp", as: "unmailed", input: `{email: "new@third.example", password: "a long password", accountName: "Third"}`,
		actor: "USER new@third.example", account: "third", object: "Account Third"},
	{mutation: "confirmSignUp", as: "new", input: `{secret: $signUpSecret, password: "correct horse battery"}`,
		actor: "USER new@fourth.example", account: "fourth", object: "Account Example"},
	{mutation: "signIn", as: "new", input: `{email: "member@first.example", password: "correct horse battery"}`,
		actor: "USER member@first.example", object: "User member@first.example"},
	{mutation: "signOut", as: "leaving", input: `{}`, actor: "USER member@first.example", object: "User member@first.example"},
	{mutation: "requestPasswordReset", as: "new", input: `{email: "member@first.example"}`,
		actor: "UNAUTHENTICATED ", object: "User member@first.example"},
	{mutation: "resetPassword", as: "new", input: `{token: $resetSecret, password: "another long password"}`,
		actor: "USER reset@first.example", object: "User reset@first.example"},
	{mutation: "acceptInvitation", as: "new", input: `{token: $invitationSecret, password: "a long password"}`,
		actor: "USER joining@first.example", object: "User joining@first.example"},
	{mutation: "changePassword", as: "changing", input: `{currentPassword: "correct horse battery", password: "another long password"}`,
		actor: "USER changing@first.example", object: "User changing@first.example"},
	{mutation: "requestEmailChange", input: `{email: "next@first.example", password: "correct horse battery"}`,
		object: "User owner@first.example"},
	{mutation: "confirmEmailChange", as: "new", input: `{secret: $emailSecret}`,
		actor: "USER moving@first.example", object: "User moving@first.example"},
	{mutation: "revokeSession", input: `{sessionId: $sessionId}`, object: "User owner@first.example"},
	{mutation: "createApiToken", input: `{name: "new token", scopes: [READ]}`, object: "ApiToken new token"},
	{mutation: "revokeApiToken", input: `{apiTokenId: $apiTokenId}`, object: "ApiToken test"},

	{mutation: "inviteMember", input: `{email: "invited@first.example", role: VIEWER}`, object: "Invitation invited@first.example"},
	{mutation: "revokeInvitation", input: `{invitationId: $invitationId}`, object: "Invitation guest@first.example"},
	{mutation: "setMemberRole", input: `{userId: $userId, role: VIEWER}`, object: "User member@first.example"},
	{mutation: "removeMember", input: `{userId: $userId}`, object: "User member@first.example"},

	{mutation: "setAccountProvider", input: `{password: "correct horse battery", issuer: $issuer, clientId: "c",
		clientSecret: "s", domain: "corp.example"}`, object: "Account Example"},
	{mutation: "deleteAccountProvider", input: `{password: "correct horse battery"}`, object: "Account Example"},

	{mutation: "createAccount", input: `{name: "Branch"}`, account: "branch", object: "Account Branch"},
	{mutation: "updateAccount", as: "second", input: `{name: "Renamed"}`, account: "second",
		actor: "USER owner@second.example", object: "Account Renamed"},
	{mutation: "startTotp", as: "starting", input: `{password: "correct horse battery"}`,
		actor: "USER starting@first.example", object: "User starting@first.example"},
	{mutation: "confirmTotp", as: "confirming", input: `{code: $$startedCode}`,
		actor: "USER confirming@first.example", object: "User confirming@first.example"},
	{mutation: "renewRecoveryCodes", as: "second", input: `{password: "correct horse battery"}`, account: "second",
		actor: "USER owner@second.example", object: "User owner@second.example"},
	{mutation: "setAccountSecurity", as: "second", input: `{password: "correct horse battery", requireSecondFactor: false}`, account: "second",
		actor: "USER owner@second.example", object: "Account Renamed"},
	{mutation: "disableTotp", as: "second", input: `{password: "correct horse battery"}`, account: "second",
		actor: "USER owner@second.example", object: "User owner@second.example"},
	{mutation: "finishPasskeyRegistration", as: "starting", input: `{$$newPasskey, name: "Laptop"}`,
		actor: "USER starting@first.example", object: "Passkey Laptop"},
	{mutation: "signInWithPasskey", as: "new", input: `{$$passkeyAnswer}`, consumes: true,
		actor: "USER passkey@first.example", object: "User passkey@first.example"},
	{mutation: "renamePasskey", input: `{passkeyId: $passkeyId, name: "Phone"}`, object: "Passkey Phone"},
	{mutation: "deletePasskey", input: `{passkeyId: $passkeyId, password: "correct horse battery"}`, object: "Passkey Phone"},
	{mutation: "leaveAccount", as: "changing", input: `{accountId: $accountId}`,
		actor: "USER changing@first.example", object: "User changing@first.example"},

	{mutation: "createSite", input: `{domain: "new.example"}`, object: "Site new.example"},
	{mutation: "updateSite", input: `{siteId: $siteId, name: "New", timeZone: "Europe/Berlin"}`, object: "Site first.example"},
	{mutation: "addSiteDomain", input: `{siteId: $siteId, domain: "more.example"}`, object: "Site first.example"},
	{mutation: "removeSiteDomain", input: `{siteId: $siteId, domain: "more.example"}`, object: "Site first.example"},
	{mutation: "registerEvent", input: `{siteId: $siteId, name: "lead"}`, object: "Site first.example"},
	{mutation: "markKeyEvent", input: `{siteId: $siteId, name: "signup"}`, object: "Site first.example"},
	{mutation: "unmarkKeyEvent", input: `{siteId: $siteId, name: "lead"}`, object: "Site first.example"},
	{mutation: "unregisterEvent", input: `{siteId: $siteId, name: "lead"}`, object: "Site first.example"},
	{mutation: "setConversionWebhook", input: `{siteId: $siteId, url: "https://example.net/secret-path"}`, object: "Site first.example"},
	{mutation: "setDailyExportWebhook", input: `{siteId: $siteId}`, object: "Site first.example"},
	{mutation: "rotateServerSecret", input: `{siteId: $siteId}`, object: "Site first.example"},
	{mutation: "revokeOldServerSecret", input: `{siteId: $siteId}`, object: "Site first.example"},
	{mutation: "revokeServerSecret", input: `{siteId: $siteId}`, object: "Site first.example"},
	{mutation: "setOwnAlertChannel", input: `{siteId: $siteId, monthly: true}`, object: "AlertChannel owner@first.example"},
	{mutation: "stopAlertMails", as: "new", input: `{token: $stopSecret}`, actor: "UNAUTHENTICATED ", object: "AlertChannel owner@first.example"},
	{mutation: "updateUser", input: `{language: DE}`, object: "User owner@first.example"},
	{mutation: "sendTestWebhook", input: `{siteId: $spareId}`, object: "Delivery test"},
	{mutation: "redeliver", input: `{deliveryId: $deliveryId}`, object: "Delivery test"},
	{mutation: "redeliverFailed", input: `{siteId: $siteId, since: "2026-11-01T00:00:00Z"}`, object: "Site first.example"},
	{mutation: "resendDailyExport", input: `{siteId: $siteId, date: "2026-11-19"}`, object: "Site first.example"},
	{mutation: "deleteUserData", input: `{siteId: $siteId, userId: $pseudonym}`, object: "UserDataErasure first.example"},

	{mutation: "createSitekey", input: `{name: "login"}`, object: "Sitekey login"},
	{mutation: "updateSitekey", input: `{sitekeyId: $sitekeyId, name: "contact"}`, object: "Sitekey contact"},
	{mutation: "updateCaptchaPolicy", input: `{sitekeyId: $sitekeyId, automation: LIMIT}`, object: "Sitekey contact"},
	{mutation: "rotateSitekeySecret", input: `{sitekeyId: $sitekeyId}`, object: "Sitekey contact"},
	{mutation: "revokeOldSitekeySecret", input: `{sitekeyId: $sitekeyId}`, object: "Sitekey contact"},

	{mutation: "createAnnotation", input: `{siteId: $siteId, day: "2026-11-20", text: "launch"}`, object: "Annotation launch"},
	{mutation: "updateAnnotation", input: `{annotationId: $annotationId, text: "changed"}`, object: "Annotation changed"},
	{mutation: "deleteAnnotation", input: `{annotationId: $annotationId}`, object: "Annotation changed"},
	{mutation: "createSegment", input: `{siteId: $siteId, name: "de", filters: [{dimension: PAGE, values: ["/de"]}]}`, object: "Segment de"},
	{mutation: "updateSegment", input: `{segmentId: $segmentId, name: "home"}`, object: "Segment home"},
	{mutation: "deleteSegment", input: `{segmentId: $segmentId}`, object: "Segment home"},
	{mutation: "createFunnel", input: `{siteId: $siteId, name: "sale", steps: [{page: "/"}, {event: "signup"}]}`, object: "Funnel sale"},
	{mutation: "updateFunnel", input: `{funnelId: $funnelId, name: "buy"}`, object: "Funnel buy"},
	{mutation: "deleteFunnel", input: `{funnelId: $funnelId}`, object: "Funnel buy"},
	{mutation: "createSharedLink", input: `{siteId: $siteId, name: "client", password: "a long password"}`, object: "SharedLink client"},
	{mutation: "revokeSharedLink", input: `{sharedLinkId: $sharedLinkId}`, object: "SharedLink link of first.example"},
	{mutation: "createAlertChannel", input: `{kind: DISCORD, name: "chat", address: "https://hook.example/0123456789abcdef", events: [NEW_SIGN_IN]}`,
		object: "AlertChannel chat"},
	{mutation: "createSiteAlertChannel", input: `{siteId: $siteId, kind: EMAIL, name: "mail", address: "ops@first.example", events: [QUOTA]}`,
		object: "AlertChannel mail"},
	{mutation: "confirmAlertChannel", input: `{token: $alertToken}`, as: "new", actor: "UNAUTHENTICATED ", object: "AlertChannel duty"},
	{mutation: "updateAlertChannel", input: `{alertChannelId: $alertChannelId, weekly: true}`, object: "AlertChannel ops of first.example"},
	{mutation: "sendTestAlert", input: `{alertChannelId: $alertChannelId}`, object: "AlertMessage test"},
	{mutation: "redeliverAlertMessage", input: `{alertMessageId: $alertMessageId}`, object: "AlertMessage test"},
	{mutation: "deleteAlertChannel", input: `{alertChannelId: $alertChannelId}`, object: "AlertChannel ops of first.example"},

	{mutation: "confirmImport", input: `{importJobId: $importJobId}`, object: "Site first.example"},
	{mutation: "cancelImport", input: `{importJobId: $importJobId}`, object: "Site first.example"},
	{mutation: "startImport", input: `{siteId: $spareId, source: UMAMI, files: [{name: "u.csv", size: 5}]}`, object: "Site spare.example"},
	{mutation: "undoImport", input: `{importId: $importId}`, object: "Site first.example"},

	{mutation: "setSitePlan", input: `{siteId: $otherSiteId, plan: PRO_100K}`, account: "second",
		actor: "OPERATOR owner@first.example", object: "Site second.example"},
	{mutation: "setCaptchaPlan", input: `{accountId: $otherAccountId, plan: PRO_100K}`, account: "second",
		actor: "OPERATOR owner@first.example", object: "Account Renamed"},

	{mutation: "suspendAccount", input: `{accountId: $otherAccountId, reason: "abuse"}`, account: "second",
		actor: "OPERATOR owner@first.example", object: "Account Renamed"},
	{mutation: "resumeAccount", input: `{accountId: $otherAccountId}`, account: "second",
		actor: "OPERATOR owner@first.example", object: "Account Renamed"},

	// A transfer to another account adds an entry to the logs of both, see TestTransferSite.
	{mutation: "transferSite", input: `{siteId: $siteId, toAccountId: $accountId}`, object: "Site first.example"},
	{mutation: "transferSitekey", input: `{sitekeyId: $sitekeyId, toAccountId: $accountId}`, object: "Sitekey contact"},
	{mutation: "deleteSitekey", input: `{sitekeyId: $sitekeyId}`, object: "Sitekey contact"},

	{mutation: "pauseSite", input: `{siteId: $spareId}`, object: "Site spare.example"},
	{mutation: "resumeSite", input: `{siteId: $spareId}`, object: "Site spare.example"},
	{mutation: "deleteSite", input: `{siteId: $spareId}`, object: "Site spare.example"},
	{mutation: "restoreSite", input: `{siteId: $spareId}`, object: "Site spare.example"},
	{mutation: "deleteSite", input: `{siteId: $spareId, confirm: "spare.example", immediately: true}`, object: "Site spare.example"},
}

// auditWorld has what the calls of auditCases need.
type auditWorld struct {
	*app
	vars    map[string]string
	made    map[string]func() string // parts of inputs that are made for each call, as $$name
	clients map[string]*client
}

func newAuditWorld(t *testing.T, d *db.DB) *auditWorld {
	p := newFakeProvider(t)
	a := newApp(t, d, localhost, withProviders(p, testkit.NewDNS(t)), func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
	first := a.tenant("first.example")

	// Entries of both programs have the time of one clock, so that the newest has the highest id.
	unmailed := newApp(t, d, noMail, func(s *settings) { s.auth.Now, s.graph.Now = a.clock.Now, a.clock.Now })
	w := &auditWorld{app: a, vars: maps.Clone(first.ids), clients: map[string]*client{
		"": first.owner, "unmailed": unmailed.client(), "leaving": a.client(),
		"changing":   a.join(first.owner, "changing@first.example", model.RoleViewer),
		"starting":   a.join(first.owner, "starting@first.example", model.RoleViewer),
		"confirming": a.join(first.owner, "confirming@first.example", model.RoleViewer),
	}}
	w.vars["issuer"] = p.issuer()
	own, err := dbtest.Rows[model.AlertChannel](d, "SELECT id, confirmed_at FROM alert_channels WHERE user_id IS NOT NULL ORDER BY id LIMIT 1")
	testkit.NoError(a.t, err)
	w.vars["stopSecret"] = a.ids.OfChannelStop(own[0].ID, own[0].ConfirmedAt)
	w.vars["pseudonym"] = fmt.Sprint(samples["userId"])

	second := a.owner("owner@second.example")
	w.clients["second"] = second
	w.vars["otherSiteId"] = second.siteOf("second.example")
	w.vars["otherAccountId"] = second.query(`{ viewer { account { id } } }`).at("viewer.account.id").(string)

	err = dbtest.Exec(d, "INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (?, ?, 1, 1, 1, 'signup', '/')",
		a.siteNumber(first.ids["siteId"]), model.At(start.AddDate(0, 0, -1)))
	testkit.NoError(t, err)

	w.secondFactors(first.owner)

	spare := first.owner.siteOf("spare.example")
	w.vars["spareId"] = spare
	first.owner.done("setConversionWebhook", "siteId", spare, "url", "https://spare.example/hook")

	w.clients["leaving"].signIn("member@first.example", password).ok(t, "signIn")
	a.join(first.owner, "reset@first.example", model.RoleViewer)
	a.client().done("requestPasswordReset", "email", "reset@first.example")
	w.vars["resetSecret"] = a.mailedSecret("reset@first.example")

	first.owner.done("inviteMember", "email", "joining@first.example", "role", "VIEWER")
	w.vars["invitationSecret"] = a.mailedSecret("joining@first.example")

	a.join(first.owner, "moving@first.example", model.RoleViewer).done("requestEmailChange", "email", "moved@first.example", "password", password)
	w.vars["emailSecret"] = a.mailedSecret("moved@first.example")

	first.owner.done("createSiteAlertChannel", "siteId", first.ids["siteId"], "kind", "EMAIL", "name", "duty", "address", "duty@first.example",
		"events", []string{"QUOTA"})
	w.vars["alertToken"] = a.mailedSecret("duty@first.example")

	a.client().signUp("new@fourth.example").ok(t, "signUp")
	w.vars["signUpSecret"] = a.mailedSecret("new@fourth.example")

	return w
}

// secondFactors sets up what the mutations of second factors need.
func (w *auditWorld) secondFactors(owner *client) {
	w.clients["second"].enableTOTP()
	started := w.clients["confirming"].do("startTotp", "password", password).ok(w.t, "startTotp").at("startTotp.secret").(string)
	key, created := newAuthenticator(w.t, w.app), newAuthenticator(w.t, w.app)
	w.join(owner, "passkey@first.example", model.RoleViewer).register(key, "Key").ok(w.t, "finishPasskeyRegistration")

	answer := func(challenge, credential string) string {
		return fmt.Sprintf("challenge: %q, credential: %q", challenge, credential)
	}
	w.made = map[string]func() string{
		"startedCode": func() string {
			// The setup has expired meanwhile.
			err := dbtest.Exec(w.db, "UPDATE totp_secrets SET created_at = ? WHERE NOT confirmed", model.At(w.clock.Now()))
			testkit.NoError(w.t, err)
			return fmt.Sprintf("%q", w.code(started))
		},
		"newPasskey": func() string {
			got := w.clients["starting"].do("startPasskeyRegistration", "password", password).ok(w.t, "startPasskeyRegistration")
			challenge, options := request(got, "startPasskeyRegistration.request")
			return answer(challenge, created.create(options))
		},
		"passkeyAnswer": func() string {
			challenge, options := request(w.client().query(passkeySignInQuery).ok(w.t, ""), "passkeySignIn")
			return answer(challenge, key.get(options))
		},
	}
}

// run calls the mutation.
func (w *auditWorld) run(c auditCase) *answer {
	w.t.Helper()

	// Longer names first: one can be the beginning of another one.
	input := c.input
	for name, make := range w.made {
		if strings.Contains(input, "$$"+name) {
			input = strings.ReplaceAll(input, "$$"+name, make())
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(w.vars))) {
		input = strings.ReplaceAll(input, "$"+name, `"`+w.vars[name]+`"`)
	}

	caller := w.clients[c.as]
	if c.as == "new" {
		caller = w.client()
	}

	return caller.query(`mutation { ` + c.mutation + `(input: ` + input + `) { userErrors { code message } } }`)
}

// auditRow is a row of the log as the tests compare it.
type auditRow struct {
	AccountID                                       model.AccountID
	Action, Actor, Object, Before, After, TokenName string
}

// auditRows returns the rows of all logs, oldest first.
func (a *app) auditRows() []auditRow {
	a.t.Helper()
	rows := value(dbtest.Rows[auditRow](a.db, `SELECT account_id, action, actor_kind || ' ' || actor_name AS actor,
		object_kind || ' ' || object_name AS object, before, after, token_name FROM audit_log ORDER BY id`))(a.t)
	return rows
}

// TestEveryMutationIsAudited walks the schema: each mutation adds exactly one entry in its
// transaction, and changes nothing if the entry cannot be written.
func TestEveryMutationIsAudited(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, c := range auditCases {
		listed[c.mutation] = true
	}
	for _, f := range fieldsOf(schema.Mutation) {
		differ(t, listed[f.Name], unaudited[f.Name] != "", "%s must be in auditCases or, with the reason, in unaudited", f.Name)
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newAuditWorld(t, d)

		// Without the log, every mutation fails and changes nothing.
		must(t, dbtest.Exec(d, "ALTER TABLE audit_log RENAME TO audit_log_away"))

		before := w.dump("signin_failures")
		deletion := auditCase{mutation: "deleteAccount", as: "second", input: `{password: "correct horse battery"}`}
		for _, c := range append(slices.Clone(auditCases), deletion) {
			w.run(c).named("%s without an audit log", c.mutation).code(t, "INTERNAL")
			if c.consumes {
				before = w.dump("signin_failures")
			}
			equal(t, w.dump("signin_failures"), before, "%s without an audit log", c.mutation)
		}

		must(t, dbtest.Exec(d, "ALTER TABLE audit_log_away RENAME TO audit_log"))
		w.clock.Add(20 * time.Minute)

		for _, c := range auditCases {
			// Entries of one microsecond are ordered by a number that begins again after 4,096 of a
			// process.
			w.clock.Add(time.Microsecond)
			old := w.auditRows()
			w.run(c).ok(t, c.mutation)

			rows := w.auditRows()[len(old):]
			if len(rows) != 1 {
				t.Errorf("%s added %+v", c.mutation, rows)
				continue
			}

			want := auditRow{
				Action: c.mutation, Actor: c.actor, Object: c.object, AccountID: w.accountID(c.account),
				Before: rows[0].Before, After: rows[0].After,
			}
			if want.Actor == "" {
				want.Actor = "USER owner@first.example"
			}
			equal(t, rows[0], want, "%s added", c.mutation)
			if strings.Contains(rows[0].Before+rows[0].After, "secret-path") {
				t.Errorf("%s added a path: %+v", c.mutation, rows[0])
			}
		}

		second := w.accountID("second")
		w.run(deletion).ok(t, "deleteAccount")
		for _, row := range w.auditRows() {
			differ(t, row.AccountID, second, "after the deletion of the account: %+v", row)
		}
	})
}

// accountID returns the number of an account of the world.
func (w *auditWorld) accountID(name string) model.AccountID {
	w.t.Helper()
	if name == "branch" {
		rows, err := dbtest.Rows[struct{ ID model.AccountID }](w.db, "SELECT id FROM accounts WHERE name = 'Branch'")
		if err != nil || len(rows) != 1 {
			w.t.Fatal(rows, err)
		}
		return rows[0].ID
	}

	email := map[string]string{
		"": "owner@first.example", "second": "owner@second.example", "third": "new@third.example", "fourth": "new@fourth.example",
	}[name]
	rows, err := dbtest.Rows[struct{ AccountID model.AccountID }](w.db,
		"SELECT m.account_id FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = ? ORDER BY m.created_at LIMIT 1", email)
	if err != nil || len(rows) != 1 {
		w.t.Fatalf("account %s: %v, %v", name, rows, err)
	}
	return rows[0].AccountID
}

// TestAuditLog reads the log over HTTP: the values, the filters, the pages, and who may read it.
func TestAuditLog(t *testing.T) {
	const entry = `{ at action actor { kind userId email apiTokenId apiTokenName } object { type objectId name } changes { name before after } }`
	const query = `query($first: Int!, $after: String, $filter: AuditFilter) { viewer { account { auditLog(first: $first, after: $after, filter: $filter) {
		edges { cursor } nodes ` + entry + ` pageInfo { hasNextPage endCursor } } } } }`

	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.siteOf("example.com")
		read := func(variables ...any) *answer {
			t.Helper()
			return owner.query(query, append([]any{"first", 10}, variables...)...).ok(t, "")
		}
		actions := func(got *answer) string {
			nodes, _ := got.at("viewer.account.auditLog.nodes").([]any)
			names := make([]string, len(nodes))
			for i, node := range nodes {
				names[i] = node.(map[string]any)["action"].(string)
			}
			return strings.Join(names, " ")
		}
		change := func(c *client, input string) {
			t.Helper()
			c.query(`mutation($id: ID!) { updateSite(input: {siteId: $id, `+input+`}) { userErrors { code } } }`, "id", site).ok(t, "updateSite")
		}

		a.clock.Add(time.Hour)
		change(owner, `name: "Shop", excludedAddresses: ["192.0.2.7"], registeredEvents: ["trial", "lead"], keyEvents: ["purchase", "lead"]`)
		change(owner, `name: "Shop"`)
		refused := owner.do("updateSite", "siteId", site, "name", "")
		if refused.userErrors("updateSite") == "" {
			t.Fatal(refused.Body)
		}

		if got, want := actions(read()), "updateSite updateSite createSite signUp"; got != want {
			t.Fatalf("the actions are %s, want %s", got, want)
		}
		got := read("first", 2).at("viewer.account.auditLog.nodes").([]any)
		values := func(i int) string { return fmt.Sprint(got[i].(map[string]any)["changes"]) }
		if values(0) != "[map[after:Shop before:Shop name:name]]" || values(1) !=
			`[map[after:["192.0.2.7/32"] before:[] name:excludedAddresses] map[after:["lead"] before:[] name:keyEvents] `+
				`map[after:Shop before:example.com name:name] map[after:["lead","trial"] before:[] name:registeredEvents]]` {
			t.Errorf("the changes are %s and %s", values(0), values(1))
		}

		// A token, a member, an operator and the owner of another account.
		token := owner.createToken("READ", "WRITE")
		a.with(token.secret, `mutation { updateSite(input: {siteId: "`+site+`", name: "By token"}) { userErrors { code } } }`).ok(t, "updateSite")
		member := a.join(owner, "member@example.com", model.RoleMember)
		change(member, `name: "By member"`)
		memberID := member.query(`{ viewer { id } }`).at("viewer.id")

		byToken := read("filter", map[string]any{"actions": []string{"updateSite"}}).at("viewer.account.auditLog.nodes.1.actor")
		want := map[string]any{
			"kind": "API_TOKEN", "userId": owner.query(`{ viewer { id } }`).at("viewer.id"), "email": "owner@example.com",
			"apiTokenId": token.id, "apiTokenName": "test",
		}
		equal(t, fmt.Sprint(byToken), fmt.Sprint(want), "the token's change is by %v, want %v", byToken, want)

		for _, step := range []struct {
			filter map[string]any
			want   string
		}{
			{map[string]any{"actions": []string{"updateSite", "createSite"}}, "updateSite updateSite updateSite updateSite createSite"},
			{map[string]any{"actorId": memberID}, "updateSite acceptInvitation"},
			{map[string]any{"objectId": site}, "updateSite updateSite updateSite updateSite createSite"},
			{map[string]any{"objectId": token.id}, "createApiToken"},
			{map[string]any{"until": "2026-11-20T09:30:00Z"}, ""},
			{map[string]any{"until": "2026-11-20T10:00:00Z"}, "createSite signUp"},
			{map[string]any{"since": "2026-11-20T10:30:00Z", "until": "2026-11-20T10:31:00Z", "actorId": memberID}, "updateSite acceptInvitation"},
			{map[string]any{"actions": []string{"createSite"}, "since": "2026-11-20T10:30:00Z"}, ""},
			{map[string]any{"actorId": a.unknown(memberID.(string))}, ""},
		} {
			equal(t, actions(read("filter", step.filter)), step.want, "with %v the actions", step.filter)
		}

		for _, wrong := range []map[string]any{
			{"actions": make([]string, 21)}, {"actorId": site}, {"objectId": "nothing"},
		} {
			owner.query(query, "first", 1, "filter", wrong).
				named("the filter %v is answered with", wrong).code(t, "INVALID_ARGUMENT")
		}

		// Pages of two entries contain all entries once.
		all, paged, after := actions(read()), []string{}, any(nil)
		for {
			page := read("first", 2, "after", after)
			paged = append(paged, actions(page))
			after = page.at("viewer.account.auditLog.pageInfo.endCursor")
			if page.at("viewer.account.auditLog.pageInfo.hasNextPage") != true {
				break
			}
		}
		if got := strings.Join(paged, " "); got != all || len(paged) < 4 {
			t.Errorf("the pages have %s, want %s", got, all)
		}

		member.query(query, "first", 1).named("a member reads").code(t, "FORBIDDEN")
		a.with(token.secret, `{ viewer { account { auditLog { nodes { action } } } } }`).
			named("the owner's token reads").shows(t, "updateSite")
		if got := a.owner("owner@other.example").query(query, "first", 10).ok(t, ""); actions(got) != "confirmSignUp" {
			t.Errorf("another account reads %s", got.Body)
		}
	})
}
