package repository

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLimitsDocument compares the numbers of docs/owner/limits.md with the constants named in its
// comments.
func TestLimitsDocument(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "owner", "limits.md"))
	testkit.NoError(t, err)

	constants := constantReader{root: root, packages: make(map[string]map[string]constantSource)}
	rows := regexp.MustCompile(`(?m)^\| ([^|]*) \| ([^|]*?) <!-- ?(\S+)\.(\w+)(?: (\w+))? ?-->`).FindAllStringSubmatch(string(text), -1)
	if marks := strings.Count(string(text), "<!--"); len(rows) != marks || marks < 50 {
		t.Fatalf("%d rows with a constant are read, of %d comments", len(rows), marks)
	}

	for _, row := range rows {
		what, cell, dir, name, unit := row[1], row[2], row[3], row[4], row[5]
		value, err := constants.value(dir, name)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}

		if want := shownLimit(value, unit,
			cell); !regexp.MustCompile(`(^|\D)` + regexp.QuoteMeta(want) + `($|[^\d,]|,\D)`).MatchString(cell) {
			t.Errorf("%s: the document has %q, %s.%s is %s", what, cell, dir, name, want)
		}
	}
}

// shownLimit is a constant's value as the document writes it, in the unit of the row's text.
func shownLimit(value int64, unit, cell string) string {
	switch {
	case unit == "year":
		return strconv.FormatInt(value, 10)
	case unit == "millionths":
		return grouped(value / 1_000_000)
	case strings.Contains(cell, " KB"):
		return grouped(value/1024) + " KB"
	}

	for _, u := range []struct {
		word string
		unit time.Duration
	}{
		{" days", 24 * time.Hour}, {" hours", time.Hour}, {" minutes", time.Minute}, {" second", time.Second},
		{" ms", time.Millisecond}, {" s", time.Second},
	} {
		if unit == "" && regexp.MustCompile(`\d`+u.word+`\b`).MatchString(cell) {
			return grouped(value/int64(u.unit)) + u.word
		}
	}

	return grouped(value)
}

// grouped writes a number with thousands separators.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// constantReader reads constants from the source of this repository's packages.
type constantReader struct {
	root     string
	packages map[string]map[string]constantSource // by folder and name
}

// constantSource is the expression of a constant, in the folder of its package, with the imports of
// its file by name.
type constantSource struct {
	expression ast.Expr
	imports    map[string]string
}

// value returns a whole constant.
func (c *constantReader) value(dir, name string) (int64, error) {
	v, err := c.named(dir, name)
	if err != nil {
		return 0, err
	}

	n, exact := constant.Int64Val(constant.ToInt(v))
	if !exact {
		return 0, fmt.Errorf("%s.%s is %s, not a whole number of 64 bits", dir, name, v)
	}

	return n, nil
}

func (c *constantReader) named(dir, name string) (constant.Value, error) {
	if err := c.load(dir); err != nil {
		return nil, err
	}

	source, ok := c.packages[dir][name]
	if !ok {
		return nil, fmt.Errorf("%s has no constant %s", dir, name)
	}

	return c.evaluate(dir, source, source.expression)
}

// load reads the constants of a package, once.
func (c *constantReader) load(dir string) error {
	if c.packages[dir] != nil {
		return nil
	}

	c.packages[dir] = make(map[string]constantSource)
	files, err := filepath.Glob(filepath.Join(c.root, dir, "*.go"))
	if err != nil {
		return err
	}

	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		c.add(dir, file)
	}

	return nil
}

func (c *constantReader) add(dir string, file *ast.File) {
	imports := make(map[string]string)
	for _, spec := range file.Imports {
		// The parser has validated it.
		path, _ := strconv.Unquote(spec.Path.Value)
		imports[path[strings.LastIndexByte(path, '/')+1:]] = strings.TrimPrefix(path, ourModule)
	}

	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}

		for _, spec := range group.Specs {
			values := spec.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i < len(values.Values) {
					c.packages[dir][name.Name] = constantSource{values.Values[i], imports}
				}
			}
		}
	}
}

var durations = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute,
	"Hour": time.Hour}

// evaluate computes a constant expression: numbers, other constants, conversions and operators.
func (c *constantReader) evaluate(dir string, source constantSource, expression ast.Expr) (constant.Value, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), nil
	case *ast.ParenExpr:
		return c.evaluate(dir, source, e.X)
	case *ast.Ident:
		return c.named(dir, e.Name)
	case *ast.CallExpr:
		// This is a conversion.
		return c.evaluate(dir, source, e.Args[0])
	case *ast.SelectorExpr:
		from := e.X.(*ast.Ident).Name
		if from == "time" {
			return constant.MakeInt64(int64(durations[e.Sel.Name])), nil
		}

		return c.named(source.imports[from], e.Sel.Name)
	case *ast.BinaryExpr:
		x, err := c.evaluate(dir, source, e.X)
		if err != nil {
			return nil, err
		}

		y, err := c.evaluate(dir, source, e.Y)
		if err != nil {
			return nil, err
		}

		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n)), nil
		}

		return constant.BinaryOp(x, e.Op, y), nil
	}

	return nil, fmt.Errorf("%s: a constant of the kind %T cannot be read", dir, expression)
}
