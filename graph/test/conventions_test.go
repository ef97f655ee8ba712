package graph_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSchemaConventions checks the rules that hold for the whole schema.
func TestSchemaConventions(t *testing.T) {
	t.Parallel()
	upperCase := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	checked := map[string]int{}
	for _, def := range schema.Types {
		if strings.HasPrefix(def.Name, "__") {
			continue
		}

		for _, value := range def.EnumValues {
			checked["enum values"]++

			if !upperCase.MatchString(value.Name) {
				t.Errorf("%s.%s is not in upper case", def.Name, value.Name)
			}
		}

		if id := def.Fields.ForName("id"); def.Kind == ast.Object && id != nil {
			checked["nodes"]++

			if !slices.Contains(def.Interfaces, "Node") || id.Type.String() != "ID!" {
				t.Errorf("%s has an id of type %s, and implements %v", def.Name, id.Type, def.Interfaces)
			}
		}

		if def.Description == "" && !slices.Contains([]string{"String", "Int", "Float", "Boolean", "ID"}, def.Name) {
			t.Errorf("%s has no description", def.Name)
		}
	}

	for _, def := range schema.Types {
		if !strings.HasSuffix(def.Name, "Connection") {
			continue
		}
		checked["connections"]++

		var item *ast.FieldDefinition
		if edges := def.Fields.ForName("edges"); edges != nil {
			item = schema.Types[edges.Type.Name()].Fields.ForName("node")
		}
		nodes := def.Fields.ForName("nodes")
		switch {
		case item == nil || def.Fields.ForName("pageInfo") == nil:
			t.Errorf("%s has no edges with nodes, or no pageInfo", def.Name)
		case nodes == nil || nodes.Type.String() != "["+item.Type.String()+"]!":
			t.Errorf("%s has no nodes of the type of its edges' nodes, %s", def.Name, item.Type)
		}
	}

	for _, f := range fieldsOf(schema.Mutation) {
		checked["mutations"]++

		if len(f.Arguments) != 1 || f.Arguments[0].Name != "input" {
			t.Errorf("%s does not take one input", f.Name)
		}
		if wrong := schema.Types[f.Type.Name()].Fields.ForName("userErrors"); wrong == nil || wrong.Type.String() != "[UserError!]!" {
			t.Errorf("the answer of %s has no userErrors", f.Name)
		}
	}

	if path := schema.Types["UserError"].Fields.ForName("field"); path.Type.String() != "[String!]" {
		t.Errorf("UserError.field is %s", path.Type)
	}
	if checked["enum values"] < 75 || checked["nodes"] != len(nodes) || checked["connections"] < 7 || checked["mutations"] < 35 {
		t.Errorf("only %v", checked)
	}
}

// TestDescriptionsNameExistingCodes: a code that a description names in backquotes exists, in this
// case.
func TestDescriptionsNameExistingCodes(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}

	for _, enum := range []string{"UserErrorCode", "ErrorCode"} {
		for _, value := range schema.Types[enum].EnumValues {
			codes[value.Name] = true
		}
	}

	quoted := regexp.MustCompile("`([A-Za-z_]+)`")
	named := 0

	for _, def := range schema.Types {
		for _, f := range def.Fields {
			if def.Name == "DeliveryAttempt" || def.Name == "Rejection" || def.Name == "SitekeyRefusal" {
				// The words of these types are not codes of the schema.
				continue
			}

			for _, match := range quoted.FindAllStringSubmatch(f.Description, -1) {
				upper := strings.ToUpper(match[1])
				if codes[upper] {
					named++
				}
				if codes[upper] && match[1] != upper || f.Name == "userErrors" && strings.Contains(match[1], "_") && !codes[match[1]] {
					t.Errorf("%s.%s names the code %s", def.Name, f.Name, match[1])
				}
			}
		}
	}

	if named < 80 {
		t.Errorf("only %d codes are named", named)
	}
}

// TestGraphqlOfDocuments executes the operations in docs/owner in their order, as one reader. The
// reader's first calls are the sign-up and the site of docs/owner/graphql.md.
func TestGraphqlOfDocuments(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/owner/*.md")
	testkit.NoError(t, err)
	const first = "../../docs/owner/graphql.md"
	var operations []string
	for _, page := range append([]string{first}, slices.DeleteFunc(pages, func(page string) bool { return page == first })...) {
		text, err := os.ReadFile(page)
		testkit.NoError(t, err)
		for _, match := range regexp.MustCompile("(?s)```graphql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			operations = append(operations, match[1])
		}
	}
	if len(operations) < 10 {
		t.Fatalf("found %q", operations)
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		reader := newApp(t, d).client()
		values := map[string]string{
			"email": "you@example.com", "password": password, "userId": samples["userId"].(string), "since": start.Format(time.RFC3339),
		}
		for _, text := range operations {
			for name, value := range values {
				text = strings.ReplaceAll(text, name+`: "…"`, fmt.Sprintf("%s: %q", name, value))
			}
			doc, err := parser.ParseQuery(&ast.Source{Input: text})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}

			var variables []any
			for _, v := range doc.Operations[0].VariableDefinitions {
				if value, ok := values[v.Variable]; ok {
					variables = append(variables, v.Variable, value)
				}
			}
			mutation := ""
			if doc.Operations[0].Operation == ast.Mutation {
				mutation = doc.Operations[0].SelectionSet[0].(*ast.Field).Name
			}

			got := reader.query(text, variables...).ok(t, mutation)
			if mutation == "createSite" {
				values["siteId"] = got.at("createSite.site.id").(string)
				values["id"] = values["siteId"]
			}
		}
	})
}
