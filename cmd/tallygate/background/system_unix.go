//go:build unix

package background

import (
	"errors"
	"os"
	"os/exec"
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

// lowerPriority lowers the priority of all threads of this process, which must lead a process group. On
// Linux PRIO_PROCESS would reach the calling thread only.
func lowerPriority() error {
	err := syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness)
	// EACCES: the priority is lower already.
	if err != nil && !errors.Is(err, syscall.EACCES) {
		return os.NewSyscallError("setpriority", err)
	}
	return expectKill()
}
