package browsertest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// host maps a port of a name to an address.
type host struct{ name, port, address string }

// hosts lists the hosts that a browser can reach in addition to 127.0.0.1.
type hosts []host

// find returns the address for a port of a name. It reports false for unknown names.
func (all hosts) find(name, port string) (address string, ok bool) {
	ok = name == "127.0.0.1"
	for _, each := range all {
		domain, whole := strings.CutPrefix(each.name, "*")
		if name != each.name && !(whole && strings.HasSuffix(name, domain)) {
			continue
		}
		if each.port == port {
			return each.address, true
		}

		ok = true
	}

	return net.JoinHostPort("127.0.0.1", port), ok
}

// proxy is a SOCKS server (RFC 1928) that connects a browser's profile to the hosts of its test and
// to nothing else. It does not inspect the traffic.
type proxy struct {
	listener net.Listener
	hosts    atomic.Pointer[hosts]
}

func openProxy() (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	p := &proxy{listener: listener}

	// Chromium connects to its vendor's servers as soon as it runs.
	p.hosts.Store(&hosts{})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()

	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// close stops accepting connections. Open ones end with the browser.
func (p *proxy) close() { _ = p.listener.Close() }

// Replies of a SOCKS server.
const (
	granted     = 0
	unreachable = 4
	refused     = 5
)

// serve relays one connection of the browser until one of its ends closes it.
func (p *proxy) serve(browser net.Conn) {
	defer browser.Close()

	name, port, err := readRequest(browser)
	if err != nil {
		return
	}

	reply := func(code byte) error {
		_, err := browser.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}

	address, ok := p.hosts.Load().find(name, port)
	if !ok {
		_ = reply(unreachable)
		return
	}

	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = reply(refused)
		return
	}

	defer server.Close()

	if reply(granted) != nil {
		return
	}

	go func() {
		_, _ = io.Copy(server, browser)
		// The server sees the end of the request, and may still respond.
		_ = server.(*net.TCPConn).CloseWrite()
	}()

	_, _ = io.Copy(browser, server)
}

// readRequest reads a SOCKS client's greeting, replies to it, and reads the requested host and
// port.
func readRequest(conn net.Conn) (name, port string, err error) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(conn, b)
		}
		return b
	}

	// Skip the client's authentication methods; none is needed.
	read(int(read(2)[1]))

	if err == nil {
		_, err = conn.Write([]byte{5, 0})
	}

	switch kind := read(4)[3]; {
	case err != nil:
	case kind == 1:
		name = net.IP(read(net.IPv4len)).String()
	case kind == 3:
		name = string(read(int(read(1)[0])))
	default:
		err = errors.New("unsupported address type")
	}

	number := read(2)
	return name, strconv.Itoa(int(number[0])<<8 | int(number[1])), err
}
