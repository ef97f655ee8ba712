package report

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
)

// The units of the figures that every load has.
const (
	Rate        = "calls/s"          // processed calls
	Seconds     = "s"                // duration of the measurement
	P50         = "p50-ms"           // latencies of all calls
	P95         = "p95-ms"           //
	P99         = "p99-ms"           //
	P999        = "p99.9-ms"         //
	Longest     = "max-ms"           //
	Failed      = "failed"           // share of calls with status 503, 429 or no response
	Sent        = "sent-calls"       // answered or not
	Unsent      = "unsent-calls"     // due at a fixed rate, but not sent
	ServerCPU   = "server-us/call"   // processor time
	DatabaseCPU = "database-us/call" //
	Memory      = "memory-B"         // of the server, at most
)

// Case is the measurement of one case of a scenario, in one or several rounds.
type Case struct {
	Labels  []Label   `json:"labels,omitempty"`
	Remarks []Label   `json:"remarks,omitempty"` // results in words, which do not distinguish cases
	Figures []*Figure `json:"figures"`
}

// Label is a property of a case, such as its database.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Figure is a quantity in a unit.
type Figure struct {
	Unit   string    `json:"unit"`
	Value  float64   `json:"value"` // the median of the rounds, or the largest value
	Rounds []float64 `json:"rounds"`
}

// NewCase returns a case with labels, which are given as pairs of a name and a value.
func NewCase(labels ...any) *Case {
	c := &Case{}
	for pair := range slices.Chunk(labels, 2) {
		c.Labels = append(c.Labels, Label{Name: fmt.Sprint(pair[0]), Value: fmt.Sprint(pair[1])})
	}
	return c
}

// Add adds the value of one round. The figure is the median of all rounds.
func (c *Case) Add(unit string, value float64) {
	f := c.figure(unit)
	f.Rounds = append(f.Rounds, value)
	f.Value = Median(slices.Clone(f.Rounds))
}

// Worst adds the value of one round. The figure is the largest value of all rounds.
func (c *Case) Worst(unit string, value float64) {
	f := c.figure(unit)
	f.Rounds = append(f.Rounds, value)
	f.Value = slices.Max(f.Rounds)
}

// Raise raises the value of the last round. It is for a second measurement in the round of a Worst.
func (c *Case) Raise(unit string, value float64) {
	f := c.figure(unit)
	if last := len(f.Rounds) - 1; last >= 0 {
		f.Rounds[last] = max(f.Rounds[last], value)
		f.Value = slices.Max(f.Rounds)
	}
}

// AddResult adds a round with all figures of a load. Figures that were not measured are left out.
func (c *Case) AddResult(r *load.Result) {
	c.Add(Rate, r.Throughput())
	c.Add(Seconds, r.Elapsed.Seconds())
	c.Worst(Failed, r.FailedShare())
	c.Add(Sent, float64(r.Sent()))
	c.Worst(Unsent, float64(r.Unsent))

	for _, latency := range []struct {
		unit  string
		share float64
	}{{P50, 0.5}, {P95, 0.95}, {P99, 0.99}, {P999, 0.999}} {
		c.Add(latency.unit, Milliseconds(r.Latency.Quantile(latency.share)))
	}
	c.Worst(Longest, Milliseconds(r.Latency.Max))

	if served := float64(r.Served()); served > 0 && r.Cost.CPU > 0 {
		c.Add(ServerCPU, float64(r.Cost.CPU.Microseconds())/served)
		c.Add(DatabaseCPU, float64(r.Cost.OtherCPU.Microseconds())/served)
	}
	if r.Cost.PeakMemory > 0 {
		c.Worst(Memory, float64(r.Cost.PeakMemory))
	}
}

// Get returns the value of a figure, or 0 without the figure.
func (c *Case) Get(unit string) float64 {
	if i := c.index(unit); i >= 0 {
		return c.Figures[i].Value
	}
	return 0
}

// Has reports whether the case has a figure.
func (c *Case) Has(unit string) bool { return c.index(unit) >= 0 }

// Last returns the value of a figure in the last round, or 0 without the figure.
func (c *Case) Last(unit string) float64 {
	if i := c.index(unit); i >= 0 {
		rounds := c.Figures[i].Rounds
		return rounds[len(rounds)-1]
	}
	return 0
}

// Sum returns the sum of a figure's rounds.
func (c *Case) Sum(unit string) (sum float64) {
	if i := c.index(unit); i >= 0 {
		for _, value := range c.Figures[i].Rounds {
			sum += value
		}
	}
	return sum
}

// Each returns a figure's rounds, each in a format.
func (c *Case) Each(unit, format string) string {
	var all []string
	if i := c.index(unit); i >= 0 {
		for _, value := range c.Figures[i].Rounds {
			all = append(all, fmt.Sprintf(format, value))
		}
	}
	return strings.Join(all, ", ")
}

// Remark adds a result in words.
func (c *Case) Remark(name, text string) {
	c.Remarks = append(c.Remarks, Label{Name: name, Value: text})
}

// Label returns the value of a label or a remark, or an empty string.
func (c *Case) Label(name string) string {
	for _, l := range append(slices.Clone(c.Labels), c.Remarks...) {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

func (c *Case) index(unit string) int {
	return slices.IndexFunc(c.Figures, func(f *Figure) bool { return f.Unit == unit })
}

// figure returns a figure, and adds it on first use.
func (c *Case) figure(unit string) *Figure {
	if i := c.index(unit); i >= 0 {
		return c.Figures[i]
	}
	f := &Figure{Unit: unit}
	c.Figures = append(c.Figures, f)
	return f
}

// Describe returns the figures of a load in sentences.
func (c *Case) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.0f calls/s over %s connections in %.1f s; refused temporarily or unanswered: %s\n",
		c.Get(Rate), c.Label("connections"), c.Get(Seconds), Percent(c.Get(Failed)))
	fmt.Fprintf(&b, "latency in ms: p50 %.2f, p95 %.2f, p99 %.2f, p99.9 %.2f, longest %.2f\n",
		c.Get(P50), c.Get(P95), c.Get(P99), c.Get(P999), c.Get(Longest))

	if unsent := c.Get(Unsent); unsent > 0 {
		fmt.Fprintf(&b, "%.0f more calls were due but not sent: raise --connections, or lower --rate\n", unsent)
	}
	if c.Has(ServerCPU) {
		fmt.Fprintf(&b, "server: %.1f µs CPU per hit, %.0f MB memory at most\n", c.Get(ServerCPU),
			c.Get(Memory)/(1<<20))
	}
	return b.String()
}

// benchmark returns the case as lines of a Go benchmark, one for each round.
func (c *Case) benchmark(scenario string) string {
	name := "Benchmark" + strings.ToUpper(scenario[:1]) + scenario[1:]
	for _, l := range c.Labels {
		name += "/" + strings.Join(strings.Fields(l.Name+"="+strings.ReplaceAll(l.Value, "/", "-")), "_")
	}
	name += fmt.Sprintf("-%d", runtime.GOMAXPROCS(0))

	var b strings.Builder
	for round := 0; ; round++ {
		line := ""
		for _, f := range c.Figures {
			if round >= len(f.Rounds) {
				continue
			}
			value := f.Rounds[round]
			if f.Unit == Rate && value > 0 {
				line += fmt.Sprintf(" %.0f ns/op", 1e9/value)
			}
			line += fmt.Sprintf(" %.6g %s", value, f.Unit)
		}
		if line == "" {
			return b.String()
		}
		fmt.Fprintf(&b, "%s 1%s\n", name, line)
	}
}

// Milliseconds converts a duration, with a resolution of a microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Megabytes converts a number of bytes to units of 2^20.
func Megabytes[N int64 | float64](bytes N) float64 { return float64(bytes) / (1 << 20) }
