package endpoint

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/tools/testkit"
)

const oldSchema = `
interface Named { name: String @deprecated(reason: "old name of an interface") }
type Site implements Named {
  name: String @deprecated(reason: "old name")
  title(short: Boolean, long: Boolean @deprecated(reason: "old argument")): String
  parent: Site
}
type Query { site: Site named: Named old: Site @deprecated }`

// oldServer runs the schema of this test: every field is null.
type oldServer struct{ schema *ast.Schema }

func (s oldServer) Schema() *ast.Schema { return s.schema }

func (oldServer) Complexity(context.Context, string, string, int, map[string]any) (int, bool) {
	return 0, false
}

func (oldServer) Exec(ctx context.Context) graphql.ResponseHandler {
	return graphql.OneShot(&graphql.Response{Data: json.RawMessage(`{"site":null}`)})
}

// TestDeprecatedFieldsInResponses sends documents to a server with deprecated fields and arguments.
func TestDeprecatedFieldsInResponses(t *testing.T) {
	t.Parallel()
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: oldSchema})
	exec := executor.New(oldServer{schema})
	transport := New(limits.New(0), time.Now)

	for query, want := range map[string]string{
		`{ site { title } }`:                      ``,
		`{ site { title(short: true) } }`:         ``,
		`{ site { __typename } __typename }`:      ``,
		`{ site { name } }`:                       `[{"name":"Site.name","reason":"old name"}]`,
		`{ a: site { x: name parent { name } } }`: `[{"name":"Site.name","reason":"old name"}]`,
		`{ named { name } }`:                      `[{"name":"Named.name","reason":"old name of an interface"}]`,
		`{ named { ... on Site { name } } }`:      `[{"name":"Site.name","reason":"old name"}]`,
		`{ site { ...F } } fragment F on Site { title(long: true) name }`: `[{"name":"Site.title.long","reason":"old argument"},` +
			`{"name":"Site.name","reason":"old name"}]`,
		`{ old { title } }`: `[{"name":"Query.old","reason":"No longer supported"}]`,
	} {
		body, err := json.Marshal(map[string]string{"query": query})
		testkit.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		ctx := limits.New(0).WithRequest(graphql.StartOperationTrace(t.Context()), netip.Addr{}, true, time.Now())
		w := httptest.NewRecorder()
		transport.Do(w, r.WithContext(ctx), exec)

		if extensions := `,"extensions":{"deprecated":` + want + `}`; w.Body.String() != `{"data":{"site":null}`+extensions+`}` && want != "" ||
			want == "" && w.Body.String() != `{"data":{"site":null}}` {
			t.Errorf("%s is answered %s, want %s", query, w.Body, want)
		}
	}
}
