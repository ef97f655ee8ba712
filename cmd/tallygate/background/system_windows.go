package background

import (
	"os"
	"os/exec"
	"syscall"
)

// belowNormal is BELOW_NORMAL_PRIORITY_CLASS of CreateProcess.
const belowNormal = 0x4000

// detach lets a command inherit a file, and returns the file's handle in it. The child has a lower
// priority and gets no Ctrl+C.
func detach(cmd *exec.Cmd, file *os.File) uintptr {
	handle := syscall.Handle(file.Fd())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags:              syscall.CREATE_NEW_PROCESS_GROUP | belowNormal,
		AdditionalInheritedHandles: []syscall.Handle{handle},
	}

	// The start reports a handle that cannot be inherited.
	_ = syscall.SetHandleInformation(handle, syscall.HANDLE_FLAG_INHERIT, 1)
	return uintptr(handle)
}

// lowerPriority does nothing: detach has set the priority.
func lowerPriority() error { return expectKill() }
