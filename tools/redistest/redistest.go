// Package redistest provides tests with a real Redis: the server at TALLYGATE_TEST_REDIS_URL, or a
// private server started from the installed redis-server, which a test may kill and restart. Only
// tests import it.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// patience bounds the wait for a server to answer.
const patience = 20 * time.Second

// Server is a private Redis on loopback, without persistence. It is stopped when the test ends.
type Server struct {
	tb   testing.TB
	port int
	cmd  *exec.Cmd
}

// New starts a private server. Without redis-server on the PATH the test is skipped, or fails if
// CI=true.
func New(tb testing.TB) *Server {
	tb.Helper()

	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(tb, "redis-server is not installed")
	}

	port, err := dbtest.FreePort()
	if err != nil {
		tb.Fatal(err)
	}

	s := &Server{tb: tb, port: port}
	s.Start()
	tb.Cleanup(s.Kill)

	return s
}

// URL returns the URL of a Redis for a test that does not stop it.
func URL(tb testing.TB) string {
	tb.Helper()
	if u := os.Getenv("TALLYGATE_TEST_REDIS_URL"); u != "" {
		return u
	}
	return New(tb).URL()
}

// URL returns the server's URL, which does not change when the server is restarted.
func (s *Server) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

// Client returns a client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.port)})
	s.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Start starts an empty server and waits until it answers.
func (s *Server) Start() {
	s.tb.Helper()

	s.cmd = exec.Command("redis-server", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.tb.TempDir(), "--loglevel", "warning")

	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := dbtest.StartBound(s.cmd); err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}

	client := s.Client()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	for client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			s.tb.Fatalf("redis-server does not answer on port %d", s.port)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill kills the server. Its data is lost.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Pause suspends the server's process: connections stay open and get no answer.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server. Its data is kept.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.tb.Fatal(err)
	}
}
