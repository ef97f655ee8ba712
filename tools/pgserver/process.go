package pgserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// StartBound starts a command whose SysProcAttr asks for a signal when its parent dies, so that it
// ends with this process even after a kill. The signal is sent when the thread that started the
// command ends. So one thread starts all commands and never ends.
func StartBound(cmd *exec.Cmd) error {
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}

// starter runs functions on a thread of its own, one after the other.
var starter = sync.OnceValue(func() chan<- func() {
	functions := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range functions {
			f()
		}
	}()

	return functions
})

// The range of the servers' ports. It lies below the ephemeral ports of Linux (from 32768) and of
// other systems (from 49152). So no client's connection takes the port of a server that is down for
// a while.
const (
	firstPort = 20_000
	lastPort  = 32_767
)

// given holds the ports that FreePort has returned in this process.
var given sync.Map

// claims opens the file in which each process locks one byte for each of its ports.
var claims = sync.OnceValues(func() (*os.File, error) {
	return os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("tallygate-ports-%d", os.Getuid())), os.O_RDWR|os.O_CREATE, 0o600)
})

// claim locks the byte of a port until this process ends. It returns false if another process holds
// the lock.
func claim(port int) (bool, error) {
	file, err := claims()
	if err != nil {
		return false, err
	}

	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
	err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}

	return err == nil, err
}

// FreePort returns a TCP port of 127.0.0.1 that no process listens on. It returns a port once, and
// none that it returned in another process that still runs. So the port stays free until the caller
// uses it, however late that is.
func FreePort() (int, error) {
	var all error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, old := given.LoadOrStore(port, true); old {
			continue
		}

		if ours, err := claim(port); err != nil {
			return 0, err
		} else if !ours {
			continue
		}

		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}

		all = errors.Join(all, err)
	}

	return 0, errors.Join(errors.New("no port is free"), all)
}

// FreeAddress returns host:port of a port from FreePort.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
