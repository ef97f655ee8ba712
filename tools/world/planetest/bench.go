package planetest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// benchConnections is the number of clients of a benchmark, each with one request in flight.
const benchConnections = 128

// Empty is the handler with which benchmarks compare: it reads the body and answers 204.
var Empty = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusNoContent)
})

// Drive sends count requests over as many connections as a benchmark has clients, and reports how
// many were answered in a second. Another answer than an accepted one fails the benchmark.
func Drive(b *testing.B, handler http.Handler, count int, request func(n int) string, accepted func(answer string) bool) {
	server := httptest.NewServer(handler)
	defer server.Close()

	var sent atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()

	for range benchConnections {
		wg.Go(func() {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()

			answer := make([]byte, 4096)
			for {
				n := int(sent.Add(1)) - 1
				if n >= count {
					return
				}
				if _, err := io.WriteString(conn, request(n)); err != nil {
					b.Error(err)
					return
				}
				read, err := conn.Read(answer)
				if text := string(answer[:read]); err != nil || !accepted(text) {
					b.Errorf("answer %q, %v", text, err)
					return
				}
			}
		})
	}

	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "req/s")
}
