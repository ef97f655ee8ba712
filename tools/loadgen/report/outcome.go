// Package report has the outcome of a scenario, and prints it for people, as JSON, as a Go
// benchmark and as CSV.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Terminal is the output of a command: results on Out, progress on Log.
type Terminal struct {
	Out, Log io.Writer
}

// Output are the flags of how an outcome is printed.
type Output struct {
	JSON      bool   `long:"json" description:"Print the outcome as JSON."`
	Benchmark bool   `long:"benchmark" description:"Print the figures as Go's benchmarks do, for benchstat."`
	Out       string `long:"out" value-name:"FILE" unquote:"false" description:"File for the tables as CSV, which is replaced if no fault was found."`
}

// Printing returns the flags, also of a scenario that embeds them.
func (f *Output) Printing() *Output { return f }

// Outcome is the result of a scenario: the figures of its cases, and the faults that it found.
type Outcome struct {
	Scenario   string           `json:"scenario"`
	Cases      []*Case          `json:"cases,omitempty"`
	Goals      []Goal           `json:"goals,omitempty"`
	Answers    map[string]int64 `json:"answers,omitempty"`
	Unexpected map[string]int64 `json:"unexpected,omitempty"` // responses that violate the contract
	Hits       *verify.Verdict  `json:"hits,omitempty"`
	Tokens     *captcha.Verdict `json:"tokens,omitempty"`
	Faults     []string         `json:"faults,omitempty"` // all others, in sentences
	Notes      []string         `json:"notes,omitempty"`  // features that could not be set up

	Partial bool   `json:"-"` // some checks may be impossible, on an instance of the caller
	Text    string `json:"-"` // the figures for people, as Markdown
}

// Goal is a goal of the project with the measured value.
type Goal struct {
	What     string `json:"what"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// Case returns the case with the labels, and adds it on first use.
func (o *Outcome) Case(labels ...any) *Case {
	wanted := NewCase(labels...)
	for _, c := range o.Cases {
		if slices.Equal(c.Labels, wanted.Labels) {
			return c
		}
	}
	o.Cases = append(o.Cases, wanted)
	return wanted
}

// Goal adds a goal.
func (o *Outcome) Goal(met bool, what, format string, measured ...any) {
	o.Goals = append(o.Goals, Goal{What: what, Measured: fmt.Sprintf(format, measured...), Met: met})
}

// Fault adds a fault that no other check finds.
func (o *Outcome) Fault(format string, args ...any) {
	o.Faults = append(o.Faults, fmt.Sprintf(format, args...))
}

// Head writes before the text.
func (o *Outcome) Head(format string, args ...any) { o.Text = fmt.Sprintf(format, args...) + o.Text }

// Write appends to the text.
func (o *Outcome) Write(format string, args ...any) { o.Text += fmt.Sprintf(format, args...) }

// Add adds the cases, the faults, the notes and the text of another outcome.
func (o *Outcome) Add(other *Outcome) {
	o.Notes = append(o.Notes, other.Notes...)
	o.Cases, o.Goals = append(o.Cases, other.Cases...), append(o.Goals, other.Goals...)
	o.Faults, o.Text = append(o.Faults, other.Faults...), o.Text+other.Text
	o.Answers = sum(o.Answers, other.Answers)
	o.AddUnexpected(other.Unexpected)
	if other.Hits != nil && other.Hits.Acknowledged == 0 || other.Tokens != nil && other.Tokens.Accepted == 0 {
		o.Fault("a part of the scenario had no acknowledged hit or no accepted token")
	}
	if other.Hits != nil {
		o.AddHits(other.Hits)
	}
	if other.Tokens != nil && o.Tokens == nil {
		o.Tokens = new(captcha.Verdict)
	}
	if other.Tokens != nil {
		o.Tokens.Add(other.Tokens)
	}
}

// AddHits adds the verdict on a journal.
func (o *Outcome) AddHits(v *verify.Verdict) {
	if o.Hits == nil {
		o.Hits = new(verify.Verdict)
	}
	o.Hits.Add(v)
}

// AddAnswers adds the answers of a load.
func (o *Outcome) AddAnswers(r *load.Result) { o.Answers = sum(o.Answers, r.Answers) }

// AddUnexpected adds responses that violate the contract.
func (o *Outcome) AddUnexpected(counts map[string]int64) { o.Unexpected = sum(o.Unexpected, counts) }

func sum(counts, more map[string]int64) map[string]int64 {
	if counts == nil && len(more) > 0 {
		counts = make(map[string]int64)
	}
	for name, n := range more {
		counts[name] += n
	}
	return counts
}

// Err returns an error if a fault was found, or if a check was not made.
func (o *Outcome) Err() error {
	var all []error
	if o.Hits != nil && !(o.Hits.Complete() || o.Partial && o.Hits.OK()) {
		all = append(all, verify.ErrFaults)
	}
	if o.Tokens != nil && !o.Tokens.OK() {
		all = append(all, captcha.ErrFaults)
	}
	if len(o.Unexpected) > 0 {
		all = append(all, errors.New("the service sent responses that violate its contract"))
	}
	for _, fault := range o.Faults {
		all = append(all, errors.New(fault))
	}
	return errors.Join(all...)
}

// Print prints the outcome as the flags say. It returns an error if a fault was found. Only an
// outcome without a fault is written into the file of figures.
func (o *Outcome) Print(term Terminal, f *Output) error {
	err := o.print(term.Out, f)
	if err = errors.Join(err, o.Err()); err != nil || f.Out == "" {
		return err
	}

	figures, err := CSV(o.Text)
	if err != nil {
		return err
	}
	return os.WriteFile(f.Out, []byte(figures), 0o644)
}

func (o *Outcome) print(w io.Writer, f *Output) error {
	switch {
	case f.JSON:
		return json.NewEncoder(w).Encode(o)
	case f.Benchmark:
		fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: loadgen\nUnit %s better=higher\n", runtime.GOOS, runtime.GOARCH, Rate)
		for _, c := range o.Cases {
			fmt.Fprint(w, c.benchmark(o.Scenario))
		}
		return nil
	}
	o.printText(w)
	return nil
}

// printText prints the outcome for people.
func (o *Outcome) printText(w io.Writer) {
	for _, note := range o.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	fmt.Fprint(w, o.Text)
	PrintCounts(w, "answers", o.Answers)
	PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	if o.Hits != nil {
		o.Hits.Print(w)
	}
	if o.Tokens != nil {
		o.Tokens.Print(w)
	}
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

// Column is a column of a table: a format with labels and figures of the case.
type Column struct {
	Title  string
	Format string                     // for example "%s" of a label, or "%.1f + %.1f" of two figures
	Names  []string                   // of the labels, and units of the figures
	Of     func(value float64) string // formats one figure; nil: Format
}

// Table returns cases as a Markdown table.
func Table(columns []Column, cases []*Case) string {
	titles, cells := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		titles[i] = column.Title
	}

	text := "| " + strings.Join(titles, " | ") + " |\n|" + strings.Repeat("---|", len(columns)) + "\n"
	for _, c := range cases {
		for i := range columns {
			cells[i] = columns[i].cell(c)
		}
		text += "| " + strings.Join(cells, " | ") + " |\n"
	}
	return text
}

// cell returns a case's cell, or a dash without the figures.
func (column *Column) cell(c *Case) string {
	var values []any
	for _, name := range column.Names {
		switch {
		case column.Of != nil && c.Has(name):
			return column.Of(c.Get(name))
		case c.Has(name):
			values = append(values, c.Get(name))
		case c.Label(name) != "":
			values = append(values, c.Label(name))
		default:
			return "–"
		}
	}
	return fmt.Sprintf(column.Format, values...)
}

// GoalTable returns goals as a Markdown table.
func GoalTable(goals []Goal) string {
	text := "| goal | measured | met |\n|---|---|---|\n"
	for _, g := range goals {
		text += fmt.Sprintf("| %s | %s | %s |\n", g.What, g.Measured, YesNo(g.Met))
	}
	return text
}
