package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// ReportsCommand fills one site with page views, builds its reports, and measures how long the
// whole dashboard takes over HTTP, and how much it slows the collection of hits.
type ReportsCommand struct {
	Program   string        `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Dashboard string        `default:"graph/test/testdata/dashboard.graphql" placeholder:"FILE" help:"The GraphQL document to ask."`
	Engines   []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Databases: sqlite, and a private postgres."`
	Rows      int           `default:"10000000" placeholder:"N" help:"Page views of the site."`
	PerYear   int           `placeholder:"N" help:"Page views of the site in a year, of which only --days are filled in; instead of --rows."`
	Days      int           `default:"365" placeholder:"N" help:"Days over which they are spread, today included."`
	Rounds    int           `default:"40" placeholder:"N" help:"Dashboards of each case."`
	Duration  time.Duration `default:"5s" placeholder:"TIME" help:"Duration of each measurement of collection."`
	Out       string        `placeholder:"FILE" help:"Markdown file whose section is replaced by the tables."`
	Section   string        `default:"bench-reports" placeholder:"NAME" help:"Name of the section."`
	JSON      bool          `name:"json" help:"Print the measurements as JSON."`
}

const (
	maxReportDays   = 5 * 365
	maxReportRounds = 1_000

	collectRounds      = 3
	collectConnections = 64
)

// Validate checks the limits of the flags.
func (c *ReportsCommand) Validate() error {
	switch {
	case c.PerYear < 0 || c.PerYear > 1e9:
		return fmt.Errorf("--per-year: %d is not from 0 to 1000000000", c.PerYear)
	case c.Rows < 1 || c.Rows > 1e9:
		return fmt.Errorf("--rows: %d is not from 1 to 1000000000", c.Rows)
	case c.Days < 2 || c.Days > maxReportDays:
		return fmt.Errorf("--days: %d is not from 2 to %d", c.Days, maxReportDays)
	case c.Rounds < 1 || c.Rounds > maxReportRounds:
		return fmt.Errorf("--rounds: %d is not from 1 to %d", c.Rounds, maxReportRounds)
	case c.Duration <= 0 || c.Duration > time.Minute:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 1m", c.Duration)
	}
	return nil
}

// rows returns how many page views to fill in.
func (c *ReportsCommand) rows() int {
	if c.PerYear > 0 {
		return max(1, int(int64(c.PerYear)*int64(c.Days)/365))
	}
	return c.Rows
}

// reportPeriods are the measured periods, in days that end today.
var reportPeriods = []int{1, 7, 30, 90, 365}

// reportCases are the measured variants of the dashboard.
var reportCases = []struct {
	name      string
	variables map[string]any
}{
	{"all", nil},
	{"page", map[string]any{"filters": filterBy("PAGE", pathOf(10))}},
	{"channel", map[string]any{"filters": filterBy("CHANNEL", "organic search")}},
	{"property", map[string]any{"filters": []map[string]any{
		{"dimension": "PROPERTY", "property": "plan", "operator": "IS", "values": []string{"plan-1"}},
	}}},
	{"part of a path", map[string]any{"filters": []map[string]any{
		{"dimension": "PAGE", "operator": "CONTAINS", "values": []string{"article-1"}},
	}}},
	{"page left out", map[string]any{"filters": []map[string]any{
		{"dimension": "PAGE", "operator": "IS_NOT", "values": []string{pathOf(1)}},
	}}},
	{"compared", map[string]any{"compare": map[string]any{"kind": "PREVIOUS_PERIOD"}}},
}

// filterBy returns the variable of a filter.
func filterBy(dimension, value string) []map[string]any {
	return []map[string]any{{"dimension": dimension, "operator": "IS", "values": []string{value}}}
}

// ReportsReport is the measurement of one engine. Processor times include the service and the
// database.
type ReportsReport struct {
	Engine       string         `json:"engine"`
	Pageviews    int            `json:"pageviews"`
	Days         int            `json:"days"`
	FillSeconds  float64        `json:"fillSeconds"`
	BuildSeconds float64        `json:"buildSeconds"` // of all days, with the merge of their months
	BuildCPU     float64        `json:"buildCPU"`     // seconds, likewise
	DayCPU       float64        `json:"dayCPU"`       // ms for 30,000 page views of a day
	SegmentBytes int64          `json:"segmentBytes"`
	IdleMemory   int64          `json:"idleMemory"` // of the service before the first report, bytes
	PeakMemory   int64          `json:"peakMemory"` // of the service while it answers reports, bytes
	Periods      []ReportPeriod `json:"periods"`

	// Collect is the rate of hits with 10 dashboards a second as a share of the rate without.
	Collect     float64 `json:"collect"`
	CollectRate float64 `json:"collectRate"` // hits a second without dashboards
	Dashboards  float64 `json:"dashboards"`  // answered a second
}

// ReportPeriod is the measurement of one case in one period, in milliseconds.
type ReportPeriod struct {
	Days   int     `json:"days"`
	Case   string  `json:"case"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	CPU    float64 `json:"cpu"` // of one answer
}

// Run measures all engines and prints the tables.
func (c *ReportsCommand) Run(ctx context.Context, term report.Terminal) error {
	document, err := os.ReadFile(c.Dashboard)
	if err != nil {
		return err
	}
	uncached, err := uncachedDocument(string(document))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Dashboard, err)
	}

	var all []*ReportsReport
	for _, engine := range c.Engines {
		r, err := c.engine(ctx, engine, string(document), uncached, term.Log)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		all = append(all, r)
	}

	table := reportsTable(all)
	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(all)
	} else {
		_, err = io.WriteString(term.Out, table)
	}
	if err != nil || c.Out == "" {
		return err
	}
	return report.ReplaceSection(c.Out, c.Section, table)
}

// engine measures one engine.
func (c *ReportsCommand) engine(
	ctx context.Context, engine, document, uncached string, progress io.Writer,
) (*ReportsReport, error) {
	b, err := instance.New(c.Program, engine)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	// The first site gets the year, the second one the hits.
	s, err := traffic.NewOwnSession(ctx, b.Server.Target(), &traffic.Flags{Mix: "pageviews", Sites: 2, Visitors: 20_000, Seed: 1})
	if err != nil {
		return nil, err
	}
	if err := b.Server.Stop(); err != nil {
		return nil, err
	}

	r := &ReportsReport{Engine: engine, Days: c.Days}
	m := &reportsMeasurer{
		command: c, instance: b, session: s, report: r, document: document, uncached: uncached,
		siteID: s.Traffic.Sites[0].ID, progress: progress,
	}
	s.Traffic.Sites = s.Traffic.Sites[1:]
	if err := b.WithDatabase(func(d *db.DB) error { return m.prepare(ctx, d) }); err != nil {
		return nil, err
	}

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}
	idle, _ := process.Read(b.Server.Pid())
	r.IdleMemory = idle.Memory

	for _, days := range reportPeriods {
		if days > c.Days {
			break
		}
		for i := range reportCases {
			if err := m.period(ctx, days, i); err != nil {
				return nil, fmt.Errorf("%w; the server's log:\n%s", err, b.Server.Logged())
			}
		}
	}
	return r, m.collect(ctx)
}
