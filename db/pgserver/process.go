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
// ends with this process whatever ends that. The signal is sent when the thread that started the
// command ends, so one thread starts all of them and stays.
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

// Ports that servers get: below those that Linux (from 32768) and others (from 49152) give to
// whoever asks for any. So no client's connection takes the port of a server while that is down,
// which a program that breaks servers would see soon.
const (
	firstPort = 20_000
	lastPort  = 32_767
)

// given are the ports that FreePort has returned in this process.
var given sync.Map

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on at the moment. It is different
// each time, and stays free for as long as nobody asks for exactly this one.
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
