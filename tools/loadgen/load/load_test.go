package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

func TestHistogram(t *testing.T) {
	var h, second Histogram
	for i := 1; i <= 100_000; i++ {
		if d := time.Duration(i) * time.Microsecond; i%2 == 0 {
			h.Add(d)
		} else {
			second.Add(d)
		}
	}

	h.Merge(&second)

	for q, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.95: 95 * time.Millisecond,
		0.99: 99 * time.Millisecond, 0.999: 99900 * time.Microsecond, 1: 100 * time.Millisecond} {
		if got := h.Quantile(q); got < want || got > want+want/64+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}

	if h.Count() != 100_000 || h.Max != 100*time.Millisecond {
		t.Errorf("%d durations up to %v", h.Count(), h.Max)
	}

	var empty, one Histogram
	testkit.Equal(t, empty.Quantile(0.99), 0, "an empty histogram has a quantile")

	one.Add(-1)
	one.Add(200 * time.Hour)

	testkit.Equal(t, one.Quantile(1), 200*time.Hour, "the longest")

	for d := time.Nanosecond; d < longestCounted; d = d*9/8 + 1 {
		var h Histogram
		h.Add(d)
		h.Add(10 * d)

		if got := h.Quantile(0.5); got < d || got > d+d/100 {
			t.Errorf("%v is counted as %v", d, got)
		}
	}
}

// TestRefusalsAreNoWork checks that temporary refusals do not count as throughput.
func TestRefusalsAreNoWork(t *testing.T) {
	r := &Result{Elapsed: time.Second, Answers: map[string]int64{"204": 150, "400 bad_json": 50, "503 unavailable": 100,
		"429 quota_exceeded":                          60,
		"503 The service is temporarily unavailable.": 20, NoAnswer: 20}}

	r.CountFailed()

	if r.Sent() != 400 || r.Failed != 200 || r.FailedShare() != 0.5 || r.Served() != 200 || r.Throughput() != 200 ||
		r.Enough() != nil {
		t.Errorf("%+v: %d sent, %d served, %f a second, %v", r, r.Sent(), r.Served(), r.Throughput(), r.Enough())
	}

	r = &Result{Elapsed: time.Second, Answers: map[string]int64{"503 unavailable": 100_000}}
	if r.CountFailed(); r.Throughput() != 0 || r.Enough() == nil {
		t.Errorf("%f a second, although everything was refused", r.Throughput())
	}
}

// greetings is an endless source of requests.
func greetings() []byte { return []byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n") }

// TestFailuresOutsideTheMeasurement checks that calls refused during the warm-up or after the end
// count as failed.
func TestFailuresOutsideTheMeasurement(t *testing.T) {
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

	l := Load{Addr: server.Listener.Addr().String(), Connections: 1, WarmAnswers: 1}
	r := l.Run(ctx, func(int) Source { return Requests(greetings) })
	if r.Answers["204"] != 8 || r.Failed != 0 || r.Served() != 8 || r.Others != 0 || r.Outside != 2 ||
		r.FailedShare() != 0.2 {
		t.Errorf("%+v: the share of failures is %f", r, r.FailedShare())
	}
}

// TestSlowestCalls checks that calls in flight at the end, and calls without a response, count in
// the latency but not in the answers.
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

	l := Load{Addr: server.Listener.Addr().String(), Connections: 1, WarmAnswers: 1}
	r := l.Run(ctx, func(int) Source { return Requests(greetings) })
	if r.Answers["204"] != 7 || r.Answers[NoAnswer] != 1 || r.Failed != 1 || r.Others != 2 {
		t.Errorf("answers %v, %d failed, %d not measured", r.Answers, r.Failed, r.Others)
	}
	if r.Latency.Count() != 9 || r.Latency.Max < requestTimeout {
		t.Errorf("%d latencies, up to %v", r.Latency.Count(), r.Latency.Max)
	}
}

// TestUnsent counts the requests that a slow server delayed beyond the end.
func TestUnsent(t *testing.T) {
	began := time.Now()
	for _, test := range []struct {
		rate       float64
		sent, want int64
	}{{rate: 100, sent: 3, want: 47}, {rate: 100, sent: 50}, {rate: 100, sent: 51}, {sent: 3}} {
		s := &sender{load: &Load{Rate: test.rate, Connections: 2}, number: 1, window: &window{began: began},
			sent: test.sent}
		testkit.Equal(t, s.countUnsent(began.Add(time.Second)), test.want, "%+v", test)
	}
}
