package graph_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
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

// TestDocumentsInTheGuideAreValid validates the operations in docs/owner/graphql.md and docs/owner/erasure.md
// against the schema.
func TestDocumentsInTheGuideAreValid(t *testing.T) {
	t.Parallel()
	var documents [][]string

	for _, name := range []string{"graphql.md", "erasure.md"} {
		guide, err := os.ReadFile("../../docs/owner/" + name)
		if err != nil {
			t.Fatal(err)
		}

		documents = append(documents, regexp.MustCompile("(?s)```graphql\n(.*?)```").FindAllStringSubmatch(string(guide), -1)...)
	}

	if len(documents) < 5 {
		t.Fatalf("found %q", documents)
	}

	for _, match := range documents {
		text := match[1]

		doc, err := parser.ParseQuery(&ast.Source{Input: text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}

		if wrong := validator.ValidateWithRules(schema, doc, nil); len(wrong) > 0 {
			t.Errorf("%s: %v", text, wrong)
		}
	}
}
