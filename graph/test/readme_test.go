package graph_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// TestDocumentsInTheGuideAreValid validates the operations in docs/graphql.md and docs/erasure.md
// against the schema.
func TestDocumentsInTheGuideAreValid(t *testing.T) {
	var documents [][]string

	for _, name := range []string{"graphql.md", "erasure.md"} {
		guide, err := os.ReadFile("../../docs/" + name)
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
