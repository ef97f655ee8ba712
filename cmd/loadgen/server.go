package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/pgserver"
)

// server is a program of ours that we start, break and start again: tallygate, or the empty
// handler. It listens on the same addresses after each start. It is not safe for concurrent use.
type server struct {
	program string // path
	args    []string
	env     map[string]string // settings, beside which nothing of our own TALLYGATE_* settings is passed on
	control string            // host:port of the listeners
	data    string

	cmd  *exec.Cmd // nil while it does not run
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer // the end of what it logged
}

// startPatience bounds the wait for a server to listen or to end.
const startPatience = 60 * time.Second

// newTallygate prepares a server whose data are in dir, or in the database when there is one.
func newTallygate(program, dir, databaseURL string) (*server, error) {
	s := &server{program: program, args: []string{"serve"}, env: map[string]string{
		"TALLYGATE_DATA_DIR":             dir,
		"TALLYGATE_DATABASE_URL":         databaseURL,
		"TALLYGATE_TRUSTED_PROXIES":      "127.0.0.1",  // visitors differ by X-Forwarded-For
		"TALLYGATE_FLOOD_BURST":          "1000000000", // out of reach, but its cost is measured
		"TALLYGATE_DEFAULT_SITE_PLAN":    "PRO_5M",
		"TALLYGATE_DEFAULT_CAPTCHA_PLAN": "ENTERPRISE",
		"TALLYGATE_CAPTCHA_DIFFICULTY":   "1024", // the solver shares the machine
		"TALLYGATE_ROLES":                "control,data",
		"TALLYGATE_LOG_FORMAT":           "json",
	}}
	for _, address := range []struct {
		name  string
		value *string
	}{{"TALLYGATE_CONTROL_ADDR", &s.control}, {"TALLYGATE_DATA_ADDR", &s.data}} {
		port, err := pgserver.FreePort()
		if err != nil {
			return nil, err
		}

		*address.value = fmt.Sprintf("127.0.0.1:%d", port)
		s.env[address.name] = *address.value
	}

	return s, nil
}

// start starts the program and waits until it is ready.
func (s *server) start(ctx context.Context) error {
	cmd := exec.Command(s.program, s.args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALLYGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}

	for name, value := range s.env {
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
		// how it ended is for those who wait for it
		_ = cmd.Wait()
	}()

	return s.awaitReady(ctx)
}

// readLog reads all that the server logs, also lines of any length: a server whose log nobody reads
// stands still.
func (s *server) readLog(logs io.Reader) {
	in := bufio.NewReader(logs)
	for {
		part, err := in.ReadSlice('\n')
		s.keep(part)

		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// keep keeps a log line or a part of one, and forgets the oldest half when there is too much.
func (s *server) keep(line []byte) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log.Len() > most {
		s.log.Next(most / 2)
	}
	s.log.Write(line)
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// awaitReady waits until all listeners say that they are ready.
func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
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
				return fmt.Errorf("%s ended before it was ready:\n%s", s.program, s.logged())
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready at %s:\n%s", s.program, addr, s.logged())
			}
		}
	}

	return nil
}

// listeners are the addresses of the roles that the server has.
func (s *server) listeners() []string {
	var all []string
	roles := s.env["TALLYGATE_ROLES"]
	if s.control != "" && strings.Contains(roles, "control") {
		all = append(all, s.control)
	}
	if s.control == "" || strings.Contains(roles, "data") {
		all = append(all, s.data)
	}

	return all
}

// restart starts the server anew with other roles.
func (s *server) restart(ctx context.Context, roles string) error {
	if err := s.stop(); err != nil {
		return err
	}
	s.env["TALLYGATE_ROLES"] = roles
	return s.start(ctx)
}

// stop lets the server finish what it has begun, and waits for its end. A server that does not end
// properly is an error.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}

	cmd := s.cmd
	_ = cmd.Process.Signal(syscall.SIGTERM)

	select {
	case <-s.done:
		s.cmd = nil
	case <-time.After(startPatience):
		s.kill()
		return fmt.Errorf("%s did not end within %v:\n%s", s.program, startPatience, s.logged())
	}

	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with status %d:\n%s", s.program, code, s.logged())
	}

	return nil
}

// kill ends the server at once.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// ended reports whether the server ended by itself.
func (s *server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// pause stops the server's processor time, and resume gives it back.
func (s *server) pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *server) resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *server) pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// target is the server as a load's target, with an account that nobody has.
func (s *server) target() target {
	t := target{Control: "http://" + s.control, Data: s.data}
	t.newcomer()
	return t
}

// bench is everything that a measurement on this machine needs: a folder, a database and a server.
type bench struct {
	dir      string
	postgres *pgserver.Server // nil on SQLite
	database string           // address, as the db package takes it
	server   *server
}

// newBench makes a fresh database of an engine, sqlite or postgres, and a server that is not
// started yet.
func newBench(program, engine string) (_ *bench, err error) {
	b := &bench{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()

	if b.dir, err = os.MkdirTemp("", "tallygate-load-"); err != nil {
		return nil, err
	}

	serverURL := ""

	if engine == "postgres" {
		bin, err := pgserver.Bin()
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL's server programs are not installed: %w", err)
		}
		if b.postgres, err = pgserver.Start(bin, pgserver.Options{Durable: true}); err != nil {
			return nil, err
		}

		serverURL = b.postgres.URL()
	}

	b.database = serverURL
	data := filepath.Join(b.dir, "data")

	if b.database == "" {
		b.database = db.EmbeddedURL(data)
	}

	b.server, err = newTallygate(program, data, serverURL)
	return b, err
}

// withDatabase opens the bench's database for a moment.
func (b *bench) withDatabase(do func(*db.DB) error) error {
	d, err := db.Open(b.database)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// close ends everything and removes it.
func (b *bench) close() {
	if b.server != nil {
		b.server.kill()
	}
	if b.postgres != nil {
		b.postgres.Stop()
	}
	_ = os.RemoveAll(b.dir)
}

// startNoop starts the empty handler as a process of its own.
func startNoop(ctx context.Context) (*server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}

	port, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}

	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := &server{program: program, args: []string{"noop", "--addr", addr}, data: addr}
	return s, s.start(ctx)
}
