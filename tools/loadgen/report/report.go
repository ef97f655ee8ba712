// Package report prints the results of a load and formats measurements for Markdown pages.
package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
)

// Report is the outcome of a run. Durations are in milliseconds, memory in bytes.
type Report struct {
	Connections int              `json:"connections"`
	Seconds     float64          `json:"seconds"`
	Throughput  float64          `json:"throughput"`       // processed calls per second
	FailedShare float64          `json:"failedShare"`      // share of calls with status 503, 429 or no response
	Unsent      int64            `json:"unsent,omitempty"` // calls that were due but not sent
	Latency     latencyReport    `json:"latencyMs"`
	Answers     map[string]int64 `json:"answers"`
	Unexpected  map[string]int64 `json:"unexpected,omitempty"` // responses that violate the contract
	CPU         float64          `json:"cpuMicrosPerHit,omitempty"`
	PeakMemory  int64            `json:"peakMemory,omitempty"`
	Notes       []string         `json:"notes,omitempty"` // features that could not be set up
}

type latencyReport struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// New returns the report of a result.
func New(r *load.Result, connections int) *Report {
	report := &Report{
		Connections: connections,
		Seconds:     r.Elapsed.Seconds(),
		Throughput:  r.Throughput(),
		FailedShare: r.FailedShare(),
		Unsent:      r.Unsent,
		Latency: latencyReport{
			P50:  Milliseconds(r.Latency.Quantile(0.5)),
			P95:  Milliseconds(r.Latency.Quantile(0.95)),
			P99:  Milliseconds(r.Latency.Quantile(0.99)),
			P999: Milliseconds(r.Latency.Quantile(0.999)),
			Max:  Milliseconds(r.Latency.Max),
		},
		Answers:    r.Answers,
		PeakMemory: r.Cost.PeakMemory,
	}

	if served := r.Served(); served > 0 {
		report.CPU = float64(r.Cost.CPU.Microseconds()) / float64(served)
	}

	return report
}

// Milliseconds converts a duration, with a resolution of a microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "%.0f calls/s over %d connections in %.1f s; refused temporarily or unanswered: %s\n",
		r.Throughput, r.Connections, r.Seconds, Percent(r.FailedShare))
	fmt.Fprintf(w, "latency in ms: p50 %.2f, p95 %.2f, p99 %.2f, p99.9 %.2f, longest %.2f\n",
		r.Latency.P50, r.Latency.P95, r.Latency.P99, r.Latency.P999, r.Latency.Max)

	if r.Unsent > 0 {
		fmt.Fprintf(w, "%d more calls were due but not sent: raise --connections, or lower --rate\n", r.Unsent)
	}

	PrintCounts(w, "answers", r.Answers)
	PrintCounts(w, "UNEXPECTED answers", r.Unexpected)

	if r.CPU > 0 {
		fmt.Fprintf(w, "server: %.1f µs CPU per hit, %.0f MB memory at most\n", r.CPU, Megabytes(r.PeakMemory))
	}
}

// Check returns an error if the service sent responses that violate the contract.
func (r *Report) Check() error {
	if len(r.Unexpected) > 0 {
		return errors.New("the service sent responses that violate its contract")
	}
	return nil
}

// PrintCounts writes counts under a title, sorted by name. It writes nothing without counts.
func PrintCounts(w io.Writer, title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintln(w, title+":")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "  %9d  %s\n", counts[name], name)
	}
}

// Megabytes converts a number of bytes to units of 2^20.
func Megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
