package graph_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// schema is the schema that the tests of all fields iterate over.
var schema = generated.NewExecutableSchema(generated.Config{}).Schema()

// fieldsOf returns the fields of a root type, without introspection.
func fieldsOf(t *ast.Definition) []*ast.FieldDefinition {
	return slices.DeleteFunc(slices.Clone([]*ast.FieldDefinition(t.Fields)), func(f *ast.FieldDefinition) bool {
		return strings.HasPrefix(f.Name, "__")
	})
}

// selection returns a selection of all fields of a type that need no arguments, down to a depth,
// except for the fields named in but.
func selection(name string, depth int, but ...string) string {
	def := schema.Types[name]
	if def.Kind == ast.Interface {
		var parts []string
		types := map[string]string{}
		for _, possible := range schema.GetPossibleTypes(def) {
			parts = append(parts, "... on "+possible.Name+" "+fieldSelection(possible, depth, types, but))
		}

		return "{ __typename " + strings.Join(parts, " ") + " }"
	}

	if def.Kind != ast.Object {
		return ""
	}
	return fieldSelection(def, depth, nil, but)
}

// fieldSelection selects the fields of an object type. types is nil, or has the fields that the
// query selects at the same place of other types of an interface: then a field of the same name and
// of another type gets an alias, and of an inner object with an id only this is selected, because a
// query has at most 500 fields.
func fieldSelection(def *ast.Definition, depth int, types map[string]string, but []string) string {
	var parts []string
	for _, f := range fieldsOf(def) {
		object := schema.Types[f.Type.Name()]
		leaf := object.IsLeafType()
		if !leaf && depth == 1 || slices.Contains(but, f.Name) || needsArguments(f) {
			continue
		}

		// Skip objects that contain only objects.
		inner := selection(f.Type.Name(), depth-1, but...)
		if !leaf && inner == "{  }" {
			continue
		}

		name := f.Name
		if types != nil {
			if !leaf && slices.Contains(object.Interfaces, "Node") {
				inner = "{ id }"
			}
			if other, ok := types[name]; !ok {
				types[name] = f.Type.String()
			} else if other != f.Type.String() {
				name = strings.ToLower(def.Name) + "_" + name + ": " + name
			}
		}
		parts = append(parts, name+literalArguments(f)+" "+inner)
	}

	return "{ " + strings.Join(parts, " ") + " }"
}

// literals are the values of required arguments below the root, in GraphQL, by name.
var literals = map[string]string{
	"period": "{preset: TODAY}", "by": "PAGE", "from": `{page: "/"}`, "direction": "NEXT", "steps": `[{page: "/"}, {event: "signup"}]`,
	"property": `"plan"`, "compare": "{kind: PREVIOUS_PERIOD}",
}

// needsArguments reports whether a field has an argument without a default and without a literal.
func needsArguments(f *ast.FieldDefinition) bool {
	return slices.ContainsFunc(f.Arguments, func(arg *ast.ArgumentDefinition) bool {
		return isRequired(arg) && literals[arg.Name] == ""
	})
}

func isRequired(arg *ast.ArgumentDefinition) bool { return arg.Type.NonNull && arg.DefaultValue == nil }

// literalArguments returns the required arguments of a field as a query has them.
func literalArguments(f *ast.FieldDefinition) string {
	var list []string
	for _, arg := range f.Arguments {
		if isRequired(arg) {
			list = append(list, arg.Name+": "+literals[arg.Name])
		}
	}
	if list == nil {
		return ""
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// reachable returns the names of the object types that a query can reach from a type, itself
// included, in order.
func reachable(from string) []string {
	found := map[string]bool{}
	var walk func(name string)
	walk = func(name string) {
		def := schema.Types[name]
		if def.IsLeafType() || found[name] {
			return
		}
		found[name] = true
		for _, f := range fieldsOf(def) {
			walk(f.Type.Name())
		}
		for _, possible := range schema.GetPossibleTypes(def) {
			walk(possible.Name)
		}
	}

	walk(from)
	return slices.Sorted(maps.Keys(found))
}

// samples are valid values for the inputs that are not ids, by name, by name and type, or by field
// and name for one field.
var samples = map[string]any{
	"accountName": "Example", "name": "signup", "domain": "extra.example.org", "url": "https://example.net/hook",
	"email": "new@example.org", "role": "VIEWER", "plan": "ENTERPRISE", "monthlyPageviews": 5, "scopes": []string{"READ"},
	"password": "another long password", "currentPassword": "not the password", "token": "tgr_wrong", "everywhere": false, "confirm": nil,
	"reason": "abuse", "immediately": false,
	"extraDomains": []string{"extra.example.org"}, "registeredEvents": []string{"signup"}, "keyEvents": []string{"signup"},
	"measureSiteSearch": true, "measureEcommerce": true, "allowPseudonymousUserId": true, "automaticEvents": true,
	"baseSeconds": 1.5, "maxSeconds": 20.0, "freeChallenges": 4, "automation": "LIMIT", "strict": true, "attackMode": "ON",
	"exemptNetworks": []string{"198.51.100.0/24"},
	"events":         []string{"QUOTA"}, "kind AlertChannelKind!": "WEBHOOK", "address String!": "https://hook.example/0123456789abcdef",
	"from": 1320, "to": 420,
	"hideRevenue": true, "origins": []string{"https://www.example.org"},
	"visitDetails": []string{"BROWSER"}, "excludedCountries": []string{"DE"}, "excludedPaths": []string{"/admin/**"},
	"shields": []string{"DATA_CENTRES"}, "smallGroup": 5,
	"excludedAddresses": []string{"192.0.2.0/24"}, "first": 2, "after": nil, "last": nil, "before": nil, "orderBy": "NEWEST",
	"search": "example", "days": 7,
	"timeZone": "Europe/Berlin", "language": "DE", "day": "2026-11-20", "text": "A note", "label": "A step", "page": "/pricing", "event": nil,
	"dimension": "PROPERTY", "property": "plan", "operator": "IS", "values": []string{"pro"}, "expiresAt": "2027-01-01T00:00:00Z",
	"site.domain": nil, "kind": "CONVERSION", "source": "UMAMI", "size": 5, "address": nil, "firstDay": "2026-10-01", "lastDay": "2026-10-31",
	"idempotencyKey": nil, "since": "2026-11-01T00:00:00Z", "date": "2026-11-19",
	"preset": "LAST_7_DAYS", "compare": "PREVIOUS_YEAR", "matchDayOfWeek": true, "weekly": true, "monthly": true, "spikeAbove": 100,
	"rejections": 1, "usage": 80, "dropBelow": 10, "months": 2, "keepOldFor": 1, "expiresInDays": 30, "neverExpires": false,
	"trustsEmails": true, "names": []string{"signup"},
	"issuer": "https://login.example.org", "clientId": "tallygate", "clientSecret": "a client secret", "defaultRole": "MEMBER", "roleClaim": "groups",
	"value": "staff", "required": false, "next": "/",
	"secondFactor": "123456", "code": "123456", "challenge": "wrong", "credential": "{}", "requireSecondFactor": true,
	"userId": strings.Repeat("0123456789abcdef", 4), "secret": "a webhook secret", "domains": []string{"extra.example.org"},
}

// call runs one root field with a value for each of its arguments. ids returns the values of type
// ID.
func (c *client) call(
	t *testing.T, operation ast.Operation, f *ast.FieldDefinition, ids func(name string) string, header ...string,
) *answer {
	t.Helper()

	var declared, passed []string
	variables := map[string]any{}
	for _, arg := range f.Arguments {
		declared = append(declared, "$"+arg.Name+": "+arg.Type.String())
		passed = append(passed, arg.Name+": $"+arg.Name)
		if value, ok := samples[f.Name+"."+arg.Name]; ok {
			variables[arg.Name] = value
			continue
		}

		variables[arg.Name] = sample(t, arg.Name, arg.Type, ids)
	}

	brackets := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "(" + strings.Join(list, ", ") + ")"
	}

	query := string(operation) + brackets(declared) + " { " + f.Name + brackets(passed) + " " + selection(f.Type.Name(), 2) + " }"
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	testkit.NoError(t, err)

	got := c.send(http.MethodPost, "application/json", string(body), header...)
	if got.Status != http.StatusOK {
		t.Fatalf("%s: status %d, %s", query, got.Status, got.Body)
	}

	return got
}

func sample(t *testing.T, name string, typ *ast.Type, ids func(string) string) any {
	t.Helper()

	if typ.Name() == "ID" {
		return ids(name)
	}

	if typ.Elem != nil && schema.Types[typ.Elem.Name()].Kind == ast.InputObject {
		// Two items satisfy every list of objects.
		return []any{sample(t, name, typ.Elem, ids), sample(t, name, typ.Elem, ids)}
	}

	if def := schema.Types[typ.Name()]; def.Kind == ast.InputObject {
		input := map[string]any{}
		for _, f := range def.Fields {
			input[f.Name] = sample(t, f.Name, f.Type, ids)
		}

		return input
	}

	// Fields of one name can have different types.
	if value, ok := samples[name+" "+typ.String()]; ok {
		return value
	}
	value, ok := samples[name]
	if !ok {
		t.Fatalf("there is no sample for the input %s: add one", name)
	}

	return value
}

// takesID reports whether a root field takes a global id.
func takesID(f *ast.FieldDefinition) bool {
	return slices.ContainsFunc(f.Arguments, func(arg *ast.ArgumentDefinition) bool {
		def := schema.Types[arg.Type.Name()]
		return def.Name == "ID" || def.Kind == ast.InputObject &&
			slices.ContainsFunc([]*ast.FieldDefinition(def.Fields), func(in *ast.FieldDefinition) bool {
				return in.Type.Name() == "ID"
			})
	})
}

// tenant is an account with one object of every type.
type tenant struct {
	owner *client
	ids   map[string]string // by the name of the input that takes it; no input takes erasureId
}

func (a *app) tenant(domain string) *tenant {
	a.t.Helper()

	c := a.owner("owner@" + domain)
	return &tenant{owner: c, ids: a.furnish(c, domain)}
}

// furnish creates one object of every type in an owner's account, with the domain in its names, and
// returns their ids by the names of the inputs that take them. The owner has an address of the
// domain.
func (a *app) furnish(c *client, domain string) map[string]string {
	a.t.Helper()
	text := func(got *answer, path string) string {
		a.t.Helper()
		s, ok := got.at(path).(string)
		if !ok {
			a.t.Fatalf("%s: %s", path, got.Body)
		}
		return s
	}

	site := text(c.createSite(domain).ok(a.t, "createSite"), "createSite.site.id")
	for _, settings := range []string{
		`addSiteDomain(input: {siteId: $id, domain: "extra.example"}) { userErrors { code } }`,
		`registerEvent(input: {siteId: $id, name: "signup"}) { userErrors { code } }`,
		`markKeyEvent(input: {siteId: $id, name: "signup"}) { userErrors { code } }`,
		`updateSite(input: {siteId: $id, excludedAddresses: ["192.0.2.7"]}) { userErrors { code } }`,
		`setConversionWebhook(input: {siteId: $id, url: "https://` + domain + `/hook"}) { userErrors { code } }`,
		`setDailyExportWebhook(input: {siteId: $id, url: "https://` + domain + `/daily"}) { userErrors { code } }`,
		`rotateServerSecret(input: {siteId: $id}) { userErrors { code } }`,
	} {
		c.query(`mutation($id: ID!) { `+settings+` }`, "id", site).ok(a.t, strings.Split(settings, "(")[0])
	}

	test := c.query(`mutation($id: ID!) { sendTestWebhook(input: {siteId: $id}) { delivery { id } userErrors { code } } }`, "id", site)
	sitekey := c.createSitekey("form of "+domain, domain)
	member := a.join(c, "member@"+domain, model.RoleMember)
	invited := c.query(`mutation { inviteMember(input: {email: "guest@` + domain + `", role: VIEWER}) { invitation { id } userErrors { code } } }`)
	erasure := c.query(`mutation($id: ID!, $user: String!) { deleteUserData(input: {siteId: $id, userId: $user}) {
		erasure { id } userErrors { code } } }`, "id", site, "user", samples["userId"])

	token := c.createToken("READ")
	settings := c.query(strings.ReplaceAll(`mutation($id: ID!) {
		createAnnotation(input: {siteId: $id, day: "2026-11-20", text: "note of DOMAIN"}) { annotation { id } userErrors { code } }
		createSegment(input: {siteId: $id, name: "segment of DOMAIN", filters: [{dimension: PAGE, values: ["/"]}]}) { segment { id } userErrors { code } }
		createFunnel(input: {siteId: $id, name: "funnel of DOMAIN", steps: [{page: "/"}, {event: "signup"}]}) { funnel { id } userErrors { code } }
		createSharedLink(input: {siteId: $id, name: "link of DOMAIN"}) { sharedLink { id } userErrors { code } }
		setOwnAlertChannel(input: {siteId: $id, weekly: true}) { userErrors { code } } }`, "DOMAIN", domain), "id", site).ok(a.t, "createFunnel")

	channel := c.query(`mutation($id: ID!) { createSiteAlertChannel(input: {siteId: $id, kind: SLACK, name: "ops of `+domain+`",
		address: "https://`+domain+`/slack/0123456789abcdef", events: [QUOTA]}) { alertChannel { id } userErrors { code } } }`, "id",
		site).ok(a.t, "createSiteAlertChannel")
	channelID := text(channel, "createSiteAlertChannel.alertChannel.id")
	alert := c.query(`mutation($id: ID!) { sendTestAlert(input: {alertChannelId: $id}) { alertMessage { id } userErrors { code } } }`, "id",
		channelID).ok(a.t, "sendTestAlert")
	a.messageToOwn(channelID)
	a.finishAlert(channelID)

	job := c.query(`mutation($id: ID!) { startImport(input: {siteId: $id, source: UMAMI, files: [{name: "u.csv", size: 5}]}) {
		importJob { id } userErrors { code } } }`, "id", site).ok(a.t, "startImport")
	jobID := text(job, "startImport.importJob.id")
	number, _ := a.ids.Parse(nodeid.ImportJob, jobID)
	testkit.NoError(a.t, dbtest.Exec(a.db, "UPDATE import_jobs SET state = 2, received = 5, preview = ? WHERE id = ?", `{"days": 1}`, number))

	// A passkey row alone is no second factor, so the owner still signs in by password.
	if err := dbtest.Exec(a.db, "INSERT INTO passkeys (user_id, credential_id, public_key, sign_count, flags, transports, name, created_at) "+
		"SELECT id, ?, ?, 0, 0, '', ?, created_at FROM users WHERE email = ?", []byte(domain), []byte{1}, domain, "owner@"+domain); err != nil {
		a.t.Fatal(err)
	}
	passkey := c.query(`{ viewer { secondFactors { passkeys { id } } } }`).ok(a.t, "")

	// Start a second session.
	a.client().signIn("owner@"+domain, password).ok(a.t, "signIn")
	sessions := c.query(`{ sessions { id current } }`).ok(a.t, "")
	session := text(sessions, "sessions.0.id")

	if sessions.at("sessions.0.current") == true {
		session = text(sessions, "sessions.1.id")
	}

	return map[string]string{
		"siteId":        site,
		"siteIds":       site,
		"deliveryId":    text(test.ok(a.t, "sendTestWebhook"), "sendTestWebhook.delivery.id"),
		"sitekeyId":     text(sitekey, "createSitekey.sitekey.id"),
		"accountId":     text(c.query(`{ viewer { account { id } } }`), "viewer.account.id"),
		"lastAccountId": text(c.query(`{ viewer { account { id } } }`), "viewer.account.id"),
		"toAccountId":   text(c.query(`{ viewer { account { id } } }`), "viewer.account.id"),
		"userId":        text(member.query(`{ viewer { id } }`), "viewer.id"),
		"invitationId":  text(invited.ok(a.t, "inviteMember"), "inviteMember.invitation.id"),
		"apiTokenId":    token.id,
		"annotationId":  text(settings, "createAnnotation.annotation.id"),
		"segmentId":     text(settings, "createSegment.segment.id"),
		"funnelId":      text(settings, "createFunnel.funnel.id"),
		"sharedLinkId":  text(settings, "createSharedLink.sharedLink.id"),
		"importJobId":   jobID,

		"alertChannelId": channelID,
		"alertMessageId": text(alert, "sendTestAlert.alertMessage.id"),
		"importId":       a.storedImport(site),
		"sessionId":      session,
		"passkeyId":      text(passkey, "viewer.secondFactors.passkeys.0.id"),
		"erasureId":      text(erasure.ok(a.t, "deleteUserData"), "deleteUserData.erasure.id"),
	}
}

// messageToOwn stores a message to the own channel of a user of the channel's account, as a planner
// does.
func (a *app) messageToOwn(channelID string) {
	a.t.Helper()
	number, _ := a.ids.Parse(nodeid.AlertChannel, channelID)
	err := dbtest.Exec(a.db, `INSERT INTO alert_messages
(channel_id, event, phase, data, state, attempts, tries, claimed_until, fallback, created_at, next_attempt_at)
SELECT own.id, ?, m.phase, m.data, 'delivered', 1, 1, 0, '', m.created_at, m.next_attempt_at
FROM alert_messages m JOIN alert_channels c ON c.id = m.channel_id
JOIN alert_channels own ON own.site_id = c.site_id AND own.user_id IS NOT NULL WHERE c.id = ?`, model.MessageWeekly, number)
	testkit.NoError(a.t, err)
}

// finishAlert ends the messages of an alert channel, as a worker does.
func (a *app) finishAlert(channelID string) {
	a.t.Helper()
	number, _ := a.ids.Parse(nodeid.AlertChannel, channelID)
	testkit.NoError(a.t, dbtest.Exec(a.db, "UPDATE alert_messages SET state = 'failed', attempts = 1, tries = 1 WHERE channel_id = ?", number))
}

// storedImport returns the id of a new import of a site.
func (a *app) storedImport(siteID string) string {
	a.t.Helper()
	number, _ := a.ids.Parse(nodeid.Site, siteID)
	at := model.At(a.clock.Now())
	err := dbtest.Exec(a.db, `INSERT INTO report_imports (site_id, source, state, created_at, completed_at, first_day, last_day, visit_rows,
dimensions, visitors, visits, pageviews, events, size) VALUES (?, 'plausible', 1, ?, ?, 20000, 20001, false, '', 3, 4, 5, 6, 7)`, number, at, at)
	testkit.NoError(a.t, err)
	rows, err := dbtest.Rows[struct{ ID int64 }](a.db, "SELECT max(id) AS id FROM report_imports WHERE site_id = ?", number)
	testkit.NoError(a.t, err)
	return a.ids.Of(nodeid.Import, int64(rows[0].ID))
}

// unknown returns an id of the same kind that does not exist.
func (a *app) unknown(id string) string {
	if strings.HasPrefix(id, "session_") {
		return unknownSession
	}
	return a.unknownOf(a.ids.KindOf(id))
}

func (a *app) unknownOf(kind nodeid.Kind) string {
	const number = 987_654_321
	if kind == nodeid.Delivery {
		return a.ids.OfDelivery(number, number)
	}
	return a.ids.Of(kind, number)
}

// unknownSession is the id of a session that does not exist.
var unknownSession = "session_" + strings.Repeat("q6ur", 10) + "q6s"

// mailedSecret returns the secret in the newest mail to an address.
func (a *app) mailedSecret(recipient string) string {
	a.t.Helper()

	type row struct{ Data string }
	rows, err := dbtest.Rows[row](a.db,
		"SELECT data FROM mails WHERE recipient = ? AND kind IN ('invitation', 'password_reset', 'sign_up', 'sign_up_known', 'email_change', 'email_known', 'alert_confirm') ORDER BY id DESC", recipient)
	if err != nil || len(rows) == 0 {
		a.t.Fatalf("no mail to %s: %v", recipient, err)
	}

	var mail outbox.LinkMail
	testkit.NoError(a.t, json.Unmarshal([]byte(rows[0].Data), &mail))

	_, secret, ok := strings.Cut(mail.URL, "#")
	if !ok || !strings.HasPrefix(mail.URL, strings.TrimSuffix(a.url, "graphql")) {
		a.t.Fatalf("the link in the mail is %s", mail.URL)
	}

	return secret
}

// join invites an address and accepts the invitation.
func (a *app) join(owner *client, email string, role model.Role) *client {
	a.t.Helper()
	owner.query(`mutation($email: String!, $role: Role!) { inviteMember(input: {email: $email, role: $role}) { userErrors { code } } }`,
		"email", email, "role", role).ok(a.t, "inviteMember")
	c := a.client()
	c.query(acceptMutation, "token", a.mailedSecret(email), "password", password).ok(a.t, "acceptInvitation")
	return c
}

const acceptMutation = `mutation($token: String!, $password: String!) {
	acceptInvitation(input: {token: $token, password: $password}) { viewer { email role } userErrors { field code } } }`

// apiToken is the id and the secret of a token.
type apiToken struct{ id, secret string }

func (c *client) createToken(scopes ...string) apiToken {
	c.t.Helper()
	got := c.query(`mutation($scopes: [ApiTokenScope!]!) { createApiToken(input: {name: "test", scopes: $scopes}) {
		apiToken { id hint } token userErrors { code } } }`, "scopes", scopes).ok(c.t, "createApiToken")
	return apiToken{got.at("createApiToken.apiToken.id").(string), got.at("createApiToken.token").(string)}
}

// dump returns the content of all tables, except those in but.
func (a *app) dump(but ...string) string {
	a.t.Helper()

	tables, err := dbtest.Tables(a.db)
	testkit.NoError(a.t, err)

	var all []string
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if slices.Contains(but, table) {
			continue
		}

		rows, err := dbtest.Dump(a.db, table)
		testkit.NoError(a.t, err)

		slices.Sort(rows)
		all = append(all, fmt.Sprintf("%s: %d rows\n%s", table, len(rows), strings.Join(rows, "\n")))
	}

	return strings.Join(all, "\n")
}
