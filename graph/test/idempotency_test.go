package graph_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// keyedCase is a mutation with an idempotencyKey. Both inputs are valid, without the braces; $name
// stands for a value of the world's ids.
type keyedCase struct {
	mutation     string
	input, other string
	object       string // the field of the payload
	secret       string // likewise; "": none
	session      bool   // no API token may call it
}

// keyedCases has every mutation whose input has an idempotencyKey.
var keyedCases = []keyedCase{
	{mutation: "createAccount", input: `name: "Branch"`, other: `name: "Other"`, object: "account", session: true},
	{mutation: "createSite", input: `domain: "new.example"`, other: `domain: "newer.example"`, object: "site"},
	{mutation: "createApiToken", input: `name: "new", scopes: [READ]`, other: `name: "new", scopes: [WRITE]`,
		object: "apiToken", secret: "token", session: true},
	{mutation: "createSitekey", input: `name: "login"`, other: `name: "login", domains: ["first.example"]`,
		object: "sitekey", secret: "secret"},
	{mutation: "createSharedLink", input: `siteId: $siteId, name: "client", password: "a long password"`,
		other: `siteId: $siteId, name: "client", password: "another password"`, object: "sharedLink", secret: "token"},
	{mutation: "createSegment", input: `siteId: $siteId, name: "de", filters: [{dimension: PAGE, values: ["/de"]}]`,
		other: `siteId: $siteId, name: "de", filters: [{dimension: PAGE, values: ["/en"]}]`, object: "segment"},
	{mutation: "createFunnel", input: `siteId: $siteId, name: "sale", steps: [{page: "/"}, {event: "signup"}]`,
		other: `siteId: $siteId, name: "sale", steps: [{page: "/a"}, {event: "signup"}]`, object: "funnel"},
	{mutation: "createAnnotation", input: `siteId: $siteId, day: "2026-11-20", text: "launch"`,
		other: `siteId: $siteId, day: "2026-11-21", text: "launch"`, object: "annotation"},
	{mutation: "inviteMember", input: `email: "invited@first.example", role: VIEWER`,
		other: `email: "invited@first.example", role: MEMBER`, object: "invitation", session: true},
	{mutation: "startImport", input: `siteId: $spareId, source: UMAMI, files: [{name: "u.csv", size: 5}]`,
		other: `siteId: $spareId, source: UMAMI, files: [{name: "u.csv", size: 6}]`, object: "importJob"},
	{mutation: "rotateServerSecret", input: `siteId: $siteId`, other: `siteId: $siteId, keepOldFor: 1`,
		object: "site", secret: "serverSecret"},
	{mutation: "rotateSitekeySecret", input: `sitekeyId: $sitekeyId`, other: `sitekeyId: $sitekeyId, keepOldFor: 1`,
		object: "sitekey", secret: "secret"},
	{mutation: "sendTestWebhook", input: `siteId: $spareId`, other: `siteId: $spareId, kind: DAILY_EXPORT`, object: "delivery"},
	{mutation: "redeliver", input: `deliveryId: $deliveryId`, other: `deliveryId: $otherDeliveryId`, object: "delivery"},
	{mutation: "createAlertChannel", input: `kind: EMAIL, name: "mail", address: "ops@first.example", events: [NEW_SIGN_IN]`,
		other: `kind: EMAIL, name: "mail", address: "other@first.example", events: [NEW_SIGN_IN]`, object: "alertChannel"},
	{mutation: "createSiteAlertChannel", input: `siteId: $siteId, kind: SLACK, name: "chat", address: "https://first.example/a", events: [QUOTA]`,
		other: `siteId: $siteId, kind: SLACK, name: "chat", address: "https://first.example/b", events: [QUOTA]`, object: "alertChannel"},
	{mutation: "sendTestAlert", input: `alertChannelId: $alertChannelId`, other: `alertChannelId: $otherChannelId`, object: "alertMessage"},
	{mutation: "redeliverAlertMessage", input: `alertMessageId: $alertMessageId`, other: `alertMessageId: $otherMessageId`, object: "alertMessage"},
}

// unkeyed are the mutations with a name of creators whose input has no idempotencyKey, each with
// the reason.
var unkeyed = map[string]string{
	"signUp":              "its caller has no identity, and a second account with the address is EMAIL_TAKEN",
	"confirmSignUp":       "its secret counts once",
	"acceptInvitation":    "its secret counts once",
	"confirmEmailChange":  "its secret counts once",
	"confirmAlertChannel": "its secret counts once",
	"confirmTotp":         "it confirms the one setup of the user",
	"confirmImport":       "it changes the state of one job, which a repeat finds changed",
	"restoreSite":         "a repeat finds no deleted site",
	"redeliverFailed":     "a repeat finds only what is failed again",
	"resendDailyExport":   "a repeat is DELIVERY_IN_PROGRESS until the parts have arrived, and then the receiver replaces the day",
	"registerEvent":       "a repeat registers the same name",

	"requestPasswordReset":      "it has no identity, and a new mail replaces the earlier one",
	"requestEmailChange":        "a new mail replaces the earlier one",
	"startTotp":                 "it needs the password, and replaces the setup of the call before",
	"renewRecoveryCodes":        "it needs the password, and replaces the codes of the call before",
	"startPasskeyRegistration":  "it stores nothing",
	"finishPasskeyRegistration": "its challenge counts once",
	"startProviderSignIn":       "its caller has no identity, and a repeat starts another sign-in",
	"finishProviderSignIn":      "its state counts once",
}

// TestCreatingMutationsTakeKeys walks the schema: a mutation that creates or rotates something
// takes an idempotencyKey, or is in unkeyed.
func TestCreatingMutationsTakeKeys(t *testing.T) {
	t.Parallel()
	creates := regexp.MustCompile(`^(create|rotate|renew|invite|start|send|redeliver|resend|request|register|finish|confirm|` +
		`restore|accept|signUp|issue|generate|duplicate|copy|clone|import|upload)`)
	guide := value(os.ReadFile("../../docs/owner/graphql.md"))(t)
	_, section, _ := strings.Cut(string(guide), "## Repeat a call")
	section, _, _ = strings.Cut(section, "\n## ")

	cases := map[string]keyedCase{}
	for _, c := range keyedCases {
		cases[c.mutation] = c
	}

	for _, f := range fieldsOf(schema.Mutation) {
		key := schema.Types[f.Arguments.ForName("input").Type.Name()].Fields.ForName("idempotencyKey")
		c, tested := cases[f.Name]
		switch {
		case key == nil && unkeyed[f.Name] == "" && creates.MatchString(f.Name):
			t.Errorf("%s creates something: it must take an idempotencyKey, or be in unkeyed with the reason", f.Name)
		case key != nil && unkeyed[f.Name] != "":
			t.Errorf("%s takes an idempotencyKey, and is in unkeyed", f.Name)
		case tested != (key != nil):
			t.Errorf("%s: in keyedCases %v, takes an idempotencyKey %v", f.Name, tested, key != nil)
		case key == nil:
			continue
		case key.Type.String() != "String":
			t.Errorf("the idempotencyKey of %s is %s", f.Name, key.Type)
		}
		if !tested {
			continue
		}
		if !strings.Contains(section, "`"+f.Name+"`") {
			t.Errorf("docs/owner/graphql.md does not list %s", f.Name)
		}

		payload := schema.Types[f.Type.Name()]
		object := schema.Types[payload.Fields.ForName(c.object).Type.Name()]
		if object.Fields.ForName("id") == nil {
			t.Errorf("%s returns a %s, which a repeat cannot read", f.Name, object.Name)
		}
		for _, field := range payload.Fields {
			if field.Name != c.object && field.Name != "userErrors" && (field.Name != c.secret || field.Type.NonNull) {
				t.Errorf("a repeat of %s cannot answer %s", f.Name, field.Name)
			}
		}
		if c.secret != "" && !strings.Contains(payload.Fields.ForName(c.secret).Description, "Null in the answer to a repeat") {
			t.Errorf("%s.%s does not say that a repeat returns null", payload.Name, c.secret)
		}
	}
	for name := range unkeyed {
		if schema.Mutation.Fields.ForName(name) == nil {
			t.Errorf("unkeyed has %s, which does not exist", name)
		}
	}
}

// keyedWorld has what keyedCases need.
type keyedWorld struct {
	*app
	tenant *tenant
}

func newKeyedWorld(t *testing.T, d *db.DB, change ...setting) *keyedWorld {
	a := newApp(t, d, append(change, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })...)
	w := &keyedWorld{app: a, tenant: a.tenant("first.example")}
	spare := w.tenant.owner.siteOf("spare.example")
	w.tenant.owner.done("setConversionWebhook", "siteId", spare, "url", "https://spare.example/hook")

	site := a.siteNumber(w.tenant.ids["siteId"])
	second := a.insertDelivery(site, model.Delivery{
		Kind: "conversion", Event: "purchase", State: "failed", CreatedAt: model.At(start), Body: "{}",
	})
	channel := w.tenant.owner.done("createSiteAlertChannel", "siteId", spare, "kind", "SLACK", "name", "spare", "address",
		"https://spare.example/slack", "events", []string{"QUOTA"}).at("createSiteAlertChannel.alertChannel.id").(string)
	message := w.tenant.owner.done("sendTestAlert", "alertChannelId", channel).at("sendTestAlert.alertMessage.id").(string)
	a.finishAlert(channel)
	w.tenant.ids["otherChannelId"], w.tenant.ids["otherMessageId"] = channel, message
	w.tenant.ids["spareId"] = spare
	w.tenant.ids["otherDeliveryId"] = a.ids.OfDelivery(site, second)
	return w
}

// document returns a call of a mutation with an input and a key.
func (w *keyedWorld) document(c keyedCase, input, key string) string {
	for name, id := range w.tenant.ids {
		input = regexp.MustCompile(`\$`+name+`\b`).ReplaceAllString(input, fmt.Sprintf("%q", id))
	}
	return fmt.Sprintf("mutation { %s(input: {%s, idempotencyKey: %q}) { %s { id } %s userErrors { field code } } }",
		c.mutation, input, key, c.object, c.secret)
}

// id returns the id of the object in an answer, and the secret.
func (c keyedCase) id(got *answer) (id, secret any) {
	if c.secret != "" {
		secret = got.at(c.mutation + "." + c.secret)
	}
	return got.at(c.mutation + "." + c.object + ".id"), secret
}

// state is the content of the tables that the mutations change. A request touches its session, and
// a mutation with a throttle counts its calls.
func (w *keyedWorld) state() string { return w.dump("sessions", "signin_failures") }

const reused = "idempotencyKey:IDEMPOTENCY_KEY_REUSED"

// TestRepeatedMutations calls each mutation twice with a key, and with the key and another input.
func TestRepeatedMutations(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner := w.tenant.owner
		for i, c := range keyedCases {
			w.clock.Add(time.Microsecond)
			key, entries := fmt.Sprint("key ", i), len(w.auditRows())
			call := w.document(c, c.input, key)
			id, secret := c.id(owner.query(call).ok(t, c.mutation))
			if id == nil || (secret == nil) != (c.secret == "") {
				t.Errorf("%s: id %v, secret %v", c.mutation, id, secret)
			}
			after := w.state()
			equal(t, len(w.auditRows())-entries, 1, "%s added", c.mutation)

			w.clock.Add(time.Hour)
			if again, secret := c.id(owner.query(call).ok(t, c.mutation)); again != id || secret != nil {
				t.Errorf("a repeat of %s: id %v, want %v, and secret %v", c.mutation, again, id, secret)
			}
			owner.query(w.document(c, c.other, key)).
				named("%s with the key of another input", c.mutation).fails(t, c.mutation, reused)
			next := keyedCases[(i+1)%len(keyedCases)]
			owner.query(w.document(next, next.other, key)).
				named("%s with the key of %s", next.mutation, c.mutation).fails(t, next.mutation, reused)
			equal(t, w.state(), after, "a repeat of %s changed\n%s\ninto", c.mutation, after)

			w.clock.Add(-time.Hour)
		}
	})
}

// TestKeysAreChecked sends keys at and beyond their bounds.
func TestKeysAreChecked(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		before := w.state()
		c := keyedCases[0]
		for _, key := range []string{"", strings.Repeat("k", 101), "tab\t", "line\n", "ümlaut", "a\u00a0b"} {
			got := w.tenant.owner.query(w.document(c, c.input, key))
			got.named("%q", key).fails(t, c.mutation, "idempotencyKey:INVALID_IDEMPOTENCY_KEY")
		}
		equal(t, w.state(), before, "invalid keys changed something")

		for _, key := range []string{"k", strings.Repeat("~", 100), "a key with spaces"} {
			w.tenant.owner.query(w.document(c, fmt.Sprintf("name: %q", key[:1]), key)).ok(t, c.mutation)
		}
		if strings.Contains(w.dump(), "a key with spaces") {
			t.Error("the key is stored")
		}
	})
}

// TestKeysOfOthers uses one key as other users, tokens and accounts: each call is one of its own.
func TestKeysOfOthers(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner := w.tenant.owner
		annotation := keyedCases[7]
		call := w.document(annotation, annotation.input, "key")
		tokens := []apiToken{owner.createToken("WRITE"), owner.createToken("WRITE")}
		ids := map[any]bool{}
		add := func(got *answer) {
			t.Helper()
			id, _ := annotation.id(got.ok(t, annotation.mutation))
			ids[id] = true
		}

		member := w.join(owner, "other@first.example", model.RoleMember)
		for range 2 {
			add(owner.query(call))
			add(member.query(call))
			add(w.with(tokens[0].secret, call))
			add(w.with(tokens[1].secret, call))
		}
		equal(t, len(ids), 4, "four callers created")

		// Another session of the user is the same actor, and sees the same object.
		session := w.client()
		session.signIn("owner@first.example", password).ok(t, "signIn")
		add(session.query(call))
		equal(t, len(ids), 4, "another session of the owner created an annotation")

		// Another account learns nothing, and uses the key itself.
		second := w.owner("owner@second.example")
		second.query(call).named("another account").fails(t, annotation.mutation, "siteId:NOT_FOUND")
		site := keyedCases[1]
		mine, _ := site.id(owner.query(w.document(site, site.input, "key of sites")).ok(t, "createSite"))
		theirs, _ := site.id(second.query(w.document(site, site.input, "key of sites")).ok(t, "createSite"))
		differ(t, mine, theirs, "two accounts have the same site")

		// The same user in another account makes another call.
		branch := owner.done("createAccount", "name", "Branch").at("createAccount.account.id")
		input := fmt.Sprintf("accountId: %q, %s", branch, site.input)
		for range 2 {
			if id, _ := site.id(owner.query(w.document(site, input, "key of sites")).ok(t, "createSite")); id == mine || id == theirs {
				t.Errorf("a call in another account returned the site %v", id)
			}
		}

		// A token that is restricted to a site repeats its own call, and reaches no call about
		// another site.
		restricted := owner.restrictedToken(w.tenant.ids["siteId"])
		first := w.with(restricted, call)
		again := w.with(restricted, call)
		if first.at("createAnnotation.annotation.id") == nil || first.at("createAnnotation.annotation.id") != again.at("createAnnotation.annotation.id") {
			t.Errorf("a restricted token: %s, then %s", first.Body, again.Body)
		}
		elsewhere := strings.ReplaceAll(call, w.tenant.ids["siteId"], w.tenant.ids["spareId"])
		owner.query(strings.ReplaceAll(elsewhere, `"key"`, `"spare"`)).ok(t, annotation.mutation)
		w.with(restricted, strings.ReplaceAll(elsewhere, `"key"`, `"spare"`)).
			named("a restricted token on another site").fails(t, annotation.mutation, "siteId:NOT_FOUND")
	})
}

// TestRepeatsAreAuthorizedAgain repeats calls of callers who have lost the right.
func TestRepeatsAreAuthorizedAgain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner := w.tenant.owner
		c := keyedCases[7]
		call := w.document(c, c.input, "key")
		member := w.join(owner, "other@first.example", model.RoleMember)
		token := owner.createToken("WRITE")
		member.query(call).ok(t, c.mutation)
		w.with(token.secret, call).ok(t, c.mutation)

		owner.done("setMemberRole", "userId", member.id(), "role", "VIEWER")
		member.query(call).named("a viewer").code(t, "FORBIDDEN").hides(t, "annotation_")

		must(t, dbtest.Exec(d, "UPDATE api_tokens SET scopes = ? WHERE id = ?", readScope(t, d), w.number(nodeid.APIToken, token.id)))
		w.with(token.secret, call).named("a token without the scope").code(t, "FORBIDDEN").hides(t, "annotation_")
		owner.done("revokeApiToken", "apiTokenId", token.id)
		w.with(token.secret, call).named("a revoked token").code(t, "UNAUTHENTICATED")
	})
}

// readScope returns the stored scopes of a token that only reads.
func readScope(t *testing.T, d *db.DB) string {
	rows, err := dbtest.Rows[struct{ Scopes string }](d, "SELECT scopes FROM api_tokens WHERE name = 'test' ORDER BY id LIMIT 1")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	return rows[0].Scopes
}

// number returns the number of an object.
func (w *keyedWorld) number(kind nodeid.Kind, id string) int64 {
	n, ok := w.ids.Parse(kind, id)
	if !ok {
		w.t.Fatalf("%s is no id", id)
	}
	return n
}

// TestExpiredKeys: a key is free after 24 hours, before and after housekeeping deletes its row.
func TestExpiredKeys(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner, c := w.tenant.owner, keyedCases[7]
		run := func() any {
			t.Helper()
			id, _ := c.id(owner.query(w.document(c, c.input, "key")).ok(t, c.mutation))
			return id
		}
		rows := func() int {
			t.Helper()
			found := value(dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM idempotency_keys"))(t)
			return found[0].N
		}

		first := run()
		w.clock.Add(24*time.Hour - time.Microsecond)
		equal(t, run(), first, "the key was free before 24 hours")
		w.clock.Add(time.Microsecond)
		second := run()
		if second == first || run() != second || rows() != 1 {
			t.Errorf("after 24 hours: %v, then %v, %d rows", first, second, rows())
		}

		for _, wait := range []time.Duration{24 * time.Hour, time.Microsecond} {
			w.clock.Add(wait)
			if _, err := retention.New(d).DeleteOldRecords(t.Context(), model.At(w.clock.Now())); err != nil {
				t.Fatal(err)
			}
			if left := rows(); (left == 1) != (wait > time.Hour) {
				t.Errorf("after %v more: %d rows", wait, left)
			}
		}
		differ(t, run(), second, "a deleted key was not free")
	})
}

// TestRepeatOfADeletedObject answers with NOT_FOUND, and creates nothing.
func TestRepeatOfADeletedObject(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner := w.tenant.owner
		for c, deletion := range map[int]string{
			1: `deleteSite(input: {siteId: $id})`, 2: `revokeApiToken(input: {apiTokenId: $id})`,
			3: `deleteSitekey(input: {sitekeyId: $id})`, 4: `revokeSharedLink(input: {sharedLinkId: $id})`,
			7: `deleteAnnotation(input: {annotationId: $id})`, 8: `revokeInvitation(input: {invitationId: $id})`,
		} {
			c := keyedCases[c]
			call := w.document(c, c.input, "key of "+c.mutation)
			id, _ := c.id(owner.query(call).ok(t, c.mutation))
			owner.query(`mutation($id: ID!) { `+deletion+` { userErrors { code } } }`, "id", id).ok(t, strings.Split(deletion, "(")[0])

			before := w.state()
			owner.query(call).named("%s after the deletion", c.mutation).fails(t, c.mutation, "idempotencyKey:NOT_FOUND")
			equal(t, w.state(), before, "the repeat of %s changed something", c.mutation)
		}
	})
}

// TestFailedCallsAreNotRemembered: the key of a refused call is free.
func TestFailedCallsAreNotRemembered(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		c := keyedCases[1]
		w.tenant.owner.query(w.document(c, `domain: "localhost"`, "key")).
			named("an invalid domain").fails(t, c.mutation, "domain:INVALID_DOMAIN")
		w.tenant.owner.query(w.document(c, `domain: "first.example"`, "key")).
			named("a taken domain").fails(t, c.mutation, "domain:DOMAIN_TAKEN")
		w.tenant.owner.query(w.document(c, c.input, "key")).ok(t, c.mutation)
	})
}

// TestKeysAreBounded fills an account's keys.
func TestKeysAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner, c := w.tenant.owner, keyedCases[7]
		owner.query(w.document(c, c.input, "first")).ok(t, c.mutation)

		err := dbtest.Exec(d, `INSERT INTO idempotency_keys (account_id, user_id, token_id, key_hash, input_hash, object_kind, object_id, object_site, created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
			SELECT k.account_id, k.user_id, n.i, k.key_hash, k.input_hash, k.object_kind, k.object_id, 0, k.created_at FROM n, idempotency_keys k`)
		testkit.NoError(t, err)

		before := w.state()
		owner.query(w.document(c, c.input, "one more")).
			named("the key 10,001").fails(t, c.mutation, "idempotencyKey:TOO_MANY_IDEMPOTENCY_KEYS")
		equal(t, w.state(), before, "the refused call changed something")
		owner.query(w.document(c, c.input, "first")).ok(t, c.mutation)

		w.clock.Add(24 * time.Hour)
		owner.query(w.document(c, c.input, "one more")).ok(t, c.mutation)
	})
}

// TestFaultsLeaveNeitherObjectNorKey makes the database refuse the key, and then what is written
// after it: both are in one transaction.
func TestFaultsLeaveNeitherObjectNorKey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newKeyedWorld(t, d)
		owner := w.tenant.owner

		repair := dbtest.RefuseRows(t, d, "idempotency_keys")
		before := w.state()
		for _, c := range keyedCases {
			owner.query(w.document(c, c.input, "key of "+c.mutation)).named("%s without its key", c.mutation).code(t, "INTERNAL")
			equal(t, w.state(), before, "%s without its key changed something", c.mutation)
		}
		repair()

		// The mail of an invitation is written after the key.
		invite := keyedCases[8]
		repair = dbtest.RefuseRows(t, d, "mails")
		owner.query(w.document(invite, invite.input, "key of "+invite.mutation)).
			named("an invitation without its mail").code(t, "INTERNAL")
		equal(t, w.state(), before, "an invitation without its mail changed something")
		repair()

		for _, c := range keyedCases {
			owner.query(w.document(c, c.input, "key of "+c.mutation)).ok(t, c.mutation)
		}
	})
}

// TestConcurrentRepeats sends each call from several clients at once to two servers with
// connections of their own: one creates the object, and the others get it.
func TestConcurrentRepeats(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		w := newKeyedWorld(t, dbtest.Open(t, databaseURL))
		other := newApp(t, dbtest.Open(t, databaseURL), func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		token := w.tenant.owner.createToken("WRITE", "EXPORT").secret

		// The owner's session works on both servers.
		session := w.tenant.owner.http.Jar
		for _, c := range keyedCases {
			w.clock.Add(time.Microsecond)
			other.clock.Add(time.Microsecond)
			call, entries := w.document(c, c.input, "key of "+c.mutation), len(w.auditRows())

			// More callers than free attempts to create an account would be RATE_LIMITED.
			const callers = 4
			answers := make([]*answer, callers)
			var wait sync.WaitGroup
			for i := range callers {
				server := []*app{w.app, other}[i%2]
				if c.session {
					owner := server.client()
					owner.http.Jar = session
					wait.Go(func() { answers[i] = owner.query(call) })
					continue
				}
				wait.Go(func() { answers[i] = server.with(token, call) })
			}
			wait.Wait()

			ids, secrets := map[any]bool{}, 0
			for _, got := range answers {
				id, secret := c.id(got.ok(t, c.mutation))
				ids[id] = true
				if secret != nil {
					secrets++
				}
			}
			if len(ids) != 1 || c.secret != "" && secrets != 1 {
				t.Errorf("%s: %d objects, %d secrets", c.mutation, len(ids), secrets)
			}
			equal(t, len(w.auditRows())-entries, 1, "%s added", c.mutation)
		}
	})
}
