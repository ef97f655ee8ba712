//go:build unix

package background

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// niceness is the priority of the child: 19 is the lowest, and 0 the usual one.
const niceness = 10

// detach lets a command inherit a file, and returns the file's descriptor in it. The child leads a
// process group: a terminal signals the parent alone, and lowerPriority reaches each thread.
func detach(cmd *exec.Cmd, file *os.File) uintptr {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{file}
	return 3
}

// lowerPriority lowers the priority of all threads of this process, which must lead a process
// group. On Linux PRIO_PROCESS would reach the calling thread only. A priority that is lower
// already stays.
func lowerPriority() error {
	// Linux alone answers 20 less the priority. Elsewhere root may get a higher priority here.
	if raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil && runtime.GOOS == "linux" && 20-raw >= niceness {
		return expectKill()
	}

	err := syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness)
	// EACCES: the priority is lower already.
	if err != nil && !errors.Is(err, syscall.EACCES) {
		return os.NewSyscallError("setpriority", err)
	}
	return expectKill()
}
