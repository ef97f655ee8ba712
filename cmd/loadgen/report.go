package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// report is the outcome of a run. Durations are in milliseconds, memory in bytes.
type report struct {
	Connections int              `json:"connections"`
	Seconds     float64          `json:"seconds"`
	Throughput  float64          `json:"throughput"`       // calls a second that were worked on
	FailedShare float64          `json:"failedShare"`      // of the calls: 503, 429 or no answer
	Unsent      int64            `json:"unsent,omitempty"` // calls that were due, but that no connection was free for
	Latency     latencyReport    `json:"latencyMs"`
	Answers     map[string]int64 `json:"answers"`
	Unexpected  map[string]int64 `json:"unexpected,omitempty"` // answers that the hit cannot explain
	CPU         float64          `json:"cpuMicrosPerHit,omitempty"`
	PeakMemory  int64            `json:"peakMemory,omitempty"`
	Notes       []string         `json:"notes,omitempty"` // what could not be set up
}

type latencyReport struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func newReport(r *result, connections int) *report {
	report := &report{
		Connections: connections,
		Seconds:     r.elapsed.Seconds(),
		Throughput:  r.throughput(),
		FailedShare: r.failedShare(),
		Unsent:      r.unsent,
		Latency: latencyReport{
			P50:  milliseconds(r.latency.quantile(0.5)),
			P95:  milliseconds(r.latency.quantile(0.95)),
			P99:  milliseconds(r.latency.quantile(0.99)),
			P999: milliseconds(r.latency.quantile(0.999)),
			Max:  milliseconds(r.latency.largest),
		},
		Answers:    r.answers,
		PeakMemory: r.cost.PeakMemory,
	}

	if served := r.served(); served > 0 {
		report.CPU = float64(r.cost.CPU.Microseconds()) / float64(served)
	}

	return report
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%.0f calls/s over %d connections in %.1f s; refused for now or unanswered: %s\n", r.Throughput, r.Connections, r.Seconds, percent(r.FailedShare))
	fmt.Fprintf(w, "latency in ms: p50 %.2f, p95 %.2f, p99 %.2f, p99.9 %.2f, longest %.2f\n",
		r.Latency.P50, r.Latency.P95, r.Latency.P99, r.Latency.P999, r.Latency.Max)

	if r.Unsent > 0 {
		fmt.Fprintf(w, "%d more calls were due, but no connection was free for them: --connections are too few for --rate\n", r.Unsent)
	}

	printCounts(w, "answers", r.Answers)
	printCounts(w, "UNEXPECTED answers", r.Unexpected)

	if r.CPU > 0 {
		fmt.Fprintf(w, "server: %.1f µs CPU per hit, %.0f MB memory at most\n", r.CPU, megabytes(r.PeakMemory))
	}
}

// check fails if the service gave answers that nothing explains.
func (r *report) check() error {
	if len(r.Unexpected) > 0 {
		return errors.New("the service gave answers that it must not give")
	}
	return nil
}

func printCounts(w io.Writer, title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintln(w, title+":")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "  %9d  %s\n", counts[name], name)
	}
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
