package test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// traceReceiver takes traces by OTLP over HTTP.
type traceReceiver struct {
	mu       sync.Mutex
	spans    []*trace.Span
	received strings.Builder // everything, as text
	faults   []string
}

func (c *traceReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.faults = append(c.faults, fmt.Sprintf("%s %s %v: %v", r.Method, r.URL.Path, r.Header, err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}

	c.received.WriteString(protojson.Format(&request))
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}

	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	_, _ = w.Write(answer)
}

// named returns the spans with a name.
func (c *traceReceiver) named(name string) []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()

	var all []*trace.Span
	for _, span := range c.spans {
		if span.Name == name {
			all = append(all, span)
		}
	}
	return all
}

// personal is what a request contains that must not be in traces and in the access log. All values are
// made up and occur nowhere else.
var personal = []string{"198.51.100.77", "Firefox/145.77", "personal-page", "personal-query", "personal-campaign",
	"personal-referrer", "personal-user", "personal-header", "shop.example", "4bf92f3577b34da6a3ce929d0e0e4736", "order-77"}

// sendPersonal sends calls with everything that could identify a visitor.
func sendPersonal(t *testing.T, p *process, siteKey string) {
	t.Helper()

	calls := []struct {
		method, url, body string
		status            int
	}{
		{"POST", "http://" + p.addr["data"] + "/collect.php?personal-query=1", `{"k":"` + siteKey + `","t":"pageview",
			"p":"/personal-page","r":"https://personal-referrer.example/","u":{"utm_campaign":"personal-campaign"}}`, 204},
		{"POST", "http://" + p.addr["data"] + "/collect.php", `{"k":"` + siteKey + `","t":"event","p":"/personal-page",
			"e":"purchase","m":{"transaction_id":"order-77","value":19.9,"currency":"EUR"}}`, 204},
		{"GET", "http://" + p.addr["data"] + "/personal-page?personal-query=1", "", 404},
		{"GET", "http://" + p.addr["control"] + "/personal-page?personal-query=1", "", 404},
		{"POST", "http://" + p.addr["control"] + "/graphql", `{"query":"{ viewer { id } } # personal-query"}`, 403},
	}
	for _, call := range calls {
		request, err := http.NewRequest(call.method, call.url, strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Origin": "https://shop.example", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.77",
			"X-Forwarded-For": "198.51.100.77", "Referer": "https://personal-referrer.example/", "Cookie": "x=personal-header",
			"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tracestate": "x=personal-header",
			"Baggage": "user=personal-user", "Content-Type": "application/json",
		} {
			request.Header.Set(name, value)
		}

		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != call.status {
			t.Fatalf("%s %s: %d %s, want %d", call.method, call.url, response.StatusCode, text, call.status)
		}
	}
}

// startPersonal starts a process on SQLite with a site that has a webhook, with these settings in
// addition.
func startPersonal(t *testing.T, added map[string]string) (p *process, siteKey string) {
	t.Helper()

	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)

	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}

	settings := map[string]string{
		"TALLYGATE_DATA_DIR": dir, "TALLYGATE_SECRET": dbtest.ApplicationKey, "TALLYGATE_TRUSTED_PROXIES": "127.0.0.1",
		"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.1", "TALLYGATE_WEBHOOK_CA_FILE": authority,
	}
	maps.Copy(settings, added)
	listens := []string{"control", "data"}
	if settings["TALLYGATE_METRICS_ADDR"] != "" {
		listens = append(listens, "metrics")
	}
	p = start(t, settings, listens)
	return p, makeSite(t, dbtest.Open(t, db.EmbeddedURL(dir)), receiver.URL)
}

// TestTraces sends calls with personal data to a process that is traced, and checks the spans that an
// OTLP receiver gets, and that they contain nothing of it.
func TestTraces(t *testing.T) {
	t.Parallel()

	traces := &traceReceiver{}
	receiver := httptest.NewServer(traces)
	t.Cleanup(receiver.Close)

	p, siteKey := startPersonal(t, map[string]string{
		"TALLYGATE_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_BSP_SCHEDULE_DELAY": "100",
		"OTEL_SERVICE_NAME": "a name of ours",
	})
	sendPersonal(t, p, siteKey)

	for _, name := range []string{"POST /collect.php", "commit hits", "GET scripts", "GET other", "POST /graphql",
		"deliver " + model.DeliveryConversion, "task housekeeping:partitions"} {
		awaitTrue(t, "a span "+name, func() (string, bool) {
			traces.mu.Lock()
			defer traces.mu.Unlock()
			var names []string
			for _, span := range traces.spans {
				if span.Name == name {
					return "", true
				}
				names = append(names, span.Name)
			}
			return strings.Join(names, ", "), false
		})
	}

	// Each hit is linked from the batch that stored it.
	linked := make(map[string]bool)
	for _, batch := range traces.named("commit hits") {
		for _, link := range batch.Links {
			linked[string(link.SpanId)] = true
		}
	}
	for _, request := range traces.named("POST /collect.php") {
		attributes := make(map[string]string)
		for _, a := range request.Attributes {
			attributes[a.Key] = protojson.MarshalOptions{}.Format(a.Value)
		}
		if !linked[string(request.SpanId)] || len(request.ParentSpanId) > 0 || len(attributes) != 4 ||
			!strings.Contains(attributes["http.response.status_code"], "204") {
			t.Errorf("the span of a hit has the parent %x, the attributes %v, and is linked: %v", request.ParentSpanId, attributes,
				linked[string(request.SpanId)])
		}
	}

	traces.mu.Lock()
	defer traces.mu.Unlock()

	text := traces.received.String()
	for _, secret := range append(personal, siteKey, "127.0.0.1") {
		if strings.Contains(text, secret) {
			t.Errorf("the traces contain %q", secret)
		}
	}
	if !strings.Contains(text, "a name of ours") || len(traces.faults) > 0 {
		t.Errorf("the service's name is missing, or requests were wrong: %v", traces.faults)
	}
}

// TestTracesWithoutReceiver checks that a process whose receiver does not answer serves and stops.
func TestTracesWithoutReceiver(t *testing.T) {
	t.Parallel()

	p, siteKey := startPersonal(t, map[string]string{
		"TALLYGATE_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + freeAddress(t), "OTEL_BSP_SCHEDULE_DELAY": "100",
	})
	sendPersonal(t, p, siteKey)
	p.signal(syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.logged())
	}
}

// TestTracesReceiverDown checks that a receiver that refuses each batch makes one line in the first minute, while the
// metric counts each batch.
func TestTracesReceiverDown(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(receiver.Close)

	metrics := freeAddress(t)
	p, siteKey := startPersonal(t, map[string]string{
		"TALLYGATE_TRACES": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_BSP_SCHEDULE_DELAY": "50",
		"TALLYGATE_METRICS_ADDR": metrics, "TALLYGATE_PROCESSES": "one",
	})
	sendPersonal(t, p, siteKey)
	testkit.Await(t, "several batches", func() bool { return asked.Load() > 5 })

	failed := func() string {
		_, text := get(t, "http://"+metrics+"/metrics")
		return regexp.MustCompile(`(?m)^tallygate_trace_export_errors_total (\d+)$`).FindString(text)
	}
	testkit.Await(t, "counted batches", func() bool { return !strings.HasSuffix(failed(), "_total 0") && len(failed()) > 0 })
	if n := strings.Count(p.logged(), "traces are not sent"); n != 1 {
		t.Errorf("%d lines, %s, want one:\n%s", n, failed(), p.logged())
	}
}

// TestAccessLog checks the lines of the access log, and that they contain nothing personal.
func TestAccessLog(t *testing.T) {
	t.Parallel()

	p, siteKey := startPersonal(t, map[string]string{"TALLYGATE_ACCESS_LOG": "true"})
	sendPersonal(t, p, siteKey)
	p.signal(syscall.SIGTERM)

	type line struct {
		Time                            time.Time
		Level, Msg, Role, Method, Route string
		Status                          int
		Bytes                           int64
		Seconds                         float64
	}

	var lines []line
	decoder := json.NewDecoder(bytes.NewReader(p.out.Bytes()))
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var l line
		if err := decoder.Decode(&l); err != nil {
			t.Fatalf("%v in\n%s", err, &p.out)
		}
		lines = append(lines, l)
	}

	want := []string{"data POST /collect.php 204", "data POST /collect.php 204", "data GET scripts 404", "control GET other 404",
		"control POST /graphql 403"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), &p.out)
	}
	for i, l := range lines {
		if got := fmt.Sprint(l.Role, " ", l.Method, " ", l.Route, " ", l.Status); got != want[i] || l.Msg != "request" ||
			l.Time.IsZero() || l.Seconds <= 0 || (l.Bytes > 0) != (l.Status != 204) {
			t.Errorf("line %d: %+v, want %s", i+1, l, want[i])
		}
	}

	for _, secret := range append(personal, siteKey, "127.0.0.1") {
		if strings.Contains(p.out.String(), secret) || strings.Contains(p.logged(), secret) && secret != "127.0.0.1" {
			t.Errorf("a log contains %q:\n%s\n%s", secret, &p.out, p.logged())
		}
	}
}
