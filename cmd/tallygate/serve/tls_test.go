package serve

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestToHTTPS checks that redirects lead to a known origin only, for each form of a request's
// target.
func TestToHTTPS(t *testing.T) {
	t.Parallel()
	const host = "stats.example.com"
	server := httptest.NewServer(toHTTPS(map[string]config.Origin{host: "https://" + host}))
	t.Cleanup(server.Close)

	for _, test := range []struct {
		target, host string
		status       int
		location     string
	}{
		{"/a?b=1", host, 308, "https://" + host + "/a?b=1"},
		{"//evil.example/x", host, 308, "https://" + host + "//evil.example/x"},
		{"http://" + host + "/a", host, 308, "https://" + host + "/a"},
		{"http://" + host + "?b", host, 308, "https://" + host + "/?b"},
		{"/a", "evil.example", 421, ""},
		{"http://evil.example/a", host, 421, ""},
		{"http:.evil.example/x", host, 400, ""},
		{"http:@evil.example/x", host, 400, ""},
		{"x:y", host, 400, ""},
		{"http:", host, 308, "https://" + host + "/"},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		testkit.NoError(t, err)
		if _, err := conn.Write([]byte("GET " + test.target + " HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		testkit.NoError(t, err)
		if got := response.Header.Get("Location"); response.StatusCode != test.status || got != test.location {
			t.Errorf("%s: %d to %q, want %d to %q", test.target, response.StatusCode, got, test.status, test.location)
		}
		conn.Close()
	}
}
