// Package load drives an HTTP server over many connections and measures its responses. A Source
// makes the requests; the package knows nothing of hits or tokens.
package load

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/process"
)

// Source makes the requests of one connection, in order.
type Source interface {
	// Next returns the bytes of the next request, or nil after the last one. They are valid until
	// the following call.
	Next() []byte
	// Done receives the response to the last request. After an error it is unknown whether the
	// server processed the request.
	Done(a Answer, err error)
}

// Requests is a source of a function. It ignores the responses.
type Requests func() []byte

// Next implements Source.
func (f Requests) Next() []byte { return f() }

// Done implements Source.
func (f Requests) Done(Answer, error) {}

// Load drives a server over many connections at once.
type Load struct {
	Addr        string        // host:port
	Connections int           // each with at most one request in flight
	Rate        float64       // requests a second over all connections; 0: no pause between requests
	Warmup      time.Duration // sent, but not measured
	WarmAnswers int64         // responses that end the warm-up, instead of Warmup; 0: use Warmup
	Duration    time.Duration // of the measurement; 0: until ctx ends or the sources are exhausted
	MinAnswers  int64         // responses needed to end the measurement after Duration
	Progress    io.Writer     // receives a line each second; may be nil
	Successes   *atomic.Int64 // counts 2xx responses; may be nil
	Watched     []int         // processes to measure with their children: the server, then others
}

// requestTimeout is the longest wait for one response. It is longer than the service's own
// deadlines.
const requestTimeout = 15 * time.Second

// patience is the longest extension of a measurement that has too few responses.
const patience = time.Minute

// retryPause is the wait of a connection after a failure, so that an unreachable server costs no
// CPU time.
const retryPause = 5 * time.Millisecond

// Run sends requests until the time is up, ctx ends or all sources are exhausted, and returns the
// result. It calls newSource once per connection; connections are numbered from 0.
func (l *Load) Run(ctx context.Context, newSource func(connection int) Source) *Result {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	w := newWindow(l)
	senders := make([]*sender, l.Connections)
	var sending, watching sync.WaitGroup

	for i := range senders {
		senders[i] = &sender{load: l, number: i, window: w, source: newSource(i),
			conn:    newConnection(l.Addr, requestTimeout),
			answers: make(map[outcomeKey]int64), outside: make(map[outcomeKey]int64)}
	}

	for _, s := range senders {
		sending.Go(func() { s.run(ctx) })
	}

	var end time.Time
	var elapsed time.Duration
	var costs process.Cost
	watching.Go(func() { w.warmUp(ctx) })
	watching.Go(func() { costs = l.measure(ctx, w) })
	watching.Go(func() {
		l.await(ctx, w, senders)
		end, elapsed = time.Now(), w.elapsed()
		stop()
	})

	if l.Progress != nil {
		watching.Go(func() { l.report(ctx, senders, w) })
	}

	sending.Wait()

	// Stop the watchers if the sources were exhausted first.
	stop()
	watching.Wait()
	return collect(senders, end, elapsed, costs)
}

// await returns when the duration has passed and there are enough responses, or when ctx ends.
func (l *Load) await(ctx context.Context, w *window, senders []*sender) {
	if l.Duration <= 0 {
		<-ctx.Done()
		return
	}

	select {
	case <-ctx.Done():
		return
	case <-w.opened:
	}

	wait := l.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}

		var measured int64
		for _, s := range senders {
			measured += s.measured.Load()
		}

		if measured >= l.MinAnswers || w.elapsed() > l.Duration+patience {
			return
		}

		// There are too few responses: look again soon.
		wait = 10 * time.Millisecond
	}
}

func collect(senders []*sender, end time.Time, elapsed time.Duration, costs process.Cost) *Result {
	r := &Result{Elapsed: elapsed, Answers: make(map[string]int64), Cost: costs}
	for _, s := range senders {
		r.Latency.Merge(&s.latency)
		r.Unsent += s.countUnsent(end)
		for key, n := range s.answers {
			r.Answers[key.String()] += n
		}

		for key, n := range s.outside {
			if didNoWork(key.String()) {
				r.Outside += n
			} else {
				r.Others += n
			}
		}
	}

	r.CountFailed()
	return r
}

// measure measures the watched processes from the end of the warm-up until ctx ends.
func (l *Load) measure(ctx context.Context, w *window) process.Cost {
	select {
	case <-w.opened:
	case <-ctx.Done():
	}

	if len(l.Watched) == 0 || !w.isOpen() {
		return process.Cost{}
	}

	return process.Watch(ctx, l.Watched[0], l.Watched[1:])
}

// report prints a progress line each second.
func (l *Load) report(ctx context.Context, senders []*sender, w *window) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	var lastAnswers, lastFailures int64

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		var answers, failures int64
		for _, s := range senders {
			answers += s.answered.Load()
			failures += s.failed.Load()
		}

		phase := ""

		if !w.isOpen() {
			phase = "  (warming up)"
		}

		fmt.Fprintf(l.Progress, "%6.0f s  %7d answers/s  %d without answer%s\n",
			time.Since(w.began).Seconds(), answers-lastAnswers, failures-lastFailures, phase)

		lastAnswers, lastFailures = answers, failures
	}
}

// sender drives one connection and collects its share of the result.
type sender struct {
	load   *Load
	number int
	window *window
	source Source
	conn   *connection

	answered, failed atomic.Int64         // for the progress line
	measured         atomic.Int64         // responses after the warm-up
	answers, outside map[outcomeKey]int64 // during the measurement, and before or after it
	latency          Histogram
	sent             int64
}

// outcomeKey groups responses.
type outcomeKey struct {
	status int // 0: no response
	code   string
}

func (k outcomeKey) String() string {
	if k.status == 0 {
		return NoAnswer
	}
	return strings.TrimSpace(strconv.Itoa(k.status) + " " + k.code)
}

func (s *sender) run(ctx context.Context) {
	defer s.conn.close()

	for n := 0; ; n++ {
		due := s.await(ctx, n)

		if ctx.Err() != nil {
			return
		}

		request := s.source.Next()
		if request == nil {
			return
		}

		s.sent++
		a, err := s.conn.do(request)
		now := time.Now()
		s.source.Done(a, err)
		s.note(a, err, now.Sub(due), s.window.isOpen(), ctx.Err() != nil)

		if err != nil {
			_ = Wait(ctx, retryPause)
		}
	}
}

// note counts a finished call. open and late report whether it finished after the warm-up and after
// the end. A late call still counts in the latency, because the slowest calls are still in flight
// at the end. A call without a response counts with at least the request timeout.
func (s *sender) note(a Answer, err error, took time.Duration, open, late bool) {
	if err != nil {
		took = max(took, requestTimeout)
	}
	if open {
		s.latency.Add(took)
	}

	measured := open && !late
	counts := s.outside

	if measured {
		counts = s.answers
	}

	if err != nil {
		s.failed.Add(1)
		counts[outcomeKey{}]++
		return
	}

	s.answered.Add(1)
	s.window.answered()

	if s.load.Successes != nil && a.Status/100 == 2 {
		s.load.Successes.Add(1)
	}

	counts[outcomeKey{a.Status, CodeOf(a.Body)}]++

	if measured {
		s.measured.Add(1)
	}
}

// await waits until the n-th request is due and returns that time. Without a rate, a request is due
// immediately. With a rate, the due time may be in the past: the delay then counts in the latency,
// as a visitor would notice it.
func (s *sender) await(ctx context.Context, n int) time.Time {
	now := time.Now()
	if s.load.Rate <= 0 {
		return now
	}
	due := s.dueAt(n)
	_ = Wait(ctx, due.Sub(now))
	return due
}

// dueAt returns the scheduled time of the n-th request.
func (s *sender) dueAt(n int) time.Time {
	position := float64(n*s.load.Connections + s.number)
	return s.window.began.Add(time.Duration(position / s.load.Rate * float64(time.Second)))
}

// countUnsent counts the requests that were due before end but not sent, because the connection was
// busy.
func (s *sender) countUnsent(end time.Time) (n int64) {
	for s.load.Rate > 0 && s.dueAt(int(s.sent+n)).Before(end) {
		n++
	}
	return n
}

// CodeOf returns the code of an error's body, {"error":"code"}, or an empty string.
func CodeOf(body []byte) string {
	const before = `{"error":"`
	if len(body) < len(before) || string(body[:len(before)]) != before {
		return ""
	}
	code, _, _ := strings.Cut(string(body[len(before):]), `"`)
	return code
}
