package pgserver

import (
	"net"
	"os/exec"
	"runtime"
)

// StartBound starts a command whose SysProcAttr asks for a signal when its parent dies, so that it ends with this process
// whatever ends that. The signal is sent when the thread that started the command ends, so that thread is kept.
func StartBound(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
