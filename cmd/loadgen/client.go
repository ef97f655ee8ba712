package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection is a keep-alive connection of one browser that sends one request at a time. It writes
// prepared bytes and reads no more of an answer than its status and length: net/http's client costs
// several times as much per request, and the load shares the machine's cores with what it measures.
type connection struct {
	addr    string
	timeout time.Duration // of one request, dialling included

	net      net.Conn // nil until needed and after a failure
	deadline time.Time
	buffer   []byte
}

// answer is what a server said. Its body is valid until the next request.
type answer struct {
	status int
	body   []byte
}

// answerLimit is the longest answer in bytes: all of ours are much shorter.
const answerLimit = 64 << 10

func newConnection(addr string, timeout time.Duration) *connection {
	return &connection{addr: addr, timeout: timeout, buffer: make([]byte, 4<<10)}
}

// do sends a request and waits for its answer. After an error nobody knows whether the server took
// the request; the next call connects again.
func (c *connection) do(request []byte) (answer, error) {
	a, keep, err := c.exchange(request)
	if err != nil || !keep {
		c.close()
	}
	return a, err
}

func (c *connection) exchange(request []byte) (a answer, keep bool, err error) {
	if err := c.prepare(); err != nil {
		return a, false, err
	}
	if _, err := c.net.Write(request); err != nil {
		return a, false, err
	}

	read := 0
	for {
		if read == len(c.buffer) {
			if read >= answerLimit {
				return a, false, errors.New("the answer is too long")
			}

			c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
		}

		n, err := c.net.Read(c.buffer[read:])
		read += n
		if a, keep, whole, parseErr := parseAnswer(c.buffer[:read]); whole || parseErr != nil {
			return a, keep, parseErr
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return a, false, err
		}
	}
}

// prepare connects if need be, and sets the deadline. An old one that still leaves most of the time
// is kept: setting it for each request would cost more than parsing the answer.
func (c *connection) prepare() error {
	now := time.Now()

	if c.net == nil {
		conn, err := net.DialTimeout("tcp", c.addr, c.timeout)
		if err != nil {
			return err
		}

		c.net, c.deadline = conn, time.Time{}
	}

	if c.deadline.Sub(now) < c.timeout*3/4 {
		c.deadline = now.Add(c.timeout)
		return c.net.SetDeadline(c.deadline)
	}

	return nil
}

func (c *connection) close() {
	if c.net != nil {
		// nothing of value is in it
		_ = c.net.Close()
		c.net = nil
	}
}

var (
	headEnd       = []byte("\r\n\r\n")
	lengthHeader  = []byte("\r\nContent-Length: ")
	closeHeader   = []byte("\r\nConnection: close\r\n")
	chunkedHeader = []byte("\r\nTransfer-Encoding: ")
)

// parseAnswer reads an HTTP/1.1 answer as Go's server writes it. It is not whole yet while more has
// to be read.
func parseAnswer(b []byte) (a answer, keep, whole bool, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return a, false, false, nil
	}

	head := b[:end+2]
	if len(head) < len("HTTP/1.1 204") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return a, false, false, fmt.Errorf("not an HTTP/1.1 answer: %.40q", b)
	}
	if a.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return a, false, false, fmt.Errorf("not an HTTP/1.1 answer: %.40q", b)
	}
	if bytes.Contains(head, chunkedHeader) {
		return a, false, false, errors.New("the answer has no length")
	}

	length := 0

	if i := bytes.Index(head, lengthHeader); i >= 0 {
		digits, _, _ := bytes.Cut(head[i+len(lengthHeader):], []byte("\r\n"))
		if length, err = strconv.Atoi(string(digits)); err != nil {
			return a, false, false, fmt.Errorf("the answer's length is %q", digits)
		}
	}

	rest := b[end+len(headEnd):]
	if len(rest) < length {
		return a, false, false, nil
	}

	a.body = rest[:length]
	return a, !bytes.Contains(head, closeHeader), true, nil
}
