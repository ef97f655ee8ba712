package load

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

func TestParseAnswer(t *testing.T) {
	for _, test := range []struct {
		text   string
		status int
		body   string
		keep   bool
		whole  bool
		fails  bool
	}{
		{text: "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", status: 204, keep: true, whole: true},
		{text: "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nbody", status: 400, body: "body", keep: true,
			whole: true},
		{text: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status: 503, whole: true},
		{text: "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy", status: 503, body: "busy", whole: true},
		{text: "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nbod"},
		{text: "HTTP/1.1 204 No Con"},
		{text: ""},
		{text: "SSH-2.0-OpenSSH\r\n\r\n", fails: true},
		{text: "HTTP/1.1 abc No\r\n\r\n", fails: true},
		{text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fails: true},
		{text: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", fails: true},
	} {
		a, keep, whole, err := parseAnswer([]byte(test.text))
		if (err != nil) != test.fails || whole != test.whole || whole &&
			(a.Status != test.status || string(a.Body) != test.body || keep != test.keep) {
			t.Errorf("%q: %+v, keep %v, whole %v, %v", test.text, a, keep, whole, err)
		}
	}
}

// TestConnection checks that a response in several pieces is read whole, and that a closed
// connection is opened again.
func TestConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer l.Close()

	long := strings.Repeat("x", 10_000)
	go func() {
		for _, pieces := range [][]string{{"HTTP/1.1 2", "04 No Content\r", "\n\r\n"},
			{fmt.Sprintf("HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n", len(long)), long[:5000], long[5000:]},
			{"HTTP/1.1 "}} {
			c, err := l.Accept()
			if err != nil {
				return
			}

			_, _ = c.Read(make([]byte, 100))

			for _, piece := range pieces {
				_, _ = c.Write([]byte(piece))
			}

			_ = c.Close()
		}
	}()

	c := newConnection(l.Addr().String(), 5*time.Second)
	defer c.close()

	if a, err := c.do([]byte("hello")); err != nil || a.Status != 204 {
		t.Errorf("%+v, %v", a, err)
	}

	c.close()

	if a, err := c.do([]byte("hello")); err != nil || a.Status != 400 || string(a.Body) != long {
		t.Errorf("status %d, %d bytes, %v", a.Status, len(a.Body), err)
	}

	c.close()

	if _, err := c.do([]byte("hello")); err == nil {
		t.Error("a truncated response is accepted")
	}
	if c.net != nil {
		t.Error("a broken connection is kept")
	}
}
