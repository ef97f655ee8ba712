package pgserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"sync"
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

// FreePort returns a TCP port of 127.0.0.1 that no process listens on. It never returns a port
// twice. The port stays free unless another process asks for exactly this one.
func FreePort() (int, error) {
	var all error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, old := given.LoadOrStore(port, true); old {
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
