package instance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/pgserver"
)

// Server is a tallygate or empty-handler process that can be killed and restarted. It listens on
// the same addresses after each start. It is not safe for concurrent use.
type Server struct {
	program string // path
	args    []string
	Env     map[string]string // settings; the caller's own TALLYGATE_* variables are not inherited
	Control string            // host:port of the listeners
	Data    string

	// AddressSpace bounds the process's address space in bytes, so that it terminates before it
	// uses up the machine's memory. 0: unlimited.
	AddressSpace int64

	cmd  *exec.Cmd // nil while stopped
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer // the last log lines
}

// StartPatience is the longest wait for a server to start or to stop.
const StartPatience = 60 * time.Second

// NewServer prepares a tallygate server with its data in dir, or in the database at databaseURL
// unless that is empty.
func NewServer(program, dir, databaseURL string) (*Server, error) {
	s := &Server{program: program, args: []string{"serve"}, Env: map[string]string{
		"TALLYGATE_DATA_DIR":             dir,
		"TALLYGATE_DATABASE_URL":         databaseURL,
		"TALLYGATE_TRUSTED_PROXIES":      "127.0.0.1",  // visitors differ in X-Forwarded-For
		"TALLYGATE_FLOOD_BURST":          "1000000000", // never reached, but its cost is measured
		"TALLYGATE_SERVER_FLOOD_BURST":   "1000000000", // likewise
		"TALLYGATE_DEFAULT_SITE_PLAN":    "PRO_5M",
		"TALLYGATE_DEFAULT_CAPTCHA_PLAN": "ENTERPRISE",
		"TALLYGATE_CAPTCHA_DIFFICULTY":   "1024", // the solver shares the cores
		"TALLYGATE_ROLES":                "control,data",
		"TALLYGATE_LOG_FORMAT":           "json",
	}}
	for _, address := range []struct {
		name  string
		value *string
	}{{"TALLYGATE_CONTROL_ADDR", &s.Control}, {"TALLYGATE_DATA_ADDR", &s.Data}} {
		port, err := pgserver.FreePort()
		if err != nil {
			return nil, err
		}

		*address.value = fmt.Sprintf("127.0.0.1:%d", port)
		s.Env[address.name] = *address.value
	}

	return s, nil
}

// Start starts the program and waits until it is ready.
func (s *Server) Start(ctx context.Context) error {
	cmd := s.command()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALLYGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}

	for name, value := range s.Env {
		if value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := pgserver.StartBound(cmd); err != nil {
		return err
	}

	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() {
		defer close(done)
		s.readLog(logs)
		// stop reads the exit status.
		_ = cmd.Wait()
	}()

	return s.awaitReady(ctx)
}

// command returns the command that starts the program. With a bound of its address space a shell
// sets the bound and becomes the program.
func (s *Server) command() *exec.Cmd {
	if s.AddressSpace <= 0 {
		return exec.Command(s.program, s.args...)
	}

	kilobytes := strconv.FormatInt(s.AddressSpace>>10, 10)
	args := append([]string{"-c", `ulimit -v "$0" && exec "$@"`, kilobytes, s.program}, s.args...)
	return exec.Command("/bin/sh", args...)
}

// readLog reads the server's log to its end, with lines of any length. A full pipe would block the
// server.
func (s *Server) readLog(logs io.Reader) {
	in := bufio.NewReader(logs)
	for {
		part, err := in.ReadSlice('\n')
		s.keep(part)

		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// keep appends to the kept log, and drops the oldest half when it is full.
func (s *Server) keep(line []byte) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log.Len() > most {
		s.log.Next(most / 2)
	}
	s.log.Write(line)
}

// Logged returns the end of the server's log.
func (s *Server) Logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// awaitReady waits until all listeners report that they are ready.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartPatience)
	defer cancel()

	client := http.Client{Timeout: 5 * time.Second}

	for _, addr := range s.listeners() {
		for {
			response, err := client.Get("http://" + addr + "/readyz")
			if err == nil {
				_ = response.Body.Close()

				if response.StatusCode < 300 {
					break
				}
			}

			select {
			case <-time.After(5 * time.Millisecond):
			case <-s.done:
				return fmt.Errorf("%s terminated before it was ready:\n%s", s.program, s.Logged())
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready at %s:\n%s", s.program, addr, s.Logged())
			}
		}
	}

	return nil
}

// listeners returns the addresses of the server's roles, and the address of its health, if any.
func (s *Server) listeners() []string {
	var all []string
	roles := s.Env["TALLYGATE_ROLES"]
	if health := s.Env["TALLYGATE_HEALTH_ADDR"]; health != "" {
		all = append(all, health)
	}
	if s.Control != "" && strings.Contains(roles, "control") {
		all = append(all, s.Control)
	}
	if s.Control == "" || strings.Contains(roles, "data") {
		all = append(all, s.Data)
	}

	return all
}

// Restart stops the server and starts it with other roles.
func (s *Server) Restart(ctx context.Context, roles string) error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.Env["TALLYGATE_ROLES"] = roles
	return s.Start(ctx)
}

// Stop lets the server finish its work, and waits for its end. It returns an error if the server
// does not stop in time, or with a status other than 0.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil
	}

	cmd := s.cmd
	_ = cmd.Process.Signal(syscall.SIGTERM)

	select {
	case <-s.done:
		s.cmd = nil
	case <-time.After(StartPatience):
		s.Kill()
		return fmt.Errorf("%s did not stop within %v:\n%s", s.program, StartPatience, s.Logged())
	}

	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s exited with status %d:\n%s", s.program, code, s.Logged())
	}

	return nil
}

// Kill terminates the server immediately.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Ended reports whether the server terminated by itself.
func (s *Server) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Pause suspends the server, and Resume continues it.
func (s *Server) Pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Pid returns the server's process id, or 0 while it is stopped.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Target returns the server as a load's target, with the address of a new account.
func (s *Server) Target() target.Target {
	t := target.Target{Control: "http://" + s.Control, Data: s.Data}
	t.UseNewAccount()
	return t
}

// StartNoop starts the empty handler in a process of its own.
func StartNoop(ctx context.Context) (*Server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}

	port, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}

	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := &Server{program: program, args: []string{"noop", "--addr", addr}, Data: addr}
	return s, s.Start(ctx)
}
