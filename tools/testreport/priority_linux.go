package main

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startEqual starts a command without the right to raise a priority, also for its child processes.
// As root, Chromium would raise its own above the tests' servers, and these would then answer too
// late on a busy machine.
func startEqual(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		// The bounding set is a thread's own, and a child's is a copy of it. The thread ends with
		// the goroutine.
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0)
		if err == unix.EPERM {
			err = nil // without the right to drop it, the right itself is missing, too
		}
		if err != nil {
			started <- fmt.Errorf("keep the priority of processes: %w", err)
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}
