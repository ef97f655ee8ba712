package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/tools/testkit"
)

// event is one line of "go test -json"; see "go doc cmd/test2json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds, at the end of a test
}

// count is the number of tests by result.
type count struct {
	passed, failed, skipped int
}

func (c count) ran() int { return c.passed + c.failed }

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c *count) add(action string) {
	switch action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
	case "skip":
		c.skipped++
	}
}

// kind is a group of tests that needs more than Go.
type kind struct {
	name     string
	contains func(test string) bool // by the test's full name, such as TestHits/sqlite/quota
}

// kindsOf returns the groups of a run with a value of TALLYGATE_TEST_CITUS_URL (see package
// dbtest): a run on a Citus cluster is for the tests that use it. A short run leaves browsers out.
func kindsOf(citus string, short bool) []kind {
	switch {
	case citus != "":
		return []kind{{"on Citus", segment("postgres")}}
	case short:
		return kinds[:len(kinds)-1]
	default:
		return kinds
	}
}

// kinds are the groups of a run of all tests, browsers last.
var kinds = []kind{
	{"on SQLite", segment("sqlite")},
	{"on PostgreSQL", segment("postgres")},
	{"against real Redis", inName("RealRedis")},
	{"in Chromium", inName("Chromium")},
}

// segment matches tests with the name between two slashes. go test appends #01 and so on to
// repeated names.
func segment(name string) func(string) bool {
	return func(test string) bool {
		return slices.ContainsFunc(strings.Split(test, "/"), func(part string) bool {
			part, _, _ = strings.Cut(part, "#")
			return part == name
		})
	}
}

func inName(name string) func(string) bool {
	return func(test string) bool { return strings.Contains(test, name) }
}

// report collects events and prints packages as they end.
type report struct {
	out      io.Writer
	kinds    []kind
	running  map[string]*suite // by package
	total    count
	byKind   []count // as kinds
	left     int     // tests that -short leaves out
	onCitus  int     // tests that need a cluster
	slowest  []slow  // top-level tests, the slowest first, at most slowestListed
	skips    []string
	problems []string // reasons to fail other than failed tests

	leftTests map[leftTest]bool // see writeLeft
}

// slow is how long a test took.
type slow struct {
	seconds float64
	name    string // with its package
}

const slowestListed = 5

// suite is the state of one package until it ends.
type suite struct {
	name    string
	started []*test
	ended   []*test          // subtests before their parents
	current map[string]*test // by full name; the latest one when -count repeats tests
	output  []string         // of the package itself
}

// test is one test or subtest.
type test struct {
	name     string
	parent   *test
	action   string // result: pass, fail or skip; empty while it runs
	output   []string
	subtests bool
	below    map[string]bool // results of its subtests
}

func newReport(out io.Writer, kinds []kind) *report {
	return &report{
		out: out, kinds: kinds, running: make(map[string]*suite), byKind: make([]count, len(kinds)),
		leftTests: make(map[leftTest]bool),
	}
}

// read reads events until the end of the input. A line that is not an event is printed unchanged.
func (r *report) read(events io.Reader) error {
	// A Scanner would limit the length of a line.
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}

	// A benchmark is not a test, and no event marks its end.
	if e.Package == "" || strings.HasPrefix(e.Test, "Benchmark") {
		return
	}

	s := r.running[e.Package]
	if s == nil {
		s = &suite{name: e.Package, current: make(map[string]*test)}
		r.running[e.Package] = s
	}

	if e.Test == "" {
		switch e.Action {
		case "output":
			s.output = append(s.output, e.Output)
		case "pass", "fail", "skip":
			r.close(s, e.Action)
		}

		return
	}

	switch e.Action {
	case "run":
		s.start(e.Test)
	case "output":
		t := s.test(e.Test)
		t.output = append(t.output, e.Output)
	case "pass", "fail", "skip":
		s.end(s.test(e.Test), e.Action)
		if !strings.Contains(e.Test, "/") {
			r.time(slow{e.Elapsed, s.name + " " + e.Test})
		}
	}
}

// time adds a test to the slowest ones if it is one of them.
func (r *report) time(t slow) {
	at, _ := slices.BinarySearchFunc(r.slowest, t, func(a, b slow) int { return cmp.Compare(b.seconds, a.seconds) })
	r.slowest = slices.Insert(r.slowest, at, t)
	r.slowest = r.slowest[:min(len(r.slowest), slowestListed)]
}

func (s *suite) test(name string) *test {
	if t := s.current[name]; t != nil {
		return t
	}
	return s.start(name)
}

func (s *suite) start(name string) *test {
	t := &test{name: name, below: make(map[string]bool)}

	// A subtest's own name may contain slashes.
	for above := name; t.parent == nil && strings.Contains(above, "/"); {
		above = above[:strings.LastIndex(above, "/")]
		t.parent = s.current[above]
	}

	if t.parent != nil {
		t.parent.subtests = true
	}

	s.started, s.current[name] = append(s.started, t), t
	return t
}

func (s *suite) end(t *test, action string) {
	t.action = action
	if action == "pass" {
		t.output = nil
	}

	for above := t.parent; above != nil; above = above.parent {
		above.below[action] = true
	}

	s.ended = append(s.ended, t)
}

// close counts and prints a package that has ended.
func (r *report) close(s *suite, action string) {
	delete(r.running, s.name)

	for _, t := range slices.Backward(s.started) {
		if t.action == "" {
			t.output = append(t.output, fmt.Sprintf("--- FAIL: %s (it never ended)\n", t.name))
			s.end(t, "fail")
		}
	}

	failed := false
	for _, t := range s.ended {
		if t.action == "fail" {
			failed = true
			r.print(t.output)
		}

		if !t.subtests || t.action != "pass" && !t.below[t.action] {
			r.count(s, t)
		}
	}

	if action != "fail" {
		r.print(slices.DeleteFunc(s.output, func(line string) bool {
			return !strings.HasPrefix(line, "ok  ") && !strings.HasPrefix(line, "?   ")
		}))

		return
	}

	r.print(s.output)

	if !failed {
		r.total.failed++
		r.problems = append(r.problems, s.name+" failed without a failing test")
	}
}

func (r *report) count(s *suite, t *test) {
	why := ""
	if t.action == "skip" {
		switch why = reason(t.output); {
		case strings.HasPrefix(why, testkit.Long):
			r.leave(leftTest{s.name, t.name})
			return
		case strings.HasPrefix(why, testkit.OnCitus):
			r.onCitus++
			return
		}
	}
	r.total.add(t.action)

	for i, k := range r.kinds {
		if k.contains(t.name) {
			r.byKind[i].add(t.action)
		}
	}

	if t.action == "skip" {
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", s.name, t.name, why))
	}
}

// print prints output without go test's lines about starting and pausing.
func (r *report) print(output []string) {
	for _, line := range output {
		if !progress(line) {
			fmt.Fprint(r.out, line)
		}
	}
}

func progress(line string) bool { return strings.HasPrefix(line, "=== ") }

// place matches the file and line of a test's log entry.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason returns the last log entry of a skipped test.
func reason(output []string) string {
	var entry []string
	for _, line := range output {
		if progress(line) || strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
			continue
		}
		if at := place.FindString(line); at != "" {
			line, entry = line[len(at):], nil
		}

		entry = append(entry, strings.TrimSpace(line))
	}

	if text := strings.Join(entry, " "); text != "" {
		return text
	}

	return "no reason given"
}

// goTestFailed reports an error of go test itself, unless a failed test or package explains it.
func (r *report) goTestFailed(err error) {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		r.close(r.running[name], "fail")
	}
	if r.total.failed == 0 {
		r.problems = append(r.problems, fmt.Sprintf("go test: %v", err))
	}
}

// finish prints the table, the skips and the last line, and reports whether the run succeeded.
func (r *report) finish(ci bool) bool {
	fmt.Fprintf(r.out, "\n%-18s %7s %7s %8s\n", "tests", "passed", "failed", "skipped")

	for i, k := range r.kinds {
		c := r.byKind[i]
		fmt.Fprintf(r.out, "%-18s %7d %7d %8d\n", k.name, c.passed, c.failed, c.skipped)

		if ci && c.ran() == 0 {
			r.problems = append(r.problems, "CI=true, and no test ran "+k.name)
		}
	}

	for _, t := range r.slowest {
		if t.seconds >= 1 {
			fmt.Fprintf(r.out, "%6.1f s %s\n", t.seconds, t.name)
		}
	}
	for _, s := range r.skips {
		fmt.Fprintln(r.out, "skipped:", s)
	}
	if r.onCitus > 0 {
		fmt.Fprintf(r.out, "%d tests are left to make test-citus\n", r.onCitus)
	}
	if r.left > 0 {
		fmt.Fprintf(r.out, "%d tests are left to make test-all: browsers, loads, faults, foreign programs and the other database\n", r.left)
	}

	if ci && r.total.skipped > 0 {
		r.problems = append(r.problems, "CI=true, and tests were skipped")
	}
	if r.total.ran() == 0 {
		r.problems = append(r.problems, "no test ran")
	}

	for _, p := range r.problems {
		fmt.Fprintln(r.out, "problem:", p)
	}

	fmt.Fprintln(r.out, r.total)
	return r.total.failed == 0 && len(r.problems) == 0
}
