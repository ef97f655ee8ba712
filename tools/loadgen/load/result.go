package load

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/process"
)

// Result is the outcome of a load between the warm-up and the end.
type Result struct {
	Elapsed time.Duration
	Others  int64            // processed calls before and after the measurement
	Outside int64            // failed calls before and after the measurement
	Answers map[string]int64 // calls by status and error code, or NoAnswer
	Failed  int64            // calls in Answers that were refused temporarily or got no response
	Latency Histogram        // of all calls, including calls in flight at the end; at a fixed rate, from the due time
	Unsent  int64            // calls that were due at a fixed rate but not sent before the end
	Cost    process.Cost     // of the watched processes
}

// NoAnswer is the key of calls without a response in Result.Answers.
const NoAnswer = "no answer"

// Sent returns the number of measured calls, answered or not.
func (r *Result) Sent() (n int64) {
	for _, count := range r.Answers {
		n += count
	}
	return n
}

// Served returns the number of measured calls that were processed: stored, or refused permanently.
func (r *Result) Served() int64 { return max(r.Sent()-r.Failed, 0) }

// FailedShare returns the share of failed calls, from 0 to 1. It includes the calls before and
// after the measurement, because a call that times out mostly ends after it.
func (r *Result) FailedShare() float64 {
	failed := r.Failed + r.Outside
	if failed == 0 {
		return 0
	}
	return float64(failed) / float64(max(r.Sent()+r.Others+r.Outside, failed))
}

// CountFailed sets Failed from Answers.
func (r *Result) CountFailed() {
	for name, n := range r.Answers {
		if didNoWork(name) {
			r.Failed += n
		}
	}
}

// didNoWork reports whether an answer's name stands for a temporary refusal or a missing response.
func didNoWork(answer string) bool {
	return answer == NoAnswer || strings.HasPrefix(answer, "503") || strings.HasPrefix(answer, "429")
}

// Enough returns an error if too few calls were processed for a meaningful ratio.
func (r *Result) Enough() error {
	if r.Served() < MinAnswers {
		return fmt.Errorf("%d answers in %v, not counting temporary refusals, are too few", r.Served(), r.Elapsed)
	}
	return nil
}

// AllAccepted returns an error unless there were enough calls and each got status 204, as from the
// empty handler.
func (r *Result) AllAccepted() error {
	if err := r.Enough(); err != nil || r.Answers["204"] != r.Sent() {
		return errors.Join(err, fmt.Errorf("the empty handler answers %v", r.Answers))
	}
	return nil
}

// MinAnswers is the fewest processed calls of a meaningful measurement.
const MinAnswers = 100

// Throughput returns the processed calls per second. Temporary refusals are left out, because they
// are cheap.
func (r *Result) Throughput() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Served()) / r.Elapsed.Seconds()
}

// Merge adds the result of another measurement.
func (r *Result) Merge(other *Result) {
	r.Elapsed += other.Elapsed
	r.Failed += other.Failed
	r.Others += other.Others
	r.Outside += other.Outside
	r.Unsent += other.Unsent
	if r.Answers == nil {
		r.Answers = make(map[string]int64)
	}

	for name, n := range other.Answers {
		r.Answers[name] += n
	}

	r.Latency.Merge(&other.Latency)
	r.Cost.CPU += other.Cost.CPU
	r.Cost.OtherCPU += other.Cost.OtherCPU
	r.Cost.PeakMemory = max(r.Cost.PeakMemory, other.Cost.PeakMemory)
	r.Cost.OwnMemory = max(r.Cost.OwnMemory, other.Cost.OwnMemory)
	r.Cost.ChildMemory = max(r.Cost.ChildMemory, other.Cost.ChildMemory)
}

// AddSince adds the time since began to the elapsed time. It is for steps that no Load drives.
func (r *Result) AddSince(began time.Time) { r.Elapsed += time.Since(began) }
