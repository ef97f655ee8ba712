package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestOwnAddress checks that without a base URL the connection's address is accepted as Host.
func TestOwnAddress(t *testing.T) {
	t.Parallel()

	handler := onlyFor("http://[::]:8080", false,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	for host, want := range map[string]int{"192.0.2.7:8080": 200, "192.0.2.8:8080": 421, "": 421} {
		testkit.Equal(t, answerAt(t, handler, "192.0.2.7:8080", host), want, "Host %q", host)
	}

	configured := onlyFor("https://app.example.com", true, handler)
	testkit.Equal(t, answerAt(t, configured, "192.0.2.7:8080", "192.0.2.7:8080"), 421, "with a base URL")
}

// answerAt returns the status of a request that was received on an address.
func answerAt(t *testing.T, handler http.Handler, local, host string) int {
	t.Helper()

	addr, err := net.ResolveTCPAddr("tcp", local)
	testkit.NoError(t, err)

	request := httptest.NewRequest("GET", "/", nil)
	request.Host = host
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder,
		request.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(addr))))

	return recorder.Code
}
