package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/pgserver"
)

// Server is a tallygate or empty-handler process that can be killed and restarted. It listens on
// the same addresses after each start. It is not safe for concurrent use.
type Server struct {
	daemon
	program string // path
	args    []string
	Env     map[string]string // settings; the caller's own TALLYGATE_* variables are not inherited
	Control string            // host:port of the listeners
	Data    string

	// AddressSpace bounds the process's address space in bytes, so that it terminates before it
	// uses up the machine's memory. 0: unlimited.
	AddressSpace int64
}

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
		free, err := pgserver.FreeAddress()
		if err != nil {
			return nil, err
		}

		*address.value = free
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

	if err := s.start(cmd); err != nil {
		return err
	}
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

// awaitReady waits until all listeners report that they are ready.
func (s *Server) awaitReady(ctx context.Context) error {
	for _, addr := range s.listeners() {
		if err := s.await(ctx, func() bool { return isReady(ctx, addr) == nil }); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
	}
	return nil
}

// CheckReady returns what /readyz of each listener says unless the listener is ready.
func (s *Server) CheckReady(ctx context.Context) error {
	var all []error
	for _, addr := range s.listeners() {
		all = append(all, isReady(ctx, addr))
	}
	return errors.Join(all...)
}

// isReady returns an error with the answer unless a listener is ready.
func isReady(ctx context.Context, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}

	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode < 300 {
		return err
	}
	return fmt.Errorf("%s: %s %s", addr, response.Status, bytes.TrimSpace(body))
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

// Restart stops the server and starts it again.
func (s *Server) Restart(ctx context.Context) error { return errors.Join(s.Stop(), s.Start(ctx)) }

// RestartAs stops the server and starts it with other roles.
func (s *Server) RestartAs(ctx context.Context, roles string) error {
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

	addr, err := pgserver.FreeAddress()
	if err != nil {
		return nil, err
	}

	s := &Server{program: program, args: []string{"noop", "--addr", addr}, Data: addr}
	return s, s.Start(ctx)
}
