package endpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestConsoleReportsAreCompressed checks that no document of the console asks for a report together
// with a field that keeps the answer from being compressed.
func TestConsoleReportsAreCompressed(t *testing.T) {
	files, err := filepath.Glob("../../frontend-assets/src/console/operations/*.graphql")
	testkit.NoError(t, err)
	var documents strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.NoError(t, err)
		documents.Write(text)
	}

	all, errs := gqlparser.LoadQueryWithRules(generated.NewExecutableSchema(generated.Config{}).Schema(), documents.String(), nil)
	if errs != nil {
		t.Fatal(errs)
	}
	reports := 0
	for _, operation := range all.Operations {
		report, secret := selected(operation.SelectionSet)
		if !report {
			continue
		}
		reports++
		if secret || operation.Operation != ast.Query || !isCompressible(operation) {
			t.Errorf("%s is not compressed", operation.Name)
		}
	}
	if reports < 5 {
		t.Errorf("%d documents of reports", reports)
	}
}
