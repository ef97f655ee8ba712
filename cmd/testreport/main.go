// Command testreport runs "go test -json" with its arguments and reports which tests ran:
//
//	go run ./cmd/testreport -race ./...
//
// It prints the output of failures in full, one line for every other package, and then the number
// of tests on SQLite, on PostgreSQL, against a real Redis and in Chromium, with the reason of each
// skip. The Makefile calls it, so that a run on a machine without one of these is visibly smaller.
//
// Counted are leaf tests: tests without subtests. Three cases count in addition, each as one, so
// that the last line never looks better than the run was: a test that failed or was skipped while
// none of its subtests did; a test that never ended, as failed; a package that failed without a
// failing test (it does not compile, its TestMain failed), as failed.
//
// The exit status is 1 if anything failed or nothing ran. With CI=true, where everything must be
// present, it is also 1 if a test was skipped or one of the four counts is zero. The last line is
// always "N passed, N failed, N skipped".
//
// gotestsum prints failures as well, but these counts, their reasons and the last line would still
// need nearly all of this program as a reader of its JSON.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, os.Getenv("CI") == "true"))
}

// run runs the tests and returns the exit status.
func run(args []string, stdout, stderr io.Writer, ci bool) int {
	r := newReport(stdout)
	if err := goTest(args, stderr, r); err != nil {
		r.goTestFailed(err)
	}
	if !r.finish(ci) {
		return 1
	}

	return 0
}

// goTest runs "go test -json" and passes its output to r.
func goTest(args []string, stderr io.Writer, r *report) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}

	if err := r.read(events); err != nil {
		// Otherwise it blocks while its output is not read.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("read its output: %w", err)
	}

	return cmd.Wait()
}
