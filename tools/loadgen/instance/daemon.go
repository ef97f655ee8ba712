package instance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// StartPatience is the longest wait for a server to start or to stop.
const StartPatience = 60 * time.Second

// daemon is a process that can be killed, paused and started again. It ends with this program, also
// if this program is killed. It is not safe for concurrent use.
type daemon struct {
	cmd  *exec.Cmd // nil while stopped
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer // the last log lines
}

// start starts the process.
func (d *daemon) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := pgserver.StartBound(cmd); err != nil {
		return err
	}

	done := make(chan struct{})
	d.cmd, d.done = cmd, done
	go func() {
		defer close(done)
		d.readLog(logs)
		// Stop reads the exit status.
		_ = cmd.Wait()
	}()
	return nil
}

// await waits until the process is ready.
func (d *daemon) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, StartPatience)
	defer cancel()

	for !ready() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-d.done:
			return fmt.Errorf("%s terminated before it was ready:\n%s", d.cmd.Path, d.Logged())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready:\n%s", d.cmd.Path, d.Logged())
		}
	}
	return nil
}

// listens reports whether connections to an address are accepted.
func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// readLog reads the log to its end, with lines of any length. A full pipe would block the process.
func (d *daemon) readLog(logs io.Reader) {
	in := bufio.NewReader(logs)
	for {
		part, err := in.ReadSlice('\n')
		d.keep(part)

		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// keep appends to the kept log, and drops the oldest half when it is full.
func (d *daemon) keep(line []byte) {
	const most = 64 << 10
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log.Len() > most {
		d.log.Next(most / 2)
	}
	d.log.Write(line)
}

// Logged returns the end of the log.
func (d *daemon) Logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// Kill terminates the process immediately.
func (d *daemon) Kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	<-d.done
	d.cmd = nil
}

// Pause suspends the process, and Resume continues it.
func (d *daemon) Pause()  { _ = d.cmd.Process.Signal(syscall.SIGSTOP) }
func (d *daemon) Resume() { _ = d.cmd.Process.Signal(syscall.SIGCONT) }

// Ended reports whether the process terminated by itself.
func (d *daemon) Ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// Pid returns the process id, or 0 while the process is stopped.
func (d *daemon) Pid() int {
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}
