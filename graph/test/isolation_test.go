package graph_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// byID returns the root fields that take an id. Those that delete come last.
func byID() (fields []*ast.FieldDefinition, operation map[string]ast.Operation) {
	operation = map[string]ast.Operation{}

	for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
		for _, f := range fieldsOf(def) {
			if takesID(f) {
				fields, operation[f.Name] = append(fields, f), op
			}
		}
	}

	deletes := func(f *ast.FieldDefinition) int {
		for i, prefix := range []string{"cancelImport", "undo", "deleteUserData", "revoke", "remove", "deleteSegment", "delete"} {
			if strings.HasPrefix(f.Name, prefix) {
				return i + 1
			}
		}
		return 0
	}

	slices.SortFunc(fields, func(a, b *ast.FieldDefinition) int {
		if n := deletes(a) - deletes(b); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})

	return fields, operation
}

// answersUnknown returns whether a body equals the answer of a field to an unknown id. Most fields
// answer alike to all kinds of ids, so that it calls the field with an unknown site first, and with
// an unknown id of the same kind only if that differs.
func (c *client) answersUnknown(t *testing.T, operation ast.Operation, f *ast.FieldDefinition, header ...string) func(body, id string) bool {
	t.Helper()
	ask := func(id string) string {
		return c.call(t, operation, f, func(string) string { return id }, header...).Body
	}
	site := ask(c.app.unknownOf(nodeid.Site))
	return func(body, id string) bool { return body == site || body == ask(c.app.unknown(id)) }
}

// takes reports whether a root field has an input of a name for an id, or one for ids of all kinds.
func takes(f *ast.FieldDefinition, name string) bool {
	return slices.ContainsFunc(f.Arguments, func(arg *ast.ArgumentDefinition) bool {
		def := schema.Types[arg.Type.Name()]
		return arg.Name == "id" || arg.Name == name || def.Kind == ast.InputObject && def.Fields.ForName(name) != nil
	})
}

// TestAnotherTenantsIDsAnswerLikeUnknownOnes: every field that takes an id is called by one tenant
// with all ids of another one. The response must equal, byte for byte, that to an unknown id, and
// nothing may change.
func TestAnotherTenantsIDsAnswerLikeUnknownOnes(t *testing.T) {
	fields, operation := byID()
	if len(fields) < 15 {
		t.Fatalf("only %d fields take an id", len(fields))
	}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		// The owner of the first tenant is the operator too.
		first := a.tenant("first.example")
		second := a.tenant("second.example")
		before := a.dump("signin_failures")

		for _, f := range fields {
			unknown := second.owner.answersUnknown(t, operation[f.Name], f)
			for kind, id := range first.ids {
				foreign := second.owner.call(t, operation[f.Name], f, func(string) string { return id })
				if !unknown(foreign.Body, id) {
					t.Errorf("%s with another tenant's %s answers %s, unlike an unknown one", f.Name, kind, foreign.Body)
				}

				if strings.Contains(foreign.Body, "first") || !strings.Contains(foreign.Body, "NOT_FOUND") &&
					!strings.Contains(foreign.Body, "FORBIDDEN") && !strings.Contains(foreign.Body, "INVALID_LINK") &&
					foreign.Body != `{"data":{"`+f.Name+`":null}}` {
					t.Errorf("%s with another tenant's %s answers %s", f.Name, kind, foreign.Body)
				}
			}
		}

		equal(t, a.dump("signin_failures"), before, "the calls changed something")

		// The ids are valid: their own tenant gets another response.
		for _, f := range fields {
			id := func(name string) string {
				if other, ok := map[string]string{"sitekey": "sitekeyId", "account": "accountId"}[f.Name]; ok && name == "id" {
					return first.ids[other]
				}
				if name == "id" {
					return first.ids["siteId"]
				}
				return first.ids[name]
			}

			own := first.owner.call(t, operation[f.Name], f, id)
			own.named("%s with an id of one's own answers", f.Name).hides(t, "NOT_FOUND").code(t, "").set(t, f.Name)
		}
	})
}

// nodes maps the types that node returns to the name of a tenant's id of that type.
var nodes = map[string]string{
	"Account": "accountId", "User": "userId", "Invitation": "invitationId", "ApiToken": "apiTokenId", "Session": "sessionId",
	"Site": "siteId", "Sitekey": "sitekeyId", "Delivery": "deliveryId", "UserDataErasure": "erasureId",
	"Annotation": "annotationId", "Segment": "segmentId", "Funnel": "funnelId", "SharedLink": "sharedLinkId",
	"Passkey": "passkeyId", "ReportImport": "importId", "ImportJob": "importJobId",
	"AlertChannel": "alertChannelId", "AlertMessage": "alertMessageId",
}

// TestNodeAnswersEveryType: each type that implements Node is readable by its owner. For another
// tenant, and for users of the same account who cannot read it elsewhere, its id is unknown.
func TestNodeAnswersEveryType(t *testing.T) {
	const fields = `{ node(id: $id) { __typename id } }`
	const query = `query($id: ID!) ` + fields
	const null = `{"data":{"node":null}}`

	// The users of the same account that cannot read a type.
	hidden := map[string][]string{
		"Invitation": {"member"}, "ApiToken": {"member", "token"}, "Session": {"member", "token"},
		"Passkey": {"member", "token"},
	}

	eachApp(t, func(t *testing.T, a *app) {
		first, second := a.tenant("first.example"), a.tenant("second.example")
		token := first.owner.createToken("READ", "WRITE", "EXPORT")
		member := a.client()
		member.signIn("member@first.example", password).ok(t, "signIn")
		ask := map[string]func(id string) *answer{
			"member": func(id string) *answer { return member.query(query, "id", id) },
			"token":  func(id string) *answer { return a.with(token.secret, strings.Replace(fields, "$id", `"`+id+`"`, 1)) },
		}

		for _, def := range schema.GetPossibleTypes(schema.Types["Node"]) {
			id := first.ids[nodes[def.Name]]
			if id == "" {
				t.Errorf("no tenant has a %s: add it", def.Name)
				continue
			}

			got := first.owner.query(query, "id", id)
			got.named("the owner's %s", def.Name).has(t, "node.__typename", def.Name).has(t, "node.id", id).code(t, "")
			second.owner.query(query, "id", id).named("another tenant's %s", def.Name).is(t, null)
			first.owner.query(query, "id", a.unknown(id)).named("an unknown %s", def.Name).is(t, null)

			for name, as := range ask {
				if got := as(id); (got.Body == null) != slices.Contains(hidden[def.Name], name) || got.codes() != "" {
					t.Errorf("a %s, to the %s of its account: %s", def.Name, name, got.Body)
				}
			}
		}

		// Expired objects are unknown too.
		a.clock.Add(8 * 24 * time.Hour)

		if got := ask["member"](first.ids["userId"]); got.Body == null {
			t.Errorf("after 8 days, the member's session has ended: %s", got.Body)
		}
		first.owner.query(query, "id", first.ids["invitationId"]).named("an invitation that has ended").is(t, null)

		a.clock.Add(7 * 24 * time.Hour)

		first.owner.query(query, "id", first.ids["sessionId"]).named("a session that has ended").is(t, null)
	})
}

// Roles in order.
const (
	anyRole = 0
	viewer  = 1
	member  = 2
	owner   = 3
)

// fieldRules are the least role of each field of the schema, and the scope that a token needs; ""
// for none.
var fieldRules = map[string]struct {
	role     int
	scope    string
	export   bool // the token needs the scope EXPORT as well
	operator bool
	public   bool // a token needs no scope either
}{
	"installation": {role: anyRole, public: true},

	"viewer": {role: anyRole, scope: "READ"}, "account": {role: viewer, scope: "READ"}, "node": {role: viewer, scope: "READ"},
	"site":  {role: viewer, scope: "READ"},
	"sites": {role: viewer, scope: "READ"}, "sitekey": {role: viewer, scope: "READ"}, "sitekeys": {role: viewer, scope: "READ"},
	"rateLimit": {role: viewer, scope: "READ"}, "apiTokens": {role: viewer}, "sessions": {role: viewer},

	"signUp": {role: anyRole}, "confirmSignUp": {role: anyRole}, "signIn": {role: anyRole}, "requestPasswordReset": {role: anyRole},
	"resetPassword": {role: anyRole}, "acceptInvitation": {role: anyRole}, "signOut": {role: anyRole},

	"createAccount": {role: viewer}, "leaveAccount": {role: viewer}, "updateAccount": {role: owner},
	"requestEmailChange": {role: viewer}, "confirmEmailChange": {role: anyRole},

	"changePassword": {role: viewer}, "revokeSession": {role: viewer}, "createApiToken": {role: viewer}, "revokeApiToken": {role: viewer},

	"createSite": {role: member, scope: "WRITE"}, "updateSite": {role: member, scope: "WRITE"},
	"addSiteDomain": {role: member, scope: "WRITE"}, "removeSiteDomain": {role: member, scope: "WRITE"},
	"registerEvent": {role: member, scope: "WRITE"}, "unregisterEvent": {role: member, scope: "WRITE"},
	"markKeyEvent": {role: member, scope: "WRITE"}, "unmarkKeyEvent": {role: member, scope: "WRITE"},
	"setConversionWebhook": {role: member, scope: "WRITE", export: true}, "rotateServerSecret": {role: member, scope: "WRITE"},
	"revokeServerSecret": {role: member, scope: "WRITE"}, "revokeOldServerSecret": {role: member, scope: "WRITE"},
	"revokeOldSitekeySecret": {role: member, scope: "WRITE"},

	"setDailyExportWebhook": {role: member, scope: "WRITE", export: true}, "sendTestWebhook": {role: member, scope: "WRITE"},
	"redeliver": {role: member, scope: "WRITE"}, "redeliverFailed": {role: member, scope: "WRITE"},
	"resendDailyExport": {role: member, scope: "WRITE"}, "createSitekey": {role: member, scope: "WRITE"},
	"updateCaptchaPolicy": {role: member, scope: "WRITE"},
	"updateSitekey":       {role: member, scope: "WRITE"}, "rotateSitekeySecret": {role: member, scope: "WRITE"},

	"createAnnotation": {role: member, scope: "WRITE"}, "updateAnnotation": {role: member, scope: "WRITE"},
	"deleteAnnotation": {role: member, scope: "WRITE"}, "createSegment": {role: member, scope: "WRITE"},
	"updateSegment": {role: member, scope: "WRITE"}, "deleteSegment": {role: member, scope: "WRITE"},
	"createFunnel": {role: member, scope: "WRITE"}, "updateFunnel": {role: member, scope: "WRITE"},
	"deleteFunnel": {role: member, scope: "WRITE"}, "createSharedLink": {role: member, scope: "WRITE", export: true},
	"revokeSharedLink": {role: member, scope: "WRITE"},

	"createAlertChannel": {role: member, scope: "WRITE", export: true}, "createSiteAlertChannel": {role: member, scope: "WRITE", export: true},
	"updateAlertChannel": {role: member, scope: "WRITE", export: true}, "deleteAlertChannel": {role: member, scope: "WRITE"},
	"sendTestAlert": {role: member, scope: "WRITE"}, "redeliverAlertMessage": {role: member, scope: "WRITE"},
	"confirmAlertChannel": {role: anyRole, public: true},

	"startImport": {role: member, scope: "WRITE"}, "confirmImport": {role: member, scope: "WRITE"},
	"cancelImport": {role: member, scope: "WRITE"}, "undoImport": {role: member, scope: "WRITE"},

	"setOwnAlertChannel": {role: viewer}, "setReportView": {role: viewer}, "hideSiteNotices": {role: viewer},
	"stopAlertMails": {role: anyRole, public: true}, "updateUser": {role: viewer},

	"passkeySignIn": {role: anyRole, public: true}, "signInWithPasskey": {role: anyRole},
	"startTotp": {role: viewer}, "confirmTotp": {role: viewer}, "disableTotp": {role: viewer}, "renewRecoveryCodes": {role: viewer},
	"startPasskeyRegistration": {role: viewer}, "finishPasskeyRegistration": {role: viewer}, "renamePasskey": {role: viewer},
	"deletePasskey": {role: viewer}, "setAccountSecurity": {role: owner},

	"startProviderSignIn": {role: anyRole}, "finishProviderSignIn": {role: anyRole},
	"setAccountProvider": {role: owner}, "verifyProviderDomain": {role: owner}, "deleteAccountProvider": {role: owner},

	"openSharedLink": {role: anyRole}, "sharedSite": {role: anyRole, scope: "READ"}, "invitationOffer": {role: anyRole, public: true},

	"deleteUserData": {role: member},

	"deleteSite": {role: owner}, "deleteSitekey": {role: owner}, "inviteMember": {role: owner}, "revokeInvitation": {role: owner},
	"setMemberRole": {role: owner},
	"removeMember":  {role: owner}, "deleteAccount": {role: owner},

	"restoreSite": {role: owner}, "pauseSite": {role: member, scope: "WRITE"}, "resumeSite": {role: member, scope: "WRITE"},

	"transferSite": {role: owner}, "transferSitekey": {role: owner},
	"suspendAccount": {role: viewer, operator: true}, "resumeAccount": {role: viewer, operator: true},
	"setSitePlan": {role: viewer, operator: true}, "setCaptchaPlan": {role: viewer, operator: true},
	"installationHealth": {role: viewer, operator: true}, "accounts": {role: viewer, operator: true},
}

// TestRoles calls every field of the schema as every kind of caller. The inputs are valid, but the
// ids unknown and the passwords wrong: a permitted caller gets that error.
func TestRoles(t *testing.T) {
	kinds := map[string]nodeid.Kind{
		"siteId": nodeid.Site, "siteIds": nodeid.Site, "id": nodeid.Site, "userId": nodeid.User, "invitationId": nodeid.Invitation,
		"annotationId": nodeid.Annotation, "segmentId": nodeid.Segment, "funnelId": nodeid.Funnel,
		"sharedLinkId": nodeid.SharedLink, "passkeyId": nodeid.Passkey, "importId": nodeid.Import,
		"importJobId": nodeid.ImportJob, "alertChannelId": nodeid.AlertChannel, "alertMessageId": nodeid.AlertMessage,
		"apiTokenId": nodeid.APIToken, "sitekeyId": nodeid.Sitekey, "accountId": nodeid.Account, "toAccountId": nodeid.Account,
		"lastAccountId": nodeid.Account, "deliveryId": nodeid.Delivery,
	}

	eachApp(t, func(t *testing.T, a *app) {
		ids := func(name string) string {
			if name == "sessionId" {
				return unknownSession
			}
			differ(t, kinds[name], 0, "the input %s takes an id of unknown kind: add it", name)
			return a.unknownOf(kinds[name])
		}

		operator := a.owner("operator@example.com")
		first := a.owner("owner@example.com")
		callers := []struct {
			name     string
			client   *client
			role     int
			operator bool
			scopes   []string // of a token; nil for a session
			header   []string
			shared   bool // a reader of a shared link
		}{
			{name: "unauthenticated", client: a.client(), role: anyRole},
			{name: "viewer", client: a.join(first, "viewer@example.com", model.RoleViewer), role: viewer},
			{name: "member", client: a.join(first, "member@example.com", model.RoleMember), role: member},
			{name: "owner", client: first, role: owner},
			{name: "operator", client: operator, role: owner, operator: true},
		}
		for _, scopes := range [][]string{{"READ"}, {"READ", "WRITE"}, {"EXPORT"}, {"WRITE", "EXPORT"}} {
			// The token belongs to the user with the most rights.
			owners := operator.createToken(scopes...)
			callers = append(callers, callers[0])
			c := &callers[len(callers)-1]
			c.name, c.client, c.role, c.operator, c.scopes = "token "+strings.Join(scopes, " "), a.client(), owner, true, scopes
			c.header = []string{"Authorization", "Bearer " + owners.secret}
		}

		// A reader of a shared link has no role and no permission.
		reader := first.reader(first.siteOf("shared.example"))
		callers = append(callers, callers[0])
		c := &callers[len(callers)-1]
		c.name, c.client, c.shared, c.header = "reader of a shared link", a.client(), true, []string{"Authorization", "Bearer " + reader}

		viewers := callers[1].client.createToken("READ", "WRITE", "EXPORT")
		callers = append(callers, callers[0])
		c = &callers[len(callers)-1]
		c.name, c.client, c.role, c.scopes = "token of the viewer", a.client(), viewer, []string{"READ", "WRITE"}
		c.header = []string{"Authorization", "Bearer " + viewers.secret}

		checked := 0

		for _, caller := range callers {
			// Move the clock beyond the wait of every throttle.
			a.clock.Add(20 * time.Minute)

			for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
				for _, f := range fieldsOf(def) {
					rule, ok := fieldRules[f.Name]
					if !ok {
						t.Fatalf("the required role of %s is not listed: add it", f.Name)
					}

					if f.Name == "signOut" && caller.scopes == nil {
						// signOut would end the session of the other calls.
						continue
					}

					if f.Name == "createAccount" && caller.role > anyRole && caller.scopes == nil {
						// createAccount would make the caller an owner.
						continue
					}

					want := ""

					switch {
					case caller.scopes != nil && rule.export && !slices.Contains(caller.scopes, "EXPORT"):
						want = "FORBIDDEN"
					case caller.scopes != nil && !rule.public &&
						(rule.scope == "" || !slices.Contains(caller.scopes, rule.scope) && !(rule.scope == "READ" && slices.Contains(caller.scopes, "WRITE"))),
						caller.role < rule.role, rule.operator && !caller.operator:
						want = "FORBIDDEN"
					}

					if caller.name == "unauthenticated" && rule.role > anyRole {
						want = "UNAUTHENTICATED"
					}

					if open := f.Directives.ForName("open") != nil; op == ast.Mutation && open != (rule.role == anyRole) {
						t.Errorf("%s waits for the turn of its network: %v; everybody can call it: %v", f.Name, open, rule.role == anyRole)
					}

					if caller.shared && f.Name != "sharedSite" && f.Name != "viewer" && !rule.public {
						want = "FORBIDDEN"
					}

					// Several mutations check a password, and it is wrong.
					a.clock.Add(16 * time.Second)

					sender := caller.client

					if op == ast.Mutation && rule.role == anyRole {
						// Drop the session that the call has started.
						sender = a.client()
					}

					sender.call(t, op, f, ids, caller.header...).named("%s calls %s", caller.name, f.Name).code(t, want)

					checked++
				}
			}
		}

		if checked < len(fieldRules)*(len(callers)-1) {
			t.Errorf("only %d calls", checked)
		}
	})
}
