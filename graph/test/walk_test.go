package graph_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// walkIDs are the arguments of root fields that the walk gives in addition to the required ones:
// the name of an id, as in tenant, and the argument that takes it.
var walkIDs = map[string]struct{ argument, id string }{
	"account": {"id", "accountId"}, "site": {"id", "siteId"}, "sites": {"accountId", "accountId"},
	"sitekey": {"id", "sitekeyId"}, "sitekeys": {"accountId", "accountId"}, "node": {},
}

// walkArguments are values of the arguments of fields that literals lack, by field and argument.
var walkArguments = map[string]string{"invitationOffer.token": `"tgi_unknown"`}

// walkedQuery is one query of the walk: the field at the end of a path, such as Account.members,
// with all fields without arguments of what it returns.
type walkedQuery struct {
	path []string
	text string

	// around is the query for all fields of the same object, which selects this one too; "" for none. Its
	// answer without errors makes this query needless. A refused field can hide the others.
	around string
}

// walk returns a query for every field of every type that the root fields can reach, from the
// schema alone, and fails for a field that it cannot call. Each type is reached over one path,
// through as few lists as possible. ids are those of a tenant.
func walk(t *testing.T, ids map[string]string, isRoot func(field string) bool) (list []walkedQuery) {
	t.Helper()
	type place struct {
		name, around string // around has %s in place of the type's fields
		path         []string
		leaves       string // the query for all fields without arguments; "": none
	}
	seen, lists := map[string]bool{"Query": true}, []place(nil)
	next := []place{{"Query", "{ %s }", nil, ""}}

	enter := func(def *ast.Definition, around string, path []string, isList bool) {
		for _, name := range append([]*ast.Definition{def}, schema.GetPossibleTypes(def)...) {
			inner, all := around, ""
			if name != def {
				inner = fmt.Sprintf(around, "... on "+name.Name+" { %s }")
			} else if !name.IsLeafType() {
				all = fmt.Sprintf(around, leaves(def))
			}
			switch {
			case name.IsLeafType() || name.Kind == ast.Interface || seen[name.Name]:
			case isList:
				lists = append(lists, place{name.Name, inner, path, all})
			default:
				seen[name.Name] = true
				next = append(next, place{name.Name, inner, path, all})
			}
		}
	}

	for len(next) > 0 || len(lists) > 0 {
		if len(next) == 0 {
			if p := lists[0]; !seen[p.name] {
				seen[p.name], next = true, append(next, p)
			}
			lists = lists[1:]
			continue
		}

		at := next[0]
		next = next[1:]
		for _, f := range fieldsOf(schema.Types[at.name]) {
			if at.name == "Query" && !isRoot(f.Name) {
				continue
			}
			def, isList := schema.Types[f.Type.Name()], f.Type.Elem != nil
			path := append(slices.Clone(at.path), at.name+"."+f.Name)
			if at.name == "Query" && f.Name == "node" {
				for _, possible := range schema.GetPossibleTypes(def) {
					id := ids[nodes[possible.Name]]
					differ(t, id, "", "no tenant has a %s: add it to nodes and furnish", possible.Name)
					node := fmt.Sprintf(`{ node(id: %q) { ... on %s { %%s } } }`, id, possible.Name)
					all := fmt.Sprintf(node, leaves(possible))
					list = append(list, walkedQuery{path, all, ""})
					lists = append(lists, place{possible.Name, node, path, all})
				}
				continue
			}

			call := f.Name + walkedArguments(t, at.name, f, ids)
			inner := ""
			if !def.IsLeafType() {
				inner = "{ %s }"
				enter(def, fmt.Sprintf(at.around, call+" { %s }"), path, isList)
				inner = fmt.Sprintf(inner, leaves(def))
			}
			around := ""
			if def.IsLeafType() && len(f.Arguments) == 0 {
				around = at.leaves
			}
			list = append(list, walkedQuery{path, fmt.Sprintf(at.around, call+" "+inner), around})
		}
	}
	return list
}

// leaves selects all fields of a type that have no fields themselves and need no arguments; and of
// a list's items, those of their objects, too.
func leaves(def *ast.Definition) string {
	if def.Kind == ast.Interface {
		return "__typename"
	}
	names := "__typename"
	for _, f := range fieldsOf(def) {
		if schema.Types[f.Type.Name()].IsLeafType() && !needsArguments(f) {
			names += " " + f.Name + literalArguments(f)
		}
	}
	if items := def.Fields.ForName("nodes"); items != nil {
		item := schema.Types[items.Type.Name()]
		names += " nodes { " + leaves(item)
		for _, f := range fieldsOf(item) {
			if inner := schema.Types[f.Type.Name()]; inner.Kind == ast.Object && f.Type.Elem == nil && len(f.Arguments) == 0 &&
				!slices.Contains(costly, f.Name) {
				names += " " + f.Name + " { " + leaves(inner) + " }"
			}
		}
		names += " }"
	}
	return names
}

// walkedArguments returns the arguments with which the walk calls a field.
func walkedArguments(t *testing.T, of string, f *ast.FieldDefinition, ids map[string]string) string {
	t.Helper()
	var list []string
	for _, arg := range f.Arguments {
		value := literals[arg.Name]
		if given, ok := walkArguments[f.Name+"."+arg.Name]; ok {
			value = given
		}
		root := walkIDs[f.Name]
		switch {
		case of == "Query" && root.argument == arg.Name:
			list = append(list, fmt.Sprintf("%s: %q", arg.Name, ids[root.id]))
		case arg.Name == "first":
			list = append(list, "first: 2")
		case isRequired(arg) && value == "":
			t.Errorf("%s.%s needs the argument %s: add a value to walkArguments", of, f.Name, arg.Name)
		case isRequired(arg), arg.Name == "period", arg.Name == "compare":
			list = append(list, arg.Name+": "+value)
		}
	}
	if of == "Query" && takesID(f) && walkIDs[f.Name].argument == "" {
		t.Errorf("Query.%s takes an id: add it to walkIDs", f.Name)
	}
	if list == nil {
		return ""
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// unmarked are the fields of an account in which nothing has a name: an owner reads no mark there.
var unmarked = []string{
	"captchaPlan", "captchaUsage", "captchaUsageHistory", "createdAt", "id", "name", "providerRedirectUrl", "requireProvider",
	"requireSecondFactor", "suspension", "viewerIsGuest", "viewerRole",
}

// TestEveryFieldForCallersOfOneSite reads every field that the schema has with the callers who
// reach one site of an account. Everything else in the account has the mark "veiled" in its names,
// addresses, hosts and titles. An owner reads the same, so a field of the account in which the
// owner finds no mark fails the test, too: nothing would be hidden there.
func TestEveryFieldForCallersOfOneSite(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		if d.IsPostgres() {
			testkit.SkipLong(t, "every field on a second database")
		}
		a := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = 1 << 30 })
		hidden := a.tenant("veiled.example")
		colleague := a.join(hidden.owner, "owner@own.example", model.RoleOwner)
		own := a.furnish(colleague, "own.example")
		a.storePages(t, hidden.ids["siteId"], "/veiled-page")
		a.storePages(t, own["siteId"], "/own-page")

		guest := a.guest(colleague, "guest-of-one@own.example", own["siteId"])
		callers := map[string]func(query string) *answer{
			"a READ token":          a.as(colleague.tokenOf("READ", own["siteId"])),
			"a token of all scopes": a.as(colleague.tokenOf("READ, WRITE, EXPORT", own["siteId"])),
			"a guest":               func(query string) *answer { return guest.query(query) },
		}

		isShared := func(field string) bool { return field == "sharedSite" }
		isOther := func(field string) bool { return !isShared(field) }
		reader := a.as(colleague.reader(own["siteId"]))
		a.hideAccount(hidden) // last, so that the newest entries of the audit log are about it
		read, marked := map[string]bool{}, map[string]bool{}
		for of, ids := range map[string]map[string]string{"own": own, "hidden": hidden.ids} {
			check := func(who string, q walkedQuery, got *answer) {
				if got.Status != http.StatusOK || strings.Contains(got.Body, "veiled") {
					t.Errorf("%s reads %s with the %s ids by %s: status %d, %s", who, q.path, of, q.text, got.Status, got.Body)
				}
				for _, name := range typenames.FindAllStringSubmatch(got.Body, -1) {
					read[name[1]] = true
				}
			}

			// complete are the queries with answers without errors, by caller.
			complete := map[[2]string]bool{}
			run := func(who string, q walkedQuery, ask func(query string) *answer) *answer {
				if complete[[2]string{who, q.around}] {
					return nil
				}
				got := ask(q.text)
				complete[[2]string{who, q.text}] = got.codes() == ""
				return got
			}

			for _, q := range walk(t, ids, isShared) {
				if got := run("a reader", q, reader); got != nil {
					check("a reader", q, got)
				}
			}
			for _, q := range walk(t, ids, isOther) {
				for who, ask := range callers {
					if got := run(who, q, ask); got != nil {
						check(who, q, got)
					}
				}

				// Each field of an account is marked for itself.
				if strings.HasPrefix(q.path[len(q.path)-1], "Account.") {
					q.around = ""
				}
				got := run("an owner", q, func(query string) *answer { return hidden.owner.query(query) })
				if got == nil {
					continue
				}
				if codes := got.codes(); codes != "" && codes != "NOT_FOUND" {
					t.Errorf("an owner reads %s by %s: %s", q.path, q.text, got.Body)
				}
				for _, name := range typenames.FindAllStringSubmatch(got.Body, -1) {
					read[name[1]] = true
				}
				for _, field := range q.path {
					marked[field] = marked[field] || strings.Contains(got.Body, "veiled")
				}
			}
		}

		for _, f := range fieldsOf(schema.Types["Account"]) {
			differ(t, marked["Account."+f.Name], slices.Contains(unmarked, f.Name), "an owner reads a mark in Account.%s", f.Name)
		}
		for _, name := range reachable("Query") {
			if schema.Types[name].Kind == ast.Object && !read[name] && name != "Query" && unread[name] == "" {
				t.Errorf("an owner reads no %s: let furnish or hideAccount create one, or add a reason to unread", name)
			}
		}
	})
}

var typenames = regexp.MustCompile(`"__typename":"(\w+)"`)

// unread are the types of which the walk reads none, with the reasons.
var unread = map[string]string{
	"CaptchaAttack": "an attack is no object", "SitekeyActivity": "counts of a sitekey", "SitekeyRefusal": "counts of a sitekey",
	"Certificate": "of the installation", "PasskeyRequest": "of the installation",
	"Cohort": "counts of a site", "CohortReport": "counts of a site", "CohortReturn": "counts of a site", "DailyUsage": "counts of a site",
	"Rejection": "counts of a site", "UnknownEvent": "counts of a site", "ReportRevenue": "counts of a site", "ReportImportedDays": "counts of a site",
	"DeliveryAttempt": "part of a delivery or message, which is read", "QuietHours": "part of a channel, which is read",
	"ImportError": "part of an import job, which is read", "ImportNote": "part of an import job, which is read",
	"ImportedEvent":     "part of an import job, which is read",
	"ImportPreviewFile": "part of an import job, which is read", "ProviderRole": "part of a provider, which is read",
	"ReportChangeName": "part of a change, which is read",
	"InvitationOffer":  "needs the secret of an invitation", "Suspension": "open, without names",
}

// as returns a function that queries with a token.
func (a *app) as(token string) func(query string) *answer {
	return func(query string) *answer { return a.with(token, query) }
}

// tokenOf creates an API token for one site.
func (c *client) tokenOf(scopes, site string) string {
	c.t.Helper()
	return c.query(`mutation($id: ID!) { createApiToken(input: {name: "own", scopes: [`+scopes+`], siteIds: [$id]}) {
		token userErrors { code } } }`, "id", site).ok(c.t, "createApiToken").at("createApiToken.token").(string)
}

// hideAccount creates what an account has besides the sites' objects, with marks.
func (a *app) hideAccount(hidden *tenant) {
	a.t.Helper()
	c := hidden.owner
	deleted := c.siteOf("veiled-deleted.example")
	created := c.query(`mutation($id: ID!) {
		deleteSite(input: {siteId: $id}) { userErrors { code } }
		createApiToken(input: {name: "veiled token", scopes: [READ]}) { userErrors { code } }
		createAlertChannel(input: {kind: SLACK, name: "veiled channel", address: "https://veiled.example/slack/0123456789abcdef", events: [QUOTA]}) {
			alertChannel { id } userErrors { code } } }`, "id", deleted).ok(a.t, "createAlertChannel")
	c.done("sendTestAlert", "alertChannelId", created.at("createAlertChannel.alertChannel.id"))

	account, _ := a.ids.Parse(nodeid.Account, hidden.ids["accountId"])
	err := dbtest.Exec(a.db, "INSERT INTO account_providers (account_id, issuer, client_id, client_secret, domain, domain_token, verified_at, "+
		"default_role, role_claim, roles, changed_at) VALUES (?, 'https://login.veiled.example', 'veiled-client', ?, 'veiled.example', 'veiled-record', "+
		"0, 'MEMBER', '', '{}', 1)", account, []byte{1})
	testkit.NoError(a.t, err)
}

// storePages stores a visit of today with a page view.
func (a *app) storePages(t *testing.T, site, path string) {
	t.Helper()
	at := model.At(a.clock.Now().Add(-time.Minute))
	key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
	rows := segment.Rows{
		Day:    at.Day(),
		Visits: []segment.Visit{{VisitKey: key, StartedAt: at, Channel: "direct"}},
		Views: []segment.View{
			{VisitKey: key, At: at, ID: int64(1<<40 + a.siteNumber(site)), Path: "/", Width: model.UnknownWidth},
			{VisitKey: key, At: at, ID: int64(2<<40 + a.siteNumber(site)), Path: path, Width: model.UnknownWidth},
		},
		Events: []segment.Event{{
			VisitKey: key, At: at, ID: int64(3<<40 + a.siteNumber(site)), Name: "signup", Path: path,
			Properties: `{"plan":"5"}`,
		}},
	}
	must(t, oracle.Store(t.Context(), a.db, int64(a.siteNumber(site)), rows))
}
