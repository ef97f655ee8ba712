package cells

import (
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

func (r *relay) addr() string { return r.listener.Addr().String() }

// through returns the address of a database through the relay.
func (r *relay) through(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", err
	}
	u.Host = r.addr()
	return u.String(), nil
}

// hostOf returns the host and port of a database's address.
func hostOf(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", err
	}
	return u.Host, nil
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
