package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStartEqual checks that a process of the tests cannot raise its priority, also as root.
func TestStartEqual(t *testing.T) {
	t.Parallel()
	niceness := func(command ...string) string {
		var out bytes.Buffer
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdout = &out
		testkit.NoError(t, startEqual(cmd))
		testkit.NoError(t, cmd.Wait())
		return out.String()
	}

	if own, raised := niceness("nice"), niceness("nice", "-n", "-5", "nice"); own == "" || raised != own {
		t.Errorf("niceness %q, raised %q", own, raised)
	}
}
