package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// handshakeTime is the wait for handshakes that are in progress when a process stops. It is
	// longer than the round trip to a load balancer.
	handshakeTime = 100 * time.Millisecond

	// arrivalTime bounds the wait for requests on the connections that these handshakes opened.
	arrivalTime = time.Second
)

// server is a listener with its server. Use it as a pointer.
type server struct {
	*http.Server
	listener net.Listener
	url      string // the public origin
	overTLS  bool   // TLSConfig has the certificates

	arriving atomic.Int64  // accepted connections whose first request has not reached the handler
	accepted chan struct{} // closed after the last connection was accepted
}

// run serves until the listener closes.
func (s *server) run() error {
	defer close(s.accepted)

	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(arrivalKey{}).(*arrival); ok {
			c.arrived()
		}
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if secure, ok := conn.(*tls.Conn); ok {
			conn = secure.NetConn()
		}
		return context.WithValue(ctx, arrivalKey{}, conn)
	}

	accepting := &arrivals{s.listener, &s.arriving}
	serve := s.Serve
	if s.overTLS {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}

	err := serve(accepting)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// arrivals is a listener that counts connections from their acceptance to their first request.
type arrivals struct {
	net.Listener
	count *atomic.Int64
}

// Accept returns an *arrival.
func (l *arrivals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}

	l.count.Add(1)
	return &arrival{TCPConn: conn.(*net.TCPConn), count: l.count}, nil
}

// arrival is a connection that counts until its first request or its end.
type arrival struct {
	*net.TCPConn // with its methods for large responses
	count        *atomic.Int64
	once         sync.Once
}

// arrivalKey is the context key of an *arrival.
type arrivalKey struct{}

func (c *arrival) arrived() { c.once.Do(func() { c.count.Add(-1) }) }

// Close closes the connection.
func (c *arrival) Close() error {
	c.arrived()
	return c.TCPConn.Close()
}

// stopAccepting closes the listeners so that no request is lost, although a load balancer may send
// requests on new connections until then. Two kinds of requests are lost by a plain Shutdown: those
// on connections that wait in the kernel's queue, which it resets, and those that net/http reads
// after the call of Shutdown, which it drops. A load balancer must not send them again, because it
// cannot know that they were not executed.
//
// Further attempts to connect are refused, so the load balancer knows that nothing was sent.
// Systems other than Linux reset connections that wait.
func (a *App) stopAccepting() {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime+arrivalTime)
	defer cancel()

	var group sync.WaitGroup
	for role, s := range a.servers() {
		group.Go(func() {
			if err := s.stopAccepting(ctx); err != nil {
				a.log.Warn("requests on new connections may be lost", "role", role, "error", err)
			}
		})
	}
	group.Wait()
}

// stopAccepting closes the listener and waits for the first request of each connection until ctx
// ends.
func (s *server) stopAccepting(ctx context.Context) error {
	err := refuseConnections(s.listener)
	if err == nil {
		time.Sleep(handshakeTime)
		err = await(ctx, func() (bool, error) {
			n, err := waitingConnections(s.listener)
			return n == 0, err
		})
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}

	err = errors.Join(err, s.listener.Close())
	select {
	case <-s.accepted:
	case <-ctx.Done():
	}

	// Clients may open connections in advance and not use them, so this is not a fault.
	_ = await(ctx, func() (bool, error) { return s.arriving.Load() == 0, nil })
	return err
}

// await polls a condition each millisecond until it holds, fails, or ctx ends.
func await(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()

	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
