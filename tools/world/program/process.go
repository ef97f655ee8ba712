package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// Patience is the longest wait for a process. Under load, a child process of low priority needs
// long to start.
const Patience = 2 * time.Minute

// Process is a running tallygate.
type Process struct {
	TB   testing.TB
	Cmd  *exec.Cmd
	Done chan struct{}     // closed after the process has terminated and its output was read
	Out  *bytes.Buffer     // standard output; read it after Done
	Addr map[string]string // host and port by role, such as "control"

	mu        sync.Mutex
	log       bytes.Buffer
	listening chan listening
}

// listening is the line of the log that reports a listener.
type listening struct{ Msg, Role, Addr string }

// Start starts the program with arguments and settings as of Command, and waits until it listens
// for the roles. The end of the test kills it. A report of the race detector fails the test.
func Start(tb testing.TB, file string, settings map[string]string, roles []string, args ...string) *Process {
	tb.Helper()

	p := &Process{TB: tb, Cmd: Command(file, settings, args...), Done: make(chan struct{}), Out: &bytes.Buffer{},
		Addr: make(map[string]string), listening: make(chan listening, 100)}
	logs, err := p.Cmd.StderrPipe()
	testkit.NoError(tb, err)

	p.Cmd.Stdout = p.Out
	testkit.NoError(tb, p.Cmd.Start())

	go p.follow(logs)
	tb.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		if log := p.Log(); strings.Contains(log, "WARNING: DATA RACE") {
			tb.Errorf("tallygate has a data race:\n%s", log)
		}
	})

	p.awaitListeners(roles)
	return p
}

// awaitListeners waits for a listener of each role, and for two if the role is there twice.
func (p *Process) awaitListeners(roles []string) {
	p.TB.Helper()

	missing := slices.Clone(roles)
	for len(missing) > 0 {
		select {
		case l := <-p.listening:
			p.Addr[l.Role] = l.Addr
			if i := slices.Index(missing, l.Role); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			}
		case <-p.Done:
			p.TB.Fatalf("tallygate ended before it listened:\n%s", p.Log())
		case <-time.After(Patience):
			p.TB.Fatalf("tallygate does not listen as %v after %v:\n%s", missing, Patience, p.Log())
		}
	}
}

// Command returns a command of the program, or of another file unless it is "", with only the given
// settings, on free ports of loopback and with a log in JSON. Settings are environment variables.
func Command(file string, settings map[string]string, args ...string) *exec.Cmd {
	var err error
	if file == "" {
		file, err = Path()
	}

	cmd := exec.Command(file, args...)
	if err != nil {
		// The start returns it.
		cmd.Err = err
	}

	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALLYGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}

	all := map[string]string{
		"TALLYGATE_CONTROL_ADDR": "127.0.0.1:0",
		"TALLYGATE_DATA_ADDR":    "127.0.0.1:0",
		"TALLYGATE_LOG_FORMAT":   "json",
	}
	maps.Copy(all, settings)
	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// follow reads the log until the process ends.
func (p *Process) follow(logs io.Reader) {
	defer close(p.Done)

	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()

		var l listening
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
			select {
			case p.listening <- l:
			default: // a child that starts again and again
			}
		}
	}

	// Tests read ProcessState.
	_ = p.Cmd.Wait()
}

// Log returns the log so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Signal sends a signal and waits for the process to terminate.
func (p *Process) Signal(s syscall.Signal) {
	p.TB.Helper()

	// The process may have terminated by itself.
	_ = p.Cmd.Process.Signal(s)

	select {
	case <-p.Done:
	case <-time.After(Patience):
		p.TB.Fatalf("tallygate still runs %v after %v:\n%s", Patience, s, p.Log())
	}
}
