package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// maxMethods is how many methods a type has at most. A type with more has several subjects.
const maxMethods = 60

// TestLayoutMethods checks the number of methods of each type. Resolvers are left out: GraphQL
// prescribes a method for each field.
func TestLayoutMethods(t *testing.T) {
	t.Parallel()
	root := moduleRoot(t)

	methods := map[string]int{}
	for _, file := range goFiles(t, root) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file.path), nil, parser.ParseComments)
		testkit.NoError(t, err)
		if !file.isTest() && !ast.IsGenerated(parsed) {
			countMethods(methods, file.dir(), parsed)
		}
	}

	if methods["db/sites.Sites"] == 0 {
		t.Errorf("no method of db/sites.Sites was found among those of %d types", len(methods))
	}
	for name, n := range methods {
		if n > maxMethods && !strings.HasSuffix(strings.ToLower(name), "resolver") {
			t.Errorf("%s has %d methods, and a type has at most %d: divide it by subject", name, n, maxMethods)
		}
	}
}

// countMethods adds the methods of a file to the numbers by type.
func countMethods(methods map[string]int, dir string, file *ast.File) {
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Recv != nil {
			methods[dir+"."+receiverName(f.Recv.List[0].Type)]++
		}
	}
}

// receiverName returns the name of a receiver's type, without type parameters.
func receiverName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiverName(of.X)
	case *ast.IndexExpr:
		return receiverName(of.X)
	case *ast.IndexListExpr:
		return receiverName(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
