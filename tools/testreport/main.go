// Command testreport runs "go test -json" with its arguments and reports which tests ran:
//
//	go run ./tools/testreport -short ./...
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
// always "N passed, N failed, N skipped". Tests that -short leaves to "make test-all" (see package
// testkit) are not skipped: they are counted apart from the others. With TALLYGATE_TEST_CITUS_URL
// it counts the tests on Citus instead of the four.
//
// On Linux the tests' temporary files are in memory, below /dev/shm, if it has enough free space
// and neither TMPDIR nor GOTMPDIR is set. They are removed at the end, and after SIGINT, SIGTERM
// and SIGHUP, which stop the tests.
//
// Before the arguments, -left FILE writes the tests that -short leaves to a file, -later "PACKAGES"
// after it adds all tests of packages that are not among the arguments, and -only FILE runs the
// tests in such a file instead of packages.
//
// gotestsum prints failures as well, but these counts, their reasons and the last line would still
// need nearly all of this program as a reader of its JSON.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	scratch := newScratch("/dev/shm", os.Getenv)
	os.Exit(run(ctx, scratch, os.Args[1:], os.Stdout, os.Stderr, os.Getenv("CI") == "true"))
}

// patience is how long interrupted tests may take to end, and then their processes to let go of
// their files.
const patience = 10 * time.Second

// run runs the tests until ctx ends and returns the exit status. It gives them one PostgreSQL, and
// the folder scratch for temporary files, unless that is nil. Then it removes both.
func run(ctx context.Context, scratch *scratch, args []string, stdout, stderr io.Writer, ci bool) int {
	left, args := option("-left", args)
	later, args := option("-later", args)
	only, args := option("-only", args)
	r := newReport(stdout, kindsOf(os.Getenv("TALLYGATE_TEST_CITUS_URL"), slices.Contains(args, "-short")))
	env, dir := os.Environ(), ""
	if only != "" {
		var err error
		if only, err = filepath.Abs(only); err == nil {
			args, err = onlyLeft(only, args)
		}
		if err != nil {
			r.goTestFailed(err)
			return status(r.finish(ci))
		}
		env = append(env, testkit.LeftVariable+"="+only)
	}

	if scratch != nil {
		dir = scratch.dir
		env = append(env, "TMPDIR="+dir)
	}

	postgres, address, err := startPostgres(dir, os.Getenv)
	if err == nil {
		if postgres != nil {
			env = append(env, address)
		}
		err = goTest(ctx, args, env, stderr, r)
	}

	if postgres != nil {
		postgres.Stop()
	}
	if scratch != nil {
		err = errors.Join(err, scratch.remove(patience))
	}
	if left != "" {
		err = errors.Join(err, r.leavePackages(later), r.writeLeft(left))
	}
	if err != nil {
		r.goTestFailed(err)
	}

	return status(r.finish(ci))
}

// status is the exit status of a run.
func status(good bool) int {
	if good {
		return 0
	}
	return 1
}

// niceness is the priority of the tests, which is also the priority of the program's child process.
// On a busy machine a child of lower priority than the tests would get a tenth of a test's
// processor time, and not answer in time.
const niceness = 10

// goTest runs "go test -json" in an environment and passes its output to r. When ctx ends, it
// interrupts go test and the tests.
func goTest(ctx context.Context, args, env []string, stderr io.Writer, r *report) error {
	cmd := exec.Command("nice", append([]string{"-n", strconv.Itoa(niceness), "go", "test", "-json"}, args...)...)
	cmd.Env, cmd.Stderr = env, stderr

	// A group of its own gets each signal once, whether this process got it alone or, from a
	// terminal, with its whole group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := startEqual(cmd); err != nil {
		return err
	}

	ended := make(chan struct{})
	defer close(ended)
	go interrupt(ctx, cmd.Process.Pid, ended)

	if err = r.read(events); err != nil {
		// Otherwise it blocks while its output is not read.
		_ = cmd.Process.Kill()
		err = fmt.Errorf("read its output: %w", err)
	}

	return errors.Join(err, cmd.Wait())
}

// interrupt sends SIGINT to a process group when ctx ends, and SIGKILL when it is still there after
// patience. It returns at the latest when ended is closed.
func interrupt(ctx context.Context, group int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}

	_ = syscall.Kill(-group, syscall.SIGINT)

	select {
	case <-ended:
	case <-time.After(patience):
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}
