package web_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// TestObserver sends requests through a mux, and checks what is counted and logged of them.
func TestObserver(t *testing.T) {
	var log bytes.Buffer
	metrics, registry := web.NewRequests(), prometheus.NewRegistry()
	testkit.NoError(t, metrics.Register(registry))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/text/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12345") })
	mux.HandleFunc("/copied", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("1234567")) })
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		testkit.Succeeds(t, http.NewResponseController(w).Flush(), "flush")
	})
	mux.HandleFunc("/aborted", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	})

	observer := &web.Observer{Role: "data", Metrics: metrics, Access: slog.New(slog.NewJSONHandler(&log, nil))}
	handler := observer.Handler(mux)

	for _, request := range []struct {
		method, path string
		line         string
	}{
		{"GET", "/empty", "GET /empty 200 0"},
		{"GET", "/text/1?q=2", "GET /text/{id} 200 5"},
		{"POST", "/text/2", "POST /text/{id} 200 5"},
		{"MADE-UP", "/text/2", "OTHER /text/{id} 200 5"},
		{"GET", "/copied", "GET /copied 200 7"},
		{"GET", "/early", "GET /early 418 0"},
		{"GET", "/aborted", "GET /aborted 0 0"},
		{"GET", "/made-up", "GET other 404 19"},
	} {
		log.Reset()
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					t.Errorf("%s: %v", request.path, p)
				}
			}()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(request.method, request.path, nil))
		}()

		var line struct {
			Method, Route string
			Status        json.Number
			Bytes         json.Number
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v in %q", request.path, err, &log)
		}
		if got := strings.Join([]string{line.Method, line.Route, line.Status.String(), line.Bytes.String()}, " "); got != request.line {
			t.Errorf("%s %s: logged %q, want %q", request.method, request.path, got, request.line)
		}
	}

	want := `# HELP tallygate_http_requests_total Requests by role, route and status. The route is a pattern, or other for unknown paths; the status is aborted for an answer that was cut off.
# TYPE tallygate_http_requests_total counter
tallygate_http_requests_total{role="data",route="/aborted",status="aborted"} 1
tallygate_http_requests_total{role="data",route="/copied",status="200"} 1
tallygate_http_requests_total{role="data",route="/copied",status="aborted"} 0
tallygate_http_requests_total{role="data",route="/early",status="418"} 1
tallygate_http_requests_total{role="data",route="/early",status="aborted"} 0
tallygate_http_requests_total{role="data",route="/empty",status="200"} 1
tallygate_http_requests_total{role="data",route="/empty",status="aborted"} 0
tallygate_http_requests_total{role="data",route="/text/{id}",status="200"} 3
tallygate_http_requests_total{role="data",route="/text/{id}",status="aborted"} 0
tallygate_http_requests_total{role="data",route="other",status="404"} 1
tallygate_http_requests_total{role="data",route="other",status="aborted"} 0
`

	families, err := registry.Gather()
	testkit.NoError(t, err)
	for _, family := range families {
		var text strings.Builder
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
		if family.GetName() == "tallygate_http_requests_total" && text.String() != want {
			t.Errorf("the metrics are\n%swant\n%s", &text, want)
		}
	}
	testkit.Equal(t, len(families), 2, "metrics")
}

// bare is a response writer that allocates nothing.
type bare struct{ header http.Header }

func (b bare) Header() http.Header       { return b.header }
func (bare) WriteHeader(int)             {}
func (bare) Write(b []byte) (int, error) { return len(b), nil }

// TestObserverAllocatesNothing checks the cost of the metrics of a hit.
func TestObserverAllocatesNothing(t *testing.T) {
	handler, w, r := hit()
	if n := testing.AllocsPerRun(1000, func() { handler.ServeHTTP(w, r) }); n >= 1 {
		t.Errorf("an observed request has %v allocations", n)
	}
}

// hit returns an observed handler that does nothing, and a request for it.
func hit() (http.Handler, http.ResponseWriter, *http.Request) {
	observer := &web.Observer{Role: "data", Metrics: web.NewRequests()}
	handler := observer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "/collect.php"
		w.WriteHeader(http.StatusNoContent)
	}))
	return handler, bare{make(http.Header)}, httptest.NewRequest("POST", "/collect.php", nil)
}

func BenchmarkObserver(b *testing.B) {
	handler, w, r := hit()
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, r)
	}
}
