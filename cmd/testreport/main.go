// Command testreport runs "go test -json" with the arguments it is given and says what really ran:
//
//	go run ./cmd/testreport -race ./...
//
// It prints the output of failures in full, one line for every other package, and then how many
// tests ran on SQLite, on PostgreSQL, against a real Redis and in Chromium, with the reason of each
// skip. The Makefile calls it, so that a machine that lacks one of them shows less, instead of a
// green line that means less.
//
// Counted are leaf tests: tests that have no subtests. Three things count beside them, each as one,
// so that the last line never looks better than the run was: a test that failed or was skipped
// while none of its subtests did; a test that never ended, as failed; a package that failed without
// a failing test (it does not compile, its TestMain failed), as failed.
//
// It exits with 1 when anything failed or nothing ran. With CI=true, where everything has to be
// there, also when a test was skipped or when one of the four counts is zero. The last line is
// always "N passed, N failed, N skipped".
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

// goTest gives what "go test -json" prints to r.
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
		// or it waits forever to be read
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("read its output: %w", err)
	}

	return cmd.Wait()
}
