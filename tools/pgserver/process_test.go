package pgserver_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStartBoundKeepsOneThread checks that ended commands leave no threads behind.
func TestStartBoundKeepsOneThread(t *testing.T) {
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		testkit.NoError(t, err)
		return len(all)
	}

	before := threads()
	const times = 50
	for range times {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		testkit.NoError(t, pgserver.StartBound(cmd))

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

// TestFreePort checks that no port is returned twice, also not in two processes at once, and none
// from the ephemeral range.
func TestFreePort(t *testing.T) {
	if os.Getenv("TALLYGATE_TEST_PORTS") != "" {
		takePorts(t)
		return
	}

	seen := make(map[int]bool)
	take := func(port int) {
		if seen[port] || port < 20_000 || port >= 32_768 {
			t.Fatalf("port %d; it came before: %v", port, seen[port])
		}
		seen[port] = true
	}

	child := exec.Command(os.Args[0], "-test.run=^TestFreePort$")
	child.Env = append(os.Environ(), "TALLYGATE_TEST_PORTS=1")
	input, _ := child.StdinPipe()
	output, _ := child.StdoutPipe()
	testkit.NoError(t, child.Start())
	defer child.Wait()
	defer input.Close()

	lines := bufio.NewScanner(output)
	for range portsOfChild {
		if !lines.Scan() {
			t.Fatal("the other process has ended")
		}
		port, err := strconv.Atoi(lines.Text())
		testkit.NoError(t, err)
		take(port)
	}

	for range 500 {
		port, err := pgserver.FreePort()
		testkit.NoError(t, err)
		take(port)
	}
}

// portsOfChild is a quarter of the range: of 500 ports that another process takes without regard,
// many would be among them.
const portsOfChild = 3_000

// takePorts prints ports and holds them until the standard input ends.
func takePorts(t *testing.T) {
	for range portsOfChild {
		port, err := pgserver.FreePort()
		testkit.NoError(t, err)
		fmt.Println(port)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
