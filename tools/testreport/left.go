package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// option returns the value of an option, if the arguments begin with it, and the other arguments.
func option(name string, args []string) (value string, rest []string) {
	if len(args) < 2 || args[0] != name {
		return "", args
	}
	return args[1], args[2:]
}

// leftTest is a test, or a subtest, that -short leaves to a later run.
type leftTest struct{ suite, name string }

// leave notes that a test is left to a later run.
func (r *report) leave(left leftTest) {
	r.left++
	r.leftTests[left] = true
}

// leavePackages notes that all tests of packages are left to a later run. It reads their names from
// the sources, because Go links a package to list its tests. Patterns are separated by spaces.
func (r *report) leavePackages(patterns string) error {
	if patterns == "" {
		return nil
	}
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, strings.Fields(patterns)...)...)
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages of a later run: %w", err)
	}

	for packages := json.NewDecoder(strings.NewReader(string(output))); ; {
		var one struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := packages.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}

		for _, file := range slices.Concat(one.TestGoFiles, one.XTestGoFiles) {
			names, err := testsOf(filepath.Join(one.Dir, file))
			if err != nil {
				return err
			}
			for _, name := range names {
				r.leave(leftTest{one.ImportPath, name})
			}
		}
	}
}

// testsOf returns the names of a file's tests and fuzz tests.
func testsOf(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}

	for _, declared := range parsed.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name == "TestMain" {
			continue
		}
		if strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// writeLeft writes the tests that are left to a file: a package and a name on each line.
func (r *report) writeLeft(file string) error {
	var lines []string
	for left := range r.leftTests {
		lines = append(lines, left.suite+" "+left.name+"\n")
	}
	slices.Sort(lines)
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644)
}

// onlyLeft returns the arguments of go test for the tests in a file of writeLeft. One expression
// selects the functions of all packages: a function of that name in another one of them runs again.
// Of a function's databases only those that are left run, see testkit.RanBefore.
// Packages that take longest start first, so that none of them runs alone at the end.
func onlyLeft(file string, args []string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	suites, names := make(map[string]int), make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		suite, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("%s: a line without a test: %q", file, line)
		}
		function, _, _ := strings.Cut(name, "/")
		names[function] = true
		suites[suite] += weight(name)
	}

	order := slices.SortedFunc(maps.Keys(suites), func(a, b string) int {
		return cmp.Or(suites[b]-suites[a], strings.Compare(a, b))
	})

	run := "^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	return slices.Concat(args, []string{"-run", run}, order), nil
}

// weight estimates how long a test takes: a browser or a load much longer than another database.
func weight(test string) int {
	if strings.HasSuffix(test, "/sqlite") || strings.HasSuffix(test, "/postgres") {
		return 1
	}
	return 30
}
