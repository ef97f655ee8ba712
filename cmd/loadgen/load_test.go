package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h, second histogram
	for i := 1; i <= 100_000; i++ {
		if d := time.Duration(i) * time.Microsecond; i%2 == 0 {
			h.add(d)
		} else {
			second.add(d)
		}
	}

	h.merge(&second)

	for q, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.95: 95 * time.Millisecond, 0.99: 99 * time.Millisecond, 0.999: 99900 * time.Microsecond, 1: 100 * time.Millisecond} {
		if got := h.quantile(q); got < want || got > want+want/64+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}

	if h.count != 100_000 || h.largest != 100*time.Millisecond {
		t.Errorf("%d durations up to %v", h.count, h.largest)
	}

	var empty, one histogram
	if empty.quantile(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}

	one.add(-1)
	one.add(200 * time.Hour)

	if got := one.quantile(1); got != 200*time.Hour {
		t.Errorf("the longest is %v", got)
	}

	for d := time.Duration(1); d < 1<<50; d = d*9/8 + 1 {
		if b := bucketOf(d); upperEnd(b) < d || b > 0 && upperEnd(b-1) >= d {
			t.Fatalf("%d ns are in bucket %d, which ends at %d", d, b, upperEnd(b))
		}
	}
}

func TestReport(t *testing.T) {
	r := &result{elapsed: 2 * time.Second, answers: map[string]int64{"204": 90, "400 bad_json": 10, noAnswer: 100}, cost: cost{CPU: time.Second, PeakMemory: 64 << 20}}
	for i := range 100 {
		r.latency.add(time.Duration(i+1) * time.Millisecond)
	}

	r.countFailed()
	report := newReport(r, 7)
	if report.check() != nil {
		t.Error("a run without a fault fails")
	}

	report.Unexpected = map[string]int64{"500": 1}
	if report.check() == nil {
		t.Error("an unexpected answer does not make the run fail")
	}
	if report.Throughput != 50 || report.Seconds != 2 || report.CPU != 10000 || report.FailedShare != 0.5 || report.Latency.P99 < 99 || report.Latency.P50 > 52 {
		t.Errorf("%+v", report)
	}

	var out strings.Builder
	report.print(&out)

	for _, want := range []string{"50 calls/s over 7 connections", "unanswered: 50.000 %", "p99.9 ", "90  204\n", "100  no answer\n", "UNEXPECTED", "64 MB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}

	if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"p999":`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestRefusingServer: a server that refuses everything has no successes, and what nothing was
// acknowledged of is not verified.
func TestRefusingServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	var successes atomic.Int64
	run := newCaptchaRun(server.Listener.Addr().String(), "key", "secret", load{connections: 2, successes: &successes})
	run.redeem(t.Context(), once([]*ticket{{}, {}, {}}))

	if r := run.results[redeeming]; successes.Load() != 0 || r.answers["503"] != 3 || run.verdict.Unknown != 3 {
		t.Errorf("%d successes, answers %v, %+v", successes.Load(), r.answers, run.verdict)
	}
	if run.verdict.ok() {
		t.Error("a captcha without accepted tokens is fine")
	}
	if new(verdict).ok() || !(&verdict{Acknowledged: 1}).ok() {
		t.Error("the verdict does not ask whether anything was acknowledged")
	}
}

// TestRefusalsAreNoWork: a server that refuses quickly is not a fast one.
func TestRefusalsAreNoWork(t *testing.T) {
	r := &result{elapsed: time.Second, answers: map[string]int64{"204": 150, "400 bad_json": 50, "503 unavailable": 100, "429 quota_exceeded": 60,
		"503 The service is temporarily unavailable.": 20, noAnswer: 20}}

	r.countFailed()

	if r.sent() != 400 || r.failed != 200 || r.failedShare() != 0.5 || r.served() != 200 || r.throughput() != 200 || r.enough() != nil {
		t.Errorf("%+v: %d sent, %d served, %f a second, %v", r, r.sent(), r.served(), r.throughput(), r.enough())
	}

	r = &result{elapsed: time.Second, answers: map[string]int64{"503 unavailable": 100_000}}
	if r.countFailed(); r.throughput() != 0 || r.enough() == nil {
		t.Errorf("%f a second, although everything was refused", r.throughput())
	}

	m := measurement{rounds: []measurement{{}, {FailedShare: 0.25}, {}}}
	if m.settle(); m.FailedShare != 0.25 {
		t.Errorf("the share of failures is settled as %f", m.FailedShare)
	}
}

// TestCostOfTheEnd: what a process does just before the end of a measurement counts as well.
func TestCostOfTheEnd(t *testing.T) {
	if _, ok := readProc(os.Getpid()); !ok {
		t.Fatal("there is no /proc")
	}

	ctx, end := context.WithCancel(t.Context())
	begun, measured := make(chan bool, 1), make(chan cost)
	go func() { measured <- watchCost(toldContext{ctx, begun}, os.Getpid(), nil) }()
	<-begun
	begin, _ := readProc(os.Getpid())
	now := begin
	for now.cpu-begin.cpu < 50*time.Millisecond {
		now, _ = readProc(os.Getpid())
	}

	end()

	if c := <-measured; c.CPU < now.cpu-begin.cpu {
		t.Errorf("%v of %v are counted", c.CPU, now.cpu-begin.cpu)
	}
}

// toldContext tells when somebody begins to wait for its end.
type toldContext struct {
	context.Context
	begun chan<- bool
}

func (c toldContext) Done() <-chan struct{} {
	select {
	case c.begun <- true:
	default:
	}
	return c.Context.Done()
}

// greetings are endless requests.
type greetings struct{}

func (greetings) next() []byte { return []byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n") }

func (greetings) done(answer, error) {}

// TestFailuresBesideTheMeasurement: calls that are refused during the warm-up, or only after the
// end, count as failed.
func TestFailuresBesideTheMeasurement(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 10:
			end()
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}

		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()

	l := load{addr: server.Listener.Addr().String(), connections: 1, warmAnswers: 1}
	r := l.run(ctx, func(int) source { return greetings{} })
	if r.answers["204"] != 8 || r.failed != 0 || r.served() != 8 || r.others != 0 || r.outside != 2 || r.failedShare() != 0.2 {
		t.Errorf("%+v: the share of failures is %f", r, r.failedShare())
	}
}

// TestSlowestCalls: what is under way at the end, and what never got an answer, is in the
// latencies, though not among the answers.
func TestSlowestCalls(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 5:
			panic(http.ErrAbortHandler)
		case 10:
			end()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()

	l := load{addr: server.Listener.Addr().String(), connections: 1, warmAnswers: 1}
	r := l.run(ctx, func(int) source { return greetings{} })
	if r.answers["204"] != 7 || r.answers[noAnswer] != 1 || r.failed != 1 || r.others != 2 {
		t.Errorf("answers %v, %d failed, %d not measured", r.answers, r.failed, r.others)
	}
	if r.latency.count != 9 || r.latency.largest < requestTimeout {
		t.Errorf("%d latencies, up to %v", r.latency.count, r.latency.largest)
	}
}

// TestUnsent: at a fixed rate, what a slow server keeps from being sent is told.
func TestUnsent(t *testing.T) {
	began := time.Now()
	for _, test := range []struct {
		rate       float64
		sent, want int64
	}{{rate: 100, sent: 3, want: 47}, {rate: 100, sent: 50}, {rate: 100, sent: 51}, {sent: 3}} {
		s := &sender{load: &load{rate: test.rate, connections: 2}, number: 1, window: &window{began: began}, sent: test.sent}
		if n := s.countUnsent(began.Add(time.Second)); n != test.want {
			t.Errorf("%+v: %d", test, n)
		}
	}

	var out strings.Builder
	(&report{Unsent: 47}).print(&out)

	if !strings.Contains(out.String(), "47 more calls were due") {
		t.Errorf("printed %s", out.String())
	}
}
