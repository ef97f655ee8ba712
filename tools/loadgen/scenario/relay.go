package scenario

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
)

// relay forwards connections to a server and counts the round trips of all of them: how often the
// client sends after the server has.
type relay struct {
	listener net.Listener
	server   string // host:port
	trips    *atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// newRelay listens on loopback. The caller closes it.
func newRelay(server string, trips *atomic.Int64) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	r := &relay{listener: listener, server: server, trips: trips}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go r.forward(client)
		}
	}()
	return r, nil
}

// relays are between the service and the databases, and between the nodes of Citus.
type relays struct {
	service, nodes atomic.Int64 // round trips
	all            []*relay
	err            error // the first one
	restore        func(context.Context) error
}

// add returns the address of a new relay before a server.
func (r *relays) add(server string, trips *atomic.Int64) (address string) {
	one, err := newRelay(server, trips)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return server
	}
	r.all = append(r.all, one)
	return one.listener.Addr().String()
}

// relay puts relays before the databases of a layout. Its server must not run.
func (l *layout) relay(ctx context.Context) (*relays, error) {
	r := &relays{restore: func(context.Context) error { return nil }}
	common, err := url.Parse(l.in.Database)
	if err != nil {
		return nil, err
	}
	common.Host = r.add(common.Host, &r.service)
	l.connect(common.String(), func(host string) string { return r.add(host, &r.service) })
	if !l.citus {
		return r, r.err
	}

	workers := l.in.Citus.Workers()
	hosts := make([]string, len(workers))
	for n, worker := range workers {
		hosts[n] = r.add(worker, &r.nodes)
	}
	if r.err != nil {
		return nil, r.err
	}
	r.restore = func(ctx context.Context) error { return l.in.Citus.MoveWorkers(context.WithoutCancel(ctx), workers) }
	return r, l.in.Citus.MoveWorkers(ctx, hosts)
}

func (r *relays) close(ctx context.Context) error {
	err := r.restore(ctx)
	for _, one := range r.all {
		one.close()
	}
	return err
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		conn.Close()
	}
}

func (r *relay) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()

	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()

	var answered atomic.Bool
	answered.Store(true)
	go func() {
		defer server.Close()
		pass(server, client, func() {
			if answered.Swap(false) {
				r.trips.Add(1)
			}
		})
	}()
	pass(client, server, func() { answered.Store(true) })
}

// pass copies, and calls note before each write.
func pass(to io.Writer, from io.Reader, note func()) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			note()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
