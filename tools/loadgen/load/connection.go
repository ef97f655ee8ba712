package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// connection is a keep-alive connection of one browser. It sends one request at a time. It writes
// prepared bytes and parses only the status, length and body of a response: net/http's client costs
// several times as much per request, and the load shares the machine's cores with the server.
type connection struct {
	addr    string
	timeout time.Duration // of one request, including dialling

	net      net.Conn // nil before the first request and after a failure
	deadline time.Time
	buffer   []byte
}

// Post appends the bytes of a POST request. Each header is a whole line, for example "Accept: */*".
func Post(b []byte, host, path string, body []byte, headers ...string) []byte {
	b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	for _, line := range headers {
		b = append(append(b, line...), "\r\n"...)
	}
	return append(fmt.Appendf(b, "Content-Length: %d\r\n\r\n", len(body)), body...)
}

// Answer is a server's response. Its body is valid until the next request.
type Answer struct {
	Status int
	Body   []byte
}

// answerLimit is the longest accepted response in bytes. The service's responses are much shorter.
const answerLimit = 64 << 10

func newConnection(addr string, timeout time.Duration) *connection {
	return &connection{addr: addr, timeout: timeout, buffer: make([]byte, 4<<10)}
}

// do sends a request and waits for its response. After an error it is unknown whether the server
// processed the request. The next call connects again.
func (c *connection) do(request []byte) (Answer, error) {
	a, keep, err := c.exchange(request)
	if err != nil || !keep {
		c.close()
	}
	return a, err
}

func (c *connection) exchange(request []byte) (a Answer, keep bool, err error) {
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
				return a, false, errors.New("the response is too long")
			}

			c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
		}

		n, err := c.net.Read(c.buffer[read:])
		read += n
		if a, keep, whole, parseErr := parseAnswer(c.buffer[:read]); whole || parseErr != nil {
			return a, keep, parseErr
		}

		// The response is incomplete, so the end is an error.
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return a, false, err
		}
	}
}

// prepare connects if necessary and sets the deadline. It keeps a deadline that leaves at least
// three quarters of the timeout, because setting it for each request would cost more than parsing
// the response.
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
		// The error is of no use: every response was read before.
		_ = c.net.Close()
		c.net = nil
	}
}

var (
	headEnd       = []byte("\r\n\r\n")
	lengthHeader  = newHeader("\r\nContent-Length: ")
	closeHeader   = newHeader("\r\nConnection: close\r\n")
	chunkedHeader = newHeader("\r\nTransfer-Encoding: ")
)

// header is the beginning of a header's line, as Go's server writes it and as HAProxy does.
type header [2][]byte

func newHeader(text string) header { return header{[]byte(text), []byte(strings.ToLower(text))} }

// find returns the position behind the header, or -1.
func (h *header) find(head []byte) int {
	for _, text := range h {
		if i := bytes.Index(head, text); i >= 0 {
			return i + len(text)
		}
	}
	return -1
}

// parseAnswer reads an HTTP/1.1 response as Go's server or HAProxy writes it. whole is false if b
// ends before the response does; keep reports whether the connection stays open.
func parseAnswer(b []byte) (a Answer, keep, whole bool, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return a, false, false, nil
	}

	head := b[:end+2]
	if len(head) < len("HTTP/1.1 204") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return a, false, false, fmt.Errorf("not an HTTP/1.1 response: %.40q", b)
	}
	if a.Status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return a, false, false, fmt.Errorf("not an HTTP/1.1 response: %.40q", b)
	}
	if chunkedHeader.find(head) >= 0 {
		return a, false, false, errors.New("the response has no Content-Length")
	}

	length := 0

	if i := lengthHeader.find(head); i >= 0 {
		digits, _, _ := bytes.Cut(head[i:], []byte("\r\n"))
		if length, err = strconv.Atoi(string(digits)); err != nil {
			return a, false, false, fmt.Errorf("the response's Content-Length is %q", digits)
		}
	}

	rest := b[end+len(headEnd):]
	if len(rest) < length {
		return a, false, false, nil
	}

	a.Body = rest[:length]
	return a, closeHeader.find(head) < 0, true, nil
}
