package resolver

import (
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/testkit"
)

// executable is a schema that is not run.
type executable struct {
	graphql.ExecutableSchema
	schema *ast.Schema
}

// Schema implements graphql.ExecutableSchema.
func (e executable) Schema() *ast.Schema { return e.schema }

// TestServersNeedReadableRules: a server does not start with a root field that has no rule or a
// wrong one.
func TestServersNeedReadableRules(t *testing.T) {
	const directives = `
		directive @needs(permission: String!, of: String! = "CALLER", id: String) on FIELD_DEFINITION
		directive @open on FIELD_DEFINITION
		enum Permission { "Requires a session." PERSONAL }
		type Mutation { change(input: Input!): String @needs(permission: "CONFIGURE", of: "SITE") }
		input Input { siteId: ID! }`

	for field, want := range map[string]string{
		`site: String @open`:                                                 "",
		`site: String @needs(permission: "READ")`:                            "",
		`site(siteId: ID): String @needs(permission: "READ", of: "SITE")`:    "",
		`site(id: ID): String @needs(permission: "READ", of: "S", id: "id")`: "does not exist",
		`site: String @needs(permission: "NONE")`:                            "does not exist",
		`site(id: ID): String @needs(permission: "READ", of: "SITE")`:        "does not take",
		`site: String`: "neither @needs nor @open",
	} {
		schema, err := gqlparser.LoadSchema(&ast.Source{Input: directives + " type Query { " + field + " }"})
		testkit.NoError(t, err)

		a := &Access{}
		switch err := a.Validate(executable{schema: schema}); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
}

// TestIDsAmongArguments: an id is an argument, or a field of the input; null is no id.
func TestIDsAmongArguments(t *testing.T) {
	for _, test := range []struct {
		args  map[string]any
		name  string
		want  string
		given bool
	}{
		{nil, "siteId", "", false},
		{map[string]any{"siteId": "a"}, "siteId", "a", true},
		{map[string]any{"siteId": nil}, "siteId", "", false},
		{map[string]any{"siteId": int64(7)}, "siteId", "7", true},
		{map[string]any{"siteId": []any{}}, "siteId", "", true},
		{map[string]any{"siteId": "a"}, "", "", false},
		{map[string]any{"input": map[string]any{"siteId": "b"}, "siteId": "a"}, "siteId", "b", true},
	} {
		if id, given := idIn(test.args, test.name); id != test.want || given != test.given {
			t.Errorf("%s in %v: %q, %v", test.name, test.args, id, given)
		}
	}
}

// Every value of the schema's enums has a meaning.
func TestEveryPermissionIsKnown(t *testing.T) {
	for _, p := range generated.AllPermission {
		if _, ok := permissions[p]; !ok {
			t.Errorf("the permission %s is unknown", p)
		}
	}
	for _, of := range generated.AllPermissionTarget {
		if target, ok := targets[of]; !ok || (target.kind == 0) != (target.id == "") {
			t.Errorf("the target %s is unknown", of)
		}
	}
	testkit.Equal(t, permissions[generated.PermissionSendOut], model.MaySendOut, "SEND_OUT is another permission")
}
