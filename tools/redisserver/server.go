// Package redisserver starts private Redis servers and clusters on loopback. It never touches
// servers that it did not start.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/pgserver"
)

// ErrMissing is the error of a machine without redis-server.
var ErrMissing = errors.New("redis-server is not installed")

// Server is a Redis with a port of its own, which stays the same when the server is started again.
// It ends with this process. It is not safe for concurrent use.
type Server struct {
	port   int
	args   []string
	cmd    *exec.Cmd // nil while stopped
	client *redis.Client
}

// New chooses a port for a server with its files in dir and further arguments. Arguments that do
// not begin with a dash precede all others. It does not start the server; the caller closes it.
func New(dir string, args ...string) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	port, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}

	s := &Server{port: port}
	s.args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--loglevel", "warning")
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr()})
	return s, nil
}

// Addr returns host and port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's address, as the settings take it.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Start starts the server, and waits until it has read its data.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	cmd := exec.Command("redis-server", s.args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgserver.StartBound(cmd); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	s.cmd = cmd
	return await(ctx, "redis-server answers", func(ctx context.Context) bool { return s.client.Ping(ctx).Err() == nil })
}

// Kill kills the server. Data that is only in its memory is lost.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Pause suspends the process, and Resume continues it. Connections stay open and get no answer
// meanwhile.
func (s *Server) Pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Close kills the server for ever.
func (s *Server) Close() {
	s.Kill()
	_ = s.client.Close()
}

// await waits until a condition holds.
func await(ctx context.Context, what string, done func(context.Context) bool) error {
	for !done(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
