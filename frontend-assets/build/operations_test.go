package main

import (
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/tools/testkit"
)

const testSchema = `
type Query { site(id: ID!): Site node(id: ID!): Node sites(first: Int! = 20): [Site!]! }
type Mutation { rename(input: RenameInput!): Site }
interface Node { id: ID! }
type Site implements Node { id: ID! name: String plan: Plan! hits: Int64! tags: [String!] open: Boolean! }
enum Plan { FREE PRO }
input RenameInput { id: ID! name: String plans: [Plan!]! = [] }
scalar Int64
`

// sources returns documents named 1.graphql, 2.graphql and so on.
func sources(texts ...string) (list []*ast.Source) {
	for i, text := range texts {
		list = append(list, &ast.Source{Name: string(rune('1'+i)) + ".graphql", Input: text})
	}
	return list
}

func TestOperationsBecomeTypes(t *testing.T) {
	got, err := generateOperations(sources(testSchema), sources(`
# A comment that does not reach the browser.
query Page($id: ID!, $first: Int = 5) {
  site(id: $id) { ...Fields plan }
  all: sites(first: $first) { id }
}
mutation Rename($input: RenameInput!) { rename(input: $input) { id } }
query Read($id: ID!) { node(id: $id) { id ... on Site { hits } } }`,
		`fragment Fields on Site { name tags open }`))
	testkit.NoError(t, err)

	for _, want := range []string{
		"export type Plan = 'FREE' | 'PRO';",
		"export type RenameInput = {\n  id: string;\n  name?: string | null;\n  plans?: Plan[];\n};",
		"export type Fields = {\n  name: string | null;\n  tags: string[] | null;\n  open: boolean;\n};",
		"const fieldsText =\n  'fragment Fields on Site{name tags open}';",
		"  site: {\n    plan: Plan;\n  } & Fields | null;\n  all: {\n    id: string;\n  }[];\n",
		"operation<{ id: string; first?: number | null }, PageData>",
		"operation<{ input: RenameInput }, RenameData>",
		"node: {\n    id: string;\n  } & Partial<{\n    hits: number;\n  }> | null;",
		"'query Page($id:ID!,$first:Int=5){site(id:$id){... Fields plan}all:sites(first:$first){id}}', fieldsText,",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the module lacks\n%s\nit is\n%s", want, got)
		}
	}
	if strings.Contains(got, "comment that") {
		t.Error("the module contains a comment of a document")
	}
}

func TestOperationsMustMatchTheSchema(t *testing.T) {
	for name, test := range map[string]struct{ document, want string }{
		"unknown field":    {`query A { site(id: "1") { nom } }`, `1.graphql:1:27: Cannot query field "nom" on type "Site"`},
		"missing argument": {`query A { site { name } }`, `Field "site" argument "id" of type "ID!" is required`},
		"unused fragment":  {`query A { sites { id } } fragment F on Site { id }`, `Fragment "F" is never used`},
		"wrong variable":   {`query A($id: Int!) { site(id: $id) { id } }`, `Variable "$id" of type "Int!"`},
		"syntax":           {`query A {`, "1.graphql:1:10: Expected Name"},
	} {
		if _, err := generateOperations(sources(testSchema), sources(test.document)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.want)
		}
	}
	if _, err := readGraphQL("no such folder/*.graphql"); err == nil {
		t.Error("a pattern without files is no error")
	}
}
