package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// reportOf reads recordings of "go test -json" (testdata/NAME.json) as the output of one run.
func reportOf(t *testing.T, ci bool, goTest error, recordings ...string) (output string, good bool) {
	t.Helper()

	var out bytes.Buffer
	r := newReport(&out, kinds)
	for _, name := range recordings {
		f, err := os.Open(filepath.Join("testdata", name+".json"))
		testkit.NoError(t, err)
		defer f.Close()

		testkit.NoError(t, r.read(f))
	}

	if goTest != nil {
		r.goTestFailed(goTest)
	}

	good = r.finish(ci)
	return out.String(), good
}

var errExit = errors.New("exit status 1")

func TestReport(t *testing.T) {
	tests := []struct {
		name       string
		recordings []string
		goTest     error
		ci         bool
		good       bool
		last       string
		wants      []string
		not        []string
	}{
		{
			name:       "everything passes",
			recordings: []string{"passes"}, good: true,
			last: "10 passed, 0 failed, 0 skipped",
			wants: []string{
				"ok  \texample.test/rec/good\t",
				"on SQLite                5       0        0\n",
				"on PostgreSQL            2       0        0\n",
				"against real Redis       1       0        0\n",
				"in Chromium              1       0        0\n",
			},
			not: []string{"===", "--- PASS", "a_test.go", "problem"},
		},
		{
			name:       "everything passes in CI",
			recordings: []string{"passes"}, ci: true, good: true,
			last: "10 passed, 0 failed, 0 skipped",
		},
		{
			name:       "failures are printed in full and counted at the leaf, or where they are",
			recordings: []string{"fails"}, goTest: errExit,
			last: "3 passed, 2 failed, 1 skipped",
			wants: []string{
				"    a_test.go:6: before\n    a_test.go:6: got 1,\n        want 2\n--- FAIL: TestTable/postgres (0.00s)\n--- FAIL: TestTable (0.00s)\n",
				"    a_test.go:11: the parent itself\n",
				"skipped: example.test/rec/bad TestSkippedAfterwards: only half of it\n",
				"on PostgreSQL            0       1        0\n",
				"on SQLite                2       0        0\n",
			},
			not: []string{"===", "problem"},
		},
		{
			name:       "a package that does not compile",
			recordings: []string{"passes", "does-not-compile"}, goTest: errExit,
			last: "10 passed, 1 failed, 0 skipped",
			wants: []string{
				"broken/a_test.go:5:28: undefined: undefined\n",
				"FAIL\texample.test/rec/broken [build failed]\n",
				"problem: example.test/rec/broken failed without a failing test\n",
			},
		},
		{
			name:       "a TestMain that fails",
			recordings: []string{"main-fails"}, goTest: errExit,
			last:  "1 passed, 1 failed, 0 skipped",
			wants: []string{"could not clean up\n", "problem: example.test/rec/dies failed without a failing test\n"},
		},
		{
			name:       "a test that never ends",
			recordings: []string{"hangs"}, goTest: errExit,
			last: "1 passed, 1 failed, 0 skipped",
			wants: []string{
				"panic: test timed out after 2s\n",
				"--- FAIL: TestHangs/sqlite (it never ended)\n",
				"on SQLite                0       1        0\n",
			},
		},
		{
			name:       "go test is killed",
			recordings: []string{"killed"}, goTest: errors.New("signal: killed"),
			last:  "0 passed, 1 failed, 0 skipped",
			wants: []string{"--- FAIL: TestHangs (it never ended)\n"},
		},
		{
			name:       "go test fails for a reason of its own",
			recordings: []string{"passes"}, goTest: errExit,
			last:  "10 passed, 0 failed, 0 skipped",
			wants: []string{"problem: go test: exit status 1\n"},
		},
		{
			name:       "skips are listed with their reasons",
			recordings: []string{"skips"}, good: true,
			last: "1 passed, 0 failed, 2 skipped",
			wants: []string{
				"skipped: example.test/rec/skips TestDB/sqlite: skipped: no disk\n",
				"skipped: example.test/rec/skips TestDB/postgres: no reason given\n",
				"on SQLite                0       0        1\n",
			},
		},
		{
			name:       "a skip in CI, where nothing ran on an engine",
			recordings: []string{"skips"}, ci: true,
			last: "1 passed, 0 failed, 2 skipped",
			wants: []string{
				"problem: CI=true, and tests were skipped\n",
				"problem: CI=true, and no test ran on SQLite\n",
				"problem: CI=true, and no test ran on PostgreSQL\n",
				"problem: CI=true, and no test ran against real Redis\n",
				"problem: CI=true, and no test ran in Chromium\n",
			},
		},
		{
			name:       "one skip is enough in CI",
			recordings: []string{"passes", "skips"}, ci: true,
			last:  "11 passed, 0 failed, 2 skipped",
			wants: []string{"problem: CI=true, and tests were skipped\n"},
			not:   []string{"no test ran"},
		},
		{
			name:       "a test that -short leaves out is no skip, even in CI",
			recordings: []string{"passes", "left"}, ci: true, good: true,
			last: "10 passed, 0 failed, 0 skipped",
			wants: []string{
				"1 tests are left to make test-citus", "1 tests are left to make test-all",
				"   2.5 s example.test/rec/left TestBrowser\n",
			},
			not: []string{"skipped: "},
		},
		{
			name:       "no tests",
			recordings: []string{"nothing"},
			last:       "0 passed, 0 failed, 0 skipped",
			wants:      []string{"problem: no test ran\n", "?   \texample.test/rec/empty\t[no test files]\n"},
		},
		{
			name:       "lines that are no events, and benchmarks",
			recordings: []string{"mixed"}, good: true,
			last:  "2 passed, 0 failed, 0 skipped",
			wants: []string{"this line is no event\n"},
			not:   []string{"BenchmarkX"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, good := reportOf(t, test.ci, test.goTest, test.recordings...)
			testkit.Equal(t, good, test.good, "good")

			lines := strings.Split(got, "\n")
			if last := lines[len(lines)-2]; last != test.last || !strings.HasSuffix(got, "\n") {
				t.Errorf("last line %q, want %q", last, test.last)
			}

			for _, want := range test.wants {
				if !strings.Contains(got, want) {
					t.Errorf("no %q", want)
				}
			}

			for _, not := range test.not {
				if strings.Contains(got, not) {
					t.Errorf("has %q", not)
				}
			}

			if t.Failed() {
				t.Logf("the report:\n%s", got)
			}
		})
	}
}

func TestKinds(t *testing.T) {
	tests := []struct {
		test string
		want string
	}{
		{"TestHits/sqlite", "[on SQLite]"},
		{"TestHits/a_case/sqlite/quota", "[on SQLite]"},
		{"TestHits/postgres#01", "[on PostgreSQL]"},
		{"TestRealRedisRestarts/postgres", "[on PostgreSQL against real Redis]"},
		{"TestChromiumPageview/sqlite", "[on SQLite in Chromium]"},
		{"TestURL/sqlite_file", "[]"},
		{"TestPostgresURL", "[]"},
	}
	for _, test := range tests {
		got := []string{}
		for _, k := range kinds {
			if k.contains(test.test) {
				got = append(got, k.name)
			}
		}

		testkit.Equal(t, fmt.Sprint(got), test.want, "%s counts as %v", test.test, got)
	}
}

// TestRun runs go test on a folder without Go files, which needs no compiler.
func TestRun(t *testing.T) {
	var out, stderr bytes.Buffer
	code := run(t.Context(), nil, []string{"./testdata"}, &out, &stderr, false)
	const want = "\n0 passed, 1 failed, 0 skipped\n"
	if code != 1 || !strings.HasSuffix(out.String(), want) {
		t.Errorf("exit status %d, want 1; last line wanted %q:\n%s%s", code, want, &out, &stderr)
	}
}
