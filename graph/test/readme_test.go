package graph_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// TestDocumentsInTheReadmeAreValid: the documents in the README match the schema.
func TestDocumentsInTheReadmeAreValid(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}

	documents := regexp.MustCompile("(?m)^ *mutation \\{.*\\}$|`mutation \\{[^`]*\\}`").FindAllString(string(readme), -1)
	if len(documents) < 3 {
		t.Fatalf("found %q", documents)
	}

	for _, text := range documents {
		text = regexp.MustCompile("^`|`$").ReplaceAllString(text, "")
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
