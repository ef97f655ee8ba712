// Package redistest provides tests with a real Redis: the server at TALLYGATE_TEST_REDIS_URL, or a
// private server started from the installed redis-server, which a test may kill and restart. Only
// tests import it.
package redistest

import (
	"errors"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/redisserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Server is a private Redis on loopback, without persistence. It is stopped when the test ends.
type Server struct {
	*redisserver.Server
	tb testing.TB
}

// New starts a private server. Without redis-server on the PATH the test is skipped, or fails if
// CI=true.
func New(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, "--appendonly", "no")
}

// start starts a private server with further arguments.
func start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	server, err := redisserver.New(tb.TempDir(), args...)
	must(tb, err)
	s := &Server{server, tb}
	tb.Cleanup(s.Close)
	s.Start()
	return s
}

// must ends the test at an error. Without redis-server it is skipped, or fails if CI=true.
func must(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, redisserver.ErrMissing) {
		testkit.Missing(tb, err.Error())
	}
	testkit.NoError(tb, err)
}

// URL returns the URL of a Redis for a test that does not stop it.
func URL(tb testing.TB) string {
	tb.Helper()
	if u := os.Getenv("TALLYGATE_TEST_REDIS_URL"); u != "" {
		return u
	}
	return New(tb).URL()
}

// Client returns a client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	s.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Start starts an empty server and waits until it answers.
func (s *Server) Start() {
	s.tb.Helper()
	must(s.tb, s.Server.Start(s.tb.Context()))
}
