// Command shape prints the shape of Go files, whose paths it reads from standard input, one a line:
//
//	functions with a parameter of a function type, of 10,000
//	lines of comments in bodies, of 10,000 lines of bodies
//	lines with a comment alone that are wider than 100 columns, a tab as 4
//	methods of the type with the most methods, without generated types; and of the next nine
//
// .ci/size calls it.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxWidth  = 100
	tabWidth  = 4
	wideTypes = 10 // types with the most methods
	perWhole  = 10_000
)

// shape has the counts of all files.
type shape struct {
	functions, withFunction int
	bodyLines, bodyComments int
	wideComments            int
	methods                 map[string]int // by folder and type
}

func main() {
	s := shape{methods: map[string]int{}}
	files := bufio.NewScanner(os.Stdin)
	for files.Scan() {
		if err := s.add(files.Text()); err != nil {
			fmt.Fprintln(os.Stderr, "shape:", err)
			os.Exit(1)
		}
	}

	fmt.Println(s.withFunction * perWhole / max(s.functions, 1))
	fmt.Println(s.bodyComments * perWhole / max(s.bodyLines, 1))
	fmt.Println(s.wideComments)
	fmt.Println(s.widest())
}

// add counts a file.
func (s *shape) add(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		return err
	}
	line := func(at token.Pos) int { return set.Position(at).Line }

	for text := range strings.Lines(string(source)) {
		comment := strings.TrimLeft(text, "\t")
		width := (len(text)-len(comment))*tabWidth + utf8.RuneCountInString(strings.TrimRight(comment, "\n"))
		if strings.HasPrefix(comment, "//") && width > maxWidth {
			s.wideComments++
		}
	}

	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			return true
		}

		s.functions++
		if takesFunction(f.Type.Params) {
			s.withFunction++
		}
		if f.Recv != nil {
			s.methods[filepath.Base(filepath.Dir(path))+"."+receiver(f.Recv.List[0].Type)]++
		}

		s.bodyLines += max(line(f.Body.End())-line(f.Body.Pos())-1, 0)
		for _, group := range file.Comments {
			if group.Pos() > f.Body.Pos() && group.End() < f.Body.End() {
				s.bodyComments += line(group.End()) - line(group.Pos()) + 1
			}
		}
		return true
	})
	return nil
}

// takesFunction reports whether the type of a parameter is a function.
func takesFunction(params *ast.FieldList) bool {
	return slices.ContainsFunc(params.List, func(field *ast.Field) bool {
		_, ok := field.Type.(*ast.FuncType)
		return ok
	})
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// widest writes the numbers of methods of the types with the most, resolvers aside: each mutation
// is a method of one resolver.
func (s *shape) widest() string {
	var names []string
	for name := range s.methods {
		if !strings.HasSuffix(strings.ToLower(name), "resolver") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return s.methods[b] - s.methods[a] })

	var text []string
	for _, name := range names[:min(wideTypes, len(names))] {
		text = append(text, fmt.Sprintf("%s:%d", name, s.methods[name]))
	}
	return strings.Join(text, ",")
}
