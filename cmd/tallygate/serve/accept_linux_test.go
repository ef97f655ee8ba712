package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

// testServer returns a server that answers with "stored", and that does not run yet.
func testServer(t *testing.T) *server {
	t.Helper()
	s, err := listen("data", "127.0.0.1:0", new(config.Origin))
	testkit.NoError(t, err)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "stored") })
	t.Cleanup(func() { s.listener.Close() })
	return s
}

// connect returns a connection on which a text was written.
func (s *server) connect(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	testkit.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestStopAccepting: requests on connections that wait in the kernel's queue or have not been read
// when a server stops are answered. Later attempts to connect are refused.
func TestStopAccepting(t *testing.T) {
	t.Parallel()

	const head, rest = "GET / HTTP/1.0\r\n", "Host: localhost\r\n\r\n"
	s := testServer(t)
	whole, half := s.connect(t, head+rest), s.connect(t, head)
	if n, err := waitingConnections(s.listener); err != nil || n != 2 {
		t.Fatalf("%d connections wait, %v; want 2", n, err)
	}

	testkit.NoError(t, refuseConnections(s.listener))
	if _, err := net.Dial("tcp", s.listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("an attempt to connect: %v, want a refusal", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stopped, ran := make(chan error, 1), make(chan error, 1)
	go func() { stopped <- s.stopAccepting(ctx) }()
	go func() { ran <- s.run() }()

	testkit.Succeeds(t, <-ran, "run")

	select {
	case err := <-stopped:
		t.Fatalf("the server stops before it has read a request: %v", err)
	default:
	}
	if _, err := io.WriteString(half, rest); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, <-stopped, "stopAccepting")
	testkit.Succeeds(t, s.Shutdown(ctx), "Shutdown")

	for name, conn := range map[string]net.Conn{"whole": whole, "half": half} {
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), "\r\n\r\nstored") {
			t.Errorf("the answer to the %s request: %q, %v", name, answer, err)
		}
	}
}

// TestStopAcceptingEnds: neither a server that accepts nothing nor a client that sends nothing
// keeps a process from stopping.
func TestStopAcceptingEnds(t *testing.T) {
	t.Parallel()

	idle := testServer(t)
	idle.connect(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 2*handshakeTime)
	defer cancel()
	testkit.ErrorIs(t, idle.stopAccepting(ctx), context.DeadlineExceeded, "a server that accepts nothing")

	s := testServer(t)
	s.connect(t, "")
	ran := make(chan error, 1)
	go func() { ran <- s.run() }()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Succeeds(t, s.stopAccepting(ctx), "a client that sends nothing")
	testkit.Succeeds(t, <-ran, "run")
}
