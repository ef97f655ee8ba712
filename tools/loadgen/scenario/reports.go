package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/oracle"
)

// Reports fills one site with page views, builds its reports, and measures how long the whole
// dashboard takes over HTTP, and how much it slows the collection of hits. Processor times include
// the service and the database.
type Reports struct {
	Private
	Engines  []string      `long:"engines" defaults:"sqlite,postgres" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, and a private postgres. May be repeated."`
	Rows     int           `long:"rows" default:"10000000" value-name:"N" description:"Page views of the site."`
	PerYear  int           `long:"per-year" value-name:"N" description:"Page views of the site in a year, of which only --days are filled in; instead of --rows."`
	Days     int           `long:"days" default:"365" value-name:"N" description:"Days over which they are spread, today included."`
	Rounds   int           `long:"rounds" default:"40" value-name:"N" description:"Dashboards of each case."`
	Duration time.Duration `long:"duration" default:"5s" value-name:"TIME" description:"Duration of each measurement of collection."`
}

const (
	// dashboard is the GraphQL document to ask.
	dashboard = "graph/test/testdata/dashboard.graphql"

	maxReportDays = 5 * 365

	collectRounds      = 3
	collectConnections = 64
)

// Validate checks the limits of the flags.
func (c *Reports) Validate() error {
	return errors.Join(within("--per-year", c.PerYear, 0, 1e9), within("--rows", c.Rows, 1, 1e9),
		within("--days", c.Days, 2, maxReportDays), within("--rounds", c.Rounds, 1, 1_000),
		within("--duration", c.Duration, shortest, time.Minute))
}

// rows returns how many page views to fill in.
func (c *Reports) rows() int {
	if c.PerYear > 0 {
		return max(1, int(int64(c.PerYear)*int64(c.Days)/365))
	}
	return c.Rows
}

// reportPeriods are the measured periods, in days that end today.
var reportPeriods = []int{1, 7, 30, 90, 365}

// reportVariant is a variant of the dashboard.
type reportVariant struct {
	name      string
	variables map[string]any
}

// allVariant is the variant without a filter.
const allVariant = "all"

var reportVariants = []reportVariant{
	{allVariant, nil},
	{"page", map[string]any{"filters": filterBy("PAGE", oracle.BusyPath(10))}},
	{"channel", map[string]any{"filters": filterBy("CHANNEL", "organic search")}},
	{"property", map[string]any{"filters": []map[string]any{
		{"dimension": "PROPERTY", "property": "plan", "operator": "IS", "values": []string{"plan-1"}},
	}}},
	{"part of a path", map[string]any{"filters": []map[string]any{
		{"dimension": "PAGE", "operator": "CONTAINS", "values": []string{"article-1"}},
	}}},
	{"page left out", map[string]any{"filters": []map[string]any{
		{"dimension": "PAGE", "operator": "IS_NOT", "values": []string{oracle.BusyPath(1)}},
	}}},
	{"compared", map[string]any{"compare": map[string]any{"kind": "PREVIOUS_PERIOD"}}},
}

// filterBy returns the variable of a filter.
func filterBy(dimension, value string) []map[string]any {
	return []map[string]any{{"dimension": dimension, "operator": "IS", "values": []string{value}}}
}

// The units of the figures of reports.
const (
	dashboardCPU = "dashboard-cpu-ms" // of one answer
	goalMs       = "goal-ms"          // longest p95
	ofGoal       = "p95-of-goal"

	buildTime    = "build-s" // of all days, with the merge of their months
	buildCPU     = "build-cpu-s"
	dayCPU       = "day-cpu-ms" // for 30,000 page views of a day
	segmentBytes = "segments-B"
	collected    = "collect-of-rate-without" // rate of hits with 10 dashboards a second
	collectRate  = "hits/s"                  // without dashboards
	dashboards   = "dashboards/s"            // answered
)

// unitOf returns the unit of a variant's latency.
func unitOf(variant, unit string) string {
	if variant == allVariant {
		return unit
	}
	return strings.ReplaceAll(variant, " ", "-") + "-" + unit
}

var reportColumns = []report.Column{
	{Title: "database", Format: "%s", Names: []string{"engine"}},
	{Title: "page views of the site", Format: "%s in %s days", Names: []string{"pageviews", "days"}},
	{Title: "period", Format: "%s", Names: []string{"period"}},
	{Title: "goal, p95", Format: "%.0f", Names: []string{goalMs}},
	{Title: "p50", Format: "%.0f", Names: []string{report.P50}},
	{Title: "p95", Format: "%.0f", Names: []string{report.P95}},
	{Title: "met", Of: func(share float64) string { return report.YesNo(share <= 1) }, Names: []string{ofGoal}},
	{Title: "p95 with a filter by page", Format: "%.0f", Names: []string{unitOf("page", report.P95)}},
	{Title: "by channel", Format: "%.0f", Names: []string{unitOf("channel", report.P95)}},
	{Title: "p95 with a comparison", Format: "%.0f", Names: []string{unitOf("compared", report.P95)}},
	{Title: "processor time", Format: "%.0f", Names: []string{dashboardCPU}},
}

// busyDay is the number of page views a day from which separate goals apply to a site's reports.
const busyDay = 200_000

// reportGoal returns the longest p95 of a dashboard in milliseconds, or 0 if there is no goal.
func reportGoal(perDay, days int) float64 {
	switch {
	case perDay >= busyDay && days <= 30:
		return 400
	case perDay >= busyDay:
		return 0
	case days <= 30:
		return 50
	case days <= 92:
		return 100
	default:
		return 250
	}
}

// Play implements Scenario.
func (c *Reports) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	document, err := os.ReadFile(dashboard)
	if err != nil {
		return nil, err
	}
	uncached, err := uncachedDocument(string(document))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dashboard, err)
	}

	o := &report.Outcome{Scenario: "reports"}
	for _, engine := range c.Engines {
		if err := c.on(engine, o, progress, func(s *stage) error {
			m := &reportsMeasurer{Reports: c, stage: s, document: string(document), uncached: uncached,
				all: s.outcome.Case("engine", engine)}
			return m.play(ctx)
		}); err != nil {
			return nil, err
		}
	}

	periods := slices.DeleteFunc(slices.Clone(o.Cases), func(one *report.Case) bool { return one.Label("period") == "" })
	o.Head("%s, client, server and database on the same cores. Durations are in ms.\n\n%s\n%s\n", report.Machine(),
		report.Table(reportColumns, periods), report.GoalTable(o.Goals))
	return o, nil
}

// reportsMeasurer measures one engine.
type reportsMeasurer struct {
	*Reports
	*stage
	document  string
	uncached  string // see uncachedDocument
	asked     int    // uncached documents
	siteID    string // of the filled site
	pageviews int    // of the filled site

	all *report.Case // of the whole engine
}

// play measures the engine.
func (m *reportsMeasurer) play(ctx context.Context) error {
	in := m.in
	if err := in.Server.Start(ctx); err != nil {
		return err
	}

	// The first site gets the year, the second one the hits.
	if err := m.open(ctx, in.Server, standard("pageviews", 2)); err != nil {
		return err
	}
	if err := in.Server.Stop(); err != nil {
		return err
	}
	m.siteID, m.session.Traffic.Sites = m.session.Traffic.Sites[0].ID, m.session.Traffic.Sites[1:]
	if err := in.WithDatabase(func(d *db.DB) error { return m.prepare(ctx, d) }); err != nil {
		return err
	}

	if err := in.Server.Start(ctx); err != nil {
		return err
	}
	m.all.Add(idleMemory, float64(process.Memory(in.Server.Pid())))
	for _, days := range reportPeriods {
		if days > m.Days {
			break
		}
		if err := m.period(ctx, days); err != nil {
			return fmt.Errorf("%w; the server's log:\n%s", err, in.Server.Logged())
		}
	}
	if err := m.collect(ctx); err != nil {
		return err
	}
	m.conclude()
	return nil
}

// conclude adds the goals of the whole engine to the outcome, and writes its sentence.
func (m *reportsMeasurer) conclude() {
	o, all := m.outcome, m.all
	o.Goal(all.Get(dayCPU) <= 100, m.engine+": at most 100 ms of processor time to build a day of 30,000 page views", "%.0f ms", all.Get(dayCPU))
	o.Goal(all.Get(collected) >= 0.9, m.engine+": hits with 10 dashboards of 30 days a second at least 0.90 of the rate without",
		"%.2f of %.0f/s with %.1f/s", all.Get(collected), all.Get(collectRate), all.Get(dashboards))
	o.Write("%s: filled in %.0f s; all reports built in %.0f s with %.0f s of processor time; segments of %.0f MB, %.1f bytes a page view; memory %.0f MB before the first report, at most %.0f MB.\n",
		m.engine, all.Get(fillTime), all.Get(buildTime), all.Get(buildCPU), report.Megabytes(all.Get(segmentBytes)),
		all.Get(segmentBytes)/float64(max(m.pageviews, 1)), report.Megabytes(all.Get(idleMemory)), report.Megabytes(all.Get(report.Memory)))
}
