package pgserver_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// TestStartBoundKeepsOneThread checks that ended commands leave no threads behind.
func TestStartBoundKeepsOneThread(t *testing.T) {
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}

	before := threads()
	const times = 50
	for range times {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := pgserver.StartBound(cmd); err != nil {
			t.Fatal(err)
		}

		// The command is not killed: the thread that started it is still running.
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}

	if more := threads() - before; more > times/2 {
		t.Errorf("%d commands leave %d threads", times, more)
	}
	if err := pgserver.StartBound(exec.Command("/no/such/program")); err == nil {
		t.Error("a missing program was started")
	}
}

// TestFreePort checks that no port is returned twice, and none from the ephemeral range.
func TestFreePort(t *testing.T) {
	seen := make(map[int]bool)
	for range 500 {
		port, err := pgserver.FreePort()
		if err != nil || seen[port] || port < 20_000 || port >= 32_768 {
			t.Fatalf("port %d, %v; it came before: %v", port, err, seen[port])
		}

		seen[port] = true
	}
}
