package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// source makes the requests of one connection, one after the other.
type source interface {
	// next returns the bytes of the next request, valid until the following call; nil when there is
	// none left.
	next() []byte
	// done is told what became of it. After an error nobody knows whether the server took it.
	done(a answer, err error)
}

// load drives a server over many connections at once.
type load struct {
	addr        string        // host:port
	connections int           // each with one request under way at most
	rate        float64       // requests a second over all connections; 0: each connection sends when its last answer is in
	warmup      time.Duration // sent, but not measured
	warmAnswers int64         // the same as a number of answers, instead of the time; 0: the time counts
	duration    time.Duration // measured; 0: until the context ends or the sources have no more
	least       int64         // answers without which the measurement goes on beyond its duration
	progress    io.Writer     // gets a line each second; nil for none
	successes   *atomic.Int64 // counts answers of 2xx as they come; may be nil
	watched     []int         // processes whose cost is measured: the first one by itself, the others with their children
}

// requestTimeout bounds the wait for one answer. It is longer than a server may take.
const requestTimeout = 15 * time.Second

// patience bounds how much longer a measurement takes that has too few answers.
const patience = time.Minute

// retryPause is how long a connection waits after a failure, so that a server that is away costs no
// CPU.
const retryPause = 5 * time.Millisecond

// result is what was measured between the warm-up and the end.
type result struct {
	elapsed time.Duration
	others  int64            // calls before and after that which were worked on
	outside int64            // calls before and after that which did no work
	answers map[string]int64 // how often by status and, if there is one, error code; "no answer" for what failed
	failed  int64            // calls of answers that did no work: refused for now, or without an answer
	latency histogram        // of all calls, also those under way at the end; at a fixed rate from the moment a call was due
	unsent  int64            // calls that were due at a fixed rate, but that no connection was free for until the end
	cost    cost             // of the watched processes
}

// noAnswer is the name of requests without an answer in result.answers.
const noAnswer = "no answer"

// sent is the number of calls, answered or not.
func (r *result) sent() (n int64) {
	for _, count := range r.answers {
		n += count
	}
	return n
}

// served is the number of calls that were worked on: stored, or refused for good.
func (r *result) served() int64 { return max(r.sent()-r.failed, 0) }

// failedShare is the share of all calls, before and after the measurement as well, that did no
// work, from 0 to 1: a call that waits in vain mostly ends after it.
func (r *result) failedShare() float64 {
	failed := r.failed + r.outside
	if failed == 0 {
		return 0
	}
	return float64(failed) / float64(max(r.sent()+r.others+r.outside, failed))
}

// countFailed finds the calls that did no work by their answers.
func (r *result) countFailed() {
	for name, n := range r.answers {
		if didNoWork(name) {
			r.failed += n
		}
	}
}

// didNoWork tells by the name of an answer that nothing was promised to the call.
func didNoWork(answer string) bool {
	return answer == noAnswer || strings.HasPrefix(answer, "503") || strings.HasPrefix(answer, "429")
}

// enough is an error when too few calls were worked on to tell anything.
func (r *result) enough() error {
	if r.served() < leastAnswers {
		return fmt.Errorf("%d answers in %v, without those that refuse for now, are too few", r.served(), r.elapsed)
	}
	return nil
}

// leastAnswers is how many answers a measurement has: of fewer, no ratio means anything.
const leastAnswers = 100

// throughput is how many calls a second were worked on: it is quick to refuse one for now.
func (r *result) throughput() float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(r.served()) / r.elapsed.Seconds()
}

// run sends until the time is up or ctx ends. newSource makes the requests of each connection,
// numbered from 0.
func (l *load) run(ctx context.Context, newSource func(connection int) source) *result {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	w := newWindow(l)
	senders := make([]*sender, l.connections)
	var sending, watching sync.WaitGroup

	for i := range senders {
		senders[i] = &sender{load: l, number: i, window: w, source: newSource(i), conn: newConnection(l.addr, requestTimeout),
			answers: make(map[outcomeKey]int64), outside: make(map[outcomeKey]int64)}
	}

	for _, s := range senders {
		sending.Go(func() { s.run(ctx) })
	}

	var end time.Time
	var elapsed time.Duration
	var costs cost
	watching.Go(func() { w.warmUp(ctx) })
	watching.Go(func() { costs = l.measure(ctx, w) })
	watching.Go(func() {
		l.await(ctx, w, senders)
		end, elapsed = time.Now(), w.elapsed()
		stop()
	})

	if l.progress != nil {
		watching.Go(func() { l.report(ctx, senders, w) })
	}

	sending.Wait()

	// the sources may have ended it
	stop()
	watching.Wait()
	return collect(senders, end, elapsed, costs)
}

// await waits until the time is up and there are answers enough.
func (l *load) await(ctx context.Context, w *window, senders []*sender) {
	if l.duration <= 0 {
		<-ctx.Done()
		return
	}

	select {
	case <-ctx.Done():
		return
	case <-w.opened:
	}

	wait := l.duration
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

		if measured >= l.least || w.elapsed() > l.duration+patience {
			return
		}

		wait = 10 * time.Millisecond
	}
}

func collect(senders []*sender, end time.Time, elapsed time.Duration, costs cost) *result {
	r := &result{elapsed: elapsed, answers: make(map[string]int64), cost: costs}
	for _, s := range senders {
		r.latency.merge(&s.latency)
		r.unsent += s.countUnsent(end)
		for key, n := range s.answers {
			r.answers[key.String()] += n
		}

		for key, n := range s.outside {
			if didNoWork(key.String()) {
				r.outside += n
			} else {
				r.others += n
			}
		}
	}

	r.countFailed()
	return r
}

// measure measures the watched processes from the end of the warm-up until ctx ends.
func (l *load) measure(ctx context.Context, w *window) cost {
	select {
	case <-w.opened:
	case <-ctx.Done():
	}

	if len(l.watched) == 0 || !w.isOpen() {
		return cost{}
	}

	return watchCost(ctx, l.watched[0], l.watched[1:])
}

// report prints a line each second.
func (l *load) report(ctx context.Context, senders []*sender, w *window) {
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

		fmt.Fprintf(l.progress, "%6.0f s  %7d answers/s  %d without answer%s\n",
			time.Since(w.began).Seconds(), answers-lastAnswers, failures-lastFailures, phase)

		lastAnswers, lastFailures = answers, failures
	}
}

// sender is one connection with its part of the result.
type sender struct {
	load   *load
	number int
	window *window
	source source
	conn   *connection

	answered, failed atomic.Int64         // for the progress line
	measured         atomic.Int64         // answers after the warm-up
	answers, outside map[outcomeKey]int64 // those that are measured, and those before and after
	latency          histogram
	sent             int64
}

// outcomeKey is what answers are counted by.
type outcomeKey struct {
	status int // 0: none
	code   string
}

func (k outcomeKey) String() string {
	if k.status == 0 {
		return noAnswer
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

		request := s.source.next()
		if request == nil {
			return
		}

		s.sent++
		a, err := s.conn.do(request)
		now := time.Now()
		s.source.done(a, err)
		s.note(a, err, now.Sub(due), s.window.isOpen(), ctx.Err() != nil)

		if err != nil {
			s.pause(ctx, retryPause)
		}
	}
}

// note counts a call that ended after the warm-up or not, and in time or not. One that ended too
// late still took its time: the slowest calls are those that are under way at the end. Without an
// answer a call took as long as anybody would wait.
func (s *sender) note(a answer, err error, took time.Duration, open, late bool) {
	if err != nil {
		took = max(took, requestTimeout)
	}
	if open {
		s.latency.add(took)
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

	if s.load.successes != nil && a.status/100 == 2 {
		s.load.successes.Add(1)
	}

	counts[outcomeKey{a.status, codeOf(a.body)}]++

	if measured {
		s.measured.Add(1)
	}
}

// await returns when the n-th request is due. At full rate that is now. At a fixed rate it is a
// moment of the schedule, also when it has passed: a late request has waited, as a visitor would.
func (s *sender) await(ctx context.Context, n int) time.Time {
	now := time.Now()
	if s.load.rate <= 0 {
		return now
	}
	due := s.dueAt(n)
	s.pause(ctx, due.Sub(now))
	return due
}

// dueAt is the moment of the n-th request in the schedule.
func (s *sender) dueAt(n int) time.Time {
	position := float64(n*s.load.connections + s.number)
	return s.window.began.Add(time.Duration(position / s.load.rate * float64(time.Second)))
}

// countUnsent counts the requests that were due until then, but that the connection was not free
// for.
func (s *sender) countUnsent(end time.Time) (n int64) {
	for s.load.rate > 0 && s.dueAt(int(s.sent+n)).Before(end) {
		n++
	}
	return n
}

func (s *sender) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}

	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// codeOf finds the code in an error's body, {"error":"code"}.
func codeOf(body []byte) string {
	const before = `{"error":"`
	if len(body) < len(before) || string(body[:len(before)]) != before {
		return ""
	}
	code, _, _ := strings.Cut(string(body[len(before):]), `"`)
	return code
}
