// Package cluster breaks the largest layout under load, and checks that nothing is lost: cells on
// the workers of a Citus cluster, two data planes behind HAProxy, two workers, a Redis Cluster, and
// a receiver of webhooks over TLS.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command runs the cluster, and each event in turn.
type Command struct {
	Program     string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Citus       string        `required:"" placeholder:"URL" help:"Address of the coordinator of a Citus cluster on this machine, with a superuser. Its nodes are restarted."`
	Addresses   bool          `default:"true" negatable:"" help:"Let the data planes connect to the worker of each cell."`
	Rounds      int           `default:"2" placeholder:"N" help:"Number of times that each event happens."`
	Connections int           `default:"16" placeholder:"N" help:"Concurrent browsers of each group of sites."`
	Rate        float64       `default:"200" placeholder:"N" help:"Hits a second of each group of sites."`
	Outage      time.Duration `default:"3s" placeholder:"TIME" help:"Time that a database node is down."`
	Only        string        `placeholder:"TEXT" help:"Only the events whose names contain this."`
	Seed        uint64        `default:"1" placeholder:"N" help:"Seed of the traffic."`
	Out         string        `placeholder:"FILE" help:"Markdown file whose section of the cluster is replaced."`
	JSON        bool          `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks the limits of the flags.
func (c *Command) Validate() error {
	switch {
	case c.Rounds < 1 || c.Connections < 1 || c.Connections*c.Rounds*eventCount > traffic.MaxConnections:
		return fmt.Errorf("--rounds, --connections: less than 1, or more than %d connections in all", traffic.MaxConnections)
	case c.Rounds > maxRounds:
		return fmt.Errorf("--rounds: %d is more than %d", c.Rounds, maxRounds)
	case c.Rate < 10 || c.Rate > 100_000:
		return fmt.Errorf("--rate: %v is not from 10 to 100000", c.Rate)
	case c.Outage < 100*time.Millisecond || c.Outage > time.Minute:
		return fmt.Errorf("--outage: %v is not from 100ms to 1m", c.Outage)
	}
	return nil
}

// maxRounds limits the sites that move.
const maxRounds = 20

// Outcome is the result of the command.
type Outcome struct {
	Events     []*Event         `json:"events"`
	Seconds    float64          `json:"seconds"`
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
	Captcha    *captcha.Verdict `json:"captcha"`
	Deliveries Deliveries       `json:"deliveries"`
	table      string
}

// Deliveries compares the deliveries of conversions with the receiver's calls.
type Deliveries struct {
	Stored   int64 `json:"stored"`
	Open     int64 `json:"open"`     // not delivered at the end
	Received int64 `json:"received"` // different messages
	Repeated int64 `json:"repeated"` // further calls with a message that had arrived
}

// Complete reports whether each stored delivery arrived.
func (d *Deliveries) Complete() bool {
	return d.Stored > 0 && d.Open == 0 && d.Received == d.Stored
}

// Event is what happened to the sites of each group during the occurrences of an event.
type Event struct {
	Name   string    `json:"name"`
	Took   []float64 `json:"tookSeconds"` // each occurrence
	Groups []*Effect `json:"groups"`      // in the order of groupNames
}

// Effect is what happened to the calls of a group.
type Effect struct {
	Served  int64   `json:"served"`
	Refused int64   `json:"refused"`    // with 503
	Broken  int64   `json:"broken"`     // without an answer, or HAProxy's 502 or 504
	Gap     float64 `json:"gapSeconds"` // longest time without a success
	Slowest float64 `json:"slowestSeconds"`
}

// OK reports whether no fault was found.
func (o *Outcome) OK() bool {
	return len(o.Unexpected) == 0 && o.Verdict.Complete() && o.Captcha.OK() && o.Deliveries.Complete()
}

// Run prints the outcome. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	outcome, err := c.Play(ctx, term.Log)
	if err != nil {
		return err
	}

	if err := verify.Print(term, c.JSON, outcome); err != nil || c.Out == "" {
		return err
	}
	return report.ReplaceSection(c.Out, "cluster-run", outcome.table)
}

// Print writes the outcome for people.
func (o *Outcome) Print(w io.Writer) {
	fmt.Fprint(w, o.table)
	report.PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	o.Verdict.Print(w)
	o.Captcha.Print(w)
}

// Play starts the cluster, lets the events happen under load, and verifies hits, tokens and deliveries.
func (c *Command) Play(ctx context.Context, progress io.Writer) (_ *Outcome, err error) {
	began := time.Now()
	i, err := c.install(ctx)
	if i != nil {
		defer func() { err = errors.Join(err, i.close()) }()
	}
	if err != nil {
		return nil, err
	}

	r, err := c.begin(ctx, i, progress)
	if err != nil {
		return nil, err
	}
	if err := r.play(ctx); err != nil {
		return nil, errors.Join(err, r.abandon())
	}

	outcome, err := r.finish(ctx)
	if err != nil {
		return nil, err
	}
	outcome.Seconds = time.Since(began).Seconds()
	outcome.table = c.tableOf(outcome)
	return outcome, ctx.Err()
}

// tableOf returns the outcome as a Markdown table.
func (c *Command) tableOf(o *Outcome) string {
	var b strings.Builder
	way := "writers at the addresses of the workers"
	if !c.Addresses {
		way = "writers through the coordinator"
	}
	fmt.Fprintf(&b, "%s; each event %d times, %.0f hits a second of each group, %v without a database node; %s.\n\n", report.Machine(),
		c.Rounds, c.Rate, c.Outage, way)
	fmt.Fprintf(&b, "| event | took s | %s |\n|---|---|%s\n", strings.Join(groupNames[:], " | "), strings.Repeat("---|", len(groupNames)))
	for _, e := range o.Events {
		fmt.Fprintf(&b, "| %s | %s |", e.Name, seconds(e.Took))
		for _, g := range e.Groups {
			fmt.Fprintf(&b, " %d; %d; %d; %.1f |", g.Served, g.Refused, g.Broken, g.Gap)
		}
		b.WriteString("\n")
	}

	fmt.Fprintf(&b, "\nFor each group: hits served; refused with 503; without an answer or with HAProxy's 502; the longest time without a success in seconds.\n"+
		"Of %d acknowledged hits %d were lost, %d duplicated, %d wrong. Of %d captcha tokens accepted, %d were accepted twice, %d lost.\n"+
		"Of %d conversions %d arrived, with %d repeated calls.\n",
		o.Verdict.Acknowledged, o.Verdict.Lost, o.Verdict.Duplicated, o.Verdict.Wrong,
		o.Captcha.Accepted, o.Captcha.Doubled, o.Captcha.Lost, o.Deliveries.Stored, o.Deliveries.Received, o.Deliveries.Repeated)
	return b.String()
}

func seconds(all []float64) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = fmt.Sprintf("%.1f", one)
	}
	return strings.Join(texts, ", ")
}
