package report

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestOutcome checks the figures of a load, and each form in which an outcome is printed.
func TestOutcome(t *testing.T) {
	r := &load.Result{Elapsed: 2 * time.Second, Answers: map[string]int64{"204": 90, "400 bad_json": 10,
		load.NoAnswer: 100}, Unsent: 47, Cost: process.Cost{CPU: time.Second, PeakMemory: 64 << 20}}
	for i := range 100 {
		r.Latency.Add(time.Duration(i+1) * time.Millisecond)
	}
	r.CountFailed()

	o := &Outcome{Scenario: "run", Answers: r.Answers, Unexpected: map[string]int64{"500": 1}}
	c := o.Case("mix", "realistic and more", "connections", 7)
	c.AddResult(r)
	c.AddResult(r)
	o.Write("%s", c.Describe())
	if c.Get(Rate) != 50 || c.Get(Seconds) != 2 || c.Get(ServerCPU) != 10000 || c.Get(Failed) != 0.5 || c.Get(P99) < 99 ||
		c.Get(P50) > 52 || c.Get("unknown") != 0 || c.Label("unknown") != "" {
		t.Errorf("%+v", c)
	}

	printed := func(f Output) string {
		var out strings.Builder
		if err := o.Print(Terminal{Out: &out}, &f); err == nil {
			t.Error("an unexpected answer is no fault")
		}
		return out.String()
	}
	text := printed(Output{})
	for _, want := range []string{"50 calls/s over 7 connections", "unanswered: 50.000 %", "p99.9 ", "90  204\n",
		"100  no answer\n", "UNEXPECTED", "64 MB", "47 more calls were due"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	var back Outcome
	if err := json.Unmarshal([]byte(printed(Output{JSON: true})), &back); err != nil || back.Cases[0].Get(P999) != c.Get(P999) ||
		len(back.Cases[0].Figures[0].Rounds) != 2 {
		t.Errorf("%+v, %v", back, err)
	}

	// The format of https://go.dev/design/14313-benchmark-format: one line for each round.
	line := regexp.MustCompile(`^BenchmarkRun/mix=realistic_and_more/connections=7-\d+ 1( [0-9.e+-]+ [^ ]+)+$`)
	key := regexp.MustCompile(`^([a-z]+: [^ ]+|Unit [^ ]+ better=higher)$`)
	lines := 0
	for l := range strings.Lines(printed(Output{Benchmark: true})) {
		l = strings.TrimSuffix(l, "\n")
		if line.MatchString(l) && strings.Contains(l, " 20000000 ns/op 50 calls/s ") {
			lines++
		} else if !key.MatchString(l) {
			t.Errorf("not a line of a benchmark: %q", l)
		}
	}
	testkit.Equal(t, lines, 2, "lines")
}

// TestErr checks that each fault makes the outcome a failure, and that it is printed.
func TestErr(t *testing.T) {
	good := func() *Outcome {
		return &Outcome{Hits: &verify.Verdict{Acknowledged: 1}, Tokens: &captcha.Verdict{Accepted: 1}}
	}
	testkit.Succeeds(t, good().Err(), "an outcome without a fault")

	for name, test := range map[string]struct {
		spoil func(*Outcome)
		fault string // expected output
	}{
		"an unexpected answer":   {func(o *Outcome) { o.Unexpected = map[string]int64{"500 instead of 204": 1} }, "500 instead"},
		"a lost hit":             {func(o *Outcome) { o.Hits.Lost, o.Hits.Details = 1, []string{"hit x"} }, "hit x"},
		"no hit":                 {func(o *Outcome) { o.Hits.Acknowledged = 0 }, "0 acknowledged"},
		"an unchecked feature":   {func(o *Outcome) { o.Hits.Unchecked = []string{"an unknown setting"} }, "an unknown setting"},
		"a token accepted twice": {func(o *Outcome) { o.Tokens.Doubled = 1 }, "1 doubled"},
		"a token lost":           {func(o *Outcome) { o.Tokens.Lost, o.Tokens.Details = 1, []string{"token x"} }, "token x"},
		"another fault":          {func(o *Outcome) { o.Fault("a goal is missed") }, ""},
	} {
		o := good()
		test.spoil(o)
		var out strings.Builder
		if err := o.Print(Terminal{Out: &out}, new(Output)); err == nil || !strings.Contains(out.String(), test.fault) {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}

		// The sum with another outcome has the fault, too.
		all := good()
		if all.Add(o); all.Err() == nil {
			t.Errorf("%s: the sum is without a fault", name)
		}
	}

	// On an instance of the caller some checks may be impossible.
	o := good()
	o.Hits.Unchecked, o.Partial = []string{"deliveries"}, true
	testkit.Succeeds(t, o.Err(), "a check that is impossible")
}

// TestTable checks the cells of a table, and the file of figures.
func TestTable(t *testing.T) {
	o := &Outcome{Scenario: "growth"}
	first, second := o.Case("engine", "sqlite"), o.Case("engine", "postgres")
	for _, rate := range []float64{3, 1, 2} {
		first.Add(Rate, rate)
		first.Worst(Failed, rate/100)
	}
	first.Raise(Failed, 0.05)
	first.Remark("missed", "none")
	second.Add(Rate, 9)
	if o.Case("engine", "sqlite") != first || first.Sum(Rate) != 6 || first.Each(Rate, "%.0f") != "3, 1, 2" || first.Last(Rate) != 2 {
		t.Errorf("%+v", first)
	}
	o.Goal(true, "fast", "%d ms", 7)
	o.Write("%s\n%s", Table([]Column{
		{Title: "database", Format: "%s", Names: []string{"engine"}}, {Title: "rate", Format: "%.0f/s", Names: []string{Rate}},
		{Title: "failed", Of: Marked, Names: []string{Failed}}, {Title: "missed", Format: "%s", Names: []string{"missed"}},
	}, o.Cases), GoalTable(o.Goals))

	file := filepath.Join(t.TempDir(), "figures.csv")
	testkit.NoError(t, o.Print(Terminal{Out: io.Discard}, &Output{Out: file}))
	want := "database,rate,failed,missed\nsqlite,2/s,5.000 %,none\npostgres,9/s,–,–\ngoal,measured,met\nfast,7 ms,yes\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v, %s", err, got)
	}

	// An outcome with a fault leaves the file as it is.
	o.Write("more")
	o.Fault("a fault")
	if err := o.Print(Terminal{Out: io.Discard}, &Output{Out: file}); err == nil {
		t.Error("a fault is no error")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("after a fault: %v, %s", err, got)
	}
	testkit.Equal(t, Median([]float64{3, 1, 2, 9}), 2, "median")
}
