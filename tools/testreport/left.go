package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
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
func (r *report) leave(s *suite, t *test) {
	r.left++
	r.leftTests[leftTest{s.name, t.name}] = true
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
