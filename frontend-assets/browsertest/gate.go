package browsertest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// host leads a name's port to an address.
type host struct{ name, port, address string }

// hosts are what a browser can reach, beside 127.0.0.1.
type hosts []host

// find gives the address for a name's port, or nothing where there is no way.
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

// gate is the only way out of a browser's profile: a SOCKS server (RFC 1928) that leads to the
// hosts of the test that uses the profile. What passes is not looked at.
type gate struct {
	listener net.Listener
	hosts    atomic.Pointer[hosts]
}

func openGate() (*gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	g := &gate{listener: listener}

	// Chromium calls its makers' servers as soon as it runs
	g.hosts.Store(&hosts{})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn)
		}
	}()

	return g, nil
}

func (g *gate) address() string { return g.listener.Addr().String() }

// close lets nobody in any more. Connections end with the browser.
func (g *gate) close() { _ = g.listener.Close() }

// Answers of a SOCKS server.
const (
	granted     = 0
	unreachable = 4
	refused     = 5
)

// pass serves one connection of the browser until one of its ends closes it.
func (g *gate) pass(browser net.Conn) {
	defer browser.Close()

	name, port, err := readRequest(browser)
	if err != nil {
		return
	}

	answer := func(code byte) error {
		_, err := browser.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}

	address, ok := g.hosts.Load().find(name, port)
	if !ok {
		_ = answer(unreachable)
		return
	}

	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = answer(refused)
		return
	}

	defer server.Close()

	if answer(granted) != nil {
		return
	}

	go func() {
		_, _ = io.Copy(server, browser)
		// The server learns that the browser has gone, and may still say something.
		_ = server.(*net.TCPConn).CloseWrite()
	}()

	_, _ = io.Copy(browser, server)
}

// readRequest reads a SOCKS client's greeting, answers it, and reads where it wants to go.
func readRequest(conn net.Conn) (name, port string, err error) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(conn, b)
		}
		return b
	}

	// the ways to sign in that it knows; none is needed
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
		err = errors.New("not an address of a kind that leads anywhere")
	}

	number := read(2)
	return name, strconv.Itoa(int(number[0])<<8 | int(number[1])), err
}
