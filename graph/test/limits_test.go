package graph_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// spend exceeds the time that any refused request takes on a busy machine, under the race detector.
// A document whose cost grows exponentially takes longer.
const spend = 30 * time.Second

// onSQLite runs a test of behavior that does not depend on the database.
func onSQLite(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	test(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
}

// TestHostileRequests sends requests that must be refused cheaply, without a statement to the
// database.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	many := func(n int, part func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(part(i))
		}
		return b.String()
	}

	queries := []struct{ name, query, want string }{
		{"depth 13", `{ viewer { account` + strings.Repeat(` { sites { edges { node`, 4) + strings.Repeat(` } } }`, 4) + ` } }`, "TOO_COMPLEX"},
		{"depth 200", strings.Repeat("{ a ", 200) + strings.Repeat("}", 200), "TOO_COMPLEX"},
		{"31 aliases", "{ viewer { " + many(31, func(i int) string { return fmt.Sprintf("a%d: id ", i) }) + "} }", "TOO_COMPLEX"},
		{"10,000 aliases", "{ " + many(10_000, func(i int) string { return fmt.Sprintf("a%d:id ", i%10) }) + "}", "TOO_COMPLEX"},
		{"5,000 aliases", "{ " + many(5_000, func(i int) string { return fmt.Sprintf("a%d:id ", i) }) + "}", "TOO_COMPLEX"},
		{"11 root fields", "{ " + strings.Repeat("viewer { id } ", 11) + "}", "TOO_COMPLEX"},
		{"root fields in a fragment", "{ ...f } fragment f on Query { " + strings.Repeat("viewer { id } ", 11) + "}", "TOO_COMPLEX"},
		{"501 fields", "{ viewer { " + strings.Repeat("id ", 501) + "} }", "TOO_COMPLEX"},
		{"fields of an unused fragment", "{ viewer { id } } fragment f on User { " + strings.Repeat("id ", 501) + "}", "TOO_COMPLEX"},
		{"complexity", `{ sites(first: 100) { edges { node { id ` + strings.Repeat("name ", 50) + `} } } }`, "TOO_COMPLEX"},
		{
			name:  "complexity in a variable",
			query: `query($n: Int! = 100) { sites(first: $n) { edges { node { id ` + strings.Repeat("name ", 50) + `} } } }`,
			want:  "TOO_COMPLEX",
		},
		{"a password and a mail", `mutation { requestPasswordReset(input: {email: "a@example.com"}) { userErrors { code } }
			signIn(input: {email: "a@example.com", password: "12345679"}) { userErrors { code } } }`, "TOO_COMPLEX"},
		{"rejections of many days", `{ sites(first: 100) { edges { node { rejections(days: 90) { day } } } } }`, "TOO_COMPLEX"},
		{"deliveries of many sites", `{ sites(first: 50) { edges { node { deliveries(first: 50) { edges { node { kind } } } } } } }`, "TOO_COMPLEX"},
		{"two passwords", `mutation { a: signIn(input: {email: "a@example.com", password: "12345678"}) { userErrors { code } }
			b: signIn(input: {email: "a@example.com", password: "12345679"}) { userErrors { code } } }`, "TOO_COMPLEX"},
		{"3,000 directives", "{ viewer { id " + strings.Repeat("@skip(if: true) ", 3_000) + "} }", "TOO_COMPLEX"},
		{"10,000 directives", "{ viewer { id " + strings.Repeat("@a ", 10_000) + "} }", "TOO_COMPLEX"},
		{"500 directives", "{ viewer { id " + strings.Repeat("@x ", 500) + "} }", "VALIDATION_FAILED"},
		{"fragment bomb", "{ viewer { ...f0 } } " + many(40, func(i int) string {
			return fmt.Sprintf("fragment f%d on User { ...f%d ...f%d } ", i, i+1, i+1)
		}) + "fragment f40 on User { id }", "TOO_COMPLEX"},
		{"hollow fragment bomb", "{ viewer { ...f0 } } " + many(40, func(i int) string {
			return fmt.Sprintf("fragment f%d on User { ...f%d ...f%d } ", i, i+1, i+1)
		}), "TOO_COMPLEX"},
		{"fragment cycle", "{ viewer { ...a } } fragment a on User { ...b } fragment b on User { ...a }", "VALIDATION_FAILED"},
		{"fragment of itself", "{ viewer { ...a } } fragment a on User { ...a }", "VALIDATION_FAILED"},
		{"many operations", many(300, func(i int) string { return fmt.Sprintf("query q%d { viewer { id } } ", i) }), "TOO_COMPLEX"},
		{"deep value", `{ node(id: ` + strings.Repeat("[", 1_900) + strings.Repeat("]", 1_900) + `) { id } }`, "PARSE_FAILED"},
		{"deep type", `query($a: ` + strings.Repeat("[", 1_500) + "ID" + strings.Repeat("]", 1_500) + `) { viewer { id } }`, "PARSE_FAILED"},
		{
			name:  "long introspection",
			query: `{ __schema { types { ` + strings.Repeat("fields { type { ", 12) + "name" + strings.Repeat(" } }", 12) + ` } } }`,
			want:  "TOO_COMPLEX",
		},
		{"wide introspection", "{ " + strings.Repeat("__schema { types { name } } ", 11) + "}", "TOO_COMPLEX"},
		{"pairs to compare", "{ viewer { " + strings.Repeat("account { id name: id } ", 160) + "} }", "TOO_COMPLEX"},
		{
			name:  "pairs that conflict",
			query: "{ viewer { " + strings.Repeat("sites: id sites: email ", 14) + strings.Repeat("account { id name } ", 150) + "} }",
			want:  "VALIDATION_FAILED",
		},
		{"unknown field", `{ viewer { emial } }`, "VALIDATION_FAILED"},
		{"unknown operation type", `subscription { viewer { id } }`, "VALIDATION_FAILED"},
		{"two operations, none named", `query a { viewer { id } } query b { viewer { id } }`, "VALIDATION_FAILED"},
		{"no operation", `fragment a on User { id }`, "VALIDATION_FAILED"},
		{"nothing", `#`, "VALIDATION_FAILED"},
		{"syntax", `{ viewer {`, "PARSE_FAILED"},
		{"bad character", "{ viewer { \x01 } }", "PARSE_FAILED"},
	}

	onSQLite(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		token := c.createToken("READ", "WRITE")

		differ(t, len(statements.Take()), 0, "the counter does not count")

		for _, test := range queries {
			began := time.Now()
			got := c.query(test.query)

			if took := time.Since(began); took > spend {
				t.Errorf("%s took %v", test.name, took)
			}
			a.with(token.secret, test.query).named("%s: with a token", test.name).is(t, got.Body)
			if sent := statements.Take(); len(sent) > 0 {
				t.Errorf("%s sent %q", test.name, sent)
			}

			if got.Status != http.StatusBadRequest || !strings.Contains(" "+got.codes()+" ", " "+test.want+" ") {
				t.Errorf("%s: status %d, %.300s; want 400 and %s", test.name, got.Status, got.Body, test.want)
			}

			// Nothing was run, so there is no data.
			got.named("%s: the answer has data", test.name).hides(t, `"data"`)
			got.named("%s: the answer guesses", test.name).hides(t, "Did you mean")
		}
	})
}

func TestHostileHTTP(t *testing.T) {
	t.Parallel()
	const viewer = `{"query":"{ viewer { id } }"}`
	const jsonType = "application/json"
	tests := []struct {
		name, method, contentType, body string
		header                          []string
		status                          int
		code                            string
	}{
		{"1 MB document", "POST", jsonType, `{"query":"` + strings.Repeat("#", 1<<20) + `"}`, nil, 413, "TOO_LARGE"},
		{"64 KB and a bit", "POST", jsonType, `{"query":"{ viewer { id } }` + strings.Repeat(" ", 64<<10) + `"}`, nil, 413, "TOO_LARGE"},
		{"form", "POST", "application/x-www-form-urlencoded", "query=%7Bviewer%7Bid%7D%7D", nil, 415, "BAD_REQUEST"},
		{"multipart", "POST", "multipart/form-data; boundary=x", "--x--", nil, 415, "BAD_REQUEST"},
		{"text", "POST", "text/plain", viewer, nil, 415, "BAD_REQUEST"},
		{"graphql", "POST", "application/graphql", "{ viewer { id } }", nil, 415, "BAD_REQUEST"},
		{"no content type", "POST", "", viewer, nil, 415, "BAD_REQUEST"},
		{"empty body", "POST", jsonType, "", nil, 400, "BAD_REQUEST"},
		{"no query", "POST", jsonType, `{"variables":{}}`, nil, 400, "BAD_REQUEST"},
		{"no object", "POST", jsonType, `"{ viewer { id } }"`, nil, 400, "BAD_REQUEST"},
		{
			name: "persisted query", method: "POST", contentType: jsonType,
			body:   `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + strings.Repeat("a", 64) + `"}}}`,
			header: nil, status: 400, code: "BAD_REQUEST",
		},
		{"batch", "POST", jsonType, "[" + viewer + "," + viewer + "]", nil, 400, "BAD_REQUEST"},
		{"two objects", "POST", jsonType, viewer + viewer, nil, 400, "BAD_REQUEST"},
		{
			name: "deep variables", method: "POST", contentType: jsonType,
			body:   `{"query":"{ viewer { id } }","variables":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
			header: nil, status: 400, code: "BAD_REQUEST",
		},
		{
			name: "cross-site page", method: "POST", contentType: jsonType, body: viewer,
			header: []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, status: 403,
			code: "CROSS_ORIGIN",
		},
		{"same-site page", "POST", jsonType, viewer, []string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example"}, 403, "CROSS_ORIGIN"},
		{"old browser", "POST", jsonType, viewer, []string{"Origin", "https://evil.example"}, 403, "CROSS_ORIGIN"},
		{"opaque origin", "POST", jsonType, viewer, []string{"Origin", "null"}, 403, "CROSS_ORIGIN"},
		{"GET with a query", "GET", "", "", nil, 405, "BAD_REQUEST"},
		{"PUT", "PUT", jsonType, viewer, nil, 405, "BAD_REQUEST"},
		{
			name: "websocket", method: "GET", contentType: "", body: "",
			header: []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="},
			status: 405, code: "BAD_REQUEST",
		},
	}

	onSQLite(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")

		differ(t, len(statements.Take()), 0, "the counter does not count")

		for _, test := range tests {
			began := time.Now()
			got := c.send(test.method, test.contentType, test.body, test.header...)

			if sent := statements.Take(); len(sent) > 0 {
				t.Errorf("%s sent %q", test.name, sent)
			}
			if took := time.Since(began); took > spend {
				t.Errorf("%s took %v", test.name, took)
			}
			got.named("%s", test.name).status(t, test.status).code(t, test.code)

			if len(got.Body) > 500 {
				t.Errorf("%s: the answer has %d bytes", test.name, len(got.Body))
			}
		}

		equal(t, a.log.String(), "", "logged")
	})
}

func TestRequestsThatAreWithinTheLimits(t *testing.T) {
	t.Parallel()
	introspection := value(os.ReadFile(filepath.Join("testdata", "introspection.graphql")))(t)

	page := `{ viewer { id email role operator createdAt account { id name createdAt members { id email role createdAt }
		invitations { id email role } sites(first: 41) ` + selection("SiteConnection", 4, costly...) + ` } } }`

	onSQLite(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")

		// The second request is served from the query cache.
		for range 2 {
			for name, query := range map[string]string{"a tool's introspection": string(introspection), "everything": page} {
				c.query(query).ok(t, "")

				if t.Failed() {
					t.Fatal(name)
				}
			}
		}

		same := c.send("POST", "application/json; charset=utf-8", `{"query":"{ viewer { email } }"}`,
			"Sec-Fetch-Site", "same-origin", "Origin", strings.TrimSuffix(a.url, "/graphql"))
		equal(t, same.at("viewer.email"), "owner@example.com", "from our own page: %s", same.Body)
		if same.Header.Get("Cache-Control") != "no-store" || same.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("headers %v", same.Header)
		}

		asked := c.send("POST", "application/json", `{"query":"{ viewer { email } }"}`, "Accept", "application/graphql-response+json")
		equal(t, asked.Header.Get("Content-Type"), "application/graphql-response+json; charset=utf-8", "content type")

		named := c.send("POST", "application/json", `{"query":"query a { viewer { id } } query b { viewer { email } }","operationName":"b"}`)
		equal(t, named.Body, `{"data":{"viewer":{"email":"owner@example.com"}}}`, "the operation by name")
	})
}

func TestIntrospectionIsASetting(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d, func(s *settings) { s.graph.Introspection = false }).client()
		for _, query := range []string{
			`{ __schema { types { name } } }`, `{ a: __type(name: "Site") { name } }`,
			`{ ...f } fragment f on Query { __schema { types { name } } }`,
		} {
			c.query(query).named("%s", query).code(t, "VALIDATION_FAILED").status(t, 400)
		}

		c.query(`{ __typename }`).named("__typename").is(t, `{"data":{"__typename":"Query"}}`)
	})
}

func TestBrowsersSeeGraphiQL(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("GraphiQL")) })
	onSQLite(t, func(t *testing.T, d *db.DB) {
		with := newApp(t, d, func(s *settings) { s.graph.GraphiQL = page }).client()
		with.send("GET", "", "", "Accept", browser).named("with GraphiQL").status(t, 200).is(t, "GraphiQL")
		if got := with.send("GET", "", ""); got.Status != 405 || got.Header.Get("Allow") != "POST" {
			t.Errorf("a program's GET: status %d, Allow %q", got.Status, got.Header.Get("Allow"))
		}
		newApp(t, d).client().send("GET", "", "", "Accept", browser).named("without GraphiQL").status(t, 404)
	})
}

// TestSchemaDocumentsTheLimits: the numbers in errors.graphqls are those that graph/limits
// enforces.
func TestSchemaDocumentsTheLimits(t *testing.T) {
	t.Parallel()
	schema := value(os.ReadFile("../schema/errors.graphqls"))(t)

	var source []byte
	for _, name := range []string{"document.go", "complexity.go"} {
		text := value(os.ReadFile("../limits/" + name))(t)

		source = append(source, text...)
	}

	text := strings.ReplaceAll(string(schema), ",", "")
	for _, name := range []string{"maxDepth", "maxRootFields", "maxAliases", "maxFields", "maxTokens", "maxComplexity"} {
		found := regexp.MustCompile(name + ` += ([0-9_]+)`).FindSubmatch(source)
		if found == nil {
			t.Fatalf("graph/limits does not set %s", name)
		}

		n := value(strconv.Atoi(strings.ReplaceAll(string(found[1]), "_", "")))(t)
		if !regexp.MustCompile(`\b` + strconv.Itoa(n) + `\b`).MatchString(text) {
			t.Errorf("errors.graphqls does not mention %s, %d", name, n)
		}
	}
}

// Every type, field, argument, input field and enum value has a description.
func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	const query = `{ __schema { types { name kind description
		fields { name description args { name description } } inputFields { name description } enumValues { name description } } } }`

	onSQLite(t, func(t *testing.T, d *db.DB) {
		type named struct {
			Name, Description string
			Args              []named
		}

		var schema struct {
			Data struct {
				Schema struct {
					Types []struct {
						named
						Fields, InputFields, EnumValues []named
					}
				} `json:"__schema"`
			}
		}
		must(t, json.Unmarshal([]byte(newApp(t, d).client().query(query).ok(t, "").Body), &schema))

		check := func(where string, list []named) {
			for _, n := range list {
				for _, arg := range n.Args {
					if arg.Description == "" && arg.Name != "input" {
						t.Errorf("%s%s(%s) has no description", where, n.Name, arg.Name)
					}
				}

				differ(t, n.Description, "", "%s%s has no description", where, n.Name)
			}
		}
		for _, typ := range schema.Data.Schema.Types {
			if strings.HasPrefix(typ.Name, "__") {
				continue
			}

			check("", []named{{Name: typ.Name, Description: typ.Description}})

			for _, list := range [][]named{typ.Fields, typ.InputFields, typ.EnumValues} {
				check(typ.Name+".", list)
			}
		}
	})
}
